// Processes over NCCL's double that go on without those that die, hang or lose their GPU: with the
// bits of threads that lose the same ranks between the same two steps.
#include <gx/nccl/launched_world.hpp>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <gx/cuda_testing/host_computed.hpp>
#include <gx/optimizer/adamw.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/scheduler/linear_scaling.hpp>
#include <gx/survival/continue_on_survivors.hpp>
#include <gx/trainer/trainer.hpp>
#include <trainer/losing.hpp>  // scripted_threads, departures_of
#include <trainer/small.hpp>

#include "launched.hpp"

namespace {

using namespace testing_support;
using namespace gx;
using cuda_testing::HostComputed;
using cuda_testing::StreamProgress;
using nccl::LaunchedOptions;
using nccl_tests::Ended;
using nccl_tests::LaunchSetup;

/// Ranks of a test, as they were launched.
constexpr std::size_t ranks = 4;
/// What they share.
struct Board {
    std::array<std::atomic<std::int64_t>, ranks> kernels, messages;  ///< of the rank's first world
    std::array<std::atomic<std::uint64_t>, ranks> weights;           ///< that a rank ended with
    std::atomic<int> ended;                                          ///< how many have
    std::atomic<int> lost;                                           ///< in rank 0's record
};

// ---- Where a process is lost ---------------------------------------------------------------

std::size_t born = 0;                       ///< the rank that this process was launched as
int passes = 0;                             ///< of this process
std::atomic<std::int64_t>* sent = nullptr;  ///< control messages of this process
std::int64_t last_message = 0;              ///< that it does not send; 0: none
std::function<void(std::size_t rank, int pass)> in_pass;  ///< before training passes
std::function<void(std::size_t rank)> before_survivors, behind_survivors;

struct Hooked : HostComputed<reference::Device> {
    using HostComputed::HostComputed;
    void forward(Mode mode, View<ForwardReport> report) {
        if (mode == Mode::train && in_pass) in_pass(born, passes++);
        HostComputed::forward(mode, report);
    }
};
struct CountingControl : TransportOver<coordination::MeshEndpoint> {
    using TransportOver::TransportOver;
    Request send(int to, int channel, std::span<const std::byte> message) {
        if (++*sent == last_message) ::raise(SIGKILL);
        return under().send(to, channel, message);
    }
};

using Inner = nccl::LaunchedWorld<Hooked>;
static_assert(Shrinks<Inner> && SpansProcesses<Inner> && !StartsProcesses<Inner>);

/// A rank of Inner, whose control messages are counted.
struct WatchedRank {
    using Device = Hooked;
    using Memory = Inner::Rank::Memory;
    Inner::Rank& inner;
    CountingControl counting;
    [[nodiscard]] int rank() const { return inner.rank(); }
    [[nodiscard]] int ranks() const { return inner.ranks(); }
    [[nodiscard]] auto& transport() { return inner.transport(); }
    [[nodiscard]] auto& stream() { return inner.stream(); }
    [[nodiscard]] MemoryResource& memory() { return inner.memory(); }
    [[nodiscard]] CountingControl& control() { return counting; }
    [[nodiscard]] Nanoseconds now() const { return inner.now(); }
    void compare(const RunTerms& terms) { inner.compare(terms); }
    [[nodiscard]] auto make_device(const Graph& graph, DeviceOptions options) {
        return inner.make_device(graph, options);
    }
    [[nodiscard]] bool repeats() const { return inner.repeats(); }
    void repeat(cuda::Queue& queue, std::uint64_t key, FunctionRef<void()> f) {
        inner.repeat(queue, key, f);
    }
    void forget_repeated() { inner.forget_repeated(); }
};
struct Watched {
    using Rank = WatchedRank;
    std::unique_ptr<Inner> inner;
    [[nodiscard]] int ranks() const { return inner->ranks(); }
    [[nodiscard]] Placement placement() const { return inner->placement(); }
    [[nodiscard]] int first_local_rank() const { return inner->first_local_rank(); }
    void run(FunctionRef<void(Rank&)> f) {
        inner->run([&](auto& rank) {
            Rank watched{rank, CountingControl(rank.control())};
            f(watched);
        });
    }
    [[nodiscard]] Survivors<Watched> survivors(std::span<const int> lost, Nanoseconds t,
                                               std::int64_t number = 0) {
        if (before_survivors) before_survivors(born);
        auto left = inner->survivors(lost, t, number);
        Survivors<Watched> out{.members = left.members, .number = left.number};
        if (left.world) out.world.reset(new Watched{std::move(left.world)});
        if (behind_survivors) behind_survivors(born);
        return out;
    }
};

// ---- Training ------------------------------------------------------------------------------

using Rate = LinearScaling<Poly<2>>;
template <class R, class O = Sgd>
using Trains = Trainer<Net, R, Rate, O, ContinueOnSurvivors>;
using Plain = Trains<Ring<fp32>>;

template <class T>
typename T::Options options() {
    typename T::Options o;
    o.batch = 3;
    o.epochs = 2;
    o.seed = 7;
    o.scheduler = {.reference_batch = 8, .next = {.peak_rate = 0.1f}};
    o.survival.recovery = Recovery::checkpoint;
    return o;
}
Split data() { return numbered(images(26)); }

/// Where the process that is `rank` is lost.
struct Death {
    std::size_t rank = 0;
    int kernel = 0;   ///< of NCCL; 0: none
    int message = 0;  ///< of the control; 0: none
};
struct Way {
    std::vector<Death> deaths{};
    int count = int(ranks);  ///< of ranks
    StreamProgress progress = StreamProgress::random;
    std::uint64_t seed = 1;
    std::chrono::nanoseconds deadline = std::chrono::seconds(60);
    bool graphs = true;
    bool own_folders = false;  ///< a folder of checkpoints a rank, as on hosts without a shared one
};

/// Trains T on processes. Rank 0 compares with threads; the others with it. `Clean`: T, where ranks
/// may leave between two steps.
template <class T, class Clean>
Ended train(const Way& way, const typename T::Options& o, Board& board,
            const std::function<void(const RunRecord&)>& check = {}) {
    const Folder folder;
    LaunchSetup setup{.progress = way.progress, .seed = way.seed, .deadline = way.deadline};
    for (int r = 0; r < way.count; ++r) {
        setup.nodes.push_back(std::string(1, char('a' + r)));  // as threads are spread
        setup.first_bus.push_back(1 + r);
    }
    const Ended ended = nccl_tests::launch(way.count, setup, [&](const LaunchedOptions& launched) {
        born = std::size_t(launched.launch.rank);
        sent = &board.messages[born];
        for (const Death& d : way.deaths) {
            if (d.rank != born) continue;
            last_message = d.message;
            if (d.kernel > 0) nccl_testing::kill_process(d.kernel);
        }
        auto mine = o;
        mine.output = folder.path;
        if (way.own_folders) mine.output /= std::to_string(born);
        LaunchedOptions spread = launched;
        spread.graphs = way.graphs;
        std::optional<RunRecord> record;
        try {
            Watched world{std::make_unique<Inner>(spread)};
            record.emplace(T(mine).train(world, data()));
        } catch (...) {
            ++board.ended;
            throw;
        }
        ++board.ended;
        board.kernels[born] = nccl_testing::counters().kernels;
        board.weights[born] = record->weights_hash;
        if (check) check(*record);
        if (born != 0) return;
        Outcome got{.record = *record};
        const auto graph =
            gx::graph<Net>({.input = data().train.shape, .classes = data().train.classes});
        got.end = read_checkpoint(folder.path / checkpoint_name(o.epochs), graph);
        set_script(departures_of(record->losses, way.count));
        auto threads = scripted_threads(way.count);
        typename Clean::Options clean = options<Clean>();
        clean.epochs = o.epochs;
        const Outcome expected = outcome<Clean, Net>(threads, data(), clean, true);
        expect_same_state(got, expected);
        expect_same_learning(got.record, expected.record);
    });
    return ended;
}
/// The same, where `lost` die and all others go on. Returns the kernels and messages of rank 2.
template <class R, class O = Sgd>
std::pair<int, int> go_on(const Way& way, const std::vector<std::size_t>& lost) {
    const Shared<Board> board;
    using T = Trains<R, O>;
    const Ended ended =
        train<T, Trains<Departing<R>, O>>(way, options<T>(), *board, [&](const RunRecord& record) {
            std::vector<int> named;
            for (const LossRow& row : record.losses)
                named.insert(named.end(), row.lost.begin(), row.lost.end());
            std::ranges::sort(named);
            EXPECT_EQ(named, std::vector<int>(lost.begin(), lost.end()));
            EXPECT_EQ(std::ssize(record.epochs), 2);
        });
    for (std::size_t r = 0; r < std::size_t(way.count); ++r) {
        const bool is_lost = std::ranges::find(lost, r) != lost.end();
        EXPECT_EQ(ended.signals[r], is_lost ? SIGKILL : 0) << "rank " << r;
        EXPECT_EQ(ended.errors[r], "") << "rank " << r;
        EXPECT_EQ(board->weights[r] == board->weights[0], !is_lost) << "rank " << r;
    }
    return {int(board->kernels[2]), int(board->messages[2])};
}
class LaunchedSurvival : public WithProcesses {
protected:
    void SetUp() override {
        WithProcesses::SetUp();
        in_pass = {};
        before_survivors = behind_survivors = {};
    }
};

// ---- Killed ----------------------------------------------------------------------------------

TEST_F(LaunchedSurvival, TrainsAsThreadsWithoutALoss) {
    const auto [kernels, messages] = go_on<Ring<fp32>>({.count = 3}, {});
    EXPECT_GT(kernels, 20);
    EXPECT_GT(messages, 5);
}
TEST_F(LaunchedSurvival, GoesOnWithoutAProcessThatIsKilledInAnyKernel) {
    const int kernels = go_on<Ring<fp32>>({.count = 3}, {}).first;
    for (int k = 1; k <= kernels && !HasFailure(); ++k) {
        SCOPED_TRACE("kernel " + std::to_string(k));
        go_on<Ring<fp32>>({.deaths = {{.rank = 2, .kernel = k}},
                           .count = 3,
                           .progress = k % 2 == 0 ? StreamProgress::late : StreamProgress::random,
                           .seed = std::uint64_t(k)},
                          {2});
    }
}
TEST_F(LaunchedSurvival, GoesOnWithoutAProcessThatIsKilledAtAnyControlMessage) {
    const int messages = go_on<Ring<fp32>>({.count = 3}, {}).second;
    for (int m = 1; m <= messages && !HasFailure(); ++m) {
        SCOPED_TRACE("message " + std::to_string(m));
        go_on<Ring<fp32>>({.deaths = {{.rank = 2, .message = m}}, .count = 3}, {2});
    }
}
template <class R, class O>
void lose_one_of_each() {
    for (const std::size_t rank : {1u, 3u})
        for (const bool graphs : {true, false}) {
            SCOPED_TRACE("rank " + std::to_string(rank));
            in_pass = [=](std::size_t r, int pass) {
                if (r == rank && pass == 4) ::raise(SIGKILL);  // in the second epoch
            };
            go_on<R, O>({.graphs = graphs}, {rank});
        }
}
TEST_F(LaunchedSurvival, GoesOnWithOtherReducersAndOptimizers) {
    lose_one_of_each<Bucketed<MultiRing<2, fp16>, 64>, AdamW>();
    lose_one_of_each<DoubleBuffered<Ring<fp32>>, AdamW>();
}
TEST_F(LaunchedSurvival, GoesOnWithoutTwoThatAreLostAtOnceOrOneAfterTheOther) {
    in_pass = [](std::size_t r, int pass) {
        if ((r == 1 || r == 3) && pass == 4) ::raise(SIGKILL);
    };
    go_on<Ring<fp32>>({}, {1, 3});
    in_pass = [](std::size_t r, int pass) {
        if ((r == 1 && pass == 1) || (r == 3 && pass == 6)) ::raise(SIGKILL);
    };
    go_on<Ring<fp32>>({}, {1, 3});
}
/// Rank 1 dies in step 4, and rank 3 where those that are left agree or meet again.
TEST_F(LaunchedSurvival, GoesOnWithoutOneThatIsLostWhileTheOthersAgree) {
    in_pass = [](std::size_t r, int pass) {
        if (r == 1 && pass == 4) ::raise(SIGKILL);
    };
    const auto dies = [](std::size_t r) {
        if (r == 3) ::raise(SIGKILL);
    };
    before_survivors = dies;
    go_on<Ring<fp32>>({}, {1, 3});
    before_survivors = {};
    behind_survivors = dies;
    go_on<Ring<fp32>>({}, {1, 3});
}

/// One to three of them, at random kernels. GX_KILLS=100 GX_SEED=1 repeats more of them, from
/// another seed.
TEST_F(LaunchedSurvival, GoesOnWithoutThoseThatAreKilledAtRandomKernels) {
    const auto number = [](const char* variable, int otherwise) {
        const char* const text = std::getenv(variable);
        return text != nullptr ? std::atoi(text) : otherwise;
    };
    const int kills = number("GX_KILLS", 5), seed = number("GX_SEED", 1);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    for (int i = 0; i < kills && !HasFailure(); ++i) {
        SCOPED_TRACE("kill " + std::to_string(i) + " of GX_SEED=" + std::to_string(seed));
        Way way{.progress = i % 2 == 0 ? StreamProgress::random : StreamProgress::late,
                .seed = random()};
        for (std::size_t r = 1; r < ranks; ++r)
            if (r == 1 || random() % 2 == 0)
                way.deaths.push_back({.rank = r, .kernel = 1 + int(random() % 60)});
        const Shared<Board> board;
        const Ended ended = train<Plain, Trains<Departing<Ring<fp32>>>>(
            way, options<Plain>(), *board, [&](const RunRecord& record) {
                if (born == 0)
                    for (const LossRow& row : record.losses) board->lost += int(row.lost.size());
            });
        int died = 0;
        for (std::size_t r = 0; r < ranks; ++r) {
            EXPECT_EQ(ended.errors[r], "") << "rank " << r;
            if (ended.signals[r] == SIGKILL) ++died;
            else EXPECT_EQ(board->weights[r], board->weights[0]) << "rank " << r;
        }
        EXPECT_EQ(board->lost, died);
    }
}
/// Waits for a control message that does not come.
void expect_byte(auto& rank, int from) {
    char byte{};
    auto& link = rank.control();
    const Delivery got =
        link.wait(link.receive(from, 0, std::as_writable_bytes(std::span(&byte, 1))));
    if (!got.complete()) throw LostRank({.rank = rank.rank()}, got);
}
/// Runs without a Trainer: who is left counts anew, on the GPUs that it has, without local ranks
/// from the launcher.
TEST_F(LaunchedSurvival, KeepsItsGpuAmongFewer) {
    const Ended ended = nccl_tests::launch(4, {}, [](LaunchedOptions o) {
        const int was = o.launch.rank;
        o.launch.local_rank = -1;
        nccl::LaunchedWorld<> world(o);
        EXPECT_THROW(world.run([&](auto& rank) {
            if (was == 1) ::raise(SIGKILL);
            expect_byte(rank, 1);
        }),
                     LostRank);
        auto left = world.survivors({}, {}, was == 0 ? 5 : 6);
        EXPECT_EQ(left.members, (std::vector{0, 2, 3}));
        EXPECT_EQ(left.number, 5);
        const int now = was == 0 ? 0 : was - 1;
        EXPECT_EQ(left.world->ranks(), 3);
        EXPECT_EQ(left.world->first_local_rank(), now);
        EXPECT_EQ(left.world->placement(), (Placement{1, 3}));
        for (int run = 0; run < 2; ++run)  // the second meets at the address of rank 0
            left.world->run([&](auto& rank) {
                EXPECT_EQ(rank.rank(), now);
                EXPECT_EQ(rank.gpu().device(), was);
            });
        EXPECT_TRUE(left.world->survivors({}, {}).members.empty()) << "nobody is lost";
    });
    EXPECT_EQ(ended.signals, (std::vector{0, SIGKILL, 0, 0}));
    for (const std::size_t r : {0u, 2u, 3u}) EXPECT_EQ(ended.errors[r], "");
}

// ---- Lost in other ways ----------------------------------------------------------------------

TEST_F(LaunchedSurvival, GoesOnWithoutAProcessWhoseGpuIsLost) {
    const Shared<Board> board;
    in_pass = [](std::size_t r, int pass) {
        if (r == 2 && pass == 4) throw DeviceLost("GPU 2 has fallen off the bus");
    };
    const Ended ended = train<Plain, Trains<Departing<Ring<fp32>>>>(
        {}, options<Plain>(), *board, [](const RunRecord& record) {
            ASSERT_EQ(record.losses.size(), 1u);
            EXPECT_EQ(record.losses[0].lost, std::vector<int>{2});
            EXPECT_EQ(record.losses[0].ranks, 3);
            if (born != 0) return;
            EXPECT_TRUE(holds(record.losses[0].error, "rank 2"));
        });
    EXPECT_EQ(ended.errors[2], "GPU 2 has fallen off the bus");
    for (const std::size_t r : {0u, 1u, 3u}) EXPECT_EQ(ended.errors[r], "");
}
/// In whichever of its next operations the fault is.
TEST_F(LaunchedSurvival, GoesOnWithoutAProcessWhoseGpuFaultsInAnyOperation) {
    for (const int behind : {1, 2, 3, 4, 6, 9, 13, 20}) {
        const Shared<Board> board;
        in_pass = [behind](std::size_t r, int pass) {
            if (r == 2 && pass == 4)
                cuda_testing::fail_operation(behind, cudaErrorECCUncorrectable);
        };
        const Ended ended = train<Plain, Trains<Departing<Ring<fp32>>>>(
            {}, options<Plain>(), *board, [](const RunRecord& r) {
                ASSERT_EQ(r.losses.size(), 1u);
                EXPECT_EQ(r.losses[0].lost, std::vector<int>{2});
            });
        EXPECT_TRUE(holds(ended.errors[2], "cudaErrorECCUncorrectable")) << behind;
        for (const std::size_t r : {0u, 1u, 3u}) EXPECT_EQ(ended.errors[r], "") << behind;
    }
}
/// It goes on elsewhere until the others have ended, and comes back then.
TEST_F(LaunchedSurvival, GoesOnWithoutAProcessThatHangs) {
    const Shared<Board> board;
    in_pass = [&](std::size_t r, int pass) {
        while (r == 2 && pass == 4 && board->ended < 3) std::this_thread::yield();
    };
    const Ended ended = train<Plain, Trains<Departing<Ring<fp32>>>>(
        {.deadline = std::chrono::seconds(2)}, options<Plain>(), *board,
        [](const RunRecord& record) {
            ASSERT_EQ(record.losses.size(), 1u);
            EXPECT_EQ(record.losses[0].lost, std::vector<int>{2});
        });
    EXPECT_TRUE(holds(ended.errors[2], "rank 2 (host c, process ", " timed out: rank "));
    for (const std::size_t r : {0u, 1u, 3u}) EXPECT_EQ(ended.errors[r], "");
}

/// Also where rank 0 keeps its world, and asks for nobody who is left.
TEST_F(LaunchedSurvival, NobodyWaitsForAProcessThatHangs) {
    const Shared<Board> board;
    constexpr auto two_seconds = std::chrono::seconds(2);
    const Ended ended = nccl_tests::launch(
        3, {.deadline = two_seconds, .join_deadline = two_seconds}, [&](const LaunchedOptions& o) {
            nccl::LaunchedWorld<> world(o);
            const auto till_others_end = [&] {
                while (board->ended < 1) std::this_thread::yield();
            };
            try {
                world.run([&](auto& rank) {
                    if (o.launch.rank == 2) till_others_end();
                    if (rank.rank() != 1) expect_byte(rank, 2 - rank.rank());
                });
            } catch (const LostRank&) {
                if (o.launch.rank == 0) till_others_end();
                else ++board->ended;
                throw;
            }
        });
    EXPECT_TRUE(holds(ended.errors[1], "rank 2 "));
    EXPECT_TRUE(holds(ended.errors[0], "rank 2 timed out"));
}

// ---- Where the run ends ----------------------------------------------------------------------

/// Trains; what each rank throws.
Ended end_with(int fewest = 1) {
    const Shared<Board> board;
    auto o = options<Plain>();
    o.survival.fewest_ranks = fewest;
    return train<Plain, Plain>({}, o, *board);
}
void expect_end_without_root(const Ended& ended, const std::vector<std::size_t>& left,
                             const std::string& what) {
    for (const std::size_t r : left)
        EXPECT_TRUE(holds(ended.errors[r], "The run can't go on without a rank: " + what,
                          "Start all ranks again, and resume from a checkpoint."))
            << "rank " << r << ": " << ended.errors[r];
}
TEST_F(LaunchedSurvival, EndsWithTheProcessOfRank0) {
    in_pass = [](std::size_t r, int pass) {
        if (r == 0 && pass == 4) ::raise(SIGKILL);
    };
    const Ended ended = end_with();
    EXPECT_EQ(ended.signals[0], SIGKILL);
    expect_end_without_root(ended, {1, 2, 3}, "rank 0 is lost");
    EXPECT_TRUE(holds(ended.errors[1], "rank 1, step ", ", operation ", ": rank 0 "));
}
TEST_F(LaunchedSurvival, EndsWithTheProcessOfRank0WhileTheOthersAgree) {
    in_pass = [](std::size_t r, int pass) {
        if (r == 1 && pass == 4) ::raise(SIGKILL);
    };
    before_survivors = [](std::size_t r) {
        if (r == 0) ::raise(SIGKILL);
    };
    expect_end_without_root(end_with(), {2, 3}, "rank 0 has ended");
    before_survivors = {};
    behind_survivors = [](std::size_t r) {
        if (r == 0) ::raise(SIGKILL);
    };
    expect_end_without_root(end_with(), {2, 3}, "rank 0 is lost");
}
TEST_F(LaunchedSurvival, EndsWithTheGpuOfRank0) {
    in_pass = [](std::size_t r, int pass) {
        if (r == 0 && pass == 4) throw DeviceLost("GPU 0 has fallen off the bus");
    };
    const Ended ended = end_with();
    EXPECT_EQ(ended.errors[0], "GPU 0 has fallen off the bus");
    expect_end_without_root(ended, {1, 2, 3}, "rank 0 is lost");
    EXPECT_TRUE(holds(ended.errors[2], "GPU 0 has fallen off the bus"));
}
TEST_F(LaunchedSurvival, EndsWithFewerRanksThanItMayHave) {
    in_pass = [](std::size_t r, int pass) {
        if (r > 1 && pass == 4) ::raise(SIGKILL);
    };
    const Ended ended = end_with(3);
    for (const std::size_t r : {0u, 1u}) EXPECT_TRUE(holds(ended.errors[r], "fewest_ranks"));
}
TEST_F(LaunchedSurvival, EndsWithAnErrorThatIsNoLoss) {
    in_pass = [](std::size_t r, int pass) {
        if (r == 2 && pass == 4) throw Error("rank 2 has no more paper");
    };
    const Ended ended = end_with();
    EXPECT_EQ(ended.errors[2], "rank 2 has no more paper");
    for (const std::size_t r : {0u, 1u, 3u})
        EXPECT_TRUE(
            holds(ended.errors[r], "rank 2 has no more paper. This is the error of rank 2"));
}
TEST_F(LaunchedSurvival, EndsWhereTheRanksDoNotSeeOneCheckpoint) {
    const Shared<Board> board;
    in_pass = [](std::size_t r, int pass) {
        if (r == 1 && pass == 4) ::raise(SIGKILL);
    };
    const Ended ended = train<Plain, Plain>({.own_folders = true}, options<Plain>(), *board);
    for (const std::size_t r : {0u, 2u, 3u})
        EXPECT_TRUE(holds(ended.errors[r], "do not run the same training"));
}
TEST_F(LaunchedSurvival, RefusesToGoOnFromWhatTheyHold) {
    const Shared<Board> board;
    auto o = options<Plain>();
    o.survival.recovery = Recovery::survivors;
    in_pass = [](std::size_t r, int pass) {
        if (r == 1 && pass == 4) ::raise(SIGKILL);
    };
    const Ended ended = train<Plain, Plain>({}, o, *board);
    for (const std::size_t r : {0u, 2u, 3u})
        EXPECT_TRUE(holds(ended.errors[r], "Set survival.recovery to gx::Recovery::checkpoint"));
}

}  // namespace
