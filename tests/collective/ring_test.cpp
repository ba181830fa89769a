#include <gx/collective/ring.hpp>

#include <gtest/gtest.h>

#include <gx/collective/proof.hpp>

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
