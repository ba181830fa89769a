#include <gx/collective/tree_broadcast.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <collective/mutant.hpp>
#include <collective/worlds.hpp>
#include <gx/collective/execute.hpp>
#include <gx/collective/proof.hpp>

static_assert(gx::explain_promise<gx::collective::TreeBroadcast>());

using gx::Exchange;
using gx::collective::Flow;
using gx::collective::TreeBroadcast;

// ---- What the type promises ---------------------------------------------------------
static_assert(TreeBroadcast::promise == gx::Promise::broadcast);
static_assert(keeps_promise(TreeBroadcast(1)) && keeps_promise(TreeBroadcast(8, 3)) &&
              keeps_promise(TreeBroadcast(13, 12)) && keeps_promise(TreeBroadcast(33)));
static_assert(TreeBroadcast(1).steps() == 0 && TreeBroadcast(8).steps() == 3 &&
              TreeBroadcast(9).steps() == 4);

namespace {

// ---- A case worked by hand ----------------------------------------------------------
TEST(TreeBroadcast, FourRanksFromRankOne) {
    constexpr TreeBroadcast tree(4, 1);
    EXPECT_EQ(tree.exchange(1, 0), (Exchange{.to = 3, .send_chunk = 0}));
    EXPECT_EQ(tree.exchange(3, 0), (Exchange{.from = 1, .receive_chunk = 0}));
    EXPECT_EQ(tree.exchange(0, 0), Exchange{});
    EXPECT_EQ(tree.exchange(1, 1), (Exchange{.to = 2, .send_chunk = 0}));
    EXPECT_EQ(tree.exchange(3, 1), (Exchange{.to = 0, .send_chunk = 0}));
}

// ---- Proofs ---------------------------------------------------------------------------
TEST(TreeBroadcast, IsProvedForRanksAndRoots) {
    for (int n = 1; n <= 33; ++n)
        for (int root = 0; root < n; ++root)
            EXPECT_TRUE(keeps_promise(TreeBroadcast(n, root))) << n << " from " << root;
}
TEST(TreeBroadcast, MutantsAreRefused) {
    EXPECT_EQ(expect_mutants_refused(TreeBroadcast(1)), 0);
    for (const int n : {2, 3, 6, 8, 13})
        EXPECT_GT(expect_mutants_refused(TreeBroadcast(n, n / 2)), 0);
}
/// A broadcast that names another root than it has.
struct AnotherRoot : TreeBroadcast {
    using TreeBroadcast::TreeBroadcast;
    int named = 1;
    [[nodiscard]] constexpr int root() const { return named; }
};
TEST(TreeBroadcast, TheRootIsProved) {
    AnotherRoot broadcast(4);
    EXPECT_EQ(to_string(prove(broadcast)),
              "rank 0, step 0, chunk 0: a chunk is sent before the rank has received it");
    broadcast.named = 4;
    EXPECT_EQ(prove(broadcast).flaw, gx::collective::Flaw::root_out_of_range);
}
TEST(TreeBroadcast, SendsTheFewestMessages) {
    for (int n = 1; n <= 70; ++n) {
        int messages = 0;
        for (int rank = 0; rank < n; ++rank)
            for (int step = 0; step < TreeBroadcast(n, n / 3).steps(); ++step)
                messages += TreeBroadcast(n, n / 3).exchange(rank, step).to >= 0;
        EXPECT_EQ(messages, n - 1);
    }
}

// ---- A property: every rank ends with the root's data -------------------------------------
template <gx::Element E>
void expect_the_roots_data() {
    const gx::Placement placement = some_placement();
    const int n = placement.ranks(), root = *rc::gen::inRange(0, n);
    const auto rows = wire_rows<E>(n, some_length());
    on_both_worlds([&](const auto& on) {
        auto heard = rows;
        on(placement, [&](auto& rank) {
            auto& row = heard[static_cast<std::size_t>(rank.rank())];
            const auto done =
                execute(rank.transport(), Flow<E, TreeBroadcast>{TreeBroadcast(n, root), row});
            RC_ASSERT(done.delivery.complete());
        });
        for (const auto& row : heard) RC_ASSERT(row == rows[static_cast<std::size_t>(root)]);
    });
}
TEST(TreeBroadcast, ReachesEveryRank) {
    EXPECT_TRUE(rc::check("floats", [] { expect_the_roots_data<gx::fp32>(); }));
    EXPECT_TRUE(rc::check("halves", [] { expect_the_roots_data<gx::fp16>(); }));
    EXPECT_TRUE(rc::check("brains", [] { expect_the_roots_data<gx::bf16>(); }));
}

// ---- A broken contract ------------------------------------------------------------------
TEST(TreeBroadcastDeathTest, NeedsItsRoot) {
    EXPECT_DEATH((void)TreeBroadcast(0), "at least one rank");
    EXPECT_DEATH((void)TreeBroadcast(4, 4), "one of the ranks");
}

}  // namespace
