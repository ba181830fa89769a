#include <gx/collective/dissemination_barrier.hpp>

#include <atomic>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <collective/mutant.hpp>
#include <collective/worlds.hpp>
#include <gx/collective/proof.hpp>

static_assert(gx::explain_promise<gx::collective::DisseminationBarrier>());

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
/// Steps of equal reach: no chain of messages comes from far ranks.
struct NearOnly : DisseminationBarrier {
    using DisseminationBarrier::DisseminationBarrier;
    [[nodiscard]] constexpr Exchange exchange(int rank, int) const {
        return DisseminationBarrier::exchange(rank, 0);
    }
};
TEST(DisseminationBarrier, NamesTheRankThatIsNotAwaited) {
    EXPECT_EQ(to_string(prove(NearOnly(5))),
              "rank 0: a rank leaves the barrier without waiting for some rank (rank 1)");
}

// ---- A property: no rank leaves before all have come --------------------------------------
/// One message from rank `from` to rank `to`, which the latter waits for.
void tell(gx::Transport auto& link, int from, int to) {
    std::byte word{};
    if (link.rank() == from) RC_ASSERT(link.wait(link.send(to, 5, {&word, 1})).complete());
    if (link.rank() == to) RC_ASSERT(link.wait(link.receive(from, 5, {&word, 1})).complete());
}
TEST(DisseminationBarrier, LetsNoneGoBeforeAllHaveCome) {
    EXPECT_TRUE(rc::check([] {
        const gx::Placement placement = some_placement();
        const int n = placement.ranks(), late = *rc::gen::inRange(0, n), rounds = 3;
        on_both_worlds([&](const auto& on) {
            std::vector<std::atomic<int>> come(rounds);
            on(placement, [&](auto& rank) {
                for (std::size_t round = 0; round < rounds; ++round) {
                    if (n > 1) {  // the late rank first waits for another
                        tell(rank.transport(), late, (late + 1) % n);
                        tell(rank.transport(), (late + 1) % n, late);
                    }
                    ++come[round];
                    const auto done = gx::collective::barrier(rank.transport(), 7);
                    RC_ASSERT(done.delivery.complete());
                    RC_ASSERT(come[round].load() == n);
                    RC_ASSERT(done.bytes_sent == done.steps);
                }
            });
        });
    }));
}
/// A mutant that the property above rejects. Sends wait for their receives here, so chains come
/// from both sides: without the last step, from all ranks but the one opposite.
TEST(DisseminationBarrier, WithoutItsLastStepLetsOneGo) {
    using Short = Mutant<DisseminationBarrier>;
    const Short barrier(DisseminationBarrier(16), Change::step_dropped, 0, 3);
    int come = 0, fewest = 16;
    gx::sim::OnCluster{}({16, 1}, [&](auto& rank) {
        if (rank.rank() == 3) rank.charge(std::chrono::milliseconds(1), "late");
        ++come;
        std::array<std::byte, 2> token{};
        const std::span<std::byte> bytes(token);
        using gx::collective::raw_bytes;
        const gx::collective::Flow<raw_bytes, Short> flow{barrier, bytes.first(1), bytes.last(1)};
        EXPECT_TRUE(execute(rank.transport(), flow).delivery.complete());
        fewest = std::min(fewest, come);
    });
    EXPECT_EQ(fewest, 15);
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
