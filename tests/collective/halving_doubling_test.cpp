#include <gx/collective/halving_doubling.hpp>

#include <algorithm>  // max

#include <gtest/gtest.h>

#include <gx/collective/proof.hpp>

static_assert(gx::explain_promise<gx::collective::HalvingDoubling>());

using gx::Combine;
using gx::Exchange;
using gx::collective::HalvingDoubling;

// ---- What the type promises ---------------------------------------------------------
template <int ranks>
inline constexpr bool proved = gx::collective::is_all_reduce<HalvingDoubling>(ranks);
static_assert(proved<1> && proved<2> && proved<3> && proved<4> && proved<5> && proved<6>);
static_assert(proved<7> && proved<8>);
static_assert(proved<11>);
static_assert(HalvingDoubling(1).steps() == 0 && HalvingDoubling(8).steps() == 6 &&
              HalvingDoubling(9).steps() == 8);
static_assert(HalvingDoubling(9).chunks() == 8);

namespace {

// ---- A case worked by hand ----------------------------------------------------------
TEST(HalvingDoubling, FourRanksByHand) {
    constexpr HalvingDoubling halves(4);
    // rank 1 keeps the upper half, then (bit 1 of it is 0) chunk 2; and back
    EXPECT_EQ(halves.exchange(1, 0), (Exchange{0, 0, 0, 2, Combine::add, 2}));
    EXPECT_EQ(halves.exchange(1, 1), (Exchange{3, 3, 3, 2, Combine::add, 1}));
    EXPECT_EQ(halves.exchange(1, 2), (Exchange{3, 2, 3, 3, Combine::copy, 1}));
    EXPECT_EQ(halves.exchange(1, 3), (Exchange{0, 2, 0, 0, Combine::copy, 2}));
}
TEST(HalvingDoubling, FoldsTheRanksThatAreTooMany) {
    constexpr HalvingDoubling five(5);  // 4 + 1: rank 0 goes to rank 1
    EXPECT_EQ(five.exchange(0, 0), (Exchange{.to = 1, .send_chunk = 0, .chunks = 4}));
    EXPECT_EQ(five.exchange(1, 0),
              (Exchange{.from = 0, .receive_chunk = 0, .combine = Combine::add, .chunks = 4}));
    for (int step = 1; step < 5; ++step) EXPECT_EQ(five.exchange(0, step), Exchange{});
    EXPECT_EQ(five.exchange(0, 5), (Exchange{.from = 1, .receive_chunk = 0, .chunks = 4}));
    EXPECT_EQ(five.exchange(4, 0), Exchange{});
}

// ---- Properties, for any number of ranks ----------------------------------------------
TEST(HalvingDoubling, IsProvedForManyRanks) {
    for (int n = 1; n <= 70; ++n) {
        const auto proof = prove_all_reduce(HalvingDoubling(n));
        EXPECT_TRUE(proof.holds()) << n << " ranks: " << proof.sentence();
    }
}
TEST(HalvingDoubling, SendsAsMuchAsARing) {
    for (const int n : {2, 4, 16, 64}) {
        int chunks = 0;
        for (int step = 0; step < HalvingDoubling(n).steps(); ++step)
            chunks += HalvingDoubling(n).exchange(n / 3, step).chunks;
        EXPECT_EQ(chunks, 2 * (n - 1));
    }
}
TEST(HalvingDoubling, NoMessageIsLargerThanItSays) {
    for (int n = 1; n <= 70; ++n) {
        const HalvingDoubling c(n);
        int largest = 1;
        for (int rank = 0; rank < n; ++rank)
            for (int step = 0; step < c.steps(); ++step)
                largest = std::max(largest, c.exchange(rank, step).chunks);
        EXPECT_EQ(c.message_chunks(), largest) << n;
    }
}

// ---- A broken contract ------------------------------------------------------------------
TEST(HalvingDoublingDeathTest, NeedsARank) {
    EXPECT_DEATH((void)HalvingDoubling(0), "at least one rank");
}

}  // namespace
