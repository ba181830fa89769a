// Which rank a coordinator names where a wait was too long.
#include <gx/coordination/waits_for_graph.hpp>

#include <gtest/gtest.h>

#include <string>

#include <coordination/wire.hpp>  // Wire

namespace {

using namespace testing_support;
using co::Reason;

TEST(LateRank, ADeadlineNamesThePeerWithTheOperationOfWhoWaited) {
    Wire w(3);
    w.join();
    w.at(1).working_on({"all-reduce", 9, 2});
    w.at(1).blame(2);
    w.settle();
    EXPECT_EQ(w.at(0).cause().reason, Reason::late);
    EXPECT_EQ(w.at(0).cause().rank, 2);
    EXPECT_EQ(w.at(0).cause().observer, 1);
    EXPECT_TRUE(has(w.at(0).cause().text, "rank 1 waited for it in step 9, bucket 2"));
    w.at(1).blame(5);
    w.settle();
    EXPECT_TRUE(w.root.gone(1)) << "waits for no rank of this world: it can't be believed";
}
/// Ranks 0, 2 and 1 wait for the one before in a ring; rank 1 is stopped.
TEST(LateRank, ADeadlineNamesTheRankThatIsSilent) {
    for (const bool first : {false, true}) {
        Wire w(3, {.silence = 20s});
        w.join();
        const auto deliver = [&] {
            for (const int r : {0, 2, 0, 2}) {
                while (w.has_up(r)) w.deliver_up(r);
                while (w.has_down(r)) w.deliver_down(r);
            }
        };
        for (int i = 0; i < 3; ++i) w.pass(5s), deliver();  // a heartbeat every 5 s
        w.waits(0, {2});
        w.waits(2, {1});
        w.at(2).working_on({"all-reduce", 9, 2});
        w.at(first ? 0 : 2).blame(first ? 2 : 1);
        w.collect();
        deliver();
        EXPECT_FALSE(w.root.cause().stopped()) << "rank 1 may still answer";
        w.pass(co::WaitsForGraph::patience);
        deliver();
        EXPECT_EQ(w.at(2).cause().reason, Reason::late);
        EXPECT_EQ(w.at(2).cause().rank, 1) << first;
        EXPECT_EQ(w.at(2).cause().observer, 2);
        EXPECT_EQ(w.at(2).cause().text,
                  "rank 1 (host h, process 101) timed out: rank 2 waited for it in step 9, bucket "
                  "2, operation all-reduce, and nothing came before the deadline, nor anything at "
                  "all for 16 s");
    }
}
/// Rank 0 waits for both others in shared memory: rank 2 has left without coming, and rank 1 has
/// not come yet.
TEST(LateRank, IsTheOneThatIsBlamedBeforeAnotherThatComesLater) {
    Wire w(3);
    w.join();
    w.at(2).leave();
    w.settle();
    w.waits(0, {1, 2});
    w.at(0).blame(2);
    w.settle();
    EXPECT_EQ(w.at(1).cause().rank, 2);
    EXPECT_EQ(w.at(1).cause().observer, 0);
}
/// All deadlines of a ring end at once: at fault is who waits for nobody.
TEST(LateRank, ADeadlineNamesTheEndOfTheWaitsForGraph) {
    for (const int first : {0, 1, 3}) {
        Wire w(4);
        w.join();
        for (const int r : {0, 1, 3}) w.waits(r, {(r + 3) % 4});
        w.at(3).working_on({"all-reduce", 4, 1});
        w.at(2).working_on({"loading a batch", 4});
        w.at(first).blame((first + 3) % 4);
        w.settle();
        EXPECT_EQ(w.at(0).cause().rank, 2) << first;
        EXPECT_EQ(w.at(0).cause().observer, 3) << first;
        EXPECT_TRUE(has(w.at(0).cause().text,
                        "rank 2 (host h, process 102) timed out: rank 3 waited for it in step 4, "
                        "bucket 1, operation all-reduce, and nothing came before the deadline"))
            << w.at(0).cause().text;
        EXPECT_FALSE(has(w.at(0).cause().text, "at all")) << "it has answered";
    }
}
TEST(LateRank, ACollectiveOfALibraryWaitsForWhoDoesNot) {
    for (const bool stuck : {false, true}) {
        Wire w(4);
        w.join();
        for (int r = 0; r < 4; ++r) {
            w.at(r).working_on({"all-reduce", 5, r == 2 ? 1 : 0});
            if (r != 2 || !stuck) w.waits(r, {co::any_rank});
        }
        w.at(3).blame(co::any_rank);
        w.settle();
        EXPECT_EQ(w.at(0).cause().rank, 2) << stuck;
        EXPECT_EQ(w.at(0).cause().observer, 3);
        EXPECT_EQ(
            has(w.at(0).cause().text, "in different operations: rank 0 in step 5, bucket 0, "),
            !stuck)
            << w.at(0).cause().text;
    }
    Wire w(2);
    w.join();
    for (int r = 0; r < 2; ++r) w.waits(r, {co::any_rank});
    w.at(0).blame(co::any_rank);
    w.settle();
    EXPECT_EQ(w.at(0).cause().rank, 1) << "all alike: another one";
}
TEST(LateRank, ADeadlineInACycleTellsItsOperations) {
    for (const bool differ : {false, true}) {
        Wire w(3);
        w.join();
        for (int r = 0; r < 3; ++r) {
            w.waits(r, {(r + 2) % 3});
            w.at(r).working_on({"all-reduce", differ && r == 1 ? 4 : 5, 0});
        }
        w.at(2).blame(1);
        w.settle();
        EXPECT_EQ(w.at(0).cause().rank, 1);
        EXPECT_EQ(has(w.at(0).cause().text,
                      "; ranks wait for each other in different operations: rank 0 in step 5, "
                      "bucket 0, operation all-reduce, rank 1 in step 4, bucket 0, operation "
                      "all-reduce. A reducer must make the same reductions on all of them"),
                  differ)
            << w.at(0).cause().text;
    }
}
TEST(LateRank, ARankThatLeavesWhileAllAreAskedNeedNotAnswer) {
    Wire w(3);
    w.join();
    w.at(1).blame(2);
    w.at(2).leave();
    w.collect();
    for (const int r : {1, 2, 0})
        while (w.has_up(r)) w.deliver_up(r);
    for (const int r : {0, 1}) {
        while (w.has_down(r)) w.deliver_down(r);
        while (w.has_up(r)) w.deliver_up(r);
    }
    w.settle();
    EXPECT_EQ(w.root.cause().rank, 2);
}
/// Rank 0 waits for rank 1, whose threads wait for ranks 0 and 2; rank 2 does something else.
TEST(LateRank, IsFoundBehindEachWaitOfARank) {
    for (const int first : {0, 1})
        for (const bool blames_0 : {true, false}) {
            Wire w(3);
            w.join();
            w.waits(0, {1});
            w.at(1).waits_for({{{0}, 2s}, {{2}, 1s}});
            w.at(first).blame(first == 0 ? 1 : blames_0 ? 0 : 2);
            w.settle();
            EXPECT_EQ(w.at(0).cause().rank, 2) << first << blames_0;
            EXPECT_EQ(w.at(0).cause().observer, 1) << first << blames_0;
        }
}
/// As one whose world does not say what it waits for.
TEST(LateRank, IsNotOneThatBlamesAnother) {
    Wire w(3);
    w.join();
    w.at(0).blame(1);
    w.at(1).blame(2);
    w.settle();
    EXPECT_EQ(w.at(0).cause().rank, 2);
}
TEST(LateRank, WaitsForNobodyOnceItHasLeft) {
    Wire w(3);
    w.join();
    w.waits(0, {1});
    w.at(1).blame(2);
    w.at(1).leave();
    w.at(0).blame(1);
    w.settle();
    EXPECT_EQ(w.at(0).cause().rank, 1);
}
TEST(LateRank, IsTheNearestThatWaitsForNone) {
    Wire w(5);
    w.join();
    w.waits(0, {1, 2});
    w.waits(1, {3});
    w.at(0).blame(1);
    w.settle();
    EXPECT_EQ(w.at(0).cause().rank, 2) << "rank 3 is one more step away";
    EXPECT_EQ(w.at(0).cause().observer, 0);
}
/// Rank 2 is asked once, and answers twice.
TEST(LateRank, IsFoundByTheFirstAnswerOfEachRank) {
    Wire w(3);
    w.join();
    w.at(1).blame(2);
    w.collect();
    w.deliver_up(1);
    w.deliver_down(2);
    w.deliver_up(2);
    w.root.received(2, co::Waiting{{{{0}, 1s}}}, w.now);
    w.settle();
    EXPECT_EQ(w.root.cause().rank, 2) << "it waits for none";
}
TEST(LateRank, IsOneThatSaysToWaitMoreOftenThanItCan) {
    const auto loses = [](const co::Waiting& answer) {
        Wire w(2);
        w.join();
        w.root.received(1, answer, w.now);
        return w.root.gone(1);
    };
    const auto waits = [](std::size_t count, std::size_t peers) {
        return co::Waiting{
            std::vector<co::Wait>(count, {std::vector<int>(peers, co::any_rank), 1s})};
    };
    EXPECT_FALSE(loses(waits(co::waits_max, 3)));
    EXPECT_TRUE(loses(waits(co::waits_max + 1, 3)));
    EXPECT_TRUE(loses(waits(1, 4))) << "2 ranks, and any_rank";
    EXPECT_TRUE(loses({{{{2}, 1s}}}));
}
/// Rank 0 waits for rank 1, which waits for rank 3; another thread of rank 0 or 1 has just begun to
/// wait for rank 2.
TEST(LateRank, IsNotBehindAWaitThatHasJustBegun) {
    for (const int rank : {0, 1}) {
        Wire w(4);
        w.join();
        const std::vector<co::Wait> fresh{{{2}, 1ms}, {{1 + 2 * rank}, 1s}};
        w.waits(1, {3});
        w.waits(0, {1});
        w.at(rank).waits_for(fresh);
        w.at(0).blame(1, 1s);
        w.settle();
        EXPECT_EQ(w.at(0).cause().rank, 3) << rank;
        EXPECT_EQ(w.at(0).cause().observer, 1) << rank;
    }
}
/// Ranks 0 and 1 wait for each other, in their oldest waits; of others the oldest counts.
TEST(LateRank, IsBehindAYoungerWaitWhereOlderOnesLeadIntoACycle) {
    Wire w(5);
    w.join();
    w.at(0).waits_for({{{2}, 100ms}, {{1}, 1s}});
    w.at(1).waits_for({{{3}, 200ms}, {{4}, 300ms}, {{0}, 2s}});
    w.waits(4, {0});
    w.at(0).blame(1, 1s);
    w.settle();
    EXPECT_EQ(w.at(0).cause().rank, 3) << "rank 4 waits too, and for rank 2 rank 0 has waited less";
    EXPECT_EQ(w.at(0).cause().observer, 1);
}
/// The deadline of a wait is not that of the oldest: some are without one.
TEST(LateRank, IsBehindTheWaitThatMetItsDeadline) {
    Wire w(4);
    w.join();
    w.at(0).waits_for({{{2}, 60s}, {{1}, 1s}});
    w.at(1).waits_for({{{2}, 60s}, {{3}, 1s}});
    w.at(1).blame(3, 1s);
    w.at(0).blame(1, 1s);
    w.settle();
    EXPECT_EQ(w.at(0).cause().rank, 3);
    EXPECT_EQ(w.at(0).cause().observer, 1);
}
/// Rank 1 blames rank 0, which waits for it, and then is stopped.
TEST(LateRank, IsOneThatBlamesAnotherAndThenDoesNotAnswer) {
    Wire w(3, {.silence = 20s});
    w.join();
    w.waits(0, {1});
    w.waits(2, {1});
    w.at(1).blame(0);
    w.collect();
    w.deliver_up(1);
    w.kill(1);
    const auto deliver = [&] {
        for (const int r : {0, 2, 0}) {
            while (w.has_down(r)) w.deliver_down(r);
            while (w.has_up(r)) w.deliver_up(r);
        }
    };
    deliver();
    w.pass(co::WaitsForGraph::patience);
    deliver();
    EXPECT_EQ(w.root.cause().rank, 1);
    EXPECT_EQ(w.root.cause().observer, 0);
    EXPECT_TRUE(has(w.root.cause().text, "nor anything at all for 1 s")) << w.root.cause().text;
}
/// Rank 1 blames rank 2 and leaves; rank 0 has just begun to wait for rank 3.
TEST(LateRank, IsTheOneThatIsBlamedThoughTheBlamerLeaves) {
    for (const bool blames : {false, true}) {
        Wire w(4);
        w.join();
        w.at(1).blame(2);
        w.collect();
        w.deliver_up(1);
        w.at(1).leave();
        w.waits(0, {3});
        if (blames) w.at(0).blame(3);
        w.settle();
        EXPECT_EQ(w.at(0).cause().rank, blames ? 3 : 2) << "rank 0 is still there to complain";
        EXPECT_EQ(w.at(0).cause().observer, blames ? 0 : 1);
    }
}
TEST(LateRank, IsFoundBehindTheBlameOfARankThatHasLeft) {
    Wire w(4);
    w.join();
    w.at(1).blame(2);
    w.at(1).leave();
    w.waits(2, {3});
    w.settle();
    EXPECT_EQ(w.at(0).cause().rank, 3);
    EXPECT_EQ(w.at(0).cause().observer, 2);
}
/// Rank 1 blames rank 2, says that it waits for rank 3 too, and leaves.
TEST(LateRank, IsNotOneThatARankWhichHasLeftWaitedFor) {
    for (const bool for_1 : {false, true}) {
        Wire w(4);
        w.join();
        w.waits(1, {3});
        w.waits(2, {for_1 ? 1 : 0});
        w.waits(0, {2});
        w.at(1).blame(2);
        w.collect();
        w.deliver_up(1);
        w.deliver_down(1);
        w.at(1).leave();
        w.settle();
        EXPECT_EQ(w.at(0).cause().rank, for_1 ? 1 : 2);
        EXPECT_EQ(w.at(0).cause().observer, for_1 ? 2 : 1);
    }
}
TEST(LateRank, IsOneThatIsNamedBeforeAnyOther) {
    Wire w(5);
    w.join();
    w.waits(1, {co::any_rank, 2});
    w.waits(2, {4});
    w.at(0).blame(1);
    w.settle();
    EXPECT_EQ(w.at(0).cause().rank, 4) << "rank 3 does not wait either";
}
TEST(LateRank, OfACollectiveHasLeftOnlyIfAllOthersWait) {
    for (const bool waits : {false, true}) {
        Wire w(4);
        w.join();
        w.at(1).leave();
        w.settle();
        for (const int r : {0, 2}) w.waits(r, {co::any_rank});
        if (waits) w.waits(3, {2});
        w.at(2).blame(co::any_rank);
        w.settle();
        EXPECT_EQ(w.at(0).cause().rank, waits ? 1 : 3);
        EXPECT_EQ(w.at(0).cause().observer, 2);
    }
}
/// Ranks 1 and 2 wait for each other. Rank 3, for which none waits, answers late, or rank 0 or 3
/// has stood still.
TEST(LateRank, OfACycleIsOneThatTheBlamerWaitsFor) {
    for (const int other : {0, 3})
        for (const bool waits : {false, true})
            for (const bool stands : {false, true}) {
                Wire w(4);
                w.join();
                w.waits(1, {2});
                w.waits(2, {1});
                if (waits) w.waits(other, {1});
                w.at(other).working_on({"all-reduce", 5});
                if (stands) w.stands_still(other, 3s);
                w.at(1).blame(2);
                w.collect();
                w.deliver_up(1);
                for (int r = 0; r < 4; ++r)
                    while (w.has_down(r)) w.deliver_down(r);
                for (const int r : {1, 2}) w.deliver_up(r);
                if (other == 3) w.pass(co::WaitsForGraph::lag);
                w.settle();
                EXPECT_EQ(w.at(0).cause().rank, 2) << other << waits << stands;
                EXPECT_EQ(w.at(0).cause().observer, 1) << other << waits << stands;
                EXPECT_TRUE(w.at(0).cause().text.ends_with("deadline")) << w.at(0).cause().text;
            }
}
/// Ranks 1 and 2 wait for each other. Rank 2 answers late, and rank 3, which computes, still later.
TEST(LateRank, OfACycleAnswersLaterThanTheOthersOfTheCycle) {
    Wire w(4);
    w.join();
    w.waits(1, {2});
    w.waits(2, {1});
    w.at(1).blame(2);
    w.collect();
    w.deliver_up(1);
    for (int r = 0; r < 4; ++r)
        while (w.has_down(r)) w.deliver_down(r);
    for (const int r : {1, 2, 3}) {
        w.deliver_up(r);
        w.pass(co::WaitsForGraph::lag);
    }
    w.settle();
    EXPECT_EQ(w.at(0).cause().rank, 2);
    EXPECT_TRUE(has(w.at(0).cause().text, "It answered later")) << w.at(0).cause().text;
}
TEST(LateRank, AloneIsNotLaterThanOthers) {
    Wire w(1);
    w.join();
    w.waits(0, {0});
    w.at(0).blame(0);
    w.settle();
    EXPECT_EQ(w.at(0).cause().rank, 0);
    EXPECT_TRUE(w.at(0).cause().text.ends_with("deadline")) << w.at(0).cause().text;
}
/// A ring of ranks that all wait, as one of them has stood still, and has not read what came.
TEST(LateRank, OfACycleIsTheOneThatAnswersLate) {
    for (const int late : {1, 2})
        for (const bool lags : {true, false}) {
            Wire w(3);
            w.join();
            for (int r = 0; r < 3; ++r) {
                w.waits(r, {(r + 2) % 3});
                w.at(r).working_on({"all-reduce", r});
            }
            w.at(1).blame(0);
            w.collect();
            w.deliver_up(1);
            for (int r = 0; r < 3; ++r)
                while (w.has_down(r)) w.deliver_down(r);
            for (int r = 0; r < 3; ++r)
                if (r != late && w.has_up(r)) w.deliver_up(r);
            EXPECT_FALSE(w.root.cause().stopped());
            w.pass(co::WaitsForGraph::lag - (lags ? 0ns : 1ns));
            w.deliver_up(late);
            w.settle();
            EXPECT_EQ(w.at(0).cause().rank, lags ? late : 0);
            EXPECT_EQ(w.at(0).cause().observer, lags ? (late + 1) % 3 : 1);
            EXPECT_EQ(has(w.at(0).cause().text,
                          "It answered later than the others, as if its process had stood still; "
                          "ranks wait for each other in different operations: rank 0 in step 0"),
                      lags);
        }
}
/// Ranks 0, 2 and 1 wait for the one before in a ring.
TEST(LateRank, OfACycleIsTheRankThatStoodStill) {
    for (const int still : {0, 1, 2})
        for (const bool recently : {true, false}) {
            Wire w(3);
            w.join();
            w.stands_still(still, 3s);
            w.pass(1s + (recently ? 0ns : 1ns));
            for (int r = 0; r < 3; ++r) w.waits(r, {(r + 2) % 3});
            w.at(2).working_on({"all-reduce", 5});
            w.at(2).blame(1);
            w.settle();
            EXPECT_EQ(w.at(0).cause().rank, recently ? still : 1) << still;
            EXPECT_EQ(w.at(0).cause().observer, recently ? (still + 1) % 3 : 2) << still;
            EXPECT_EQ(
                has(w.at(0).cause().text,
                    "Its process had stood still for 3 s; ranks wait for each other in different"),
                recently)
                << w.at(0).cause().text;
        }
}
/// All processes were stopped and went on; or one of them was for longer.
TEST(LateRank, OfACycleHasStoodStillAlone) {
    for (const int longer : {0, 1, 2, 3}) {
        Wire w(3);
        w.join();
        w.pass(10s);
        for (int r = 0; r < 3; ++r) w.at(r).stood_still(r == longer ? 7s : 3s, w.now);
        for (int r = 0; r < 3; ++r) w.waits(r, {(r + 2) % 3});
        w.at(2).blame(1);
        w.settle();
        EXPECT_EQ(w.at(0).cause().rank, longer < 3 ? longer : 1);
        EXPECT_EQ(has(w.at(0).cause().text, "stood still for 7 s"), longer < 3)
            << w.at(0).cause().text;
    }
    Wire w(3);
    w.join();
    w.pass(10s);
    w.at(0).stood_still(3s, w.now), w.at(1).stood_still(4s, w.now);
    for (int r = 0; r < 3; ++r) w.waits(r, {(r + 2) % 3});
    w.at(1).blame(0);
    w.settle();
    EXPECT_EQ(w.at(0).cause().rank, 1) << "for the longest; and rank 0 while rank 1 did too";
    Wire v(3);
    v.join();
    v.pass(10s);
    for (int r = 0; r < 3; ++r) v.at(r).stood_still(r == 0 ? 4s : 2500ms, v.now);
    for (int r = 0; r < 3; ++r) v.waits(r, {(r + 2) % 3});
    v.at(2).blame(1);
    v.settle();
    EXPECT_EQ(v.at(0).cause().rank, 1) << "rank 0 stood still alone for less than half of it";
    EXPECT_TRUE(v.at(0).cause().text.ends_with("deadline")) << v.at(0).cause().text;
}
/// Rank `still` stood still for 3 s. It then sends what others wait for, and waits for rank 2,
/// which computes.
struct AfterAStandstill {
    int still = 0;
    co::Duration blamed = 1s;        ///< the wait of rank 1, when it sends its Blamed
    co::Duration waits = 1ms;        ///< the wait of rank `still`, when it is asked
    co::Duration before = 0s;        ///< from the standstill to the Blamed
    co::Duration observer_too = 0s;  ///< for how long until then rank 1 has stood still itself
    bool again = false;              ///< rank 1 still waits
};
co::Cause cause_after(AfterAStandstill is) {
    Wire w(5);
    w.join();
    w.pass(10s);
    w.stands_still(is.still, 3s);
    if (is.observer_too > 0s) w.at(1).stood_still(is.observer_too, w.now);
    w.pass(is.before);
    w.waits(is.still, {2}, is.waits);
    if (is.again) w.waits(1, {is.still}, is.blamed);
    w.at(1).blame(is.still, is.blamed);
    w.collect();
    for (bool moved = true; moved;) {  // at once
        moved = false;
        for (int r = 0; r < 5; ++r) {
            while (w.has_up(r)) w.deliver_up(r), moved = true;
            while (w.has_down(r)) w.deliver_down(r), moved = true;
        }
    }
    w.waits(is.still, {2}, is.waits + co::Member::settling);
    w.settle();
    return w.root.cause();
}
TEST(LateRank, StoodStillThoughItHasGoneOnSince) {
    for (const int still : {0, 3, 4}) {
        const co::Cause cause = cause_after({.still = still});
        EXPECT_EQ(cause.rank, still);
        EXPECT_EQ(cause.observer, 1);
        EXPECT_TRUE(has(cause.text, "deadline. Its process had stood still for 3 s")) << cause.text;
        const auto names_it = [&](AfterAStandstill is) {
            is.still = still;
            return cause_after(is).rank == still;
        };
        EXPECT_TRUE(names_it({.blamed = 6s})) << "half of the wait";
        EXPECT_TRUE(names_it({.blamed = 3s, .again = true}));
        EXPECT_TRUE(names_it({.waits = 3s})) << "began to wait when it began to stand still";
        EXPECT_TRUE(names_it({.blamed = 2s, .before = 1s}));
        EXPECT_TRUE(names_it({.blamed = 3s, .observer_too = 1500ms})) << "alone for half of it";
    }
}
TEST(LateRank, IsNotOneWhoseStandstillExplainsNoWait) {
    for (const int still : {0, 3, 4}) {
        const auto names_rank_2 = [&](AfterAStandstill is) {
            is.still = still;
            const co::Cause cause = cause_after(is);
            return cause.rank == 2 && cause.observer == still && !has(cause.text, "stood still");
        };
        EXPECT_TRUE(names_rank_2({.blamed = 6s + 1ns})) << "a long wait";
        EXPECT_TRUE(names_rank_2({.blamed = 6s + 1ns, .again = true})) << "it has gone on";
        EXPECT_TRUE(names_rank_2({.blamed = 0s})) << "unknown";
        EXPECT_TRUE(names_rank_2({.waits = 3s + 1ns})) << "it waited itself before it stood still";
        EXPECT_TRUE(names_rank_2({.blamed = 2s - 1ns, .before = 1s})) << "since then for the most";
        EXPECT_TRUE(names_rank_2({.blamed = 1s, .before = 1s})) << "began when it went on";
        EXPECT_TRUE(names_rank_2({.blamed = 3s, .before = 1s + 1ns})) << "long ago";
        EXPECT_TRUE(names_rank_2({.blamed = 3s, .observer_too = 1500ms + 1ns})) << "both did";
    }
}
/// Rank 1 has gone on, and waits as rank 0 does. Rank 2 has not come.
co::WaitsForGraph::Verdict verdict_beside_a_standstill(std::vector<int> peers, bool rank_2_left,
                                                       bool rank_2_answers) {
    co::WaitsForGraph g(3, 10s);
    g.blame(0, {.peer = peers.front(), .lasted = 2s}, 10s);
    g.answer(1,
             {.waits = {{{co::any_rank}, 200ms}}, .standstill = {.lasted = 1200ms, .ago = 200ms}},
             10s + 100ms);
    g.answer(0, {.waits = {{peers, 2s + 100ms}}}, 10s + 100ms);
    if (rank_2_answers) g.answer(2, {}, 10s + 100ms);
    const co::WaitsForGraph::Rank here{.present = true, .heard = 10s};
    auto two = here;
    two.left = rank_2_left;
    return g.judge({here, here, two}, 11s);
}
TEST(LateRank, IsNotExplainedByAStandstillOfAnother) {
    const std::vector<int> any{co::any_rank}, named{1, 2};
    EXPECT_EQ(verdict_beside_a_standstill(any, false, false).rank, 2) << "does not answer";
    EXPECT_EQ(verdict_beside_a_standstill(named, false, false).rank, 2);
    EXPECT_EQ(verdict_beside_a_standstill(named, true, false).rank, 2) << "has left";
    EXPECT_EQ(verdict_beside_a_standstill(any, false, true).rank, 2) << "rank 1 has come";
    const auto v = verdict_beside_a_standstill(named, false, true);
    EXPECT_EQ(v.rank, 1) << "what it waits for now explains nothing";
    EXPECT_TRUE(has(v.remark, "stood still for 1.2 s")) << v.remark;
}
TEST(LateRank, HasReturned) {
    Wire w(3);
    w.join();
    w.at(2).leave();
    w.waits(0, {2});
    w.at(0).blame(2);
    w.settle();
    EXPECT_EQ(w.at(1).cause().text,
              "rank 2 (host h, process 102) has returned, and rank 0 waited for it in no operation "
              "reported yet: all ranks must run the same program");
}
/// A rank that has just gone on is given time to see what has come, before it says what it waits
/// for.
TEST(LateRank, AnswersLaterWhereItHasJustStoodStill) {
    for (const int still : {0, 2}) {
        Wire w(3);
        w.join();
        w.pass(10s);
        w.stands_still(still, 3s);
        w.waits(still, {1 - still / 2}, 5s);
        w.at(1).blame(still, 2s);
        w.collect();
        for (int i = 0; i < 3; ++i)
            for (int r = 0; r < 3; ++r) {
                while (w.has_down(r)) w.deliver_down(r);
                while (w.has_up(r)) w.deliver_up(r);
            }
        EXPECT_FALSE(w.root.cause().stopped());
        EXPECT_TRUE(w.at(still).is_asked());
        w.pass(co::Member::settling - 1ns);
        EXPECT_TRUE(w.at(still).is_asked());
        w.at(still).waits_for({});  // what it waited for had come
        w.settle();
        EXPECT_EQ(w.root.cause().rank, still);
        EXPECT_EQ(w.root.cause().observer, 1);
        EXPECT_TRUE(has(w.root.cause().text, "stood still for 3 s")) << w.root.cause().text;
    }
}
/// Rank 0 waits for rank 1, and goes on after rank 1 has answered.
TEST(LateRank, IsAskedForBehindTheOthersByTheRoot) {
    Wire w(3);
    w.join();
    w.waits(0, {1});
    w.at(2).blame(0);
    w.collect();
    w.deliver_up(2);
    EXPECT_FALSE(w.has_down(0));
    for (const int r : {1, 2}) {
        while (w.has_down(r)) w.deliver_down(r);
        while (w.has_up(r)) w.deliver_up(r);
    }
    ASSERT_TRUE(w.has_down(0));
    w.at(0).waits_for({});
    w.settle();
    EXPECT_EQ(w.root.cause().rank, 0);
}
/// The root does not look for 51 ms, between the answers of ranks 1 and 2 that have come before.
TEST(LateRank, IsNotOneThatTheRootReadLate) {
    for (const auto gap : {co::WaitsForGraph::lag / 2, co::WaitsForGraph::lag / 2 + 1ns}) {
        Wire w(3);
        w.join();
        for (int r = 0; r < 3; ++r) w.waits(r, {(r + 1) % 3});
        w.at(2).blame(0);
        w.collect();
        w.deliver_up(2);
        for (const int r : {1, 2}) w.deliver_down(r);
        w.deliver_up(2);
        w.now += co::WaitsForGraph::lag / 2;
        w.root.tick(w.now);
        w.now += gap;
        w.root.tick(w.now);
        w.deliver_up(1);
        w.settle();
        EXPECT_EQ(w.root.cause().rank, gap > co::WaitsForGraph::lag / 2 ? 0 : 1);
    }
}
/// The root asks, stands still for 3 s, and then reads the answers.
TEST(LateRank, IsNotOneWhoseAnswerTheRootReadsLate) {
    for (const int ranks : {2, 3})
        for (const bool has_left : {false, true}) {
            if (has_left && ranks == 2) continue;
            Wire w(ranks);
            w.join();
            const int last = has_left ? 1 : 0;  // for which the last rank waits
            for (int r = 0; r < ranks; ++r) w.waits(r, {r + 1 < ranks ? r + 1 : last});
            if (has_left) w.at(0).leave(), w.settle();
            const int blamed = ranks == 2 ? 0 : 2;
            w.at(1).blame(blamed);
            w.collect();
            w.deliver_up(1);
            w.stands_still(0, 3s);
            w.root.tick(w.now);
            EXPECT_FALSE(w.root.cause().stopped());
            w.settle();
            EXPECT_EQ(w.root.cause().rank, blamed);
            EXPECT_TRUE(w.root.cause().text.ends_with("deadline")) << w.root.cause().text;
        }
}

}  // namespace
