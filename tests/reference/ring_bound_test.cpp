#include <gx/reference/ring_bound.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/core/rng.hpp>        // Rng
#include <gx/reducer/divide.hpp>  // DivideAfter, DivideBefore, DivideSplit

namespace {

using gx::bf16;
using gx::DivideAfter;
using gx::DivideBefore;
using gx::DivideSplit;
using gx::fp16;
using gx::fp32;
using gx::reference::format_of;
using gx::reference::multi_ring_mean;
using gx::reference::ring_error_bound;
using gx::reference::RingOrder;
using gx::reference::rounding_error;
using gx::reference::Rows;

// ---- Half a unit in the last place, by hand ----------------------------------------------
TEST(RoundingError, IsHalfAUnitInTheLastPlace) {
    EXPECT_EQ(rounding_error(format_of<fp16>, 1), 0x1p-11);
    EXPECT_EQ(rounding_error(format_of<fp16>, 1.999), 0x1p-11);
    EXPECT_EQ(rounding_error(format_of<fp16>, 2048), 1);
    EXPECT_EQ(rounding_error(format_of<fp16>, 65504), 16);
    EXPECT_EQ(rounding_error(format_of<bf16>, 1), 0x1p-8);
    EXPECT_EQ(rounding_error(format_of<fp32>, 1), 0x1p-24);
    EXPECT_EQ(rounding_error(format_of<fp32>, 0), 0);
}

TEST(RoundingError, OfSubnormalsIsConstant) {
    EXPECT_EQ(rounding_error(format_of<fp16>, 0x1p-14), 0x1p-25);
    EXPECT_EQ(rounding_error(format_of<fp16>, 0x1p-30), 0x1p-25);
    EXPECT_EQ(rounding_error(format_of<bf16>, 0x1p-140), 0x1p-134);
    EXPECT_EQ(rounding_error(format_of<fp32>, 0x1p-140), 0x1p-150);
}

TEST(RoundingError, IsInfinitePastTheLargestNumber) {
    EXPECT_TRUE(std::isinf(rounding_error(format_of<fp16>, 65505)));
    EXPECT_TRUE(std::isinf(rounding_error(format_of<fp32>, 0x1p128)));
    EXPECT_TRUE(std::isinf(rounding_error(format_of<fp32>, std::nan(""))));
}

// Every fp16 and bf16 against its neighbour: the middle between them is the worst case.
template <class E>
void expect_middles_at_the_bound(unsigned last) {
    for (unsigned bits = 0; bits < last; ++bits) {
        const auto b = static_cast<typename E::storage>(bits);
        const double low = double{E::decode(b)};
        const double high = double{E::decode(static_cast<typename E::storage>(bits + 1))};
        const double middle = low + (high - low) / 2;  // exact in float, too, above 2^-149
        if (static_cast<double>(static_cast<float>(middle)) != middle) continue;
        const double error = std::fabs(double{E::decode(E::encode(float(middle)))} - middle);
        ASSERT_EQ(rounding_error(format_of<E>, middle), error) << E::name << " " << bits;
    }
}
TEST(RoundingError, IsReachedBetweenAnyTwoNeighbours) {
    expect_middles_at_the_bound<fp16>(0x7bff);
    expect_middles_at_the_bound<bf16>(0x7f7f);
}

// ---- The bound of a ring -------------------------------------------------------------
TEST(RingErrorBound, IsTightForOneTie) {
    const Rows rows{{2048}, {1}};
    const std::vector<RingOrder> order{{0, 1}};
    const double error = std::fabs(multi_ring_mean<fp16, DivideAfter>(rows, order)[0] - 1024.5);
    const double bound = ring_error_bound<fp16, DivideAfter>(rows, order)[0];
    EXPECT_EQ(error, 0.5);  // 2049 became 2048
    EXPECT_GE(bound, error);
    // 2048 on the wire may err by 1, 1 by 2^-11, the sum by 1, and floats by a thousandth of it all
    EXPECT_LE(bound, 0.5 * (2 + 0x1p-11) * 1.01);
}

TEST(RingErrorBound, IsInfiniteWhereASumMayOverflow) {
    const Rows rows{{40000, 1}, {40000, 1}};
    const std::vector<RingOrder> order{{0, 1}};
    const auto after = ring_error_bound<fp16, DivideAfter>(rows, order);
    EXPECT_TRUE(std::isinf(after[0]));
    EXPECT_LT(after[1], 0.01);
    EXPECT_LT((ring_error_bound<fp16, DivideBefore>(rows, order)[0]), 100);
}

/// Normal numbers times 2^k, k from `low` to `high`: subnormals and cancellation included.
Rows random_rows(int ranks, std::size_t count, int low, int high, std::uint64_t seed) {
    Rows rows;
    for (int r = 0; r < ranks; ++r) {
        rows.emplace_back();
        const gx::Rng rng = gx::Rng(seed, "rows").at(std::uint64_t(r));
        for (std::size_t i = 0; i < count; ++i) {
            const int k = low + static_cast<int>(rng.at(1).below(i, std::uint64_t(high - low + 1)));
            rows.back().push_back(std::ldexp(rng.normal(i), k));
        }
    }
    return rows;
}

/// Under the bound; and the bound is below what forgetting a rank would do.
template <class E, class Divide>
void expect_under_the_bound(std::uint64_t seed, int low, int high) {
    const int ranks = *rc::gen::inRange(1, 17);
    const std::size_t count = 64;
    const Rows rows = random_rows(ranks, count, low, high, seed);
    std::vector<RingOrder> orders{gx::reference::natural_order(ranks)};
    orders.emplace_back(orders[0].rbegin(), orders[0].rend());
    const auto got = multi_ring_mean<E, Divide>(rows, orders);
    const auto exact = gx::reference::mean(rows);
    const auto bound = ring_error_bound<E, Divide>(rows, orders);
    for (std::size_t i = 0; i < count; ++i) {
        double magnitude = 0;  // sum of |g| / n
        for (const auto& row : rows) magnitude += std::fabs(double{row[i]}) / ranks;
        RC_ASSERT(std::fabs(double{got[i]} - exact[i]) <= bound[i]);
        const double unit = std::ldexp(1.0, -format_of<E>.digits);
        const double smallest = std::ldexp(unit, format_of<E>.exponent_min);
        const double subnormal = smallest * Divide::after(ranks);
        RC_ASSERT(bound[i] <= 2.1 * (ranks + 2) * (unit * magnitude + subnormal));
    }
}
RC_GTEST_PROP(RingErrorBound, HoldsInFp16, (std::uint64_t seed)) {
    expect_under_the_bound<fp16, DivideSplit>(seed, -28, 4);
}
RC_GTEST_PROP(RingErrorBound, HoldsInFp16DividedBefore, (std::uint64_t seed)) {
    expect_under_the_bound<fp16, DivideBefore>(seed, -28, 10);
}
RC_GTEST_PROP(RingErrorBound, HoldsInBf16, (std::uint64_t seed)) {
    expect_under_the_bound<bf16, DivideAfter>(seed, -20, 20);
}
RC_GTEST_PROP(RingErrorBound, HoldsInFp32, (std::uint64_t seed)) {
    expect_under_the_bound<fp32, DivideBefore>(seed, -20, 20);
}
RC_GTEST_PROP(RingErrorBound, HoldsInFp32NearItsSmallest, (std::uint64_t seed)) {
    expect_under_the_bound<fp32, DivideSplit>(seed, -150, -120);
}

}  // namespace
