#include <gx/threads/threads.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include <gx/core/error.hpp>
#include <gx/reducer/pipeline.hpp>
#include <gx/reducer/ring.hpp>

// ---- What the type promises ---------------------------------------------------------
static_assert(gx::World<gx::Threads<1>> && gx::World<gx::Threads<8>>);
static_assert(!gx::TrainingWorld<gx::Threads<2>>, "without a device it only communicates");
static_assert(gx::TrainingWorld<gx::Threads<2, gx::archetype::Device>>);

namespace {

using gx::Delivery;
using gx::Request;
using gx::Threads;

template <class T>
std::span<const std::byte> out(const T& x) {
    return std::as_bytes(std::span(&x, 1));
}
template <class T>
std::span<std::byte> in(T& x) {
    return std::as_writable_bytes(std::span(&x, 1));
}

// ---- Messages ------------------------------------------------------------------------
TEST(Threads, EveryRankRunsOnce) {
    std::array<std::atomic<int>, 8> calls{};
    Threads<8>{}.run([&](auto& rank) {
        EXPECT_EQ(rank.ranks(), 8);
        ++calls[static_cast<std::size_t>(rank.rank())];
    });
    for (const auto& c : calls) EXPECT_EQ(c, 1);
}

TEST(Threads, AnyOrderOfWaitsWillDo) {
    for (const bool send_first : {true, false})
        Threads<3>{}.run([&](auto& rank) {
            auto& link = rank.transport();
            const int mine = rank.rank(), next = (mine + 1) % 3, previous = (mine + 2) % 3;
            int got = -1;
            const Request s = link.send(next, 0, out(mine)), r = link.receive(previous, 0, in(got));
            EXPECT_TRUE(link.wait(send_first ? s : r).complete());
            EXPECT_TRUE(link.wait(send_first ? r : s).complete());
            EXPECT_EQ(got, previous);
        });
}

TEST(Threads, ARankMayWriteToItself) {
    Threads<1>{}.run([](auto& rank) {
        const int mine = 7;
        int got = 0;
        const Request s = rank.transport().send(0, 3, out(mine)),
                      r = rank.transport().receive(0, 3, in(got));
        EXPECT_TRUE(rank.transport().wait(r).complete());
        EXPECT_TRUE(rank.transport().wait(s).complete());
        EXPECT_EQ(got, 7);
    });
}

/// Rank 0 posts `count` messages on channels it draws; rank 1 receives each channel in order.
void channels_keep_their_order(const std::vector<int>& channels) {
    std::vector<int> got(channels.size(), -1);
    Threads<2>{}.run([&](auto& rank) {
        std::vector<int> numbers(channels.size());
        std::iota(numbers.begin(), numbers.end(), 0);
        std::vector<Request> requests;
        std::vector<std::size_t> order(channels.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        if (rank.rank() == 1)  // receives by channel, so in another order than they are sent
            std::sort(order.begin(), order.end(), [&](auto a, auto b) {
                return std::pair(channels[a], a) < std::pair(channels[b], b);
            });
        for (const std::size_t i : order)
            requests.push_back(rank.rank() == 0
                                   ? rank.transport().send(1, channels[i], out(numbers[i]))
                                   : rank.transport().receive(0, channels[i], in(got[i])));
        while (!requests.empty()) {
            const gx::Arrival a = rank.transport().wait_any(requests);
            ASSERT_TRUE(a.delivery.complete());
            requests.erase(requests.begin() + static_cast<std::ptrdiff_t>(a.index));
        }
    });
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], static_cast<int>(i));
}
RC_GTEST_PROP(Threads, ChannelsAreIndependentAndInOrder, ()) {
    channels_keep_their_order(*rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 5)));
}

TEST(Threads, RunsAgainAfterItHasStopped) {
    Threads<2> world;
    int x = 0;
    world.run([&](auto& rank) {
        if (rank.rank() == 1) return;
        EXPECT_FALSE(rank.transport().wait(rank.transport().receive(1, 0, in(x))).complete());
    });
    std::atomic<int> completed = 0;
    world.run([&](auto& rank) {
        int y = 5;
        const Request r = rank.rank() == 0 ? rank.transport().receive(1, 0, in(x))
                                           : rank.transport().send(0, 0, out(y));
        completed += rank.transport().wait(r).complete();
    });
    EXPECT_EQ(completed, 2);
    EXPECT_EQ(x, 5);
}

// ---- The communication stream ----------------------------------------------------------
struct Log {
    std::vector<std::uint64_t> arguments;
    static void append(void* log, std::uint64_t argument) {
        static_cast<Log*>(log)->arguments.push_back(argument);
    }
};

TEST(Threads, StreamsRunTasksInOrderBesideTheRank) {
    Threads<2>{}.run([](auto& rank) {
        Log log;
        gx::Event last;
        for (std::uint64_t i = 0; i < 5000; ++i)
            last = rank.stream().enqueue({&Log::append, &log, i});  // more than its queue
        rank.stream().wait(last);
        ASSERT_EQ(log.arguments.size(), 5000u);
        for (std::uint64_t i = 0; i < 5000; ++i) ASSERT_EQ(log.arguments[i], i);
        rank.stream().wait({});  // an event before the first is always reached
    });
}

TEST(Threads, WhatIsQueuedIsDoneWhenRunReturns) {
    std::array<Log, 3> logs;
    Threads<3>{}.run([&](auto& rank) {
        rank.stream().enqueue({&Log::append, &logs[static_cast<std::size_t>(rank.rank())], 1});
    });
    for (const Log& log : logs) EXPECT_EQ(log.arguments.size(), 1u);
}

TEST(Threads, RankAndStreamMayTalkAtOnce) {
    struct Ping {
        gx::detail::threads::Endpoint* link;
        int rounds_done = 0;
        static void run(void* self, std::uint64_t channel) {
            auto& p = *static_cast<Ping*>(self);
            const int peer = 1 - p.link->rank();
            for (int i = 0; i < 200; ++i) {
                int got = -1;
                const Request s = p.link->send(peer, static_cast<int>(channel), out(i));
                const Request r = p.link->receive(peer, static_cast<int>(channel), in(got));
                if (p.link->wait(s).complete() && p.link->wait(r).complete() && got == i)
                    ++p.rounds_done;
            }
        }
    };
    Threads<2>{}.run([](auto& rank) {
        Ping on_stream{&rank.transport()}, on_rank{&rank.transport()};
        const gx::Event e = rank.stream().enqueue({&Ping::run, &on_stream, 1});
        Ping::run(&on_rank, 0);
        rank.stream().wait(e);
        EXPECT_EQ(on_stream.rounds_done, 200);
        EXPECT_EQ(on_rank.rounds_done, 200);
    });
}

// ---- Options ---------------------------------------------------------------------------
TEST(Threads, OnStartRunsFirstOnBothThreadsOfARank) {
    std::array<std::atomic<int>, 4> started{};
    Threads<4> world({.on_start = [&](int rank) { ++started[static_cast<std::size_t>(rank)]; }});
    world.run([&](auto& rank) { EXPECT_GE(started[static_cast<std::size_t>(rank.rank())], 1); });
    for (const auto& s : started) EXPECT_EQ(s, 2);
}

TEST(Threads, IsPlacedAsItIsTold) {
    const Threads<6> world({.placement = {3, 2}});
    EXPECT_EQ(world.placement(), (gx::Placement{3, 2}));
    EXPECT_DEATH(Threads<6>({.placement = {3, 3}}), "holds N ranks");
}

// ---- Faults ----------------------------------------------------------------------------
TEST(Threads, TheFirstErrorIsToldAndAllOthersAreCancelled) {
    std::array<Delivery, 4> answers;
    const auto run = [&] {
        Threads<4>{}.run([&](auto& rank) {
            if (rank.rank() == 2) throw gx::Error("rank 2 has no disk");
            int x = 0;
            answers[static_cast<std::size_t>(rank.rank())] =
                rank.transport().wait(rank.transport().receive(2, 0, in(x)));
            throw gx::Error("a later error");
        });
    };
    try {
        run();
        FAIL() << "run() must throw";
    } catch (const gx::Error& e) {
        EXPECT_STREQ(e.what(), "rank 2 has no disk");
    }
    for (const int r : {0, 1, 3}) {
        EXPECT_EQ(answers[static_cast<std::size_t>(r)].outcome, Delivery::Outcome::cancelled);
        EXPECT_EQ(answers[static_cast<std::size_t>(r)].peer, 2);
    }
}

TEST(Threads, ATaskThatThrowsStopsTheWorld) {
    const auto run = [] {
        Threads<2>{}.run([](auto& rank) {
            if (rank.rank() == 1)
                rank.stream().enqueue(
                    {[](void*, std::uint64_t) { throw gx::Error("a task failed"); }, nullptr, 0});
            int x = 0;
            EXPECT_FALSE(rank.transport()
                             .wait(rank.transport().receive(1 - rank.rank(), 0, in(x)))
                             .complete());
        });
    };
    EXPECT_THROW(run(), gx::Error);
}

TEST(Threads, ARankThatHasReturnedIsMissedAtOnce) {  // long before the deadline
    std::array<Delivery, 3> answers;
    Threads<3>({.deadline = std::chrono::hours(10)}).run([&](auto& rank) {
        int x = 0;
        if (rank.rank() == 1) return;
        answers[static_cast<std::size_t>(rank.rank())] =
            rank.transport().wait(rank.transport().receive(rank.rank() == 0 ? 2 : 1, 0, in(x)));
    });
    // Rank 0 needs rank 1 too: whichever of the two waits finds it first ends the other.
    const bool second = answers[2].outcome == Delivery::Outcome::timed_out;
    EXPECT_EQ(answers[second ? 2 : 0].outcome, Delivery::Outcome::timed_out);
    EXPECT_EQ(answers[second ? 0 : 2].outcome, Delivery::Outcome::cancelled);
    EXPECT_EQ(answers[0].peer, 1);
    EXPECT_EQ(answers[2].peer, 1);
}

// As the trees of DoubleTree: each of two ranks waits for the lost one and for the other.
TEST(Threads, ARankThatHasReturnedIsMissedAtOnceByWaitsForAnyOfSeveral) {
    std::array<Delivery, 3> answers;
    Threads<3>({.deadline = std::chrono::nanoseconds::max()}).run([&](auto& rank) {
        if (rank.rank() == 2) return;
        int x = 0, y = 0;
        auto& link = rank.transport();
        const int other = 1 - rank.rank();
        std::array<Request, 2> waiting{link.receive(2, rank.rank(), in(x)),
                                       link.receive(other, other, in(y))};
        auto& answer = answers[static_cast<std::size_t>(rank.rank())];
        const gx::Arrival first = link.wait_any(waiting);
        answer = first.delivery;
        EXPECT_FALSE(link.wait(waiting[1 - first.index]).complete());
    });
    EXPECT_EQ(answers[0].peer, 2);
    EXPECT_EQ(answers[1].peer, 2);
    EXPECT_FALSE(answers[0].complete() || answers[1].complete());
}
TEST(Threads, WhatMayStillComeIsWaitedForThoughARankHasReturned) {
    for (int i = 0; i < 100; ++i)
        Threads<3>({.deadline = std::chrono::nanoseconds::max()}).run([&](auto& rank) {
            auto& link = rank.transport();
            int x = 0, y = 0;
            if (rank.rank() == 2) return;
            if (rank.rank() == 1) {  // it comes to channel 1 behind channel 5
                EXPECT_TRUE(link.wait(link.receive(0, 5, in(x))).complete());
                EXPECT_TRUE(link.wait(link.send(0, 1, out(x))).complete());
                EXPECT_TRUE(link.wait(link.send(0, 0, out(x))).complete());
                return;
            }
            auto sends = [&link, mine = 7]() {
                EXPECT_TRUE(link.wait(link.send(1, 5, out(mine))).complete());
            };
            rank.stream().enqueue(
                {[](void* self, std::uint64_t) { (*static_cast<decltype(sends)*>(self))(); },
                 &sends, 0});
            std::array<Request, 2> waiting{link.receive(2, 0, in(x)), link.receive(1, 1, in(y))};
            const gx::Arrival first = link.wait_any(waiting);
            EXPECT_TRUE(first.delivery.complete());
            EXPECT_EQ(first.index, 1u);
            EXPECT_EQ(y, 7);
            EXPECT_TRUE(link.wait(link.receive(1, 0, in(y))).complete());
            EXPECT_FALSE(link.wait(waiting[0]).complete());
        });
}

TEST(Threads, ADeadlineNamesTheRankThatWaitsForNobody) {
    std::array<Delivery, 4> answers;
    std::atomic<int> answered = 0;
    Threads<4>({.deadline = std::chrono::seconds(2)}).run([&](auto& rank) {
        int x = 0;
        if (rank.rank() == 3) {  // alive, and never sends: 0 waits for 1, 1 for 2, 2 for 3
            while (answered < 3) std::this_thread::yield();
            return;
        }
        answers[static_cast<std::size_t>(rank.rank())] =
            rank.transport().wait(rank.transport().receive(rank.rank() + 1, 0, in(x)));
        ++answered;
    });
    int timed_out = 0;
    for (const int r : {0, 1, 2}) {
        EXPECT_EQ(answers[static_cast<std::size_t>(r)].peer, 3) << "rank " << r;
        timed_out += answers[static_cast<std::size_t>(r)].outcome == Delivery::Outcome::timed_out;
    }
    EXPECT_EQ(timed_out, 1) << "one accuses, the others are cancelled";
}

TEST(Threads, ADeadlockEndsAtTheDeadline) {
    std::array<Delivery, 2> answers;
    Threads<2>({.deadline = std::chrono::milliseconds(20)}).run([&](auto& rank) {
        int x = 0;
        answers[static_cast<std::size_t>(rank.rank())] =
            rank.transport().wait(rank.transport().receive(1 - rank.rank(), 0, in(x)));
    });
    EXPECT_FALSE(answers[0].complete());
    EXPECT_FALSE(answers[1].complete());
}

TEST(Threads, RefusesADeadlineThatEndsEveryWait) {
    for (const int ns : {0, -1}) {
        try {
            Threads<2> world({.deadline = std::chrono::nanoseconds(ns)});
            FAIL() << ns;
        } catch (const gx::Error& e) {
            EXPECT_EQ(std::string(e.what()),
                      "deadline is " + std::to_string(ns) +
                          " ns: it ends every wait at once; give the longest time that a message "
                          "may take");
        }
    }
}
TEST(Threads, RefusesAPlacementWithoutRanksOrOfTooMany) {
    const auto refusal = [](gx::Placement p) {
        try {
            const gx::ThreadWorld<> world({.placement = p});
        } catch (const gx::Error& e) {
            return std::string(e.what());
        }
        return std::string();
    };
    EXPECT_EQ(refusal({-1, -2}),
              "placement.machines is -1: a world has at least 1 machine with 1 rank");
    EXPECT_EQ(refusal({2, 0}),
              "placement.ranks_per_machine is 0: a world has at least 1 machine with 1 rank");
    EXPECT_EQ(refusal({65536, 65536}),
              "placement has 65536 machines of 65536 ranks: at most 2147483647 ranks are counted");
    EXPECT_EQ(refusal({2, 3}), "");
    const int one[]{0};
    const gx::NodeMap none, uneven{.node = one};
    EXPECT_EQ(refusal({1, 0, &none}),
              "placement.nodes names machines of 0 ranks, and places on them of 0: give both of "
              "each rank, and at least 1 rank");
    EXPECT_EQ(refusal({1, 0, &uneven}).find("placement.nodes names machines of 1 ranks"), 0u);
    const int nodes[]{0, 1, 1}, on_a_third[]{0, 1, 2}, nowhere[]{0, 1, -1}, locals[]{0, 0, 1},
        twice[]{0, 0, 0};
    const gx::NodeMap good{nodes, locals}, far{on_a_third, locals}, lost{nowhere, locals},
        same{nodes, twice};
    EXPECT_EQ(refusal({2, 0, &good}), "");
    EXPECT_EQ(refusal({0, 0, &good}).find("placement.machines is 0: "), 0u);
    EXPECT_EQ(refusal({2, 0, &far}),
              "placement.nodes: rank 2 is on machine 2 of 2: machines count "
              "from 0, and placement.machines counts them");
    EXPECT_EQ(refusal({2, 0, &lost}).find("placement.nodes: rank 2 is on machine -1 of 2"), 0u);
    EXPECT_EQ(refusal({2, 0, &same}),
              "placement.nodes: rank 2 is local rank 0 of machine 1, which "
              "has 1 lower ranks: a local rank is their number");
}
TEST(ThreadsDeathTest, EventsOfAnotherStreamBreakTheContract) {
    gx::Event theirs[2];
    const auto wait_for = [&](auto choose) {
        Threads<2>{}.run([&](auto& rank) {
            const int r = rank.rank();
            theirs[r] = rank.stream().enqueue({[](void*, std::uint64_t) {}, nullptr, 0});
            int x = r, y = 0;  // both have queued
            auto& link = rank.transport();
            (void)link.send(1 - r, 0, out(x));
            (void)link.wait(link.receive(1 - r, 0, in(y)));
            rank.stream().wait(choose(r));
        });
    };
    EXPECT_DEATH(wait_for([&](int r) { return theirs[1 - r]; }), "not of this stream");
    EXPECT_DEATH(
        wait_for([&](int r) { return gx::Event{theirs[r].sequence + 1, theirs[r].stream}; }),
        "not of this stream");
    wait_for([&](int r) { return theirs[r]; });
}
TEST(Threads, AnEndlessDeadlineEndsNoWait) {
    using std::chrono::nanoseconds;
    for (const auto deadline : {nanoseconds::max(), nanoseconds::max() - nanoseconds(1)})
        Threads<2>({.deadline = deadline}).run([](auto& rank) {
            auto& link = rank.transport();
            int x = rank.rank();
            for (int i = 0; i < 100; ++i)
                EXPECT_TRUE(link.wait(rank.rank() == 0 ? link.send(1, 0, out(x))
                                                       : link.receive(0, 0, in(x)))
                                .complete());
        });
}
TEST(ThreadsDeathTest, WrongMessagesBreakTheContract) {
    EXPECT_DEATH(Threads<1>{}.run([](auto& rank) { (void)rank.transport().send(1, 0, {}); }),
                 "no rank of this world");
    EXPECT_DEATH(Threads<1>{}.run([](auto& rank) {
        int a = 0;
        char b = 0;
        (void)rank.transport().send(0, 0, out(a));
        (void)rank.transport().receive(0, 0, in(b));
    }),
                 "rank 0 sends 4 bytes where rank 0 receives 1, on channel 0: .* equal lengths");
    EXPECT_DEATH(Threads<2>{}.run([](auto& rank) {
        std::vector<float> gradient(12, 1.0f);  // buckets of 8 and 4, on rank 1 of 4 and 8
        const std::size_t first = rank.rank() == 0 ? 8 : 4;
        gx::Ring<gx::fp32> reducer;
        reducer.reserve(gx::ReducePlan::whole({1, 2}, 12));
        const std::span all(gradient);
        for (const auto bucket : {all.first(first), all.subspan(first)})
            (void)reducer.all_reduce(rank.transport(), gx::Bucket(bucket));
    }),
                 "rank . sends (16|8) bytes where rank . receives (16|8), on channel 0: .* "
                 "Reduce the same buckets in the same order on every rank");
}

// ---- Buckets ---------------------------------------------------------------------------

/// Two buckets of one length; rank 1 begins with the other one than rank 0 if `swapped`.
void reduce_two_buckets(bool swapped) {
    Threads<2>{}.run([&](auto& rank) {
        gx::Ring<gx::fp32> reducer;
        reducer.reserve(gx::ReducePlan::whole({1, 2}, 8));
        std::vector<float> gradient(16, static_cast<float>(rank.rank()));
        for (int i = 0; i < 2; ++i) {
            const int b = swapped && rank.rank() == 1 ? 1 - i : i;
            const gx::Bucket bucket(std::span<float>(gradient).subspan(8 * std::size_t(b), 8));
            auto link = gx::in_operation(rank.transport(), {"all-reduce", 7, b});
            ASSERT_TRUE(reducer.all_reduce(link, bucket).complete());
        }
        for (const float x : gradient) EXPECT_EQ(x, 0.5f);
    });
}
TEST(ThreadsDeathTest, BucketsInAnotherOrderAreNamed) {
    reduce_two_buckets(false);
    EXPECT_DEATH(reduce_two_buckets(true),
                 "rank . sends bucket (0|1) of step 7 where rank . receives bucket (0|1) of step "
                 "7, on channel 0: .* Reduce the same buckets in the same order on every rank");
}
TEST(ThreadsDeathTest, APipelineThatIsAStepAheadIsNamed) {
    EXPECT_DEATH(Threads<2>{}.run([](auto& rank) {
        gx::PipelineOn<gx::Ring<>, std::remove_cvref_t<decltype(rank)>> pipeline(
            rank.stream(), rank.transport(), {.elements = 8}, {});
        const auto t = static_cast<std::uint64_t>(rank.rank());
        if (t > 0) pipeline.restore(t, {});
        (void)pipeline.begin(t);
        pipeline.ready(0);
        (void)pipeline.collect(t);
    }),
                 "rank . sends bucket 0 of step (0|1) where rank . receives bucket 0 of step "
                 "(0|1), on channel 0");
}
TEST(Threads, MessagesOfNoBucketMeetThoseOfEach) {
    Threads<2>{}.run([](auto& rank) {
        int x = 0;
        auto link = gx::in_operation(rank.transport(), {"all-reduce", 7, 3});
        const Request r =
            rank.rank() == 0 ? link.send(1, 0, out(x)) : rank.transport().receive(0, 0, in(x));
        EXPECT_TRUE(rank.transport().wait(r).complete());
    });
}

}  // namespace
