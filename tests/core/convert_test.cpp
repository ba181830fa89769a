#include <gx/core/convert.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

namespace {

using gx::bf16, gx::fp16, gx::fp32, gx::Simd;

template <class E>
using Stored = std::vector<typename E::storage>;

std::vector<Simd> paths() {  // all that this processor runs; portable is always first
    std::vector<Simd> all;
    for (const Simd simd : {Simd::portable, Simd::avx2, Simd::avx512, Simd::avx512_bf16})
        if (gx::supported(simd)) all.push_back(simd);
    return all;
}

// Bits, because NaN != NaN and -0 == 0.
template <class T>
std::vector<std::uint32_t> bits(const std::vector<T>& values) {
    std::vector<std::uint32_t> out;
    out.reserve(values.size());
    for (const T v : values) {
        if constexpr (std::is_same_v<T, float>) out.push_back(std::bit_cast<std::uint32_t>(v));
        else out.push_back(v);
    }
    return out;
}

// Every sign, exponent and upper significand bit, times low bits at and beside each tie.
std::vector<float> tricky_floats() {
    std::vector<float> out;
    for (std::uint32_t upper = 0; upper < 0x10000; ++upper)
        for (const std::uint32_t lower :
             {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x1fffu, 0x2fffu, 0x3000u, 0x3001u, 0x7fffu,
              0x8000u, 0x8001u, 0xefffu, 0xf000u, 0xffffu})
            out.push_back(std::bit_cast<float>(upper << 16 | lower));
    return out;
}

template <class E>
Stored<E> all_patterns() {
    Stored<E> out(0x10000);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<typename E::storage>(i);
    return out;
}

template <class E>
class Convert : public testing::Test {};
using Halves = testing::Types<fp16, bf16>;
TYPED_TEST_SUITE(Convert, Halves);

// ---- Cases worked by hand -----------------------------------------------------------
TEST(ConvertByHand, EncodesDecodesAndScales) {
    const std::vector<float> x{1.0f, -2.5f, 65504.0f};
    Stored<fp16> half(3);
    gx::encode<fp16>(x, half);
    EXPECT_EQ(half, (Stored<fp16>{0x3c00, 0xc100, 0x7bff}));
    gx::encode_scaled<fp16>(x, 0.5f, half);
    EXPECT_EQ(half, (Stored<fp16>{0x3800, 0xbd00, 0x77ff}));
    std::vector<float> back(3);
    gx::decode_scaled<fp16>(half, 4.0f, back);
    EXPECT_EQ(back, (std::vector<float>{2.0f, -5.0f, 131008.0f}));
    gx::decode_add<fp16>(half, back);
    EXPECT_EQ(back, (std::vector<float>{2.5f, -6.25f, 163760.0f}));
}

TEST(ConvertByHand, AccumulateRoundsTheSumOnce) {
    // 1 + 2^-11 lies between 1 and 1 + 2^-10, and a tie goes to the even one; bf16: 2^-8.
    Stored<fp16> mine{0x3c00, 0x3c01};
    gx::accumulate<fp16>(Stored<fp16>{0x1000, 0x1000}, mine);
    EXPECT_EQ(mine, (Stored<fp16>{0x3c00, 0x3c02}));
    Stored<bf16> brain{0x3f80, 0x3f81};
    gx::accumulate<bf16>(Stored<bf16>{0x3b80, 0x3b80}, brain);
    EXPECT_EQ(brain, (Stored<bf16>{0x3f80, 0x3f82}));
}

// ---- All paths agree with the element, and so with each other -------------------------
TYPED_TEST(Convert, EncodesTrickyFloatsAlikeOnEveryPath) {
    const auto x = tricky_floats();
    Stored<TypeParam> expected;
    for (const float v : x) expected.push_back(TypeParam::encode(v));
    for (const Simd simd : paths()) {
        Stored<TypeParam> y(x.size());
        gx::encode<TypeParam>(x, y, simd);
        EXPECT_TRUE(y == expected) << to_string(simd);
    }
}

TYPED_TEST(Convert, DecodesEveryPatternAlikeOnEveryPath) {
    const auto x = all_patterns<TypeParam>();
    std::vector<float> expected;
    for (const auto v : x) expected.push_back(TypeParam::decode(v));
    for (const Simd simd : paths()) {
        std::vector<float> y(x.size());
        gx::decode<TypeParam>(x, y, simd);
        EXPECT_TRUE(bits(y) == bits(expected)) << to_string(simd);
    }
}

TYPED_TEST(Convert, AccumulatesEveryPatternAlikeOnEveryPath) {
    const auto mine = all_patterns<TypeParam>();
    for (const unsigned stride : {1u, 0x101u, 0x7fffu, 0xfff1u}) {
        Stored<TypeParam> received, expected;
        for (std::size_t i = 0; i < mine.size(); ++i) {
            received.push_back(static_cast<typename TypeParam::storage>(i * stride + 0x3c00));
            const float a = TypeParam::decode(mine[i]), b = TypeParam::decode(received[i]);
            expected.push_back(TypeParam::encode(a != a ? a : a + b));
        }
        for (const Simd simd : paths()) {
            auto sum = mine;
            gx::accumulate<TypeParam>(received, sum, simd);
            EXPECT_TRUE(sum == expected) << to_string(simd) << " stride " << stride;
        }
    }
}

TEST(Convert32, CopiesNaNsUntouchedAndAddsThemAlike) {
    const auto x = tricky_floats();
    std::vector<float> reversed(x.rbegin(), x.rend()), expected;
    for (std::size_t i = 0; i < x.size(); ++i)
        expected.push_back(x[i] != x[i] ? x[i] + x[i] : x[i] + reversed[i]);
    for (const Simd simd : paths()) {
        std::vector<float> y(x.size());
        gx::encode<fp32>(x, y, simd);
        EXPECT_TRUE(bits(y) == bits(x));
        gx::accumulate<fp32>(reversed, y, simd);
        EXPECT_TRUE(bits(y) == bits(expected)) << to_string(simd);
    }
}

// ---- A property: any length, any alignment, nothing written outside ---------------------
template <class E>
void check_window(std::size_t skip, std::size_t count, float factor) {
    const auto whole = [&](std::size_t i) {  // spread over exponents, signs and NaNs
        return std::bit_cast<float>(static_cast<std::uint32_t>((i + 7 * count) * 0x9e3779b9u));
    };
    const std::size_t size = skip + count + 40;
    std::vector<float> x(size);
    for (std::size_t i = 0; i < size; ++i) x[i] = whole(i);
    const std::span<const float> from = std::span(x).subspan(skip, count);
    for (const Simd simd : paths()) {
        Stored<E> y(size, typename E::storage{77}), expected = y;
        gx::encode_scaled<E>(from, factor, std::span(y).subspan(skip + 1, count), simd);
        for (std::size_t i = 0; i < count; ++i)
            expected[skip + 1 + i] = E::encode(from[i] * factor);
        RC_ASSERT(y == expected);

        std::vector<float> z(size, 0.25f), back = z;
        gx::decode_add<E>(std::span(std::as_const(y)).subspan(skip + 1, count),
                          std::span(z).subspan(skip, count), simd);
        for (std::size_t i = 0; i < count; ++i) back[skip + i] += E::decode(y[skip + 1 + i]);
        RC_ASSERT(bits(z) == bits(back));

        gx::decode_scaled<E>(std::span(std::as_const(y)).subspan(skip + 1, count), factor,
                             std::span(z).subspan(skip, count), simd);
        for (std::size_t i = 0; i < count; ++i)
            back[skip + i] = E::decode(y[skip + 1 + i]) * factor;
        RC_ASSERT(bits(z) == bits(back));
    }
}

RC_GTEST_PROP(ConvertSpans, AnyLengthAndAlignment, ()) {
    const auto skip = *rc::gen::inRange<std::size_t>(0, 20);
    const auto count = *rc::gen::inRange<std::size_t>(0, 100);
    const auto factor = *rc::gen::element(1.0f, 0.125f, -3.0f, 0x1p-130f, 1e30f);
    check_window<fp16>(skip, count, factor);
    check_window<bf16>(skip, count, factor);
}

// ---- An element of somebody else takes the portable loop --------------------------------
struct Sign {  // -1 or 1, in a byte
    using storage = signed char;
    static constexpr std::string_view name = "sign";
    static constexpr storage encode(float x) { return x < 0 ? -1 : 1; }
    static constexpr float decode(storage s) { return s; }
};

TEST(ConvertSpans, TakesAnElementItDoesNotKnow) {
    std::vector<float> x(37, -0.5f);
    x[36] = 2;
    Stored<Sign> y(37);
    gx::encode<Sign>(x, y);
    Stored<Sign> expected(37, -1);
    expected[36] = 1;
    EXPECT_EQ(y, expected);
}

// ---- Which path -------------------------------------------------------------------------
TEST(ConvertPath, IsTheBestSupported) {
    EXPECT_TRUE(gx::supported(Simd::portable));
    EXPECT_EQ(gx::best_simd(), paths().back());
    EXPECT_EQ(gx::convert_path(), to_string(paths().back()));
}

// ---- Bad input --------------------------------------------------------------------------
TEST(ConvertDeathTest, StopsOnUnequalLengthsAndNaNFactors) {
    std::vector<float> x(3);
    Stored<fp16> y(2), z(3);
    EXPECT_DEATH(gx::encode<fp16>(x, y), "as many elements as it reads");
    EXPECT_DEATH(gx::encode_scaled<fp16>(x, std::bit_cast<float>(0x7fc00000u), z), "NaN");
}

}  // namespace
