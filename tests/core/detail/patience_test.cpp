#include <gx/core/detail/patience.hpp>

#include <array>
#include <cstddef>  // byte
#include <thread>   // sleep_for

#include <gtest/gtest.h>

#include <gx/threads/threads.hpp>     // Threads
#include <support/stood_still.hpp>    // after_standstill
#include <testing/processes_run.hpp>  // WithProcesses

namespace {

using namespace std::chrono_literals;
using gx::detail::Patience;

TEST(Patience, EndsAtItsLimit) {
    const Patience::Clock::time_point begin(1h);
    Patience p(250ms, begin);
    EXPECT_EQ(p.next_look(), begin + 100ms);
    EXPECT_FALSE(p.ended(begin + 100ms));
    EXPECT_FALSE(p.ended(begin + 200ms));
    EXPECT_EQ(p.next_look(), begin + 250ms) << "not later than its end";
    EXPECT_FALSE(p.ended(begin + 249ms));
    EXPECT_TRUE(p.ended(begin + 250ms));
    EXPECT_TRUE(p.ended(begin + 251ms)) << "and stays so";
    EXPECT_EQ(Patience(250ms, begin).left(begin + 50ms), 200ms);
    EXPECT_EQ(Patience(250ms, begin).left(begin + 300ms), 0ms);
    Patience skipping(3s, begin);
    skipping.skip(begin + 2s);
    EXPECT_FALSE(skipping.ended(begin + 2900ms));
    EXPECT_TRUE(skipping.ended(begin + 3s)) << "the 2 s count";
}
TEST(Patience, DoesNotCountAStandstill) {
    const Patience::Clock::time_point begin(1h);
    Patience p(2s, begin);
    EXPECT_FALSE(p.ended(begin + 1s)) << "a busy machine: it counts";
    EXPECT_FALSE(p.ended(begin + 1h)) << "counts as one look";
    EXPECT_FALSE(p.ended(begin + 1h + 899ms));
    EXPECT_TRUE(p.ended(begin + 1h + 900ms)) << "1 s + 0.1 s + 0.9 s";
    Patience twice(1s, begin);
    EXPECT_FALSE(twice.ended(begin + 10s));
    EXPECT_FALSE(twice.ended(begin + 20s));
    EXPECT_TRUE(twice.ended(begin + 20s + 800ms));
}
TEST(Patience, MayHaveNoEnd) {
    const Patience::Clock::time_point begin(1h), last = Patience::Clock::time_point::max();
    for (const auto limit :
         {std::chrono::nanoseconds::max(), std::chrono::nanoseconds(last - begin)}) {
        Patience p(limit, begin);
        EXPECT_TRUE(p.endless());
        EXPECT_FALSE(p.ended(last - 1ns));
    }
    Patience longest(last - begin - 1ns, begin);
    EXPECT_FALSE(longest.endless());
    EXPECT_FALSE(longest.ended(last - 1h)) << "a standstill that its end can't be moved by";
    EXPECT_TRUE(longest.endless());
    EXPECT_FALSE(Patience(1s, begin).endless());
    EXPECT_TRUE(Patience(0ns, begin).ended(begin));
}
/// Rank 0 waits for a message that rank 1 sends once the process goes on.
using PatienceOfProcesses = testing_support::WithProcesses;
TEST_F(PatienceOfProcesses, NoRankIsLateBecauseAllStoodStill) {
    const int status = testing_support::after_standstill(2500ms, [](const auto& standstill) {
        std::array<std::byte, 1> message{};
        bool complete = false;
        try {
            gx::Threads<2>({.deadline = 2s}).run([&](auto& rank) {
                auto& links = rank.transport();
                if (rank.rank() == 1) {
                    std::this_thread::sleep_for(100ms);  // until rank 0 waits
                    standstill.ready();
                    standstill.wait_until_over();
                    std::this_thread::sleep_for(300ms);  // it has still to compute
                    (void)links.wait(links.send(0, 0, message));
                } else {
                    complete = links.wait(links.receive(1, 0, message)).complete();
                }
            });
        } catch (...) {
        }
        return complete ? 0 : 1;
    });
    EXPECT_EQ(status, 0);
}

}  // namespace
