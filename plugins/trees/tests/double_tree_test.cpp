#include <gx/trees/double_tree.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/reducer/name.hpp>
#include <gx/threads/threads.hpp>
#include <support/generators.hpp>
#include <support/reduce_on.hpp>

// ---- What the type promises ---------------------------------------------------------
static_assert(gx::Reducer<gx::DoubleTree<1>> && gx::Reducer<gx::DoubleTree<16, gx::fp16>>);
static_assert(gx::DoubleTree<4>::channels == 2);

namespace {

// ---- A case worked by hand ----------------------------------------------------------
TEST(DoubleTree, AveragesThreeRanks) {
    Rows rows{{3, 6}, {30, 60}, {300, 600}};
    const auto report = reduce_on<gx::DoubleTree<1>>({.ranks = 3}, rows);
    EXPECT_EQ(rows, (Rows{{111, 222}, {111, 222}, {111, 222}}));
    EXPECT_EQ(report.steps, 4);
    EXPECT_EQ(report.bytes_sent, 2 * 4) << "rank 0 is a leaf in both trees";
}
TEST(DoubleTree, IsCalledByWhatIsNotTheDefault) {
    EXPECT_EQ(gx::reducer_name<gx::DoubleTree<8>>(), "DoubleTree<8, fp32>");
    EXPECT_EQ((gx::reducer_name<gx::DoubleTree<2, gx::bf16, gx::DivideAfter>>()),
              "DoubleTree<2, bf16, DivideAfter>");
}

// ---- Properties ----------------------------------------------------------------------

/// The sum below label w of n, of the subtree of so much height, which is cut at n; its children's
/// are added in the order of their heights. `rank_of` is the rank of a label.
template <class E>
float sum(int w, int n, auto value) {
    float mine = value(w);
    const int lowest = w & -w;
    int upper = lowest / 2;
    while (upper > 0 && w + upper > n) upper /= 2;
    const auto add = [&](int child) {
        mine = E::decode(E::encode(mine + sum<E>(child, n, value)));
    };
    const bool flatter = upper < lowest / 2;
    if (upper > 0 && flatter) add(w + upper);
    if (lowest > 1) add(w - lowest / 2);
    if (upper > 0 && !flatter) add(w + upper);
    return mine;
}
template <class E>
void sums_in_the_order_of_its_trees() {
    const gx::Placement placement = *a_placement();
    Rows rows = some_rows(placement);
    const Rows before = rows;
    const int n = placement.ranks();
    const std::size_t half = (rows[0].size() + 1) / 2;
    int root = 1;
    while (2 * root <= n) root *= 2;
    reduce_on<gx::DoubleTree<3, E>>({.ranks = n, .machines = placement.machines}, rows);
    for (const auto& row : rows)
        for (std::size_t i = 0; i < row.size(); ++i) {
            const auto value = [&](int w) {
                const int rank = i < half ? w - 1 : n % 2 == 0 ? n - w : w % n;
                return E::decode(
                    E::encode(before[std::size_t(rank)][i] * gx::DivideSplit::before(n)));
            };
            RC_ASSERT(row[i] == sum<E>(root, n, value) * gx::DivideSplit::after(n));
        }
}
RC_GTEST_PROP(DoubleTree, OfFloatsSumsAlongItsTrees, ()) {
    sums_in_the_order_of_its_trees<gx::fp32>();
}
RC_GTEST_PROP(DoubleTree, OfHalvesSumsAlongItsTrees, ()) {
    sums_in_the_order_of_its_trees<gx::fp16>();
}
RC_GTEST_PROP(DoubleTree, TheNumberOfChunksChangesNoBit, ()) {
    const gx::Placement placement = *a_placement();
    Rows one = some_rows(placement), nine = one;
    const Fabric fabric{.ranks = placement.ranks(), .machines = placement.machines};
    reduce_on<gx::DoubleTree<1, gx::fp16>>(fabric, one);
    reduce_on<gx::DoubleTree<9, gx::fp16>>(fabric, nine);
    RC_ASSERT(one == nine);
}

// ---- A wrong plan -------------------------------------------------------------------------
/// Two trees of which the second forgets its last step.
struct ForgetfulTree : gx::collective::BinaryTree {
    using BinaryTree::BinaryTree;
    [[nodiscard]] constexpr gx::Exchange exchange(int rank, int step) const {
        return step + 1 == steps() ? gx::Exchange{} : BinaryTree::exchange(rank, step);
    }
};
struct Forgetful {
    static constexpr int count = 2;
    static constexpr ForgetfulTree make(gx::Placement placement, int k) {
        return {placement.ranks(), k, 3};
    }
};
TEST(DoubleTreeDeathTest, AWrongPlanIsRefusedWhenItStarts) {
    gx::CollectiveReducer<Forgetful, gx::fp32, gx::DivideSplit> wrong;
    EXPECT_DEATH(wrong.reserve(gx::ReducePlan::whole({1, 5}, 100)),
                 "without some rank's contribution");
}

// ---- A fault --------------------------------------------------------------------------
TEST(DoubleTree, SaysSoWhenARootIsLost) {
    Rows rows(4, std::vector<float>(12, 1.0f));
    const auto report = reduce_on<gx::DoubleTree<2>>({.ranks = 4, .dead_rank = 3}, rows);
    EXPECT_FALSE(report.complete());
    EXPECT_EQ(report.delivery.peer, 3);
}
// Both trees wait at once, and some of what they wait for is of ranks that wait themselves.
TEST(DoubleTree, NamesALostRankOfThreadsAtOnce) {
    for (int ranks = 2; ranks <= 7; ++ranks)
        for (int lost = 0; lost < ranks; ++lost) {
            gx::ThreadWorld<> world(
                {.placement = {1, ranks}, .deadline = std::chrono::nanoseconds::max()});
            world.run([&](auto& rank) {
                if (rank.rank() == lost) return;
                gx::DoubleTree<3> reducer;
                reducer.reserve(gx::ReducePlan::whole({1, ranks}, 60));
                std::vector<float> row(60, 1.0f);
                gx::ReduceReport done;
                for (int step = 0; step < 2 && done.complete(); ++step)
                    done = reducer.all_reduce(rank.transport(), gx::Bucket(row));
                EXPECT_EQ(done.delivery.peer, lost) << ranks << " ranks";
            });
        }
}

}  // namespace
