#include <gx/cuda/layer_kernels.hpp>

#include "device_memory.hpp"

#include <algorithm>  // max
#include <cmath>      // abs
#include <cstdint>    // uint8_t
#include <cstring>    // memcmp
#include <random>     // values
#include <vector>     // the host's

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/cuda/emulation/grid.hpp>   // seed, take_traffic
#include <gx/reference/batch_norm.hpp>  // the oracle
#include <gx/reference/round_to.hpp>    // round_to

namespace {

using namespace gx;
using cuda::BatchNormShape, cuda::ChannelNorm;
using cuda_tests::DeviceVector;
using cuda_tests::TestStream;

// ---- A layer -----------------------------------------------------------------------------------

struct Layer {
    std::int64_t rows = 1, all_rows = 1;
    int channels = 1;
    bool relu = false, residual = false;
    bool both = false;    ///< the residual passes a batch norm, too
    bool addend = false;  ///< of the gradient
    double offset = 0;    ///< means, in standard deviations
    double epsilon = 1e-5, momentum = 0.1;

    [[nodiscard]] BatchNormShape shape() const { return {rows, channels}; }
    [[nodiscard]] std::size_t elements() const {
        return static_cast<std::size_t>(all_rows * channels);
    }
    [[nodiscard]] std::size_t real() const { return static_cast<std::size_t>(rows * channels); }
    [[nodiscard]] std::size_t width() const { return static_cast<std::size_t>(channels); }
};

template <class E>
double number(typename E::storage x) {
    return double{E::decode(x)};
}
template <class E>
std::vector<typename E::storage> normals(const Layer& of, double mean, std::mt19937_64& random) {
    std::normal_distribution<double> normal;
    std::vector<typename E::storage> x(of.elements());
    for (std::size_t i = 0; i < x.size(); ++i) {
        const auto c = static_cast<double>(i % of.width());
        const double spread = std::exp2(static_cast<double>(i % of.width() % 5) - 2);
        x[i] = E::encode(static_cast<float>(spread * (normal(random) + mean * (1 + c / 8))));
    }
    return x;
}

/// Everything of a layer on the device, after forward.
template <class E>
struct Trial {
    using Storage = typename E::storage;
    Layer layer;
    std::vector<Storage> x, residual;
    std::vector<float> gamma, beta, mean, variance;  ///< running ones before
    std::vector<float> residual_gamma, residual_beta;
    std::vector<Storage> y{};
    std::vector<float> mean_after{}, variance_after{};
    std::vector<ChannelNorm> norms{};
    std::vector<std::uint8_t> mask{};

    Trial(const Layer& of, std::uint64_t seed) : layer(of) {
        std::mt19937_64 random(seed);
        x = normals<E>(of, of.offset, random);
        residual = normals<E>(of, 0, random);
        std::uniform_real_distribution<float> any(0.25f, 2);
        for (int c = 0; c < of.channels; ++c) {
            gamma.push_back(c % 4 == 3 ? -any(random) : any(random));
            beta.push_back(any(random) - 1);
            residual_gamma.push_back(any(random));
            residual_beta.push_back(any(random) - 1);
            mean.push_back(any(random));
            variance.push_back(any(random));
        }
    }

    void forward(bool train) {
        const TestStream stream;
        const DeviceVector<Storage> in(stream, x), added(stream, residual);
        // What no kernel writes is not 0.
        DeviceVector<Storage> out(stream, std::vector<Storage>(x.size(), E::encode(7.0f)));
        const DeviceVector<float> scale(stream, gamma), shift(stream, beta);
        DeviceVector<float> means(stream, mean), variances(stream, variance);
        DeviceVector<ChannelNorm> of_channels(stream, layer.width());
        const auto bytes =
            layer.residual ? cuda::batch_norm_mask_bytes({layer.all_rows, layer.channels}) : 0;
        DeviceVector<std::uint8_t> bits(stream, static_cast<std::size_t>(bytes));
        const auto doubles = cuda::batch_norm_scratch(layer.shape());
        const DeviceVector<double> scratch(
            stream, std::vector<double>(static_cast<std::size_t>(doubles), std::nan("")));
        const cuda::BatchNormParameters parameters{.gamma = scale,
                                                   .beta = shift,
                                                   .mean = means,
                                                   .variance = variances,
                                                   .epsilon = layer.epsilon,
                                                   .momentum = layer.momentum};
        cuda::BatchNormMaps<E> maps{.x = in, .y = out, .mask = bits, .relu = layer.relu};
        if (layer.residual) maps.residual = added;
        const auto run = [&](const cuda::BatchNormParameters& p, const cuda::BatchNormMaps<E>& of,
                             DeviceVector<ChannelNorm>& to) {
            if (train) cuda::batch_norm_train<E>(stream, layer.shape(), p, of, to, scratch);
            else cuda::batch_norm_evaluate<E>(stream, layer.shape(), p, of, to);
        };
        const DeviceVector<float> scales(stream, residual_gamma), shifts(stream, residual_beta);
        DeviceVector<float> other_means(stream, mean), other_variances(stream, variance);
        DeviceVector<ChannelNorm> of_residual(stream, layer.width());
        if (layer.both) {
            auto others = parameters;
            others.gamma = scales, others.beta = shifts;
            others.mean = other_means, others.variance = other_variances;
            run(others, {.x = added}, of_residual);
            maps.residual_norms = of_residual;
        }
        run(parameters, maps, of_channels);
        y = out.host();
        mean_after = means.host();
        variance_after = variances.host();
        norms = of_channels.host();
        mask = bits.host();
    }
};

// ---- The oracle --------------------------------------------------------------------------------

constexpr double u = 0x1p-24;  // of a float

template <class E>
double rounded(double x) {
    if constexpr (std::is_same_v<E, fp32>) return double{static_cast<float>(x)};
    else return reference::round_to<E>(x);
}

/// What an operation may store: rounding and relu keep the order of both ends.
struct Range {
    double low, high;
    template <class F>
    [[nodiscard]] Range map(F f) const {
        return {f(low), f(high)};
    }
    [[nodiscard]] bool contains(double x) const { return low <= x && x <= high; }
};
Range around(double x, double error) { return {x - error, x + error}; }
Range as_float(double x, double error) {
    return around(x, error).map([](double v) { return double{static_cast<float>(v)}; });
}

/// Moments of each channel, of the batch in training and the running ones else.
template <class E>
std::vector<reference::Moments> moments_of(const Trial<E>& run,
                                           const std::vector<typename E::storage>& of, bool train) {
    std::vector<double> x;
    for (std::size_t i = 0; i < run.layer.real(); ++i) x.push_back(number<E>(of[i]));
    const reference::ReadMaps maps{
        x.data(), static_cast<int>(run.layer.rows), {run.layer.channels, 1, 1}};
    std::vector<reference::Moments> all;
    for (int c = 0; c < run.layer.channels; ++c)
        all.push_back(train ? reference::channel_moments(maps, c)
                            : reference::Moments{.mean = run.mean[std::size_t(c)],
                                                 .variance = run.variance[std::size_t(c)]});
    return all;
}

/// Largest error of a sum in double, as a share of its terms' sizes: the kernel's, and the
/// oracle's, which adds one term after the other.
double sum_error(const reference::Moments& m) { return 0x1p-46 + 0x1p-53 * double(m.count); }
/// Largest error of the variance: sums of squares, and their difference.
double variance_error(const reference::Moments& m) {
    return sum_error(m) * (m.mean * m.mean + m.variance);
}
/// Largest relative error of 1 / sqrt(variance + epsilon).
double inverse_error(const reference::Moments& m, double epsilon) {
    return 0x1p-50 + variance_error(m) / (m.variance + epsilon);
}

/// gamma * (x - mean) * inverse + beta in floats, before it is rounded to E: x - mean is rounded
/// twice, and the product, the scale and the sum once each.
Range normalised(double x, const reference::Moments& m, double epsilon, double gamma, double beta) {
    const double scale = gamma / std::sqrt(m.variance + epsilon), part = scale * (x - m.mean);
    const double error = 4.01 * u * std::abs(part) + 1.01 * u * (std::abs(part) + std::abs(beta)) +
                         std::abs(part) * inverse_error(m, epsilon) +
                         std::abs(scale * m.mean) * 4 * sum_error(m) + 1e-40;
    return around(part + beta, error);
}

template <class E>
struct TrialMoments {
    std::vector<reference::Moments> x, residual;
    TrialMoments(const Trial<E>& run, bool train)
        : x(moments_of(run, run.x, train)), residual(moments_of(run, run.residual, train)) {}
};

template <class E>
Range expected(const Trial<E>& run, const TrialMoments<E>& moments, std::size_t i) {
    const Layer& l = run.layer;
    const std::size_t c = i % l.width();
    Range v = normalised(number<E>(run.x[i]), moments.x[c], l.epsilon, run.gamma[c], run.beta[c])
                  .map(rounded<E>);
    const double added = number<E>(run.residual[i]);
    Range r{added, added};
    if (l.both)
        r = normalised(added, moments.residual[c], l.epsilon, run.residual_gamma[c],
                       run.residual_beta[c])
                .map(rounded<E>);
    if (l.residual) v = Range{v.low + r.low, v.high + r.high}.map(rounded<E>);
    if (l.relu) v = v.map([](double at) { return std::max(at, 0.0); });
    return v;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
    return a.size() == b.size() &&
           (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Bit of an element in the mask: rows of whole bytes.
bool bit_of(const std::vector<std::uint8_t>& mask, const Layer& l, std::size_t i) {
    const std::size_t row = i / l.width(), c = i % l.width();
    return (mask[row * ((l.width() + 7) / 8) + c / 8] >> c % 8 & 1) != 0;
}

// ---- Cases -------------------------------------------------------------------------------------

/// Odd channels and whole packs, several tiles, tails of a batch, several blocks of sums.
Layer any_layer() {
    Layer l;
    l.channels = *rc::gen::element(1, 2, 3, 7, 8, 9, 16, 24, 33, 40, 64, 72, 136);
    l.rows = *rc::gen::weightedOneOf<std::int64_t>(
        {{5, rc::gen::inRange<std::int64_t>(0, 90)},
         {1, rc::gen::element<std::int64_t>(511, 512, 513, 1600)}});
    if (l.rows > 100 && l.channels > 24) l.channels = 24;
    l.all_rows = l.rows + *rc::gen::element<std::int64_t>(0, 0, 1, 37);
    l.relu = *rc::gen::arbitrary<bool>();
    l.residual = *rc::gen::arbitrary<bool>();
    l.both = l.residual && *rc::gen::arbitrary<bool>();
    l.addend = *rc::gen::arbitrary<bool>();
    l.offset = *rc::gen::element(0.0, 1.0, -300.0);
    l.epsilon = *rc::gen::element(1e-5, 1e-3);
    l.momentum = *rc::gen::element(0.1, 1.0);
    return l;
}

template <class E>
class BatchNorm : public ::testing::Test {};
using Elements = ::testing::Types<fp32, fp16, bf16>;
TYPED_TEST_SUITE(BatchNorm, Elements);

// ---- Forward -----------------------------------------------------------------------------------

template <class E>
void assert_outputs(const Trial<E>& run, const TrialMoments<E>& moments) {
    for (std::size_t i = 0; i < run.y.size(); ++i) {
        const double y = number<E>(run.y[i]);
        if (i >= run.layer.real()) {
            RC_ASSERT(y == 0 && !std::signbit(y));
            continue;
        }
        const Range range = expected(run, moments, i);
        if (!range.contains(y)) RC_LOG() << i << ": " << y << " " << range.low << " " << range.high;
        RC_ASSERT(range.contains(y));
        if (run.layer.residual && run.layer.relu)
            RC_ASSERT(bit_of(run.mask, run.layer, i) == (y > 0));
    }
}

TYPED_TEST(BatchNorm, NormalisesByTheMomentsOfTheBatch) {
    using E = TypeParam;
    EXPECT_TRUE(rc::check([] {
        const Layer layer = any_layer();
        const auto seed = *rc::gen::arbitrary<std::uint64_t>();
        Trial<E> run(layer, seed), again = run;
        cuda::emulation::seed(seed);
        run.forward(true);
        const TrialMoments<E> moments(run, true);
        assert_outputs(run, moments);
        for (std::size_t c = 0; c < layer.width(); ++c) {
            const reference::Moments& m = moments.x[c];
            float mean = run.mean[c], variance = run.variance[c];
            if (layer.rows > 0) reference::update_running(m, layer.momentum, mean, variance);
            RC_ASSERT(std::abs(run.mean_after[c] - mean) <= 2 * u * std::abs(mean) + 1e-40);
            RC_ASSERT(std::abs(double{run.variance_after[c]} - variance) <=
                      2 * u * variance + 2 * variance_error(m));
            const ChannelNorm& n = run.norms[c];
            RC_ASSERT(std::abs(n.exact_mean - m.mean) <=
                      sum_error(m) * (std::abs(m.mean) + std::sqrt(m.variance)));
            const double inverse = 1 / std::sqrt(m.variance + layer.epsilon);
            RC_ASSERT(std::abs(n.inverse - inverse) <= inverse * inverse_error(m, layer.epsilon));
        }
        cuda::emulation::seed(seed + 1);  // other orders of blocks and threads
        again.forward(true);
        RC_ASSERT(same_bits(run.y, again.y));
        RC_ASSERT(same_bits(run.norms, again.norms));
        RC_ASSERT(same_bits(run.variance_after, again.variance_after));
    }));
}

TYPED_TEST(BatchNorm, EvaluatesByTheRunningMoments) {
    using E = TypeParam;
    EXPECT_TRUE(rc::check([] {
        const Layer layer = any_layer();
        const auto seed = *rc::gen::arbitrary<std::uint64_t>();
        Trial<E> run(layer, seed);
        cuda::emulation::seed(seed);
        run.forward(false);
        assert_outputs(run, TrialMoments<E>(run, false));
        RC_ASSERT(same_bits(run.mean, run.mean_after));
        RC_ASSERT(same_bits(run.variance, run.variance_after));
    }));
}

/// One pass of both norms has the bits of one pass each.
TYPED_TEST(BatchNorm, NormalisesBothTermsWithTheBitsOfEach) {
    using E = TypeParam;
    for (const bool train : {true, false})
        for (const int channels : {5, 24}) {
            Trial<E> both({.rows = 70,
                           .all_rows = 75,
                           .channels = channels,
                           .relu = true,
                           .residual = true,
                           .both = true},
                          3);
            Trial<E> first = both, second = both;
            first.layer.residual = first.layer.both = first.layer.relu = false;
            first.x = both.residual;
            first.gamma = both.residual_gamma, first.beta = both.residual_beta;
            first.forward(train);
            second.layer.both = false;
            second.residual = first.y;
            second.forward(train);
            both.forward(train);
            EXPECT_TRUE(same_bits(both.y, second.y));
            EXPECT_TRUE(same_bits(both.mask, second.mask));
        }
}

/// -1e-9 rounds to a negative zero in fp16. It stays one where nothing is added, and a relu leaves
/// none.
TEST(BatchNormZeros, KeepTheirSignUnlessThereIsARelu) {
    for (const int channels : {3, 8})
        for (const bool relu : {false, true}) {
            Trial<fp16> run({.rows = 4, .all_rows = 4, .channels = channels, .relu = relu}, 1);
            run.x.assign(run.x.size(), 0);
            run.mean.assign(run.mean.size(), 0.0f);
            run.beta.assign(run.beta.size(), -1e-9f);
            run.forward(false);
            EXPECT_TRUE(
                same_bits(run.y, std::vector<fp16::storage>(run.y.size(), relu ? 0x0000 : 0x8000)))
                << channels << relu;
        }
}

/// The order that batch_norm.cu states, of x and of x * x.
double sum_of_channel(const Layer& l, const std::vector<double>& x, std::size_t c) {
    const std::size_t rows = static_cast<std::size_t>(l.rows), width = l.width();
    const std::size_t blocks = std::clamp<std::size_t>((rows + 511) / 512, 1, 512);
    const std::size_t of_block = (rows + blocks - 1) / blocks;
    std::size_t lanes = 32;  // threads that have packs of a row
    if (width % 8 == 0)
        for (lanes = 1; lanes < 8 && lanes < width / 8;) lanes *= 2;
    const std::size_t step = 256 / lanes, of_warp = 32 / lanes;
    std::vector<double> of_slice(8);
    for (std::size_t b = 0; b < blocks; ++b) {
        std::vector<double> threads(step);
        for (std::size_t t = 0; t < step; ++t)
            for (std::size_t r = b * of_block + t; r < std::min(rows, (b + 1) * of_block);
                 r += step)
                threads[t] += x[r * width + c];
        double sum = 0;
        for (std::size_t w = 0; w < 8; ++w) {
            std::vector<double> tree(threads.begin() + std::ptrdiff_t(w * of_warp),
                                     threads.begin() + std::ptrdiff_t((w + 1) * of_warp));
            for (std::size_t by = of_warp / 2; by > 0; by /= 2)
                for (std::size_t k = 0; k < by; ++k) tree[k] += tree[k + by];
            sum += tree[0];
        }
        of_slice[b % 8] += sum;
    }
    double sum = of_slice[0];
    for (std::size_t s = 1; s < 8; ++s) sum += of_slice[s];
    return sum;
}

TEST(BatchNormOrder, IsTheStatedOne) {
    for (const Layer& layer : {Layer{.rows = 5200, .all_rows = 5200, .channels = 3},
                               Layer{.rows = 5200, .all_rows = 5200, .channels = 8},
                               Layer{.rows = 700, .all_rows = 700, .channels = 24},
                               Layer{.rows = 531, .all_rows = 540, .channels = 72},
                               // more blocks than a warp adds at once
                               Layer{.rows = 40'000, .all_rows = 40'000, .channels = 1}}) {
        Trial<fp32> run(layer, 5);
        run.forward(true);
        std::vector<double> x;
        for (const float v : run.x) x.push_back(v);
        for (std::size_t c = 0; c < layer.width(); ++c)
            EXPECT_EQ(run.norms[c].exact_mean,
                      sum_of_channel(layer, x, c) / static_cast<double>(layer.rows))
                << layer.channels << " " << c;
    }
}

// ---- Backward ----------------------------------------------------------------------------------

template <class E>
struct Gradients {
    std::vector<typename E::storage> dx, residual;
    std::vector<float> dgamma, dbeta;
};
/// `addend`: of the layer's size, or empty.
template <class E>
Gradients<E> backward(const Trial<E>& run, const std::vector<typename E::storage>& dy,
                      const std::vector<typename E::storage>& addend = {}) {
    using Storage = typename E::storage;
    const Layer& l = run.layer;
    const TestStream stream;
    const DeviceVector<Storage> x(stream, run.x), gradient(stream, dy), added(stream, addend);
    DeviceVector<Storage> dx(stream, std::vector<Storage>(dy.size(), E::encode(7.0f)));
    DeviceVector<Storage> passed(stream, std::vector<Storage>(dy.size(), E::encode(7.0f)));
    const DeviceVector<ChannelNorm> norms(stream, run.norms);
    const DeviceVector<std::uint8_t> mask(stream, run.mask);
    DeviceVector<float> dgamma(stream, l.width()), dbeta(stream, l.width());
    const auto doubles = cuda::batch_norm_scratch(l.shape());
    const DeviceVector<double> scratch(
        stream, std::vector<double>(static_cast<std::size_t>(doubles), std::nan("")));
    cuda::BatchNormGradients<E> maps{.x = x,
                                     .dy = gradient,
                                     .addend = added,
                                     .mask = mask,
                                     .dx = dx,
                                     .dgamma = dgamma,
                                     .dbeta = dbeta,
                                     .relu = l.relu};
    if (l.residual) maps.residual_gradient = passed;
    cuda::batch_norm_backward<E>(stream, l.shape(), norms, maps, scratch);
    return {dx.host(), passed.host(), dgamma.host(), dbeta.host()};
}

TYPED_TEST(BatchNorm, PassesGradientsBack) {
    using E = TypeParam;
    EXPECT_TRUE(rc::check([] {
        const Layer layer = any_layer();
        const auto seed = *rc::gen::arbitrary<std::uint64_t>();
        Trial<E> run(layer, seed);
        cuda::emulation::seed(seed);
        run.forward(true);
        std::mt19937_64 random(seed + 1);
        const auto first = normals<E>(layer, 0.5, random);
        auto addend = normals<E>(layer, 0.25, random);
        if (!layer.addend) addend.clear();
        auto dy = first;
        for (std::size_t i = 0; i < addend.size(); ++i)
            dy[i] = E::encode(E::decode(first[i]) + E::decode(addend[i]));
        const Gradients<E> got = backward(run, first, addend);
        const auto moments = moments_of(run, run.x, true);
        for (std::size_t c = 0; c < layer.width(); ++c) {
            const reference::Moments& m = moments[c];
            const double inverse = 1 / std::sqrt(m.variance + layer.epsilon);
            const double scale = run.gamma[c] * inverse;
            double sum = 0, projection = 0, size = 0, products = 0;
            std::vector<double> d;
            for (std::size_t i = c; i < layer.real(); i += layer.width()) {
                const bool passes = !layer.relu || number<E>(run.y[i]) > 0;
                d.push_back(passes ? number<E>(dy[i]) : 0.0);
                const double x = number<E>(run.x[i]);
                sum += d.back();
                projection += d.back() * (x - m.mean) * inverse;
                size += std::abs(d.back());
                products += std::abs(d.back()) * (std::abs(x) + std::abs(m.mean)) * inverse;
            }
            const double wrong = inverse_error(m, layer.epsilon);
            const double of_sum = 4 * sum_error(m) * size;
            const double projection_error =
                4 * sum_error(m) * products + wrong * std::abs(projection);
            RC_ASSERT(as_float(sum, of_sum).contains(got.dbeta[c]));
            RC_ASSERT(as_float(projection, projection_error).contains(got.dgamma[c]));
            const auto count = static_cast<double>(std::max<std::int64_t>(layer.rows, 1));
            std::size_t row = 0;
            for (std::size_t i = c; i < layer.elements(); i += layer.width(), ++row) {
                const double dx = number<E>(got.dx[i]), passed = number<E>(got.residual[i]);
                if (i >= layer.real()) {
                    RC_ASSERT(dx == 0);
                    RC_ASSERT(!layer.residual || passed == 0);
                    continue;
                }
                RC_ASSERT(!layer.residual || passed == d[row]);
                const double centred = number<E>(run.x[i]) - m.mean;
                const double part = centred * inverse * projection / count;
                const double exact = scale * (d[row] - sum / count - part);
                const double terms = std::abs(d[row]) + std::abs(sum / count) + std::abs(part);
                const double error =
                    std::abs(scale) *
                        (7 * u * terms +
                         (of_sum + projection_error * std::abs(centred) * inverse) / count +
                         4 * sum_error(m) * std::abs(m.mean * inverse * projection / count)) +
                    2 * wrong * std::abs(scale) * terms + 1e-40;
                const Range range = around(exact, error).map(rounded<E>);
                if (!range.contains(dx))
                    RC_LOG() << i << ": " << dx << " " << range.low << " " << range.high;
                RC_ASSERT(range.contains(dx));
            }
        }
        cuda::emulation::seed(seed + 2);
        const Gradients<E> again = backward(run, dy);  // the sum, by itself
        RC_ASSERT(same_bits(got.dx, again.dx));
        RC_ASSERT(same_bits(got.residual, again.residual));
        RC_ASSERT(same_bits(got.dgamma, again.dgamma));
        RC_ASSERT(same_bits(got.dbeta, again.dbeta));
    }));
}

/// A normalised value that is 0 in E passes no gradient, though it is more in a float.
TEST(BatchNormRelu, PassesNoGradientAtZero) {
    for (const int channels : {3, 8}) {
        Trial<fp16> run({.rows = 9, .all_rows = 9, .channels = channels, .relu = true}, 1);
        run.gamma.assign(run.layer.width(), 0.0f);
        run.beta.assign(run.layer.width(), 0.0f);
        run.beta[1] = 0x1p-26f;  // below half of the smallest of fp16
        run.beta[2] = 0x1p-24f;
        run.forward(true);
        const auto got = backward(run, std::vector<fp16::storage>(run.x.size(), fp16::encode(1)));
        for (std::size_t c = 0; c < run.layer.width(); ++c)
            EXPECT_EQ(got.dbeta[c], c == 2 ? 9.0f : 0.0f) << c;
    }
}

/// Of whole numbers all sums are exact, in floats too.
TEST(BatchNormSums, ThatAreThereGiveTheSameNorms) {
    for (const int channels : {3, 40}) {
        Trial<fp16> run({.rows = 70, .all_rows = 75, .channels = channels, .relu = true}, 1);
        std::vector<float> sums(2 * run.layer.width());
        for (std::size_t i = 0; i < run.x.size(); ++i) {
            const float v = static_cast<float>(i * i % 19) - 7;
            run.x[i] = fp16::encode(v);
            if (i >= run.layer.real()) continue;
            sums[i % run.layer.width()] += v;
            sums[run.layer.width() + i % run.layer.width()] += v * v;
        }
        run.forward(true);
        const TestStream stream;
        const DeviceVector<fp16::storage> x(stream, run.x);
        DeviceVector<fp16::storage> y(stream, run.x);
        const DeviceVector<float> gamma(stream, run.gamma), beta(stream, run.beta),
            given(stream, sums);
        DeviceVector<float> mean(stream, run.mean), variance(stream, run.variance);
        DeviceVector<ChannelNorm> norms(stream, run.layer.width());
        const cuda::DeviceSpan<const float> here = given;
        cuda::batch_norm_train<fp16>(
            stream, run.layer.shape(),
            {gamma, beta, mean, variance, run.layer.epsilon, run.layer.momentum},
            {.x = x, .y = y, .relu = true}, norms, here);
        EXPECT_TRUE(same_bits(norms.host(), run.norms));
        EXPECT_TRUE(same_bits(y.host(), run.y));
        EXPECT_EQ(mean.host(), run.mean_after);
        EXPECT_EQ(variance.host(), run.variance_after);
    }
}

// ---- Traffic and contracts ---------------------------------------------------------------------

struct Bytes {
    double read, written;
};
/// An element. Beside it each thread reads what it needs of its channels, 32 bytes each and 48 in
/// the last kernel of backward, once for eight rows and for 31 where it sums, and there each byte
/// of a mask is read by two threads: from cache.
template <class E>
void expect_traffic(Layer layer, Bytes forward, Bytes back) {
    layer.rows = layer.all_rows = 20'000;
    layer.channels = 64;
    layer.relu = true;
    Trial<E> run(layer, 1);
    const auto expect = [&](const Bytes& of_element, double cached) {
        const cuda::emulation::Traffic got = cuda::emulation::take_traffic();
        const auto elements = static_cast<double>(layer.elements());
        const double tolerance = 0.04 * (of_element.read + of_element.written);
        EXPECT_NEAR(static_cast<double>(got.read) / elements, of_element.read + cached, tolerance);
        EXPECT_NEAR(static_cast<double>(got.written) / elements, of_element.written, tolerance);
    };
    (void)cuda::emulation::take_traffic();
    run.forward(true);
    expect(forward, (layer.both ? 2 : 1) * 32. / 8);
    (void)backward(run, run.x, layer.addend ? run.x : decltype(run.x){});
    expect(back, 32. / 31 + 48. / 8 + (layer.residual ? 1. / 8 : 0));
}
TEST(BatchNormTraffic, IsAsDocumented) {
    expect_traffic<fp16>({}, {2 * 2, 2}, {4 * 2, 2});
    expect_traffic<fp16>({.addend = true}, {2 * 2, 2}, {6 * 2, 2});
    expect_traffic<bf16>({.residual = true}, {3 * 2, 2 + 1. / 8}, {4 * 2 + 1. / 8, 2 * 2});
    expect_traffic<fp32>({.residual = true}, {3 * 4, 4 + 1. / 8}, {4 * 4 + 1. / 8, 2 * 4});
    expect_traffic<fp16>({.residual = true, .both = true, .addend = true}, {4 * 2, 2 + 1. / 8},
                         {5 * 2 + 1. / 8, 2 * 2});
}

TEST(BatchNormContract, WantsBuffersThatFit) {
    Trial<fp16> empty({.rows = 0, .all_rows = 0, .channels = 0}, 1);
    EXPECT_DEATH(empty.forward(false), "a batch norm has rows of channels");
    Trial<fp16> run({.rows = 4, .all_rows = 3, .channels = 5}, 1);
    EXPECT_DEATH(run.forward(true), "whole rows, those of the batch or more");
    const TestStream stream;
    const auto evaluate = [&](std::int64_t rows) {  // no memory is there
        cuda::batch_norm_evaluate<fp16>(stream, {rows, 1}, {}, {.x = {nullptr, rows}}, {});
    };
    EXPECT_DEATH(evaluate((1 << 30) + 1), "at most 2\\^30 rows");
    EXPECT_DEATH(evaluate(1 << 30), "as many parameters");
    run.layer.rows = 3;
    run.gamma.pop_back();
    EXPECT_DEATH(run.forward(false), "as many parameters");
    Trial<fp16> joined({.rows = 3, .all_rows = 3, .channels = 5, .relu = true, .residual = true},
                       1);
    joined.forward(true);
    joined.mask.clear();
    EXPECT_DEATH((void)backward(joined, joined.x), "needs the mask of forward");
    EXPECT_DEATH((void)backward(joined, joined.x, {fp16::encode(1)}), "have one length");
}

TEST(BatchNormNonFinite, StaysSo) {
    for (const float bad : {INFINITY, std::nanf("")}) {
        Trial<fp16> run({.rows = 40, .all_rows = 40, .channels = 8, .relu = true}, 1);
        run.x[8 * 7 + 3] = fp16::encode(bad);
        run.forward(true);
        for (std::size_t i = 0; i < run.y.size(); ++i)
            EXPECT_EQ(std::isnan(number<fp16>(run.y[i])), i % 8 == 3) << i;
        EXPECT_FALSE(std::isfinite(run.mean_after[3]));
    }
}

}  // namespace
