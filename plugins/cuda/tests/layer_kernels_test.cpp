#include <gx/cuda/layer_kernels.hpp>

#include "device_memory.hpp"

#include "../src/packs.hpp"
#include "../src/plain_math.hpp"

#include <algorithm>  // count
#include <bit>        // bit_cast
#include <cmath>      // exp, log
#include <cstdint>    // uint8_t
#include <cstring>    // memcmp
#include <random>     // values
#include <vector>     // the host's

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/core/convert.hpp>           // encode
#include <gx/core/device.hpp>            // normalise_into
#include <gx/cuda/emulation/grid.hpp>    // seed, take_traffic
#include <gx/reference/elementwise.hpp>  // dropout_stream, dropout_factor
#include <gx/reference/loss.hpp>         // cross_entropy
#include <gx/reference/round_to.hpp>     // round_to

namespace {

using namespace gx;
using cuda::ImageLoss, cuda::LossShape, cuda::PixelShape;
using cuda_tests::DeviceVector;
using cuda_tests::TestStream;

template <class E>
double number(typename E::storage x) {
    return double{E::decode(x)};
}
/// x rounded once.
template <class E>
typename E::storage rounded(double x) {
    if constexpr (std::is_same_v<E, fp32>) return static_cast<float>(x);
    else return E::encode(static_cast<float>(reference::round_to<E>(x)));
}
template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
    return a.size() == b.size() &&
           (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}
std::uint64_t any_seed() {
    const auto seed = *rc::gen::arbitrary<std::uint64_t>();
    cuda::emulation::seed(seed);
    return seed;
}
template <class T>
std::vector<T> filled(std::size_t count, T with) {
    return std::vector<T>(count, with);
}

/// Numbers that two functions must give the same bits: what no kernel writes is none of them.
template <class E>
auto unwritten(std::size_t count) {
    return filled(count, E::encode(7.0f));
}

template <class E>
class Layers : public ::testing::Test {};
using Elements = ::testing::Types<fp32, fp16, bf16>;
TYPED_TEST_SUITE(Layers, Elements);

// ---- Plain mathematics -------------------------------------------------------------------------

TEST(PlainMath, IsThatOfTheLibrary) {
    std::mt19937_64 random(1);
    std::uniform_real_distribution<double> any(-745, 3), more(0, 15);
    for (int i = 0; i < 100'000; ++i) {
        const double x = any(random), exact = std::exp(x);
        EXPECT_NEAR(cuda::exponential(x), exact, 0x1p-51 * exact + 0x1p-1021) << x;
        const double large = std::exp(more(random));
        EXPECT_NEAR(cuda::logarithm(large), std::log(large), 0x1p-51 * std::log(large) + 1e-17)
            << large;
    }
    EXPECT_EQ(cuda::exponential(0.0), 1);
    EXPECT_EQ(cuda::exponential(-INFINITY), 0);
    EXPECT_EQ(cuda::exponential(INFINITY), INFINITY);
    EXPECT_GT(cuda::exponential(-708.0), 0);
    EXPECT_LT(cuda::exponential(709.0), INFINITY);
    EXPECT_TRUE(std::isnan(cuda::exponential(std::nan(""))));
    EXPECT_EQ(cuda::logarithm(1.0), 0);
    EXPECT_TRUE(std::isnan(cuda::logarithm(std::nan(""))));
}

/// Just beside each tie of fp16 and bf16, where rounding to a float first would round twice.
TYPED_TEST(Layers, DoublesAreRoundedOnce) {
    using E = TypeParam;
    std::mt19937_64 random(1);
    for (int i = 0; i < 20'000; ++i) {
        const auto bits = static_cast<std::uint32_t>(random());
        const double coarse = std::bit_cast<float>(bits & 0xbffff000u);  // a tie, or none
        const double x = coarse * (1 + (static_cast<double>(random() % 3) - 1) * 0x1p-40);
        if (!std::isfinite(x)) continue;
        const auto got = cuda::encoded_once<E>(x), expected = rounded<E>(x);
        ASSERT_EQ(std::memcmp(&got, &expected, sizeof got), 0) << x;
    }
    EXPECT_EQ(number<E>(cuda::encoded_once<E>(-1e300)), -INFINITY);
    EXPECT_EQ(number<E>(cuda::encoded_once<E>(1e-300)), 0);
    EXPECT_TRUE(std::isnan(number<E>(cuda::encoded_once<E>(std::nan("")))));
}

// ---- Loss --------------------------------------------------------------------------------------

template <class E>
struct Losses {
    using Storage = typename E::storage;
    LossShape shape;
    std::vector<Storage> logits;  ///< (rows, classes), more rows than images
    std::vector<std::int32_t> labels;
    float scale = 1;
    std::vector<SecondLabel> second{};  ///< none: one label an image
    std::vector<ImageLoss> of_images{};
    ForwardReport report{};
    std::vector<Storage> gradient{};

    void run() {
        const TestStream stream;
        const DeviceVector<Storage> z(stream, logits);
        const DeviceVector<std::int32_t> at(stream, labels);
        DeviceVector<ImageLoss> losses(stream, static_cast<std::size_t>(shape.images));
        DeviceVector<ForwardReport> reports(stream, filled(1, ForwardReport{5, 5, false}));
        const DeviceVector<SecondLabel> others(stream, second);
        const cuda::BatchLabels both{at, others};
        cuda::softmax_cross_entropy<E>(stream, shape, z, both, losses, reports);
        const DeviceVector<float> factor(stream, filled(1, scale));
        DeviceVector<Storage> dz(stream, unwritten<E>(logits.size()));
        cuda::softmax_cross_entropy_backward<E>(stream, shape, z, both, losses, factor, dz);
        of_images = losses.host();
        report = reports.host()[0];
        gradient = dz.host();
    }
};

template <class E>
Losses<E> any_losses(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    Losses<E> l;
    l.shape = {.images = *rc::gen::element(0, 1, 2, 5, 31),
               .classes = *rc::gen::element(2, 3, 10, 255, 256, 257, 700),
               .smoothing = *rc::gen::element(0.0, 0.1, 0.5)};
    const auto rows = static_cast<std::size_t>(l.shape.images + *rc::gen::element(0, 0, 1, 3));
    const auto classes = static_cast<std::size_t>(l.shape.classes);
    l.scale = *rc::gen::element(1.0f, 128.0f, 0.3f);
    const double spread = *rc::gen::element(1.0, 30.0);
    std::normal_distribution<double> normal(0, spread);
    for (std::size_t i = 0; i < rows * classes; ++i)  // few values: ties are frequent
        l.logits.push_back(E::encode(static_cast<float>(std::round(normal(random) * 4) / 4)));
    for (std::size_t n = 0; n < rows; ++n)
        l.labels.push_back(static_cast<std::int32_t>(random() % classes));
    if (*rc::gen::arbitrary<bool>())
        for (std::size_t n = 0; n < rows; ++n)
            l.second.push_back({static_cast<std::int32_t>(random() % classes),
                                static_cast<float>(random() % 65) / 64});
    return l;
}

TYPED_TEST(Layers, LossIsThatOfTheReference) {
    using E = TypeParam;
    EXPECT_TRUE(rc::check([] {
        Losses<E> l = any_losses<E>(any_seed());
        const int classes = l.shape.classes, images = l.shape.images;
        std::vector<double> z, dz(l.logits.size());
        for (const auto x : l.logits) z.push_back(number<E>(x));
        const reference::ReadMaps logits{z.data(), images, {classes, 1, 1}};
        const reference::WriteMaps gradient{dz.data(), images, {classes, 1, 1}};
        for (int n = 0; n < images; ++n)  // half of them are right
            if (n % 2 == 0) l.labels[std::size_t(n)] = reference::predicted(logits, n);
        for (int n = 1; n < images; n += 4)  // about the fifth place
            for (int k = 0; k < classes; ++k)
                if (reference::place_of(logits, n, k) == std::min(3 + n % 3, classes - 1))
                    l.labels[std::size_t(n)] = k;
        l.run();
        const double terms = classes + 16;  // roundings of sums of classes, and of each term
        double sum = 0;
        std::int64_t correct = 0, top5 = 0;
        for (int n = 0; n < images; ++n) {
            reference::Labels both(l.labels[std::size_t(n)]);
            if (!l.second.empty()) both.second = l.second[std::size_t(n)];
            const int label = counted_label(both.first, both.second);
            const double loss = reference::cross_entropy(logits, n, both, l.shape.smoothing);
            const ImageLoss& got = l.of_images[std::size_t(n)];
            const double size = 200 + std::abs(reference::log_sum_exp(logits, n));
            RC_ASSERT(std::abs(got.loss - loss) <= 0x1p-52 * terms * size);
            const bool hit = reference::predicted(logits, n) == label;
            RC_ASSERT(got.correct == (hit ? 1 : 0));
            correct += hit ? 1 : 0;
            top5 += reference::place_of(logits, n, label) < 5 ? 1 : 0;
            sum += got.loss;
            reference::cross_entropy_backward(logits, n, both, l.shape.smoothing, gradient);
        }
        RC_ASSERT(l.report.correct == correct);
        RC_ASSERT(l.report.top5 == top5);
        RC_ASSERT(std::abs(l.report.loss_sum - sum) <= 0x1p-48 * std::abs(sum));
        RC_ASSERT(l.report.finite);
        for (std::size_t i = 0; i < l.logits.size(); ++i) {
            const double exact = dz[i] * double{l.scale}, got = number<E>(l.gradient[i]);
            const double error = 0x1p-52 * (terms + 400) * double{l.scale};  // logits up to 200
            RC_ASSERT(number<E>(rounded<E>(exact - error)) <= got);
            RC_ASSERT(got <= number<E>(rounded<E>(exact + error)));
        }
        Losses<E> again = l;
        again.run();
        RC_ASSERT(same_bits(l.gradient, again.gradient));
        RC_ASSERT(l.report.loss_sum == again.report.loss_sum);
    }));
}

/// The order of the sums, as the comment states it.
double tree(std::vector<double> v) {  // 32
    for (std::size_t by = 16; by > 0; by /= 2)
        for (std::size_t k = 0; k < by; ++k) v[k] += v[k + by];
    return v[0];
}
double block_sum(const std::vector<double>& values) {
    std::vector<double> threads(256), warps(32);
    for (std::size_t i = 0; i < values.size(); ++i) threads[i % 256] += values[i];
    for (std::size_t w = 0; w < 8; ++w)
        warps[w] = tree({threads.begin() + std::ptrdiff_t(32 * w),
                         threads.begin() + std::ptrdiff_t(32 * w + 32)});
    return tree(warps);
}
TEST(Loss, IsSummedInTheStatedOrder) {
    std::mt19937_64 random(3);
    std::normal_distribution<float> normal(0, 3);
    Losses<fp32> l;
    l.shape = {.images = 700, .classes = 300, .smoothing = 0.1};
    for (int i = 0; i < 700 * 300; ++i) l.logits.push_back(normal(random));
    for (int n = 0; n < 700; ++n) l.labels.push_back(n % 300);
    l.run();
    std::vector<double> losses;
    for (std::size_t n = 0; n < 700; ++n) {
        const float* z = &l.logits[n * 300];
        const double largest = *std::max_element(z, z + 300);
        std::vector<double> shares, away;
        for (int k = 0; k < 300; ++k) shares.push_back(cuda::exponential(z[k] - largest));
        const double log_sum = largest + cuda::logarithm(block_sum(shares));
        EXPECT_EQ(l.of_images[n].log_sum_exp, log_sum);
        for (int k = 0; k < 300; ++k) away.push_back(log_sum - z[k]);
        const double label = log_sum - z[l.labels[n]];
        losses.push_back(0.1 / 300 * block_sum(away) + (1 - 0.1) * label);
        EXPECT_EQ(l.of_images[n].loss, losses.back());
    }
    EXPECT_EQ(l.report.loss_sum, block_sum(losses));
}

TEST(Loss, TakesTheFirstOfEqualLogits) {
    for (const int label : {0, 1, 40, 41, 299}) {
        Losses<fp16> l{.shape = {.images = 1, .classes = 300},
                       .logits = filled<std::uint16_t>(300, 0),
                       .labels = {label}};
        l.logits[40] = l.logits[41] = l.logits[299] = fp16::encode(2.0f);
        l.run();
        EXPECT_EQ(l.report.correct, label == 40 ? 1 : 0);
        l.logits = filled<std::uint16_t>(300, 0);
        l.run();
        EXPECT_EQ(l.report.correct, label == 0 ? 1 : 0);
    }
}

TEST(Loss, OfLogitsThatAreNotFiniteIsThatOfTheReference) {
    for (const float bad : {INFINITY, -INFINITY, std::nanf("")})
        for (const int at : {0, 2})
            for (const int label : {0, 2, 4})
                for (const double smoothing : {0.0, 0.1, 1.0}) {
                    Losses<fp32> l{.shape = {.images = 1, .classes = 5, .smoothing = smoothing},
                                   .logits = {1, 3, 2, 4, 4},
                                   .labels = {label}};
                    l.logits[std::size_t(at)] = bad;
                    l.run();
                    const std::vector<double> z(l.logits.begin(), l.logits.end());
                    const reference::ReadMaps logits{z.data(), 1, {5, 1, 1}};
                    const double loss = reference::cross_entropy(logits, 0, label, smoothing);
                    const double got = l.report.loss_sum;
                    EXPECT_EQ(std::isnan(got), std::isnan(loss)) << bad << at << label;
                    EXPECT_EQ(std::isinf(got), std::isinf(loss)) << bad << at << label;
                    EXPECT_EQ(l.report.finite, std::isfinite(loss));
                    EXPECT_EQ(l.report.correct, reference::predicted(logits, 0) == label);
                }
}

TEST(Loss, OfASecondLabelWithoutAShareHasTheBitsOfOne) {
    std::mt19937_64 random(3);
    std::normal_distribution<float> normal(0, 3);
    for (const double smoothing : {0.0, 0.1}) {
        Losses<fp32> one;
        one.shape = {.images = 5, .classes = 300, .smoothing = smoothing};
        for (int i = 0; i < 5 * 300; ++i) one.logits.push_back(normal(random));
        for (int n = 0; n < 5; ++n) one.labels.push_back(n * 7);
        Losses<fp32> none = one, all = one;
        none.second.assign(5, {3, 0});
        all.labels.assign(5, 3);
        for (int n = 0; n < 5; ++n) all.second.push_back({n * 7, 1});
        one.run();
        for (Losses<fp32>* other : {&none, &all}) {
            other->run();
            EXPECT_EQ(other->report.loss_sum, one.report.loss_sum);
            EXPECT_TRUE(same_bits(other->gradient, one.gradient));
        }
    }
}

/// A share of 1 leaves nothing of the first label's loss, which is infinite here.
TEST(Loss, IsOfTheSecondLabelAloneWhereItHasAll) {
    Losses<fp32> l{.shape = {.images = 1, .classes = 3},
                   .logits = {-INFINITY, 0, 0},
                   .labels = {0},
                   .second = {{1, 1.0f}}};
    l.run();
    EXPECT_NEAR(l.of_images[0].loss, std::log(2.0), 1e-12);
}

TEST(Loss, WantsALabelAnImage) {
    Losses<fp32> l{.shape = {.images = 2, .classes = 2}, .logits = {1, 2, 3, 4}, .labels = {0}};
    EXPECT_DEATH(l.run(), "a label and a loss an image");
    l.labels = {0, 1};
    l.second = {{1, 0.5f}};
    EXPECT_DEATH(l.run(), "a second label an image, or none");
    l.shape.classes = 0;
    EXPECT_DEATH(l.run(), "a loss has images of classes");
}

// ---- Dropout -----------------------------------------------------------------------------------

TYPED_TEST(Layers, DropoutDrawsAsTheReference) {
    using E = TypeParam;
    EXPECT_TRUE(rc::check([] {
        const auto seed = any_seed();
        std::mt19937_64 random(seed);
        const PixelShape shape{*rc::gen::element<std::int64_t>(0, 1, 3),
                               *rc::gen::element(1, 3, 40), *rc::gen::element(1, 2, 49)};
        const std::int64_t room = shape.images + *rc::gen::element(0, 1);
        const double rate = *rc::gen::element(0.0, 0.25, 0.5, 0.9);
        const Rng draws = reference::dropout_stream(seed, "drop", 3, seed % 100);
        const auto channels = static_cast<std::size_t>(shape.channels),
                   pixels = static_cast<std::size_t>(shape.pixels);
        const auto count = static_cast<std::size_t>(room) * channels * pixels;
        std::normal_distribution<float> normal;
        std::vector<typename E::storage> x(count), expected(count, E::encode(0.0f));
        for (auto& v : x) v = E::encode(normal(random));
        for (std::size_t n = 0; n < static_cast<std::size_t>(shape.images); ++n)
            for (std::size_t c = 0; c < channels; ++c)
                for (std::size_t p = 0; p < pixels; ++p) {
                    const std::size_t at = (n * pixels + p) * channels + c;
                    const double factor =
                        reference::dropout_factor(draws, (n * channels + c) * pixels + p, rate);
                    expected[at] = rounded<E>(number<E>(x[at]) * factor);
                }
        const TestStream stream;
        const DeviceVector<typename E::storage> in(stream, x);
        DeviceVector<typename E::storage> out(stream, unwritten<E>(count));
        const DeviceVector<std::uint64_t> draw(stream, std::vector<std::uint64_t>{seed % 100});
        cuda::dropout<E>(stream, shape, Rng(seed, "drop").at(3), draw, rate, in, out);
        RC_ASSERT(same_bits(out.host(), expected));
    }));
}

TEST(Dropout, KeepsTheGradientsOfWhatItKept) {
    const TestStream stream;
    const PixelShape shape{2, 30, 9};
    const Rng draws = Rng(1, "drop").at(0);
    const DeviceVector<std::uint64_t> draw(stream, std::vector<std::uint64_t>{7});
    const DeviceVector<float> ones(stream, filled(540, 1.0f)), twos(stream, filled(540, 2.0f));
    DeviceVector<float> y(stream, 540), dx(stream, 540);
    cuda::dropout<fp32>(stream, shape, draws, draw, 0.5, ones, y);
    cuda::dropout<fp32>(stream, shape, draws, draw, 0.5, twos, dx);
    const auto of_y = y.host(), of_dx = dx.host();
    for (std::size_t i = 0; i < 540; ++i) EXPECT_EQ(of_dx[i], 2 * of_y[i]);
    const auto kept = std::count(of_y.begin(), of_y.end(), 2.0f);
    EXPECT_EQ(kept + std::count(of_y.begin(), of_y.end(), 0.0f), 540);
    EXPECT_NEAR(static_cast<double>(kept), 270, 60);
    EXPECT_DEATH(cuda::dropout<fp32>(stream, shape, draws, draw, 1.0, ones, y), "less than all");
    EXPECT_DEATH(cuda::dropout<fp32>(stream, {2, 0, 9}, draws, draw, 0.5, ones, y), "whole images");
}

/// Draws are in [0, 1): the share of those below the rate is the rate.
TEST(Dropout, KeepsAnElementWhoseDrawIsTheRate) {
    const TestStream stream;
    const Rng draws = Rng(1, "drop").at(0);
    const double rate = double{draws.at(7).uniform(5)};
    const DeviceVector<std::uint64_t> draw(stream, std::vector<std::uint64_t>{7});
    const DeviceVector<float> ones(stream, filled(9, 1.0f));
    DeviceVector<float> y(stream, 9);
    cuda::dropout<fp32>(stream, {1, 1, 9}, draws, draw, rate, ones, y);
    EXPECT_EQ(y.host()[5], static_cast<float>(1 / (1 - rate)));
}

// ---- Images ------------------------------------------------------------------------------------

TYPED_TEST(Layers, ImagesArePackedChannelsLast) {
    using E = TypeParam;
    using Storage = typename E::storage;
    EXPECT_TRUE(rc::check([] {
        std::mt19937_64 random(any_seed());
        const PixelShape shape{*rc::gen::inRange<std::int64_t>(0, 4), *rc::gen::element(1, 3, 5),
                               *rc::gen::inRange(1, 90)};
        const int padded = shape.channels + *rc::gen::element(0, 0, 1, 3, 5);
        const auto room = static_cast<std::size_t>(shape.images + *rc::gen::element(0, 2));
        const auto channels = static_cast<std::size_t>(shape.channels),
                   pixels = static_cast<std::size_t>(shape.pixels),
                   images = static_cast<std::size_t>(shape.images),
                   width = static_cast<std::size_t>(padded);
        std::vector<std::uint8_t> bytes(images * channels * pixels);
        for (auto& b : bytes) b = static_cast<std::uint8_t>(random());
        std::vector<float> values(channels * 256);
        std::normal_distribution<float> normal;
        for (auto& v : values) v = normal(random);
        std::vector<float> floats(bytes.size());
        normalise_into(Batch{.count = static_cast<int>(images), .pixels = bytes, .values = values},
                       floats.data());

        std::vector<Storage> expected(room * pixels * width, E::encode(0.0f));
        for (std::size_t i = 0; i < floats.size(); ++i) {
            const std::size_t image = i / (pixels * channels), c = i / pixels % channels;
            expected[(image * pixels + i % pixels) * width + c] = E::encode(floats[i]);
        }
        const TestStream stream;
        const DeviceVector<float> in(stream, floats), table(stream, values);
        const DeviceVector<std::uint8_t> of_bytes(stream, bytes);
        DeviceVector<Storage> out(stream, unwritten<E>(expected.size()));
        cuda::pack_images<E>(stream, shape, padded, in, out);
        RC_ASSERT(same_bits(out.host(), expected));
        DeviceVector<Storage> from_bytes(stream, unwritten<E>(expected.size()));
        cuda::pack_pixels<E>(stream, shape, padded, of_bytes, table, from_bytes);
        RC_ASSERT(same_bits(from_bytes.host(), expected));
    }));
}

TEST(Images, HaveChannelsAndPixels) {
    const TestStream stream;
    const DeviceVector<float> in(stream, 6);
    DeviceVector<float> out(stream, 6);
    EXPECT_DEATH(cuda::pack_images<fp32>(stream, {2, 0, 3}, 1, in, out), "channels and pixels");
    EXPECT_DEATH(cuda::pack_images<fp32>(stream, {2, 1, 0}, 1, in, out), "channels and pixels");
}

// ---- Traffic -----------------------------------------------------------------------------------

template <class F>
void expect_traffic(double read, double written, F run) {
    (void)cuda::emulation::take_traffic();
    run();
    const cuda::emulation::Traffic got = cuda::emulation::take_traffic();
    EXPECT_NEAR(static_cast<double>(got.read), read, 0.01 * read);
    EXPECT_NEAR(static_cast<double>(got.written), written, 0.01 * written);
}
TEST(Traffic, IsAsDocumented) {
    const TestStream stream;
    const std::size_t count = 64 * 256;
    const DeviceVector<std::uint16_t> x(stream, count);
    DeviceVector<std::uint16_t> y(stream, count);
    const DeviceVector<float> wide(stream, count), scale(stream, 1), values(stream, 512);
    const DeviceVector<std::uint8_t> bytes(stream, count);
    const auto bytes_of = [&](double element) { return static_cast<double>(count) * element; };
    const auto done = [&] { cuda_tests::must(cudaStreamSynchronize(stream)); };
    const DeviceVector<std::uint64_t> draw(stream, 1);
    expect_traffic(bytes_of(2 + 8), bytes_of(2), [&] {  // the draw comes from cache
        cuda::dropout<bf16>(stream, {4, 64, 64}, Rng(1, "drop"), draw, 0.5, x, y);
        done();
    });
    const cuda::PoolShape pool{4, {16, 16, 16}, {16, 4, 4}, Window::square(4, 4)};
    const auto pooled = cuda::DeviceSpan<std::uint16_t>(y).subspan(0, count / 16);
    expect_traffic(bytes_of(2), bytes_of(2) / 16, [&] {
        cuda::average_pool<bf16>(stream, pool, x, pooled);
        done();
    });
    expect_traffic(bytes_of(2), bytes_of(2), [&] {  // all gradients of a window but one from cache
        const auto dy = cuda::DeviceSpan<const std::uint16_t>(x).subspan(0, count / 16);
        cuda::average_pool_backward<bf16>(stream, pool, dy, y);
        done();
    });
    expect_traffic(bytes_of(4) / 2, bytes_of(2), [&] {
        const auto half = cuda::DeviceSpan<const float>(wide).subspan(0, count / 2);
        cuda::pack_images<fp16>(stream, {4, 2, 1024}, 4, half, y);
        done();
    });
    expect_traffic(bytes_of(1 + 4), bytes_of(2), [&] {  // values of channels come from cache
        cuda::pack_pixels<fp16>(stream, {8, 2, 1024}, 2, bytes, values, y);
        done();
    });
}

}  // namespace
