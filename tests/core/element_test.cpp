#include <gx/core/element.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace {

using gx::bf16, gx::fp16, gx::fp32;

// ---- What the types promise ---------------------------------------------------------
static_assert(gx::Element<fp32> && gx::Element<fp16> && gx::Element<bf16>);
static_assert(!gx::Element<float>, "a number is not an element: it names no storage");
static_assert(gx::element_type<fp32> == gx::ElementType::fp32);
static_assert(to_string(gx::element_type<fp16>) == "fp16" &&
              to_string(gx::element_type<bf16>) == "bf16");
struct NoName {
    using storage = float;
    static storage encode(float);
    static float decode(storage);
};
static_assert(!gx::Element<NoName>);
static_assert(fp16::encode(1.0f) == 0x3c00 && fp16::decode(0x3c00) == 1.0f, "constant evaluation");
static_assert(bf16::encode(1.0f) == 0x3f80 && bf16::decode(0x3f80) == 1.0f);

// ---- Cases worked by hand -----------------------------------------------------------
TEST(Fp16, RoundsAtTheEdges) {
    EXPECT_EQ(fp16::encode(65504.0f), 0x7bff);
    EXPECT_EQ(fp16::encode(65519.99f), 0x7bff);
    EXPECT_EQ(fp16::encode(65520.0f), 0x7c00) << "half a step above the largest is infinity";
    EXPECT_EQ(fp16::encode(-65520.0f), 0xfc00);
    EXPECT_EQ(fp16::encode(0x1p-24f), 0x0001);
    EXPECT_EQ(fp16::encode(0x1p-25f), 0x0000) << "a tie goes to the even zero";
    EXPECT_EQ(fp16::encode(0x1.000002p-25f), 0x0001);
    EXPECT_EQ(fp16::encode(0x1.8p-24f), 0x0002) << "a tie goes to the even two";
    EXPECT_EQ(fp16::encode(0x1.ff8p-15f), 0x03ff) << "the largest subnormal";
    EXPECT_EQ(fp16::encode(0x1.ffcp-15f), 0x0400) << "a tie rounds into the normals";
    EXPECT_EQ(fp16::encode(-0.0f), 0x8000);
    EXPECT_EQ(fp16::encode(0x1p-149f), 0x0000);
}

TEST(Bf16, RoundsAtTheEdges) {
    EXPECT_EQ(bf16::encode(0x1p-149f), 0x0000);
    EXPECT_EQ(bf16::encode(std::bit_cast<float>(0x00008001u)), 0x0001) << "subnormals are kept";
    EXPECT_EQ(bf16::encode(std::bit_cast<float>(0x00008000u)), 0x0000);
    EXPECT_EQ(bf16::encode(std::bit_cast<float>(0x00018000u)), 0x0002);
    EXPECT_EQ(bf16::encode(std::numeric_limits<float>::max()), 0x7f80);
    EXPECT_EQ(bf16::encode(std::bit_cast<float>(0x7f7f7fffu)), 0x7f7f);
    EXPECT_EQ(bf16::encode(-0.0f), 0x8000);
}

TEST(Elements, KeepNaNsSignAndUpperPayloadAndMakeThemQuiet) {
    const auto nan = [](std::uint32_t bits) { return std::bit_cast<float>(bits); };
    EXPECT_EQ(fp16::encode(nan(0x7f800001u)), 0x7e00);
    EXPECT_EQ(fp16::encode(nan(0xff802000u)), 0xfe01);
    EXPECT_EQ(bf16::encode(nan(0x7f800001u)), 0x7fc0);
    EXPECT_EQ(bf16::encode(nan(0xff810000u)), 0xffc1);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(fp16::decode(0x7c01)), 0x7fc02000u);
    EXPECT_EQ(std::bit_cast<std::uint32_t>(fp16::decode(0xfe01)), 0xffc02000u);
}

// ---- Oracle: the nearest of all values, by distance -----------------------------------
// Decoding by the definition of the format, in double, which holds all of them exactly.
double by_definition(std::uint32_t bits, int exponent_bits, int fraction_bits) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const auto fraction = static_cast<double>(bits & ((1u << fraction_bits) - 1));
    const auto exponent = static_cast<int>((bits >> fraction_bits) & ((1u << exponent_bits) - 1));
    const double significand = std::ldexp(fraction, -fraction_bits) + (exponent > 0 ? 1 : 0);
    return std::ldexp(significand, std::max(exponent, 1) - bias);
}

struct Format {
    int exponent_bits, fraction_bits;
    [[nodiscard]] std::uint32_t infinity() const {
        return ((1u << exponent_bits) - 1) << fraction_bits;
    }
};
template <class E>
constexpr Format format = std::is_same_v<E, fp16> ? Format{5, 10} : Format{8, 7};

// All magnitudes 0 ... infinity, where "infinity" stands at the next power of two: IEEE 754-2019,
// 4.3.1 rounds as if the exponent had no end, and then overflows.
template <class E>
const std::vector<double>& magnitudes() {
    static const std::vector<double> all = [] {
        constexpr Format f = format<E>;
        std::vector<double> v;
        for (std::uint32_t b = 0; b <= f.infinity(); ++b)
            v.push_back(by_definition(b, f.exponent_bits, f.fraction_bits));
        return v;
    }();
    return all;
}

template <class E>
std::uint32_t nearest(float x) {
    const std::uint32_t sign = std::signbit(x) ? 0x8000u : 0u;
    if (std::isinf(x)) return sign | format<E>.infinity();
    const std::vector<double>& all = magnitudes<E>();
    const double m = std::fabs(double{x});
    const auto above = std::ranges::lower_bound(all, m);
    if (above == all.end()) return sign | format<E>.infinity();
    const auto high = static_cast<std::uint32_t>(above - all.begin());
    if (high == 0) return sign;
    const double to_low = m - all[high - 1], to_high = all[high] - m;
    const bool up = to_high < to_low || (to_high == to_low && high % 2 == 0);
    return sign | (up ? high : high - 1);
}

template <class E>
class Half : public testing::Test {};
using Halves = testing::Types<fp16, bf16>;
TYPED_TEST_SUITE(Half, Halves);

TYPED_TEST(Half, DecodesEveryPatternByItsDefinition) {
    constexpr Format f = format<TypeParam>;
    for (std::uint32_t b = 0; b < 0x10000; ++b) {
        const float x = TypeParam::decode(static_cast<std::uint16_t>(b));
        const std::uint32_t magnitude = b & 0x7fffu;
        if (magnitude > f.infinity()) {
            EXPECT_TRUE(std::isnan(x)) << b;
        } else if (magnitude == f.infinity()) {
            EXPECT_TRUE(std::isinf(x)) << b;
        } else {
            EXPECT_EQ(std::fabs(double{x}),
                      by_definition(magnitude, f.exponent_bits, f.fraction_bits))
                << b;
        }
        EXPECT_EQ(std::signbit(x), b >= 0x8000u) << b;
    }
}

TYPED_TEST(Half, EncodesBackEveryPattern) {
    for (std::uint32_t b = 0; b < 0x10000; ++b) {
        if ((b & 0x7fffu) > format<TypeParam>.infinity()) continue;
        ASSERT_EQ(TypeParam::encode(TypeParam::decode(static_cast<std::uint16_t>(b))), b);
    }
}

TYPED_TEST(Half, EncodesToTheNearestOfAllValues) {
    std::size_t checked = 0;
    for (std::uint32_t upper = 0; upper < 0x10000; ++upper)
        for (const std::uint32_t lower : {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x2fffu, 0x3000u,
                                          0x3001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
            const float x = std::bit_cast<float>(upper << 16 | lower);
            if (std::isnan(x)) continue;
            ASSERT_EQ(TypeParam::encode(x), nearest<TypeParam>(x)) << std::hexfloat << x;
            ++checked;
        }
    EXPECT_GT(checked, 780'000u);
}

// ---- Oracle: the compiler's own half, where it has one --------------------------------
#if defined(__FLT16_MANT_DIG__) && defined(__SSE2__)
TEST(Fp16, AgreesWithTheCompilersHalf) {
    for (std::uint32_t b = 0; b < 0x10000; ++b) {
        const auto half = static_cast<std::uint16_t>(b);
        const auto theirs = static_cast<float>(std::bit_cast<_Float16>(half));
        ASSERT_EQ(std::bit_cast<std::uint32_t>(fp16::decode(half)),
                  std::bit_cast<std::uint32_t>(theirs))
            << b;
    }
    std::uint32_t bits = 0;
    for (int i = 0; i < 1'000'000; ++i, bits += 4294'967u) {
        const float x = std::bit_cast<float>(bits);
        ASSERT_EQ(fp16::encode(x), std::bit_cast<std::uint16_t>(static_cast<_Float16>(x))) << bits;
    }
}
#endif

}  // namespace
