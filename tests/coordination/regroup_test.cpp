// Sessions that go on in another run, behind one that has lost ranks.
#include <gx/coordination/session.hpp>

#include <algorithm>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <coordination/sessions.hpp>  // Sessions

namespace {

using namespace testing_support;

/// Calls f(rank) for these ranks, each on a thread of its own.
void each(const std::vector<std::size_t>& ranks, auto f) {
    std::vector<std::jthread> threads;
    for (const std::size_t r : ranks) threads.emplace_back([&f, r] { f(r); });
}
Sessions that_regroup(int ranks) {
    Sessions s(ranks, [](Session::Options& o) {
        o.regroups = true;
        o.operation = {"its first operation"};
    });
    for (auto& session : s.all) session->join();
    return s;
}
void expect_ended(Session& session, Duration limit = 60s) {
    (void)session.await_cause();
    session.leave();
    EXPECT_TRUE(session.end(limit));
}
TEST(Regroup, GoesOnWithTheRanksThatAreLeft) {
    Sessions s = that_regroup(4);
    s[2].note({std::byte{1}});  // that nobody hears
    s.all[1].reset();
    each({0, 2, 3}, [&](std::size_t r) {
        expect_ended(s[r]);
        const Regrouped left = s[r].regroup(r == 0 ? 5 : 6, 60s);
        EXPECT_EQ(left, (Regrouped{5, {0, 2, 3}}));
        EXPECT_EQ(s[r].rank(), r == 0 ? 0 : int(r) - 1);
        EXPECT_EQ(s[r].ranks(), 3);
        EXPECT_EQ(s[r].join().ranks(), 3);
        EXPECT_EQ(s[r].gather(std::to_string(r)), (std::vector<std::string>{"0", "2", "3"}));
        s[r].compare({.composition = "T", .ranks = 3});
    });
    s.all[2].reset();  // and once more
    each({0, 3}, [&](std::size_t r) {
        expect_ended(s[r]);
        EXPECT_EQ(s[r].cause().rank, 1);
        EXPECT_TRUE(has(s[r].cause().text, "noticed by rank 0 in operation its first operation"))
            << s[r].cause().text;
        EXPECT_EQ(s[r].regroup(0, 60s).members, (std::vector{0, 2}));
        EXPECT_EQ(s[r].join().ranks(), 2);
        s[r].leave();
        EXPECT_TRUE(s[r].end(60s));
        EXPECT_EQ(s[r].regroup(0, 60s).members, std::vector<int>()) << "no rank was lost";
    });
}
TEST(Regroup, LeavesOutWhoIsLate) {
    Sessions s = that_regroup(4);
    s[1].blame(3);
    for (auto& session : s.all) (void)session->await_cause();
    each({0, 1}, [&](std::size_t r) {
        s[r].leave();
        if (r == 0) {
            EXPECT_FALSE(s[0].end(0s)) << "ranks 2 and 3 have not left";
            s[0].end_now();
        }
        EXPECT_TRUE(s[r].end(60s));
        EXPECT_EQ(s[r].regroup(0, r == 0 ? Duration(2s) : Duration(60s)).members,
                  (std::vector{0, 1}));
    });
    each({2, 3}, [&](std::size_t r) {
        s[r].leave();
        EXPECT_TRUE(s[r].end(60s));
        EXPECT_TRUE(s[r].regroup(0, 60s).members.empty());
    });
}
TEST(Regroup, AMemberThatHasGivenUpIsLeftOut) {
    Sessions s = that_regroup(4);
    s.all[3].reset();
    each({0, 1, 2}, [&](std::size_t r) { expect_ended(s[r]); });
    EXPECT_TRUE(s[1].regroup(0, 1ms).members.empty()) << "the root has not come";
    while (s[0].connected() != std::vector{2}) std::this_thread::yield();
    each({0, 2}, [&](std::size_t r) {
        EXPECT_EQ(s[r].regroup(0, Duration::max()).members, (std::vector{0, 2}));
    });
    EXPECT_EQ(s[1].rank(), 1);
    EXPECT_EQ(s[1].cause().rank, 3) << "nor does another run begin";
}
TEST(Regroup, DoesNotGoOnWithoutItsRoot) {
    for (const bool says_so : {false, true}) {
        Sessions s = that_regroup(3);
        s.all[2].reset();
        std::promise<void> tried;
        each({0, 1}, [&](std::size_t r) {
            expect_ended(s[r]);
            if (r == 1) {
                EXPECT_TRUE(s[1].regroup(0, says_so ? Duration(60s) : 100ms).members.empty());
                tried.set_value();
            } else if (says_so) {
                s[0].part(60s);
            } else {
                tried.get_future().wait();
            }
        });
    }
}
TEST(Regroup, WithoutTheOptionConnectionsEndWithTheRun) {
    Sessions s(3);
    for (auto& session : s.all) session->join();
    s.all[2].reset();
    each({0, 1}, [&](std::size_t r) {
        expect_ended(s[r]);
        EXPECT_TRUE(s[r].regroup(0, 60s).members.empty());
    });
}

TEST(Regroup, PartingEndsTheConnectionAtOnce) {
    Sessions s(2, [](Session::Options& o) { o.regroups = true; });
    for (auto& session : s.all) session->join();
    s[1].fail("its device is lost", device_lost);
    for (auto& session : s.all) (void)session->await_cause(), session->leave();
    for (auto& session : s.all) EXPECT_TRUE(session->end(60s));
    s[1].part(1s);  // its session lives on
    EXPECT_EQ(s[0].regroup(1, Duration::max()).members, std::vector{0});
}

}  // namespace
