#include <gx/testing/arrival_order.hpp>

#include <set>

#include <gtest/gtest.h>

#include <gx/testing/worlds.hpp>
#include <support/order_of_arrival.hpp>

namespace {

using gx::testing::OnThreads;

std::vector<int> arrivals(std::uint64_t seed) {
    return testing_support::order_of_arrival(OnThreads{}.reordered(seed), {1, 3}, 2);
}

TEST(ArrivalOrder, DependsOnTheSeedAlone) {
    std::set<std::vector<int>> seen;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        const auto order = arrivals(seed);
        for (int again = 0; again < 3; ++again) EXPECT_EQ(arrivals(seed), order) << seed;
        seen.insert(order);
    }
    EXPECT_EQ(seen.size(), 6u) << "all orders of two messages each from two ranks";
}
TEST(ArrivalOrder, ALostRankIsReportedByTheTransportBelow) {
    gx::Delivery got{};
    OnThreads{}.reordered(1)(gx::Placement{1, 2}, [&](auto& rank) {
        std::byte value{};
        if (rank.rank() == 0)
            got = rank.transport().wait(rank.transport().receive(1, 0, std::span(&value, 1)));
    });
    EXPECT_EQ(got.outcome, gx::Delivery::Outcome::timed_out);
    EXPECT_EQ(got.peer, 1);
}
TEST(ArrivalOrder, AnExceptionOnOneRankEndsTheOthers) {
    EXPECT_THROW(OnThreads{}.reordered(1)(gx::Placement{1, 3},
                                          [&](auto& rank) {
                                              std::byte value{};
                                              if (rank.rank() == 2)
                                                  throw gx::Error("out of memory");
                                              (void)rank.transport().wait(rank.transport().receive(
                                                  2, 0, std::span(&value, 1)));
                                          }),
                 gx::Error);
}

}  // namespace
