// A run that goes on without the ranks that it has lost: cases worked by hand.
#include <gx/survival/continue_on_survivors.hpp>  // first, so the header is seen to stand alone

#include <filesystem>  // checkpoints
#include <fstream>     // one of another run
#include <limits>      // NaN
#include <set>         // names
#include <string>      // names

#include <fmt/core.h>  // traces
#include <gtest/gtest.h>

#include <gx/reducer/double_buffered.hpp>      // DoubleBuffered
#include <gx/reducer/ring.hpp>                 // Ring
#include <gx/scheduler/linear_scaling.hpp>     // LinearScaling
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/sim/fault/faults.hpp>             // DeadInCollective
#include <gx/testing/mutants.hpp>              // Mutant
#include <gx/trainer/trainer.hpp>              // Trainer
#include <trainer/losing.hpp>                  // Mortal, Scripted
#include <trainer/small.hpp>                   // Net, images

namespace {

using namespace testing_support;
using namespace gx::literals;
using gx::fp32;
using gx::Recovery;
using Rate = gx::LinearScaling<gx::Constant>;
using Plain = gx::Ring<fp32>;
using Late = gx::DoubleBuffered<Plain>;
template <class R, class V = gx::ContinueOnSurvivors>
using Trains = gx::Trainer<Net, Departing<R>, Rate, V>;
using Cluster = gx::sim::Cluster<Mortal>;

template <class T>
typename T::Options options(int epochs = 2) {
    typename T::Options o;
    o.batch = 2;
    o.epochs = epochs;
    o.scheduler = {.reference_batch = 8, .next = {.peak_rate = 0.1f}};
    return o;
}
gx::Split data(std::int64_t count = 37) { return numbered(images(count)); }
gx::sim::ClusterOptions faults(gx::sim::FaultList list) {
    return {.deadline = std::chrono::seconds(1), .faults = std::move(list)};
}

// ---- What the type promises ---------------------------------------------------------
static_assert(gx::Survival<gx::StopOnLoss> && gx::Survival<gx::ContinueOnSurvivors>);
static_assert(!gx::Survival<gx::Sgd>);
static_assert(gx::Shrinks<gx::Threads<2>> && gx::Shrinks<Cluster>);
static_assert(std::is_same_v<Trains<Plain, gx::StopOnLoss>::Options,
                             gx::Trainer<Net, Departing<Plain>, Rate>::Options>);

TEST(Survival, IsNamedAndADefaultIsNot) {
    EXPECT_EQ((gx::Trainer<Net, Plain, gx::Constant, gx::ContinueOnSurvivors, gx::Sgd>::name()),
              "Trainer<Mlp<5>, Ring<fp32>, Constant, ContinueOnSurvivors>");
    EXPECT_EQ((gx::Trainer<Net, Plain, gx::Constant, gx::StopOnLoss>::name()),
              "Trainer<Mlp<5>, Ring<fp32>, Constant>");
}

// ---- Without a loss -----------------------------------------------------------------
template <class R>
void expect_as_if_it_stopped() {
    using Stops = Trains<R, gx::StopOnLoss>;
    set_script({});
    Cluster a(gx::sim::ethernet_10g(3)), b(gx::sim::ethernet_10g(3));
    const auto stops = Stops(options<Stops>()).train(a, data());
    const auto goes = Trains<R>(options<Trains<R>>()).train(b, data());
    expect_same_learning(stops, goes);
    EXPECT_EQ(stops.event_hash, goes.event_hash) << "the same messages at the same times";
    EXPECT_EQ(stops.seconds, goes.seconds);
    EXPECT_TRUE(goes.losses.empty());
}
TEST(Survival, WithoutALossIsThatOfStopOnLoss) {
    expect_as_if_it_stopped<Plain>();
    expect_as_if_it_stopped<Late>();
}

// ---- A case worked by hand ----------------------------------------------------------
TEST(Survival, GoesOnWithThreeOfFourInTheMiddleOfAnEpoch) {
    using T = Trains<Plain>;
    set_script({});
    auto world = std::make_unique<Cluster>(gx::sim::ethernet_10g(4),
                                           faults({gx::sim::DeadInCollective{2, 2, 0, 3}}));
    auto& cluster = *world;
    const auto r = T(options<T>()).train(cluster, data());
    EXPECT_TRUE(cluster.died(2));
    for (const int survivor : {0, 1, 3}) {
        try {
            std::rethrow_exception(cluster.error_of(survivor));
        } catch (const gx::LostRank& e) {
            EXPECT_EQ(e.lost(), 2);
            EXPECT_EQ(e.where().rank, survivor);
            EXPECT_EQ(e.where().step, 2);
            EXPECT_EQ(e.where().operation, "all-reduce");
        }
    }
    ASSERT_EQ(r.losses.size(), 1u);
    EXPECT_EQ(r.losses[0].step, 2) << "step 2 is made again";
    EXPECT_EQ(r.losses[0].ranks, 3);
    EXPECT_EQ(r.losses[0].lost, std::vector<int>{2});
    EXPECT_TRUE(holds(r.losses[0].error, "operation all-reduce: rank 2 timed out"));
    // 37 images: 2 steps of 8, then 21 images in steps of 6, 6, 6 and 3; and 7 steps of 3 x 2
    ASSERT_EQ(r.steps.size(), 6u + 7u);
    EXPECT_EQ(r.epochs[0].step, 6);
    for (std::size_t i = 0; i < r.steps.size(); ++i) {
        EXPECT_EQ(r.steps[i].step, std::int64_t(i));
        EXPECT_FLOAT_EQ(float(r.steps[i].rate), i < 2 ? 0.1f : 0.075f) << "6/8 of the rate";
    }
    EXPECT_GT(r.steps[2].seconds - r.steps[1].seconds, 1.0) << "the deadline has passed";
    EXPECT_EQ(r.images, 2 * 37);
    ASSERT_FALSE(r.notes.empty());
    EXPECT_TRUE(
        holds(r.notes.back(), "lost rank 2 (rank ", "and went on from step 2 with 3 ranks"));
}
TEST(Survival, EveryImageCountsOnceInAnEpoch) {
    using T = Trains<Late>;
    for (const std::int64_t at : {0, 1, 4, 5, 7}) {
        set_script({{{1}, at}, {{0, 2}, at + 3}});
        auto world = scripted_cluster(gx::sim::ethernet_10g(5));
        const auto r = T(options<T>(3)).train(world, data(41));
        ASSERT_EQ(r.losses.size(), 2u) << at;
        EXPECT_EQ(r.losses[0].step, at) << "steps before it reach every survivor";
        EXPECT_EQ(r.losses[1].step, at + 3);
        EXPECT_EQ(r.losses[1].lost, (std::vector<int>{0, 3})) << "by their first numbers";
        const auto times = seen_in(r.losses);
        EXPECT_EQ(times.size(), 41u);
        for (const auto& [image, n] : times) EXPECT_EQ(n, 3) << image;
        EXPECT_EQ(std::ssize(r.steps), r.epochs.back().step);
        EXPECT_EQ(r.images, 3 * 41);
    }
}

// ---- The same in every world --------------------------------------------------------
template <class R>
void expect_threads_as_simulated() {
    using T = Trains<R>;
    const T trainer(options<T>(2));
    set_script({{{1}, 3}, {{2}, 5}});
    auto simulated = scripted_cluster(gx::sim::ethernet_10g(4));
    const auto a = trainer.train(simulated, data());
    for (int repeat = 0; repeat < 5; ++repeat) {  // threads meet in other orders
        set_script({{{1}, 3}, {{2}, 5}});
        auto threads = scripted_threads(4);
        const auto b = trainer.train(threads, data());
        expect_same_learning(a, b);
        ASSERT_EQ(b.losses.size(), 2u);
        for (std::size_t i = 0; i < 2; ++i) {
            EXPECT_EQ(a.losses[i].step, b.losses[i].step);
            EXPECT_EQ(a.losses[i].lost, b.losses[i].lost);
        }
    }
}
TEST(Survival, OnThreadsGivesTheBitsOfTheSimulation) {
    expect_threads_as_simulated<Plain>();
    expect_threads_as_simulated<Late>();
}
TEST(Survival, ThreadsNameTheLostRankThemselves) {
    using T = Trains<Plain>;
    set_script({{{1}, 3, true}});
    auto world = scripted_threads(4);
    const auto r = T(options<T>()).train(world, data());
    ASSERT_EQ(r.losses.size(), 1u);
    EXPECT_EQ(r.losses[0].lost, std::vector<int>{1});
    EXPECT_EQ(r.losses[0].error, "the device of a rank is gone");
    EXPECT_EQ(world.ranks(), 4) << "the world itself is not changed";
}

// ---- Time and money -----------------------------------------------------------------
TEST(Survival, TimeAndDollarsCoverAllWorlds) {
    using T = Trains<Plain>;
    auto spec = gx::sim::ethernet_10g(4);
    spec.machine.price = {3600.0};  // a dollar a second and machine
    auto o = options<T>();
    o.survival.restart_time = std::chrono::seconds(100);
    set_script({});
    Cluster world(spec, faults({gx::sim::DeadInCollective{2, 2, 0, 3}}));
    const auto r = T(o).train(world, data());
    EXPECT_GT(r.seconds, 101);  // the restart and the deadline
    EXPECT_GT(r.dollars, 4 * 1.0 + 3 * 100.0) << "the restart at the price of three";
    EXPECT_LT(r.dollars, 4 * 1.1 + 3 * 101.0);
    EXPECT_NEAR(r.seconds,
                r.breakdown.compute + r.breakdown.exposed_communication + r.breakdown.input +
                    r.breakdown.idle,
                1e-9 * r.seconds);
}

/// Runs whose steps have two images a rank, of which one step or two lose a rank.
template <class R>
void expect_every_update_timed_once() {
    using T = Trains<R>;
    const auto run = [&](std::vector<Departure> departures, gx::sim::FaultList list) {
        set_script(std::move(departures));
        auto world = scripted_cluster(gx::sim::ethernet_10g(4), faults(std::move(list)));
        return T(options<T>()).train(world, data(48));
    };
    const auto whole = run({}, {});
    const double step = whole.undisturbed_seconds / double(whole.steps.size());
    ASSERT_GT(step, 0);
    const auto expect_steps = [&](const gx::RunRecord& r, std::size_t steps, std::string where) {
        ASSERT_EQ(r.steps.size(), steps) << where;
        EXPECT_NEAR(r.undisturbed_seconds / step, double(steps), 1e-9) << where;
    };
    for (const std::int64_t at : {0, 3, 6, 9}) {
        // Steps of 8 images up to the loss, then of 6.
        const std::size_t steps = std::size_t(at + (96 - 8 * at) / 6);
        expect_steps(run({}, {gx::sim::DeadInCollective{2, at, 0, 3}}), steps,
                     fmt::format("a message of step {}", at));
        expect_steps(run({{.ranks = {1}, .step = at}}, {}), steps, fmt::format("step {}", at));
        expect_steps(run({{.ranks = {1}, .step = at, .device = true}}, {}), steps,
                     fmt::format("the device in step {}", at));
    }
    // Three steps of 8 images, four of 6, and 12 of 4.
    expect_steps(run({{.ranks = {1}, .step = 3}, {.ranks = {1}, .step = 7, .device = true}}, {}),
                 19, "two losses");
}
TEST(Survival, UndisturbedTimeHasEveryUpdateOnce) {
    expect_every_update_timed_once<Plain>();
    expect_every_update_timed_once<Late>();
}

// ---- Recovery from checkpoints ------------------------------------------------------
TEST(Survival, GoesBackToTheNewestCheckpointThatIsWhole) {
    using T = Trains<Late>;
    const auto run = [&](const char* torn) {
        const Folder folder;
        auto o = options<T>(3);
        o.output = folder.path;
        o.survival.recovery = Recovery::checkpoint;
        set_script({{{0}, 12}});          // five steps an epoch: in the third
        struct Tears : ScriptedCluster {  // between the worlds
            using ScriptedCluster::ScriptedCluster;
            std::filesystem::path file{};
            auto survivors(std::span<const int> lost, gx::Nanoseconds t) const {
                if (!file.empty())
                    std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
                return ScriptedCluster::survivors(lost, t);
            }
        };
        Tears world(std::make_unique<Cluster>(gx::sim::ethernet_10g(4)));
        if (torn) world.file = folder / torn;
        return T(o).train(world, data());
    };
    const auto whole = run(nullptr), older = run("epoch-0001.safetensors"),
               torn = run("epoch-0002.safetensors");
    ASSERT_EQ(whole.losses.size(), 1u);
    EXPECT_EQ(whole.losses[0].step, 10);
    EXPECT_EQ(whole.steps.size(), 10u + 7u);
    expect_same_learning(whole, older);  // rows of the first epoch are in the record
    ASSERT_EQ(torn.losses.size(), 1u);
    EXPECT_EQ(torn.losses[0].step, 5);
    EXPECT_EQ(torn.steps.size(), 5u + 7u + 7u);
    bool told = false;
    for (const auto& note : torn.notes)
        told = told || holds(note, "An older checkpoint is used", "epoch-0002.safetensors");
    EXPECT_TRUE(told);
    EXPECT_EQ(torn.epochs.size(), 3u);
}
TEST(Survival, OfAllWorldsOfARunTheNewestCheckpointsAreKept) {
    using T = Trains<Plain>;
    enum class From { start, checkpoint, checkpoint_elsewhere };
    const auto run = [](Recovery recovery, bool evaluate, From from) {
        const Folder folder, elsewhere;
        auto o = options<T>(from == From::start ? 6 : 2);
        o.evaluate = evaluate;
        o.checkpoints.keep = 2;
        o.survival.recovery = recovery;
        const Folder& first = from == From::checkpoint ? folder : elsewhere;
        if (from != From::start) {
            ScriptedCluster whole(std::make_unique<Cluster>(gx::sim::ethernet_10g(4)));
            set_script({});
            o.output = first.path;
            (void)T(o).train(whole, data());
            o.resume = first / "epoch-0002.safetensors";
        }
        std::set<std::string> expected{"epoch-0005.safetensors", "epoch-0006.safetensors"};
        if (from != From::checkpoint) expected.insert("step-00000003.safetensors");
        if (from == From::checkpoint_elsewhere) expected.insert("epoch-0001.safetensors");
        for (const char* name : {"step-00000003.safetensors", "epoch-0001.safetensors"})
            if (expected.contains(name)) std::ofstream(folder / name) << "of another run";
        o.epochs = 6;
        o.output = folder.path;
        set_script({{{0}, 17}, {{1}, 27}});  // 5 steps an epoch, then 7: in the fourth and fifth
        ScriptedCluster losing(std::make_unique<Cluster>(gx::sim::ethernet_10g(4)));
        const auto r = T(o).train(losing, data());
        EXPECT_EQ(r.losses.size(), 2u);
        std::size_t best = from == From::checkpoint_elsewhere ? 2 : 0;
        for (std::size_t e = best; e < r.epochs.size(); ++e)
            if (r.epochs[e].test_accuracy_pct >= r.epochs[best].test_accuracy_pct) best = e;
        if (evaluate) expected.insert(gx::checkpoint_name(int(best) + 1));
        std::set<std::string> found;
        for (const auto& one : std::filesystem::directory_iterator(folder.path)) {
            const std::string name = one.path().filename().string();
            if (name.starts_with("epoch-") || name.starts_with("step-")) found.insert(name);
        }
        EXPECT_EQ(found, expected);
    };
    for (const Recovery recovery : {Recovery::survivors, Recovery::checkpoint})
        for (const bool evaluate : {false, true})
            for (const From from : {From::start, From::checkpoint, From::checkpoint_elsewhere}) {
                SCOPED_TRACE(fmt::format("recovery {}, evaluate {}, from {}", int(recovery),
                                         evaluate, int(from)));
                run(recovery, evaluate, from);
            }
}
TEST(Survival, WithoutACheckpointItStartsAgain) {
    using T = Trains<Plain>;
    const Folder folder;
    auto o = options<T>();
    o.output = folder.path;
    o.survival.recovery = Recovery::checkpoint;
    set_script({{{3}, 2}});
    auto world = scripted_cluster(gx::sim::ethernet_10g(4));
    const auto r = T(o).train(world, data());
    EXPECT_EQ(r.losses.at(0).step, 0);
    set_script({});
    Cluster three(gx::sim::ethernet_10g(3));
    o.output.clear();
    o.survival.recovery = Recovery::survivors;
    expect_same_learning(r, T(o).train(three, data()));
}

// ---- Checkpoints of a run that has lost ranks ---------------------------------------
template <class R>
void expect_resumes(std::int64_t lost_at) {
    using T = Trains<R>;
    const Folder folder;
    auto o = options<T>(3);
    o.output = folder.path;
    set_script({{{1}, lost_at}});
    auto world = scripted_cluster(gx::sim::ethernet_10g(4));
    const auto whole = T(o).train(world, data());
    for (const char* name : {"epoch-0001.safetensors", "epoch-0002.safetensors"}) {
        o.resume = folder / name;
        o.output.clear();
        set_script({});
        Cluster three(gx::sim::ethernet_10g(3));
        const auto rest = T(o).train(three, data());
        expect_same_learning(whole, rest);
        bool told = false;
        for (const auto& note : rest.notes) told = told || holds(note, "lost rank 1");
        EXPECT_TRUE(told) << name;
    }
}
TEST(Survival, ACheckpointAfterALossResumes) {
    for (const std::int64_t lost_at : {2, 4}) expect_resumes<Plain>(lost_at);
    for (const std::int64_t lost_at : {2, 4, 5}) expect_resumes<Late>(lost_at);
    using Later = gx::DoubleBuffered<Late>;
    for (const std::int64_t lost_at : {3, 4, 5}) expect_resumes<Later>(lost_at);
}
TEST(Survival, ResumesWhatStopOnLossHasWritten) {
    const Folder folder;
    using Stops = Trains<Plain, gx::StopOnLoss>;
    auto o = options<Stops>(3);
    o.output = folder.path;
    set_script({{{1}, 12, true}});
    Cluster world(gx::sim::ethernet_10g(4));
    EXPECT_THROW((void)Stops(o).train(world, data()), gx::DeviceLost);
    auto goes = options<Trains<Plain>>(3);
    goes.resume = folder / "epoch-0002.safetensors";
    set_script({{{1}, 2, true}});  // of the resumed part
    auto again = scripted_cluster(gx::sim::ethernet_10g(4));
    const auto r = Trains<Plain>(goes).train(again, data());
    EXPECT_EQ(r.losses.at(0).step, 12);
    EXPECT_EQ(r.epochs.size(), 3u);
}
// The rows and the times before a resume are those of the file, also where rank 0, which fills the
// record, is lost: before it has read them, or later.
TEST(Survival, AResumedRunThatLosesRankZeroKeepsWhatWasBefore) {
    using T = Trains<Plain>;
    const Folder folder;
    auto o = options<T>(2);
    o.output = folder.path;
    set_script({});
    Cluster world(gx::sim::ethernet_10g(4));
    const auto before = T(o).train(world, data());
    o.output.clear();
    o.resume = folder / "epoch-0002.safetensors";
    o.epochs = 3;
    for (const double at : {0.0, 0.9}) {  // of the time of the epochs before; 0.5 of the third
        SCOPED_TRACE(at);
        const gx::Nanoseconds time(std::int64_t(at * 1e9 * before.seconds / 2));
        Cluster again(gx::sim::ethernet_10g(4), faults({gx::sim::DeadGpu{0, time}}));
        const auto r = T(o).train(again, data());
        ASSERT_EQ(r.losses.size(), 1u);
        ASSERT_EQ(r.epochs.size(), 3u);
        for (std::size_t e = 0; e < 2; ++e) {
            EXPECT_EQ(r.epochs[e].step, before.epochs[e].step);
            EXPECT_EQ(r.epochs[e].train_loss, before.epochs[e].train_loss);
            EXPECT_EQ(r.epochs[e].test_loss, before.epochs[e].test_loss);
        }
        ASSERT_GT(r.steps.size(), before.steps.size());
        for (std::size_t i = 0; i < before.steps.size(); ++i)
            EXPECT_EQ(r.steps[i].loss, before.steps[i].loss) << i;
        EXPECT_GT(r.breakdown.compute, before.breakdown.compute);
    }
}

// ---- Where it stops -----------------------------------------------------------------
TEST(Survival, StopsWithTooFew) {
    using T = Trains<Plain>;
    auto o = options<T>();
    o.survival.fewest_ranks = 4;
    set_script({});
    Cluster world(gx::sim::ethernet_10g(4), faults({gx::sim::DeadGpu{1, 0_us}}));
    EXPECT_TRUE(holds(error_of([&] { (void)T(o).train(world, data()); }), "rank 1 timed out",
                      "3 ranks are left, and fewest_ranks is 4"));
}
TEST(Survival, AllRanksLostIsAnError) {
    using T = Trains<Plain>;
    set_script({});
    Cluster world(gx::sim::ethernet_10g(2),
                  faults({gx::sim::DeadGpu{0, 50_us}, gx::sim::DeadGpu{1, 50_us}}));
    EXPECT_TRUE(holds(error_of([&] { (void)T(options<T>()).train(world, data()); }),
                      "rank 0 was lost in epoch 1 of ",
                      "the others had finished or were lost too"));
}
TEST(Survival, OtherErrorsEndTheRun) {
    using T = Trains<Plain>;
    auto o = options<T>(30);
    o.scheduler.next.peak_rate = 1e20f;
    set_script({});
    Cluster world(gx::sim::ethernet_10g(3));
    EXPECT_TRUE(holds(error_of([&] { (void)T(o).train(world, data()); }), "not finite"));
}
/// No mean is a number.
template <gx::Reducer R>
struct GivesNaN : gx::testing::Mutant<R> {
    gx::ReduceReport all_reduce(gx::Transport auto& link, const gx::Bucket& bucket) {
        const gx::ReduceReport report = this->inner_.all_reduce(link, bucket);
        bucket[0] = std::numeric_limits<float>::quiet_NaN();
        return report;
    }
};
TEST(Survival, ThatAllStepsAreSkippedIsAnErrorAfterALossToo) {
    using T = Trains<GivesNaN<Plain>>;
    set_script({{{1}, 2}});
    auto world = scripted_cluster(gx::sim::ethernet_10g(4));
    EXPECT_TRUE(holds(error_of([&] { (void)T(options<T>()).train(world, data()); }),
                      "step 13: all 13 steps were skipped, because averaged gradients had "
                      "infinities or NaN"));
}
/// Faults that fail while a world is built, as where memory runs out.
struct NoRoom : gx::sim::FaultPlan::Listed {
    [[nodiscard]] const std::vector<gx::sim::Fault>& list() const override { return none; }
    [[nodiscard]] std::vector<std::string> sentences(std::size_t) const override { return {}; }
    void check(const gx::sim::ClusterSpec&, gx::Problems&) const override {}
    [[nodiscard]] bool reroutes() const override { return false; }
    [[nodiscard]] gx::sim::FaultPlan seen_by(const gx::sim::Core&, const gx::sim::ClusterSpec&,
                                             gx::Nanoseconds,
                                             const gx::sim::FaultInterface*) const override {
        return {};
    }
    [[nodiscard]] std::unique_ptr<gx::sim::FaultInterface> start(
        std::uint64_t, gx::sim::Engine&, gx::sim::FlowNetwork&, const gx::sim::Topology&,
        gx::sim::MessageMatcher&) const override {
        throw gx::Error("no room for faults");
    }
    std::vector<gx::sim::Fault> none{};
};
TEST(Survival, AnErrorWhileAWorldIsBuiltEndsTheRun) {
    using T = Trains<Plain>;
    set_script({});
    Cluster world(gx::sim::ethernet_10g(2),
                  {.faults = gx::sim::FaultPlan(std::make_shared<NoRoom>())});
    EXPECT_EQ(error_of([&] { (void)T(options<T>()).train(world, data()); }), "no room for faults");
}
TEST(Survival, AFaultThatNeverComesIsToldAtTheEnd) {
    using T = Trains<Plain>;
    set_script({});
    Cluster world(gx::sim::ethernet_10g(3),
                  faults({gx::sim::DeadInCollective{2, 2, 0, 1}, gx::sim::SlowGpu{0, 2, 0_us},
                          gx::sim::DeadGpu{1, 3'600'000'000_us}}));
    EXPECT_TRUE(holds(error_of([&] { (void)T(options<T>()).train(world, data()); }),
                      "faults without effect", "GPU dead, rank 1"));
}
TEST(Survival, OptionsOutOfRangeAreToldAtOnce) {
    using T = Trains<Plain>;
    auto o = options<T>();
    o.batch = 0;
    o.survival = {.fewest_ranks = 3,
                  .recovery = Recovery::checkpoint,
                  .restart_time = gx::Nanoseconds::max()};
    Cluster world(gx::sim::ethernet_10g(2));
    EXPECT_TRUE(holds(error_of([&] { (void)T(o).train(world, data()); }), "batch is 0",
                      "fewest_ranks is 3: this world has 2 ranks",
                      "restart_time is 9223372036854775807 ns: it must be from 0 to a year",
                      "output is empty: recovery from checkpoints needs a folder"));
}

/// The mutant: rank 2 averages wrongly.
template <gx::Reducer R>
struct RankTwoDrifts : gx::testing::Mutant<R> {
    gx::ReduceReport all_reduce(gx::Transport auto& link, const gx::Bucket& bucket) {
        const gx::ReduceReport report = this->inner_.all_reduce(link, bucket);
        if (link.rank() == 2 && link.ranks() == 4) bucket[0] += 1;
        return report;
    }
};
TEST(Survival, SurvivorsThatDifferAreFound) {
    using T = Trains<RankTwoDrifts<Plain>>;
    set_script({{{1}, 2}});
    auto world = scripted_cluster(gx::sim::ethernet_10g(4));
    EXPECT_TRUE(holds(error_of([&] { (void)T(options<T>()).train(world, data()); }),
                      "step 2: of the ranks that are left, 0 and 1 have made as many updates and "
                      "differ in their state"));
}

}  // namespace
