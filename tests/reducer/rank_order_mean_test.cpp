#include <gx/reducer/rank_order_mean.hpp>

#include <array>    // bytes of ranks
#include <cstdint>  // int64_t
#include <numeric>  // accumulate

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/testing/worlds.hpp>
#include <support/generators.hpp>

namespace {

using gx::testing::Rows;

// ---- Who serves what -----------------------------------------------------------------
TEST(RankOrderMean, ServersAreSpreadOverTheRanks) {
    gx::RankOrderMean<gx::fp32> mean;
    mean.reserve(gx::ReducePlan::whole({2, 4}, 10), 3);
    EXPECT_EQ(mean.server(0), 0);
    EXPECT_EQ(mean.server(1), 2);
    EXPECT_EQ(mean.server(2), 5);
    EXPECT_EQ(mean.served(2, 10).begin, 4) << "parts of 4, 3 and 3";
    EXPECT_EQ(mean.served(1, 10).size(), 0);
    mean.reserve(gx::ReducePlan::whole({1, 2}, 10), 5);
    EXPECT_EQ(mean.servers(), 2) << "no more than ranks";
}
RC_GTEST_PROP(RankOrderMean, ThePartsOfAllRanksAreTheBucketInOrder, ()) {
    const gx::Placement placement = *a_placement();
    const auto count = *rc::gen::inRange<std::int64_t>(0, 50);
    gx::RankOrderMean<gx::fp16> mean;
    mean.reserve(gx::ReducePlan::whole(placement, count), *rc::gen::inRange(0, 12));
    std::int64_t end = 0;
    int servers = 0;
    for (int rank = 0; rank < placement.ranks(); ++rank) {
        const gx::ChunkRange mine = mean.served(rank, count);
        if (mine.size() > 0) RC_ASSERT(mine.begin == end);
        end += mine.size();
        for (int i = 0; i < mean.servers(); ++i) servers += mean.server(i) == rank;
    }
    RC_ASSERT(end == count);
    RC_ASSERT(servers == mean.servers());
}

// ---- The order of the sum ------------------------------------------------------------
TEST(RankOrderMean, AddsFromRankZeroUpWhateverArrivesFirst) {
    // From rank 0 up: 1 + 2^-24 rounds to 1, less 1 is 0, and the last 2^-24 is kept.
    const float small = 0x1p-24f;
    const Rows rows{{1}, {small}, {-1}, {small}};
    const float from_zero = ((1.0f + small) - 1.0f + small) / 4;
    const float from_the_end = ((small - 1.0f) + small + 1.0f) / 4;
    ASSERT_NE(from_zero, from_the_end) << "the rows tell one order from another";
    for (const int servers : {0, 1, 2})
        for (std::uint64_t seed = 0; seed < 50; ++seed) {
            Rows out = rows;
            gx::testing::OnThreads{}.reordered(seed)({1, 4}, [&](auto& rank) {
                gx::RankOrderMean<gx::fp32> mean;
                mean.reserve(gx::ReducePlan::whole({1, 4}, 1), servers);
                EXPECT_TRUE(
                    mean.all_reduce(rank.transport(), out[std::size_t(rank.rank())]).complete());
            });
            for (const auto& row : out) ASSERT_EQ(row[0], from_zero);
        }
}

// Every server sums its part so, and a part goes to each other rank once, and back.
TEST(RankOrderMean, AddsEveryPartInThatOrder) {
    const float small = 0x1p-24f;
    const Rows rows{Rows::value_type(5, 1.0f), Rows::value_type(5, small),
                    Rows::value_type(5, -1.0f), Rows::value_type(5, small)};
    const Rows::value_type expected(5, ((1.0f + small) - 1.0f + small) / 4);
    for (const int servers : {0, 1, 2, 3})
        for (std::uint64_t seed = 0; seed < 50; ++seed) {
            Rows out = rows;
            std::array<std::int64_t, 4> bytes{};
            gx::testing::OnThreads{}.reordered(seed)({1, 4}, [&](auto& rank) {
                const auto r = std::size_t(rank.rank());
                gx::RankOrderMean<gx::fp32> mean;
                mean.reserve(gx::ReducePlan::whole({1, 4}, 5), servers);
                const gx::ReduceReport done = mean.all_reduce(rank.transport(), out[r]);
                EXPECT_TRUE(done.complete());
                bytes[r] = done.bytes_sent;
            });
            for (const auto& row : out) ASSERT_EQ(row, expected);
            ASSERT_EQ(std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0}), 2 * 3 * 5 * 4);
        }
}

// ---- A broken contract ---------------------------------------------------------------
TEST(RankOrderMeanDeathTest, ServersAreCounted) {
    gx::RankOrderMean<gx::fp32> mean;
    EXPECT_DEATH(mean.reserve(gx::ReducePlan::whole({1, 2}, 3), -1), "at least one server");
}

}  // namespace
