#include <gx/collective/direct_all_gather.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <collective/mutant.hpp>
#include <collective/worlds.hpp>
#include <gx/collective/execute.hpp>
#include <gx/collective/proof.hpp>

static_assert(gx::explain_promise<gx::collective::DirectAllGather>());

using gx::Exchange;
using gx::collective::DirectAllGather;
using gx::collective::Flow;

// ---- What the type promises ---------------------------------------------------------
static_assert(DirectAllGather::promise == gx::Promise::all_gather);
template <int ranks>
inline constexpr bool proved = gx::collective::keeps_promise<DirectAllGather>(ranks);
static_assert(proved<1> && proved<2> && proved<3> && proved<4> && proved<5> && proved<8>);
static_assert(DirectAllGather(1).steps() == 0 && DirectAllGather(5).steps() == 4);

namespace {

// ---- A case worked by hand ----------------------------------------------------------
TEST(DirectAllGather, ThreeRanksByHand) {
    constexpr DirectAllGather direct(3);
    EXPECT_EQ(direct.exchange(0, 0), (Exchange{1, 0, 2, 2}));
    EXPECT_EQ(direct.exchange(0, 1), (Exchange{2, 0, 1, 1}));
    EXPECT_EQ(direct.exchange(2, 0), (Exchange{0, 2, 1, 1}));
}

// ---- Proofs ---------------------------------------------------------------------------
TEST(DirectAllGather, IsProvedForManyRanks) {
    for (int n = 1; n <= 33; ++n) EXPECT_TRUE(gx::collective::keeps_promise<DirectAllGather>(n));
}
TEST(DirectAllGather, MutantsAreRefused) {
    EXPECT_EQ(expect_mutants_refused(DirectAllGather(1)), 0);
    for (const int n : {2, 3, 7, 8}) EXPECT_GT(expect_mutants_refused(DirectAllGather(n)), 0);
}
TEST(DirectAllGather, SendsItsOwnChunkOnly) {
    for (int n = 1; n <= 33; ++n) {
        const DirectAllGather direct(n);
        for (int rank = 0; rank < n; ++rank)
            for (int step = 0; step < direct.steps(); ++step)
                EXPECT_EQ(direct.exchange(rank, step).send_chunk, rank);
    }
}

// ---- A property ------------------------------------------------------------------------
RC_GTEST_PROP(DirectAllGather, EveryRankEndsWithEveryChunk, ()) {
    const gx::Placement placement = some_placement();
    const int n = placement.ranks();
    const DirectAllGather direct(n);
    const std::int64_t count = some_length();
    const auto rows = wire_rows<gx::fp16>(n, count);
    on_both_worlds([&](const auto& on) {
        auto gathered = rows;
        on(placement, [&](auto& rank) {
            const auto r = static_cast<std::size_t>(rank.rank());
            const auto done =
                execute(rank.transport(), Flow<gx::fp16, DirectAllGather>{direct, gathered[r]});
            EXPECT_TRUE(done.delivery.complete());
            EXPECT_EQ(done.bytes_sent, 2 * (n - 1) * owned_range(direct, count, int(r)).size());
        });
        for (const auto& row : gathered)
            for (int r = 0; r < n; ++r) {
                const gx::ChunkRange of = owned_range(direct, count, r);
                RC_ASSERT(std::ranges::equal(part(row, of), part(rows[std::size_t(r)], of)));
            }
    });
}

// ---- A broken contract ------------------------------------------------------------------
TEST(DirectAllGatherDeathTest, NeedsARank) {
    EXPECT_DEATH((void)DirectAllGather(0), "at least one rank");
}

}  // namespace
