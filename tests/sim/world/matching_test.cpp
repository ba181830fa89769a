#include <gx/sim/world/matching.hpp>

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <span>

#include <gx/sim/world/cluster.hpp>
#include <gx/sim/catalog/simple_clusters.hpp>

namespace {

using gx::Nanoseconds;
using namespace std::chrono_literals;

// ---- A fault ------------------------------------------------------------------------
// Rank 0 posts a message and ends without waiting for it. When the message arrives its slot is
// free, and rank 2's next request takes it; rank 1's receive must not read that request's state.
TEST(Matching, AWaitForAnEndedRankEndsAtOnceThoughTheSlotIsReused) {
    for (const bool reused : {false, true}) {
        gx::sim::Cluster<> world(gx::sim::ethernet_10g(3));
        Nanoseconds begin{}, end{};
        gx::Delivery delivery{};
        world.run([&](auto& rank) {
            std::array<std::byte, 8> bytes{};
            auto& link = rank.transport();
            if (rank.rank() == 0) (void)link.send(1, 0, bytes);
            if (rank.rank() == 1) {
                const auto request = link.receive(0, 0, bytes);
                rank.charge(1s, "past the arrival");
                begin = rank.now();
                delivery = link.wait(request);
                end = rank.now();
            }
            if (rank.rank() == 2) {
                rank.charge(500ms, "past the arrival");
                if (reused) (void)link.receive(1, 7, bytes);
                rank.charge(2s, "until rank 1 waits");
            }
        });
        EXPECT_EQ(delivery.outcome, gx::Delivery::Outcome::timed_out);
        EXPECT_EQ(delivery.peer, 0);
        EXPECT_EQ(end, begin) << "slot reused: " << reused;
    }
}

}  // namespace
