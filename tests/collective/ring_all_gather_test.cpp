#include <gx/collective/ring_all_gather.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <collective/mutant.hpp>
#include <collective/worlds.hpp>
#include <gx/collective/execute.hpp>
#include <gx/collective/proof.hpp>

static_assert(gx::explain_promise<gx::collective::RingAllGather>());

using gx::Exchange;
using gx::collective::Flow;
using gx::collective::RingAllGather;

// ---- What the type promises ---------------------------------------------------------
static_assert(RingAllGather::promise == gx::Promise::all_gather);
template <int ranks>
inline constexpr bool proved = gx::collective::keeps_promise<RingAllGather>(ranks);
static_assert(proved<1> && proved<2> && proved<3> && proved<4> && proved<5> && proved<6> &&
              proved<7> && proved<8>);
static_assert(proved<13>);
static_assert(RingAllGather(1).steps() == 0 && RingAllGather(5).steps() == 4);

namespace {

// ---- A case worked by hand ----------------------------------------------------------
TEST(RingAllGather, ThreeRanksByHand) {
    constexpr RingAllGather ring(3);
    EXPECT_EQ(ring.exchange(0, 0), (Exchange{1, 0, 2, 2}));
    EXPECT_EQ(ring.exchange(0, 1), (Exchange{1, 2, 2, 1}));
    EXPECT_EQ(ring.owned_chunk(2), 2);
    EXPECT_EQ(RingAllGather(3, 1).owned_chunk(2), 0);
}

// ---- Proofs ---------------------------------------------------------------------------
TEST(RingAllGather, IsProvedForRanksOffsetsAndOrders) {
    for (int n = 1; n <= 33; ++n)
        for (const int offset : {0, 1, n - 1, 2 * n + 1})
            EXPECT_TRUE(keeps_promise(RingAllGather(n, offset))) << n << ", " << offset;
    for (const gx::Placement p : {gx::Placement{3, 2}, {5, 1}, {8, 2}, {1, 8}, {4, 8}})
        for (int k = 0; k < 6; ++k)
            EXPECT_TRUE(keeps_promise(RingAllGather(gx::collective::MachineOrder(p, k), k)));
}
TEST(RingAllGather, MutantsAreRefused) {
    EXPECT_EQ(expect_mutants_refused(RingAllGather(1)), 0);
    for (const int n : {2, 3, 7, 8}) EXPECT_GT(expect_mutants_refused(RingAllGather(n)), 0);
    EXPECT_GT(expect_mutants_refused(RingAllGather(gx::collective::MachineOrder({3, 2}, 1), 1)), 0);
}
/// Ranks that keep their contribution in the chunk beside.
struct OwnsTheNext : RingAllGather {
    using RingAllGather::RingAllGather;
    [[nodiscard]] constexpr int owned_chunk(int rank) const {
        return (RingAllGather::owned_chunk(rank) + 1) % ranks();
    }
};
TEST(RingAllGather, SaysWhoSendsWhatItHasNot) {
    EXPECT_EQ(to_string(prove(OwnsTheNext(4))),
              "rank 0, step 0, chunk 0: a chunk is sent before the rank has received it");
}

// ---- Properties: every rank ends with the owners' chunks ---------------------------------
template <gx::Element E>
void expect_owned_chunks_everywhere() {
    const gx::Placement placement = some_placement();
    const int n = placement.ranks();
    const RingAllGather ring(gx::collective::MachineOrder(placement, *rc::gen::inRange(0, 4)),
                             *rc::gen::inRange(0, n));
    const std::int64_t count = some_length();
    const auto rows = wire_rows<E>(n, count);
    auto expected = rows[0];
    for (int r = 0; r < n; ++r) {
        const gx::ChunkRange mine = owned_range(ring, count, r);
        const auto from = part(rows[static_cast<std::size_t>(r)], mine);
        std::copy(from.begin(), from.end(), part(expected, mine).begin());
    }
    on_both_worlds([&](const auto& on) {
        auto gathered = rows;
        std::vector<gx::collective::Execution> done(rows.size());
        on(placement, [&](auto& rank) {  // in place: no scratch
            const auto r = static_cast<std::size_t>(rank.rank());
            done[r] = execute(rank.transport(), Flow<E, RingAllGather>{ring, gathered[r]});
        });
        for (const auto& ended : done) RC_ASSERT(ended.delivery.complete() && ended.steps == n - 1);
        for (const auto& row : gathered) RC_ASSERT(row == expected);
    });
}
TEST(RingAllGather, GathersFloats) {
    EXPECT_TRUE(rc::check([] { expect_owned_chunks_everywhere<gx::fp32>(); }));
}
TEST(RingAllGather, GathersHalves) {
    EXPECT_TRUE(rc::check([] { expect_owned_chunks_everywhere<gx::fp16>(); }));
}
TEST(RingAllGather, GathersBrains) {
    EXPECT_TRUE(rc::check([] { expect_owned_chunks_everywhere<gx::bf16>(); }));
}

// ---- A fault --------------------------------------------------------------------------
TEST(RingAllGather, NamesTheRankThatIsMissing) {
    on_both_worlds([](const auto& on) {
        std::vector<gx::Delivery> deliveries(5);
        on(gx::Placement{1, 5}, [&](auto& rank) {
            if (rank.rank() == 3) return;
            std::vector<float> row(17);
            deliveries[static_cast<std::size_t>(rank.rank())] =
                execute(rank.transport(), Flow<gx::fp32, RingAllGather>{RingAllGather(5), row})
                    .delivery;
        });
        for (const std::size_t r : {0u, 1u, 2u, 4u}) {
            EXPECT_FALSE(deliveries[r].complete());
            EXPECT_EQ(deliveries[r].peer, 3);
        }
    });
}

}  // namespace
