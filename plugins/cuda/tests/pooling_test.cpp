// Average pooling beside the reference, to the bit: on the emulated grid, and on a GPU.
#include <gx/cuda/layer_kernels.hpp>

#include "device_memory.hpp"
#include "grid_or_gpu.hpp"  // seed

#include "../src/reciprocal.hpp"

#include <bit>       // bit_cast
#include <cmath>     // isnan
#include <concepts>  // same_as
#include <cstdint>   // uint32_t
#include <cstring>   // memcmp
#include <limits>    // quiet_NaN
#include <random>    // values
#include <vector>    // the host's

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/reference/pooling.hpp>   // avg_pool, avg_pool_backward
#include <gx/reference/round_to.hpp>  // round_to

namespace {

using namespace gx;
using cuda::PoolShape;
using cuda_tests::DeviceVector;
using cuda_tests::TestStream;

// ---- The reference's answer --------------------------------------------------------------------

template <class E>
typename E::storage rounded(double x) {
    if constexpr (std::same_as<E, fp32>) return static_cast<float>(x);
    else return E::encode(static_cast<float>(reference::round_to<E>(x)));
}

/// A window on images, and what a buffer has room for beside them.
struct Pool {
    PoolShape shape{};
    std::int64_t more = 0;

    [[nodiscard]] std::size_t elements(const ImageShape& s) const {
        return static_cast<std::size_t>((shape.images + more) * s.elements());
    }
};
ImageShape pooled(const ImageShape& s, const Window& w) {
    return {s.channels, (s.height + 2 * w.pad_height - w.height) / w.stride + 1,
            (s.width + 2 * w.pad_width - w.width) / w.stride + 1};
}
Pool pool(std::int64_t images, const ImageShape& input, const Window& w, std::int64_t more = 0) {
    return {{images, input, pooled(input, w), w}, more};
}

/// Calls visit(place in (N, H, W, C), place in (N, C, H, W)) for the images of a batch.
template <class Visit>
void for_each_place(std::int64_t images, const ImageShape& s, Visit visit) {
    const auto channels = static_cast<std::size_t>(s.channels);
    const auto pixels = static_cast<std::size_t>(s.height) * static_cast<std::size_t>(s.width);
    for (std::size_t n = 0; n < static_cast<std::size_t>(images); ++n)
        for (std::size_t c = 0; c < channels; ++c)
            for (std::size_t p = 0; p < pixels; ++p)
                visit((n * pixels + p) * channels + c, (n * channels + c) * pixels + p);
}
/// The reference's function `pool(from, to)` of values in E; 0 behind the images of the batch.
template <class E, class Pool>
std::vector<typename E::storage> of_reference(const std::vector<typename E::storage>& values,
                                              std::int64_t images, const ImageShape& from,
                                              const ImageShape& to, std::size_t count,
                                              const Pool& pool) {
    std::vector<double> x(static_cast<std::size_t>(images * from.elements())),
        y(static_cast<std::size_t>(images * to.elements()));
    for_each_place(images, from, [&](std::size_t last, std::size_t first) {
        x[first] = double{E::decode(values[last])};
    });
    pool(reference::ReadMaps{x.data(), static_cast<int>(images), from},
         reference::WriteMaps{y.data(), static_cast<int>(images), to});
    std::vector<typename E::storage> expected(count, E::encode(0.0f));
    for_each_place(images, to, [&](std::size_t last, std::size_t first) {
        expected[last] = rounded<E>(y[first]);
    });
    return expected;
}
template <class E>
auto forward_of_reference(const Pool& p, const std::vector<typename E::storage>& x) {
    const PoolShape& s = p.shape;
    return of_reference<E>(x, s.images, s.input, s.output, p.elements(s.output),
                           [&](auto from, auto to) { reference::avg_pool(s.window, from, to); });
}
template <class E>
auto backward_of_reference(const Pool& p, const std::vector<typename E::storage>& dy) {
    const PoolShape& s = p.shape;
    std::vector<double> unread(static_cast<std::size_t>(s.images * s.input.elements()));
    const reference::ReadMaps x{unread.data(), static_cast<int>(s.images), s.input};
    return of_reference<E>(
        dy, s.images, s.output, s.input, p.elements(s.input),
        [&](auto from, auto to) { reference::avg_pool_backward(s.window, x, from, to); });
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
    return a.size() == b.size() &&
           (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}
/// Exponents of a wide range, so that an order of sums, and a second rounding, show in the bits.
template <class E>
std::vector<typename E::storage> any_values(std::size_t count, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<float> normal;
    std::vector<typename E::storage> x(count);
    for (auto& v : x)
        v = E::encode(normal(random) * std::ldexp(1.0f, static_cast<int>(random() % 16) - 10));
    return x;
}
/// What no kernel writes.
template <class E>
auto unwritten(std::size_t count) {
    return std::vector<typename E::storage>(count, E::encode(7.0f));
}

template <class E>
auto forward(const Pool& p, const std::vector<typename E::storage>& x) {
    const TestStream stream;
    const DeviceVector<typename E::storage> in(stream, x);
    DeviceVector<typename E::storage> y(stream, unwritten<E>(p.elements(p.shape.output)));
    cuda::average_pool<E>(stream, p.shape, in, y);
    return y.host();
}
template <class E>
auto backward(const Pool& p, const std::vector<typename E::storage>& dy) {
    const TestStream stream;
    const DeviceVector<typename E::storage> in(stream, dy);
    DeviceVector<typename E::storage> dx(stream, unwritten<E>(p.elements(p.shape.input)));
    cuda::average_pool_backward<E>(stream, p.shape, in, dx);
    return dx.host();
}

template <class E>
class AveragePool : public ::testing::Test {};
using Elements = ::testing::Types<fp32, fp16, bf16>;
TYPED_TEST_SUITE(AveragePool, Elements);

// ---- Quotients ---------------------------------------------------------------------------------

void expect_quotient(float x, int count) {
    const double got = cuda::Reciprocal(count)(x), exact = double{x} / count;
    ASSERT_EQ(std::bit_cast<std::uint64_t>(got), std::bit_cast<std::uint64_t>(exact))
        << x << " / " << count;
}
TEST(Reciprocal, OfACountHasTheBitsOfAQuotient) {
    std::mt19937_64 random(1);
    for (int count = 1; count < 1 << 18; count = count < 2000 ? count + 1 : count * 33 / 32 + 1) {
        ASSERT_GT(cuda::Reciprocal(count).low, 0);
        for (int i = 0; i < 300; ++i) {
            const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
            if (!std::isnan(x)) expect_quotient(x, count);
            expect_quotient(static_cast<float>(random() % 1000) * static_cast<float>(count), count);
        }
        for (const float x : {0.0f, -0.0f, INFINITY, -INFINITY, 0x1p-149f, -0x1.fffffep127f})
            expect_quotient(x, count);
        ASSERT_TRUE(std::isnan(cuda::Reciprocal(count)(std::nanf(""))));
    }
}

// ---- Cases worked by hand ----------------------------------------------------------------------

/// 3 x 3 pixels of 1 ... 9 in windows of 2 x 2, two apart, of which three lie over the edge.
TYPED_TEST(AveragePool, OfWindowsOverTheEdge) {
    using E = TypeParam;
    Pool p = pool(1, {1, 3, 3}, {2, 2, 2, 1, 1});
    std::vector<typename E::storage> x, dy;
    for (int i = 1; i <= 9; ++i) x.push_back(E::encode(static_cast<float>(i)));
    for (const float v : {4.0f, 8.0f, 16.0f, 32.0f}) dy.push_back(E::encode(v));
    const auto expect = [&](const std::vector<float>& y, const std::vector<float>& dx) {
        std::vector<typename E::storage> of_y, of_dx;
        for (const float v : y) of_y.push_back(E::encode(v));
        for (const float v : dx) of_dx.push_back(E::encode(v));
        EXPECT_TRUE(same_bits(forward<E>(p, x), of_y));
        EXPECT_TRUE(same_bits(backward<E>(p, dy), of_dx));
    };
    expect({1, 2.5f, 5.5f, 7}, {4, 4, 4, 8, 8, 8, 8, 8, 8});
    p.shape.window.counts_padding = true;
    expect({0.25f, 1.25f, 2.75f, 7}, {1, 2, 2, 4, 8, 8, 4, 8, 8});
}

/// Of 2 x 2 numbers the mean, and of 2 x 2 windows on a pixel the gradient, is just above a tie: a
/// sum or a quotient in float would round it down, to 1.
TYPED_TEST(AveragePool, RoundsOnce) {
    using E = TypeParam;
    const float unit = std::same_as<E, fp32>   ? 0x1p-23f
                       : std::same_as<E, fp16> ? 0x1p-10f
                                               : 0x1p-7f;
    std::vector<typename E::storage> four;
    for (const float v : {4.0f, 2 * unit, 0x1p-24f, 0.0f}) four.push_back(E::encode(v));
    const auto above = E::encode(1 + unit);
    EXPECT_EQ(forward<E>(pool(1, {1, 2, 2}, Window::square(2)), four)[0], above);
    EXPECT_EQ(backward<E>(pool(1, {1, 3, 3}, Window::square(2)), four)[4], above);
}

// ---- Properties --------------------------------------------------------------------------------

Pool any_pool() {
    Window w{*rc::gen::inRange(1, 5), *rc::gen::inRange(1, 8), *rc::gen::inRange(1, 4)};
    w.pad_height = *rc::gen::inRange(0, w.height / 2 + 1);
    w.pad_width = *rc::gen::inRange(0, w.width / 2 + 1);
    w.counts_padding = *rc::gen::arbitrary<bool>();
    const ImageShape input{
        *rc::gen::element(1, 3, 5, 7, 8, 16, 24),
        *rc::gen::inRange(std::max(1, w.height - 2 * w.pad_height), w.height + 6),
        *rc::gen::inRange(std::max(1, w.width - 2 * w.pad_width), w.width + 6)};
    return pool(*rc::gen::inRange(0, 4), input, w, *rc::gen::element(0, 0, 1, 3));
}

TYPED_TEST(AveragePool, HasTheBitsOfTheReference) {
    using E = TypeParam;
    EXPECT_TRUE(rc::check([] {
        const auto seed = *rc::gen::arbitrary<std::uint64_t>();
        cuda::emulation::seed(seed);
        const Pool p = any_pool();
        const auto x = any_values<E>(p.elements(p.shape.input), seed);
        RC_ASSERT(same_bits(forward<E>(p, x), forward_of_reference<E>(p, x)));
        const auto dy = any_values<E>(p.elements(p.shape.output), seed + 1);
        RC_ASSERT(same_bits(backward<E>(p, dy), backward_of_reference<E>(p, dy)));
    }));
}

/// As networks have them: the mean of all, and 3 x 3 on each pixel, in eights and not.
TYPED_TEST(AveragePool, OfNetworksHasTheBitsOfTheReference) {
    using E = TypeParam;
    for (const Pool& p :
         {pool(5, {64, 7, 7}, Window::square(7)), pool(2, {7, 5, 5}, Window::square(5)),
          pool(2, {64, 2, 2}, Window::square(2)), pool(2, {32, 9, 9}, Window::square(3, 1, 1)),
          pool(2, {24, 9, 9}, {3, 3, 1, 1, 1, true}),
          pool(3, {5, 7, 7}, Window::square(3, 2, 1), 1)}) {
        const auto x = any_values<E>(p.elements(p.shape.input), 3);
        EXPECT_TRUE(same_bits(forward<E>(p, x), forward_of_reference<E>(p, x)));
        const auto dy = any_values<E>(p.elements(p.shape.output), 4);
        EXPECT_TRUE(same_bits(backward<E>(p, dy), backward_of_reference<E>(p, dy)));
    }
}

/// More threads than the largest grid has.
TEST(AveragePools, CoverMoreThanOneGrid) {
    const Pool p = pool(3, {1, 600, 700}, Window::square(1));
    const auto x = any_values<bf16>(p.elements(p.shape.input), 5);
    EXPECT_TRUE(same_bits(forward<bf16>(p, x), x));
    EXPECT_TRUE(same_bits(backward<bf16>(p, x), x));
}

TYPED_TEST(AveragePool, OfNumbersThatAreNotFiniteIsNone) {
    using E = TypeParam;
    const Pool p = pool(1, {8, 3, 3}, Window::square(3));
    for (const float bad : {INFINITY, -INFINITY, std::numeric_limits<float>::quiet_NaN()}) {
        auto x = any_values<E>(72, 1);
        x[3 * 8 + 2] = E::encode(bad);
        auto dy = any_values<E>(8, 2);
        dy[2] = E::encode(bad);
        const auto y = forward<E>(p, x), dx = backward<E>(p, dy);
        for (std::size_t i = 0; i < 72; ++i) {
            const float got = E::decode(i % 8 == 2 ? dx[i] : y[i % 8]);
            if (i % 8 != 2) EXPECT_TRUE(std::isfinite(got));
            else EXPECT_TRUE(std::isnan(bad) ? std::isnan(got) : got == bad);
        }
        EXPECT_TRUE(std::isnan(bad) ? std::isnan(E::decode(y[2])) : E::decode(y[2]) == bad);
    }
}

// ---- Wrong shapes ------------------------------------------------------------------------------

TEST(AveragePoolDeathTest, WantsWindowsOnItsInput) {
    const TestStream stream;
    DeviceVector<float> x(stream, 2 * 3 * 16), y(stream, 2 * 3 * 4), less(stream, 3 * 4);
    const PoolShape good = pool(2, {3, 4, 4}, Window::square(2, 2)).shape;
    cuda::average_pool<fp32>(stream, good, x, y);
    EXPECT_EQ(y.host(), std::vector<float>(24, 0.0f));
    const auto wrong = [&](auto change) {
        PoolShape s = good;
        change(s);
        EXPECT_DEATH(cuda::average_pool<fp32>(stream, s, x, y), "a pooling");
        EXPECT_DEATH(cuda::average_pool_backward<fp32>(stream, s, y, x), "a pooling");
    };
    wrong([](PoolShape& s) { s.images = 3; });
    wrong([](PoolShape& s) { s.window.stride = 1; });
    wrong([](PoolShape& s) { s.window.stride = 0; });
    wrong([](PoolShape& s) { s.window.pad_width = 1; });
    wrong([](PoolShape& s) { s.window.height = 5; });
    wrong([](PoolShape& s) { s.output.channels = 1; });
    wrong([](PoolShape& s) { s.input.channels = s.output.channels = 0; });
    EXPECT_DEATH(cuda::average_pool<fp32>(stream, good, x, less), "whole images");
    EXPECT_DEATH(cuda::average_pool_backward<fp32>(stream, good, y, less), "whole images");
}

}  // namespace
