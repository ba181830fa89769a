// A run's final state depends on its history alone: any faults against a clean run that loses the
// same ranks after the same steps.
#include <gx/trainer/rank/training.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include <gx/model/cifar_resnet.hpp>              // ResNet8
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
#include <trainer/small.hpp>                      // Net, images

namespace {

using namespace testing_support;
using namespace gx::literals;
using gx::fp32;
using Rate = gx::LinearScaling<gx::Poly<2>>;
using Plain = gx::Ring<fp32>;
using Late = gx::DoubleBuffered<Plain>;
template <class M, class R, class O = gx::Sgd>
using Trains = gx::Trainer<M, Departing<R>, Rate, O, gx::ContinueOnSurvivors>;

template <class T>
typename T::Options options(int epochs = 2) {
    typename T::Options o;
    o.batch = 2;
    o.epochs = epochs;
    o.seed = 7;
    o.scheduler = {.reference_batch = 8, .next = {.peak_rate = 0.1f}};
    return o;
}

/// The same history, without faults: ranks leave between two steps.
template <class T, class M>
Outcome repeated(const gx::RunRecord& history, const gx::sim::ClusterSpec& spec,
                 const gx::Split& data, const typename T::Options& o) {
    set_script(departures_of(history.losses, spec.ranks()));
    auto world = scripted_cluster(spec);
    return outcome<T, M>(world, data, o);
}
void expect_counted(const Outcome& o, const gx::Split& data, int epochs) {
    EXPECT_EQ(std::ssize(o.seen), data.train.count());
    for (const auto& [image, times] : o.seen) EXPECT_EQ(times, epochs) << image;
    std::int64_t step = 0;
    for (const gx::StepRow& row : o.record.steps) {
        EXPECT_EQ(row.step, step++);
        EXPECT_GT(row.seconds, 0) << "also of a step that a lost rank has cut short";
    }
    EXPECT_EQ(step, o.record.epochs.back().step);
    EXPECT_EQ(std::ssize(o.record.epochs), epochs);
    // What a loss has cost is in both. Where the record's rank is lost, the next one's clock has
    // begun the epoch a message's time earlier or later.
    const auto images = double(data.train.count());
    const bool one_clock = std::ranges::none_of(o.record.losses, [](const gx::LossRow& loss) {
        return std::ranges::count(loss.lost, 0) > 0;
    });
    double before = 0;
    for (const gx::EpochRow& row : o.record.epochs) {
        EXPECT_NEAR(row.images_per_second * (row.seconds - before), images,
                    one_clock ? 1e-6 : 1e-3 * images)
            << "epoch " << row.epoch;
        before = row.seconds;
    }
}

// ---- For any faults -----------------------------------------------------------------
template <class R>
void survives(std::uint64_t seed, gx::Recovery recovery = gx::Recovery::survivors) {
    using T = Trains<Net, R>;
    auto spec = gx::sim::ethernet_10g(3);
    spec.machine.gpus = seed % 2 == 0 ? 1 : 2;
    spec.machine.peer_bandwidth = {10e9};
    const gx::Split data = numbered(images(37));
    auto o = options<T>();
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
        first = outcome<T, Net>(world, data, o);
    } catch (const gx::Error&) {
        return;  // all were lost
    }
    RC_CLASSIFY(!first.record.losses.empty());
    expect_counted(first, data, 2);
    o.survival.recovery = gx::Recovery::survivors;
    expect_same_state(first, repeated<T, Net>(first.record, spec, data, o));
    RC_ASSERT(!::testing::Test::HasFailure());
}
RC_GTEST_PROP(Survival, EqualsACleanRunOverTheSameWorlds, (std::uint64_t seed)) {
    survives<Plain>(seed);
}
RC_GTEST_PROP(Survival, ALateReducerLosesNothingEither, (std::uint64_t seed)) {
    survives<gx::DoubleBuffered<Late>>(seed);
}

RC_GTEST_PROP(Survival, FromCheckpointsToo, (std::uint64_t seed)) {
    survives<Plain>(seed, gx::Recovery::checkpoint);
}
TEST(Survival, LostNicsAndSpoiledMessagesLoseNothing) {
    using T = Trains<Net, Late>;
    const auto spec = gx::sim::ethernet_10g(3);
    const gx::Split data = numbered(images(37));
    int losses = 0;
    for (const auto recovery : {gx::Recovery::survivors, gx::Recovery::checkpoint})
        for (int at = 0; at < 3'000; at += 190)  // in the middle of messages and between them
            for (const gx::sim::Fault& fault :
                 {gx::sim::Fault{gx::sim::LostNic{2, gx::Nanoseconds(at * 1'000)}},
                  gx::sim::Fault{gx::sim::FlippedBit{0, 1, gx::Nanoseconds(at * 1'000)}}}) {
                set_script({});
                auto world = scripted_cluster(spec, {.deadline = 1'000'000_us,
                                                     .faults = {fault},
                                                     .delivery = {.checksum = true},
                                                     .faults_must_fire = false});
                auto o = options<T>();
                o.survival.recovery = recovery;
                const Outcome first = outcome<T, Net>(world, data, o);
                expect_counted(first, data, 2);
                losses += int(first.record.losses.size());
                if (recovery == gx::Recovery::survivors && !first.record.losses.empty() &&
                    first.record.losses[0].step < first.end.step)
                    expect_same_state(first, repeated<T, Net>(first.record, spec, data, o));
            }
    EXPECT_GT(losses, 20);
}

// ---- At any moment ------------------------------------------------------------------
// The death of any rank, from before the first step to behind the last message.
template <class R, class M = Net, class O = gx::Sgd>
int worlds_of_deaths(const gx::Split& data, gx::Nanoseconds until, gx::Nanoseconds every) {
    using T = Trains<M, R, O>;
    const auto spec = gx::sim::ethernet_10g(4);
    int losses = 0;
    int rank = 0;
    for (gx::Nanoseconds at{}; at < until; at += every, rank = (rank + 1) % 4) {
        SCOPED_TRACE("rank " + std::to_string(rank) + " dies at " + std::to_string(at.count()));
        set_script({});
        auto world = scripted_cluster(spec, {.deadline = 1'000'000_us,
                                             .faults = {gx::sim::DeadGpu{rank, at}},
                                             .faults_must_fire = false});
        const auto o = options<T>();
        const Outcome first = outcome<T, M>(world, data, o);
        losses += int(first.record.losses.size());
        expect_counted(first, data, 2);
        if (first.record.losses.empty() || first.record.losses[0].step == first.end.step) continue;
        expect_same_state(first, repeated<T, M>(first.record, spec, data, o));
        if (::testing::Test::HasFailure()) break;
    }
    return losses;
}
TEST(Survival, ADeathAtAnyMomentLosesNothing) {
    const gx::Split data = numbered(images(17));
    EXPECT_GT(worlds_of_deaths<Plain>(data, 3'000_us, 97_us), 8);
    EXPECT_GT(worlds_of_deaths<Late>(data, 3'000_us, 97_us), 8);
    EXPECT_GT((worlds_of_deaths<Plain, Net, gx::AdamW>(data, 3'000_us, 197_us)), 5);
}
TEST(Survival, RunningStatisticsFollowTheHistory) {
    const gx::Split data = numbered(images(17));
    EXPECT_GT((worlds_of_deaths<Plain, gx::ResNet8>(data, 20'000_us, 1'501_us)), 5);
    EXPECT_GT((worlds_of_deaths<Late, gx::ResNet8>(data, 20'000_us, 1'501_us)), 5);
}
TEST(Survival, SurvivorsKeepTheirResiduals) {
    const gx::Split data = numbered(images(17));
    using Sparse = gx::TopK;
    EXPECT_GT((worlds_of_deaths<Sparse>(data, 3'000_us, 97_us)), 8);
    EXPECT_GT((worlds_of_deaths<gx::DoubleBuffered<Sparse>>(data, 3'000_us, 97_us)), 8);
}

}  // namespace
