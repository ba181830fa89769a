#include <gx/testing/arrival_order.hpp>

#include <set>

#include <gtest/gtest.h>

#include <gx/testing/worlds.hpp>

namespace {

using gx::testing::OnThreads;

/// The ranks that rank 0 hears of, in that order; each of the others sends it two messages.
std::vector<int> arrivals(std::uint64_t seed) {
    std::vector<int> order;
    OnThreads{}.reordered(seed)(gx::Placement{1, 3}, [&](auto& rank) {
        auto& link = rank.transport();
        std::byte values[4]{};
        const auto byte = [&](std::size_t i) { return std::span(values).subspan(i, 1); };
        if (rank.rank() > 0) {
            (void)link.wait(link.send(0, 0, byte(0)));
            (void)link.wait(link.send(0, 0, byte(1)));
            return;
        }
        std::vector<gx::Request> open{link.receive(1, 0, byte(0)), link.receive(2, 0, byte(1)),
                                      link.receive(1, 0, byte(2)), link.receive(2, 0, byte(3))};
        std::vector<int> from{1, 2, 1, 2};
        while (!open.empty()) {
            const auto i = std::ptrdiff_t(link.wait_any(open).index);
            order.push_back(from[std::size_t(i)]);
            open.erase(open.begin() + i);
            from.erase(from.begin() + i);
        }
    });
    return order;
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
