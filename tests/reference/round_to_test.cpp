#include <gx/reference/round_to.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

#include <algorithm>  // max
#include <cmath>      // ilogb, rint
#include <limits>     // infinity

#include <gx/core/rng.hpp>  // Rng

namespace {

using gx::bf16;
using gx::fp16;
using gx::fp32;
using gx::reference::round_to;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Rounds by its definition: to a multiple of the unit in the last place.
double by_definition(double x, int digits, int least_exponent, double largest) {
    if (x == 0 || !std::isfinite(x)) return x;
    const double unit = std::ldexp(1.0, std::max(std::ilogb(x), least_exponent) - digits + 1);
    const double y = std::rint(x / unit) * unit;  // ties to even
    return std::fabs(y) > largest ? std::copysign(infinity, x) : y;
}

// ---- Cases worked by hand -------------------------------------------------------------
TEST(RoundTo, RoundsToNearestAndTiesToEven) {
    EXPECT_EQ(round_to<bf16>(1 + 0x1p-8), 1);  // a tie
    EXPECT_EQ(round_to<bf16>(1 + 0x3p-8), 1 + 0x1p-6);
    EXPECT_EQ(round_to<bf16>(-1 - 0x1p-7), -1 - 0x1p-7);
    EXPECT_EQ(round_to<fp16>(1 + 0x1p-11), 1);
    EXPECT_EQ(round_to<fp16>(0x1p-25), 0);
    EXPECT_EQ(round_to<fp16>(0x1.8p-25), 0x1p-24);
    EXPECT_EQ(round_to<fp16>(65519.9), 65504);
    EXPECT_EQ(round_to<fp16>(65520), infinity);
    EXPECT_EQ(round_to<bf16>(1e300), infinity);
    EXPECT_EQ(round_to<bf16>(-infinity), -infinity);
    EXPECT_TRUE(std::isnan(round_to<fp16>(std::nan(""))));
}
TEST(RoundTo, RoundsOnceAndNotByWayOfAFloat) {
    EXPECT_EQ(round_to<bf16>(1 + 0x1p-8 + 0x1p-40), 1 + 0x1p-7);
    EXPECT_EQ(round_to<bf16>(1 + 0x3p-8 - 0x1p-40), 1 + 0x1p-7);
    EXPECT_EQ(round_to<fp16>(-1 - 0x1p-11 - 0x1p-50), -1 - 0x1p-10);
    EXPECT_EQ(round_to<fp16>(0x1p-25 + 0x1p-60), 0x1p-24);
}

// ---- A property, for any number -------------------------------------------------------
TEST(RoundTo, IsTheDefinition) {
    const gx::Rng rng(7, "round_to");
    int ties = 0;
    for (std::uint64_t i = 0; i < 200'000; ++i) {
        // Few bits, so that ties are frequent, and at times a little beside them.
        const auto digits = double(rng.at(0).below(i, 1 << 13)) - (1 << 12);
        const double beside = i % 3 == 0 ? 0.0 : std::ldexp(i % 3 == 1 ? 1.0 : -1.0, -35);
        const double x = std::ldexp(digits + beside, int(rng.at(1).below(i, 50)) - 40);
        EXPECT_EQ(round_to<fp16>(x), by_definition(x, 11, -14, 65504)) << x;
        EXPECT_EQ(round_to<bf16>(x), by_definition(x, 8, -126, 0x1.fep127)) << x;
        ties += std::fabs(x - round_to<bf16>(x)) == std::ldexp(1.0, std::ilogb(x) - 8);
    }
    EXPECT_GT(ties, 1000) << "else ties are not tested";
}

}  // namespace
