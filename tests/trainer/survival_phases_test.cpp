// A run of several phases that goes on without the ranks that it has lost.
#include <gx/trainer/rank/training.hpp>  // first, so the header is seen to stand alone

#include <cmath>  // pow

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/model/layers.hpp>                    // Network
#include <gx/optimizer/adamw.hpp>                 // AdamW
#include <gx/reducer/double_buffered.hpp>         // DoubleBuffered
#include <gx/reducer/ring.hpp>                    // Ring
#include <gx/scheduler/linear_scaling.hpp>        // LinearScaling
#include <gx/sim/catalog/simple_clusters.hpp>     // ethernet_10g
#include <gx/sim/fault/random_faults.hpp>         // random_faults
#include <gx/survival/continue_on_survivors.hpp>  // ContinueOnSurvivors
#include <gx/top_k/reducer.hpp>                   // TopK
#include <gx/trainer/trainer.hpp>                 // Trainer
#include <trainer/losing.hpp>                     // Mortal, Scripted
#include <trainer/small.hpp>                      // images

namespace {

using namespace testing_support;
using namespace gx::literals;
using gx::fp32;
using gx::Phase;
using gx::Recovery;
using Rate = gx::LinearScaling<gx::Poly<2>>;
using Plain = gx::Ring<fp32>;
using Late = gx::DoubleBuffered<Plain>;
using Cluster = gx::sim::Cluster<Mortal>;

/// Takes images of any size, and has running statistics.
struct Pooled : gx::Network<gx::ImageShape{1, 4, 4}, 3, gx::Conv<4, 3, 1, 1>, gx::BatchNorm,
                            gx::ReLU, gx::GlobalAvgPool, gx::Classifier> {
    static constexpr std::string_view name = "Pooled";
};
/// The same, with draws that depend on the number of a step.
struct Dropping : gx::Network<gx::ImageShape{1, 4, 4}, 3, gx::Conv<4, 3, 1, 1>, gx::BatchNorm,
                              gx::ReLU, gx::GlobalAvgPool, gx::Dropout<0.2>, gx::Classifier> {
    static constexpr std::string_view name = "Dropping";
};
/// The same without statistics.
struct Bare : gx::Network<gx::ImageShape{1, 4, 4}, 3, gx::Conv<4, 3, 1, 1>, gx::ReLU,
                          gx::GlobalAvgPool, gx::Dropout<0.2>, gx::Classifier> {
    static constexpr std::string_view name = "Bare";
};
template <class R, class M = Pooled, class V = gx::ContinueOnSurvivors, class O = gx::Sgd>
using Trains = gx::Trainer<M, Departing<R>, Rate, O, V>;

constexpr int images_of_epoch = 37;
gx::Split data(std::int64_t count = images_of_epoch) { return numbered_at_any_size(images(count)); }
/// Epochs 0 and 1, 2, 3 of another batch and image size each.
std::vector<Phase> three_phases() { return {{0, 2, 4}, {2, 3, 6}, {3, 1, 5}}; }

template <class T>
typename T::Options options(int epochs = 4) {
    typename T::Options o;
    o.epochs = epochs;
    o.phases = three_phases();
    o.seed = 7;
    o.scheduler = {.reference_batch = 8, .next = {.peak_rate = 0.1f}};
    return o;
}
void expect_counted(const Outcome& o, int epochs) {
    EXPECT_EQ(std::ssize(o.seen), images_of_epoch);
    for (const auto& [image, times] : o.seen) EXPECT_EQ(times, epochs) << image;
    std::int64_t step = 0;
    for (const gx::StepRow& row : o.record.steps) EXPECT_EQ(row.step, step++);
    EXPECT_EQ(step, o.record.epochs.back().step);
    EXPECT_EQ(std::ssize(o.record.epochs), epochs);
    EXPECT_EQ(o.record.images, double(epochs * images_of_epoch));
}

// ---- A case worked by hand ----------------------------------------------------------
/// One step, by a walk through the images: whose rank count and phase it has.
struct Walked {
    std::int64_t first_image = 0;  ///< in its epoch
    double rate = 0;
};
/// The steps of `phases` over `epochs` where ranks leave before `departures[i].step`.
std::vector<Walked> walk(const std::vector<Phase>& phases, int epochs, int ranks,
                         const std::vector<Departure>& departures) {
    std::vector<Walked> steps;
    std::size_t next = 0;
    for (int epoch = 0; epoch < epochs; ++epoch) {
        int batch = 0;
        for (const Phase& p : phases)
            if (p.first_epoch <= epoch) batch = p.batch;
        for (int image = 0; image < images_of_epoch;) {
            while (next < departures.size() && departures[next].step == std::ssize(steps))
                ranks -= int(departures[next++].ranks.size());
            const int first_batch = phases[0].batch * ranks;
            const int an_epoch = (images_of_epoch + first_batch - 1) / first_batch;
            const double done = epoch * an_epoch + image / first_batch;  // of the first phase's
            steps.push_back(
                {image, 0.1 * batch * ranks / 8 * std::pow(1 - done / (epochs * an_epoch), 2)});
            image += batch * ranks;
        }
    }
    return steps;
}
TEST(SurvivalInPhases, StepsAndRatesFollowTheDataThatIsLeft) {
    using T = Trains<Plain>;
    // 5 steps of 8 an epoch; then 12, 12 and 13 images for 3 ranks x 3: 2 steps
    const std::vector<std::vector<Departure>> cases{{{{1}, 12}},
                                                    {{{1}, 10}},
                                                    {{{1}, 3}},
                                                    {{{2}, 4}, {{0}, 13}, {{1}, 18}},
                                                    {{{3}, 9}, {{0}, 11}}};
    for (const auto& departures : cases) {
        set_script(departures);
        auto world = scripted_cluster(gx::sim::ethernet_10g(4));
        const Outcome r = outcome<T, Pooled>(world, data(), options<T>());
        expect_counted(r, 4);
        const auto expected = walk(three_phases(), 4, 4, departures);
        ASSERT_EQ(r.record.steps.size(), expected.size());
        for (std::size_t i = 0; i < expected.size(); ++i)
            EXPECT_NEAR(r.record.steps[i].rate, expected[i].rate, 1e-6) << "step " << i;
        ASSERT_EQ(r.record.losses.size(), departures.size());
        for (std::size_t i = 0; i < departures.size(); ++i)
            EXPECT_EQ(r.record.losses[i].step, departures[i].step);
        ASSERT_EQ(r.record.phases.size(), 3u);
        EXPECT_EQ(r.record.phases[1].batch_per_rank, 3);
    }
}

// ---- Without a loss -----------------------------------------------------------------
template <class R>
void expect_as_if_it_stopped() {
    using Stops = Trains<R, Dropping, gx::StopOnLoss>;
    using Goes = Trains<R, Dropping>;
    set_script({});
    Cluster a(gx::sim::ethernet_10g(3)), b(gx::sim::ethernet_10g(3));
    const auto stops = Stops(options<Stops>()).train(a, data());
    const auto goes = Goes(options<Goes>()).train(b, data());
    expect_same_learning(stops, goes);
    EXPECT_EQ(stops.event_hash, goes.event_hash) << "the same messages at the same times";
    EXPECT_EQ(stops.seconds, goes.seconds);
}
TEST(SurvivalInPhases, WithoutALossIsThatOfStopOnLoss) {
    expect_as_if_it_stopped<Plain>();
    expect_as_if_it_stopped<Late>();
}

// ---- Independent oracles ------------------------------------------------------------
// The loss of a rank between two epochs is a resume with the ranks that are left. The epoch before
// has its metrics over survivors, and would have its statistics.
TEST(SurvivalInPhases, ALossBetweenEpochsIsAResumeWithFewerRanks) {
    using Goes = Trains<Plain, Bare>;
    using Stops = Trains<Plain, Bare, gx::StopOnLoss>;
    for (const int epoch : {1, 2, 3}) {
        SCOPED_TRACE(epoch);
        const Folder folder;
        auto o = options<Stops>();
        o.output = folder.path;
        set_script({});
        Cluster four(gx::sim::ethernet_10g(4)), three(gx::sim::ethernet_10g(3));
        const auto whole = Stops(o).train(four, data());
        o.output.clear();
        o.resume = folder / gx::checkpoint_name(epoch).c_str();
        const auto resumed = Stops(o).train(three, data());
        const std::int64_t lost_at = whole.epochs[std::size_t(epoch) - 1].step;
        set_script({{{2}, lost_at}});
        auto world = scripted_cluster(gx::sim::ethernet_10g(4));
        const auto goes = Goes(options<Goes>()).train(world, data());
        ASSERT_EQ(goes.losses.size(), 1u);
        EXPECT_EQ(goes.weights_hash, resumed.weights_hash);
        ASSERT_EQ(goes.steps.size(), resumed.steps.size());
        for (std::size_t i = std::size_t(lost_at); i < goes.steps.size(); ++i) {
            EXPECT_EQ(goes.steps[i].loss, resumed.steps[i].loss) << i;
            EXPECT_EQ(goes.steps[i].rate, resumed.steps[i].rate) << i;
        }
        for (std::size_t e = std::size_t(epoch); e < 4; ++e)
            EXPECT_EQ(goes.epochs[e].test_loss, resumed.epochs[e].test_loss) << e;
    }
}
// Phases of one batch and size are no phases, whatever is lost.
template <class R>
void expect_no_phases() {
    using T = Trains<R, Dropping>;
    for (const std::int64_t step : {2, 4, 5, 9, 13}) {
        SCOPED_TRACE(step);
        auto o = options<T>();
        o.phases.clear();
        o.batch = 2;
        const std::vector<Departure> departures{{{1}, step}, {{0}, step + 4}};
        set_script(departures);
        auto world = scripted_cluster(gx::sim::ethernet_10g(4));
        const Outcome without = outcome<T, Dropping>(world, data(), o);
        o.phases = {{0, 2, 4}, {1, 2, 4}, {2, 2, 4}};
        set_script(departures);
        auto again = scripted_cluster(gx::sim::ethernet_10g(4));
        const Outcome with = outcome<T, Dropping>(again, data(), o);
        expect_same_learning(without.record, with.record);
        expect_same_state(without, with);
    }
}
TEST(SurvivalInPhases, PhasesOfOneBatchAndSizeChangeNothing) {
    expect_no_phases<Plain>();
    expect_no_phases<Late>();
}

// ---- The same in every world --------------------------------------------------------
template <class R>
void expect_threads_as_simulated() {
    using T = Trains<R, Dropping>;
    const T trainer(options<T>());
    for (const std::int64_t step : {4, 9, 10, 12, 14}) {
        SCOPED_TRACE(step);
        const std::vector<Departure> departures{{{1}, step}, {{2}, step + 3}};
        set_script(departures);
        auto simulated = scripted_cluster(gx::sim::ethernet_10g(4));
        const auto a = trainer.train(simulated, data());
        set_script(departures);
        auto threads = scripted_threads(4);
        const auto b = trainer.train(threads, data());
        expect_same_learning(a, b);
        ASSERT_EQ(b.losses.size(), 2u);
        EXPECT_EQ(b.losses[1].step, step + 3);
        EXPECT_EQ(b.losses[1].lost, a.losses[1].lost);
    }
}
TEST(SurvivalInPhases, OnThreadsGivesTheBitsOfTheSimulation) {
    expect_threads_as_simulated<Plain>();
    expect_threads_as_simulated<Late>();
}
TEST(SurvivalInPhases, ADeviceLostWhereAPhaseBeginsIsRepeatedThere) {
    using T = Trains<Late>;
    set_script({{{1}, 10, true}});  // in the first forward pass of the second phase
    auto world = scripted_threads(4);
    const Outcome r = outcome<T, Pooled>(world, data(), options<T>());
    ASSERT_EQ(r.record.losses.size(), 1u);
    EXPECT_EQ(r.record.losses[0].lost, std::vector<int>{1});
    expect_counted(r, 4);
}

// ---- For any faults -----------------------------------------------------------------
/// The same history, without faults: ranks leave between two steps.
template <class T, class M>
Outcome repeated(const gx::RunRecord& history, const gx::sim::ClusterSpec& spec,
                 const typename T::Options& o) {
    set_script(departures_of(history.losses, spec.ranks()));
    auto world = scripted_cluster(spec);
    return outcome<T, M>(world, data(), o);
}
std::vector<Phase> any_phases(std::uint64_t seed) {
    const gx::Rng rng(seed, "phases of a test");
    std::vector<Phase> phases;
    for (int i = 0, epoch = 0; epoch < 3; ++i) {
        const auto draw = std::uint64_t(3 * i);
        phases.push_back({epoch, 1 + int(rng.below(draw, 4)), 3 + int(rng.below(draw + 1, 4))});
        epoch += 1 + int(rng.below(draw + 2, 2));
    }
    return phases;
}
template <class R, class M = Pooled>
void survives(std::uint64_t seed, Recovery recovery = Recovery::survivors) {
    using T = Trains<R, M>;
    auto spec = gx::sim::ethernet_10g(3);
    spec.machine.gpus = seed % 2 == 0 ? 1 : 2;
    spec.machine.peer_bandwidth = {10e9};
    auto o = options<T>(3);
    o.phases = any_phases(seed);
    o.survival.recovery = recovery;
    set_script({});
    auto world =
        scripted_cluster(spec, {.seed = seed,
                                .deadline = 1'000'000_us,
                                .faults = gx::sim::random_faults(
                                    seed, spec, 4'000_us, {.absent = 0.6, .corruption = false}),
                                .faults_must_fire = false});
    Outcome first;
    try {
        first = outcome<T, M>(world, data(), o);
    } catch (const gx::Error&) {
        return;  // all were lost
    }
    RC_CLASSIFY(!first.record.losses.empty());
    expect_counted(first, 3);
    o.survival.recovery = Recovery::survivors;
    expect_same_state(first, repeated<T, M>(first.record, spec, o));
    RC_ASSERT(!::testing::Test::HasFailure());
}
TEST(SurvivalInPhases, EqualsACleanRunOverTheSameWorlds) {
    EXPECT_TRUE(rc::check([](std::uint64_t seed) { survives<Plain>(seed); }));
}
TEST(SurvivalInPhases, ALateReducerLosesNothingEither) {
    EXPECT_TRUE(rc::check([](std::uint64_t seed) { survives<gx::DoubleBuffered<Late>>(seed); }));
}
TEST(SurvivalInPhases, FromCheckpointsToo) {
    // a checkpoint has the statistics of all that were alive
    EXPECT_TRUE(
        rc::check([](std::uint64_t seed) { survives<Plain, Bare>(seed, Recovery::checkpoint); }));
}

// ---- At any moment ------------------------------------------------------------------
template <class R, class M = Dropping, class O = gx::Sgd>
int worlds_of_deaths(gx::Nanoseconds every) {
    using T = Trains<R, M, gx::ContinueOnSurvivors, O>;
    const auto spec = gx::sim::ethernet_10g(4);
    const auto o = options<T>();
    set_script({});
    Cluster whole(spec);
    const gx::RunRecord without = T(o).train(whole, data());
    const gx::Nanoseconds until(std::int64_t(1.1e9 * without.seconds));
    int losses = 0, rank = 0;
    for (gx::Nanoseconds at{}; at < until; at += every, rank = (rank + 1) % 4) {
        SCOPED_TRACE("rank " + std::to_string(rank) + " dies at " + std::to_string(at.count()));
        set_script({});
        auto world = scripted_cluster(spec, {.deadline = 1'000'000_us,
                                             .faults = {gx::sim::DeadGpu{rank, at}},
                                             .faults_must_fire = false});
        const Outcome first = outcome<T, M>(world, data(), o);
        losses += int(first.record.losses.size());
        expect_counted(first, 4);
        if (first.record.losses.empty() || first.record.losses[0].step == first.end.step) continue;
        expect_same_state(first, repeated<T, M>(first.record, spec, o));
        if (::testing::Test::HasFailure()) break;
    }
    return losses;
}
TEST(SurvivalInPhases, ADeathAtAnyMomentLosesNothing) {
    EXPECT_GT(worlds_of_deaths<Plain>(197_us), 15);
    EXPECT_GT(worlds_of_deaths<Late>(197_us), 15);
    EXPECT_GT((worlds_of_deaths<gx::DoubleBuffered<gx::TopK>, Dropping, gx::AdamW>(397_us)), 8);
}

// ---- Time and money -----------------------------------------------------------------
TEST(SurvivalInPhases, TimeAndDollarsCoverAllWorlds) {
    using T = Trains<Plain>;
    auto spec = gx::sim::ethernet_10g(4);
    spec.machine.price = {3600.0};  // a dollar a second and machine
    auto o = options<T>();
    o.survival.restart_time = std::chrono::seconds(100);
    set_script({});
    Cluster world(spec, {.deadline = std::chrono::seconds(1),
                         .faults = {gx::sim::DeadInCollective{2, 11, 0, 3}}});
    const auto r = T(o).train(world, data());
    ASSERT_EQ(r.losses.size(), 1u);
    EXPECT_EQ(r.losses[0].step, 11) << "in the second phase";
    EXPECT_GT(r.seconds, 101);  // the restart and the deadline
    EXPECT_GT(r.dollars, 4 * 1.0 + 3 * 100.0) << "the restart at the price of three";
    EXPECT_LT(r.dollars, 4 * 1.1 + 3 * 101.0);
    EXPECT_NEAR(r.seconds,
                r.breakdown.compute + r.breakdown.exposed_communication + r.breakdown.input +
                    r.breakdown.idle,
                1e-9 * r.seconds);
    for (std::size_t i = 1; i < r.steps.size(); ++i)
        EXPECT_GT(r.steps[i].seconds, r.steps[i - 1].seconds);
}

// ---- Recovery from checkpoints ------------------------------------------------------
TEST(SurvivalInPhases, GoesBackIntoTheNewestCheckpointOfAnyPhase) {
    using T = Trains<Late>;
    for (const std::int64_t lost_at : {6, 10, 11, 14, 17}) {  // epochs begin at 5, 10, 14
        SCOPED_TRACE(lost_at);
        const Folder folder;
        auto o = options<T>();
        o.output = folder.path;
        o.survival.recovery = Recovery::checkpoint;
        set_script({{{0}, lost_at}});
        auto world = scripted_cluster(gx::sim::ethernet_10g(4));
        const auto r = T(o).train(world, data());
        ASSERT_EQ(r.losses.size(), 1u);
        const std::int64_t back = lost_at < 10 ? 5 : lost_at < 14 ? 10 : 14;
        EXPECT_EQ(r.losses[0].step, back);
        ASSERT_EQ(r.epochs.size(), 4u);

        // as a resume with three ranks from that file, which the run then wrote anew or not
        const Folder other;
        auto clean = options<Trains<Late, Pooled, gx::StopOnLoss>>();
        clean.output = other.path;
        set_script({});
        Cluster four(gx::sim::ethernet_10g(4)), three(gx::sim::ethernet_10g(3));
        (void)Trains<Late, Pooled, gx::StopOnLoss>(clean).train(four, data());
        clean.resume = other / gx::checkpoint_name(back == 5 ? 1 : back == 10 ? 2 : 3).c_str();
        clean.output.clear();
        expect_same_learning(r, Trains<Late, Pooled, gx::StopOnLoss>(clean).train(three, data()));
    }
}

// ---- Checkpoints of a run that has lost ranks ---------------------------------------
template <class R>
void expect_resumes(std::int64_t lost_at) {
    SCOPED_TRACE(lost_at);
    using T = Trains<R, Dropping>;
    const Folder folder;
    auto o = options<T>();
    o.output = folder.path;
    set_script({{{1}, lost_at}});
    auto world = scripted_cluster(gx::sim::ethernet_10g(4));
    const auto whole = T(o).train(world, data());
    o.output.clear();
    for (int epoch = 1; epoch < 4; ++epoch) {
        if (whole.epochs[std::size_t(epoch) - 1].step < lost_at) continue;  // of four ranks
        SCOPED_TRACE(epoch);
        o.resume = folder / gx::checkpoint_name(epoch).c_str();
        set_script({});
        Cluster three(gx::sim::ethernet_10g(3));
        expect_same_learning(whole, T(o).train(three, data()));
        using Stops = Trains<R, Dropping, gx::StopOnLoss>;  // its checkpoints are the same
        auto stops = options<Stops>();
        stops.resume = o.resume;
        Cluster again(gx::sim::ethernet_10g(3));
        expect_same_learning(whole, Stops(stops).train(again, data()));
    }
}
TEST(SurvivalInPhases, ACheckpointAfterALossResumes) {
    for (const std::int64_t lost_at : {2, 4, 8, 11, 13}) expect_resumes<Plain>(lost_at);
    for (const std::int64_t lost_at : {2, 4, 9, 11, 13}) expect_resumes<Late>(lost_at);
    for (const std::int64_t lost_at : {3, 4, 8, 11})
        expect_resumes<gx::DoubleBuffered<Late>>(lost_at);
}
TEST(SurvivalInPhases, AResumedRunLosesRanksInAnyPhase) {
    using T = Trains<Late, Dropping>;
    const Folder folder;
    auto o = options<T>();
    o.output = folder.path;
    set_script({});
    Cluster four(gx::sim::ethernet_10g(4));
    (void)T(o).train(four, data());
    o.output.clear();
    o.resume = folder / "epoch-0001.safetensors";
    for (const std::int64_t lost_at : {6, 9, 10, 13, 14}) {
        SCOPED_TRACE(lost_at);
        set_script({{{1}, lost_at}});
        auto world = scripted_cluster(gx::sim::ethernet_10g(4));
        const auto resumed = T(o).train(world, data());
        auto whole = options<T>();
        set_script({{{1}, lost_at}});
        auto again = scripted_cluster(gx::sim::ethernet_10g(4));
        expect_same_learning(resumed, T(whole).train(again, data()));
    }
}
TEST(SurvivalInPhases, APendingGradientKeepsItsRateInAResume) {  // without a loss too
    using T = gx::Trainer<Net, Departing<Late>, gx::Poly<2>, gx::ContinueOnSurvivors>;
    for (const std::vector<Departure>& departures :
         {std::vector<Departure>{}, std::vector<Departure>{{{1}, 3}}}) {
        const Folder folder;
        typename T::Options o;
        o.batch = 2;
        o.epochs = 3;
        o.scheduler = {.peak_rate = 0.1f};
        o.output = folder.path;
        set_script(departures);
        auto world = scripted_cluster(gx::sim::ethernet_10g(4));
        const auto whole = T(o).train(world, numbered(images(37)));
        o.output.clear();
        for (const char* name : {"epoch-0001.safetensors", "epoch-0002.safetensors"}) {
            SCOPED_TRACE(name);
            o.resume = folder / name;
            set_script({});
            Cluster rest(gx::sim::ethernet_10g(4 - int(departures.size())));
            expect_same_learning(whole, T(o).train(rest, numbered(images(37))));
        }
    }
}

}  // namespace
