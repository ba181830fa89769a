#include <gx/collective/tree_gather.hpp>

#include <algorithm>  // max

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <collective/mutant.hpp>
#include <collective/worlds.hpp>
#include <gx/collective/execute.hpp>
#include <gx/collective/proof.hpp>

static_assert(gx::explain_promise<gx::collective::TreeGather>());

using gx::Exchange;
using gx::collective::Flow;
using gx::collective::TreeGather;

// ---- What the type promises ---------------------------------------------------------
static_assert(TreeGather::promise == gx::Promise::gather);
static_assert(keeps_promise(TreeGather(1)) && keeps_promise(TreeGather(8, 3)));
static_assert(keeps_promise(TreeGather(13, 12)));
static_assert(TreeGather(1).steps() == 0 && TreeGather(8).steps() == 3 &&
              TreeGather(9).steps() == 4);

namespace {

// ---- A case worked by hand ----------------------------------------------------------
TEST(TreeGather, SevenRanksToRankOne) {
    constexpr TreeGather tree(7, 1);  // rank 1 is v = 0, ranks 0 and 6 are v = 6 and 5
    EXPECT_EQ(tree.owned_chunk(1), 0);
    EXPECT_EQ(tree.owned_chunk(0), 6);
    EXPECT_EQ(tree.exchange(6, 0), (Exchange{.to = 5, .send_chunk = 5}));
    EXPECT_EQ(tree.exchange(0, 0), Exchange{}) << "v = 7 is not there";
    EXPECT_EQ(tree.exchange(0, 1), (Exchange{.to = 5, .send_chunk = 6, .chunks = 1}));
    EXPECT_EQ(tree.exchange(3, 1), (Exchange{.to = 1, .send_chunk = 2, .chunks = 2}));
    EXPECT_EQ(tree.exchange(5, 2), (Exchange{.to = 1, .send_chunk = 4, .chunks = 3}));
    EXPECT_EQ(tree.exchange(1, 2), (Exchange{.from = 5, .receive_chunk = 4, .chunks = 3}));
}

// ---- Proofs ---------------------------------------------------------------------------
TEST(TreeGather, IsProvedForRanksAndRoots) {
    for (int n = 1; n <= 33; ++n)
        for (int root = 0; root < n; ++root)
            EXPECT_TRUE(keeps_promise(TreeGather(n, root))) << n << " to " << root;
}
TEST(TreeGather, MutantsAreRefused) {
    EXPECT_EQ(expect_mutants_refused(TreeGather(1)), 0);
    for (const int n : {2, 3, 6, 8, 13}) EXPECT_GT(expect_mutants_refused(TreeGather(n, n / 2)), 0);
}
/// A gather that forgets what its subtrees sent it.
struct SendsItsOwnOnly : TreeGather {
    using TreeGather::TreeGather;
    [[nodiscard]] constexpr Exchange exchange(int rank, int step) const {
        Exchange e = TreeGather::exchange(rank, step);
        e.chunks = 1;
        return e;
    }
};
TEST(TreeGather, SaysWhoIsNotGathered) {
    EXPECT_EQ(to_string(prove(SendsItsOwnOnly(4, 1))),
              "rank 1, chunk 3: a chunk ends without some rank's contribution (rank 0)");
}
TEST(TreeGather, NoMessageIsLargerThanItSays) {
    for (int n = 1; n <= 70; ++n) {
        const TreeGather c(n, n / 2);
        int largest = 1, received = 0;
        for (int rank = 0; rank < n; ++rank)
            for (int step = 0; step < c.steps(); ++step) {
                const Exchange e = c.exchange(rank, step);
                largest = std::max(largest, e.chunks);
                if (rank == c.root() && e.from >= 0) received += e.chunks;
            }
        EXPECT_EQ(c.message_chunks(), largest) << n;
        EXPECT_EQ(received, n - 1);
    }
}

// ---- A property: the root ends with every rank's own range ---------------------------------
template <gx::Element E>
void expect_gathered() {
    const gx::Placement placement = some_placement();
    const int n = placement.ranks();
    const TreeGather tree(n, *rc::gen::inRange(0, n));
    const std::int64_t count = some_length();
    const auto rows = wire_rows<E>(n, count);
    on_both_worlds([&](const auto& on) {
        auto gathered = rows;
        on(placement, [&](auto& rank) {
            auto& row = gathered[static_cast<std::size_t>(rank.rank())];
            const auto done = execute(rank.transport(), Flow<E, TreeGather>{tree, row});
            RC_ASSERT(done.delivery.complete());
        });
        for (int r = 0; r < n; ++r) {
            const gx::ChunkRange theirs = owned_range(tree, count, r);
            const auto got = part(gathered[static_cast<std::size_t>(tree.root())], theirs);
            const auto had = part(rows[static_cast<std::size_t>(r)], theirs);
            RC_ASSERT(std::equal(got.begin(), got.end(), had.begin(), had.end()));
        }
    });
}
TEST(TreeGather, FillsTheRoot) {
    EXPECT_TRUE(rc::check("floats", [] { expect_gathered<gx::fp32>(); }));
    EXPECT_TRUE(rc::check("halves", [] { expect_gathered<gx::fp16>(); }));
    EXPECT_TRUE(rc::check("brains", [] { expect_gathered<gx::bf16>(); }));
}

// ---- A broken contract ------------------------------------------------------------------
TEST(TreeGatherDeathTest, NeedsItsRoot) {
    EXPECT_DEATH((void)TreeGather(0), "at least one rank");
    EXPECT_DEATH((void)TreeGather(4, -1), "one of the ranks");
}

}  // namespace
