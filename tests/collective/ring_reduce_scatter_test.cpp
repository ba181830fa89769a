#include <gx/collective/ring_reduce_scatter.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <collective/mutant.hpp>
#include <collective/worlds.hpp>
#include <gx/collective/execute.hpp>
#include <gx/collective/proof.hpp>

static_assert(gx::explain_promise<gx::collective::RingReduceScatter>());

using gx::Combine;
using gx::Exchange;
using gx::collective::Flow;
using gx::collective::RingReduceScatter;

// ---- What the type promises ---------------------------------------------------------
static_assert(RingReduceScatter::promise == gx::Promise::reduce_scatter);
template <int ranks>
inline constexpr bool proved = gx::collective::keeps_promise<RingReduceScatter>(ranks);
static_assert(proved<1> && proved<2> && proved<3> && proved<4> && proved<5> && proved<6> &&
              proved<7> && proved<8>);
static_assert(proved<13>);
static_assert(RingReduceScatter(1).steps() == 0 && RingReduceScatter(5).steps() == 4);

namespace {

// ---- A case worked by hand ----------------------------------------------------------
TEST(RingReduceScatter, ThreeRanksByHand) {
    constexpr RingReduceScatter ring(3);
    // rank 0: sends chunk 2, adds chunk 1 of rank 2 and sends that on; then chunk 0 is whole.
    EXPECT_EQ(ring.exchange(0, 0), (Exchange{1, 2, 2, 1, Combine::add}));
    EXPECT_EQ(ring.exchange(0, 1), (Exchange{1, 1, 2, 0, Combine::add}));
    EXPECT_EQ(ring.owned_chunk(0), 0);
    EXPECT_EQ(RingReduceScatter(3, 1).owned_chunk(2), 0);
    // 4 elements: chunks of 2, 1 and 1
    const gx::ChunkRange second = owned_range(ring, 4, 1);
    EXPECT_EQ(second.begin, 2);
    EXPECT_EQ(second.end, 3);
    EXPECT_EQ(owned_range(ring, 2, 2).size(), 0) << "fewer elements than ranks";
}

// ---- Proofs ---------------------------------------------------------------------------
TEST(RingReduceScatter, IsProvedForRanksOffsetsAndOrders) {
    for (int n = 1; n <= 33; ++n)
        for (const int offset : {0, 1, n - 1, 2 * n + 1})
            EXPECT_TRUE(keeps_promise(RingReduceScatter(n, offset))) << n << ", " << offset;
    for (const gx::Placement p : {gx::Placement{3, 2}, {5, 1}, {8, 2}, {1, 8}, {4, 8}})
        for (int k = 0; k < 6; ++k)
            EXPECT_TRUE(keeps_promise(RingReduceScatter(gx::collective::MachineOrder(p, k), k)));
}
TEST(RingReduceScatter, MutantsAreRefused) {
    EXPECT_EQ(expect_mutants_refused(RingReduceScatter(1)), 0);
    for (const int n : {2, 3, 7, 8}) EXPECT_GT(expect_mutants_refused(RingReduceScatter(n)), 0);
    EXPECT_GT(expect_mutants_refused(RingReduceScatter(gx::collective::MachineOrder({3, 2}, 1), 1)),
              0);
}
/// Ranks that look for their sums in the chunk beside.
struct OwnsTheNext : RingReduceScatter {
    using RingReduceScatter::RingReduceScatter;
    [[nodiscard]] constexpr int owned_chunk(int rank) const {
        return (RingReduceScatter::owned_chunk(rank) + 1) % ranks();
    }
};
/// Two ranks own chunk 0.
struct OwnsTwice : RingReduceScatter {
    using RingReduceScatter::RingReduceScatter;
    [[nodiscard]] constexpr int owned_chunk(int rank) const { return rank == 1 ? 0 : rank; }
};
TEST(RingReduceScatter, OwnersAreProved) {
    EXPECT_EQ(prove(OwnsTheNext(4)).flaw, gx::collective::Flaw::contribution_missing);
    const gx::collective::Proof proof = prove(OwnsTwice(4));
    EXPECT_EQ(proof.flaw, gx::collective::Flaw::owners_overlap);
    EXPECT_EQ(proof.chunk, 0);
}

// ---- Properties: bit for bit the serial sums in the stated order, on each rank's range ----
template <gx::Element E>
void expect_serial_sums() {
    const gx::Placement placement = some_placement();
    const int n = placement.ranks(), offset = *rc::gen::inRange(0, n);
    const gx::collective::MachineOrder order(placement, *rc::gen::inRange(0, 4));
    const RingReduceScatter ring(order, offset);
    const std::int64_t count = some_length();
    const auto rows = wire_rows<E>(n, count);
    on_both_worlds([&](const auto& on) {
        auto summed = rows;
        std::vector<gx::collective::Execution> done(rows.size());
        on(placement, [&](auto& rank) {
            const auto r = static_cast<std::size_t>(rank.rank());
            std::vector<typename E::storage> scratch(
                static_cast<std::size_t>(scratch_elements(ring, count)));
            done[r] =
                execute(rank.transport(), Flow<E, RingReduceScatter>{ring, summed[r], scratch});
        });
        for (int r = 0; r < n; ++r) {
            const auto& ended = done[static_cast<std::size_t>(r)];
            const gx::ChunkRange mine = owned_range(ring, count, r);
            RC_ASSERT(ended.delivery.complete() && ended.steps == n - 1);
            std::vector<int> ranks;  // of this chunk's sum: from position c - offset + 1 upwards
            for (int k = 1; k <= n; ++k)
                ranks.push_back(order.rank_at((ring.owned_chunk(r) - offset + n + k) % n));
            RC_ASSERT(ranks.back() == r);
            for (auto i = mine.begin; i < mine.end; ++i) {
                const auto at = static_cast<std::size_t>(i);
                RC_ASSERT(summed[static_cast<std::size_t>(r)][at] ==
                          serial_sum<E>(rows, ranks, at));
            }
            // all chunks but the owned one were sent, in some state
            RC_ASSERT(ended.bytes_sent ==
                      (count - mine.size()) * static_cast<std::int64_t>(sizeof(rows[0][0])));
        }
    });
}
TEST(RingReduceScatter, SumsFloats) {
    EXPECT_TRUE(rc::check([] { expect_serial_sums<gx::fp32>(); }));
}
TEST(RingReduceScatter, SumsHalves) {
    EXPECT_TRUE(rc::check([] { expect_serial_sums<gx::fp16>(); }));
}
TEST(RingReduceScatter, SumsBrains) {
    EXPECT_TRUE(rc::check([] { expect_serial_sums<gx::bf16>(); }));
}

// ---- A broken contract ------------------------------------------------------------------
TEST(RingReduceScatterDeathTest, OwnsFromZeroOn) {
    EXPECT_DEATH((void)RingReduceScatter(3, -1), "at least 0");
}

}  // namespace
