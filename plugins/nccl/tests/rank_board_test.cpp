// Boards of ranks that are processes: rows that they tell, and who is named by them.
#include <gx/nccl/rank_board.hpp>

#include <deque>
#include <string>
#include <vector>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include <gtest/gtest.h>

namespace {

using gx::nccl::BoardLink;
using gx::nccl::RankBoard;

/// The boards of a test, whose rows arrive at once.
struct Boards {
    class Link final : public BoardLink {
    public:
        Link(Boards& all, int rank) : all_(all), rank_(rank) {}
        int agree(int lost) override { return all_.named = all_.named < 0 ? lost : all_.named; }
        int lost() override { return all_.named; }
        bool threw() override { return all_.threw; }
        void tell(const std::string& row) override {
            all_.told = row;
            for (int r = 0; r < static_cast<int>(all_.boards.size()); ++r)
                if (r != rank_ && r != all_.silent && rank_ != all_.silent)
                    all_.boards[static_cast<std::size_t>(r)].heard(rank_, row);
        }
        void working_on(const gx::Operation& o) override { all_.operation = o; }

    private:
        Boards& all_;
        int rank_;
    };

    explicit Boards(int ranks) {
        for (int r = 0; r < ranks; ++r) links.emplace_back(*this, r);
        for (int r = 0; r < ranks; ++r)
            boards.emplace_back(ranks, r, links[static_cast<std::size_t>(r)],
                                std::chrono::nanoseconds(1));
        for (int r = 0; r < ranks; ++r) at(r).joins(0, r);
    }
    RankBoard& at(int r) { return boards[static_cast<std::size_t>(r)]; }

    std::deque<Link> links{};
    std::deque<RankBoard> boards{};
    int named = -1, silent = -1;
    bool threw = false;
    gx::Operation operation{};
    std::string told{};  ///< the last row
};

TEST(RankBoardOfProcesses, NamesTheFirstThatOwes) {
    Boards b(4);
    EXPECT_EQ(b.at(0).suspect(0, 0), -1);
    for (const int r : {0, 1, 2, 3}) {  // a ring, in which rank 2 has done a step less
        for (int step = 0; step < (r == 2 ? 1 : 2); ++step) {
            b.at(r).sends(0, r, (r + 1) % 4);
            b.at(r).receives(0, r, (r + 3) % 4);
        }
    }
    for (const int r : {1, 3}) EXPECT_EQ(b.at(r).suspect(0, r), 2);
    EXPECT_EQ(b.at(0).suspect(0, 0), 2) << "nobody owes it, and rank 3 waits for rank 2";
    EXPECT_EQ(b.at(2).suspect(0, 2), -1) << "the others wait for this one";
}
TEST(RankBoardOfProcesses, NamesTheLastOfThoseThatWaitForEachOther) {
    Boards b(3);
    b.at(2).receives(0, 2, 1);
    b.at(1).receives(0, 1, 0);
    EXPECT_EQ(b.at(2).suspect(0, 2), 0) << "2 waits for 1, which waits for 0";
    Boards c(3);
    c.at(2).receives(0, 2, 0);
    c.at(0).receives(0, 0, 1);
    EXPECT_EQ(c.at(2).suspect(0, 2), 1) << "2 waits for 0, which waits for 1";
    Boards d(3);
    d.at(2).receives(0, 2, 1);
    d.at(1).receives(0, 1, 2);
    EXPECT_EQ(d.at(2).suspect(0, 2), 1) << "they wait for each other";
    EXPECT_EQ(d.at(1).suspect(0, 1), 2);
    Boards e(3);
    e.at(2).receives(0, 2, 0);
    e.at(0).receives(0, 0, 1);
    e.at(1).receives(0, 1, 0);
    EXPECT_EQ(e.at(2).suspect(0, 2), 1) << "2 waits for 0 and 1, which wait for each other";
}
TEST(RankBoardOfProcesses, CountsTheMessagesOfEachPair) {
    Boards b(3);
    b.at(0).receives(0, 0, 1);
    EXPECT_EQ(b.at(0).suspect(0, 0), 1);
    b.at(1).sends(0, 1, 0);
    EXPECT_EQ(b.at(0).suspect(0, 0), -1);
    b.at(0).sends(0, 0, 2);
    EXPECT_EQ(b.at(0).suspect(0, 0), 2);
    b.at(2).receives(0, 2, 0);
    EXPECT_EQ(b.at(0).suspect(0, 0), -1);
    for (const int outside : {-1, 3}) {
        EXPECT_DEATH(b.at(0).sends(0, 0, outside), "between ranks of the group");
        EXPECT_DEATH(b.at(0).receives(0, 0, outside), "between ranks of the group");
        EXPECT_DEATH((void)b.at(0).missing(0, outside), "to ranks of the group");
    }
}
TEST(RankBoardOfProcesses, NamesOneThatDoesNotAnswer) {
    Boards b(3);
    EXPECT_EQ(b.at(0).suspect(0, 0), -1);  // all have told their rows once
    b.at(0).receives(0, 0, 1);
    b.silent = 2;
    EXPECT_EQ(b.at(0).suspect(0, 0), 2);
    b.silent = -1;
    EXPECT_EQ(b.at(0).suspect(0, 0), 1);
    b.at(2).leave(2);
    b.silent = 2;
    EXPECT_EQ(b.at(0).suspect(0, 0), 1) << "one that has left needs not answer";
}
TEST(RankBoardOfProcesses, DoesNotWaitForAnswersWhereARankIsLost) {
    Boards b(3);
    EXPECT_EQ(b.at(1).suspect(0, 1), -1);
    b.silent = 0;
    EXPECT_EQ(b.at(1).suspect(0, 1), 0);
    b.silent = 2;
    b.named = 0;
    EXPECT_EQ(b.at(1).suspect(0, 1), -1) << "nobody owes it a message";
}
TEST(RankBoardOfProcesses, NamesOneThatLeftWithADebtOrWhoseGpuComputes) {
    Boards b(3);
    b.at(1).computes(1, true);
    EXPECT_EQ(b.at(0).suspect(0, 0), 1);
    b.at(0).takes_part(0, 0);
    EXPECT_EQ(b.at(0).missing(0, 0), -1);
    b.at(2).leave(2);
    EXPECT_EQ(b.at(0).missing(0, 0), 2);
    EXPECT_EQ(b.at(1).missing(0, 1), -1) << "it is owed nothing";
}
TEST(RankBoardOfProcesses, KnowsTheRanksOfAGroup) {
    Boards b(4);
    for (const int r : {0, 1, 2}) b.at(r).divides(0, 1, r, r % 2, -r);
    EXPECT_FALSE(b.at(1).divided(0, 1)) << "rank 3 has not said what it asks for";
    b.at(3).divides(0, 1, 3, 1, -3);
    std::vector<int> part;
    for (const int r : {0, 1, 2, 3}) {
        EXPECT_TRUE(b.at(r).divided(0, 1));
        part.push_back(b.at(r).part(0, 1, r % 2));
        b.at(r).joins(part.back(), 1 - r / 2);  // 2, 0 and 3, 1
    }
    b.at(1).receives(part[1], 1, 0);
    EXPECT_EQ(b.at(1).suspect(part[1], 1), 3);
    b.at(3).sends(part[3], 0, 1);
    EXPECT_EQ(b.at(1).suspect(part[1], 1), -1);
    EXPECT_EQ(b.at(0).suspect(part[0], 1), -1);
}
TEST(RankBoardOfProcesses, AsksWhoIsWell) {
    Boards b(3);
    b.at(0).ask();
    b.at(1).answer(1);
    EXPECT_EQ(b.at(0).silent(0), 2);
    b.at(2).answer(2);
    EXPECT_EQ(b.at(0).silent(0), -1);
}
TEST(RankBoardOfProcesses, AllNameOneRank) {
    Boards b(3);
    EXPECT_TRUE(b.at(0).report(2));
    EXPECT_FALSE(b.at(0).report(1)) << "it knows";
    EXPECT_EQ(b.at(1).lost(), 2);
    EXPECT_TRUE(b.at(1).report(0)) << "the rank that all name died";
    EXPECT_EQ(b.at(1).lost(), 2);
    EXPECT_FALSE(b.at(2).report(2)) << "it is this one";
    Boards c(2);
    c.threw = true;
    EXPECT_FALSE(c.at(0).report(1));
    EXPECT_EQ(c.at(0).lost(), 1);
    Boards d(3);
    EXPECT_TRUE(d.at(1).report(0));
    EXPECT_FALSE(d.at(1).report(2)) << "it knows that rank 0 is lost";
    d.named = -1;
    EXPECT_EQ(d.at(1).lost(), 0) << "without its link";
}
TEST(RankBoardOfThreads, TellsOfTheFirstThatIsLost) {
    std::vector<int> told;
    RankBoard b(3, [&](int rank) { told.push_back(rank); });
    EXPECT_EQ(b.lost(), -1);
    EXPECT_TRUE(b.report(0));
    EXPECT_FALSE(b.report(2));
    EXPECT_EQ(b.lost(), 0);
    EXPECT_EQ(told, std::vector<int>{0});
}
TEST(RankBoardOfProcesses, TellsWhatItsRankDoes) {
    Boards b(1);
    b.at(0).working_on({"all-reduce", 3, 1});
    EXPECT_EQ(b.operation, (gx::Operation{"all-reduce", 3, 1}));
}
/// Rank 1 of two has sent rank 0 five messages, which is no part of what rank 0 tells of itself.
TEST(RankBoardOfProcesses, TellsWhatItsRankHasQueued) {
    Boards b(2);
    b.at(0).heard(1, "0 0 0 0 0 1 world 1 0 1 0 5 0 0");
    b.at(0).receives(0, 0, 1);
    b.at(0).leave(0);
    EXPECT_EQ(b.told, "0 1 0 0 0 1 world 1 0 1 1 0 1 0");
}
/// How often rank 0 looks at `Clock` while rank 1 does not answer for `patience`.
template <auto Clock>
int looks_at_the_clock(std::chrono::nanoseconds patience) {
    static int looks;
    looks = 0;
    Boards b(2);
    b.silent = 1;
    RankBoard board(2, 0, b.links[0], patience, [] { return Clock(++looks); });
    EXPECT_EQ(board.suspect(0, 0), 1);
    return looks;
}
/// The clock stands still at the begin of the wait, and at the first look behind it.
TEST(RankBoardOfProcesses, WaitsNoLongerThanItsPatience) {
    constexpr auto stands = [](int look) {
        return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(look > 2));
    };
    EXPECT_EQ(looks_at_the_clock<stands>(std::chrono::nanoseconds(0)), 2);
}
/// By the steady clock, with a pause behind each look.
TEST(RankBoardOfProcesses, RestsBetweenItsLooks) {
    constexpr auto runs = [](int) { return gx::nccl::steady_now(); };
    EXPECT_LT(looks_at_the_clock<runs>(std::chrono::milliseconds(60)), 10);
}
TEST(RankBoardOfProcesses, ARowThatIsNoneChangesNothing) {
    Boards b(2);
    for (const char* const row :
         {"", "x", "0 0 0 0 0 1", "0 0 0 0 0 1 other 1 0 1 7 1 1 0",
          "0 0 0 0 0 1 world 1 0 1 -1 1 1 0", "0 0 0 0 0 99999999", "0 0 0 0 0 0 1 world 1 -1 0 0"})
        b.at(0).heard(1, row);
    EXPECT_EQ(b.at(0).suspect(0, 0), -1);
    // Rank 1 of 3 has sent five messages to a rank 3: none of rank 2 to rank 0.
    Boards c(3);
    c.at(0).heard(1, "0 0 0 0 0 1 world 1 0 1 3 5 5 0");
    c.at(0).receives(0, 0, 2);
    EXPECT_EQ(c.at(0).suspect(0, 0), 2);
    // A place of a rank 2 of 2 in a division.
    Boards d(2);
    d.at(0).divides(0, 1, 0, 0, 0);
    d.at(0).heard(1, "0 0 0 0 0 0 1 world 1 2 0 0");
    d.at(1).divides(0, 1, 1, 0, 0);
    EXPECT_TRUE(d.at(0).divided(0, 1));
    // Behind a row that has no division.
    Boards e(2);
    e.at(0).divides(0, 1, 0, 0, 0);
    e.at(0).heard(1, "0 0 0 0 0 0 0 world 1 1 0 0");
    EXPECT_FALSE(e.at(0).divided(0, 1));
}

/// The monitor answers a row that asks, and meanwhile its rank leaves.
TEST(RankBoard, ARowThatIsOlderIsNotToldLast) {
    struct Link final : BoardLink {
        int agree(int lost) override { return lost; }
        int lost() override { return -1; }
        bool threw() override { return false; }
        void tell(const std::string& row) override {
            if (other != nullptr && !first.test_and_set()) {
                begun.set_value();
                may_go.get_future().wait();
            }
            if (other != nullptr) other->heard(1, row);
        }
        void working_on(const gx::Operation&) override {}
        RankBoard* other = nullptr;
        std::atomic_flag first{};
        std::promise<void> begun{}, may_go{};
    } link, quiet;
    RankBoard one(2, 1, link, std::chrono::nanoseconds(1));
    RankBoard zero(2, 0, quiet, std::chrono::nanoseconds(1));
    link.other = &zero;
    one.joins(0, 1);
    zero.joins(0, 0);
    zero.receives(0, 0, 1);
    EXPECT_EQ(zero.missing(0, 0), -1);
    {
        const std::jthread monitor([&] { one.heard(0, "1 0 0 0 0 0 0"); });
        link.begun.get_future().wait();
        auto left = std::async(std::launch::async, [&] { one.leave(1); });
        (void)left.wait_for(std::chrono::milliseconds(200));  // it may have told its row by then
        link.may_go.set_value();
    }
    EXPECT_EQ(zero.missing(0, 0), 1);
}

}  // namespace
