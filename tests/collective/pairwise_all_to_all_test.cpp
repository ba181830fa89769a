#include <gx/collective/pairwise_all_to_all.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <collective/mutant.hpp>
#include <collective/worlds.hpp>
#include <gx/collective/execute.hpp>
#include <gx/collective/proof.hpp>

static_assert(gx::explain_promise<gx::collective::PairwiseAllToAll>());

using gx::Exchange;
using gx::collective::Flaw;
using gx::collective::Flow;
using gx::collective::PairwiseAllToAll;

// ---- What the type promises ---------------------------------------------------------
static_assert(PairwiseAllToAll::promise == gx::Promise::all_to_all);
template <int ranks>
inline constexpr bool proved = gx::collective::keeps_promise<PairwiseAllToAll>(ranks);
static_assert(proved<1> && proved<2> && proved<3> && proved<4> && proved<5> && proved<6> &&
              proved<7> && proved<8>);
static_assert(proved<13>);
static_assert(PairwiseAllToAll(1).steps() == 0 && PairwiseAllToAll(2).steps() == 1 &&
              PairwiseAllToAll(5).steps() == 5 && PairwiseAllToAll(6).steps() == 5);

namespace {

// ---- A case worked by hand ----------------------------------------------------------
TEST(PairwiseAllToAll, FourRanksByHand) {
    constexpr PairwiseAllToAll swaps(4);  // 3 is outside: it meets the rank that would meet itself
    EXPECT_EQ(swaps.exchange(1, 0), (Exchange{2, 2, 2, 2}));
    EXPECT_EQ(swaps.exchange(2, 0), (Exchange{1, 1, 1, 1}));
    EXPECT_EQ(swaps.exchange(0, 0), (Exchange{3, 3, 3, 3}));
    EXPECT_EQ(swaps.exchange(3, 0), (Exchange{0, 0, 0, 0}));
    EXPECT_EQ(PairwiseAllToAll(3).exchange(0, 0), Exchange{});
}

// ---- Proofs ---------------------------------------------------------------------------
TEST(PairwiseAllToAll, IsProvedForManyRanks) {
    for (int n = 1; n <= 33; ++n) EXPECT_TRUE(gx::collective::keeps_promise<PairwiseAllToAll>(n));
}
TEST(PairwiseAllToAll, MutantsAreRefused) {
    EXPECT_EQ(expect_mutants_refused(PairwiseAllToAll(1)), 0);
    for (const int n : {2, 3, 6, 7, 8}) EXPECT_GT(expect_mutants_refused(PairwiseAllToAll(n)), 0);
}
TEST(PairwiseAllToAll, EachPairMeetsOnce) {
    for (int n = 1; n <= 40; ++n) {
        const PairwiseAllToAll swaps(n);
        for (int rank = 0; rank < n; ++rank) {
            std::vector<int> met(static_cast<std::size_t>(n));
            for (int step = 0; step < swaps.steps(); ++step) {
                const int peer = swaps.partner(rank, step);
                if (peer < 0) continue;
                ++met[static_cast<std::size_t>(peer)];
                ASSERT_EQ(swaps.partner(peer, step), rank);
            }
            for (int peer = 0; peer < n; ++peer)
                ASSERT_EQ(met[static_cast<std::size_t>(peer)], peer != rank);
        }
    }
}
/// In one step a rank sends its own chunk, or receives into a chunk beside.
struct Bent : PairwiseAllToAll {
    int sent = -1, received = -1;
    [[nodiscard]] constexpr Exchange exchange(int rank, int step) const {
        Exchange e = PairwiseAllToAll::exchange(rank, step);
        if (rank == 1 && step == 0 && sent >= 0) e.send_chunk = sent;
        if (rank == 1 && step == 0 && received >= 0) e.receive_chunk = received;
        return e;
    }
};
TEST(PairwiseAllToAll, TheChunkSentAndItsPlaceAreProved) {
    const PairwiseAllToAll four(4);
    EXPECT_TRUE(prove(Bent{four}).holds());
    // rank 2 is sent what rank 1 holds for itself
    EXPECT_EQ(prove(Bent{four, 1}), (gx::collective::Proof{Flaw::chunk_misplaced, 2, -1, 1, 1}));
    // rank 1 puts the chunk from rank 2 where that of rank 0 belongs; which is then sent on
    EXPECT_FALSE(prove(Bent{four, -1, 0}).holds());
}
/// Two ranks, and one message more: what rank 0 got comes back over the chunk of rank 1's own.
struct SendsBack : PairwiseAllToAll {
    SendsBack() : PairwiseAllToAll(2) {}
    [[nodiscard]] static constexpr int steps() { return 2; }
    [[nodiscard]] constexpr Exchange exchange(int rank, int step) const {
        if (step == 0) return PairwiseAllToAll::exchange(rank, step);
        return rank == 0 ? Exchange{.to = 1, .send_chunk = 0}
                         : Exchange{.from = 0, .receive_chunk = 1};
    }
};
TEST(PairwiseAllToAll, AForeignContributionIsNamed) {
    EXPECT_EQ(to_string(prove(SendsBack{})),
              "rank 1, chunk 1: a chunk ends with a contribution that does not belong to it "
              "(rank 0)");
}

// ---- A property: chunk (i, j) ends at rank j, in place i ---------------------------------
template <gx::Element E>
void expect_transposed() {
    const gx::Placement placement = some_placement();
    const int n = placement.ranks(), each = *rc::gen::inRange(0, 12);
    const auto rows = wire_rows<E>(n, std::int64_t{n} * each);
    on_both_worlds([&](const auto& on) {
        auto swapped = rows;
        std::vector<std::int64_t> bytes(rows.size());
        on(placement, [&](auto& rank) {
            const auto r = static_cast<std::size_t>(rank.rank());
            std::vector<typename E::storage> scratch(static_cast<std::size_t>(each));
            const auto done =
                execute(rank.transport(),
                        Flow<E, PairwiseAllToAll>{PairwiseAllToAll(n), swapped[r], scratch});
            RC_ASSERT(done.delivery.complete());
            bytes[r] = done.bytes_sent;
        });
        for (int j = 0; j < n; ++j)
            for (int i = 0; i < n; ++i) {
                const auto got = part(swapped[static_cast<std::size_t>(j)],
                                      gx::chunk_range(std::int64_t{n} * each, n, i));
                const auto had = part(rows[static_cast<std::size_t>(i)],
                                      gx::chunk_range(std::int64_t{n} * each, n, j));
                RC_ASSERT(std::equal(got.begin(), got.end(), had.begin(), had.end()));
            }
        for (const std::int64_t sent : bytes)
            RC_ASSERT(sent ==
                      std::int64_t{n - 1} * each * static_cast<std::int64_t>(sizeof(rows[0][0])));
    });
}
TEST(PairwiseAllToAll, Transposes) {
    EXPECT_TRUE(rc::check("floats", [] { expect_transposed<gx::fp32>(); }));
    EXPECT_TRUE(rc::check("halves", [] { expect_transposed<gx::fp16>(); }));
    EXPECT_TRUE(rc::check("brains", [] { expect_transposed<gx::bf16>(); }));
}

/// Blocks whose lengths depend on the pair: rank i and rank j swap (i + 1) * (j + 1) bytes.
TEST(PairwiseAllToAll, SwapsBlocksOfUnequalLengths) {
    on_both_worlds([](const auto& on) {
        constexpr int n = 5;
        on(gx::Placement{1, n}, [&](auto& rank) {
            const int r = rank.rank();
            std::vector<std::int64_t> offsets{0};
            std::vector<std::byte> data;
            for (int j = 0; j < n; ++j) {
                offsets.push_back(offsets.back() + (r + 1) * (j + 1));
                data.resize(static_cast<std::size_t>(offsets.back()), std::byte(10 * r + j));
            }
            std::vector<std::byte> scratch(n * n);
            const Flow<gx::collective::raw_bytes, PairwiseAllToAll> flow{PairwiseAllToAll(n), data,
                                                                         scratch, 0, offsets};
            EXPECT_TRUE(execute(rank.transport(), flow).delivery.complete());
            for (int i = 0; i < n; ++i)
                for (auto at = offsets[static_cast<std::size_t>(i)];
                     at < offsets[static_cast<std::size_t>(i) + 1]; ++at)
                    EXPECT_EQ(data[static_cast<std::size_t>(at)], std::byte(10 * i + r));
        });
    });
}

// ---- A broken contract ------------------------------------------------------------------
TEST(PairwiseAllToAllDeathTest, NeedsARank) {
    EXPECT_DEATH((void)PairwiseAllToAll(0), "at least one rank");
}

}  // namespace
