// Runs over NCCL's double that go on from checkpoints without the ranks that they have lost.
#include <gx/nccl/world.hpp>

#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <gx/cuda_testing/host_computed.hpp>

#include <trainer/survival_runs.hpp>

#include "nccl_world.hpp"

namespace {

using namespace gx::nccl_tests;
using namespace testing_support;
using namespace testing_support::surviving;
using gx::Recovery;
using gx::cuda_testing::HostComputed;

std::atomic<int> devices_made = 0;
std::atomic<std::int64_t> launches_at_the_tenth = 0;  ///< of graphs, when it was made

/// A device whose host may lose it, in the forward pass of a step, with work queued.
class MortalGpu : public HostComputed<gx::reference::Device> {
public:
    MortalGpu(gx::cuda::DeviceContext& gpu, const gx::Graph& graph, gx::DeviceOptions o)
        : HostComputed(gpu, graph, o), log_(graph, o) {
        if (++devices_made == 10)
            launches_at_the_tenth = gx::cuda_testing::counters().graph_launches;
    }
    void load(const gx::Batch& batch) {
        batch_ = batch;
        HostComputed::load(batch);
    }
    void forward(gx::Mode mode, View<gx::ForwardReport> report) {
        if (mode == gx::Mode::train) log_(batch_);
        HostComputed::forward(mode, report);
    }

private:
    gx::Batch batch_{};
    PassLog log_;
};
using World = gx::nccl::World<MortalGpu>;
static_assert(gx::Shrinks<World> && gx::RunsAbandonedWork<gx::cuda::Queue>);

Scripted<World> scripted_gpus(int ranks, std::uint64_t seed, StreamProgress progress,
                              bool graphs = true) {
    start(progress, seed);
    return Scripted<World>(
        std::make_unique<World>(World::Options{.placement = {ranks, 1}, .graphs = graphs}));
}
template <class T>
Outcome outcome_on_gpus(int ranks, std::uint64_t seed, StreamProgress progress,
                        typename T::Options o, bool graphs = true) {
    auto world = scripted_gpus(ranks, seed, progress, graphs);
    Outcome out = surviving::outcome<T>(world, o);
    gx::cuda_testing::expect_clean();
    return out;
}

template <class C>
class OnGpus : public ::testing::Test {};
TYPED_TEST_SUITE(OnGpus, Compositions);

TYPED_TEST(OnGpus, RefuseToGoOnFromWhatTheyHold) {
    using Far = typename TypeParam::Devices;
    auto world = scripted_gpus(2, 1, StreamProgress::late);
    EXPECT_TRUE(
        holds(error_of([&] { (void)surviving::outcome<Far>(world, surviving::options<Far>()); }),
              "other ranks may receive sums that were never whole",
              "Set survival.recovery to gx::Recovery::checkpoint"));
}
TYPED_TEST(OnGpus, GoOnFromTheNewestCheckpoint) {
    using Far = typename TypeParam::Devices;
    for (const std::int64_t step : {0, 2, 5, 6, 9, 11}) {
        SCOPED_TRACE(step);
        std::vector<Outcome> runs;
        for (const StreamProgress progress : every_progress) {
            if (progress == StreamProgress::eager && step != 2 && step != 9) continue;
            auto o = surviving::options<Far>();
            o.survival.recovery = Recovery::checkpoint;
            set_script({{{1}, step, true}});
            runs.push_back(outcome_on_gpus<Far>(3, 3, progress, o));
            ASSERT_EQ(runs.back().record.losses.size(), 1u);
            EXPECT_EQ(runs.back().record.losses[0].step, step < 7 ? 0 : 7);
            expect_same(runs.back(), runs.front());
        }
    }
}
/// Rank 0 is slow to write at the end of an epoch: others may be lost meanwhile, and with them the
/// communicators that its device's queue works on.
class SlowToWrite final : public gx::Observer {
public:
    void epoch_done(const gx::EpochDone&) override {
        for (int i = 0; i < 30'000; ++i) std::this_thread::yield();
    }
};
TYPED_TEST(OnGpus, GoBackToTheEpochThatTheyHaveLeft) {
    using Far = typename TypeParam::Devices;
    for (const std::int64_t step : {5, 6, 7}) {
        SCOPED_TRACE(step);
        auto o = surviving::options<Far>();
        o.phases = {};
        o.batch = 3;
        o.survival.recovery = Recovery::checkpoint;
        SlowToWrite slow;
        o.observers = {&slow};
        set_script({{{1}, step, true}});
        const Outcome r = outcome_on_gpus<Far>(3, 3, StreamProgress::random, o);
        ASSERT_EQ(r.record.losses.size(), 1u);
        EXPECT_EQ(r.record.losses[0].step, 5) << "37 images, 9 in a step";
    }
}
TYPED_TEST(OnGpus, GoBackIntoTheEpochThatTheyAreIn) {
    using Far = typename TypeParam::Devices;
    for (const std::int64_t step : {1, 2, 3, 4, 7}) {
        SCOPED_TRACE(step);
        auto o = surviving::options<Far>();
        o.phases = {};
        o.batch = 3;
        o.checkpoints.every_steps = 2;
        o.survival.recovery = Recovery::checkpoint;
        set_script({{{1}, step, true}});
        const Outcome r = outcome_on_gpus<Far>(3, 3, StreamProgress::random, o);
        ASSERT_EQ(r.record.losses.size(), 1u);
        EXPECT_EQ(r.record.losses[0].step, step / 2 * 2) << "5 steps in an epoch";
    }
}
/// Three devices in each of three phases, and the tenth in the world of the two that are left: its
/// communicators are others, and so are its graphs.
TYPED_TEST(OnGpus, CaptureAnewAfterALoss) {
    using Far = typename TypeParam::Devices;
    auto o = surviving::options<Far>();
    o.survival.recovery = Recovery::checkpoint;
    std::vector<Outcome> runs;
    for (const bool graphs : {false, true}) {
        devices_made = 0;
        set_script({{{1}, 20, true}});
        runs.push_back(outcome_on_gpus<Far>(3, 3, StreamProgress::random, o, graphs));
        EXPECT_EQ(runs.back().record.losses.size(), 1u);
        const std::int64_t launches = gx::cuda_testing::counters().graph_launches;
        EXPECT_EQ(launches_at_the_tenth > 0, graphs);
        EXPECT_EQ(launches > launches_at_the_tenth, graphs);
        expect_same(runs.back(), runs.front());
    }
}
TYPED_TEST(OnGpus, GoOnAfterASecondLossToo) {
    using Far = typename TypeParam::Devices;
    auto o = surviving::options<Far>();
    o.survival.recovery = Recovery::checkpoint;
    std::vector<Outcome> runs;
    for (const StreamProgress progress : every_progress) {
        set_script({{{1}, 8, true}, {{2}, 9, true}});
        runs.push_back(outcome_on_gpus<Far>(4, 3, progress, o));
        EXPECT_EQ(runs.back().record.losses.size(), 2u);
        expect_same(runs.back(), runs.front());
    }
}

}  // namespace
