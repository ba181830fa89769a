#include <gx/testing/processes.hpp>

#include <signal.h>    // raise
#include <sys/wait.h>  // waitpid
#include <unistd.h>    // getpid, _exit

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gx/core/device.hpp>         // archetype
#include <gx/core/error.hpp>          // Error, LostRank
#include <gx/memory/buffer.hpp>       // Buffer, shared_buffers
#include <support/run_checked.hpp>    // run_checked
#include <testing/processes_run.hpp>  // Shared, open_descriptors, sentence_of

// ---- What the type promises ---------------------------------------------------------
static_assert(gx::World<gx::testing::Processes<1>> && gx::World<gx::testing::Processes<8>>);
static_assert(!gx::TrainingWorld<gx::testing::Processes<2>>, "without a device");
static_assert(gx::TrainingWorld<gx::testing::Processes<2, gx::archetype::Device>>);

namespace {

using namespace testing_support;
using gx::Delivery;
using gx::Request;
using gx::testing::Processes;

template <class T>
std::span<const std::byte> out(const T& x) {
    return std::as_bytes(std::span(&x, 1));
}
template <class T>
std::span<std::byte> in(T& x) {
    return std::as_writable_bytes(std::span(&x, 1));
}
/// Waits for a message that never comes.
template <class Rank>
Delivery wait_for(Rank& rank, int peer) {
    int x = 0;
    return rank.transport().wait(rank.transport().receive(peer, 0, in(x)));
}
class ProcessesTest : public WithProcesses {};

// ---- Ranks and messages -------------------------------------------------------------
TEST_F(ProcessesTest, EveryRankIsAProcessOfItsOwnAndRankZeroIsTheCaller) {
    const Shared<std::array<pid_t, 4>> pids;
    int mine = 0;
    Processes<4> world;
    run_checked(world, [&](auto& rank) {
        (*pids)[static_cast<std::size_t>(rank.rank())] = getpid();
        EXPECT_EQ(rank.ranks(), 4);
        mine += rank.rank() + 1;
    });
    EXPECT_EQ((*pids)[0], getpid());
    EXPECT_EQ(std::set<pid_t>(pids->begin(), pids->end()).size(), 4u);
    EXPECT_EQ(mine, 1) << "memory of the children is their own";
}
TEST_F(ProcessesTest, MessagesGoAround) {
    const Shared<std::array<int, 4>> got;
    Processes<4> world;
    for (int run = 0; run < 3; ++run) {  // a world runs again
        got->fill(-1);
        run_checked(world, [&](auto& rank) {
            auto& link = rank.transport();
            const int me = rank.rank();
            int& from = (*got)[static_cast<std::size_t>(me)];
            const Request r = link.receive((me + 3) % 4, 5, in(from));
            EXPECT_TRUE(link.wait(link.send((me + 1) % 4, 5, out(me))).complete());
            EXPECT_TRUE(link.wait(r).complete());
        });
        EXPECT_EQ(*got, (std::array{3, 0, 1, 2}));
    }
}
TEST_F(ProcessesTest, StreamAndRankTalkAtOnceAndQueuedWorkIsDone) {
    struct Talk {
        gx::coordination::MeshEndpoint* link;
        bool good = true;
        static void run(void* self, std::uint64_t channel) {
            auto& t = *static_cast<Talk*>(self);
            const int peer = 1 - t.link->rank();
            for (int i = 0; i < 100; ++i) {
                int got = -1;
                const Request s = t.link->send(peer, static_cast<int>(channel), out(i));
                const Request r = t.link->receive(peer, static_cast<int>(channel), in(got));
                const bool complete =
                    t.link->wait(r).complete() && t.link->wait(s).complete() && got == i;
                t.good = t.good && complete;
            }
        }
    };
    const Shared<std::array<int, 2>> good;
    Processes<2> world;
    run_checked(world, [&](auto& rank) {
        Talk on_stream{&rank.transport()}, here{&rank.transport()};
        const gx::Event done = rank.stream().enqueue({&Talk::run, &on_stream, 0});
        Talk::run(&here, gx::control_channel);
        rank.stream().wait(done);
        (*good)[static_cast<std::size_t>(rank.rank())] = on_stream.good && here.good;
    });
    EXPECT_EQ(*good, (std::array{1, 1}));
}

// ---- Memory that ranks share ----------------------------------------------------------
using All = std::span<const std::span<std::byte>>;
int& number(std::span<std::byte> memory, std::size_t i = 0) {
    return reinterpret_cast<int*>(memory.data())[i];
}
using ProcessesShare = ProcessesTest;

TEST_F(ProcessesShare, EveryWorkSeesAndWritesEveryRanksMemoryWhereverItLies) {
    constexpr int ranks = 3, rounds = 300;
    Processes<ranks> world;
    run_checked(world, [&](auto& rank) {
        auto& link = rank.transport();
        ASSERT_TRUE(link.shares_memory());
        gx::Buffer<int> inside(gx::shared_buffers(link), 5000, "inside");
        std::vector<int> outside(5000);
        const auto me = static_cast<std::size_t>(rank.rank());
        for (int round = 0; round < rounds; ++round) {
            // Lengths and places change, on two channels; a rank alone may be outside.
            const bool in_place = (round + rank.rank()) % 3 != 0;
            const std::span<int> all_mine = in_place ? inside.view() : std::span(outside);
            const auto mine = all_mine.subspan(static_cast<std::size_t>(round % 7),
                                               static_cast<std::size_t>(4 + 16 * round));
            std::ranges::fill(mine, 100 * round + rank.rank());
            int sum = 0;
            const Delivery d = link.share(round % 2, std::as_writable_bytes(mine), [&](All all) {
                ASSERT_EQ(all.size(), std::size_t(ranks));
                for (const auto memory : all) {
                    ASSERT_EQ(memory.size(), mine.size_bytes());
                    sum += number(memory, mine.size() - 1);
                    number(memory, me) = -rank.rank() - 1;
                }
            });
            ASSERT_TRUE(d.complete());
            ASSERT_EQ(sum, 300 * round + 3);
            for (int r = 0; r < ranks; ++r) ASSERT_EQ(mine[std::size_t(r)], -r - 1);
        }
    });
}
TEST_F(ProcessesShare, TheLastRankToComeWorksForAll) {
    constexpr int ranks = 3, rounds = 300;
    Processes<ranks> world;
    run_checked(world, [&](auto& rank) {
        auto& link = rank.transport();
        gx::Buffer<int> inside(gx::shared_buffers(link), 4, "inside");
        std::vector<int> outside(4);
        for (int i = 0; i < rounds; ++i) {
            const bool in_place = (i + rank.rank()) % 3 != 0, by_last = i % 4 != 0;
            const std::span<int> mine = in_place ? inside.view() : std::span(outside);
            mine[0] = i + rank.rank();
            const auto work = [&](All all) {
                int sum = 0;
                for (const auto memory : all) sum += number(memory);
                for (const auto memory : all) number(memory) = sum;
            };
            const auto bytes = std::as_writable_bytes(mine);
            const Delivery d =
                by_last ? link.share_by_last(0, bytes, work) : link.share(0, bytes, [](All) {});
            ASSERT_TRUE(d.complete());
            ASSERT_EQ(mine[0], by_last ? ranks * i + 0 + 1 + 2 : i + rank.rank());
        }
    });
}
TEST_F(ProcessesShare, ARankThatIsKilledWhileItWorksForAllIsNamed) {
    const Shared<std::array<Delivery, 3>> seen;
    const std::string text = error_of_run([&] {
        Processes<3>({.deadline = std::chrono::hours(1)}).run([&](auto& rank) {
            Delivery& d = (*seen)[static_cast<std::size_t>(rank.rank())];
            int mine = 0;
            do {  // until one is last that is not this process, rank 0
                d = rank.transport().share_by_last(0, in(mine), [&](All) {
                    if (rank.rank() != 0) raise(SIGKILL);
                });
            } while (d.complete());
        });
    });
    const int killed = text.starts_with("rank 1") ? 1 : 2;
    EXPECT_TRUE(text.starts_with("rank " + std::to_string(killed) + " was killed by signal 9"))
        << text;
    for (const int r : {0, 3 - killed}) {
        EXPECT_EQ((*seen)[std::size_t(r)].outcome, Delivery::Outcome::lost);
        EXPECT_EQ((*seen)[std::size_t(r)].peer, killed);
    }
}
TEST_F(ProcessesShare, MemoryThatIsUsedAgainIsZeroAndAPartHasAnEnd) {
    Processes<2> world;
    run_checked(world, [&](auto& rank) {
        gx::MemoryResource* const memory = gx::shared_buffers(rank.transport());
        for (const int count : {1000, 700'000, 10}) {
            gx::Buffer<int> a(memory, count, "a"), b(memory, count, "b");
            EXPECT_GE(std::abs(b.view().data() - a.view().data()), count);
            for (const int x : a.view()) ASSERT_EQ(x, 0);
            for (const int x : b.view()) ASSERT_EQ(x, 0);
            std::ranges::fill(a.view(), 1), std::ranges::fill(b.view(), 2);
        }
        const std::string text = error_of_run(
            [&] { (void)gx::Buffer<char>(memory, std::int64_t{1} << 60, "too much"); });
        EXPECT_NE(text.find("no room for the 1152921504606846976 bytes of 'too much'"), text.npos)
            << text;
    });
}
/// Rank 2 does not come: it has left, is killed, throws, or waits; the others' works do not run.
TEST_F(ProcessesShare, ARankThatDoesNotComeIsNamed) {
    enum Way { leaves, dies, throws, waits };
    using Case = std::pair<Way, bool>;
    for (const Case& one : {Case{leaves, false}, Case{dies, false}, Case{throws, false},
                            Case{waits, false}, Case{dies, true}, Case{waits, true}}) {
        const auto way = one.first;
        const bool by_last = one.second;
        const Shared<std::array<Delivery, 3>> seen;
        const auto deadline = std::chrono::milliseconds(way == waits ? 1000 : 3'600'000);
        (void)error_of_run([&] {
            Processes<3>({.deadline = deadline}).run([&](auto& rank) {
                int mine = 0;
                const auto share = [&, last = by_last](auto work) {
                    auto& link = rank.transport();
                    return last ? link.share_by_last(0, in(mine), work)
                                : link.share(0, in(mine), work);
                };
                EXPECT_TRUE(share([](All) {}).complete());
                if (rank.rank() == 2 && way == dies) raise(SIGKILL);
                if (rank.rank() == 2 && way == throws) throw gx::Error("not today");
                if (rank.rank() == 2 && way == waits) (void)wait_for(rank, 2);
                if (rank.rank() != 2)
                    (*seen)[static_cast<std::size_t>(rank.rank())] =
                        share([](All) { ADD_FAILURE() << "not all have come"; });
            });
        });
        for (const std::size_t r : {0u, 1u}) {
            EXPECT_FALSE((*seen)[r].complete()) << "way " << way;
            EXPECT_EQ((*seen)[r].peer, 2) << "way " << way;
            EXPECT_EQ((*seen)[r].outcome == Delivery::Outcome::cancelled, way == throws) << way;
        }
    }
}
TEST_F(ProcessesShare, ARankThatIsKilledWhileItWorksIsNamed) {
    const Shared<std::array<Delivery, 3>> seen;
    const std::string text = error_of_run([&] {
        Processes<3>({.deadline = std::chrono::hours(1)}).run([&](auto& rank) {
            int mine = 0;
            rank.transport().working_on({"all-reduce", 7, 3});
            (*seen)[static_cast<std::size_t>(rank.rank())] =
                rank.transport().share(0, in(mine), [&](All) {
                    if (rank.rank() == 1) raise(SIGKILL);
                });
        });
    });
    EXPECT_TRUE(text.starts_with("rank 1 was killed by signal 9")) << text;
    EXPECT_NE(text.find("step 7, bucket 3, operation all-reduce"), text.npos) << text;
    for (const std::size_t r : {0u, 2u}) {
        EXPECT_EQ((*seen)[r].outcome, Delivery::Outcome::lost);
        EXPECT_EQ((*seen)[r].peer, 1);
    }
}
TEST_F(ProcessesShare, AnExceptionOfAWorkLeavesAfterTheOthersHaveWorked) {
    const Shared<std::array<std::atomic<int>, 1>> worked;
    const std::string text = error_of_run([&] {
        Processes<3>{}.run([&](auto& rank) {
            int mine = 0;
            try {
                (void)rank.transport().share(0, in(mine), [&](All) {
                    ++(*worked)[0];
                    if (rank.rank() == 1) throw gx::Error("a work failed");
                });
            } catch (...) {
                EXPECT_EQ((*worked)[0], 3);
                throw;
            }
        });
    });
    EXPECT_NE(text.find("a work failed"), text.npos) << text;
}

// ---- Errors -------------------------------------------------------------------------
TEST_F(ProcessesTest, AnErrorOfAChildIsThrownByRunAndCancelsTheOthers) {
    const Shared<std::array<Delivery, 3>> seen;
    const std::string text = error_of_run([&] {
        Processes<3>{}.run([&](auto& rank) {
            if (rank.rank() == 2) throw gx::Error("disk 7 is full");
            const Delivery d = wait_for(rank, 1 - rank.rank());
            (*seen)[static_cast<std::size_t>(rank.rank())] = d;
            if (!d.complete()) throw gx::LostRank({.rank = rank.rank()}, d);
        });
    });
    EXPECT_EQ(text, "disk 7 is full");
    for (const std::size_t r : {0u, 1u}) {
        EXPECT_EQ((*seen)[r].outcome, Delivery::Outcome::cancelled);
        EXPECT_EQ((*seen)[r].peer, 2);
    }
}
TEST_F(ProcessesTest, AnErrorOfTheRootKeepsItsType) {
    struct Mine {
        int value;
    };
    try {
        Processes<3>{}.run([](auto& rank) {
            if (rank.rank() == 0) throw Mine{4};
            if (!wait_for(rank, 0).complete()) throw gx::Error("a later error");
        });
        FAIL();
    } catch (const Mine& m) {
        EXPECT_EQ(m.value, 4);
    }
}
TEST_F(ProcessesTest, AnErrorOnAStreamStopsTheRun) {
    struct Bad {
        static void run(void*, std::uint64_t) { throw gx::Error("a task failed"); }
    };
    EXPECT_EQ(error_of_run([] {
                  Processes<2>{}.run([](auto& rank) {
                      if (rank.rank() == 1) rank.stream().enqueue({&Bad::run, nullptr, 0});
                      else (void)wait_for(rank, 1);
                  });
              }),
              "a task failed");
}
TEST_F(ProcessesTest, AKilledChildIsNamed) {
    const Shared<std::array<Delivery, 4>> seen;
    const std::string text = error_of_run([&] {
        Processes<4>{}.run([&](auto& rank) {
            if (rank.rank() == 2) raise(SIGKILL);
            (*seen)[static_cast<std::size_t>(rank.rank())] = wait_for(rank, 2);
        });
    });
    EXPECT_TRUE(text.starts_with("rank 2 was killed by signal 9")) << text;
    for (const std::size_t r : {0u, 1u, 3u}) {
        EXPECT_EQ((*seen)[r].outcome, Delivery::Outcome::lost);
        EXPECT_EQ((*seen)[r].peer, 2);
    }
}
TEST_F(ProcessesTest, AKilledChildIsNamedWithWhatTheRootDid) {
    const std::string text = error_of_run([&] {
        Processes<3>{}.run([&](auto& rank) {
            auto& link = rank.transport();
            int x = 0;
            if (rank.rank() == 0) {
                link.working_on({"all-reduce", 7, 3});
                (void)link.wait(link.send(2, 0, out(x)));
            }
            if (rank.rank() == 2 && link.wait(link.receive(0, 0, in(x))).complete()) raise(SIGKILL);
            (void)wait_for(rank, 2);
        });
    });
    EXPECT_TRUE(text.starts_with("rank 2 was killed by signal 9")) << text;
    EXPECT_NE(text.find("noticed by rank 0 in step 7, bucket 3, operation all-reduce"), text.npos)
        << text;
}
TEST_F(ProcessesTest, AChildThatExitsIsNamed) {
    const std::string text = error_of_run([&] {
        Processes<2>{}.run([&](auto& rank) {
            if (rank.rank() == 1) _exit(7);
        });
    });
    EXPECT_TRUE(text.starts_with("rank 1 ended with exit status 7")) << text;
}
TEST_F(ProcessesTest, AChildThatHangsIsKilledAndNamed) {
    const std::string text = error_of_run([&] {
        Processes<3>({.deadline = std::chrono::milliseconds(50)}).run([&](auto& rank) {
            if (rank.rank() == 1)
                for (;;) pause();
        });
    });
    EXPECT_TRUE(text.starts_with("rank 1 had not returned")) << text;
}
// Rank 2 waits for rank 1, and rank 0 for rank 2: who is blamed first is a race.
TEST_F(ProcessesTest, AStoppedChildIsNamedWhereItsNeighbourWasBlamed) {
    const std::string text = error_of_run([&] {
        Processes<3>({.deadline = std::chrono::milliseconds(50)}).run([&](auto& rank) {
            if (rank.rank() == 1) raise(SIGSTOP);
            const Delivery d = wait_for(rank, rank.rank() == 0 ? 2 : 1);
            throw gx::LostRank({.rank = rank.rank()}, d);
        });
    });
    EXPECT_TRUE(text.starts_with("rank 1 had not returned")) << text;
}
TEST_F(ProcessesTest, AnExpectationThatFailsInAChildReachesTheTest) {
    const std::string text = error_of_run([&] {
        Processes<2> world;
        run_checked(world, [&](auto& rank) { EXPECT_NE(rank.rank(), 1) << "planted"; });
    });
    EXPECT_NE(text.find("rank 1 failed"), text.npos) << text;
    EXPECT_NE(text.find("planted"), text.npos) << text;
}
TEST_F(ProcessesTest, ADeadlineIsAboveZero) {
    EXPECT_EQ(
        error_of_run([] { Processes<2>({.deadline = std::chrono::nanoseconds(0)}); }).substr(0, 16),
        "deadline is 0 ns");
}

// ---- What a run leaves --------------------------------------------------------------
TEST_F(ProcessesTest, NothingIsFlushedTwice) {
    std::FILE* file = std::tmpfile();
    std::fputs("once", file);  // in the buffer when the children are forked
    Processes<4>{}.run([](auto&) {});
    std::fflush(file);
    std::fseek(file, 0, SEEK_END);
    EXPECT_EQ(std::ftell(file), 4);
    std::fclose(file);
}
TEST_F(ProcessesTest, NoProcessAndNoDescriptorIsLeft) {
    const int before = open_descriptors();
    for (const int bad : {-1, 0, 1, 3}) {
        (void)error_of_run([&] {
            Processes<4>{}.run([&](auto& rank) {
                if (rank.rank() == bad) throw gx::Error("bad");
                if (bad == 3 && rank.rank() == 2) raise(SIGKILL);
            });
        });
        EXPECT_EQ(open_descriptors(), before);
        EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
        EXPECT_EQ(errno, ECHILD);
    }
}
// The child of this test is a root that dies; its children live on as orphans of this process.
TEST_F(ProcessesTest, ChildrenOfADeadRootEnd) {
    adopt_orphans();
    const Shared<std::array<std::atomic<int>, 3>> named;
    const pid_t root = fork();
    if (root == 0) {
        Processes<3>({.deadline = std::chrono::milliseconds(200)}).run([&](auto& rank) {
            const auto r = static_cast<std::size_t>(rank.rank());
            if (rank.rank() == 0) raise(SIGKILL);
            (*named)[r] = 1 + wait_for(rank, 0).peer;
            if (rank.rank() == 2)
                for (;;) pause();
        });
        _exit(0);
    }
    int ended = 0;
    while (waitpid(-1, nullptr, 0) > 0) ++ended;
    EXPECT_EQ(ended, 3);
    EXPECT_EQ((*named)[1], 1) << "names rank 0";
    EXPECT_EQ((*named)[2], 1);
}

// ---- Several runs of the same processes ---------------------------------------------------

using ForkedProcesses = WithProcesses;
TEST_F(ForkedProcesses, KeepWhatTheyHaveInMemoryBetweenRuns) {
    const Shared<std::array<int, 3>> seen;
    Processes<3> world;
    world.in_each_process([&](auto& here) {
        int mine = 0;  // of this process
        for (int i = 0; i < 4; ++i) here.run([&](auto& rank) { mine += 1 + rank.rank(); });
        (*seen)[std::size_t(here.first_local_rank())] = mine;
    });
    EXPECT_EQ(*seen, (std::array{4, 8, 12}));
}
/// Rank 0 waits for rank 1, and rank 1 for rank 2, which is killed: that is what both are told.
TEST_F(ForkedProcesses, ARankThatWaitsForAnotherLearnsWhoIsLost) {
    const Shared<std::array<Delivery, 3>> told;
    Processes<3> world({.deadline = std::chrono::hours(1)});
    (void)error_of_run([&] {
        world.in_each_process([&](auto& here) {
            try {
                here.run([](auto& rank) {
                    const int r = rank.rank();
                    if (r == 2) raise(SIGKILL);
                    int x = 0;
                    auto& link = rank.transport();
                    const Delivery d = link.wait(link.receive(r + 1, 0, in(x)));
                    throw gx::LostRank({.rank = r, .operation = "waiting"}, d);
                });
            } catch (const gx::LostRank& e) {
                (*told)[std::size_t(here.first_local_rank())] = e.delivery();
                throw;
            }
        });
    });
    for (const std::size_t r : {0u, 1u}) {
        EXPECT_EQ((*told)[r].outcome, Delivery::Outcome::lost) << r;
        EXPECT_EQ((*told)[r].peer, 2) << r;
    }
}
/// Rank 2 stops behind its run, and its connection stays. Rank 1 computes meanwhile.
TEST_F(ForkedProcesses, AChildThatIsStoppedBehindTheRunIsKilledAlone) {
    int goes_on[2], computed[2];
    ASSERT_EQ(::pipe(goes_on) | ::pipe(computed), 0);
    Processes<3> world({.deadline = std::chrono::milliseconds(500)});
    const std::string error = error_of_run([&] {
        world.in_each_process([&](auto& here) {
            const int me = here.first_local_rank();
            here.run([&](auto&) {
                siginfo_t stopped{};
                if (me == 0) (void)::waitid(P_ALL, 0, &stopped, WSTOPPED | WNOWAIT);
                if (me != 2) return;
                std::thread([] {
                    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // it has returned
                    raise(SIGSTOP);
                }).detach();
            });
            char c = 'x';
            if (me == 0) (void)!::write(goes_on[1], &c, 1);
            if (me == 1 && ::read(goes_on[0], &c, 1) == 1) (void)!::write(computed[1], &c, 1);
        });
    });
    EXPECT_NE(error.find("rank 2 was killed by signal 9"), error.npos) << error;
    ::close(computed[1]);
    char c = 0;
    EXPECT_EQ(::read(computed[0], &c, 1), 1) << "rank 1 was killed too";
    for (const int fd : {goes_on[0], goes_on[1], computed[0]}) ::close(fd);
}
TEST_F(ForkedProcesses, AChildThatFailsBehindTheRunIsNamed) {
    Processes<3> world;
    const auto end = [&](auto f) {
        return error_of_run([&] {
            world.in_each_process([&](auto& here) {
                here.run([](auto&) {});
                if (here.first_local_rank() == 1) f();
            });
        });
    };
    EXPECT_EQ(end([] { ::_exit(3); }),
              "rank 1 ended with exit status 3; see what it wrote to stderr");
    EXPECT_EQ(end([] { raise(SIGKILL); }),
              "rank 1 was killed by signal 9; see what it wrote to stderr");
    EXPECT_EQ(end([] {}), "");
}
TEST_F(ForkedProcesses, AProcessThatWaitsForAnotherRunEndsWithTheRoot) {
    Processes<3> world;
    world.in_each_process([&](auto& here) {
        if (here.first_local_rank() == 0) return;
        EXPECT_NE(error_of_run([&] {
                      for (;;) here.run([](auto&) {});
                  }),
                  "");
        ::_exit(0);
    });
}

TEST(ProcessesDeathTest, BucketsInAnotherOrderAreNamed) {
    const auto share = [] {
        const std::string error = error_of_run([] {
            Processes<2>{}.run([](auto& rank) {
                int mine = 0;
                auto link = rank.transport().in_operation({"all-reduce", 7, rank.rank()});
                (void)link.share(0, std::as_writable_bytes(std::span(&mine, 1)), [](auto) {});
            });
        });
        EXPECT_NE(error, "");  // of a child that has aborted; rank 0 may be the one that does
        std::abort();
    };
    EXPECT_DEATH(share(),
                 "rank . shares memory in bucket (0|1) of step 7 where rank . shares it in bucket "
                 "(0|1) of step 7, on channel 0: .*same order");
}
TEST(Processes, RefusesAPlacementWithoutRanks) {
    for (const int machines : {0, -2}) try {
            const gx::testing::ProcessWorld<> world({.placement = {machines, 1}});
            FAIL() << machines;
        } catch (const gx::Error& e) {
            EXPECT_EQ(std::string(e.what()), "placement.machines is " + std::to_string(machines) +
                                                 ": a world has at least 1 machine with 1 rank");
        }
}

}  // namespace
