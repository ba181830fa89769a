#include <gx/reducer/divide.hpp>

#include <gtest/gtest.h>

#include <cmath>

#include <gx/core/element.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/testing/rows.hpp>
#include <support/reduce_on.hpp>

// ---- What the types promise ---------------------------------------------------------
static_assert(gx::DividePolicy<gx::DivideAfter> && !gx::DividePolicy<gx::fp16>);
static_assert(gx::DivideAfter::before(8) == 1.0f && gx::DivideAfter::after(8) == 0.125f);
static_assert(gx::DivideBefore::before(4) == 0.25f && gx::DivideBefore::after(4) == 1.0f);
static_assert(gx::DivideSplit::before(8) == 0.25f && gx::DivideSplit::after(8) == 0.5f,
              "h = ceil(3 / 2) = 2");
static_assert(gx::DivideSplit::before(1) == 1.0f && gx::DivideSplit::after(1) == 1.0f);
static_assert(gx::DivideSplit::before(1024) == 1.0f / 32 &&
              gx::DivideSplit::after(1024) == 1.0f / 32);

namespace {

// ---- Properties, for every rank count up to 5000 -----------------------------------------
TEST(Divide, BothFactorsTogetherAreOneOverN) {
    const auto close = [](double product, int n) { return std::abs(product * n - 1) <= 0x1p-23; };
    for (int n = 1; n <= 5000; ++n) {
        ASSERT_TRUE(close(double{gx::DivideAfter::before(n)} * gx::DivideAfter::after(n), n));
        ASSERT_TRUE(close(double{gx::DivideBefore::before(n)} * gx::DivideBefore::after(n), n));
        ASSERT_TRUE(close(double{gx::DivideSplit::before(n)} * gx::DivideSplit::after(n), n));
    }
}

TEST(DivideSplit, IsAPowerOfTwoNearTheSquareRoot) {
    for (int n = 1; n <= 5000; ++n) {
        int exponent = 0;
        ASSERT_EQ(std::frexp(gx::DivideSplit::before(n), &exponent), 0.5f) << n;
        const double half = 1.0 / double{gx::DivideSplit::before(n)};
        ASSERT_GE(half * half, n);
        ASSERT_LT(half * half, 4.0 * n);
        ASSERT_EQ(gx::DivideSplit::after(n), static_cast<float>(half) * gx::DivideAfter::after(n))
            << "the same bits";
    }
}

// ---- Where it matters -----------------------------------------------------------------
template <class Divide>
float mean_in_fp16(int ranks, float value) {
    Rows rows(static_cast<std::size_t>(ranks), {value, 0.0f});
    reduce_on<gx::Ring<gx::fp16, Divide>>({.ranks = ranks}, rows);
    return rows[0][0];
}

TEST(Divide, ASumOfHalvesOverflowsUnlessDividedBefore) {
    EXPECT_TRUE(std::isinf(mean_in_fp16<gx::DivideAfter>(4, 20000.0f)));
    EXPECT_EQ(mean_in_fp16<gx::DivideSplit>(4, 20000.0f), 20000.0f);
    EXPECT_TRUE(std::isinf(mean_in_fp16<gx::DivideSplit>(4, 60000.0f)));
    EXPECT_EQ(mean_in_fp16<gx::DivideBefore>(4, 60000.0f), 60000.0f);
}

TEST(Divide, TheSmallestHalvesVanishWhenDividedBefore) {
    EXPECT_EQ(mean_in_fp16<gx::DivideAfter>(8, 0x1p-24f), 0x1p-24f);
    EXPECT_EQ(mean_in_fp16<gx::DivideSplit>(8, 0x1p-24f), 0.0f);
    EXPECT_EQ(mean_in_fp16<gx::DivideSplit>(8, 0x1p-22f), 0x1p-22f);
    EXPECT_EQ(mean_in_fp16<gx::DivideBefore>(8, 0x1p-22f), 0.0f);
}

TEST(DivideSplit, HasTheBitsOfDivideAfterWhereNothingOverflows) {
    for (int ranks = 1; ranks <= 8; ++ranks) {
        Rows split = gx::testing::wide_magnitudes(3, ranks, 100), after = split;
        reduce_on<gx::Ring<gx::fp32, gx::DivideSplit>>({.ranks = ranks}, split);
        reduce_on<gx::Ring<gx::fp32, gx::DivideAfter>>({.ranks = ranks}, after);
        EXPECT_EQ(split, after);
    }
}

}  // namespace
