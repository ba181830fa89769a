// Ranks as processes over NCCL's double: the bits of threads; who is named where one fails or dies.
#include <gx/nccl/launched_world.hpp>

#include <sys/wait.h>  // waitpid
#include <unistd.h>    // alarm, fork

#include <array>
#include <atomic>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <gx/cuda_testing/host_computed.hpp>
#include <gx/nccl/all_reduce.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/testing/rows.hpp>
#include <gx/testing/worlds.hpp>  // OnThreads, reduce_jobs
#include <gx/top_k/reducer.hpp>
#include <gx/trainer/monitor/stop_request.hpp>
#include <gx/trainer/trainer.hpp>
#include <trainer/small.hpp>

#include "launched.hpp"

namespace {

using namespace testing_support;
using namespace gx;
using cuda_testing::HostComputed;
using cuda_testing::StreamProgress;
using nccl::LaunchedOptions;
using nccl_tests::Ended;
using nccl_tests::launch;
using nccl_tests::LaunchSetup;
using Gpus = nccl::LaunchedWorld<HostComputed<reference::Device>>;
using LaunchedWorld = WithProcesses;
using View = ViewIn<float, cuda::GpuMemory>;

static_assert(explain_training_world<Gpus>() && SpansProcesses<Gpus> && Shrinks<Gpus>);

void expect_no_errors(const Ended& ended) {
    for (const std::string& text : ended.errors) EXPECT_EQ(text, "");
    for (const int signal : ended.signals) EXPECT_EQ(signal, 0);
}
/// The mean of `row` over the ranks, by the reducer R.
template <class R>
std::vector<float> reduce(auto& rank, std::vector<float> row, Delivery* seen = nullptr) {
    Buffer<float> b(&rank.memory(), std::int64_t(row.size()), "gradient");
    R reducer;
    ReducePlan plan = ReducePlan::whole(rank.transport().placement(), std::int64_t(row.size()));
    plan.memory = &rank.memory();
    reducer.reserve(plan);
    const View v = b.template view<cuda::GpuMemory>();
    rank.stream().copy_in(std::span<const float>(row), v, {"in"});
    (void)reducer.all_reduce(rank.transport(), BucketIn<cuda::GpuMemory>(v));
    rank.stream().copy_out(ViewIn<const float, cuda::GpuMemory>(v), std::span(row), {"out"});
    const Delivery done = rank.stream().wait(rank.stream().record());
    if (seen != nullptr) *seen = done;
    if (!done.complete()) throw LostRank({.rank = rank.rank(), .operation = "reducing"}, done);
    return row;
}

// ---- Reductions --------------------------------------------------------------------------------

template <class R>
class OverProcesses : public WithProcesses {};
using Reducers = ::testing::Types<Ring<fp32>, MultiRing<2, fp16>, Bucketed<Ring<bf16>, 64>>;
TYPED_TEST_SUITE(OverProcesses, Reducers);

TYPED_TEST(OverProcesses, BitsAreThoseOfThreads) {
    for (const auto progress :
         {StreamProgress::late, StreamProgress::eager, StreamProgress::random}) {
        const auto rows = gx::testing::wide_magnitudes(7, 3, 97);
        const auto expected =
            gx::testing::reduce_jobs<TypeParam>(gx::testing::OnThreads{}, Placement{1, 3}, {rows})
                .rows[0];
        expect_no_errors(launch(3, {.progress = progress}, [&](const LaunchedOptions& o) {
            nccl::LaunchedWorld<> world(o);
            const auto r = static_cast<std::size_t>(o.launch.rank);
            world.run([&](auto& rank) {
                EXPECT_EQ(rank.gpu().device(), rank.rank());
                EXPECT_EQ((reduce<TypeParam>(rank, rows[r])), expected[r]);
            });
        }));
    }
}
TEST_F(LaunchedWorld, AllRanksEndWithTheBitsOfOneNcclAllReduce) {
    const Shared<std::array<std::array<float, 50>, 3>> ends;
    expect_no_errors(launch(3, {}, [&](const LaunchedOptions& o) {
        nccl::LaunchedWorld<> world(o);
        world.run([&](auto& rank) {
            const auto r = static_cast<std::size_t>(rank.rank());
            const auto rows = gx::testing::wide_magnitudes(3, 3, 50);
            const auto got = reduce<nccl::AllReduce<fp16>>(rank, rows[r]);
            std::ranges::copy(got, (*ends)[r].begin());
        });
    }));
    EXPECT_EQ((*ends)[0], (*ends)[1]);
    EXPECT_EQ((*ends)[0], (*ends)[2]);
    EXPECT_NE((*ends)[0], (std::array<float, 50>{}));
}
/// A signal that one process gets stops all behind one step, with a checkpoint.
TEST_F(LaunchedWorld, StopsWhereOneProcessIsAsked) {
    using T = Trainer<Net, DoubleBuffered<Ring<fp32>>, Constant>;
    const testing_support::Folder folder;
    const Shared<std::array<std::int64_t, 3>> steps;
    T::Options o{.batch = 4, .epochs = 200, .output = folder.path, .evaluate = false};
    expect_no_errors(launch(3, {}, [&](const LaunchedOptions& l) {
        Gpus world(l);
        StopRequest request;
        if (l.launch.rank == 2) request.ask();
        T::Options mine = o;
        mine.stop = &request;
        try {
            (void)T(mine).train(world, images());
        } catch (const Stopped& e) {
            (*steps)[static_cast<std::size_t>(l.launch.rank)] = e.step();
        }
    }));
    EXPECT_EQ(*steps, (std::array<std::int64_t, 3>{1, 1, 1}));
    EXPECT_TRUE(std::filesystem::exists(folder / "step-00000001.safetensors"));
}
TEST_F(LaunchedWorld, RunsFollowEachOther) {
    expect_no_errors(launch(2, {}, [&](const LaunchedOptions& o) {
        nccl::LaunchedWorld<> world(o);
        for (int run = 0; run < 3; ++run)
            world.run([&](auto& rank) {
                const float x = static_cast<float>(rank.rank() + run);
                EXPECT_EQ((reduce<Ring<fp32>>(rank, {x}))[0], static_cast<float>(run) + 0.5f);
            });
    }));
}
/// It returns from the rank's function, or throws there: neither CUDA nor NCCL is its own.
TEST_F(LaunchedWorld, AChildOfARankEndsWhereItLeavesIt) {
    expect_no_errors(launch(2, {}, [&](const LaunchedOptions& o) {
        nccl::LaunchedWorld<> world(o);
        for (const bool throws : {false, true})
            world.run([&](auto& rank) {
                const pid_t child = ::fork();
                if (child == 0) {
                    (void)::alarm(20);
                    if (throws) throw Error("a child can't go on");
                    return;
                }
                int status = 0;
                (void)::waitpid(child, &status, 0);
                if (!WIFEXITED(status) || WEXITSTATUS(status) != int(throws))
                    throw Error("its child ended by " + std::to_string(status));
                (void)reduce<Ring<fp32>>(rank, {1, 2, 3});
            });
    }));
}
/// Larger than a datagram of the double, both ways at once.
TEST_F(LaunchedWorld, ReducesMuch) {
    expect_no_errors(launch(2, {}, [&](const LaunchedOptions& o) {
        nccl::LaunchedWorld<> world(o);
        world.run([&](auto& rank) {
            const std::vector<float> row(300'000, static_cast<float>(2 * rank.rank()));
            EXPECT_EQ((reduce<Ring<fp32>>(rank, row)), std::vector<float>(300'000, 1.0f));
        });
    }));
}
TEST_F(LaunchedWorld, SplitsIntoGroupsThatReduceByThemselves) {
    expect_no_errors(launch(4, {}, [&](const LaunchedOptions& o) {
        nccl::LaunchedWorld<> world(o);
        world.run([&](auto& rank) {
            const int r = rank.rank();
            nccl::Transport& half = rank.transport().split(r % 2, -r);  // 2, 0 and 3, 1
            EXPECT_EQ(half.ranks(), 2);
            EXPECT_EQ(half.rank(), 1 - r / 2);
            Buffer<float> b(&rank.memory(), 1, "value");
            std::vector<float> here{float(r)};
            const View v = b.template view<cuda::GpuMemory>();
            rank.stream().copy_in(std::span<const float>(here), v, {"in"});
            (void)half.template all_reduce<fp32>(v);
            rank.stream().copy_out(ViewIn<const float, cuda::GpuMemory>(v), std::span(here),
                                   {"out"});
            EXPECT_TRUE(rank.stream().wait(rank.stream().record()).complete());
            EXPECT_EQ(here[0], r % 2 == 0 ? 2.0f : 4.0f);
        });
    }));
}
TEST_F(LaunchedWorld, NodesAreHostsOfAnySize) {
    expect_no_errors(launch(
        3, {.nodes = {"a", "b", "b"}, .first_bus = {1, 3, 3}}, [&](const LaunchedOptions& o) {
            nccl::LaunchedWorld<> world(o);
            EXPECT_EQ(world.first_local_rank(), o.launch.rank);
            EXPECT_EQ(world.ranks(), 3);
            EXPECT_FALSE(world.placement().regular());
            for (const int r : {0, 1, 2}) EXPECT_EQ(world.placement().node_of(r), r == 0 ? 0 : 1);
            world.run([&](auto& rank) {
                EXPECT_EQ(rank.gpu().device(), rank.rank() == 2 ? 1 : 0);
                EXPECT_EQ((reduce<Ring<fp32>>(rank, {float(rank.rank())}))[0], 1.0f);
            });
        }));
}

// ---- Training ----------------------------------------------------------------------------------

template <class R>
class TrainingProcesses : public WithProcesses {};
using Trained = ::testing::Types<Ring<fp32>, DoubleBuffered<MultiRing<2, fp16>>, TopK>;
TYPED_TEST_SUITE(TrainingProcesses, Trained);

TYPED_TEST(TrainingProcesses, WeightsAndCheckpointsAreThoseOfThreads) {
    using T = Trainer<Net, TypeParam, Warmup<Poly<2>>>;
    const Split data = images();
    typename T::Options o{.batch = 3, .epochs = 2, .seed = 3};
    auto wall = threads(3);
    const RunRecord expected = T(o).train(wall, data);
    const Folder folder;
    std::ofstream(folder / "file") << "a file is no folder";
    const LaunchSetup setup{.nodes = {"a", "b", "c"}, .first_bus = {1, 2, 3}};  // as threads(3)
    expect_no_errors(launch(3, setup, [&](const LaunchedOptions& launched) {
        auto mine = o;
        mine.output = launched.launch.rank == 0 ? folder / "out" : folder / "file/no";
        Gpus world(launched);
        expect_same_learning(T(mine).train(world, data), expected);
    }));
    o.resume = folder / "out/epoch-0001.safetensors";
    expect_same_learning(T(o).train(wall, data), expected);
    expect_no_errors(launch(3, setup, [&](const LaunchedOptions& launched) {
        Gpus world(launched);
        expect_same_learning(T(o).train(world, data), expected);
    }));
}

// ---- Failures ----------------------------------------------------------------------------------

/// A device whose rank does something in a step.
std::function<void(int rank, int step)> in_step;
struct Failing : HostComputed<reference::Device> {
    Failing(cuda::DeviceContext& gpu, const Graph& graph, const DeviceOptions& o)
        : HostComputed(gpu, graph, o), rank(o.rank) {}
    void forward(Mode mode, View<ForwardReport> report) {
        if (mode == Mode::train) in_step(rank, step++);
        HostComputed::forward(mode, report);
    }
    int rank, step = 0;
};
using Plain = Trainer<Net, Bucketed<Ring<fp32>, 64>, Warmup<Poly<2>>>;

Ended train(int ranks, const LaunchSetup& setup, std::function<void(int, int)> action) {
    in_step = std::move(action);
    const Split data = images();
    return launch(ranks, setup, [&](const LaunchedOptions& launched) {
        nccl::LaunchedWorld<Failing> world(launched);
        (void)Plain({.batch = 3, .epochs = 2, .seed = 3}).train(world, data);
    });
}
TEST_F(LaunchedWorld, AKilledProcessIsNamedByAllOthers) {
    for (const int lost : {0, 1, 2}) {
        const Ended ended = train(3, {}, [=](int rank, int step) {
            if (rank == lost && step == 4) ::raise(SIGKILL);
        });
        for (int r = 0; r < 3; ++r) {
            const std::string& text = ended.errors[static_cast<std::size_t>(r)];
            EXPECT_EQ(ended.signals[static_cast<std::size_t>(r)], r == lost ? SIGKILL : 0) << text;
            if (r == lost) continue;
            EXPECT_TRUE(holds(text, "rank " + std::to_string(r) + ", step ", ", bucket ",
                              "operation ", ": rank " + std::to_string(lost) + " "))
                << text;
        }
    }
}
TEST_F(LaunchedWorld, AProcessThatThrowsStopsAllWithItsError) {
    const Ended ended = train(3, {}, [](int rank, int step) {
        if (rank == 1 && step == 3) throw Error("the disk of rank 1 is full");
    });
    EXPECT_EQ(ended.errors[1], "the disk of rank 1 is full");
    for (const int r : {0, 2})
        EXPECT_TRUE(holds(ended.errors[static_cast<std::size_t>(r)], "the disk of rank 1 is full",
                          "Rank " + std::to_string(r) + " was stopped in "));
}
TEST_F(LaunchedWorld, AProcessThatLeavesBeforeItRunsStopsAllOthers) {
    for (const int leaving : {0, 1}) {
        const Ended ended = launch(3, {}, [&](const LaunchedOptions& o) {
            Gpus world(o);
            if (o.launch.rank == leaving) throw Error("no data");
            world.run([](auto&) {});
        });
        for (int r = 0; r < 3; ++r)
            EXPECT_TRUE(holds(ended.errors[static_cast<std::size_t>(r)],
                              r == leaving ? "no data"
                                           : "rank " + std::to_string(leaving) +
                                                 " on host a left before run(): look at its own "
                                                 "error"));
    }
}
TEST_F(LaunchedWorld, AProcessThatNeverRunsIsNamedByAllOthers) {
    const Shared<std::atomic<int>> ended_others;
    constexpr auto two_seconds = std::chrono::seconds(2);
    const Ended ended = launch(3, {.deadline = two_seconds, .join_deadline = two_seconds},
                               [&](const LaunchedOptions& o) {
                                   Gpus world(o);
                                   while (o.launch.rank == 1 && *ended_others < 2)
                                       std::this_thread::yield();
                                   try {
                                       world.run([](auto&) {});
                                   } catch (const Error&) {
                                       ++*ended_others;
                                       throw;
                                   }
                               });
    for (const int r : {0, 2})
        EXPECT_TRUE(holds(ended.errors[static_cast<std::size_t>(r)], "rank 1",
                          "waiting for each rank's run()"))
            << ended.errors[static_cast<std::size_t>(r)];
}
/// It goes on elsewhere, and has not come to the messages that the others wait for.
TEST_F(LaunchedWorld, AProcessThatHangsIsNamedByAllOthers) {
    const Split data = images();
    for (const int hangs : {0, 1}) {
        const Shared<std::atomic<int>> ended_others;
        in_step = [&](int rank, int step) {
            while (rank == hangs && step == 4 && *ended_others < 2) std::this_thread::yield();
        };
        const Ended ended =
            launch(3, {.deadline = std::chrono::seconds(2)}, [&](const LaunchedOptions& launched) {
                nccl::LaunchedWorld<Failing> world(launched);
                try {
                    (void)Plain({.batch = 3, .epochs = 2}).train(world, data);
                } catch (const LostRank&) {
                    ++*ended_others;
                    throw;
                }
            });
        for (const int r : {0, 1, 2})
            EXPECT_TRUE(r == hangs ||
                        holds(ended.errors[static_cast<std::size_t>(r)], ", step 4, bucket ",
                              "operation ", ": rank " + std::to_string(hangs) + " timed out"));
    }
}
TEST_F(LaunchedWorld, MessagesOfUnequalLengthsAreNamedOnBothSides) {
    const Ended ended = launch(2, {}, [](const LaunchedOptions& o) {
        nccl::LaunchedWorld<> world(o);
        std::string misuse;
        try {
            world.run([&](auto& rank) {
                Buffer<std::byte> b(&rank.memory(), 8, "bytes");
                const auto v = b.template view<cuda::GpuMemory>();
                const QueuedMessage<cuda::GpuMemory> message[]{
                    rank.rank() == 0 ? QueuedMessage<cuda::GpuMemory>{.peer = 1, .out = v.first(4)}
                                     : QueuedMessage<cuda::GpuMemory>{.peer = 0, .in = v}};
                rank.transport().exchange(message);
                const Delivery done = rank.stream().wait(rank.stream().record());
                if (!done.complete()) throw LostRank({.rank = rank.rank()}, done);
            });
        } catch (const Error&) {
            misuse = cuda_testing::first_misuse();
        }
        throw Error(misuse);
    });
    EXPECT_TRUE(holds(ended.errors[0] + ended.errors[1], "sends 4 x ncclUint8 to rank 1"));
}

// ---- Bad input ---------------------------------------------------------------------------------

TEST_F(LaunchedWorld, RanksOfDifferentCompositionsEndWithOneSentence) {
    const Split data = images();
    const auto sentences = [&](auto train) {
        return launch(3, {},
                      [&](const LaunchedOptions& o) {
                          Gpus world(o);
                          train(world, o.launch.rank);
                      })
            .errors;
    };
    const Plain::Options o{.batch = 3, .epochs = 1, .seed = 3};
    for (const std::string& text : sentences([&](Gpus& world, int rank) {
             if (rank == 2)
                 (void)Trainer<Net, Ring<fp32>, Warmup<Poly<2>>>(
                     {.batch = 3, .epochs = 1, .seed = 3})
                     .train(world, data);
             else (void)Plain(o).train(world, data);
         }))
        EXPECT_TRUE(holds(text, "the composition of rank 2 is '", "that of rank 0 is '"));
    for (const std::string& text : sentences([&](Gpus& world, int rank) {
             Plain::Options mine = o;
             mine.seed = rank == 1 ? 4 : 3;
             (void)Plain(mine).train(world, data);
         }))
        EXPECT_TRUE(holds(text, "the seed of rank 1 is '4', that of rank 0 is '3'"));
}
Ended meet(int ranks, const LaunchSetup& setup) {
    return launch(ranks, setup, [](const LaunchedOptions& o) { nccl::LaunchedWorld<> world(o); });
}
TEST_F(LaunchedWorld, TwoRanksOnOneGpuAreNamedOnAllRanks) {
    const Ended same = meet(3, {.gpus_seen = {1, 1, 1}, .first_bus = {1, 2, 1}});
    for (const std::string& text : same.errors)
        EXPECT_TRUE(holds(text,
                          "rank 2 on host a has the GPU 0000:01:00.0, as rank 0 has. NCCL "
                          "takes one rank on a GPU: "));
    expect_no_errors(meet(3, {.gpus_seen = {1, 1, 1}, .first_bus = {1, 2, 3}}));
    expect_no_errors(meet(2, {.nodes = {"a", "b"}, .gpus_seen = {1, 1}}));
}
TEST_F(LaunchedWorld, FewerGpusThanRanksAreNamedOnAllRanks) {
    const Ended ended = meet(3, {.gpus_seen = {2, 2, 2}});
    for (const std::string& text : ended.errors)
        EXPECT_TRUE(holds(text,
                          "rank 2 on host a: it has local rank 2, and its process sees 2 "
                          "GPUs. Start fewer ranks on a host, or let CUDA_VISIBLE_DEVICES "
                          "name more GPUs"));
    const Ended none = meet(2, {.gpus_seen = {8, 0}});
    for (const std::string& text : none.errors)
        EXPECT_TRUE(holds(text, "rank 1 on host a: ", "Run on a machine with an NVIDIA GPU"));
}
TEST_F(LaunchedWorld, RanksTakeTheGpuThatTheyAreGiven) {
    const auto run = [](std::array<int, 2> gpus) {
        return launch(2, {.gpus_seen = {3, 3}}, [&](LaunchedOptions o) {
            o.gpu = gpus[static_cast<std::size_t>(o.launch.rank)];
            nccl::LaunchedWorld<> world(o);
            world.run([&](auto& rank) { EXPECT_EQ(rank.gpu().device(), o.gpu); });
        });
    };
    expect_no_errors(run({1, 0}));
    expect_no_errors(run({0, 2}));
    for (const std::string& text : run({0, 3}).errors)
        EXPECT_TRUE(holds(text,
                          "rank 1 on host a: it is given GPU 3, and its process sees 3 GPUs: GPUs "
                          "count from 0"));
}
TEST_F(LaunchedWorld, ARankThatDoesNotComeIsNamed) {
    const Ended ended = launch(3, {}, [](LaunchedOptions o) {
        if (o.launch.rank == 1) throw Error("it does not come");
        o.join_deadline = std::chrono::seconds(3);
        nccl::LaunchedWorld<> world(o);
    });
    for (const int r : {0, 2})
        EXPECT_TRUE(holds(ended.errors[static_cast<std::size_t>(r)],
                          "rank 1 of 3 did not come within 3 s"));
}
TEST_F(LaunchedWorld, AnAddressThatIsNotReachedIsNamed) {
    LaunchedOptions o{.launch = {.launcher = "torchrun",
                                 .rank = 1,
                                 .ranks = 2,
                                 .host = "127.0.0.1",
                                 .address = "tcp:127.0.0.1:1",
                                 .listens = "tcp:127.0.0.1:1",
                                 .run_id = "test"},
                      .join_deadline = std::chrono::milliseconds(50)};
    const auto refused = [&] { return error_of([&] { nccl::LaunchedWorld<> world(o); }); };
    EXPECT_TRUE(holds(refused(),
                      "rank 1 of 2, started by torchrun: address 'tcp:127.0.0.1:1' can't be "
                      "reached: Connection refused",
                      "MASTER_ADDR names the host of rank 0, and GX_PORT a port",
                      "if rank 0 has ended, look at its own error"));
    o.launch.address = "tcp:no.such.host.invalid:1";
    EXPECT_TRUE(holds(refused(), "host 'no.such.host.invalid' is not known", "MASTER_ADDR"));
    coordination::Listener taken("tcp:127.0.0.1:0");
    o.launch.address = taken.address();
    const std::jthread stranger([&] {  // another program, which ends each connection
        while (!taken.accept()) std::this_thread::yield();
    });
    EXPECT_TRUE(holds(refused(), "at address '" + taken.address() + "', rank 0 is lost: "));
    o.launch.rank = 0;
    o.launch.listens = taken.address();
    const std::string of_root = refused();
    EXPECT_TRUE(holds(of_root, "rank 0 of 2, started by torchrun: address ", "in use",
                      "if another program has taken that one, start again, or set GX_PORT"));
    EXPECT_EQ(of_root.find("if rank 0 has ended"), of_root.npos) << of_root;
    o.deadline = std::chrono::seconds(0);
    EXPECT_TRUE(holds(refused(), "deadline is 0 ns"));
}

}  // namespace
