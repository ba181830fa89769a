#include <gx/collective/hierarchical.hpp>

#include <gtest/gtest.h>

#include <gx/collective/proof.hpp>
#include <gx/collective/ring.hpp>

static_assert(gx::explain_promise<gx::collective::Hierarchical>());

using gx::Combine;
using gx::Exchange;
using gx::collective::Hierarchical;

// ---- What the type promises ---------------------------------------------------------
static_assert(is_all_reduce(Hierarchical({1, 1})) && is_all_reduce(Hierarchical({2, 2})) &&
              is_all_reduce(Hierarchical({1, 4})) && is_all_reduce(Hierarchical({4, 1})));
static_assert(is_all_reduce(Hierarchical({3, 2})));
static_assert(is_all_reduce(Hierarchical({2, 4})));
static_assert(Hierarchical({3, 4}).steps() == 2 * 3 + 2 * 2 && Hierarchical({3, 4}).chunks() == 12);

namespace {

// ---- A case worked by hand ----------------------------------------------------------
TEST(Hierarchical, TwoMachinesOfTwoByHand) {
    constexpr Hierarchical levels({2, 2});
    // rank 2 (machine 1, GPU 0): shards 0 = chunks 0, 1 and 1 = chunks 2, 3
    EXPECT_EQ(levels.exchange(2, 0), (Exchange{3, 0, 3, 2, Combine::add, 2}));  // shard 0 out
    EXPECT_EQ(levels.exchange(2, 1), (Exchange{0, 3, 0, 2, Combine::add, 1}));  // shard 1 across
    EXPECT_EQ(levels.exchange(2, 2), (Exchange{0, 2, 0, 3, Combine::copy, 1}));
    EXPECT_EQ(levels.exchange(2, 3), (Exchange{3, 2, 3, 0, Combine::copy, 2}));  // shard 1 around
}

// ---- Properties, for any placement -----------------------------------------------------
TEST(Hierarchical, IsProvedForManyPlacements) {
    for (int machines = 1; machines <= 8; ++machines)
        for (int gpus = 1; gpus <= 8; ++gpus) {
            const auto proof = prove_all_reduce(Hierarchical({machines, gpus}));
            EXPECT_TRUE(proof.holds()) << machines << " x " << gpus << ": " << proof.sentence();
        }
}
TEST(Hierarchical, OfOneLevelIsARing) {
    for (const gx::Placement p : {gx::Placement{1, 7}, {7, 1}}) {
        const Hierarchical levels(p);
        const gx::collective::Ring ring(7);
        ASSERT_EQ(levels.steps(), ring.steps());
        for (int rank = 0; rank < 7; ++rank)
            for (int step = 0; step < ring.steps(); ++step)
                ASSERT_EQ(levels.exchange(rank, step), ring.exchange(rank, step));
    }
}
TEST(Hierarchical, StepsOfAPhaseSendAsFarAndAsMuch) {
    const Hierarchical levels({4, 3});
    for (int step = 0; step < levels.steps(); step = levels.phase_end(step)) {
        ASSERT_GT(levels.phase_end(step), step);
        for (int later = step; later < levels.phase_end(step); ++later)
            for (int rank = 0; rank < levels.ranks(); ++rank) {
                const Exchange a = levels.exchange(rank, step), b = levels.exchange(rank, later);
                ASSERT_EQ(a.to, b.to);
                ASSERT_EQ(a.from, b.from);
                ASSERT_EQ(a.chunks, b.chunks);
            }
    }
}

// ---- A broken contract ------------------------------------------------------------------
TEST(Hierarchical, RefusesARaggedPlacement) {
    const std::vector<int> node{0, 0, 1}, local{0, 1, 0};
    const gx::NodeMap map{.node = node, .local_rank = local};
    try {
        Hierarchical levels({2, 0, &map});
        FAIL();
    } catch (const gx::Error& e) {
        EXPECT_TRUE(std::string(e.what()).starts_with(
            "a hierarchy needs equally many ranks on each machine"))
            << e.what();
    }
}
TEST(HierarchicalDeathTest, NeedsAMachine) {
    EXPECT_DEATH((void)Hierarchical({0, 4}), "at least one machine");
}

}  // namespace
