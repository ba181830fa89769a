#include <gx/collective/dissemination_barrier.hpp>

#include <atomic>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <collective/mutant.hpp>
#include <collective/worlds.hpp>
#include <gx/collective/proof.hpp>

using gx::Exchange;
using gx::collective::DisseminationBarrier;

// ---- What the type promises ---------------------------------------------------------
static_assert(DisseminationBarrier::promise == gx::Promise::barrier);
static_assert(keeps_promise(DisseminationBarrier(1)) && keeps_promise(DisseminationBarrier(2)) &&
              keeps_promise(DisseminationBarrier(13)));
static_assert(DisseminationBarrier(1).steps() == 0 && DisseminationBarrier(8).steps() == 3 &&
              DisseminationBarrier(9).steps() == 4);

namespace {

// ---- A case worked by hand ----------------------------------------------------------
TEST(DisseminationBarrier, FiveRanksByHand) {
    constexpr DisseminationBarrier five(5);
    EXPECT_EQ(five.exchange(0, 0), (Exchange{1, 0, 4, 0}));
    EXPECT_EQ(five.exchange(0, 1), (Exchange{2, 0, 3, 0}));
    EXPECT_EQ(five.exchange(3, 2), (Exchange{2, 0, 4, 0}));
}

// ---- Proofs ---------------------------------------------------------------------------
TEST(DisseminationBarrier, IsProvedForManyRanks) {
    for (int n = 1; n <= 130; ++n)
        EXPECT_TRUE(gx::collective::keeps_promise<DisseminationBarrier>(n));
}
TEST(DisseminationBarrier, MutantsAreRefused) {
    EXPECT_EQ(expect_mutants_refused(DisseminationBarrier(1)), 0);
    for (const int n : {2, 3, 5, 6, 8, 13})
        EXPECT_GT(expect_mutants_refused(DisseminationBarrier(n)), 0);
}
/// Steps of equal reach: word from far ranks does not arrive.
struct NearOnly : DisseminationBarrier {
    using DisseminationBarrier::DisseminationBarrier;
    [[nodiscard]] constexpr Exchange exchange(int rank, int) const {
        return DisseminationBarrier::exchange(rank, 0);
    }
};
TEST(DisseminationBarrier, SaysWhoseWordIsMissing) {
    EXPECT_EQ(to_string(prove(NearOnly(5))),
              "rank 0: a rank leaves before word of some rank has reached it (rank 1)");
}

// ---- A property: no rank leaves before all have come --------------------------------------
TEST(DisseminationBarrier, LetsNoneGoBeforeAllHaveCome) {
    rc::check([] {
        const gx::Placement placement = some_placement();
        const int rounds = 3, late = *rc::gen::inRange(0, placement.ranks());
        on_both_worlds([&](const auto& on) {
            std::vector<std::atomic<int>> come(rounds);
            on(placement, [&](auto& rank) {
                for (std::size_t round = 0; round < rounds; ++round) {
                    // the late rank comes after a detour: a message to itself by way of another
                    if (rank.rank() == late && rank.ranks() > 1) {
                        std::byte out{}, in{};
                        const int other = (late + 1) % rank.ranks();
                        (void)rank.transport().wait(rank.transport().receive(other, 5, {&in, 1}));
                        (void)rank.transport().wait(rank.transport().send(other, 5, {&out, 1}));
                    }
                    if (rank.rank() == (late + 1) % rank.ranks() && rank.ranks() > 1) {
                        std::byte out{}, in{};
                        (void)rank.transport().wait(rank.transport().send(late, 5, {&out, 1}));
                        (void)rank.transport().wait(rank.transport().receive(late, 5, {&in, 1}));
                    }
                    ++come[round];
                    const auto done = gx::collective::barrier(rank.transport(), 7);
                    RC_ASSERT(done.delivery.complete());
                    RC_ASSERT(come[round].load() == rank.ranks());
                    RC_ASSERT(done.bytes_sent == done.steps);
                }
            });
        });
    });
}

// ---- A fault --------------------------------------------------------------------------
TEST(DisseminationBarrier, NamesTheRankThatDoesNotCome) {
    on_both_worlds([](const auto& on) {
        std::vector<gx::Delivery> deliveries(4);
        on(gx::Placement{1, 4}, [&](auto& rank) {
            if (rank.rank() == 2) return;
            deliveries[static_cast<std::size_t>(rank.rank())] =
                gx::collective::barrier(rank.transport(), 0).delivery;
        });
        for (const std::size_t r : {0u, 1u, 3u}) {
            EXPECT_FALSE(deliveries[r].complete());
            EXPECT_EQ(deliveries[r].peer, 2);
        }
    });
}

// ---- A broken contract ------------------------------------------------------------------
TEST(DisseminationBarrierDeathTest, NeedsARank) {
    EXPECT_DEATH((void)DisseminationBarrier(0), "at least one rank");
}

}  // namespace
