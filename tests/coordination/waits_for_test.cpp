// What a rank says that it waits for, where the root asks.
#include <gx/coordination/session.hpp>

#include <array>
#include <atomic>
#include <functional>  // identity
#include <memory>
#include <ranges>  // iota
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <gx/coordination/node_memory.hpp>  // NodeMemory
#include <gx/core/error.hpp>                // Error

#include <coordination/sessions.hpp>  // Sessions, Member1

namespace {

using namespace testing_support;

TEST(WaitsFor, SaysAllThatTheThreadsOfARankWaitFor) {
    Sessions s(4);
    for (std::size_t r = 0; r < 4; ++r) s[r].join();
    const WaitsFor zero(s[0], 1);
    const WaitsFor first(s[1], std::array{2, 0}, std::identity{});
    const auto ended = std::make_unique<WaitsFor>(s[1], 3);
    std::make_unique<WaitsFor>(s[1], 3).reset();
    auto inner = std::make_unique<WaitsFor>(s[1], 3);
    WaitsFor last(s[1], 0);
    inner.reset();
    ended->now(-1);
    last.now(0);
    auto older = std::make_unique<WaitsFor>(s[1], 3), newer = std::make_unique<WaitsFor>(s[1], 3);
    newer.reset();
    older.reset();
    s[0].blame(1);
    const Cause cause = cause_of(s[2]);
    EXPECT_EQ(cause.rank, 2) << cause.text;
    EXPECT_EQ(cause.observer, 1);
}
/// An older wait, as of a gather on another thread, is for rank 2 as well, which computes.
TEST(WaitsFor, TheSearchFollowsTheWaitThatMetItsDeadline) {
    Sessions s(4);
    for (auto& session : s.all) session->join();
    const WaitsFor older(s[0], std::array{1, 2}, std::identity{});
    std::this_thread::sleep_for(300ms);
    const WaitsFor of_one(s[1], 3), met(s[0], 1);
    s[0].blame(1, &met);
    const Cause cause = cause_of(s[2]);
    EXPECT_EQ(cause.rank, 3) << cause.text;
    EXPECT_EQ(cause.observer, 1);
}
/// Rank 2 computes, and none waits for it.
TEST(WaitsFor, SaysEachOfManyThatAWaitIsFor) {
    constexpr int ranks = WaitsFor::peers_most + 4, stuck = ranks - 1;
    Sessions s(ranks);
    for (std::size_t r = 0; r < ranks; ++r) s[r].join();
    WaitsFor one(s[1], 2);
    one.now(std::views::iota(3, ranks), std::identity{});
    std::vector<std::unique_ptr<WaitsFor>> others;
    for (int r = 3; r < stuck; ++r)
        others.push_back(std::make_unique<WaitsFor>(s[std::size_t(r)], 0));
    const WaitsFor zero(s[0], 1);
    s[0].blame(1);
    EXPECT_EQ(cause_of(s[0]).rank, stuck);
}
TEST(WaitsFor, SaysHowLongEachWaitHasLasted) {
    Member1 m(4);
    WaitsFor older(*m.session, 2);
    const WaitsFor none(*m.session, -1);
    std::this_thread::sleep_for(20ms);
    const WaitsFor newer(*m.session, std::array{3, 0, 3}, std::identity{});
    older.now(0);
    const auto waits = m.waits();
    ASSERT_EQ(waits.size(), 2u);
    EXPECT_EQ(waits[0].peers, (std::vector{3, 0}));
    EXPECT_EQ(waits[1].peers, std::vector{0}) << "it goes on";
    EXPECT_GE(waits[1].lasted, waits[0].lasted + 20ms);
    m.session->blame(0);
    EXPECT_GE(m.next<Blamed>().lasted, waits[1].lasted) << "by the oldest for that rank";
    m.session->blame(2);
    EXPECT_EQ(m.next<Blamed>().lasted, 0ns) << "no wait is for it";
}
/// The clock is read once the list of waits is locked: none has begun later.
TEST(WaitsFor, HasLastedNoNegativeTimeWhereItBeginsMeanwhile) {
    Member1 m(4);
    std::atomic<bool> over = false;
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i)
        threads.emplace_back([&] {
            while (!over) const WaitsFor wait(*m.session, 2);
        });
    for (int i = 0; i < 500 && m.reader.problem().empty(); ++i) (void)m.waits();
    over = true;
    EXPECT_EQ(m.reader.problem(), "");
}
TEST(WaitsFor, SaysThatAGatherIsForAllThatAreMissing) {
    Member1 m(4);
    std::jthread rank([&] { EXPECT_THROW((void)m.session->gather("1"), gx::Error); });
    std::vector<Wait> waits;
    while (waits.empty()) waits = m.waits();
    EXPECT_EQ(waits[0].peers, (std::vector{0, 2, 3}));
    const auto note = encode(Note{2, {}});
    EXPECT_EQ(::send(m.root.get(), note.data(), note.size(), 0), std::ssize(note));
    while (waits.empty() || waits[0].peers.size() == 3) waits = m.waits();
    EXPECT_EQ(waits[0].peers, (std::vector{0, 3}));
    m.root = {};  // the loss of rank 0
}
TEST(WaitsFor, SaysThatAComparisonIsForTheRoot) {
    Member1 m(4);
    std::jthread rank([&] { EXPECT_THROW(m.session->compare({}), gx::Error); });
    std::vector<Wait> waits;
    while (waits.empty()) waits = m.waits();
    EXPECT_EQ(waits[0].peers, std::vector{0});
    m.root = {};
}
/// Whether rank 2 is named, for which the observer waits. Ranks get some time to begin their waits,
/// more of it in each attempt.
template <class Scenario>
bool names_rank_2(int observer, Scenario scenario) {
    for (auto time = 100ms; time < 10s; time *= 4) {
        const Cause cause = scenario(time);
        if (cause.rank == 2 && cause.observer == observer) return true;
    }
    return false;
}
/// Ranks 0 and 1 compare their runs. Rank 2 does not.
TEST(WaitsFor, SaysThatTheRootComparesWithAll) {
    EXPECT_TRUE(names_rank_2(0, [](auto time) {
        Sessions s(3);
        for (std::size_t r = 0; r < 3; ++r) s[r].join();
        const std::jthread zero([&] { EXPECT_THROW(s[0].compare({}), gx::Error); });
        std::this_thread::sleep_for(time);
        s[1].blame(0);
        return cause_of(s[1]);
    }));
}
/// Memory of all ranks, which are sessions of one process.
struct Memories {
    explicit Memories(Sessions& s) : all(s.all.size()) {
        std::vector<std::jthread> ranks;
        for (std::size_t r = 0; r < all.size(); ++r)
            ranks.emplace_back([&, r] { s[r].join(), all[r] = NodeMemory::join(s[r], 60s); });
    }
    std::vector<std::unique_ptr<NodeMemory>> all;
};
/// Rank 0 waits for rank 1, which waits for all in shared memory. Rank 2 does not come.
TEST(WaitsFor, InNodeMemorySaysThatAMeetingIsForAllThatHaveNotCome) {
    EXPECT_TRUE(names_rank_2(1, [](auto time) {
        Sessions s(3);
        const Memories m(s);
        const WaitsFor zero(s[0], 1);
        const std::jthread one([&] {
            std::byte own[8]{};
            EXPECT_FALSE(m.all[1]->share(s[1], 60s, 0, own, [](auto) {}, {}).complete());
        });
        std::this_thread::sleep_for(time);
        s[0].blame(1);
        return cause_of(s[0]);
    }));
}
/// All come, and rank 2 works without end: on its own part, or as the last on all.
TEST(WaitsFor, InNodeMemorySaysThatAMeetingIsForThoseThatWork) {
    for (const bool by_last : {false, true})
        EXPECT_TRUE(names_rank_2(1, [&](auto time) {
            Sessions s(3);
            const Memories m(s);
            std::vector<std::jthread> ranks;
            for (const std::size_t r : {0u, 1u, 2u}) {
                ranks.emplace_back([&, r] {
                    std::byte own[8]{};
                    const auto work = [&](auto) {
                        while (r == 2 && !s[2].cause().stopped()) std::this_thread::sleep_for(1ms);
                    };
                    (void)m.all[r]->share(s[r], 60s, 0, own, work, {}, by_last);
                });
                std::this_thread::sleep_for(time);
            }
            s[0].blame(1);
            return cause_of(s[0]);
        })) << by_last;
}
TEST(WaitsFor, AWaitForRanksBeyondThoseThatItHoldsIsOneForAny) {
    constexpr int first = WaitsFor::ranks_most, ranks = first + WaitsFor::peers_most + 1;
    Member1 m(ranks);
    std::vector<int> peers;
    for (int r = ranks - 1; r >= 0; r -= r > first ? 1 : first / 2) peers.push_back(r);
    const WaitsFor wait(*m.session, peers, std::identity{});
    const auto waits = m.waits();
    ASSERT_EQ(waits.size(), 1u);
    std::vector<int> expected(peers.begin(), peers.begin() + WaitsFor::peers_most);
    for (const int peer : {0, first / 2, any_rank}) expected.push_back(peer);
    EXPECT_EQ(waits[0].peers, expected);
}
TEST(WaitsFor, OfTooManyWaitsTheOldestAreSaid) {
    Member1 m(2);
    const WaitsFor oldest(*m.session, any_rank);
    std::vector<std::unique_ptr<WaitsFor>> others;
    for (std::size_t i = 0; i < waits_max; ++i)
        others.push_back(std::make_unique<WaitsFor>(*m.session, 0));
    const auto waits = m.waits();
    ASSERT_EQ(waits.size(), waits_max);
    EXPECT_EQ(waits.back().peers, std::vector{any_rank});
}

}  // namespace
