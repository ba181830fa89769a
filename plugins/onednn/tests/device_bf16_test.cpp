// onednn::Device in bf16, and in fp16, which it emulates: bits of the reference device where sums
// are exact, derived bounds where they are not, master weights, layouts, gradients that fp16
// flushes, and what it says on CPUs without bf16.
#include <gx/onednn/device.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>   // fill
#include <cmath>       // NAN
#include <cstdlib>     // setenv
#include <functional>  // builders of graphs

#include <gx/core/element.hpp>            // bf16
#include <gx/model/cifar_resnet.hpp>      // FashionResNet
#include <gx/model/inception.hpp>         // Module
#include <gx/model/lenet.hpp>             // LeNet
#include <gx/model/sequence.hpp>          // concat
#include <gx/onednn/detail/cpu_bf16.hpp>  // expect_bf16, bf16_advice

#include "agreement.hpp"

using agreement::Data;
using gx::bf16;
using gx::ElementType;
using gx::fp16;
using gx::Graph;
using gx::GraphBuilder;
using gx::Mode;
using gx::Window;
using gx::onednn::ChannelOrder;
using gx::onednn::detail::Bf16Unit;
using gx::onednn::detail::CpuBf16;
using Floats = std::vector<float>;

namespace {

template <class E = bf16>
float rounded(float x) {
    return E::decode(E::encode(x));
}

/// Tests of what the device computes; a CPU without bf16 has only the sentence that refuses it.
class OneDnnInBf16 : public ::testing::Test {
protected:
    void SetUp() override {
        if (gx::onednn::detail::cpu_bf16().unit == Bf16Unit::none)
            GTEST_SKIP() << "this CPU has no instructions for bf16";
    }
};

template <class D, class E = bf16, class... Tuning>
D make(const Graph& g, int batch, const Tuning&... tuning) {
    return D(g, {.batch = batch, .seed = 7, .compute = gx::element_type<E>}, tuning...);
}
template <class D>
void forward(D& d, const Data& data) {
    static_cast<void>(d.forward(data.batch(3), Mode::train));
}
template <class D>
Floats backward(D& d, float scale = 1) {
    Floats g(d.parameters().size(), -1.0f);
    d.backward(scale, g, [](std::size_t) {});
    return g;
}

// ---- Small integers: no sum rounds, so that only what is stored does ----------------------

struct Layer {
    const char* name;
    gx::ImageShape input;
    std::function<int(GraphBuilder&, int)> append;
    /// A gradient has two readers: each one's share is rounded, then their sum, where the reference
    /// device adds the second before it rounds. Only integers that bf16 holds are equal then.
    bool adds = false;
};
Graph lower(const Layer& layer) {
    GraphBuilder b(layer.name, layer.input, 5);
    b.softmax_cross_entropy(b.linear(b.flatten(layer.append(b, 0), "flatten"), 5, true, "last"), 0,
                            "loss");
    return std::move(b).finish();
}
int conv(GraphBuilder& b, int x, int channels, Window w, bool bias = false, int groups = 1) {
    static constexpr std::array names{"conv0", "conv1", "conv2", "conv3", "conv4", "conv5"};
    return b.conv2d(x, {channels, w, groups, bias}, names[static_cast<std::size_t>(x)]);
}
const std::vector<Layer>& layers() {
    static const std::vector<Layer> all{
        {"linear",
         {3, 5, 5},
         [](GraphBuilder& b, int x) {
             return b.relu(b.linear(b.flatten(x, "f"), 33, true, "one"), "relu");
         }},
        {"stem of 1 channel",
         {1, 9, 9},
         [](GraphBuilder& b, int x) { return conv(b, x, 16, Window::square(3, 1, 1)); }},
        {"stem of 3 channels",
         {3, 10, 8},
         [](GraphBuilder& b, int x) { return conv(b, x, 6, Window::square(5, 2, 2), true); }},
        {"input of 5 channels",
         {5, 7, 7},
         [](GraphBuilder& b, int x) { return conv(b, x, 20, Window::square(3, 1, 1), true); }},
        {"odd channels",
         {3, 9, 9},
         [](GraphBuilder& b, int x) {
             return conv(b, conv(b, x, 6, Window::square(3, 1, 1), true), 10,
                         Window::square(3, 1, 1), true);
         }},
        {"strided",
         {3, 11, 11},
         [](GraphBuilder& b, int x) {
             x = b.relu(conv(b, x, 16, Window::square(3, 1, 1)), "relu");
             return conv(b, x, 24, Window::square(3, 2, 1));
         }},
        {"1x1 strided",
         {3, 8, 8},
         [](GraphBuilder& b, int x) {
             return conv(b, conv(b, x, 16, Window::square(3, 1, 1)), 32, Window::square(1, 2, 0));
         }},
        {"1x1 of every third pixel, sides that leave pixels over",
         {3, 9, 11},
         [](GraphBuilder& b, int x) {
             return conv(b, conv(b, x, 32, Window::square(3, 1, 1)), 64, Window::square(1, 3, 0));
         }},
        {"whole pairs of tiles",
         {3, 9, 7},
         [](GraphBuilder& b, int x) {
             return conv(b, conv(b, x, 32, Window::square(1)), 64, Window::square(3, 1, 1));
         }},
        {"whole pairs of tiles, strided rows of taps",
         {3, 6, 9},
         [](GraphBuilder& b, int x) {
             return conv(b, conv(b, x, 64, Window::square(1)), 32,
                         {.height = 1, .width = 5, .stride = 2, .pad_width = 2});
         }},
        {"two groups",
         {3, 8, 8},
         [](GraphBuilder& b, int x) {
             return conv(b, conv(b, x, 32, Window::square(3, 1, 1)), 64, Window::square(3, 1, 1),
                         true, 2);
         }},
        {"32 groups of 4 channels",
         {3, 8, 8},
         [](GraphBuilder& b, int x) {
             return conv(b, conv(b, x, 128, Window::square(1)), 128, Window::square(3, 2, 1), true,
                         32);
         }},
        {"3 groups of 12 and 4 channels",
         {3, 6, 6},
         [](GraphBuilder& b, int x) {
             return conv(b, conv(b, x, 36, Window::square(1)), 12, Window::square(3, 1, 1), true,
                         3);
         }},
        {"two groups that become one, few channels",
         {3, 6, 6},
         [](GraphBuilder& b, int x) {
             return conv(b, conv(b, x, 16, Window::square(3, 1, 1)), 32, Window::square(1), false,
                         2);
         }},
        {"a group for each channel",
         {3, 8, 8},
         [](GraphBuilder& b, int x) {
             return conv(b, conv(b, x, 20, Window::square(1)), 20, Window::square(3, 1, 1), false,
                         20);
         }},
        {"a group for each of 3 channels",
         {3, 8, 8},
         [](GraphBuilder& b, int x) {
             return conv(b, conv(b, x, 3, Window::square(1)), 3, Window::square(7, 1, 3), false, 3);
         }},
        {"joined branches of whole blocks",
         {3, 7, 7},
         [](GraphBuilder& b, int x) {
             const int y = b.conv2d(x, {16, Window::square(3, 1, 1)}, "left");
             const int z = b.conv2d(x, {32, Window::square(1)}, "right");
             return gx::concat(b, y, z, "join");
         }},
        {"a list of joined branches, of the image too",
         {3, 7, 7},
         [](GraphBuilder& b, int x) {
             const int y = b.conv2d(x, {20, Window::square(3, 1, 1)}, "left");
             const int z = b.conv2d(x, {7, {1, 3, 1, 0, 1}}, "right");
             const int list = gx::concat(b, gx::concat(b, y, x, "one"), z, "two");
             return b.conv2d(b.relu(list, "relu"), {9, Window::square(1)}, "last conv");
         }},
        {"a residual",
         {3, 6, 6},
         [](GraphBuilder& b, int x) {
             x = b.relu(conv(b, x, 16, Window::square(1)), "relu0");
             return b.relu(b.add(x, conv(b, x, 16, Window::square(1)), "add"), "relu1");
         },
         true},
        {"largest of 3x3",
         {3, 11, 11},
         [](GraphBuilder& b, int x) {
             return b.max_pool(b.relu(conv(b, x, 20, Window::square(3, 1, 1)), "relu"),
                               Window::square(3, 2, 1), "pool");
         }},
        {"mean of 2x2",
         {3, 8, 8},
         [](GraphBuilder& b, int x) {
             return b.avg_pool(conv(b, x, 20, Window::square(3, 1, 1)), Window::square(2, 2),
                               "pool");
         }},
        {"mean of 2x2 that counts its padding",
         {3, 8, 8},
         [](GraphBuilder& b, int x) {
             Window w = Window::square(2, 2, 1);
             w.counts_padding = true;
             return b.avg_pool(conv(b, x, 20, Window::square(3, 1, 1)), w, "pool");
         }},
        {"dropout of a half",
         {3, 6, 6},
         [](GraphBuilder& b, int x) {
             return b.dropout(b.relu(conv(b, x, 20, Window::square(3, 1, 1)), "relu"), 0.5, "drop");
         }},
    };
    return all;
}
/// Integers from -most to most; those of the last layer times `last`.
Floats integers(const Graph& g, int most, float last_factor, std::uint64_t seed) {
    const gx::Rng r(seed, "integers");
    Floats all(static_cast<std::size_t>(g.parameter_elements()));
    for (std::size_t i = 0; i < all.size(); ++i) {
        const auto range = static_cast<std::uint64_t>(2 * most + 1);
        all[i] = static_cast<float>(r.below(i, range)) - static_cast<float>(most);
    }
    const std::size_t last = g.parameters.size() - 2;
    for (std::size_t i = static_cast<std::size_t>(g.parameters[last].offset); i < all.size(); ++i)
        all[i] *= last_factor;
    return all;
}
/// How sums stay exact. In bf16 logits are multiples of 256, equal or far apart: their softmax is
/// 1, 0, or one over the number of equal ones, to the last bit. In fp16 such logits would
/// overflow; instead the loss is scaled by 2^-20, so that gradients of logits are at most 16 times
/// the least subnormal, 2^-24, and the last layer's weights are below 1, so that some of its
/// gradients become 0 and the others are subnormal.
template <class E>
struct Exactly;
template <>
struct Exactly<bf16> {
    static constexpr float last_factor = 256, scale = 1;
};
template <>
struct Exactly<fp16> {
    static constexpr float last_factor = 0x1p-8f, scale = 0x1p-20f;
};
/// In bf16, with weights of -1, 0 and 1 nothing rounds but some sums over pixels; with weights up
/// to 40 most activations and gradients have more digits, so that each store rounds.
/// Returns how many gradients of weights would be rounded, and how many of activations became 0.
template <class E>
int expect_equal_bits(const Layer& layer, int most, ChannelOrder layout) {
    const Graph g = lower(layer);
    const auto start = integers(g, most, Exactly<E>::last_factor, 3);
    auto fast =
        make<gx::onednn::Device, E>(g, 5, gx::onednn::Tuning{.lanes = 2, .bf16_channels = layout});
    auto slow = make<gx::reference::Device, E>(g, 5);
    agreement::load(fast, start), agreement::load(slow, start);
    int beyond = 0;
    for (const int count : {5, 2}) {
        Data data(g, count, 4);
        for (float& x : data.images) x = std::round(x);
        forward(fast, data), forward(slow, data);
        const auto logits = fast.logits();
        const Floats mine = backward(fast, Exactly<E>::scale),
                     b = backward(slow, Exactly<E>::scale);
        const Floats a = agreement::canonical(fast, mine, g);
        EXPECT_TRUE(agreement::padding_is_zero(fast, mine, g)) << layer.name;
        const auto exact = slow.activation(g.ops.back().inputs[0]);
        for (std::size_t i = 0; i < logits.size(); ++i)
            EXPECT_EQ(static_cast<double>(logits[i]), exact[i]) << layer.name << ", logit " << i;
        for (std::size_t p = 0; p < g.parameters.size(); ++p) {
            int wrong = 0;
            for (std::int64_t k = 0; k < g.parameters[p].count; ++k) {
                const auto i = static_cast<std::size_t>(g.parameters[p].offset + k);
                wrong += rounded<E>(a[i]) != b[i];  // the reference device stores gradients in E
                beyond += rounded<E>(a[i]) != a[i];
            }
            EXPECT_EQ(wrong, 0) << layer.name << ", " << count << " images, gradients of "
                                << g.parameters[p].name.view();
        }
    }
    return beyond + static_cast<int>(fast.counters().gradients_flushed);
}
}  // namespace

TEST_F(OneDnnInBf16, HasTheBitsOfTheReferenceDeviceWhereSumsAreExact) {
    for (const auto layout : {ChannelOrder::blocked, ChannelOrder::last})
        for (const Layer& layer : layers()) {
            expect_equal_bits<bf16>(layer, 1, layout);
            if (layer.adds) continue;
            EXPECT_GT(expect_equal_bits<bf16>(layer, 40, layout), 0)
                << layer.name << ": nothing rounds";
        }
}
TEST(OneDnnInFp16, HasTheBitsOfTheReferenceDeviceWhereSumsAreExact) {
    for (const Layer& layer : layers())
        for (const int most : {1, 9})
            EXPECT_GT(expect_equal_bits<fp16>(layer, most, ChannelOrder::automatic), 0)
                << layer.name << ": nothing rounds";
}

// 1 + 2^-12 is 1 in fp16: the difference of such a weight and 1 is 0 in a product of fp16.
TEST(OneDnnInFp16, MultipliesByRoundedWeights) {
    for (const bool linear : {true, false}) {
        GraphBuilder b("difference", {2, 1, 1}, 2);
        const int y = linear ? b.linear(b.flatten(0, "flatten"), 2, false, "last")
                             : b.conv2d(0, {2, Window::square(1), 1, false}, "last");
        b.softmax_cross_entropy(y, 0, "loss");
        const Graph g = std::move(b).finish();
        auto d = make<gx::onednn::Device, fp16>(g, 1);
        agreement::load(d, {1 + 0x1p-12f, -1, -1, 1 + 0x1p-12f});
        Data data(g, 1, 4);
        data.images = {1, 1};
        forward(d, data);
        EXPECT_THAT(d.logits(), ::testing::ElementsAre(0.0f, 0.0f)) << (linear ? "linear" : "conv");
    }
}
// Of two equal logits the gradients are -1/2 and 1/2, so that of the 0 between the convolutions is
// 1 + 2^-11, which fp16 stores as 1; the first one's weights take it times the image's 1.
TEST(OneDnnInFp16, StoresTheDataGradientOfAConvolution) {
    GraphBuilder b("two", {1, 1, 1}, 2);
    const int x = b.conv2d(0, {1, Window::square(1), 1, false}, "first");
    b.softmax_cross_entropy(b.conv2d(x, {2, Window::square(1), 1, false}, "last"), 0, "loss");
    const Graph g = std::move(b).finish();
    auto d = make<gx::onednn::Device, fp16>(g, 1);
    agreement::load(d, {0, -1, 1 + 0x1p-10f});
    Data data(g, 1, 4);
    data.images = {1}, data.labels = {0};
    forward(d, data);
    EXPECT_EQ(agreement::canonical(d, backward(d), g), Floats({1, 0, 0}));
}

// Two convolutions read the first one's output; their gradients of it, 1 and 2^-11, add up to what
// fp16 stores as 1.
TEST(OneDnnInFp16, StoresTheSumOfTwoGradients) {
    GraphBuilder b("branches", {1, 1, 1}, 2);
    const int x = b.conv2d(0, {1, Window::square(1), 1, false}, "first");
    const int left = b.conv2d(x, {2, Window::square(1), 1, false}, "left");
    const int right = b.conv2d(x, {2, Window::square(3, 1, 1), 1, false}, "right");
    b.softmax_cross_entropy(b.add(left, right, "sum"), 0, "loss");
    const Graph g = std::move(b).finish();
    auto d = make<gx::onednn::Device, fp16>(g, 1);
    Floats weights(1 + 2 + 2 * 9);
    weights[1] = -1, weights[2] = 1;                            // left
    weights[3 + 4] = -0x1p-11f, weights[3 + 9 + 4] = 0x1p-11f;  // the middles of right's windows
    agreement::load(d, weights);
    Data data(g, 1, 4);
    data.images = {1}, data.labels = {0};
    forward(d, data);
    EXPECT_EQ(agreement::canonical(d, backward(d), g)[0], 1.0f);
}

// A batch norm's output of 1 + 2^-12, which fp16 stores as 1, also where the backward pass works it
// out again: the weights after it get it times -1/2 and 1/2.
TEST(OneDnnInFp16, StoresTheOutputOfABatchNormInBothPasses) {
    GraphBuilder b("norm", {1, 1, 1}, 2);
    int x = b.conv2d(0, {1, Window::square(1), 1, false}, "first");
    x = b.flatten(b.batch_norm(x, {}, "norm"), "flatten");
    b.softmax_cross_entropy(b.linear(x, 2, false, "last"), 0, "loss");
    const Graph g = std::move(b).finish();
    auto d = make<gx::onednn::Device, fp16>(g, 1);
    agreement::load(d, {1, 0, 1 + 0x1p-12f, 0, 0});
    Data data(g, 1, 4);
    data.images = {1}, data.labels = {0};
    forward(d, data);
    EXPECT_EQ(agreement::canonical(d, backward(d), g), Floats({0, 0, 0, -0.5f, 0.5f}));
}

// ---- Any numbers: a bound -------------------------------------------------------------------

// A logit sums K products of numbers that are rounded already, in fp32, and is stored once:
//     |logit - exact| <= gamma_K sum |x w| + v (|exact| + gamma_K sum |x w|)
// with gamma_K = K u / (1 - K u), u = 2^-24, and v = 2^-8 of a store to 8 digits.
// The gradient of a logit is scale (p - t) of the logits that the device has, in double, then
// stored by way of fp32: within v + u of itself. That of a weight sums N products of these, in
// fp32, and stays fp32. Zen 4 and AMX take numbers below 2^-126 as 0: none are drawn here.
// Source: Higham 2002, "Accuracy and Stability of Numerical Algorithms", sections 2.2 and 3.1.
TEST_F(OneDnnInBf16, StaysWithinTheRoundingBoundOfAConvolution) {
    constexpr double u = 0x1p-24, v = 0x1p-8, scale = 1024;
    constexpr std::size_t count = 6, k = 5 * 3 * 3, classes = 4;
    GraphBuilder b("whole image", {5, 3, 3}, classes);
    b.softmax_cross_entropy(b.conv2d(0, {classes, Window::square(3), 1, true}, "conv"), 0, "loss");
    const Graph g = std::move(b).finish();
    const auto start = agreement::parameters(g, 5);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        const Data data(g, count, seed);
        auto fast = make<gx::onednn::Device>(g, count);
        agreement::load(fast, start);
        forward(fast, data);
        const auto logits = fast.logits();
        const Floats dw = agreement::canonical(fast, backward(fast, scale), g);
        const auto x = [&](std::size_t n, std::size_t i) {
            return static_cast<double>(rounded(data.images[n * k + i]));
        };
        std::vector<double> d(count * classes), error(d.size());
        for (std::size_t n = 0; n < count; ++n) {
            double sum = 0;
            for (std::size_t o = 0; o < classes; ++o) {
                double exact = static_cast<double>(rounded(start[classes * k + o]));
                double size = std::abs(exact);
                for (std::size_t i = 0; i < k; ++i) {
                    const double product = x(n, i) * static_cast<double>(rounded(start[o * k + i]));
                    exact += product, size += std::abs(product);
                }
                const double added = (k + 1) * u / (1 - (k + 1) * u) * size;
                const double logit = static_cast<double>(logits[n * classes + o]);
                EXPECT_LE(std::abs(logit - exact), added + v * (std::abs(exact) + added));
                EXPECT_EQ(rounded(logits[n * classes + o]), logits[n * classes + o]);
                sum += std::exp(logit);
            }
            for (std::size_t o = 0; o < classes; ++o) {
                const std::size_t i = n * classes + o;
                const double p = std::exp(static_cast<double>(logits[i])) / sum;
                d[i] = scale * (p - (static_cast<std::size_t>(data.labels[n]) == o ? 1 : 0));
                error[i] = (v + 2 * u) * std::abs(d[i]);
            }
        }
        bool beyond_bf16 = false;
        for (std::size_t o = 0; o < classes; ++o)
            for (std::size_t i = 0; i < k; ++i) {
                double exact = 0, bound = 0;
                for (std::size_t n = 0; n < count; ++n) {
                    const double size = std::abs(x(n, i)), dn = d[n * classes + o];
                    exact += x(n, i) * dn;
                    bound += size * error[n * classes + o] +
                             count * u * size * (std::abs(dn) + error[n * classes + o]);
                }
                EXPECT_LE(std::abs(static_cast<double>(dw[o * k + i]) - exact), bound);
                beyond_bf16 = beyond_bf16 || rounded(dw[o * k + i]) != dw[o * k + i];
            }
        EXPECT_TRUE(beyond_bf16) << "gradients of weights are kept in fp32";
    }
}

// Networks with batch norms. A store rounds by at most v = 2^-8 of a number, v / sqrt(3) in the
// mean square; errors of many stores are independent, so that after s of them a vector is
// sqrt(s / 3) v of its length from an exact one, and two devices are e = 2 sqrt(s / 3) v apart at
// most. Twice that bounds the loss, the logits and the statistics. A ReLU, or the largest of nearly
// equal values, may choose otherwise where two devices are apart: a share of about e of the numbers
// lies within e of a threshold, which moves gradients by up to sqrt(e) of their length; twice that
// again is the bound.
// Source: Higham and Mary 2019, "A new approach to probabilistic rounding error analysis".
namespace {
struct Bounds {
    double value = 0, gradient = 0;
};
template <class E>
Bounds bounds(const Graph& g) {
    const double v = std::same_as<E, bf16> ? 0x1p-8 : 0x1p-11;
    const double e = 2 * v * std::sqrt(static_cast<double>(g.ops.size()) / 3);
    return {2 * e, 2 * std::sqrt(e)};
}
template <class E = bf16>
void expect_agreement(const Graph& g, ChannelOrder layout) {
    auto fast =
        make<gx::onednn::Device, E>(g, 8, gx::onednn::Tuning{.lanes = 2, .bf16_channels = layout});
    auto slow = make<gx::reference::Device, E>(g, 8);
    const auto start = agreement::parameters(g, 2);
    agreement::load(fast, start), agreement::load(slow, start);
    for (const int count : {8, 3}) {
        const auto far = agreement::step(g, fast, slow, Data(g, count, 8), 1024);
        const Bounds most = bounds<E>(g);
        EXPECT_LE(far.loss, most.value) << count;
        EXPECT_LE(far.logits, most.value) << count;
        EXPECT_LE(far.statistics, most.value) << count;
        EXPECT_LE(far.gradients, most.gradient) << count;
        EXPECT_TRUE(far.padding_is_zero) << count;
        EXPECT_GT(far.gradients, 0x1p-20) << "are gradients rounded?";
    }
    const Data data(g, 4, 9);
    EXPECT_NEAR(fast.forward(data.batch(), Mode::evaluate).loss_sum /
                    slow.forward(data.batch(), Mode::evaluate).loss_sum,
                1, bounds<E>(g).value);
}
}  // namespace
TEST_F(OneDnnInBf16, AgreesWithTheReferenceDeviceOnLeNet) {
    expect_agreement(gx::graph<gx::LeNet>(), ChannelOrder::blocked);
    expect_agreement(gx::graph<gx::LeNet>(), ChannelOrder::last);
}
TEST_F(OneDnnInBf16, AgreesWithTheReferenceDeviceOnResNet8) {
    expect_agreement(gx::graph<gx::FashionResNet<8>>(), ChannelOrder::blocked);
    expect_agreement(gx::graph<gx::FashionResNet<8>>(), ChannelOrder::last);
}
TEST_F(OneDnnInBf16, AgreesWithTheReferenceDeviceWhereWeightsAreCopiedInPassing) {
    expect_agreement(gx::graph<agreement::LargeWeights>(), ChannelOrder::blocked);
    expect_agreement(gx::graph<agreement::LargeWeights>(), ChannelOrder::last);
}
TEST_F(OneDnnInBf16, AgreesWithTheReferenceDeviceOnAnInceptionModule) {
    GraphBuilder b("module", {3, 9, 9}, 7);
    const int x = gx::detail::inception::unit(b, 0, 24, Window::square(3, 1, 1), "stem");
    const int y = gx::detail::inception::Module{b, x, "module"}.a(16);
    b.softmax_cross_entropy(b.linear(b.flatten(y, "flatten"), 7, true, "last"), 0.1, "loss");
    const Graph g = std::move(b).finish();
    expect_agreement(g, ChannelOrder::blocked);
    expect_agreement(g, ChannelOrder::last);
}

// v = 2^-11 in fp16, whose numbers below 2^-14 have fewer digits: the loss is scaled, so that few
// are.
TEST(OneDnnInFp16, AgreesWithTheReferenceDevice) {
    expect_agreement<fp16>(gx::graph<gx::LeNet>(), ChannelOrder::automatic);
    expect_agreement<fp16>(gx::graph<gx::FashionResNet<8>>(), ChannelOrder::automatic);
}
TEST(OneDnnInFp16, RunsNoWinograd) {  // whose sums are not those of products
    const Graph g = gx::graph<gx::FashionResNet<8>>();
    const Data data(g, 8, 1);
    auto d = make<gx::onednn::Device, fp16>(g, 8);
    forward(d, data), backward(d);
    for (std::size_t i = 0; i < g.ops.size(); ++i) {
        if (g.ops[i].kind != gx::OpKind::conv2d) continue;
        EXPECT_EQ(d.kernels(static_cast<int>(i)).find("wino"), std::string::npos);
    }
}

// ---- Two labels of an image, and the five largest logits ----------------------------------------

namespace {
/// Logits are its bias, as a black image is all it sees.
Graph bias_alone(int classes, double smoothing) {
    GraphBuilder b("bias alone", {1, 1, 1}, classes);
    b.softmax_cross_entropy(b.linear(b.flatten(0, "flatten"), classes, true, "last"), smoothing,
                            "loss");
    return std::move(b).finish();
}
template <class D, class E = bf16>
struct Logits {
    Graph graph;
    D device;
    Floats image{0};  // is read until backward has returned
    Logits(const Floats& logits, double smoothing)
        : graph(bias_alone(static_cast<int>(logits.size()), smoothing)),
          device(make<D, E>(graph, 1)) {
        Floats all(logits.size());  // the weights
        all.insert(all.end(), logits.begin(), logits.end());
        agreement::load(device, all);
    }
    gx::ForwardReport forward(std::int32_t label, gx::SecondLabel second = {}) {
        const std::vector<std::int32_t> labels{label};
        const std::vector<gx::SecondLabel> seconds{second};
        return device.forward(
            {.images = image, .labels = labels, .count = 1, .second_labels = seconds}, Mode::train);
    }
    Floats gradient() {  // of the logits
        const Floats all = agreement::canonical(device, backward(device), graph);
        return {all.end() - graph.classes, all.end()};
    }
};
}  // namespace
TEST_F(OneDnnInBf16, HasTheLossAndItsGradientForTwoLabels) {
    constexpr int classes = 9;
    const gx::Rng r(5, "logits");
    Floats logits(classes);
    for (std::size_t k = 0; k < classes; ++k) logits[k] = 2 * r.normal(k);
    for (const double smoothing : {0.0, 0.125}) {
        Logits<gx::onednn::Device> fast(logits, smoothing);
        Logits<gx::reference::Device> slow(logits, smoothing);
        double sum = 0, all = 0;
        for (const float x : logits) sum += std::exp(static_cast<double>(rounded(x)));
        const auto away = [&](int k) {
            return std::log(sum) -
                   static_cast<double>(rounded(logits[static_cast<std::size_t>(k)]));
        };
        for (int k = 0; k < classes; ++k) all += away(k);
        for (const float share : {0.0f, 0.25f, 0.5f, 0.75f, 1.0f}) {
            const gx::SecondLabel second{3, share};
            const double w = static_cast<double>(share);
            const auto a = fast.forward(7, second), b = slow.forward(7, second);
            const double loss =
                (1 - smoothing) * ((1 - w) * away(7) + w * away(3)) + smoothing / classes * all;
            EXPECT_NEAR(a.loss_sum, loss, 1e-13);
            EXPECT_NEAR(b.loss_sum, loss, 1e-13);
            EXPECT_EQ(a.correct, b.correct);
            EXPECT_EQ(a.top5, b.top5);
            const Floats d = fast.gradient();
            EXPECT_EQ(d, slow.gradient());
            for (int k = 0; k < classes; ++k) {
                const double target = smoothing / classes +
                                      (1 - smoothing) * ((k == 7 ? 1 - w : 0) + (k == 3 ? w : 0));
                const double exact = std::exp(-away(k)) - target;
                EXPECT_NEAR(static_cast<double>(d[static_cast<std::size_t>(k)]), exact,
                            0x1.01p-8 * std::abs(exact))  // half a unit of 8 digits
                    << k;
            }
        }
    }
}
// 257 is 256 in bf16: of equal logits the first class comes first.
TEST_F(OneDnnInBf16, CountsTheFiveLargestOfRoundedLogits) {
    const Floats logits{256, 257, 300, 310, 320, 330};
    Logits<gx::onednn::Device> fast(logits, 0);
    Logits<gx::reference::Device> slow(logits, 0);
    for (std::int32_t label = 0; label < 6; ++label) {
        EXPECT_EQ(fast.forward(label).top5, label == 1 ? 0 : 1) << label;
        EXPECT_EQ(slow.forward(label).top5, label == 1 ? 0 : 1) << label;
    }
    EXPECT_EQ(fast.forward(1, {0, 0.75f}).top5, 1) << "the label of the larger share counts";
}

// The gradient of logit k is scale (p - t): of 6 equal logits, 1/6 or -5/6. Numbers below 2^-25
// are stored as 0. The linear layer makes no gradient, as nothing needs that of images.
TEST(OneDnnInFp16, CountsGradientsThatItStoresAsZero) {
    Logits<gx::onednn::Device, fp16> d(Floats(6, 0.0f), 0);
    const auto stored = [&](float scale) {
        static_cast<void>(d.forward(2));
        const gx::onednn::Counters before = d.device.counters();
        static_cast<void>(backward(d.device, scale));
        const gx::onednn::Counters& after = d.device.counters();
        return std::pair(after.gradients_stored - before.gradients_stored,
                         after.gradients_flushed - before.gradients_flushed);
    };
    using Counts = std::pair<std::int64_t, std::int64_t>;
    EXPECT_EQ(stored(1), Counts(6, 0));
    EXPECT_EQ(stored(0x1p-22f), Counts(6, 0)) << "2^-22 / 6 is above 2^-25";
    EXPECT_EQ(stored(0x1p-23f), Counts(6, 5)) << "2^-23 / 6 is below 2^-25";
    EXPECT_EQ(stored(0x1p-25f), Counts(6, 6));
}

// ---- Bits, memory, master weights -------------------------------------------------------------

TEST_F(OneDnnInBf16, HasEqualBitsForEqualLanesHoweverManyThreadsRun) {
    const Graph g = gx::graph<gx::FashionResNet<8>>();
    const auto start = agreement::parameters(g, 2);
    const Data data(g, 7, 1);
    const auto train = [&](int threads) {
        auto d = make<gx::onednn::Device>(g, 7, gx::onednn::Tuning{.lanes = 3, .threads = threads});
        agreement::load(d, start);
        for (int s = 0; s < 3; ++s) {
            forward(d, data);
            const Floats grad = backward(d, 0.125f);
            d.update([&](std::span<float> w) {
                for (std::size_t i = 0; i < w.size(); ++i) w[i] -= 0.01f * grad[i];
            });
        }
        return Floats(d.parameters().begin(), d.parameters().end());
    };
    const Floats one = train(1);
    EXPECT_EQ(train(3), one);
    EXPECT_EQ(train(2), one);
}
TEST_F(OneDnnInBf16, HalvesTheMemoryOfActivations) {
    const Graph g = gx::graph<gx::FashionResNet<8>>();
    const auto in_bf16 = make<gx::onednn::Device>(g, 16).arena_floats();
    const auto in_fp32 = gx::onednn::Device(g, {.batch = 16}).arena_floats();
    EXPECT_LE(static_cast<double>(in_bf16), 0.51 * static_cast<double>(in_fp32));
}
// Updates of 2^-10 of a weight of 1, whose unit is 2^-7 in bf16: the copy that products read stands
// still until four of them make 1 + 2^-8, a tie that goes to 1; the fifth moves it.
TEST_F(OneDnnInBf16, MasterWeightsKeepUpdatesFarBelowTheResolution) {
    GraphBuilder b("tiny", {1, 1, 1}, 2);
    const int h = b.conv2d(0, {1, Window::square(1)}, "conv");
    b.softmax_cross_entropy(b.linear(h, 2, false, "fc"), 0, "loss");
    const Graph g = std::move(b).finish();
    auto d = make<gx::onednn::Device>(g, 1);
    agreement::load(d, {1, 1, 0});
    const Floats image{1};
    const std::vector<std::int32_t> label{0};
    const auto logit = [&] {
        static_cast<void>(d.forward({image, label, 1}, Mode::evaluate));
        return d.logits()[0];
    };
    for (const std::size_t p : {std::size_t{0}, std::size_t{1}}) {
        const float before = logit();
        for (int update = 1; update <= 5; ++update) {
            d.update([&](std::span<float> w) { w[d.slices()[p].offset] += 0x1p-10f; });
            EXPECT_EQ(logit(), update < 5 ? before : before + 0x1p-7f) << update;
        }
        EXPECT_EQ(d.parameters()[d.slices()[p].offset], 1 + 5 * 0x1p-10f);
    }
}
TEST_F(OneDnnInBf16, NamesTheKernelsThatRan) {
    const Graph g = gx::graph<gx::FashionResNet<8>>();
    const auto d = make<gx::onednn::Device>(g, 4);
    for (std::size_t i = 0; i < g.ops.size(); ++i) {
        if (g.ops[i].kind != gx::OpKind::conv2d) continue;
        const std::string kernels = d.kernels(static_cast<int>(i));
        EXPECT_NE(kernels.find("bf16"), std::string::npos) << kernels;
        const auto channels = [&](int tensor) { return g.tensors[std::size_t(tensor)].channels; };
        const gx::Op& op = g.ops[i];
        const bool ours =
            gx::onednn::detail::cpu_bf16().unit == Bf16Unit::tiles &&
            (channels(op.inputs[0]) % 32 == 0 || channels(op.inputs[0]) * op.window.width <= 32) &&
            channels(op.output) % 32 == 0;
        EXPECT_EQ(kernels.find("weights: gx:amx_bf16") != std::string::npos, ours) << kernels;
    }
}
TEST_F(OneDnnInBf16, FindsTheFirstLayerThatIsNotFinite) {
    const Graph g = gx::graph<gx::FashionResNet<8>>();
    auto d = make<gx::onednn::Device>(g, 2);
    auto start = agreement::parameters(g, 1);
    const gx::Op* bad = nullptr;
    for (const gx::Op& op : g.ops)
        if (op.kind == gx::OpKind::conv2d) bad = &op;
    const auto first = static_cast<std::size_t>(bad->first_parameter);
    start[static_cast<std::size_t>(g.parameters[first].offset)] = HUGE_VALF;
    agreement::load(d, start);
    EXPECT_FALSE(d.forward(Data(g, 2, 3).batch(), Mode::train).finite);
    EXPECT_EQ(d.first_non_finite(), "conv2d '" + std::string(bad->name.view()) + "'");
}
// Gradients of weights with a stride, of narrow images: oneDNN's kernel for AMX reads scratch
// memory, in which an earlier step left NaN.
TEST_F(OneDnnInBf16, ForgetsAStepThatWasNotFinite) {
    GraphBuilder b("narrow", {3, 2, 2}, 5);
    const int x = b.relu(b.conv2d(0, {48, Window::square(3, 1, 1)}, "one"), "relu");
    const int y = b.conv2d(x, {48, Window::square(3, 3, 1)}, "two");
    b.softmax_cross_entropy(b.linear(b.flatten(y, "flatten"), 5, true, "last"), 0, "loss");
    const Graph g = std::move(b).finish();
    const Data data(g, 2, 5);
    Data bad = data;
    std::fill(bad.images.begin(), bad.images.end(), NAN);
    const auto gradients = [&](bool after_bad) {
        auto d = make<gx::onednn::Device>(g, 2, gx::onednn::Tuning{.lanes = 1});
        agreement::load(d, agreement::parameters(g, 1));
        if (after_bad) forward(d, bad), backward(d);
        forward(d, data);
        return backward(d);
    };
    EXPECT_EQ(gradients(true), gradients(false));
}

// ---- CPUs that have no bf16, or a slow one ----------------------------------------------------

TEST(OneDnnOnOtherCpus, RefusesBf16WithASentence) {
    try {
        gx::onednn::detail::expect_bf16({});
        FAIL() << "not refused";
    } catch (const gx::Error& e) {
        EXPECT_NE(std::string(e.what()).find("needs a CPU with AVX512-BF16 or AMX"),
                  std::string::npos);
        EXPECT_NE(std::string(e.what()).find("gx::reference::Device"), std::string::npos);
    }
    gx::onednn::detail::expect_bf16({.unit = Bf16Unit::dot_products});
    gx::onednn::detail::expect_bf16({.unit = Bf16Unit::tiles});
}
TEST(OneDnnOnOtherCpus, SaysThatFp32IsFasterOnIntelWithoutAmx) {
    using gx::onednn::detail::bf16_advice;
    EXPECT_NE(
        bf16_advice({.unit = Bf16Unit::dot_products, .intel = true}).find("fp32 is faster here"),
        std::string::npos);
    EXPECT_EQ(bf16_advice({.unit = Bf16Unit::dot_products, .intel = false}), "");
    EXPECT_EQ(bf16_advice({.unit = Bf16Unit::tiles, .intel = true}), "");
    const Graph g = gx::graph<gx::LeNet>();
    const gx::onednn::Device in_fp32(g, {.batch = 2});
    EXPECT_EQ(in_fp32.warning(), "");
    const auto cpu = gx::onednn::detail::cpu_bf16();
    if (cpu.unit == Bf16Unit::none) return;
    const gx::onednn::Device in_bf16(g, {.batch = 2, .compute = gx::ElementType::bf16});
    EXPECT_EQ(in_bf16.warning(), bf16_advice(cpu));
}
// In a process of its own, in which oneDNN has not looked at the CPU yet.
TEST(OneDnnOnOtherCpusDeathTest, RefusesBf16WhereOneDnnMayNotUseIt) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            setenv("ONEDNN_MAX_CPU_ISA", "AVX512_CORE", 1);
            try {
                const auto d = make<gx::onednn::Device>(gx::graph<gx::LeNet>(), 2);
            } catch (const gx::Error& e) {
                std::fprintf(stderr, "%s\n", e.what());
                std::_Exit(3);
            }
            std::_Exit(0);
        },
        ::testing::ExitedWithCode(3), "Compute<bf16> needs a CPU with AVX512-BF16 or AMX");
}
