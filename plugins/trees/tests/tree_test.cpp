#include <gx/trees/tree.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <support/generators.hpp>
#include <support/reduce_on.hpp>

// ---- What the type promises ---------------------------------------------------------
static_assert(gx::Reducer<gx::Tree<>> && gx::Reducer<gx::Tree<gx::fp16, gx::DivideAfter>>);

namespace {

// ---- A case worked by hand ----------------------------------------------------------
TEST(Tree, AveragesThreeRanks) {
    Rows rows{{3, 6}, {30, 60}, {300, 600}};
    const auto report = reduce_on<gx::Tree<>>({.ranks = 3}, rows);
    EXPECT_EQ(rows, (Rows{{111, 222}, {111, 222}, {111, 222}}));
    EXPECT_EQ(report.steps, 4);
    EXPECT_EQ(report.bytes_sent, 2 * 2 * 4) << "rank 0 sends both floats to two ranks";
}

// ---- Properties ----------------------------------------------------------------------

/// Column i, of ranks [first, last), which a power of two has split.
template <class E>
float sum(const Rows& rows, std::size_t i, std::size_t first, std::size_t width, float factor) {
    if (width == 1) return E::decode(E::encode(rows[first][i] * factor));
    const float lower = sum<E>(rows, i, first, width / 2, factor);
    if (first + width / 2 >= rows.size()) return lower;
    return E::decode(E::encode(lower + sum<E>(rows, i, first + width / 2, width / 2, factor)));
}
template <class E>
void sums_neighbours_first() {
    const gx::Placement placement = *a_placement();
    Rows rows = some_rows(placement);
    const Rows before = rows;
    const int n = placement.ranks();
    std::size_t width = 1;
    while (width < rows.size()) width *= 2;
    reduce_on<gx::Tree<E>>({.ranks = n, .machines = placement.machines}, rows);
    for (const auto& row : rows)
        for (std::size_t i = 0; i < row.size(); ++i)
            RC_ASSERT(row[i] == sum<E>(before, i, 0, width, gx::DivideSplit::before(n)) *
                                    gx::DivideSplit::after(n));
}
RC_GTEST_PROP(Tree, OfFloatsSumsNeighboursFirst, ()) { sums_neighbours_first<gx::fp32>(); }
RC_GTEST_PROP(Tree, OfHalvesSumsNeighboursFirst, ()) { sums_neighbours_first<gx::fp16>(); }

// ---- A fault --------------------------------------------------------------------------
TEST(Tree, SaysSoWhenTheRootIsLost) {
    Rows rows(3, std::vector<float>(12, 1.0f));
    const auto report = reduce_on<gx::Tree<>>({.ranks = 3, .dead_rank = 0}, rows);
    EXPECT_FALSE(report.complete());
    EXPECT_EQ(report.delivery.peer, 0);
}

}  // namespace
