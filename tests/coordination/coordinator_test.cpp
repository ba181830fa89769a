#include <gx/coordination/coordinator.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <random>  // schedules

#include <coordination/wire.hpp>  // Wire

namespace {

using namespace testing_support;
using co::Cause;
using co::Message;
using co::Reason;
using co::RunTerms;

// ---- Rendezvous ------------------------------------------------------------------------
TEST(Coordinator, WelcomesAllOnceAllHaveCome) {
    Wire w(3, {.hosts = {"a", "b", "b"}});
    w.connect(2);
    w.connect(0);
    w.settle();
    EXPECT_FALSE(w.root.joined());
    EXPECT_FALSE(w.at(0).joined());
    w.connect(1);
    w.settle();
    for (int r = 0; r < 3; ++r) {
        EXPECT_TRUE(w.at(r).joined());
        EXPECT_EQ(w.at(r).roster().at(1).process, 101u);
        EXPECT_EQ(w.at(r).roster().node_of(2), 1);
        EXPECT_FALSE(w.at(r).roster().placement().regular());
    }
}
/// What a connection that says `hello` to a run of two ranks, of which rank 0 is there, is told.
std::vector<co::Order> told(const co::Hello& hello) {
    co::Coordinator root({.run_id = "run", .ranks = 2}, 0s);
    root.connected(0, 0s);
    root.received(0, co::Hello{.run_id = "run", .rank = 0, .ranks = 2, .host = "a"}, 0s);
    root.connected(1, 0s);
    root.received(1, hello, 0s);
    return root.take();
}
void expect_refused(const co::Hello& hello, const std::string& why) {
    const auto orders = told(hello);
    ASSERT_FALSE(orders.empty());
    EXPECT_EQ(orders[0].connection, 1);
    EXPECT_TRUE(orders[0].close);
    ASSERT_TRUE(orders[0].message);
    EXPECT_TRUE(has(std::get<co::Refused>(*orders[0].message).text, why))
        << std::get<co::Refused>(*orders[0].message).text;
}
TEST(Coordinator, RefusesStrangersAndGoesOn) {
    const co::Hello good{.run_id = "run", .rank = 1, .ranks = 2, .process = 7, .host = "b"};
    EXPECT_EQ(told(good).size(), 2u) << "two Welcomes: else this tests nothing";
    co::Hello bad = good;
    bad.run_id = "other";
    expect_refused(bad, "is of another run: its run id differs");
    bad = good;
    bad.rank = 0;
    expect_refused(bad, "rank 0 (host b, process 7) came, but rank 0 (host a, process 0) is there");
    for (const int rank : {-1, 2, 1'000'000'000}) {
        bad = good;
        bad.rank = rank;
        expect_refused(bad, "is not in a world of 2 ranks");
    }
}
TEST(Coordinator, AStrangerTakesNoSeat) {
    Wire w(2);
    w.connect(0);
    w.root.connected(7, w.now);
    w.root.malformed(7, "its bytes do not begin as a message of gx", w.now);
    auto orders = w.root.take();
    ASSERT_EQ(orders.size(), 1u);
    EXPECT_TRUE(has(std::get<co::Refused>(*orders[0].message).text, "do not begin as a message"));
    w.root.received(7, w.hello[1], w.now);
    EXPECT_TRUE(w.root.take().empty()) << "after a refusal it is not listened to";
    w.root.closed(7, w.now, true);
    w.root.connected(8, w.now);
    w.root.received(8, co::Leaving{}, w.now);
    EXPECT_TRUE(w.root.take()[0].close) << "no Hello first";
    w.connect(1);
    w.settle();
    EXPECT_TRUE(w.at(0).joined() && w.at(1).joined());
    EXPECT_FALSE(w.root.cause().stopped());
}
TEST(Coordinator, AnotherNumberOfRanksEndsTheRunOnAll) {
    Wire w(3);
    w.hello[2].ranks = 4;
    w.join();
    for (int r = 0; r < 2; ++r) {
        EXPECT_EQ(w.at(r).cause().reason, Reason::mismatch);
        EXPECT_TRUE(has(w.at(r).cause().text,
                        "rank 2 (host h, process 102) was started as one of "
                        "4 ranks, rank 0 as one of 3"))
            << w.at(r).cause().text;
    }
    EXPECT_TRUE(has(w.at(2).cause().text, "one of 4 ranks, rank 0 as one of 3"));
}
TEST(Coordinator, AConnectionThatHasSaidNothingIsToldWhyTheRunEnds) {
    co::Coordinator root({.run_id = "run", .ranks = 3}, 0s);
    root.connected(0, 0s);
    root.received(0, co::Hello{.run_id = "run", .rank = 0, .ranks = 3, .host = "a"}, 0s);
    for (const int connection : {1, 2}) root.connected(connection, 0s);
    root.received(1, co::Hello{.run_id = "run", .rank = 1, .ranks = 2, .host = "a"}, 0s);
    root.received(0, co::Leaving{}, 0s);
    std::string text;
    for (const co::Order& o : root.take())
        if (o.connection == 2) text = std::get<co::Refused>(*o.message).text;
    EXPECT_TRUE(has(text, "started as one of 2 ranks, rank 0 as one of 3")) << text;
}
TEST(Coordinator, AStrangerAfterTheCauseDoesNotReplaceIt) {
    co::Coordinator root({.run_id = "run", .ranks = 3, .join_deadline = 5s}, 0s);
    root.connected(0, 0s);
    root.received(0, co::Hello{.run_id = "run", .rank = 0, .ranks = 3, .host = "a"}, 0s);
    root.tick(5s);
    EXPECT_EQ(root.cause().reason, Reason::absent);
    root.connected(1, 6s);
    root.received(1, co::Hello{.run_id = "run", .rank = 1, .ranks = 2, .host = "a"}, 6s);
    EXPECT_EQ(root.cause().reason, Reason::absent);
}
TEST(Coordinator, OneLocalRankTwiceOnAHostEndsTheRun) {
    Wire good(3, {.hosts = {"a", "a", "b"}, .local_ranks = {0, 1, 0}});
    good.join();
    EXPECT_TRUE(good.at(2).joined());
    Wire w(3, {.hosts = {"a", "b", "b"}, .local_ranks = {0, 1, 1}});
    w.join();
    for (int r = 0; r < 3; ++r) {
        EXPECT_FALSE(w.at(r).joined());
        EXPECT_TRUE(
            has(w.at(r).cause().text, "rank 1 and rank 2 both have local rank 1 of host b"));
    }
}
TEST(Coordinator, NamesTheRanksThatNeverCame) {
    Wire w(5, {.join_deadline = 10s});
    for (const int r : {0, 2}) w.connect(r);
    w.settle();
    w.pass(10s - 1ns);
    EXPECT_FALSE(w.root.cause().stopped());
    EXPECT_EQ(w.root.next_tick(), 10s);
    w.root.connected(9, w.now);
    w.root.closed(9, w.now, true);
    w.pass(1ns);
    w.settle();
    EXPECT_EQ(w.at(2).cause().reason, Reason::absent);
    EXPECT_EQ(w.at(2).cause().rank, 1);
    const std::string text = w.at(2).cause().text;
    EXPECT_TRUE(has(text, "ranks 1, 3 and 4 of 5 did not come within 10 s")) << text;
    EXPECT_TRUE(has(text, "Refused meanwhile: a connection ended before its Hello was whole"));
    w.connect(4);  // too late
    w.settle();
    EXPECT_EQ(w.at(4).cause().reason, Reason::absent);
}
TEST(Coordinator, AKnownConnectionThatEndsBeforeItsHelloIsALostRank) {
    co::Coordinator root({.run_id = "run", .ranks = 2}, 0s);
    root.connected(1, 0s, 1);
    root.closed(1, 0s);
    EXPECT_EQ(root.cause().reason, Reason::lost);
    EXPECT_EQ(root.cause().rank, 1);
}
TEST(Coordinator, AKnownConnectionIsOfItsRank) {
    co::Coordinator root({.run_id = "run", .ranks = 3}, 0s);
    root.connected(1, 0s, 1);
    root.received(1, co::Hello{.run_id = "run", .rank = 2, .ranks = 3}, 0s);
    EXPECT_TRUE(root.take()[0].close);
}

// ---- Terms -----------------------------------------------------------------------------
const RunTerms terms{.composition = "Trainer<A>",
                     .seed = 3,
                     .options = "batch=4\nscheduler.rate=0.5\n",
                     .ranks = 3,
                     .source = "60000 images"};
/// The cause on all ranks where rank 2 has `its` terms.
std::string differing(const RunTerms& its) {
    Wire w(3);
    w.join();
    for (int r = 2; r >= 0; --r) {
        w.at(r).compare(r == 2 ? its : terms);
        w.settle();
    }
    for (int r = 0; r < 3; ++r) {
        EXPECT_EQ(w.at(r).agreed(), its == terms ? 1 : 0);
        EXPECT_EQ(w.at(r).cause(), w.at(0).cause());
        EXPECT_EQ(w.at(r).cause().rank, its == terms ? -1 : 2);
    }
    return w.at(0).cause().text;
}
TEST(Coordinator, LongTermsAreSaidAroundTheirDifference) {
    RunTerms its = terms;
    its.source = std::string(2000, 'x') + "mine";
    EXPECT_TRUE(has(differing(its), "the data source of rank 2 is 'xxxx")) << "from its begin";
    EXPECT_TRUE(has(differing(its),
                    "... (byte 0 of 2004)', that of rank 0 is '60000 images (byte "
                    "0 of 12)'"))
        << differing(its);
    its = terms;
    its.options =
        "batch=4\nscheduler.rate=0.5" + std::string(2000, '0') + "1" + std::string(50, '0') + "\n";
    EXPECT_LT(differing(its).size(), 1000u);
    EXPECT_TRUE(has(differing(its),
                    "is '0.50000000000000000000000000000000000000000... (byte 3 of "
                    "2054)', that of rank 0 is '0.5 (byte 3 of 3)'"))
        << differing(its);
}
TEST(Coordinator, TermsThatDifferEndTheRunOnAllAndNameBothValues) {
    EXPECT_EQ(differing(terms), "");
    RunTerms its = terms;
    its.composition = "Trainer<B>";
    EXPECT_TRUE(has(differing(its),
                    "the composition of rank 2 is 'Trainer<B>', that of rank 0 is "
                    "'Trainer<A>'"));
    its = terms;
    its.seed = 4;
    EXPECT_TRUE(has(differing(its), "the seed of rank 2 is '4', that of rank 0 is '3'"));
    its = terms;
    its.options = "batch=4\nscheduler.rate=0.25\n";
    EXPECT_TRUE(has(differing(its),
                    "the option scheduler.rate of rank 2 is '0.25', that of rank 0 is '0.5'"));
    its.options = "batch=4\nmomentum=0.9=x\nscheduler.rate=0.5\n";
    EXPECT_TRUE(has(differing(its),
                    "the option momentum of rank 2 is '0.9=x', that of rank 0 is 'not given'"));
    its.options = "batch=4\n";
    EXPECT_TRUE(has(differing(its),
                    "the option scheduler.rate of rank 2 is 'not given', that of rank 0 is '0.5'"));
    its.options = "scheduler.rate=0.5\nbatch=4\n";  // of another program
    EXPECT_TRUE(has(differing(its), "the list of options of rank 2 is 'scheduler.rate"));
    its = terms;
    its.ranks = 4;
    EXPECT_TRUE(has(differing(its), "the number of ranks of rank 2 is '4', that of rank 0 is '3'"));
    its = terms;
    its.source = "59999 images";
    EXPECT_TRUE(has(differing(its),
                    "the data source of rank 2 is '59999 images', that of rank 0 "
                    "is '60000 images'"));
}
TEST(Coordinator, TermsAreComparedAnew) {
    Wire w(2);
    w.join();
    for (int round = 1; round <= 3; ++round) {
        w.at(0).compare(terms);
        w.settle();
        EXPECT_EQ(w.at(0).agreed(), round - 1);
        w.at(1).compare(terms);
        w.settle();
        EXPECT_EQ(w.at(0).agreed(), round);
        EXPECT_EQ(w.at(1).agreed(), round);
    }
}
TEST(Coordinator, ARankThatReturnsWhileOthersCompareEndsTheRun) {
    for (const bool leaves_first : {true, false}) {
        Wire w(3);
        w.join();
        if (leaves_first) w.at(1).leave();
        w.settle();
        w.at(2).compare(terms);
        w.settle();
        if (!leaves_first) w.at(1).leave();
        w.settle();
        EXPECT_TRUE(has(w.at(0).cause().text, "the function of rank 1 has returned without"));
        EXPECT_EQ(w.at(0).cause().rank, 1);
    }
}

// ---- The first cause ---------------------------------------------------------------------
TEST(Coordinator, AStatusThatNoProcessHasIsOne) {
    for (const int status : {0, -1, 256, 1 << 30}) {
        Wire w(2);
        w.join();
        w.root.received(1, co::Failed{status, {}, "it failed"}, w.now);
        w.collect();
        w.settle();
        for (int r = 0; r < 2; ++r) EXPECT_EQ(w.at(r).exit_status(), 1) << status;
    }
}
TEST(Coordinator, AnErrorReachesAllByTextAndRank) {
    Wire w(3);
    w.join();
    w.at(2).working_on({"load", 4});
    w.at(2).fail("disk 7 is full", 23);
    w.settle();
    for (int r = 0; r < 3; ++r)
        EXPECT_EQ(w.at(r).cause(), (Cause{Reason::error, 2, 2, 23, {"load", 4}, "disk 7 is full"}));
    w.at(1).fail("later", 5);
    for (int r = 0; r < 3; ++r) w.at(r).leave();
    w.settle();
    for (int r = 0; r < 3; ++r) {
        EXPECT_TRUE(w.at(r).ended());
        EXPECT_EQ(w.at(r).exit_status(), 23) << "of the first error, on every rank";
    }
    EXPECT_EQ(w.root.error_of(1), "later");
}
TEST(Coordinator, AStopWithoutATextGetsItLater) {
    Wire w(3);
    w.join();
    w.at(1).fail("", 1);
    w.settle();
    EXPECT_EQ(w.at(0).cause().rank, 1);
    w.at(2).fail("not this", 1);
    w.at(1).fail("no space", 4);
    w.settle();
    for (int r = 0; r < 3; ++r) EXPECT_EQ(w.at(r).cause().text, "no space");
}
TEST(Coordinator, AKilledRankIsNamedWithWhatItsObserverDid) {
    Wire w(3);
    w.join();
    w.at(2).working_on({"backward", 6});
    w.root.observe({"all-reduce", 7, 3});
    w.kill(2);
    w.settle();
    for (int r = 0; r < 2; ++r) {
        const Cause& c = w.at(r).cause();
        EXPECT_EQ(c.reason, Reason::lost);
        EXPECT_EQ(c.rank, 2);
        EXPECT_EQ(c.operation, (gx::Operation{"all-reduce", 7, 3}));
        EXPECT_TRUE(has(c.text, "rank 2 (host h, process 102) is lost")) << c.text;
        EXPECT_TRUE(has(c.text, "step 7, bucket 3, operation all-reduce")) << c.text;
    }
}
TEST(Coordinator, ARootThatWasStoppedBlamesNobodyForItsSleep) {
    Wire w(3, {.silence = 20s});
    w.join();
    w.pass(15s);
    w.stands_still(0, 60s);
    w.pass(5s - 1ns);
    EXPECT_FALSE(w.root.cause().stopped()) << w.root.cause().text;
    w.pass(1ns);
    EXPECT_EQ(w.root.cause().reason, Reason::silent) << "they have had the rest of their time";
}
TEST(Coordinator, ASilentRankIsLost) {
    Wire w(3, {.silence = 20s});
    w.join();
    w.at(1).working_on({"forward", 3});
    for (int i = 0; i < 8; ++i) {
        w.pass(5s);
        if (i < 3) w.settle();
        else  // rank 1 hangs: what it sends and gets is stuck
            for (const int r : {0, 2, 0, 2}) {
                while (w.has_up(r)) w.deliver_up(r);
                while (w.has_down(r)) w.deliver_down(r);
            }
        EXPECT_EQ(w.root.cause().stopped(), i >= 6) << i;
    }
    EXPECT_EQ(w.at(2).cause().reason, Reason::silent);
    EXPECT_EQ(w.at(2).cause().rank, 1);
    EXPECT_TRUE(has(w.at(2).cause().text, "nothing was heard of it for 20 s"));
    EXPECT_TRUE(has(w.at(2).cause().text, "its own last report: step 3, operation forward"));
}
TEST(Coordinator, ALongErrorReadsAlikeOnAllRanks) {
    for (const int failed : {0, 1}) {
        Wire w(3);
        w.join();
        w.at(failed).fail(std::string(2 * co::text_bytes_max, 'x') + '\x1b', 1);
        w.settle();
        for (const int r : {0, 1, 2}) {
            EXPECT_EQ(w.at(r).cause().text.size(), co::text_bytes_max) << r;
            EXPECT_EQ(w.at(r).cause(), w.root.cause()) << r;
        }
    }
}
TEST(Coordinator, GarbageOfAMemberIsItsLoss) {
    Wire w(2);
    w.join();
    w.root.malformed(1, "its bytes do not begin as a message of gx", w.now);
    w.settle();
    EXPECT_EQ(w.at(0).cause().rank, 1);
    EXPECT_TRUE(has(w.at(0).cause().text, "do not begin"));
    EXPECT_EQ(w.at(1).cause(), w.at(0).cause()) << "it is told the same";
    Wire v(2);
    v.join();
    v.root.received(1, co::Welcome{}, v.now);
    EXPECT_EQ(v.root.cause().rank, 1) << "what only the root sends";
}
TEST(Coordinator, ARankThatLeftIsNotLost) {
    Wire w(3);
    w.join();
    w.at(1).leave();
    w.settle();
    EXPECT_TRUE(w.at(0).left(1) && w.at(2).left(1) && !w.at(0).left(2));
    w.kill(1);
    w.settle();
    EXPECT_FALSE(w.root.cause().stopped());
    for (const int r : {0, 2}) w.at(r).leave();
    w.settle();
    EXPECT_TRUE(w.at(0).ended() && w.at(2).ended());
    EXPECT_EQ(w.at(2).exit_status(), 0);
}

TEST(Coordinator, TheEndWaitsForEveryRank) {
    for (int last = 0; last < 3; ++last) {
        Wire w(3);
        w.join();
        for (int r = 0; r < 3; ++r)
            if (r != last) w.at(r).leave();
        w.settle();
        EXPECT_FALSE(w.root.ended()) << "rank " << last << " still runs";
        w.at(last).leave();
        w.settle();
        for (int r = 0; r < 3; ++r) EXPECT_TRUE(w.at(r).ended());
    }
}

// ---- Any order of events -----------------------------------------------------------------

/// The first cause by what came to the root, worked out apart from the coordinator. A blame counts
/// once all ranks that have not left have said whom they wait for: at fault is the first rank that
/// waits for none, by steps from the one that blamed first.
struct Oracle {
    explicit Oracle(int ranks)
        : left(std::size_t(ranks)),
          said(std::size_t(ranks)),
          blamed(std::size_t(ranks), -1),
          waits(std::size_t(ranks)) {}

    Reason reason = Reason::none;
    int rank = -1;
    std::vector<int> blamers;
    std::vector<bool> left, said;
    std::vector<int> blamed;
    std::vector<std::vector<co::Wait>> waits;

    void arrives(int r, const Message* m) {
        const auto i = std::size_t(r);
        if (m && std::holds_alternative<co::Leaving>(*m)) left[i] = true;
        if (reason != Reason::none) return;
        if (!m && !left[i]) reason = Reason::lost, rank = r;
        if (m && std::holds_alternative<co::Failed>(*m)) reason = Reason::error, rank = r;
        if (const auto* b = m ? std::get_if<co::Blamed>(m) : nullptr; b && blamed[i] == -1)
            blamed[i] = b->peer, blamers.push_back(r);
        if (const auto* w = m ? std::get_if<co::Waiting>(m) : nullptr; w && !said[i])
            said[i] = true, waits[i] = w->waits;
        if (reason != Reason::none || blamers.empty()) return;
        for (std::size_t k = 0; k < left.size(); ++k)
            if (!left[k] && !said[k]) return;
        judge();
    }

private:
    /// By which it blames, then from the oldest to the youngest.
    std::vector<co::Wait> in_order(std::size_t k, bool blames) const {
        std::vector<co::Wait> all = waits[k];
        const auto rest = [&](const co::Wait& w) {
            return !blames || std::ranges::find(w.peers, blamed[k]) == w.peers.end();
        };
        std::ranges::stable_sort(
            all, [&](const co::Wait& a, const co::Wait& b) { return a.lasted > b.lasted; });
        if (!blames) return all;
        const auto met = std::ranges::find_if_not(all, rest);
        const co::Wait first = met == all.end() ? co::Wait{{blamed[k]}, {}} : *met;
        if (met != all.end()) all.erase(met);
        all.insert(all.begin(), first);
        return all;
    }
    /// Ranks at a distance of 0, 1, ... by first waits; then the oldest wait that is left over.
    void judge() {
        int by = blamers.front();
        for (const int b : std::vector(blamers.rbegin(), blamers.rend()))
            if (!left[std::size_t(b)]) by = b;
        std::vector<std::vector<co::Wait>> edges(left.size());
        for (std::size_t k = 0; k < left.size(); ++k) {
            if (left[k]) waits[k].clear();
            if (!left[k] || int(k) == by) edges[k] = in_order(k, blamed[k] >= 0);
        }
        reason = Reason::late, rank = blamed[std::size_t(by)];
        std::vector<int> seen{by}, level{by};
        for (;;) {
            for (std::vector<int> next; !level.empty(); level = std::exchange(next, {}))
                for (const int waiter : level)
                    if (goes_on(edges, waiter, seen, next)) return;
            int oldest = -1;
            for (const int r : seen)
                if (const auto& e = edges[std::size_t(r)];
                    !e.empty() &&
                    (oldest < 0 || e[0].lasted > edges[std::size_t(oldest)][0].lasted))
                    oldest = r;
            if (oldest < 0) return;
            if (goes_on(edges, oldest, seen, level)) return;
        }
    }
    /// Follows a wait, which then is gone; true: to the end.
    bool goes_on(std::vector<std::vector<co::Wait>>& edges, int waiter, std::vector<int>& seen,
                 std::vector<int>& next) {
        auto& own = edges[std::size_t(waiter)];
        const std::vector<int> peers = own.front().peers;
        own.erase(own.begin());
        for (const int peer : peers) {
            if (left[std::size_t(peer)] ||
                (waits[std::size_t(peer)].empty() && blamed[std::size_t(peer)] == -1)) {
                rank = peer;
                return true;
            }
            if (std::ranges::find(seen, peer) != seen.end()) continue;
            seen.push_back(peer), next.push_back(peer);
        }
        return false;
    }
};

/// One schedule: ranks fail, blame, are killed and leave, and messages move, in a random order.
void all_agree_on_the_first_cause(int ranks, const std::vector<std::pair<int, int>>& schedule) {
    Wire w(ranks);
    w.join();
    Oracle oracle(ranks);
    std::vector<bool> returned(std::size_t(ranks), false);
    const auto deliver_up = [&](int r) {
        const bool ends = w.end(r).up.empty();
        oracle.arrives(r, ends ? nullptr : &w.end(r).up.front());
        w.deliver_up(r);
    };
    for (const auto& [what, which] : schedule) {
        const int r = which % ranks;
        const bool runs = w.end(r).open && !w.end(r).killed && !returned[std::size_t(r)];
        if (what < 4 && w.has_up(r)) deliver_up(r);
        else if (what < 8 && w.has_down(r)) w.deliver_down(r);
        else if (what == 8 && runs) w.at(r).fail("rank " + std::to_string(r) + " fails", 2 + r);
        else if (what == 9 && runs) w.at(r).blame((r + 1) % ranks);
        else if (what == 10 && r != 0) w.kill(r);
        else if (what == 11 && runs) w.at(r).leave(), returned[std::size_t(r)] = true;
        else if (what == 12 && runs)
            w.at(r).waits_for(
                {{{(r + which) % ranks}, which % 3 * 1s},
                 {{(r + 1) % ranks, (r + which / ranks) % ranks}, which % 2 * 1s + 1s}});
        w.collect();
    }
    const auto settle = [&] {
        for (bool moved = true; moved;) {
            moved = false;
            for (int r = 0; r < ranks; ++r) {
                while (w.has_up(r)) deliver_up(r), moved = true;
                while (w.has_down(r)) w.deliver_down(r), moved = true;
            }
        }
    };
    settle();
    RC_ASSERT(w.root.cause().reason == oracle.reason);
    RC_ASSERT(w.root.cause().rank == oracle.rank);
    for (int r = 0; r < ranks; ++r) RC_ASSERT(w.end(r).killed || w.at(r).cause() == w.root.cause());
    for (int r = 0; r < ranks; ++r)  // all functions return, as after a cancelled wait
        if (w.end(r).open && !w.end(r).killed) w.at(r).leave();
    w.collect();
    settle();
    RC_ASSERT(w.root.ended());
    for (int r = 0; r < ranks; ++r) {
        if (w.end(r).killed) continue;
        RC_ASSERT(w.at(r).ended());
        RC_ASSERT((w.at(r).exit_status() == 0) == (oracle.reason == Reason::none));
        RC_ASSERT(w.at(r).exit_status() == w.at(0).exit_status());
        int causes = 0;
        for (const Message& m : w.end(r).got) causes += std::holds_alternative<Cause>(m);
        RC_ASSERT(causes <= 1);
    }
}
TEST(Coordinator, AllAgreeOnTheFirstCauseInAnyOrderOfEvents) {
    EXPECT_TRUE(rc::check([] {
        const int ranks = *rc::gen::inRange(1, 6);
        all_agree_on_the_first_cause(
            ranks, *rc::gen::container<std::vector<std::pair<int, int>>>(
                       rc::gen::pair(rc::gen::inRange(0, 13), rc::gen::inRange(0, 60))));
    }));
}

// ---- Another run ------------------------------------------------------------------------

/// Ranks 0 to 2 of 4; rank 3 is lost, and all have left.
Wire after_a_loss() {
    Wire w(4);
    w.join();
    w.kill(3);
    w.settle();
    for (const int r : {0, 1, 2}) w.at(r).leave();
    w.settle();
    return w;
}
TEST(Coordinator, RegroupsTheRanksThatStay) {
    Wire w = after_a_loss();
    ASSERT_TRUE(w.at(2).ended());
    w.at(2).stay(20);
    w.settle();
    w.root.regroup_by(60s);
    w.at(0).stay(7);
    w.settle();
    EXPECT_EQ(w.at(0).runs(), 1) << "rank 1 has not said whether it stays";
    w.at(1).stay(10);
    w.settle();
    for (const int r : {0, 1, 2}) {
        EXPECT_EQ(w.at(r).runs(), 2);
        EXPECT_EQ(w.at(r).regrouped(), (co::Regrouped{7, {0, 1, 2}})) << "the number of the root";
        EXPECT_TRUE(w.at(r).joined());
        EXPECT_EQ(w.at(r).roster().ranks(), 3);
        EXPECT_FALSE(w.at(r).cause().stopped());
        EXPECT_FALSE(w.at(r).ended());
        EXPECT_EQ(w.at(r).exit_status(), 0);
    }
}
TEST(Coordinator, RanksAreCountedAnewInAnotherRun) {
    Wire w(4);
    w.join();
    w.kill(1);
    w.settle();
    for (const int r : {0, 2, 3}) w.at(r).leave(), w.at(r).stay(r);
    w.settle();
    EXPECT_EQ(w.at(0).regrouped(), (co::Regrouped{0, {0, 2, 3}}));
    EXPECT_EQ(w.at(3).rank(), 2);
    w.at(3).fail("another error", 1);
    w.settle();
    EXPECT_EQ(w.at(2).cause().rank, 2);
    EXPECT_EQ(w.root.error_of(2), "another error");
    EXPECT_TRUE(w.root.error_of(1).empty());
}
TEST(Coordinator, ARankWithoutItsDeviceDoesNotGoOnThoughItSaysSo) {
    for (const bool second : {false, true}) {
        Wire w(4);
        w.join();
        w.at(1).fail("its device is lost", co::device_lost);
        w.settle();
        if (second) w.at(2).fail("its device is lost too", co::device_lost);
        for (const int r : {0, 1, 2, 3}) w.at(r).leave(), w.at(r).stay(0);
        w.settle();
        const std::vector<int> left = second ? std::vector{0, 3} : std::vector{0, 2, 3};
        EXPECT_EQ(w.at(0).regrouped().members, left);
    }
}
TEST(Coordinator, RanksThatAreGoneOrLateAreLeftOut) {
    Wire w = after_a_loss();
    w.root.regroup_by(w.now + 5s);
    EXPECT_EQ(w.root.next_tick(), w.now + 5s);
    w.at(0).stay(0);
    w.settle();
    w.pass(4s);
    w.kill(1);
    w.settle();
    EXPECT_EQ(w.at(0).runs(), 1) << "rank 2 has its second";
    w.pass(1s);
    w.settle();
    EXPECT_EQ(w.at(0).regrouped(), (co::Regrouped{0, {0}}));
    EXPECT_EQ(w.at(2).runs(), 1);
    EXPECT_TRUE(w.end(2).closed_below);
}
TEST(Coordinator, ARootThatStoodStillHearsWhoStaysBeforeItGoesOn) {
    Wire w = after_a_loss();
    w.root.regroup_by(w.now + 5s);
    w.at(0).stay(0);
    w.settle();
    w.pass(4500ms);
    w.now += 60s;
    w.root.stood_still(60s, w.now);
    w.root.tick(w.now);
    w.pass(900ms);
    w.settle();
    EXPECT_EQ(w.at(0).runs(), 1) << "it has 1 s at least";
    w.at(1).stay(0);
    w.settle();
    w.pass(100ms);
    w.settle();
    EXPECT_EQ(w.at(0).regrouped(), (co::Regrouped{0, {0, 1}}));
}
TEST(Coordinator, ARankThatIsLostBeforeItJoinsAgainIsLostInTheNextRun) {
    Wire w = after_a_loss();
    for (const int r : {0, 1, 2}) w.at(r).stay(0);
    w.collect();
    for (const int r : {0, 1, 2}) w.deliver_up(r);
    w.kill(1);
    w.settle();
    for (const int r : {0, 2}) {
        EXPECT_EQ(w.at(r).cause().rank, 1);
        EXPECT_TRUE(w.at(r).cause().is_loss());
        w.at(r).leave();
        w.at(r).stay(3);
    }
    w.settle();
    for (const int r : {0, 2}) EXPECT_EQ(w.at(r).regrouped(), (co::Regrouped{3, {0, 2}}));
    EXPECT_TRUE(w.at(2).joined());
}
/// The root hears of the loss before rank 2 has heard that it goes on.
TEST(Coordinator, ARankThatHasNotHeardOfTheNextRunIsStillInIt) {
    Wire w = after_a_loss();
    for (const int r : {0, 1, 2}) w.at(r).stay(0);
    w.collect();
    for (const int r : {0, 1, 2}) w.deliver_up(r);
    w.kill(1);
    w.deliver_up(1);
    while (w.has_down(0)) w.deliver_down(0);
    EXPECT_EQ(w.at(0).cause().rank, 1);
    w.at(0).leave();
    w.at(0).stay(0);
    w.collect();
    while (w.has_up(0)) w.deliver_up(0);
    while (w.has_down(0)) w.deliver_down(0);
    EXPECT_EQ(w.at(0).runs(), 2);
    w.settle();
    EXPECT_EQ(w.at(2).cause().rank, 1);
    w.at(2).leave();
    w.at(2).stay(0);
    w.settle();
    for (const int r : {0, 2}) EXPECT_EQ(w.at(r).regrouped(), (co::Regrouped{0, {0, 2}}));
}
TEST(Coordinator, ARankThatWasWaitedForAndStaysIsLeftOutOnlyIfNoOtherIs) {
    for (const bool another : {false, true}) {
        Wire w(4);
        w.join();
        w.at(1).blame(2);
        w.settle();
        for (int r = 0; r < 4; ++r) w.at(r).leave();
        w.settle();
        if (another) w.kill(3);
        for (int r = 0; r < 4; ++r) w.at(r).stay(0);
        w.settle();
        EXPECT_EQ(w.at(0).regrouped().members,
                  another ? (std::vector{0, 1, 2}) : (std::vector{0, 1, 3}));
        EXPECT_EQ(w.end(2).closed_below, !another);
    }
}
TEST(Coordinator, NobodyIsLeftOutForARootThatWasWaitedFor) {
    Wire w(2);
    w.join();
    w.at(1).blame(0);
    w.settle();
    for (const int r : {0, 1}) w.at(r).leave(), w.at(r).stay(0);
    w.settle();
    EXPECT_EQ(w.at(1).regrouped().members, (std::vector{0, 1}));
}
TEST(Coordinator, NoRankStaysBehindAnErrorThatIsNoLoss) {
    for (const int status : {1, co::device_lost}) {
        Wire w(3);
        w.join();
        w.at(2).fail("an error", status);
        w.settle();
        for (int r = 0; r < 3; ++r) w.at(r).leave();
        w.settle();
        w.kill(2);
        for (const int r : {0, 1}) w.at(r).stay(0);
        w.settle();
        EXPECT_EQ(w.at(1).runs(), status == 1 ? 1 : 2);
    }
}
TEST(Coordinator, EndsForAllThatAreLeftBeforeItRegroups) {
    Wire w(3);
    w.join();
    w.at(1).blame(2);
    w.settle();
    for (const int r : {0, 1}) w.at(r).leave();
    w.settle();
    EXPECT_FALSE(w.at(1).ended()) << "rank 2 has not left";
    w.root.regroup_by(60s);
    w.settle();
    EXPECT_TRUE(w.at(1).ended());
}
/// One schedule: ranks are lost at any time, stay in any order, and one of them is stuck for a
/// while.
void all_that_are_left_agree(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    const auto draw = [&](int below) { return int(random() % unsigned(below)); };
    constexpr int ranks = 5;
    const int deaths_in_1000 = 1 + draw(10);
    Wire w(ranks);
    w.join();
    std::vector<int> rounds(ranks, 1);  // that each has asked for, and 1
    const auto stays = [&](int r) {
        if (w.end(r).killed || !w.at(r).cause().is_loss()) return false;
        if (rounds[std::size_t(r)] != w.at(r).runs()) return false;
        w.at(r).leave();
        w.at(r).stay(r);
        ++rounds[std::size_t(r)];
        w.collect();
        return true;
    };
    for (int i = 0, stuck = 0; i < 1000; ++i) {
        if (i % 100 == 0) stuck = draw(ranks);
        const int r = draw(ranks), what = draw(3);
        if (r == stuck) continue;
        if (r != 0 && draw(1000) < deaths_in_1000) w.kill(r);
        else if (what == 0 && w.has_up(r)) w.deliver_up(r);
        else if (what == 1 && w.has_down(r)) w.deliver_down(r);
        else if (what == 2) (void)stays(r);
    }
    for (bool moved = true; moved;) {  // all go on as long as there is a loss
        w.settle();
        moved = false;
        for (int r = 0; r < ranks; ++r) moved = stays(r) || moved;
    }
    std::vector<int> left;
    for (int r = 0; r < ranks; ++r)
        if (!w.end(r).killed) left.push_back(r);
    for (const int r : left) {
        ASSERT_FALSE(w.end(r).closed_below) << "rank " << r;
        EXPECT_EQ(w.at(r).regrouped(), w.at(0).regrouped());
        EXPECT_EQ(w.at(r).runs(), w.at(0).runs());
        EXPECT_TRUE(w.at(r).joined() && !w.at(r).cause().stopped() && !w.at(r).ended());
        ASSERT_EQ(w.at(r).roster().ranks(), std::ssize(left));
        EXPECT_EQ(w.at(r).roster().at(w.at(r).rank()).process, 100u + unsigned(r));
    }
}
TEST(Coordinator, AllThatAreLeftAgreeOnWhoTheyAreInAnyOrderOfEvents) {
    for (std::uint64_t seed = 1; seed <= 300 && !HasFailure(); ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        all_that_are_left_agree(seed);
    }
}

}  // namespace
