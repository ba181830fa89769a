#include <gx/halving_doubling/reducer.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <support/generators.hpp>
#include <support/reduce_on.hpp>

// ---- What the type promises ---------------------------------------------------------
static_assert(gx::Reducer<gx::HalvingDoubling<>> && gx::Reducer<gx::HalvingDoubling<gx::fp16>>);

namespace {

// ---- A case worked by hand ----------------------------------------------------------
TEST(HalvingDoubling, AveragesThreeRanks) {
    Rows rows{{3, 6}, {30, 60}, {300, 600}};
    const auto report = reduce_on<gx::HalvingDoubling<>>({.ranks = 3}, rows);
    EXPECT_EQ(rows, (Rows{{111, 222}, {111, 222}, {111, 222}}));
    EXPECT_EQ(report.steps, 4) << "a fold, a half, a double, and the fold back";
}

// ---- Properties ----------------------------------------------------------------------
/// The sum of column i over ranks [first, first + width), bracketed by halves.
float sum(const Rows& rows, std::size_t i, std::size_t first, std::size_t width, float factor) {
    using E = gx::fp16;
    if (width == 1) return E::decode(E::encode(rows[first][i] * factor));
    return E::decode(E::encode(sum(rows, i, first, width / 2, factor) +
                               sum(rows, i, first + width / 2, width / 2, factor)));
}
TEST(HalvingDoubling, OfAPowerOfTwoSumsNeighboursFirst) {  // sums commute: the brackets decide
    for (const int n : {1, 2, 4, 8})
        for (const std::int64_t length : {1, 7, 64, 1001}) {
            const Rows before = gx::testing::wide_magnitudes(7, n, length);
            Rows after = before;
            reduce_on<gx::HalvingDoubling<gx::fp16>>({.ranks = n}, after);
            for (std::size_t i = 0; i < before[0].size(); ++i) {
                const float mean = sum(before, i, 0, before.size(), gx::DivideSplit::before(n)) *
                                   gx::DivideSplit::after(n);
                for (const auto& row : after) ASSERT_EQ(row[i], mean) << n << " ranks, " << i;
            }
        }
}
TEST(HalvingDoubling, SendsTheLeastThatAnAllReduceCan) {
    for (const int n : {2, 4, 8}) {
        Rows rows(static_cast<std::size_t>(n), std::vector<float>(64, 1.0f));
        EXPECT_EQ(reduce_on<gx::HalvingDoubling<gx::fp16>>({.ranks = n}, rows).bytes_sent,
                  2 * (n - 1) * 64 / n * 2);
    }
}

// ---- A fault --------------------------------------------------------------------------
TEST(HalvingDoubling, SaysSoWhenAPartnerIsLost) {
    Rows rows(4, std::vector<float>(12, 1.0f));
    const auto report = reduce_on<gx::HalvingDoubling<>>({.ranks = 4, .dead_rank = 2}, rows);
    EXPECT_FALSE(report.complete());
    EXPECT_EQ(report.delivery.peer, 2);
}

}  // namespace
