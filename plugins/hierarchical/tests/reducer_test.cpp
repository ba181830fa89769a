#include <gx/hierarchical/reducer.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/reducer/ring.hpp>
#include <support/generators.hpp>
#include <support/reduce_on.hpp>

// ---- What the type promises ---------------------------------------------------------
static_assert(gx::Reducer<gx::Hierarchical<>> && gx::Reducer<gx::Hierarchical<gx::bf16>>);

namespace {

// ---- A case worked by hand ----------------------------------------------------------
TEST(Hierarchical, AveragesTwoMachinesOfTwo) {
    Rows rows{{1, 2, 3}, {10, 20, 30}, {100, 200, 300}, {1001, 2002, 3003}};
    const auto report = reduce_on<gx::Hierarchical<>>({.ranks = 4, .machines = 2}, rows);
    for (const auto& row : rows) EXPECT_EQ(row, (std::vector<float>{278, 556, 834}));
    EXPECT_EQ(report.steps, 4);
}

// ---- Properties ----------------------------------------------------------------------
TEST(Hierarchical, OfOneLevelHasTheBitsOfTheRing) {
    for (const int machines : {1, 5}) {
        Rows levels = gx::testing::wide_magnitudes(3, 5, 101), ring = levels;
        reduce_on<gx::Hierarchical<gx::fp16>>({.ranks = 5, .machines = machines}, levels);
        reduce_on<gx::Ring<gx::fp16>>({.ranks = 5, .machines = machines}, ring);
        EXPECT_EQ(levels, ring);
    }
}
TEST(Hierarchical, SumsInsideTheMachineFirst) {
    // Shard 0 is chunks 0 and 1 of 4, summed from GPU 0 up; what 1e8 absorbs shows the brackets.
    const Rows values{{1e8f}, {1.0f}, {-1e8f}, {1.0f}};
    Rows rows(4);
    for (std::size_t r = 0; r < 4; ++r) rows[r].assign(4, values[r][0]);
    reduce_on<gx::Hierarchical<gx::fp32, gx::DivideAfter>>({.ranks = 4, .machines = 2}, rows);
    // (1e8 + 1) + (-1e8 + 1) = 0, where a ring in the order of the ranks would keep the last 1
    EXPECT_EQ(rows[0], (std::vector<float>{0, 0, 0, 0}));
}

// ---- A fault --------------------------------------------------------------------------
TEST(Hierarchical, SaysSoWhenAGpuIsLost) {
    Rows rows(4, std::vector<float>(12, 1.0f));
    const auto report =
        reduce_on<gx::Hierarchical<>>({.ranks = 4, .machines = 2, .dead_rank = 3}, rows);
    EXPECT_FALSE(report.complete());
    EXPECT_EQ(report.delivery.peer, 3);
}

}  // namespace
