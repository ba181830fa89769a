// Runs over NCCL's double that go on without the ranks that they have lost: the bits of threads.
#include <gx/nccl/world.hpp>

#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <gx/cuda_testing/host_computed.hpp>

#include "nccl_world.hpp"
#include "survival_runs.hpp"

namespace {

using namespace gx::nccl_tests;
using namespace testing_support;
using gx::Recovery;
using gx::cuda_testing::HostComputed;

/// A device whose host may lose it, in the forward pass of a step, with work queued.
class MortalGpu : public HostComputed<gx::reference::Device> {
public:
    MortalGpu(gx::cuda::DeviceContext& gpu, const gx::Graph& graph, gx::DeviceOptions o)
        : HostComputed(gpu, graph, o), log_(graph, o) {}
    void forward(const gx::Batch& batch, gx::Mode mode, View<gx::ForwardReport> report) {
        if (mode == gx::Mode::train) log_(batch);
        HostComputed::forward(batch, mode, report);
    }

private:
    PassLog log_;
};
using World = gx::nccl::World<MortalGpu>;
static_assert(gx::Shrinks<World> && gx::RunsAbandonedWork<gx::cuda::Queue>);

Scripted<World> scripted_gpus(int ranks, std::uint64_t seed, StreamProgress progress) {
    start(progress, seed);
    return Scripted<World>(std::make_unique<World>(World::Options{.placement = {ranks, 1}}));
}
template <class T>
Outcome outcome_on_gpus(int ranks, std::uint64_t seed, StreamProgress progress,
                        typename T::Options o) {
    auto world = scripted_gpus(ranks, seed, progress);
    Outcome out = gx::nccl_tests::outcome<T>(world, o);
    gx::cuda_testing::expect_clean();
    return out;
}

template <class C>
class OnGpus : public ::testing::Test {};
TYPED_TEST_SUITE(OnGpus, SurvivingRuns);

TYPED_TEST(OnGpus, WithoutALossItIsARunOnThreads) {
    using Far = typename TypeParam::Devices;
    using Near = typename TypeParam::Hosts;
    set_script({});
    auto threads = scripted_threads(3);
    const Outcome near = gx::nccl_tests::outcome<Near>(threads, gx::nccl_tests::options<Near>());
    for (const StreamProgress progress : every_progress) {
        set_script({});
        const Outcome r = outcome_on_gpus<Far>(3, 1, progress, gx::nccl_tests::options<Far>());
        EXPECT_TRUE(r.record.losses.empty());
        expect_same(r, near);
    }
}
TYPED_TEST(OnGpus, ALossInAnyStepGivesTheBitsOfThreads) {
    using Far = typename TypeParam::Devices;
    // 5 steps, 4 steps of the second phase, 10 steps of the third
    for (std::int64_t step = 0; step < 16; ++step) {
        const StreamProgress progress = every_progress[step % 3];
        const int lost = int(step % 4);
        SCOPED_TRACE("step " + std::to_string(step) + ", progress " +
                     std::to_string(int(progress)));
        set_script({{{lost}, step, true}});
        const Outcome far =
            outcome_on_gpus<Far>(4, std::uint64_t(step), progress, gx::nccl_tests::options<Far>());
        ASSERT_EQ(far.record.losses.size(), 1u);
        EXPECT_EQ(far.record.losses[0].lost, std::vector<int>{lost});
        EXPECT_LE(far.record.losses[0].step, step);
        EXPECT_GE(far.record.losses[0].step, step - 3) << "those in flight, and one";
        expect_as_on_threads<typename TypeParam::Hosts>(far, 4);
        if (::testing::Test::HasFailure()) return;
    }
}
TYPED_TEST(OnGpus, TwoLossesGiveTheBitsOfThreads) {
    using Far = typename TypeParam::Devices;
    for (std::uint64_t seed = 1; seed <= 8; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        const auto below = [&](std::uint64_t n) { return static_cast<int>(random() % n); };
        const std::int64_t first = below(12), second = below(8);
        // the second counts passes of its world from the step of the first
        set_script({{{below(5)}, first, true}, {{below(4)}, first + second, true}});
        const Outcome far =
            outcome_on_gpus<Far>(5, seed, every_progress[seed % 3], gx::nccl_tests::options<Far>());
        ASSERT_FALSE(far.record.losses.empty());  // the second may be behind the end
        expect_as_on_threads<typename TypeParam::Hosts>(far, 5);
        if (::testing::Test::HasFailure()) return;
    }
}
TYPED_TEST(OnGpus, RecoverFromCheckpointsToo) {
    using Far = typename TypeParam::Devices;
    for (const std::int64_t step : {2, 5, 9}) {
        SCOPED_TRACE(step);
        std::vector<Outcome> runs;
        for (const StreamProgress progress : every_progress) {
            auto o = gx::nccl_tests::options<Far>();
            o.survival.recovery = Recovery::checkpoint;
            set_script({{{1}, step, true}});
            runs.push_back(outcome_on_gpus<Far>(3, 3, progress, o));
            ASSERT_EQ(runs.back().record.losses.size(), 1u);
            EXPECT_EQ(runs.back().record.losses[0].step, step < 7 ? 0 : 7);
            expect_same(runs.back(), runs.front());
        }
    }
}

}  // namespace
