#include <gx/collective/direct_reduce_scatter.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <collective/mutant.hpp>
#include <collective/worlds.hpp>
#include <gx/collective/execute.hpp>
#include <gx/collective/proof.hpp>

static_assert(gx::explain_promise<gx::collective::DirectReduceScatter>());

using gx::Combine;
using gx::Exchange;
using gx::collective::DirectReduceScatter;
using gx::collective::Flow;

// ---- What the type promises ---------------------------------------------------------
static_assert(DirectReduceScatter::promise == gx::Promise::reduce_scatter);
template <int ranks>
inline constexpr bool proved = gx::collective::keeps_promise<DirectReduceScatter>(ranks);
static_assert(proved<1> && proved<2> && proved<3> && proved<4> && proved<5> && proved<8>);
static_assert(DirectReduceScatter(1).steps() == 0 && DirectReduceScatter(5).steps() == 4);

namespace {

// ---- A case worked by hand ----------------------------------------------------------
TEST(DirectReduceScatter, ThreeRanksByHand) {
    constexpr DirectReduceScatter direct(3);
    EXPECT_EQ(direct.exchange(0, 0), (Exchange{1, 1, 2, 0, Combine::add}));
    EXPECT_EQ(direct.exchange(0, 1), (Exchange{2, 2, 1, 0, Combine::add}));
    EXPECT_EQ(direct.exchange(2, 0), (Exchange{0, 0, 1, 2, Combine::add}));
}

// ---- Proofs ---------------------------------------------------------------------------
TEST(DirectReduceScatter, IsProvedForManyRanks) {
    for (int n = 1; n <= 33; ++n)
        EXPECT_TRUE(gx::collective::keeps_promise<DirectReduceScatter>(n)) << n;
}
TEST(DirectReduceScatter, MutantsAreRefused) {
    EXPECT_EQ(expect_mutants_refused(DirectReduceScatter(1)), 0);
    for (const int n : {2, 3, 7, 8}) EXPECT_GT(expect_mutants_refused(DirectReduceScatter(n)), 0);
}
TEST(DirectReduceScatter, SendsNothingThatItHasReceived) {
    for (int n = 1; n <= 33; ++n) {
        const DirectReduceScatter direct(n);
        for (int rank = 0; rank < n; ++rank)
            for (int step = 0; step < direct.steps(); ++step) {
                EXPECT_EQ(direct.exchange(rank, step).receive_chunk, rank);
                EXPECT_NE(direct.exchange(rank, step).send_chunk, rank);
            }
    }
}

// ---- A property: bit for bit the serial sums in the stated order, step by step -----------
template <gx::Element E>
void expect_serial_sums() {
    const gx::Placement placement = some_placement();
    const int n = placement.ranks();
    const DirectReduceScatter direct(n);
    const std::int64_t count = some_length();
    const auto rows = wire_rows<E>(n, count);
    on_both_worlds([&](const auto& on) {
        auto summed = rows;
        std::vector<gx::collective::Execution> done(rows.size());
        on(placement, [&](auto& rank) {
            const auto r = static_cast<std::size_t>(rank.rank());
            std::vector<typename E::storage> scratch(
                static_cast<std::size_t>(scratch_elements(direct, count)));
            done[r] =
                execute(rank.transport(), Flow<E, DirectReduceScatter>{direct, summed[r], scratch});
        });
        for (int r = 0; r < n; ++r) {
            const gx::ChunkRange mine = owned_range(direct, count, r);
            const auto& ended = done[static_cast<std::size_t>(r)];
            RC_ASSERT(ended.delivery.complete() && ended.steps == n - 1);
            std::vector<int> ranks;
            for (int k = 0; k < n; ++k) ranks.push_back((r + n - k) % n);
            for (auto i = mine.begin; i < mine.end; ++i) {
                const auto at = static_cast<std::size_t>(i);
                RC_ASSERT(summed[static_cast<std::size_t>(r)][at] ==
                          serial_sum<E>(rows, ranks, at));
            }
            RC_ASSERT(ended.bytes_sent ==
                      (count - mine.size()) * static_cast<std::int64_t>(sizeof(rows[0][0])));
        }
    });
}
TEST(DirectReduceScatter, SumsFloats) {
    EXPECT_TRUE(rc::check([] { expect_serial_sums<gx::fp32>(); }));
}
TEST(DirectReduceScatter, SumsHalves) {
    EXPECT_TRUE(rc::check([] { expect_serial_sums<gx::fp16>(); }));
}

// ---- A broken contract ------------------------------------------------------------------
TEST(DirectReduceScatterDeathTest, NeedsARank) {
    EXPECT_DEATH((void)DirectReduceScatter(0), "at least one rank");
}

}  // namespace
