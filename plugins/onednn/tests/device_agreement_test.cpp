#include <gx/onednn/device.hpp>

#include <gtest/gtest.h>

#include <array>       // names
#include <functional>  // builders of graphs
#include <limits>      // no tiles are enough

#include <gx/model/cifar_resnet.hpp>         // FashionResNet
#include <gx/model/inception.hpp>            // Module
#include <gx/model/layers.hpp>               // Network
#include <gx/model/lenet.hpp>                // LeNet
#include <gx/model/sequence.hpp>             // concat
#include <gx/onednn/detail/convolution.hpp>  // least_winograd_tiles
#include <gx/onednn/detail/simd.hpp>         // cpu_block

#include "agreement.hpp"

using agreement::Data;
using gx::Graph;
using gx::GraphBuilder;
using gx::Mode;
using gx::Window;

namespace {

struct Layer {
    const char* name;
    gx::ImageShape input;
    std::function<int(GraphBuilder&, int)> append;
};

Graph lower(const Layer& layer, double smoothing = 0) {
    GraphBuilder b(layer.name, layer.input, 7);
    int x = layer.append(b, 0);
    if (b.shape(x) != gx::ImageShape{7, 1, 1})
        x = b.linear(b.flatten(x, "flatten"), 7, true, "last");
    b.softmax_cross_entropy(x, smoothing, "loss");
    return std::move(b).finish();
}

int conv(GraphBuilder& b, int x, int channels, Window w, bool bias = false, int groups = 1) {
    static constexpr std::array names{"conv0", "conv1", "conv2", "conv3",
                                      "conv4", "conv5", "conv6"};
    return b.conv2d(x, {channels, w, groups, bias}, names[static_cast<std::size_t>(x % 7)]);
}

const std::vector<Layer>& layers() {
    static const std::vector<Layer> all{
        {"linear",
         {9, 1, 1},
         [](GraphBuilder& b, int x) { return b.linear(x, 7, true, "linear"); }},
        {"linear without bias",
         {40, 1, 1},
         [](GraphBuilder& b, int x) { return b.linear(x, 7, false, "linear"); }},
        {"two linears",
         {3, 5, 5},
         [](GraphBuilder& b, int x) {
             x = b.relu(b.linear(b.flatten(x, "f"), 33, true, "one"), "relu");
             return b.linear(x, 7, true, "two");
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
        {"3x3 after 3x3",
         {3, 12, 12},
         [](GraphBuilder& b, int x) {
             return conv(b, conv(b, x, 16, Window::square(3, 1, 1)), 32, Window::square(3, 1, 1));
         }},
        {"odd channels",
         {3, 9, 9},
         [](GraphBuilder& b, int x) {
             return conv(b, conv(b, x, 6, Window::square(3, 1, 1), true), 10,
                         Window::square(3, 1, 1), true);
         }},
        {"strided",
         {3, 11, 11},
         [](GraphBuilder& b, int x) {
             return conv(b, conv(b, x, 16, Window::square(3, 1, 1)), 24, Window::square(3, 2, 1));
         }},
        {"1x1 strided",
         {3, 8, 8},
         [](GraphBuilder& b, int x) {
             return conv(b, conv(b, x, 16, Window::square(3, 1, 1)), 32, Window::square(1, 2, 0));
         }},
        {"two groups",
         {3, 8, 8},
         [](GraphBuilder& b, int x) {
             return conv(b, conv(b, x, 32, Window::square(3, 1, 1)), 64, Window::square(3, 1, 1),
                         true, 2);
         }},
        {"a group for each channel",
         {3, 8, 8},
         [](GraphBuilder& b, int x) {
             return conv(b, conv(b, x, 16, Window::square(3, 1, 1)), 16, Window::square(3, 1, 1),
                         false, 16);
         }},
        {"norm of the input",
         {3, 6, 6},
         [](GraphBuilder& b, int x) { return b.batch_norm(x, {}, "norm"); }},
        {"norm",
         {3, 6, 6},
         [](GraphBuilder& b, int x) {
             return b.batch_norm(conv(b, x, 16, Window::square(3, 1, 1)), {}, "norm");
         }},
        {"norm and relu",
         {3, 6, 6},
         [](GraphBuilder& b, int x) {
             x = b.relu(b.batch_norm(conv(b, x, 20, Window::square(3, 1, 1)), {}, "norm"), "relu");
             return conv(b, x, 16, Window::square(3, 1, 1));
         }},
        {"norm, add, relu",
         {3, 6, 6},
         [](GraphBuilder& b, int x) {
             x = b.relu(b.batch_norm(conv(b, x, 16, Window::square(3, 1, 1)), {}, "norm0"),
                        "relu0");
             const int y = b.batch_norm(conv(b, x, 16, Window::square(3, 1, 1)), {}, "norm1");
             return conv(b, b.relu(b.add(x, y, "add"), "relu1"), 16, Window::square(3, 1, 1));
         }},
        {"norm, add",
         {3, 6, 6},
         [](GraphBuilder& b, int x) {
             x = conv(b, x, 16, Window::square(3, 1, 1));
             return b.add(b.batch_norm(conv(b, x, 16, Window::square(3, 1, 1)), {}, "norm"), x,
                          "add");
         }},
        {"add of two norms",
         {3, 6, 6},
         [](GraphBuilder& b, int x) {
             x = b.relu(conv(b, x, 16, Window::square(3, 1, 1)), "relu0");
             const int y = b.batch_norm(conv(b, x, 32, Window::square(3, 2, 1)), {}, "norm1");
             const int z = b.batch_norm(conv(b, x, 32, Window::square(1, 2, 0)), {}, "norm2");
             return b.relu(b.add(y, z, "add"), "relu1");
         }},
        {"three readers",
         {3, 6, 6},
         [](GraphBuilder& b, int x) {
             x = b.relu(b.batch_norm(conv(b, x, 16, Window::square(3, 1, 1)), {}, "norm0"),
                        "relu0");
             const int y = conv(b, x, 16, Window::square(3, 1, 1)),
                       z = conv(b, x, 16, Window::square(1, 1, 0));
             return b.add(b.add(x, y, "add0"), z, "add1");
         }},
        {"largest of 3x3",
         {3, 11, 11},
         [](GraphBuilder& b, int x) {
             return b.max_pool(b.relu(conv(b, x, 20, Window::square(3, 1, 1)), "relu"),
                               Window::square(3, 2, 1), "pool");
         }},
        {"largest of the input",
         {2, 8, 8},
         [](GraphBuilder& b, int x) {
             return conv(b, b.max_pool(x, Window::square(2, 2, 0), "pool"), 16,
                         Window::square(3, 1, 1));
         }},
        {"mean of 3x3",
         {3, 9, 9},
         [](GraphBuilder& b, int x) {
             return b.avg_pool(conv(b, x, 20, Window::square(3, 1, 1)), Window::square(3, 2, 1),
                               "pool");
         }},
        {"mean of all",
         {3, 9, 9},
         [](GraphBuilder& b, int x) {
             return b.global_avg_pool(conv(b, x, 7, Window::square(3, 1, 1)), "pool");
         }},
        {"mean that counts its padding",
         {3, 9, 9},
         [](GraphBuilder& b, int x) {
             Window w = Window::square(3, 2, 1);
             w.counts_padding = true;
             return b.avg_pool(conv(b, x, 20, Window::square(3, 1, 1)), w, "pool");
         }},
        {"a window of 1x7, then of 7x1",
         {3, 9, 8},
         [](GraphBuilder& b, int x) {
             return conv(b, conv(b, x, 20, {1, 7, 1, 0, 3}), 16, {7, 1, 1, 3, 0});
         }},
        {"32 groups of 4 channels",
         {3, 8, 8},
         [](GraphBuilder& b, int x) {
             return conv(b, conv(b, x, 128, Window::square(1)), 128, Window::square(3, 2, 1), false,
                         32);
         }},
        {"3 groups of 12 and 4 channels",
         {3, 6, 6},
         [](GraphBuilder& b, int x) {
             return conv(b, conv(b, x, 36, Window::square(1)), 12, Window::square(3, 1, 1), true,
                         3);
         }},
        {"joined branches of whole blocks",
         {3, 7, 7},
         [](GraphBuilder& b, int x) {
             x = conv(b, x, 16, Window::square(3, 1, 1));
             const int y = conv(b, x, 32, Window::square(1));
             return conv(b, gx::concat(b, x, y, "join"), 24, Window::square(3, 1, 1));
         }},
        {"a list of joined branches",
         {3, 7, 7},
         [](GraphBuilder& b, int x) {
             x = b.relu(conv(b, x, 20, Window::square(3, 1, 1)), "relu");
             const int y = conv(b, x, 7, {1, 3, 1, 0, 1}), z = conv(b, x, 16, {3, 1, 1, 1, 0});
             const int yz = gx::concat(b, y, z, "one");
             x = gx::concat(b, yz, gx::concat(b, x, x, "two"), "three");
             return conv(b, b.relu(b.batch_norm(x, {}, "norm"), "relu"), 9, Window::square(1));
         }},
        {"joined with the input, and read twice",
         {3, 6, 6},
         [](GraphBuilder& b, int x) {
             const int y = gx::concat(b, x, conv(b, x, 16, Window::square(3, 1, 1)), "one");
             const int z = gx::concat(b, y, b.relu(y, "relu"), "two");
             return conv(b, z, 16, Window::square(3, 1, 1));
         }},
        {"the last thing, flattened",
         {3, 5, 5},
         [](GraphBuilder& b, int x) {
             const int y = conv(b, x, 5, Window::square(3)), z = conv(b, x, 9, Window::square(3));
             return gx::concat(b, y, z, "join");
         }},
        {"an Inception module",
         {3, 9, 9},
         [](GraphBuilder& b, int x) {
             x = gx::detail::inception::unit(b, x, 24, Window::square(3, 1, 1), "stem");
             return gx::detail::inception::Module{b, x, "module"}.a(16);
         }},
        {"dropout",
         {3, 6, 6},
         [](GraphBuilder& b, int x) {
             x = b.dropout(b.relu(conv(b, x, 20, Window::square(3, 1, 1)), "relu"), 0.4, "drop0");
             return b.dropout(b.linear(b.flatten(x, "f"), 24, true, "middle"), 0.25, "drop1");
         }},
        {"dropout of the input",
         {3, 6, 6},
         [](GraphBuilder& b, int x) {
             return conv(b, b.dropout(x, 0.5, "drop"), 16, Window::square(3, 1, 1));
         }},
    };
    return all;
}

}  // namespace

// ---- Rigorous bound: no statistics, no chance ------------------------------------------
// logits[n, o] sums K products, so |error| <= gamma_K sum |x||w|, gamma_K = K u / (1 - K u), with
// one more rounding for the bias (Higham 2002, "Accuracy and Stability", section 3.1). The
// gradient of a weight sums N products x dlogit; a logit's error moves a softmax by at most half of
// the largest error of its row, and a probability is rounded once.
TEST(OneDnnAgreement, StaysWithinTheRoundingBoundOfAConvolution) {
    constexpr double u = 0x1p-24;
    constexpr int count = 6, k = 5 * 3 * 3;
    GraphBuilder b("whole image", {5, 3, 3}, 4);
    b.softmax_cross_entropy(b.conv2d(0, {4, Window::square(3), 1, true}, "conv"), 0, "loss");
    const Graph g = std::move(b).finish();
    const Data data(g, count, 11);
    const auto start = agreement::parameters(g, 5);
    gx::onednn::Device fast(g, {.batch = count});
    gx::reference::Device slow(g, {.batch = count});
    agreement::load(fast, start), agreement::load(slow, start);
    static_cast<void>(fast.forward(data.batch(), Mode::train));
    static_cast<void>(slow.forward(data.batch(), Mode::train));
    const double gamma = (k + 1) * u / (1 - (k + 1) * u);
    const auto logits = fast.logits();
    const auto exact = slow.activation(1);
    double largest = 0;
    for (std::size_t n = 0; n < count; ++n) {
        for (std::size_t o = 0; o < 4; ++o) {
            double magnitude = std::abs(start[4 * k + o]);
            for (std::size_t i = 0; i < k; ++i)
                magnitude += std::abs(double{data.images[n * k + i]} * double{start[o * k + i]});
            EXPECT_LE(std::abs(logits[n * 4 + o] - exact[n * 4 + o]), gamma * magnitude);
            largest = std::max(largest, gamma * magnitude);
        }
    }
    std::vector<float> a(fast.parameters().size()), r(slow.parameters().size());
    fast.backward(1, a, [](std::size_t) {});
    slow.backward(1, r, [](std::size_t) {});
    const auto mine = agreement::canonical(fast, a, g);
    const auto dlogits = slow.activation_gradient(1);
    const double gamma_n = (count + 2) * u / (1 - (count + 2) * u);
    for (std::size_t o = 0; o < 4; ++o) {
        for (std::size_t i = 0; i < k; ++i) {
            double limit = u * std::abs(double{r[o * k + i]});  // the reference rounds its answer
            for (std::size_t n = 0; n < count; ++n) {
                const double x = std::abs(double{data.images[n * k + i]});
                limit += x * (gamma_n * (std::abs(dlogits[n * 4 + o]) + largest / 2) + largest / 2);
            }
            EXPECT_LE(std::abs(double{mine[o * k + i]} - double{r[o * k + i]}), limit);
        }
    }
}

// ---- Agreement with the reference, layer by layer and for whole networks ---------------
class OneDnnLayer : public testing::TestWithParam<std::size_t> {};
TEST_P(OneDnnLayer, AgreesWithTheReference) {
    const Layer& layer = layers()[GetParam()];
    for (const double smoothing : {0.0, 0.1}) {
        const Graph g = lower(layer, smoothing);
        gx::onednn::Device fast(g, {.batch = 5, .seed = 3, .rank = 2}, {.lanes = 2});
        gx::reference::Device slow(g, {.batch = 5, .seed = 3, .rank = 2});
        const auto start = agreement::parameters(g, 9);
        agreement::load(fast, start), agreement::load(slow, start);
        for (const int count : {5, 3, 4, 1}) {
            const auto far = agreement::step(g, fast, slow, Data(g, count, 21));
            const double limit = agreement::bound(g, count);
            EXPECT_LE(far.most(), limit) << layer.name << ", " << count << " images: loss "
                                         << far.loss << ", logits " << far.logits << ", gradients "
                                         << far.gradients << ", statistics " << far.statistics;
            EXPECT_TRUE(far.same_hits) << layer.name;
            EXPECT_TRUE(far.padding_is_zero) << layer.name;
        }
    }
}
INSTANTIATE_TEST_SUITE_P(Every, OneDnnLayer, testing::Range(std::size_t{0}, layers().size()));

namespace {
void expect_agreement(const Graph& g, bool winograd) {
    gx::onednn::Device fast(g, {.batch = 4}, {.lanes = 2, .winograd = winograd});
    gx::reference::Device slow(g, {.batch = 4});
    const auto start = agreement::parameters(g, 2);
    agreement::load(fast, start), agreement::load(slow, start);
    for (const int count : {4, 3}) {
        const auto far = agreement::step(g, fast, slow, Data(g, count, 8));
        EXPECT_LE(far.most(), agreement::bound(g, count))
            << count << " images: loss " << far.loss << ", logits " << far.logits << ", gradients "
            << far.gradients << ", statistics " << far.statistics;
    }
    const Data data(g, 4, 9);
    const auto a = fast.forward(data.batch(), Mode::evaluate),
               b = slow.forward(data.batch(), Mode::evaluate);
    EXPECT_NEAR(a.loss_sum / b.loss_sum, 1, agreement::bound(g, 4));
}
}  // namespace

/// As of a sparse channel behind a ReLU, or of a mark in a corner.
TEST(OneDnnAgreement, AgreesOnTheVarianceWhereTheFirstPixelsAreFarFromTheMean) {
    for (const int channels : {1, 16}) {
        GraphBuilder b("norm", {channels, 56, 56}, 3);
        const int x = b.max_pool(b.batch_norm(0, {}, "norm"), Window::square(56, 56), "pool");
        b.softmax_cross_entropy(b.linear(b.flatten(x, "flatten"), 3, true, "last"), 0, "loss");
        const Graph g = std::move(b).finish();
        Data data(g, 16, 1);
        for (std::size_t i = 0; i < data.images.size(); ++i) {
            const bool marked = i % (56 * 56) == 0 && i / (56 * 56) < std::size_t(channels);
            data.images[i] = marked ? 100.1f : 0.01f * data.images[i];
        }
        gx::reference::Device reference(g, {.batch = 16});
        gx::onednn::Device device(g, {.batch = 16});
        const std::vector<float> p = agreement::parameters(g, 1);
        reference.update([&](std::span<float> m) { reference.from_canonical(p, m); });
        device.update([&](std::span<float> m) { device.from_canonical(p, m); });
        (void)reference.forward(data.batch(), Mode::train);
        (void)device.forward(data.batch(), Mode::train);
        for (std::size_t i = 0; i < device.statistics().size(); ++i) {
            const float expected = reference.statistics()[i];
            EXPECT_NEAR(device.statistics()[i], expected, 1e-5 * std::abs(expected)) << i;
        }
    }
}
TEST(OneDnnAgreement, AgreesOnLeNet) { expect_agreement(gx::graph<gx::LeNet>(), true); }
TEST(OneDnnAgreement, AgreesOnResNet8) {
    expect_agreement(gx::graph<gx::FashionResNet<8>>(), true);
}
TEST(OneDnnAgreement, AgreesOnResNet8WithoutWinograd) {
    expect_agreement(gx::graph<gx::FashionResNet<8>>(), false);
}

TEST(OneDnnAgreement, AgreesWhereOutputsAreWorkedOutMoreThanOnce) {
    expect_agreement(agreement::residual_blocks(14, false), false);
    expect_agreement(agreement::residual_blocks(9, true), false);
}

/// Its second convolution may run by Winograd; 4 tiles of 4x4 an image.
template <int channels>
struct TwoTilesWide : gx::Network<gx::ImageShape{3, 8, 8}, 4, gx::Conv<channels, 3, 1, 1>,
                                  gx::BatchNorm, gx::ReLU, gx::Conv<channels, 3, 1, 1>,
                                  gx::BatchNorm, gx::ReLU, gx::GlobalAvgPool, gx::Classifier> {
    static constexpr std::string_view name = "TwoTilesWide";
};
namespace {
int last_convolution(const Graph& g) {
    int last = 0;
    for (std::size_t i = 0; i < g.ops.size(); ++i)
        if (g.ops[i].kind == gx::OpKind::conv2d) last = static_cast<int>(i);
    return last;
}
}  // namespace
TEST(OneDnnAgreement, ChoosesWinogradByTheTilesOfACall) {
    const Graph g = gx::graph<TwoTilesWide<64>>();
    const int second = last_convolution(g);
    gx::onednn::Device fast(g, {.batch = 24}, {.lanes = 1});
    gx::reference::Device slow(g, {.batch = 24});
    const auto start = agreement::parameters(g, 2);
    agreement::load(fast, start), agreement::load(slow, start);
    const auto agrees = [&](int count) {
        const auto far = agreement::step(g, fast, slow, Data(g, count, 8));
        EXPECT_LE(far.most(), agreement::bound(g, count)) << count << " images";
    };
    const auto runs = [&](const char* kernel) {
        return fast.kernels(second).find(kernel) != std::string::npos;
    };
    const bool has_winograd = agreement::has_winograd();
    agrees(24);  // 96 tiles
    for (const char* pass : {"forward: jit_wino", "data: jit_wino", "weights: jit_wino"})
        EXPECT_EQ(runs(pass), has_winograd) << fast.kernels(second);
    for (const char* pass : {"forward: jit:", "data: jit:", "weights: jit:"})
        EXPECT_EQ(runs(pass), !has_winograd) << fast.kernels(second);
    agrees(3);  // 12 tiles: too few for any pass
    for (const char* pass : {"forward: jit:", "data: jit:", "weights: jit:"})
        EXPECT_TRUE(runs(pass)) << fast.kernels(second);
    agrees(24);  // the data gradient reads the parameters again, not the copy of a direct kernel
}

namespace rule {
using gx::onednn::detail::least_winograd_tiles;
constexpr int none = std::numeric_limits<int>::max();
static_assert(least_winograd_tiles(false, 16 * 16, true) == none);
static_assert(least_winograd_tiles(true, 16 * 32, true) == none);
static_assert(least_winograd_tiles(false, 32 * 32, true) == 128);
static_assert(least_winograd_tiles(true, 32 * 32, true) == 512);
static_assert(least_winograd_tiles(false, 32 * 64, true) == 48);
static_assert(least_winograd_tiles(true, 512 * 512, true) == 48);
static_assert(least_winograd_tiles(false, 16 * 16, false) == 32);
static_assert(least_winograd_tiles(true, 512 * 512, false) == 16);
}  // namespace rule
TEST(OneDnnAgreement, ChoosesWinogradByTheChannels) {
    const Graph g = gx::graph<TwoTilesWide<16>>();
    const gx::onednn::Device d(g, {.batch = 128}, {.lanes = 1});  // 512 tiles
    const bool winograd = agreement::has_winograd() && !gx::onednn::detail::cpu_is_intel();
    const std::string kernels = d.kernels(last_convolution(g));
    EXPECT_EQ(kernels.find("wino") != std::string::npos, winograd) << kernels;
}

TEST(OneDnnAgreement, AgreesWhereWeightsAreCopiedInPassing) {
    expect_agreement(gx::graph<agreement::LargeWeights>(), false);
}

namespace {
void expect_to_follow_updates(const Graph& g, const gx::onednn::Tuning& tuning) {
    gx::onednn::Device fast(g, {.batch = 4}, tuning);
    gx::reference::Device slow(g, {.batch = 4});
    const auto start = agreement::parameters(g, 2);
    agreement::load(fast, start), agreement::load(slow, start);
    const auto train = [&](auto& d, const Data& data) {
        std::vector<float> gradients(d.parameters().size());
        static_cast<void>(d.forward(data.batch(), Mode::train));
        d.backward(0.25f, gradients, [](std::size_t) {});
        d.update([&](std::span<float> w) {
            for (std::size_t i = 0; i < w.size(); ++i) w[i] -= 0.01f * gradients[i];
        });
    };
    for (std::uint64_t s = 0; s < 2; ++s) {
        train(fast, Data(g, 4, s));
        train(slow, Data(g, 4, s));
    }
    // each step's error is enlarged by the next ones: a factor of 10 for both
    const auto far = agreement::step(g, fast, slow, Data(g, 4, 77));
    EXPECT_LE(far.most(), agreement::bound(g, 4, 10));
    EXPECT_LE(agreement::apart(agreement::canonical(fast, fast.parameters(), g), slow.parameters()),
              agreement::bound(g, 4));
}
}  // namespace
TEST(OneDnnAgreement, FollowsItsParametersThroughUpdates) {
    expect_to_follow_updates(gx::graph<gx::FashionResNet<8>>(), {});
    expect_to_follow_updates(gx::graph<agreement::LargeWeights>(), {.winograd = false});
}
