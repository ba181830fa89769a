// Pauses between tests: hand-worked cases, a property, and whom a wait is for.
#include <array>
#include <chrono>
#include <cstdint>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/mpi/backoff.hpp>

namespace {

using namespace std::chrono_literals;
using gx::mpi::Peers, gx::mpi::peers_of, gx::mpi::sleep_after;

TEST(MpiBackoff, SleepsLongerTheLongerItHasWaited) {
    EXPECT_EQ(sleep_after(0ns), 0ns) << "what is there soon is not slept through";
    EXPECT_EQ(sleep_after(99us), 0ns);
    EXPECT_EQ(sleep_after(100us), 20us);
    EXPECT_EQ(sleep_after(1280us), 20us);
    EXPECT_EQ(sleep_after(6400us), 100us);
    EXPECT_EQ(sleep_after(9600us), 150us);
    EXPECT_EQ(sleep_after(1h), 150us) << "the kernel's buffers of a socket run empty meanwhile";
}

RC_GTEST_PROP(MpiBackoff, NeverSleepsAFifthOfTheWaitAndNeverLessAfterMore, ()) {
    const std::chrono::nanoseconds shorter(*rc::gen::inRange<std::int64_t>(0, 1'000'000'000));
    const std::chrono::nanoseconds longer =
        shorter + std::chrono::nanoseconds(*rc::gen::inRange<std::int64_t>(0, 1'000'000'000));
    RC_ASSERT(sleep_after(longer) >= sleep_after(shorter));
    RC_ASSERT(5 * sleep_after(shorter) <= shorter);
}

TEST(MpiBackoff, IsForOtherHostsWhereNoPeerIsOnThisOne) {
    constexpr gx::Placement regular{.machines = 2, .ranks_per_machine = 2};
    EXPECT_EQ(peers_of(regular, 1, std::array{0}), Peers::this_host);
    EXPECT_EQ(peers_of(regular, 1, std::array{2}), Peers::other_hosts);
    EXPECT_EQ(peers_of(regular, 1, std::array{2, 3}), Peers::other_hosts);
    EXPECT_EQ(peers_of(regular, 1, std::array{2, 0}), Peers::this_host);

    constexpr std::array nodes{0, 1, 0}, numbers{0, 0, 1};
    const gx::NodeMap map{.node = nodes, .local_rank = numbers};
    const gx::Placement ragged{.machines = 2, .ranks_per_machine = 0, .nodes = &map};
    EXPECT_EQ(peers_of(ragged, 0, std::array{1}), Peers::other_hosts);
    EXPECT_EQ(peers_of(ragged, 0, std::array{2}), Peers::this_host);
}

}  // namespace
