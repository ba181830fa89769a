// Threads as a transport whose ranks reach one another's memory: share().
#include <gx/threads/threads.hpp>

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <numeric>
#include <thread>
#include <vector>

#include <gx/core/error.hpp>

// ---- What the types promise ---------------------------------------------------------
using Link = std::remove_cvref_t<decltype(std::declval<gx::Threads<2>::Rank&>().transport())>;
static_assert(gx::SharesMemory<Link>);
static_assert(!gx::SharesMemory<gx::archetype::Transport>);

namespace {

using gx::Delivery;
using gx::Threads;
using All = std::span<const std::span<std::byte>>;

std::span<std::byte> bytes(int& x) { return std::as_writable_bytes(std::span(&x, 1)); }
int& number(std::span<std::byte> memory) { return *reinterpret_cast<int*>(memory.data()); }

// ---- Meetings ------------------------------------------------------------------------
TEST(SharedMemory, EveryWorkSeesEveryRanksMemory) {
    Threads<4>{}.run([](auto& rank) {
        int mine = 10 + rank.rank(), sum = 0;
        const Delivery d = rank.transport().share(0, bytes(mine), [&](All all) {
            ASSERT_EQ(all.size(), 4u);
            for (const auto memory : all) sum += number(memory);
        });
        EXPECT_TRUE(d.complete());
        EXPECT_EQ(sum, 10 + 11 + 12 + 13);
    });
}
TEST(SharedMemory, WhatAWorkWritesIsSeenAfterwards) {
    Threads<3>{}.run([](auto& rank) {
        std::array<int, 3> mine{};
        const int me = rank.rank();
        const Delivery d =
            rank.transport().share(0, std::as_writable_bytes(std::span(mine)), [&](All all) {
                for (const auto memory : all) reinterpret_cast<int*>(memory.data())[me] = 100 + me;
            });
        EXPECT_TRUE(d.complete());
        EXPECT_EQ(mine, (std::array{100, 101, 102}));
    });
}
TEST(SharedMemory, NoWorkBeginsBeforeAllHaveComeNorReturnsBeforeAllHaveWorked) {
    constexpr int rounds = 2000, ranks = 4;
    std::atomic<int> come = 0, worked = 0;
    Threads<ranks>{}.run([&](auto& rank) {
        int mine = 0;
        for (int i = 1; i <= rounds; ++i) {
            ++come;
            const Delivery d = rank.transport().share(7, bytes(mine), [&](All) {
                ASSERT_GE(come, ranks * i);
                ++worked;
            });
            ASSERT_TRUE(d.complete());
            ASSERT_GE(worked, ranks * i);
        }
    });
    EXPECT_EQ(worked, ranks * rounds);
}
TEST(SharedMemory, TheLastRankToComeWorksForAll) {
    constexpr int rounds = 2000, ranks = 4;
    std::atomic<int> come = 0, worked = 0;
    Threads<ranks>{}.run([&](auto& rank) {
        for (int i = 1; i <= rounds; ++i) {
            int mine = i + rank.rank();
            const auto work = [&](All all) {
                ASSERT_GE(come, ranks * i);
                int sum = 0;
                for (const auto memory : all) sum += number(memory);
                for (int k = 0; k < 4; ++k) std::this_thread::yield();  // others look meanwhile
                for (const auto memory : all) number(memory) = sum;
                ++worked;
            };
            ++come;
            // In turns with meetings where all work, which count alike.
            const bool by_last = i % 3 != 0;
            auto& link = rank.transport();
            const Delivery d = by_last ? link.share_by_last(7, bytes(mine), work)
                                       : link.share(7, bytes(mine), [](All) {});
            ASSERT_TRUE(d.complete());
            if (by_last) ASSERT_EQ(mine, ranks * i + 0 + 1 + 2 + 3);
            else ASSERT_EQ(mine, i + rank.rank());
        }
    });
    EXPECT_EQ(worked, rounds - rounds / 3);
}
TEST(SharedMemory, AnErrorOfTheLastRankLeavesItsShareAlone) {
    std::atomic<int> threw = 0, complete = 0;
    Threads<3>{}.run([&](auto& rank) {
        int mine = 0;
        try {
            complete += rank.transport()
                            .share_by_last(0, bytes(mine), [](All) { throw gx::Error("no"); })
                            .complete();
        } catch (const gx::Error&) {
            ++threw;
        }
    });
    EXPECT_EQ(threw, 1);
    EXPECT_EQ(complete, 2);
}
TEST(SharedMemory, ChannelsAreIndependent) {
    struct Sharer {
        Link* link;
        int met = 0;
        static void run(void* self, std::uint64_t channel) {
            auto& s = *static_cast<Sharer*>(self);
            int mine = 0;
            for (int i = 0; i < 300; ++i)
                s.met +=
                    s.link->share(static_cast<int>(channel), bytes(mine), [](All) {}).complete();
        }
    };
    Threads<3>{}.run([](auto& rank) {
        Sharer on_stream{&rank.transport()}, on_rank{&rank.transport()};
        const gx::Event e = rank.stream().enqueue({&Sharer::run, &on_stream, 1});
        Sharer::run(&on_rank, 0);
        rank.stream().wait(e);
        EXPECT_EQ(on_stream.met + on_rank.met, 600);
    });
}
TEST(SharedMemory, OneRankMeetsItself) {
    Threads<1>{}.run([](auto& rank) {
        int mine = 3, seen = 0;
        EXPECT_TRUE(rank.transport()
                        .share(0, bytes(mine), [&](All all) { seen = number(all[0]); })
                        .complete());
        EXPECT_EQ(seen, 3);
    });
}

// ---- Faults: nothing hangs, and no work is called ---------------------------------------
template <int N>
void expect_missed(const std::array<Delivery, N>& ended, int lost) {
    int timed_out = 0;
    for (int r = 0; r < N; ++r) {
        if (r == lost) continue;
        EXPECT_FALSE(ended[std::size_t(r)].complete());
        EXPECT_EQ(ended[std::size_t(r)].peer, lost) << "rank " << r;
        timed_out += ended[std::size_t(r)].outcome == Delivery::Outcome::timed_out;
    }
    EXPECT_EQ(timed_out, 1) << "one accuses, the others are cancelled";
}
template <int N>
Delivery share_in_vain(Threads<N>&, auto& rank) {
    int mine = 0;
    return rank.transport().share(0, bytes(mine), [](All) { FAIL() << "not all have come"; });
}
TEST(SharedMemory, ARankThatHasReturnedIsMissedAtOnce) {  // long before the deadline
    std::array<Delivery, 4> ended;
    Threads<4> world({.deadline = std::chrono::hours(10)});
    world.run([&](auto& rank) {
        if (rank.rank() != 2) ended[std::size_t(rank.rank())] = share_in_vain(world, rank);
    });
    expect_missed<4>(ended, 2);
}
TEST(SharedMemory, ARankThatHasReturnedIsMissedWhereTheLastWorksForAll) {
    std::array<Delivery, 4> ended;
    Threads<4> world({.deadline = std::chrono::hours(10)});
    world.run([&](auto& rank) {
        int mine = 0;
        if (rank.rank() != 1)
            ended[std::size_t(rank.rank())] = rank.transport().share_by_last(
                0, bytes(mine), [](All) { FAIL() << "not all have come"; });
    });
    expect_missed<4>(ended, 1);
}
TEST(SharedMemory, ARankThatReturnsAfterAMeetingIsMissedInTheNext) {
    std::array<Delivery, 3> ended;
    Threads<3> world({.deadline = std::chrono::hours(10)});
    world.run([&](auto& rank) {
        int mine = 0;
        EXPECT_TRUE(rank.transport().share(0, bytes(mine), [](All) {}).complete());
        if (rank.rank() != 0) ended[std::size_t(rank.rank())] = share_in_vain(world, rank);
    });
    expect_missed<3>(ended, 0);
}
TEST(SharedMemory, ADeadlineNamesTheRankThatDoesNotCome) {
    std::array<Delivery, 4> ended;
    std::atomic<int> answered = 0;
    Threads<4> world({.deadline = std::chrono::seconds(2)});
    world.run([&](auto& rank) {
        if (rank.rank() == 3) {
            while (answered < 3) std::this_thread::yield();
            return;
        }
        if (rank.rank() == 1) {  // does not come because it waits for rank 3
            int x = 0;
            ended[1] = rank.transport().wait(rank.transport().receive(3, 0, bytes(x)));
        } else {
            ended[std::size_t(rank.rank())] = share_in_vain(world, rank);
        }
        ++answered;
    });
    expect_missed<4>(ended, 3);
}
TEST(SharedMemory, ARankThatThrowsCancelsTheOthers) {
    std::array<Delivery, 4> ended;
    Threads<4> world({.deadline = std::chrono::hours(10)});
    const auto run = [&] {
        world.run([&](auto& rank) {
            if (rank.rank() == 1) throw gx::Error("rank 1 has no disk");
            ended[std::size_t(rank.rank())] = share_in_vain(world, rank);
        });
    };
    EXPECT_THROW(run(), gx::Error);
    for (const std::size_t r : {0u, 2u, 3u}) {
        EXPECT_FALSE(ended[r].complete());
        EXPECT_EQ(ended[r].peer, 1);
    }
}
TEST(SharedMemory, ARankThatIsCancelledWhileItWaitsLeaves) {
    struct Share {
        Link* link;
        Delivery ended{};
        static void run(void* self, std::uint64_t) {
            auto& s = *static_cast<Share*>(self);
            int mine = 0;
            s.ended = s.link->share(0, bytes(mine), [](All) { FAIL() << "not all have come"; });
        }
    };
    std::array<Delivery, 2> ended;
    Threads<3>({.deadline = std::chrono::hours(10)}).run([&](auto& rank) {
        if (rank.rank() == 2) {
            int x = 0;  // alive, and never comes
            EXPECT_FALSE(
                rank.transport().wait(rank.transport().receive(0, 5, bytes(x))).complete());
            return;
        }
        Share share{&rank.transport()};
        const gx::Event e = rank.stream().enqueue({&Share::run, &share, 0});
        if (rank.rank() == 0) rank.stream().cancel();
        rank.stream().wait(e);
        ended[std::size_t(rank.rank())] = share.ended;
    });
    for (const Delivery& d : ended) EXPECT_EQ(d.outcome, Delivery::Outcome::cancelled);
}
TEST(SharedMemory, WhenAllHaveComeNoStopTakesMemoryFromUnderAWork) {
    for (int i = 0; i < 50; ++i) {
        std::atomic<int> working = 0;
        std::atomic<bool> stopped = false;
        std::array<Delivery, 3> ended;
        Threads<3>{}.run([&](auto& rank) {
            auto mine = std::make_unique<int>(rank.rank());  // gone when this rank returns
            ended[std::size_t(rank.rank())] = rank.transport().share(0, bytes(*mine), [&](All all) {
                ++working;
                if (rank.rank() == 0) {
                    rank.stream().cancel();
                    stopped = true;
                }
                while (rank.rank() == 2 && (!stopped || working < 3)) std::this_thread::yield();
                for (int turn = 0; turn < 100; ++turn) {
                    EXPECT_EQ(number(all[0]) + number(all[1]) + number(all[2]), 3);
                    std::this_thread::yield();
                }
            });
            mine.reset();
            int x = 0;
            EXPECT_FALSE(
                rank.transport().share(0, bytes(x), [](All) { FAIL() << "stopped"; }).complete());
        });
        for (const Delivery& d : ended) EXPECT_TRUE(d.complete()) << "all had come";
    }
}
TEST(SharedMemory, AnExceptionOfAWorkLeavesAfterTheOthersHaveWorked) {
    std::array<Delivery, 3> ended;
    std::atomic<int> worked = 0;
    const auto run = [&] {
        Threads<3>{}.run([&](auto& rank) {
            int mine = 0;
            ended[std::size_t(rank.rank())] = rank.transport().share(0, bytes(mine), [&](All) {
                ++worked;
                if (rank.rank() == 1) throw gx::Error("a work failed");
            });
            EXPECT_EQ(worked, 3);
        });
    };
    EXPECT_THROW(run(), gx::Error);
    EXPECT_EQ(worked, 3);
    EXPECT_TRUE(ended[0].complete() && ended[2].complete());
}

TEST(SharedMemoryDeathTest, BucketsInAnotherOrderAreNamed) {
    const auto share = [](bool by_last) {
        Threads<2>{}.run([&](auto& rank) {
            int mine = 0;
            auto link = rank.transport().in_operation({"all-reduce", 7, rank.rank()});
            if (by_last) (void)link.share_by_last(0, bytes(mine), [](All) {});
            else (void)link.share(0, bytes(mine), [](All) {});
        });
    };
    for (const bool by_last : {false, true})
        EXPECT_DEATH(share(by_last),
                     "rank . shares memory in bucket (0|1) of step 7 where rank . shares it in "
                     "bucket (0|1) of step 7, on channel 0: .*same order");
}

}  // namespace
