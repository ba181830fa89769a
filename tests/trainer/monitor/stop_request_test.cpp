// A run that is asked to stop: by the program, by signals, in one of several processes.
#include <gx/trainer/monitor/stop_request.hpp>

#include <sys/wait.h>  // waitpid
#include <unistd.h>    // fork, pipe

#include <csignal>  // raise, kill
#include <string>   // sentences

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/reducer/double_buffered.hpp>         // DoubleBuffered
#include <gx/reducer/ring.hpp>                    // Ring
#include <gx/sim/catalog/simple_clusters.hpp>     // ethernet_10g
#include <gx/sim/world/cluster.hpp>               // Cluster
#include <gx/sim/world/device.hpp>                // sim::Device
#include <gx/survival/continue_on_survivors.hpp>  // ContinueOnSurvivors
#include <gx/testing/far/device.hpp>              // FarDevice
#include <gx/testing/processes.hpp>               // ProcessWorld
#include <gx/trainer/monitor/step_gate.hpp>       // StepGate
#include <gx/trainer/trainer.hpp>                 // Trainer
#include <testing/processes_run.hpp>              // WithProcesses
#include <trainer/small.hpp>                      // images, threads

namespace {

using namespace testing_support;
using gx::fp32;
using gx::detail::trainer::Ask;
using gx::detail::trainer::StepGate;
using Plain = gx::Trainer<Net, gx::Ring<fp32>, gx::Warmup<gx::Poly<2>>>;
using Late = gx::Trainer<Net, gx::DoubleBuffered<gx::Ring<fp32>>, gx::Warmup<gx::Poly<2>>>;
using Cluster = gx::sim::Cluster<gx::reference::Device>;
using Far = gx::testing::FarWorld<gx::testing::FarDevice<gx::reference::Device>>;

/// Asks when it has seen a step.
struct Asks : gx::Observer {
    gx::StopRequest* request = nullptr;
    std::int64_t at = 0;
    std::string failed{};
    void step_done(const gx::StepDone& s) override {
        if (s.step == at) request->ask();
    }
    void run_failed(std::string_view error) override { failed = error; }
};

// ---- One answer for a step ----------------------------------------------------------

RC_GTEST_PROP(StepGate, GivesAllRanksOneAnswerForAStep, ()) {
    gx::StopRequest request;
    StepGate gate(&request, 0);
    const int ranks = *rc::gen::inRange(1, 5);
    std::vector<std::vector<Ask>> seen(static_cast<std::size_t>(ranks));
    const auto asks_at = *rc::gen::inRange(0, 40);
    for (int i = 0; i < 60; ++i) {  // ranks go on in any order
        if (i == asks_at) request.ask(SIGTERM);
        auto& mine = seen[std::size_t(*rc::gen::inRange(0, ranks))];
        mine.push_back(gate.ask(std::ssize(mine)));
    }
    for (std::size_t step = 0; step < 60; ++step)
        for (const auto& rank : seen)
            for (const auto& other : seen)
                if (step < rank.size() && step < other.size()) RC_ASSERT(rank[step] == other[step]);
    for (const auto& rank : seen)
        for (std::size_t step = 1; step < rank.size(); ++step)
            RC_ASSERT(rank[step - 1] != Ask::stop || rank[step] == Ask::stop);
}
TEST(StepGate, AsksForCheckpointsByTheClock) {
    StepGate always(nullptr, 1e-12), never(nullptr, 0), later(nullptr, 1e6);
    EXPECT_EQ(always.ask(1), Ask::checkpoint);
    EXPECT_EQ(later.ask(1), Ask::nothing);
    EXPECT_TRUE(later.armed());
    EXPECT_FALSE(never.armed());
}

// ---- By the program -----------------------------------------------------------------

template <class T, class W>
void expect_stop_and_rest(W make) {
    const gx::Split data = images();
    const Folder folder, once;
    typename T::Options o{.batch = 4, .epochs = 3, .seed = 3};  // 10, 5 or 4 steps an epoch
    auto first = make();
    const gx::RunRecord whole = T(o).train(first, data);
    for (const std::int64_t at : {0, 3, 4, 7, 9}) {
        SCOPED_TRACE(at);
        gx::StopRequest request;
        Asks asks;
        asks.request = &request;
        asks.at = at;
        std::filesystem::remove_all(folder.path);
        o.output = folder.path;
        o.resume = "latest";
        o.stop = &request;
        o.observers = {&asks};
        auto world = make();
        bool stopped = false;
        try {
            (void)T(o).train(world, data);
        } catch (const gx::Stopped& e) {
            stopped = true;
            EXPECT_GE(e.step(), at + 1);
            EXPECT_LE(e.step(), at + 3) << "within a step, or the next where work is queued";
            EXPECT_EQ(e.signal(), 0);
            EXPECT_EQ(e.checkpoint(), folder.path / gx::step_checkpoint_name(e.step()));
            EXPECT_TRUE(std::filesystem::exists(e.checkpoint()));
            EXPECT_TRUE(holds(e.what(), "step " + std::to_string(e.step()),
                              "the run has stopped, as it was asked. Go on from '"));
            EXPECT_EQ(asks.failed, e.what());
        }
        EXPECT_TRUE(stopped);
        o.stop = nullptr;
        o.observers = {};
        auto again = make();
        const gx::RunRecord rest = T(o).train(again, data);
        expect_same_learning(rest, whole);
        EXPECT_TRUE(rest.notes == whole.notes);
    }
}
TEST(StopRequest, StopsAllRanksBehindOneStepWithACheckpoint) {
    expect_stop_and_rest<Plain>([] { return threads(1); });  // 9: behind an epoch's last step
    expect_stop_and_rest<Plain>([] { return threads(3); });
    expect_stop_and_rest<Late>([] { return threads(2); });
    expect_stop_and_rest<Late>([] { return Cluster(gx::sim::ethernet_10g(3)); });
    expect_stop_and_rest<Late>([] { return Far({{2, 1}, 1, gx::testing::QueueProgress::late}); });
}
/// 40 images on one rank, which is asked to stop behind the last of so many steps.
template <class T>
void expect_the_epochs_end_alone(int batch, int steps) {
    const Folder folder;
    auto world = threads(1);
    typename T::Options o{.batch = batch, .epochs = 1, .output = folder.path, .resume = "latest"};
    gx::StopRequest request;
    Asks asks;
    asks.request = &request;
    asks.at = steps - 1;
    o.stop = &request;
    o.observers = {&asks};
    EXPECT_TRUE(holds(error_of([&] { (void)T(o).train(world, images()); }),
                      "step " + std::to_string(steps) + ": the run has stopped",
                      gx::step_checkpoint_name(steps)));
    o.stop = nullptr;
    o.observers = {};
    const gx::RunRecord rest = T(o).train(world, images());
    o.output.clear();
    o.resume.clear();
    expect_same_learning(rest, T(o).train(world, images()));
}
TEST(StopRequest, BehindTheLastStepOfAllLeavesTheEpochsEndAlone) {
    expect_the_epochs_end_alone<Plain>(4, 10);
}
/// Begins an epoch at its first image only.
class FromTheStart : gx::InMemory<> {
public:
    using InMemory::classes, InMemory::images_per_epoch, InMemory::InMemory, InMemory::keep,
        InMemory::next, InMemory::shape, InMemory::steps_per_epoch;
    void begin_epoch(int epoch) { InMemory::begin_epoch(epoch); }
};
static_assert(gx::Loader<FromTheStart> && !gx::BeginsWithin<FromTheStart>);
TEST(StopRequest, LeavesTheRestToALoaderThatWalksThereFromTheStart) {
    using Walks = gx::Trainer<Net, gx::Ring<fp32>, gx::Warmup<gx::Poly<2>>, FromTheStart>;
    expect_stop_and_rest<Walks>([] { return threads(3); });
    expect_the_epochs_end_alone<Walks>(3, 14);  // which has one image
}
TEST(StopRequest, NamesNoCheckpointThatCannotBeWritten) {
    const Folder folder;
    std::filesystem::create_directories(folder / "step-00000001.safetensors/x");  // in its place
    gx::StopRequest request;
    request.ask();
    auto world = threads(2);
    Plain::Options o{.batch = 4, .output = folder.path, .stop = &request};
    o.checkpoints.stop_on_failure = false;
    try {
        (void)Plain(o).train(world, images());
        FAIL() << "it goes on";
    } catch (const gx::Stopped& e) {
        EXPECT_EQ(e.checkpoint(), "");
        EXPECT_TRUE(holds(e.what(), "Its checkpoint '",
                          "step-00000001.safetensors' can't be written: go on from an older one."))
            << e.what();
    }
}
TEST(StopRequest, WithoutAFolderKeepsNothing) {
    gx::StopRequest request;
    request.ask();
    auto world = threads(2);
    const std::string error =
        error_of([&] { (void)Plain({.batch = 4, .stop = &request}).train(world, images()); });
    EXPECT_EQ(error,
              "step 1: the run has stopped, as it was asked. It has no output folder, so "
              "that nothing of it is kept.");
}
TEST(StopRequest, ThatNeverComesChangesNothing) {
    gx::StopRequest request;
    Plain::Options o{.batch = 4, .epochs = 2};
    Cluster a(gx::sim::ethernet_10g(3)), b(gx::sim::ethernet_10g(3));
    const gx::RunRecord without = Plain(o).train(a, images());
    o.stop = &request;
    const gx::RunRecord with = Plain(o).train(b, images());
    expect_same_learning(with, without);
    EXPECT_EQ(with.event_hash, without.event_hash) << "no message and no time";
}
TEST(StopRequest, OfARunThatContinuesOnSurvivorsIsRefused) {
    using Survives =
        gx::Trainer<Net, gx::Ring<fp32>, gx::Warmup<gx::Poly<2>>, gx::ContinueOnSurvivors>;
    gx::StopRequest request;
    auto world = threads(2);
    EXPECT_TRUE(holds(
        error_of([&] { (void)Survives({.batch = 4, .stop = &request}).train(world, images()); }),
        "leave out 'stop'"));
}

// ---- By signals ---------------------------------------------------------------------

TEST(StopOnSignals, AsksAndGivesTheHandlersBack) {
    struct sigaction before{};
    ::sigaction(SIGUSR1, nullptr, &before);
    {
        gx::StopOnSignals signals;
        EXPECT_FALSE(signals.asked());
        EXPECT_EQ(signals.signal(), 0);
        std::raise(SIGUSR1);
        EXPECT_TRUE(signals.asked());
        EXPECT_EQ(signals.signal(), SIGUSR1);
        std::raise(SIGTERM);
        EXPECT_EQ(signals.signal(), SIGUSR1) << "the same request, so soon behind the first";
    }
    struct sigaction after{};
    ::sigaction(SIGUSR1, nullptr, &after);
    EXPECT_EQ(after.sa_handler, before.sa_handler);
    gx::StopOnSignals again;
    EXPECT_FALSE(again.asked());
}

/// Writes a byte for each step, and from `waits_at` on does no more.
struct Pulse : gx::Observer {
    int to = -1;
    std::int64_t waits_at = -1;
    void step_done(const gx::StepDone& s) override {
        (void)!::write(to, "", 1);
        while (s.step == waits_at) ::pause();
    }
};

struct Signals : WithProcesses {
    /// The exit status of a program that gets `signals` when it has made `steps` steps.
    static int status_after(std::initializer_list<int> signals, int steps,
                            const std::filesystem::path& output,
                            std::chrono::nanoseconds together = std::chrono::hours(1),
                            std::int64_t waits_at = -1) {
        int ends[2];
        EXPECT_EQ(::pipe(ends), 0);
        const pid_t child = ::fork();
        if (child == 0) {
            Pulse pulse;
            pulse.to = ends[1];
            pulse.waits_at = waits_at;
            gx::StopOnSignals guard({SIGTERM, SIGINT, SIGUSR1}, together);
            auto world = threads(2);
            try {
                (void)Late({.batch = 2,
                            .epochs = 4000,
                            .output = output,
                            .checkpoints = {.keep = 2},
                            .stop = &guard,
                            .evaluate = false,
                            .observers = {&pulse}})
                    .train(world, images());
            } catch (const gx::Stopped& e) {
                ::_exit(e.signal() == *signals.begin() ? gx::stopped_exit_status : 3);
            } catch (...) {
                ::_exit(4);
            }
            ::_exit(0);
        }
        ::close(ends[1]);
        char byte;
        for (int k = 0; k < steps; ++k) EXPECT_EQ(::read(ends[0], &byte, 1), 1);
        for (const int s : signals) ::kill(child, s);
        int status = 0;
        while (::read(ends[0], &byte, 1) == 1) {
        }
        ::waitpid(child, &status, 0);
        ::close(ends[0]);
        return status;
    }
};
TEST_F(Signals, EndTheProgramWithACheckpointAndItsStatus) {
    for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) {
        const Folder folder;
        const int status = status_after({signal}, 13, folder.path);
        EXPECT_TRUE(WIFEXITED(status));
        EXPECT_EQ(WEXITSTATUS(status), 75);
        const auto found =
            gx::latest_checkpoint(folder.path, gx::graph<Net>({.input = {1, 4, 4}, .classes = 3}));
        ASSERT_TRUE(found.checkpoint);
        EXPECT_GE(found.checkpoint->step, 13);
        EXPECT_TRUE(found.file.filename().string().starts_with("step-"));
    }
}
// As timeout(1) sends them: to the process and to its group.
TEST_F(Signals, SentTwiceAreOneRequest) {
    const Folder folder;
    const int status = status_after({SIGTERM, SIGTERM, SIGCONT, SIGTERM}, 13, folder.path);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 75);
}
TEST_F(Signals, ASecondOneEndsItAtOnce) {
    const Folder folder;
    const int status = status_after({SIGUSR1, SIGTERM}, 3, folder.path, {}, 2);
    EXPECT_TRUE(WIFSIGNALED(status));
    EXPECT_TRUE(WTERMSIG(status) == SIGTERM || WTERMSIG(status) == SIGUSR1);
}

// ---- In one of several processes ----------------------------------------------------

/// The process of rank 1 gets a signal in its 8th forward pass.
struct SignalsRankOne : gx::reference::Device {
    SignalsRankOne(const gx::Graph& graph, gx::DeviceOptions options)
        : Device(graph, options), is_rank_one(options.rank == 1) {}
    gx::ForwardReport forward(const gx::Batch& batch, gx::Mode mode) {
        if (is_rank_one && ++passes == 8) std::raise(SIGTERM);
        return Device::forward(batch, mode);
    }
    bool is_rank_one;
    int passes = 0;
};
TEST_F(Signals, ToTheProcessOfOneRankStopAll) {
    const Folder folder;
    const gx::Split data = images();
    Late::Options o{.batch = 4, .epochs = 2, .evaluate = false};  // 4 steps an epoch
    auto wall = threads(3);
    const gx::RunRecord whole = Late(o).train(wall, data);
    o.output = folder.path;
    std::int64_t at = 0;
    {
        gx::StopOnSignals guard;
        o.stop = &guard;
        gx::testing::ProcessWorld<SignalsRankOne> world({.placement = {3, 1}});
        try {
            (void)Late(o).train(world, data);
        } catch (const gx::Stopped& e) {
            at = e.step();
            EXPECT_EQ(e.signal(), 0) << "another process has it";
        }
    }
    EXPECT_EQ(at, 8) << "behind the step of the signal";
    o.stop = nullptr;
    o.resume = "latest";
    gx::testing::ProcessWorld<gx::reference::Device> rest({.placement = {3, 1}});
    expect_same_learning(Late(o).train(rest, data), whole);
}

}  // namespace
