#include <gx/collective/ring.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <collective/mutant.hpp>
#include <collective/worlds.hpp>
#include <gx/collective/execute.hpp>
#include <gx/collective/proof.hpp>

static_assert(gx::explain_promise<gx::collective::Ring>());

using gx::Combine;
using gx::Exchange;
using gx::collective::Ring;

// ---- What the type promises ---------------------------------------------------------
template <int ranks>  // one evaluation each: compilers limit the steps of one
inline constexpr bool proved = gx::collective::is_all_reduce<Ring>(ranks);
static_assert(proved<1> && proved<2> && proved<3> && proved<4> && proved<5> && proved<6> &&
              proved<7> && proved<8>);
static_assert(proved<9> && proved<10> && proved<11> && proved<12> && proved<13> && proved<14> &&
              proved<15>);
static_assert(proved<16>);
static_assert(is_all_reduce(gx::collective::machine_ring({4, 2}, 1)));
static_assert(Ring(1).steps() == 0 && Ring(5).steps() == 8 && Ring(5).chunks() == 5);

namespace {

// ---- A case worked by hand ----------------------------------------------------------
TEST(Ring, ThreeRanksByHand) {
    constexpr Ring ring(3);
    // rank 0: sends its chunk 0, adds chunk 2 of rank 2, sends that on; then chunk 1 is whole.
    EXPECT_EQ(ring.exchange(0, 0), (Exchange{1, 0, 2, 2, Combine::add}));
    EXPECT_EQ(ring.exchange(0, 1), (Exchange{1, 2, 2, 1, Combine::add}));
    EXPECT_EQ(ring.exchange(0, 2), (Exchange{1, 1, 2, 0, Combine::copy}));
    EXPECT_EQ(ring.exchange(0, 3), (Exchange{1, 0, 2, 2, Combine::copy}));
    EXPECT_EQ(ring.exchange(2, 0), (Exchange{0, 2, 1, 1, Combine::add}));
}

// ---- A property, for any number of ranks ----------------------------------------------
TEST(Ring, SendsWhatItHasJustReceived) {
    for (int n = 2; n <= 40; ++n)
        for (int rank = 0; rank < n; ++rank)
            for (int step = 1; step < Ring(n).steps(); ++step) {
                const Exchange e = Ring(n).exchange(rank, step);
                ASSERT_EQ(e.send_chunk, Ring(n).exchange(rank, step - 1).receive_chunk);
                ASSERT_NE(e.send_chunk, e.receive_chunk);
                ASSERT_EQ(e.to, (rank + 1) % n);
            }
}

/// The formula in full: what the two halves add up to, for every event and every sum.
Exchange by_formula(const gx::collective::MachineOrder& order, int rank, int step) {
    const int n = order.ranks(), p = order.position_of(rank);
    const bool adding = step < n - 1;
    const int send = adding ? p - step : p + 1 - (step - (n - 1));
    return {.to = order.rank_at((p + 1) % n),
            .send_chunk = (send + n) % n,
            .from = order.rank_at((p + n - 1) % n),
            .receive_chunk = (send - 1 + n) % n,
            .combine = adding ? Combine::add : Combine::copy};
}
TEST(Ring, IsTheFormula) {
    for (int machines = 1; machines <= 9; ++machines)
        for (int gpus = 1; gpus <= 8; ++gpus)
            for (int k = 0; k < 4; ++k) {
                const gx::collective::MachineOrder order({machines, gpus}, k);
                const Ring ring(order);
                ASSERT_EQ(ring.steps(), 2 * (machines * gpus - 1));
                ASSERT_EQ(ring.phase_end(0), ring.steps());
                for (int rank = 0; rank < ring.ranks(); ++rank)
                    for (int step = 0; step < ring.steps(); ++step)
                        ASSERT_EQ(ring.exchange(rank, step), by_formula(order, rank, step));
            }
}

template <gx::Element E>
void expect_halves_make_the_whole() {
    const gx::Placement placement = some_placement();
    const Ring ring = gx::collective::machine_ring(placement, *rc::gen::inRange(0, 4));
    const std::int64_t count = some_length();
    const auto rows = wire_rows<E>(placement.ranks(), count);
    on_both_worlds([&](const auto& on) {
        auto whole = rows, halves = rows;
        on(placement, [&](auto& rank) {
            using gx::collective::Flow;
            const auto r = static_cast<std::size_t>(rank.rank());
            std::vector<typename E::storage> scratch(
                static_cast<std::size_t>(scratch_elements(ring, count)));
            auto& link = rank.transport();
            const auto sum = execute(link, Flow<E, Ring>{ring, whole[r], scratch});
            const gx::collective::RingReduceScatter first = ring.reduce_scatter();
            const auto scattered = execute(
                link, Flow<E, gx::collective::RingReduceScatter>{first, halves[r], scratch});
            const auto mine = owned_range(first, count, rank.rank());
            for (std::int64_t i = 0; i < count; ++i)  // only what is owned counts
                if (i < mine.begin || i >= mine.end) halves[r][static_cast<std::size_t>(i)] = {};
            const auto gathered =
                execute(link, Flow<E, gx::collective::RingAllGather>{ring.all_gather(), halves[r]});
            RC_ASSERT(sum.bytes_sent == scattered.bytes_sent + gathered.bytes_sent);
            RC_ASSERT(sum.steps == scattered.steps + gathered.steps);
        });
        for (std::size_t r = 0; r < rows.size(); ++r) {
            RC_ASSERT(halves[r] == whole[0]);
            RC_ASSERT(whole[r] == whole[0]);
        }
    });
}
TEST(Ring, IsItsHalvesInSequenceBitForBit) {
    EXPECT_TRUE(rc::check("floats", [] { expect_halves_make_the_whole<gx::fp32>(); }));
    EXPECT_TRUE(rc::check("halves", [] { expect_halves_make_the_whole<gx::fp16>(); }));
    EXPECT_TRUE(rc::check("brains", [] { expect_halves_make_the_whole<gx::bf16>(); }));
}

TEST(Ring, MutantsAreRefused) {
    for (const int n : {2, 3, 5, 8}) EXPECT_GT(expect_mutants_refused(Ring(n)), 0);
}

TEST(Ring, IsProvedForMachineOrders) {
    for (const gx::Placement p : {gx::Placement{3, 2}, {5, 1}, {8, 2}, {1, 8}, {4, 8}})
        for (int k = 0; k < 6; ++k) {
            const auto proof = prove_all_reduce(gx::collective::machine_ring(p, k));
            EXPECT_TRUE(proof.holds()) << proof.sentence();
        }
}

TEST(Ring, IsProvedAtTheSizeOfAStart) {
    EXPECT_TRUE(gx::collective::is_all_reduce<Ring>(gx::collective::ranks_proved_at_start));
}

}  // namespace
