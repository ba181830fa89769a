#include <gx/cuda/kernels.hpp>
#include <gx/cuda/layer_kernels.hpp>  // relu, relu_backward, add_maps

#include "device_memory.hpp"
#include "grid_or_gpu.hpp"  // seed

#include <bit>      // bit_cast
#include <cmath>    // isfinite
#include <cstdint>  // uint32_t
#include <cstring>  // memcmp
#include <random>   // values
#include <span>     // parts of vectors
#include <string>   // traces
#include <utility>  // as_const, pair
#include <vector>   // the host's

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/core/convert.hpp>           // the host's functions
#include <gx/core/device.hpp>            // normalise_into
#include <gx/optimizer/finite.hpp>       // all_finite
#include <gx/reference/elementwise.hpp>  // relu, add
#include <gx/reference/round_to.hpp>     // round_to

namespace {

using namespace gx;
using cuda_tests::DeviceVector;
using cuda_tests::TestStream;

// ---- Values and sizes --------------------------------------------------------------------------

/// 0, 1, odd, a block and one more, more than the grid's threads at most once in a while.
rc::Gen<std::size_t> sizes() {
    return rc::gen::weightedOneOf<std::size_t>(
        {{1, rc::gen::element<std::size_t>(0, 1, 31, 255, 256, 257, 70'001)},
         {4, rc::gen::inRange<std::size_t>(0, 1500)}});
}

/// Floats of every kind: bits at random, so that NaNs, infinities and subnormals are among them.
std::vector<float> any_floats(std::size_t count, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<float> x(count);
    for (float& v : x) {
        std::uint32_t bits = static_cast<std::uint32_t>(random());
        switch (random() % 4) {
            case 0: bits = (bits & 0x9fffffffu) | 0x30000000u; break;  // what fp16 holds
            case 1:                                                    // infinities and NaN
                bits |= 0x7f800000u;
                if (random() % 2 == 0) bits &= 0xff800000u;
                break;
            case 2: bits &= 0x83ffffffu; break;  // near the subnormals
            default: break;
        }
        v = std::bit_cast<float>(bits);
    }
    return x;
}
std::vector<std::uint16_t> any_halves(std::size_t count, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<std::uint16_t> x(count);
    for (auto& v : x) {
        v = static_cast<std::uint16_t>(random());
        if (random() % 8 == 0) v = v % 2 == 0 ? 0x7c00 : 0xfc00;  // infinities of fp16
        if (random() % 8 == 0) v = v % 2 == 0 ? 0x7f80 : 0xff80;  // and of bf16
    }
    return x;
}
template <class E>
auto any_of(std::size_t count, std::uint64_t seed) {
    if constexpr (std::same_as<E, fp32>) return any_floats(count, seed);
    else return any_halves(count, seed);
}

/// The index of the first element with other bits, or the size.
template <class T>
std::size_t first_difference(const std::vector<T>& a, const std::vector<T>& b) {
    if (a.size() != b.size()) return 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0) return i;
    return a.size();
}
template <class T>
void assert_equal_bits(const std::vector<T>& a, const std::vector<T>& b) {
    RC_ASSERT(first_difference(a, b) == a.size());
}

struct Drawn {
    std::size_t count;
    std::uint64_t seed;
};
Drawn drawn() {
    const Drawn d{*sizes(), *rc::gen::arbitrary<std::uint64_t>()};
    cuda::emulation::seed(d.seed);
    return d;
}

// ---- Conversions -------------------------------------------------------------------------------

template <class E>
class Conversions : public ::testing::Test {};
using Elements = ::testing::Types<fp32, fp16, bf16>;
TYPED_TEST_SUITE(Conversions, Elements);

TYPED_TEST(Conversions, HaveTheBitsOfTheHost) {
    using E = TypeParam;
    using Storage = typename E::storage;
    EXPECT_TRUE(rc::check([] {
        const auto [count, seed] = drawn();
        const float factor = *rc::gen::element(1.0f, 0.125f, 3.0f, -0.0f, 1e30f, 0x1p-140f);
        const std::vector<float> floats = any_floats(count, seed);
        const auto stored = any_of<E>(count, seed + 1), more = any_of<E>(count, seed + 2);
        const TestStream stream;
        const DeviceVector<float> x(stream, floats);
        const DeviceVector<Storage> y(stream, stored);

        std::vector<Storage> expected(count);
        DeviceVector<Storage> to(stream, count);
        encode<E>(floats, expected);
        cuda::encode<E>(stream, x, to);
        assert_equal_bits(to.host(), expected);
        encode_scaled<E>(floats, factor, expected);
        cuda::encode_scaled<E>(stream, x, factor, to);
        assert_equal_bits(to.host(), expected);

        std::vector<float> wide(count);
        DeviceVector<float> to_wide(stream, count);
        decode<E>(stored, wide);
        cuda::decode<E>(stream, y, to_wide);
        assert_equal_bits(to_wide.host(), wide);
        decode_scaled<E>(stored, factor, wide);
        cuda::decode_scaled<E>(stream, y, factor, to_wide);
        assert_equal_bits(to_wide.host(), wide);

        expected = more;
        DeviceVector<Storage> mine(stream, more);
        accumulate<E>(stored, expected);
        cuda::accumulate<E>(stream, y, mine);
        assert_equal_bits(mine.host(), expected);

        wide = floats;
        DeviceVector<float> sum(stream, floats);
        decode_add<E>(stored, wide);
        cuda::decode_add<E>(stream, y, sum);
        assert_equal_bits(sum.host(), wide);
    }));
}

/// Elements of a vector from `first` on, where spans of reducers begin anywhere.
template <class T>
cuda::DeviceSpan<T> from(std::size_t first, cuda::DeviceSpan<T> all) {
    return {all.data + first, all.size - static_cast<std::int64_t>(first)};
}
/// The host's `run(values from first on)`; what is before stays.
template <class T, class Run>
std::vector<T> on_host(std::vector<T> values, std::size_t first, Run run) {
    run(std::span(values).subspan(first));
    return values;
}

/// Whole packs, what is behind them, and spans that begin within a pack of one side or both.
TYPED_TEST(Conversions, HaveTheBitsOfTheHostWhereverTheyBegin) {
    using E = TypeParam;
    using Storage = typename E::storage;
    const TestStream stream;
    for (std::size_t count = 0; count <= 70; ++count)
        for (const auto& [first, second] : {std::pair<std::size_t, std::size_t>{0, 0},
                                            {1, 1},
                                            {3, 0},
                                            {0, 4},
                                            {4, 4},
                                            {2, 7},
                                            {8, 8}}) {
            SCOPED_TRACE(std::to_string(count) + " from " + std::to_string(first) + " and " +
                         std::to_string(second));
            const std::vector<float> floats = any_floats(count + first, count);
            const auto stored = any_of<E>(count + second, count + 1),
                       received = any_of<E>(count + first, count + 2);
            const std::span wide = std::span(floats).subspan(first);
            const std::span short_ = std::span(std::as_const(stored)).subspan(second);
            const std::span other = std::span(std::as_const(received)).subspan(first);
            const DeviceVector<float> x(stream, floats);
            const DeviceVector<Storage> y(stream, stored), z(stream, received);
            const auto x_from = from<const float>(first, x);
            const auto y_from = from<const Storage>(second, y),
                       z_from = from<const Storage>(first, z);
            const auto expect = [&](auto& got, auto expected) {
                EXPECT_EQ(first_difference(got.host(), expected), expected.size());
            };
            DeviceVector<Storage> mine(stream, stored);
            const auto to = from<Storage>(second, mine);
            cuda::accumulate<E>(stream, z_from, to);
            expect(mine, on_host(stored, second, [&](auto s) { accumulate<E>(other, s); }));
            cuda::encode<E>(stream, x_from, to);
            expect(mine, on_host(stored, second, [&](auto s) { encode<E>(wide, s); }));
            cuda::encode_scaled<E>(stream, x_from, 0.3f, to);
            expect(mine, on_host(stored, second, [&](auto s) { encode_scaled<E>(wide, 0.3f, s); }));

            DeviceVector<float> sum(stream, floats);
            const auto to_wide = from<float>(first, sum);
            cuda::decode_add<E>(stream, y_from, to_wide);
            expect(sum, on_host(floats, first, [&](auto s) { decode_add<E>(short_, s); }));
            cuda::decode<E>(stream, y_from, to_wide);
            expect(sum, on_host(floats, first, [&](auto s) { decode<E>(short_, s); }));
            cuda::decode_scaled<E>(stream, y_from, 0.3f, to_wide);
            expect(sum, on_host(floats, first, [&](auto s) { decode_scaled<E>(short_, 0.3f, s); }));
        }
}

TYPED_TEST(Conversions, CoverMoreThanOneGrid) {
    using E = TypeParam;
    const std::size_t count = 4096u * 256 + 77;  // the largest grid, and a part of a second round
    const std::vector<float> floats = any_floats(count, 3);
    std::vector<typename E::storage> expected(count);
    encode<E>(floats, expected);
    const TestStream stream;
    const DeviceVector<float> x(stream, floats);
    DeviceVector<typename E::storage> to(stream, count);
    cuda::encode<E>(stream, x, to);
    EXPECT_EQ(first_difference(to.host(), expected), count);
}

/// All 65,536 values, and every float between and at the points where rounding turns.
TEST(Halves, RoundAsOnTheHostAtEveryTurn) {
    std::vector<float> floats;
    for (std::uint32_t half = 0; half < 0x10000; ++half) {
        const auto bits =
            std::bit_cast<std::uint32_t>(fp16::decode(static_cast<fp16::storage>(half)));
        for (const std::uint32_t near : {0u, 0xfffu, 0x1000u, 0x1001u})
            floats.push_back(std::bit_cast<float>(bits + near));
    }
    std::vector<fp16::storage> expected(floats.size());
    encode<fp16>(floats, expected);
    const TestStream stream;
    const DeviceVector<float> x(stream, floats);
    DeviceVector<fp16::storage> to(stream, floats.size());
    cuda::encode<fp16>(stream, x, to);
    EXPECT_EQ(first_difference(to.host(), expected), floats.size());
}

// ---- ReLU and additions ------------------------------------------------------------------------

template <class E>
class Elementwise : public ::testing::Test {};
TYPED_TEST_SUITE(Elementwise, Elements);

template <class E>
bool is_nan(typename E::storage x) {
    return std::isnan(E::decode(x));
}
/// Equal bits, but for the payloads of NaNs.
template <class E>
void expect_values(DeviceVector<typename E::storage>& got,
                   const std::vector<typename E::storage>& expected) {
    const auto values = got.host();
    for (std::size_t i = 0; i < expected.size(); ++i) {
        if (is_nan<E>(expected[i]) && is_nan<E>(values[i])) continue;
        EXPECT_EQ(std::memcmp(&values[i], &expected[i], sizeof expected[i]), 0)
            << "element " << i << ": " << E::decode(values[i]) << ", not "
            << E::decode(expected[i]);
    }
}
template <class E>
std::vector<typename E::storage> stored(const std::vector<double>& x) {
    std::vector<typename E::storage> all;
    for (const double v : x)
        if constexpr (std::same_as<E, fp32>) all.push_back(static_cast<float>(v));
        else all.push_back(E::encode(static_cast<float>(reference::round_to<E>(v))));
    return all;
}
template <class E>
std::vector<double> values_of(const std::vector<typename E::storage>& x) {
    std::vector<double> all;
    for (const auto v : x) all.push_back(double{E::decode(v)});
    return all;
}
reference::ReadMaps maps(const std::vector<double>& x) {
    return {x.data(), 1, {static_cast<int>(x.size()), 1, 1}};
}
reference::WriteMaps maps(std::vector<double>& x) {
    return {x.data(), 1, {static_cast<int>(x.size()), 1, 1}};
}

/// All three of `count` elements that begin at element `first` of their memory.
template <class E>
void expect_elementwise(std::size_t count, std::size_t first, std::uint64_t seed) {
    using Storage = typename E::storage;
    SCOPED_TRACE(std::to_string(count) + " from " + std::to_string(first));
    auto a = any_of<E>(first + count, seed), b = any_of<E>(first + count, seed + 1);
    if (count > 4) {
        a[first] = E::encode(-0.0f);
        b[first] = E::encode(0.0f);
        a[first + 1] = E::encode(-INFINITY);
        b[first + 1] = E::encode(INFINITY);
        a[first + 2] = E::encode(0x1p-24f);
        b[first + 2] = E::encode(-1.0f);
        a[first + 3] = E::encode(std::nanf(""));
        a[first + 4] = E::encode(0.0f);
        b[first + 4] = E::encode(1.0f);
    }
    const TestStream stream;
    const DeviceVector<Storage> x(stream, a), y(stream, b);
    const auto in = from<const Storage>(first, x), more = from<const Storage>(first, y);
    const auto slice = [&](const std::vector<Storage>& v) {
        return values_of<E>({v.begin() + static_cast<std::ptrdiff_t>(first), v.end()});
    };
    const auto expect = [&](DeviceVector<Storage>& got, const std::vector<Storage>& before,
                            const std::vector<double>& expected) {
        auto all = stored<E>(expected);
        all.insert(all.begin(), before.begin(),
                   before.begin() + static_cast<std::ptrdiff_t>(first));
        expect_values<E>(got, all);
    };
    const auto of_a = slice(a), of_b = slice(b);
    std::vector<double> relu(count), sum(count), dx(count);
    reference::relu(maps(of_a), maps(relu));
    reference::add(maps(of_a), maps(of_b), maps(sum));
    for (std::size_t i = 0; i < count; ++i) dx[i] = of_a[i] > 0 ? of_b[i] : 0;  // -0 stays
    for (const bool in_place : {false, true}) {
        const std::vector<Storage> kept = in_place ? a : any_of<E>(first + count, seed + 2);
        DeviceVector<Storage> to(stream, kept);
        const auto out = from<Storage>(first, to);
        const auto read = in_place ? cuda::DeviceSpan<const Storage>(out) : in;
        cuda::relu<E>(stream, read, out);
        expect(to, kept, relu);
        DeviceVector<Storage> to_sum(stream, kept);
        const auto out_sum = from<Storage>(first, to_sum);
        const auto read_sum = in_place ? cuda::DeviceSpan<const Storage>(out_sum) : in;
        cuda::add_maps<E>(stream, read_sum, more, out_sum);
        expect(to_sum, kept, sum);
        const std::vector<Storage> kept_dx = in_place ? b : kept;
        DeviceVector<Storage> to_dx(stream, kept_dx);
        const auto out_dx = from<Storage>(first, to_dx);
        const auto read_dy = in_place ? cuda::DeviceSpan<const Storage>(out_dx) : more;
        cuda::relu_backward<E>(stream, read_dy, in, out_dx);
        expect(to_dx, kept_dx, dx);
    }
}

TYPED_TEST(Elementwise, HasTheBitsOfTheReference) {
    for (std::size_t count = 0; count <= 70; ++count)
        for (const std::size_t first : {0u, 1u, 4u, 8u}) {
            cuda::emulation::seed(count);
            expect_elementwise<TypeParam>(count, first, 3 * count + first);
        }
}
/// The largest grid of packs, and a part of a second round.
TEST(Elementwises, CoverMoreThanOneGrid) {
    const std::size_t count = 4096u * 256 * 4 + 77;
    std::vector<float> x(count), expected(count);
    for (std::size_t i = 0; i < count; ++i) {
        x[i] = static_cast<float>(static_cast<int>(i % 1001) - 500);
        expected[i] = x[i] > 0 ? x[i] : 0;
    }
    const TestStream stream;
    const DeviceVector<float> from(stream, x);
    DeviceVector<float> to(stream, count);
    cuda::relu<fp32>(stream, from, to);
    EXPECT_EQ(first_difference(to.host(), expected), count);
}
TEST(ElementwiseDeathTest, WantsMapsOfOneLength) {
    const TestStream stream;
    const DeviceVector<float> x(stream, 8);
    const DeviceVector<float> y(stream, 8), less(stream, 7);
    EXPECT_DEATH(cuda::relu<fp32>(stream, x, less), "one length");
    EXPECT_DEATH(cuda::relu_backward<fp32>(stream, x, less, y), "one length");
    EXPECT_DEATH(cuda::relu_backward<fp32>(stream, less, x, y), "one length");
    EXPECT_DEATH(cuda::add_maps<fp32>(stream, x, less, y), "one length");
}

// ---- Whole vectors -----------------------------------------------------------------------------

RC_GTEST_PROP(Vectors, AreScaledCopiedAndFilled, ()) {
    const auto [count, seed] = drawn();
    std::vector<float> x = any_floats(count, seed);
    const TestStream stream;
    DeviceVector<float> values(stream, x), copied(stream, count);
    cuda::copy<float>(stream, values, copied);
    assert_equal_bits(copied.host(), x);
    cuda::scale(stream, values, 0.3f);
    encode_scaled<fp32>(x, 0.3f, x);
    assert_equal_bits(values.host(), x);
    cuda::fill(stream, cuda::DeviceSpan<float>(values), -0.0f);
    assert_equal_bits(values.host(), std::vector<float>(count, -0.0f));
}

TEST(Vectors, OfOtherLengthsBreakTheContract) {
    const TestStream stream;
    const DeviceVector<float> from(stream, 3);
    const DeviceVector<float> to(stream, 4);
    EXPECT_DEATH(cuda::copy<float>(stream, from, to), "one length");
    EXPECT_DEATH(cuda::scale(stream, to, std::nanf("")), "factor of NaN");
}

// ---- Reductions --------------------------------------------------------------------------------

TEST(AllFinite, IsTrueOfFiniteNumbersAlone) {
    const TestStream stream;
    for (const std::size_t count : {0u, 257u, 70'001u}) {
        for (const float last : {1.0f, count % 2 == 0 ? INFINITY : std::nanf("")}) {
            cuda::emulation::seed(count);
            std::vector<float> x = any_floats(count, count);
            for (float& v : x)
                if (!std::isfinite(v)) v = 1;
            if (count > 0) x[count * 3 / 4] = last;
            const DeviceVector<float> values(stream, x);
            const DeviceVector<std::uint32_t> scratch(stream, cuda::reduction_blocks);
            DeviceVector<Flag> result(stream, 1);
            cuda::all_finite(stream, values, scratch, result);
            EXPECT_EQ(result.host()[0], all_finite(x)) << count << " " << last;
        }
    }
}

/// The order of cuda::sum, as its comment states it.
float serial_sum(const std::vector<float>& x) {
    constexpr std::size_t threads = 256, all = threads * 256;
    const auto tree = [](std::vector<float> v) {  // 32
        for (std::size_t by = 16; by > 0; by /= 2)
            for (std::size_t l = 0; l < by; ++l) v[l] += v[l + by];
        return v[0];
    };
    const auto block = [&](const std::vector<float>& v) {  // 256
        std::vector<float> warps(32);
        for (std::size_t w = 0; w < 8; ++w) {
            const auto first = v.begin() + static_cast<std::ptrdiff_t>(32 * w);
            warps[w] = tree({first, first + 32});
        }
        return tree(warps);
    };
    std::vector<float> blocks(256);
    for (std::size_t b = 0; b < 256; ++b) {
        std::vector<float> v(threads);
        for (std::size_t t = 0; t < threads; ++t)
            for (std::size_t i = b * threads + t; i < x.size(); i += all) v[t] += x[i];
        blocks[b] = block(v);
    }
    for (float& v : blocks) v = 0.0f + v;
    return block(blocks);
}

TEST(Sum, IsMadeInTheStatedOrder) {
    for (const std::size_t count : {0u, 33u, 200'001u}) {
        std::vector<float> x(count);
        for (std::size_t i = 0; i < count; ++i)
            x[i] = std::sin(static_cast<float>(i)) * std::exp2(static_cast<float>(i % 40) - 28);
        const float expected = serial_sum(x);
        const TestStream stream;
        const DeviceVector<float> values(stream, x);
        const DeviceVector<float> scratch(stream, cuda::reduction_blocks);
        for (std::uint64_t seed = 0; seed < 2; ++seed) {
            cuda::emulation::seed(seed);
            DeviceVector<float> result(stream, 1);
            cuda::sum(stream, values, scratch, result);
            EXPECT_EQ(first_difference(result.host(), {expected}), 1u) << count << " " << seed;
        }
    }
}

// ---- Images ------------------------------------------------------------------------------------

template <class E>
class Images : public ::testing::Test {};
TYPED_TEST_SUITE(Images, Elements);

TYPED_TEST(Images, AreNormalisedAsOnTheHost) {
    using E = TypeParam;
    using Storage = typename E::storage;
    EXPECT_TRUE(rc::check([] {
        const int channels = *rc::gen::element(1, 3), pixels = *rc::gen::inRange(1, 90);
        const int count = *rc::gen::inRange(0, 4);
        const auto seed = *rc::gen::arbitrary<std::uint64_t>();
        std::mt19937_64 random(seed);
        cuda::emulation::seed(seed);
        const auto channel_count = static_cast<std::size_t>(channels);
        const std::size_t elements = static_cast<std::size_t>(count * channels * pixels);
        std::vector<std::uint8_t> bytes(elements);
        for (auto& b : bytes) b = static_cast<std::uint8_t>(random());
        std::vector<float> values(channel_count * 256);
        for (auto& v : values) v = static_cast<float>(random() % 1000) / 500 - 1;

        const Batch batch{.count = count, .pixels = bytes, .values = values};
        std::vector<float> floats(elements);
        normalise_into(batch, floats.data());
        std::vector<Storage> expected(elements);
        encode<E>(floats, expected);

        const TestStream stream;
        const DeviceVector<std::uint8_t> in(stream, bytes);
        const DeviceVector<float> table(stream, values);
        DeviceVector<Storage> out(stream, elements);
        const cuda::PixelShape shape{count, channels, pixels};
        cuda::normalise<E>(stream, shape, cuda::ImageLayout::channels_first, in, table, out);
        assert_equal_bits(out.host(), expected);

        std::vector<Storage> last(elements);
        const auto plane = static_cast<std::size_t>(pixels);
        for (std::size_t i = 0; i < elements; ++i) {
            const std::size_t image = i / (plane * channel_count), c = i / plane % channel_count;
            last[(image * plane + i % plane) * channel_count + c] = expected[i];
        }
        cuda::normalise<E>(stream, shape, cuda::ImageLayout::channels_last, in, table, out);
        assert_equal_bits(out.host(), last);
    }));
}

}  // namespace
