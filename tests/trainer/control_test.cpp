#include <gx/trainer/control.hpp>

#include <gtest/gtest.h>

#include <gx/threads/threads.hpp>  // ThreadWorld

#include <array>    // values
#include <vector>   // of every rank
#include <cstdint>  // uint64_t

namespace {

template <class F>
void on(int ranks, F f) {
    gx::ThreadWorld<> world({.placement = {1, ranks}});
    world.run([&](auto& rank) { f(rank); });
}

// ---- Sums ---------------------------------------------------------------------------

TEST(SumOverRanks, AddsFromRankZeroUpOnEveryRank) {
    // 1 + 2^-53 rounds to 1, 2^-53 + 2^-53 does not vanish: only one order gives 1.
    const std::array<double, 3> first{1.0, 0x1p-53, 0x1p-53};
    std::vector<std::array<double, 2>> got(3);
    on(3, [&](auto& rank) {
        const auto r = std::size_t(rank.rank());
        got[r] = {first[r], double(rank.rank() + 1)};
        EXPECT_TRUE(gx::sum_over_ranks(rank.transport(), got[r]).complete());
    });
    EXPECT_EQ(first[0] + (first[1] + first[2]), 1 + 0x1p-52) << "another order, other bits";
    for (const auto& values : got) EXPECT_EQ(values, (std::array<double, 2>{1.0, 6.0}));
}
TEST(SumOverRanks, OfOneRankAndOfNothing) {
    on(1, [](auto& rank) {
        std::array<double, 1> value{2.5};
        EXPECT_TRUE(gx::sum_over_ranks(rank.transport(), value).complete());
        EXPECT_EQ(value[0], 2.5);
    });
    on(3, [](auto& rank) {
        EXPECT_TRUE(gx::sum_over_ranks(rank.transport(), std::span<double>{}).complete());
    });
}
TEST(SumOverRanks, SaysWhoIsMissing) {
    gx::ThreadWorld<> world({.placement = {1, 3}});  // who has returned is missed at once
    std::vector<gx::Delivery> got(3);
    world.run([&](auto& rank) {
        if (rank.rank() == 2) return;
        std::array<double, 1> value{1};
        got[std::size_t(rank.rank())] = gx::sum_over_ranks(rank.transport(), value);
    });
    for (const int rank : {0, 1}) {
        EXPECT_FALSE(got[std::size_t(rank)].complete());
        EXPECT_EQ(got[std::size_t(rank)].peer, 2);
    }
}

// ---- Agreement ----------------------------------------------------------------------

TEST(Agree, FindsTheFirstRankThatDiffers) {
    const std::vector<std::vector<std::uint64_t>> values{
        {7, 7, 7, 7}, {7, 7, 8, 7}, {7, 8, 8, 8}, {7, 7, 7, 8}, {8, 7, 7, 7}};
    const std::vector<int> expected{-1, 2, 1, 3, 1};
    for (std::size_t c = 0; c < values.size(); ++c)
        on(4, [&](auto& rank) {
            const gx::Agreement a =
                gx::agree(rank.transport(), values[c][std::size_t(rank.rank())]);
            EXPECT_TRUE(a.delivery.complete());
            EXPECT_EQ(a.differs, expected[c]) << "case " << c << ", rank " << rank.rank();
        });
}

}  // namespace
