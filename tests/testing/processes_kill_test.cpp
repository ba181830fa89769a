// Kills random ranks at random points of training: every survivor names them and nothing is left,
// or the others go on as if those had left between two steps.
// GX_KILLS=100 GX_SEED=1 repeats more kills, from another seed; the default is 20.
#include <gx/testing/processes.hpp>

#include <signal.h>    // kill
#include <sys/wait.h>  // waitpid
#include <unistd.h>    // fork, getpid, _exit

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <csignal>     // raise
#include <cstdlib>     // getenv
#include <functional>  // a hook
#include <cstdio>      // sscanf
#include <map>         // clean runs
#include <random>      // the rank, the point
#include <thread>      // yield

#include <gx/local_sgd/reducer.hpp>               // LocalSgd
#include <gx/optimizer/adamw.hpp>                 // AdamW
#include <gx/reducer/bucketed.hpp>                // Bucketed
#include <gx/reducer/double_buffered.hpp>         // DoubleBuffered
#include <gx/reducer/ring.hpp>                    // Ring
#include <gx/scheduler/linear_scaling.hpp>        // LinearScaling
#include <gx/sharded/reducer.hpp>                 // Sharded
#include <gx/survival/continue_on_survivors.hpp>  // ContinueOnSurvivors
#include <gx/testing/mutant.hpp>                  // Mutant
#include <gx/top_k/reducer.hpp>                   // TopK
#include <gx/trainer/trainer.hpp>                 // Trainer

#include <testing/processes_run.hpp>  // Shared, WithProcesses
#include <trainer/losing.hpp>         // scripted_threads, outcome
#include <trainer/small.hpp>          // images

namespace {

using namespace testing_support;
constexpr std::size_t ranks = 4;

/// What the ranks of one run tell the test, by the ranks that they begin with.
struct Board {
    std::array<std::atomic<pid_t>, ranks> pid;
    std::array<std::atomic<int>, ranks> messages;  ///< posted by the rank
    std::array<std::atomic<int>, ranks> last;      ///< at which it kills itself; 0: none
    std::array<std::atomic<int>, ranks> named;     ///< 1 + the rank that its LostRank names
    std::atomic<int> by_root;                      ///< 1 + the rank that run()'s error names
    std::atomic<int> descriptors_left;
};
std::size_t born = 0;                              ///< the rank that this process begins with
std::function<void(int rank, int pass)> hook{};    ///< before a rank's forward passes
int passes = 0;                                    ///< of this process
std::function<void(int rank)> behind_survivors{};  ///< once the ranks have agreed

struct Hooked : gx::reference::Device {
    using gx::reference::Device::Device;
    gx::ForwardReport forward(const gx::Batch& batch, gx::Mode mode) {
        if (mode == gx::Mode::train && hook) hook(int(born), passes++);
        return gx::reference::Device::forward(batch, mode);
    }
};

/// Counts messages, so that a point of training can be waited for, or ends the process at one.
class CountingLink : public gx::TransportOver<gx::coordination::MeshEndpoint> {
public:
    CountingLink(gx::coordination::MeshEndpoint& link, Board& board)
        : TransportOver(link), count_(board.messages[born]), last_(board.last[born]) {}
    gx::Request send(int to, int channel, std::span<const std::byte> message) {
        if (++count_ == last_) raise(SIGKILL);
        return under().send(to, channel, message);
    }

private:
    std::atomic<int>&count_, &last_;
};

using Inner = gx::testing::ProcessWorld<Hooked>;
struct WatchedRank {
    using Device = Hooked;
    Inner::Rank& inner;
    CountingLink link;
    [[nodiscard]] int rank() const { return inner.rank(); }
    [[nodiscard]] int ranks() const { return inner.ranks(); }
    [[nodiscard]] CountingLink& transport() { return link; }
    [[nodiscard]] auto& stream() { return inner.stream(); }
    [[nodiscard]] gx::Nanoseconds now() const { return inner.now(); }
    void compare(const gx::RunTerms& terms) { inner.compare(terms); }
    [[nodiscard]] auto make_device(const gx::Graph& graph, gx::DeviceOptions options) {
        return inner.make_device(graph, options);
    }
};
/// A ForkedWorld, or a ProcessWorld.
template <class W>
struct Watched {
    using Rank = WatchedRank;
    W& inner;
    Board& board;
    std::unique_ptr<W> own{};
    [[nodiscard]] int ranks() const { return inner.ranks(); }
    [[nodiscard]] gx::Placement placement() const { return inner.placement(); }
    void run(gx::FunctionRef<void(Rank&)> f) {
        inner.run([&](auto& rank) {
            if constexpr (!gx::SpansProcesses<W>) born = std::size_t(rank.rank());
            board.pid[born] = getpid();
            Rank watched{rank, {rank.transport(), board}};
            try {
                f(watched);
            } catch (const gx::LostRank& e) {
                board.named[born] = 1 + e.lost();
                throw;
            }
        });
    }
};
struct WatchedHere : Watched<Inner::Here> {
    [[nodiscard]] int first_local_rank() const { return inner.first_local_rank(); }
    [[nodiscard]] gx::Survivors<WatchedHere> survivors(std::span<const int> lost, gx::Nanoseconds t,
                                                       std::int64_t number = 0) {
        auto left = inner.survivors(lost, t, number);
        gx::Survivors<WatchedHere> out{.members = left.members, .number = left.number};
        if (left.world)
            out.world.reset(new WatchedHere{{*left.world, board, std::move(left.world)}});
        if (behind_survivors) behind_survivors(int(born));
        return out;
    }
};
struct WatchedWorld : Watched<Inner> {
    using Here = WatchedHere;
    void in_each_process(gx::FunctionRef<void(Here&)> f) {
        inner.in_each_process([&](auto& here) {
            born = std::size_t(here.first_local_rank());
            WatchedHere watched{{here, board}};
            f(watched);
        });
    }
};
static_assert(gx::Shrinks<WatchedWorld>);

int number_from(const char* variable, int otherwise) {
    const char* text = std::getenv(variable);
    return text ? std::atoi(text) : otherwise;
}
/// Calls f(random, i) for i from 0 up, as often as GX_KILLS says, until something fails.
void repeat(auto f) {
    const int kills = number_from("GX_KILLS", 20), seed = number_from("GX_SEED", 1);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    for (int i = 0; i < kills && !::testing::Test::HasFailure(); ++i) {
        SCOPED_TRACE("kill " + std::to_string(i) + " of GX_SEED=" + std::to_string(seed));
        f(random, i);
    }
}

// ---- A run that stops at a loss -----------------------------------------------------------

/// A root process: trains without end until a rank is killed.
template <class R>
[[noreturn]] void train_for_ever(Board& board) {
    const int before = open_descriptors();
    try {
        Inner inner({.placement = {int(ranks), 1}});
        WatchedWorld world{{inner, board}};
        (void)gx::Trainer<Net, R, gx::Constant>(
            {.batch = 2, .epochs = 1'000'000, .evaluate = false})
            .train(world, images());
    } catch (const std::exception& e) {
        int rank = -1;
        if (std::sscanf(e.what(), "rank %d was killed by signal 9", &rank) == 1)
            board.by_root = 1 + rank;
    }
    board.descriptors_left = open_descriptors() - before;
    const bool no_child = waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD;
    ::_exit(no_child ? 0 : 1);
}

/// Expects that every survivor of a kill names the victim and that nothing is left.
template <class R>
void kill_one(std::mt19937_64& random) {
    const Shared<Board> board;
    const std::size_t victim = random() % ranks;
    const int point = 1 + int(random() % 2'000);  // from the first message on its pid is known
    const pid_t root = fork();
    if (root == 0) train_for_ever<R>(*board);
    while (board->messages[victim] < point) ASSERT_EQ(waitpid(root, nullptr, WNOHANG), 0);
    ASSERT_EQ(kill(board->pid[victim], SIGKILL), 0);
    int status = 0, of_root = -1;
    for (pid_t p = 0; (p = waitpid(-1, &status, 0)) > 0;)
        if (p == root) of_root = status;
    EXPECT_EQ(errno, ECHILD) << "every process below this one has ended";
    for (std::size_t r = 0; r < ranks; ++r)
        EXPECT_EQ(board->named[r], r == victim ? 0 : 1 + int(victim)) << "rank " << r;
    if (victim == 0) {
        EXPECT_TRUE(WIFSIGNALED(of_root));
        return;
    }
    EXPECT_TRUE(WIFEXITED(of_root) && WEXITSTATUS(of_root) == 0);
    EXPECT_EQ(board->by_root, 1 + int(victim));
    EXPECT_EQ(board->descriptors_left, 0);
}

using KilledProcess = WithProcesses;
TEST_F(KilledProcess, IsNamedByEverySurvivor) {
    adopt_orphans();  // where the root is killed
    repeat([](auto& random, int i) {
        if (i % 2 == 0) kill_one<gx::Ring<gx::fp32>>(random);
        else kill_one<gx::DoubleBuffered<gx::Ring<gx::fp32>>>(random);
    });
}

// ---- A run that goes on -------------------------------------------------------------------

using Rate = gx::LinearScaling<gx::Poly<2>>;
template <class R, class O>
using Trains = gx::Trainer<Net, R, Rate, O, gx::ContinueOnSurvivors>;
using Plain = Trains<gx::Ring<gx::fp32>, gx::Sgd>;

template <class T>
typename T::Options surviving(gx::Recovery recovery = gx::Recovery::survivors) {
    typename T::Options o;
    o.batch = 2;
    o.epochs = 3;
    o.seed = 7;
    o.scheduler = {.reference_batch = 8, .next = {.peak_rate = 0.1f}};
    o.survival.recovery = recovery;
    return o;
}
gx::Split data() { return numbered(images(37)); }

/// Trains T on processes; `board`: when they kill themselves.
template <class T>
Outcome trained(Board& board, const typename T::Options& o,
                gx::Nanoseconds deadline = std::chrono::seconds(60)) {
    Inner inner({.placement = {int(ranks), 1}, .deadline = deadline});
    WatchedWorld world{{inner, board}};
    return outcome<T, Net>(world, data(), o, true);
}
/// The same history on threads: ranks leave between two steps.
template <class R, class O>
Outcome repeated(const gx::RunRecord& history, std::int64_t every_steps = 0) {
    using T = Trains<Departing<R>, O>;
    using enum gx::Recovery;
    set_script(departures_of(history.losses, int(ranks)));
    auto world = scripted_threads(int(ranks));
    auto o = surviving<T>(gx::OwnsUpdate<R> ? checkpoint : survivors);
    o.epochs = history.epochs_planned;
    o.checkpoints.every_steps = every_steps;
    return outcome<T, Net>(world, data(), o, true);
}
/// `has_equal_metrics`: not where a rank was lost between the last update of an epoch and the sums
/// of its metrics, or where an epoch is repeated from a checkpoint: they are of other images.
template <class R, class O>
void expect_history(const Outcome& run, bool has_equal_metrics = true) {
    const Outcome clean = repeated<R, O>(run.record);
    if (has_equal_metrics) expect_same_learning(run.record, clean.record);
    expect_same_state(run, clean);
    std::int64_t step = 0;
    for (const gx::StepRow& row : run.record.steps) EXPECT_EQ(row.step, step++);
}

/// One to three processes kill themselves at random messages, of gradients or of the control.
template <class R, class O>
int go_on_without_some(std::mt19937_64& random, int messages, gx::Recovery recovery) {
    using T = Trains<R, O>;
    const Shared<Board> board;
    for (std::size_t r = 1; r < ranks; ++r)
        if (random() % 2 == 0) board->last[r] = 1 + int(random() % unsigned(messages));
    const int before = open_descriptors();
    const Outcome run = trained<T>(*board, surviving<T>(recovery));
    EXPECT_EQ(open_descriptors(), before);
    EXPECT_TRUE(waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD) << "no child is left";
    int lost = 0, died = 0;
    for (const gx::LossRow& row : run.record.losses) lost += int(row.lost.size());
    for (std::size_t r = 1; r < ranks; ++r)
        died += board->last[r] > 0 && board->messages[r] >= board->last[r];
    EXPECT_EQ(lost, died);
    expect_history<R, O>(run, false);
    return lost;
}
TEST_F(KilledProcess, IsLeftBehindAndTheOthersGoOn) {
    int lost = 0;
    repeat([&](auto& random, int i) {
        using Late = gx::DoubleBuffered<gx::Bucketed<gx::TopK, 64>>;
        using enum gx::Recovery;
        if (i % 2 == 0) lost += go_on_without_some<Late, gx::AdamW>(random, 200, survivors);
        else  // a checkpoint has the gradients in flight too, of all ranks
            lost += go_on_without_some<gx::Ring<gx::fp32>, gx::Sgd>(
                random, 200, i % 4 == 1 ? survivors : checkpoint);
    });
    EXPECT_GT(lost, 0);
}

// A rank dies at each of its messages in turn. Where it is one of the last of an epoch, some of the
// others have done that epoch and others have not: all go back to the root's newest checkpoint.
TEST_F(KilledProcess, AtAnyMessageTheOthersGoBackToOneCheckpoint) {
    auto o = surviving<Plain>(gx::Recovery::checkpoint);
    o.epochs = 2;
    int messages = 1;
    for (int at = 0; at < messages && !HasFailure(); ++at) {
        SCOPED_TRACE("message " + std::to_string(at));
        const Shared<Board> board;
        board->last[3] = at;
        const Outcome run = trained<Plain>(*board, o);
        if (at == 0) messages = board->messages[3];
        EXPECT_EQ(run.record.losses.size(), at > 0);
        EXPECT_EQ(run.record.epochs.size(), 2u);
    }
    EXPECT_GT(messages, 50);
}

// The same of a reducer that owns the update: the checkpoint's state is cut for those that are
// left. `places`: that they go on from, that of a run without a loss included.
template <class R, class O>
void kill_an_owner_at_each_message(std::int64_t every_steps, std::size_t places) {
    using T = Trains<R, O>;
    auto o = surviving<T>(gx::Recovery::checkpoint);
    o.epochs = 2;  // of 5 steps
    o.checkpoints.every_steps = every_steps;
    std::map<std::int64_t, Outcome> clean;  // by the step that it went back to
    int messages = 1;
    for (int at = 0; at < messages && !::testing::Test::HasFailure(); ++at) {
        SCOPED_TRACE("message " + std::to_string(at));
        const Shared<Board> board;
        board->last[3] = at;
        const Outcome run = trained<T>(*board, o);
        if (at == 0) messages = board->messages[3];
        ASSERT_EQ(run.record.losses.size(), at > 0);
        const std::int64_t step = at > 0 ? run.record.losses[0].step : -1;
        if (!clean.contains(step)) clean[step] = repeated<R, O>(run.record, every_steps);
        expect_same_learning(run.record, clean[step].record);
        expect_same_state(run, clean[step]);
    }
    EXPECT_GT(messages, 30);
    EXPECT_EQ(clean.size(), places);
}
TEST_F(KilledProcess, OfAShardAtAnyMessageTheOthersTakeItsPart) {
    kill_an_owner_at_each_message<gx::Sharded<gx::Ring<gx::fp32>>, gx::AdamW>(2, 7);
}
TEST_F(KilledProcess, OfLocalStepsAtAnyMessageTheOthersGoBack) {
    kill_an_owner_at_each_message<gx::LocalSgd<gx::Ring<gx::fp32>, 2>, gx::Sgd>(0, 3);
}
TEST_F(KilledProcess, OfAShardLeavesNothingBehindWhereverOthersAreToo) {
    int lost = 0;
    repeat([&](auto& random, int) {
        lost += go_on_without_some<gx::Sharded<gx::Ring<gx::fp32>>, gx::AdamW>(
            random, 250, gx::Recovery::checkpoint);
    });
    EXPECT_GT(lost, 0);
}

// ---- What is a loss, and what is not --------------------------------------------------------

/// Trains with a hook; the sentence that train() throws, or "".
std::string error_with(std::function<void(int rank, int pass)> f, Outcome* run = nullptr,
                       gx::Nanoseconds deadline = std::chrono::seconds(60)) {
    hook = std::move(f);
    passes = 0;
    const Shared<Board> board;
    return error_of_run([&] {
        auto o = surviving<Plain>();
        o.survival.fewest_ranks = 2;
        Outcome out = trained<Plain>(*board, o, deadline);
        if (run) *run = std::move(out);
    });
}
using GoingOn = WithProcesses;
TEST_F(GoingOn, WithoutARankWhoseDeviceIsLost) {
    Outcome run;
    const auto lose = [](int rank, int pass) {
        if (rank == 2 && pass == 4) throw gx::DeviceLost("the device of a rank is gone");
    };
    EXPECT_EQ(error_with(lose, &run), "");
    ASSERT_EQ(run.record.losses.size(), 1u);
    EXPECT_EQ(run.record.losses[0].lost, std::vector<int>{2});
    EXPECT_EQ(run.record.losses[0].ranks, 3);
    hook = nullptr;
    expect_history<gx::Ring<gx::fp32>, gx::Sgd>(run);
}
/// Rank 1 of four loses its device in its sixth reduction, on its stream.
template <gx::Reducer R>
struct LosesItsDevice : gx::testing::Mutant<R> {
    int reductions = 0;
    gx::ReduceReport all_reduce(gx::Transport auto& link, const gx::Bucket& bucket) {
        if (link.ranks() == 4 && link.rank() == 1 && reductions++ == 5)
            throw gx::DeviceLost("the device of a rank is gone");
        return this->inner_.all_reduce(link, bucket);
    }
};
/// It sends nothing of later buckets, which others would take for those that they miss.
TEST_F(GoingOn, WithoutARankWhoseReducerLosesItsDevice) {
    using R = LosesItsDevice<gx::Bucketed<gx::Ring<gx::fp32>, 64>>;
    using T = gx::Trainer<Net, R, gx::Constant, gx::ContinueOnSurvivors>;
    for (int i = 0; i < 10; ++i) {
        gx::testing::ProcessWorld<gx::reference::Device> world({.placement = {4, 1}});
        const auto record = T({.batch = 2, .epochs = 2}).train(world, images());
        ASSERT_EQ(record.losses.size(), 1u);
        EXPECT_EQ(record.losses[0].lost, std::vector<int>{1});
    }
}
TEST_F(GoingOn, WithoutARankThatIsStopped) {
    Outcome run;
    const auto stop = [](int rank, int pass) {
        if (rank == 3 && pass == 2) raise(SIGSTOP);
    };
    EXPECT_EQ(error_with(stop, &run, std::chrono::seconds(2)), "");
    ASSERT_FALSE(run.record.losses.empty());
    EXPECT_EQ(run.record.losses[0].lost, std::vector<int>{3});
    hook = nullptr;
    expect_history<gx::Ring<gx::fp32>, gx::Sgd>(run);
}
/// The others have agreed that it goes on.
TEST_F(GoingOn, WithoutARankThatIsLostBeforeTheNextRun) {
    Outcome run;
    behind_survivors = [](int rank) {
        if (rank == 3) raise(SIGKILL);
    };
    const auto end = [](int rank, int pass) {
        if (rank == 2 && pass == 4) raise(SIGKILL);
    };
    EXPECT_EQ(error_with(end, &run), "");
    behind_survivors = nullptr;
    ASSERT_EQ(run.record.losses.size(), 1u);
    EXPECT_EQ(run.record.losses[0].lost, (std::vector{2, 3}));
    EXPECT_EQ(run.record.losses[0].ranks, 2);
    hook = nullptr;
    expect_history<gx::Ring<gx::fp32>, gx::Sgd>(run);
}
TEST_F(GoingOn, EndsWithTheRootsDevice) {
    const auto lose = [](int rank, int pass) {
        if (rank == 0 && pass == 4) throw gx::DeviceLost("the device of rank 0 is gone");
    };
    EXPECT_EQ(error_with(lose), "the device of rank 0 is gone");
}
TEST_F(GoingOn, EndsWithTheRootsDeviceWhereAnotherRankIsLostToo) {
    const Shared<std::atomic<bool>> root_is_there;
    const auto lose = [&](int rank, int pass) {
        if (rank == 2 && pass == 4) {
            while (!root_is_there->load()) std::this_thread::yield();
            raise(SIGKILL);
        }
        if (rank != 0 || pass != 4) return;
        root_is_there->store(true);
        siginfo_t ended{};
        (void)waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT);  // until it has ended
        throw gx::DeviceLost("the device of rank 0 is gone");
    };
    EXPECT_EQ(error_with(lose), "the device of rank 0 is gone");
}
TEST_F(GoingOn, EndsWithAnErrorThatIsNoLoss) {
    const auto fail = [](int rank, int pass) {
        if (rank == 2 && pass == 4) throw gx::Error("rank 2 has no more paper");
    };
    const std::string text = error_with(fail);
    EXPECT_TRUE(text.starts_with("rank 2 has no more paper")) << text;
}
TEST_F(GoingOn, EndsWithFewerRanksThanItMayHave) {
    const auto end = [](int rank, int pass) {
        if (rank > 0 && pass == 4) raise(SIGKILL);
    };
    const std::string text = error_with(end);
    EXPECT_NE(text.find("fewest_ranks"), text.npos) << text;
}

}  // namespace
