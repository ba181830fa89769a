// A run on devices that goes on without the ranks that it has lost: the bits of threads.
#include <gx/trainer/rank/training.hpp>  // first, so the header is seen to stand alone

#include <concepts>  // same_as

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/local_sgd/reducer.hpp>   // LocalSgd
#include <gx/sharded/reducer.hpp>     // Sharded
#include <gx/testing/far/device.hpp>  // FarDevice
#include <gx/testing/far/world.hpp>   // FarWorld
#include <trainer/losing.hpp>         // Scripted
#include <trainer/survival_runs.hpp>  // Compositions

namespace {

using namespace testing_support;
using namespace testing_support::surviving;
using gx::Recovery;
using gx::testing::QueueProgress;

/// Work that a rank queues before it is lost, while the others get on: some of them may complete a
/// gradient that others do not.
int delay = 0;

/// A device whose host may lose it, in the forward pass of a step, with work queued.
class FarMortal : public gx::testing::FarDevice<gx::reference::Device> {
public:
    using Inner = gx::reference::Device;
    template <class Rank>
    FarMortal(Rank& rank, const gx::Graph& graph, gx::DeviceOptions o)
        : FarDevice(rank, graph, o), log_(graph, o) {}
    void load(const gx::Batch& batch) {
        batch_ = batch;
        FarDevice::load(batch);
    }
    void forward(gx::Mode mode, gx::ViewIn<gx::ForwardReport, gx::testing::FarMemory> report) {
        if (mode == gx::Mode::train) try {
                log_(batch_);
            } catch (const gx::DeviceLost&) {
                for (int i = 0; i < delay; ++i)
                    queue().enqueue({.operation = {"nothing"}, .run = [] {}});
                throw;
            }
        FarDevice::forward(mode, report);
    }

private:
    gx::Batch batch_{};
    PassLog log_;
};
using FarWorld = gx::testing::FarWorld<FarMortal>;
using ScriptedFar = Scripted<FarWorld>;
static_assert(gx::Shrinks<FarWorld>);
static_assert(gx::Abandons<gx::testing::FarQueue>);

ScriptedFar scripted_far(int ranks, std::uint64_t seed, QueueProgress progress) {
    return ScriptedFar(std::make_unique<FarWorld>(FarWorld::Options{{ranks, 1}, seed, progress}));
}

/// With no gradient late, unsettled() alone has what one in flight leaves.
using InBuckets = Composed<gx::Bucketed<gx::TopK, 64>, gx::Sgd>;

template <class C>
class OnDevices : public ::testing::Test {};
TYPED_TEST_SUITE(OnDevices, Compositions);

TYPED_TEST(OnDevices, WithoutALossItIsARunOnThreads) {
    using Far = typename TypeParam::Devices;
    using Near = typename TypeParam::Hosts;
    set_script({});
    auto threads = scripted_threads(3);
    const Outcome near = outcome<Near>(threads, options<Near>());
    for (const auto progress : {QueueProgress::late, QueueProgress::eager, QueueProgress::random}) {
        set_script({});
        auto far = scripted_far(3, 1, progress);
        const Outcome r = outcome<Far>(far, options<Far>());
        EXPECT_TRUE(r.record.losses.empty());
        expect_same(r, near);
    }
}
/// The same history on threads: ranks leave between two steps.
template <class T>
void expect_as_on_threads(const Outcome& far, int ranks) {
    auto o = options<T>();
    set_script(departures_of(far.record.losses, ranks));
    auto threads = scripted_threads(ranks);
    expect_same(far, outcome<T>(threads, o));
}
TYPED_TEST(OnDevices, ALossInAnyStepGivesTheBitsOfThreads) {
    using Far = typename TypeParam::Devices;
    // 5 steps, 4 steps of the second phase, 10 steps of the third
    for (std::int64_t step = 0; step < 16; ++step)
        for (const auto progress :
             {QueueProgress::late, step % 2 == 0 ? QueueProgress::eager : QueueProgress::random}) {
            const int lost = int(step % 4);
            delay = std::same_as<TypeParam, InBuckets> ? int(step * 7 % 60) : 0;
            SCOPED_TRACE("step " + std::to_string(step) + ", progress " +
                         std::to_string(int(progress)));
            set_script({{{lost}, step, true}});
            auto world = scripted_far(4, std::uint64_t(step), progress);
            const Outcome far = outcome<Far>(world, options<Far>());
            ASSERT_EQ(far.record.losses.size(), 1u);
            EXPECT_EQ(far.record.losses[0].lost, std::vector<int>{lost});
            EXPECT_LE(far.record.losses[0].step, step);
            EXPECT_GE(far.record.losses[0].step, step - 3) << "those in flight, and one";
            expect_as_on_threads<typename TypeParam::Hosts>(far, 4);
            if (::testing::Test::HasFailure()) return;
        }
    delay = 0;
}
TYPED_TEST(OnDevices, ManyLossesInAnyOrderGiveTheBitsOfThreads) {
    using Far = typename TypeParam::Devices;
    EXPECT_TRUE(rc::check([](std::uint64_t seed) {
        const std::int64_t first = *rc::gen::inRange(0, 12), second = *rc::gen::inRange(0, 8);
        const int a = *rc::gen::inRange(0, 5), b = *rc::gen::inRange(0, 4);
        const auto progress =
            *rc::gen::element(QueueProgress::late, QueueProgress::eager, QueueProgress::random);
        // the second counts passes of its world from the step of the first
        set_script({{{a}, first, true}, {{b}, first + second, true}});
        auto world = scripted_far(5, seed, progress);
        const Outcome far = outcome<Far>(world, options<Far>());
        RC_ASSERT(!far.record.losses.empty());  // the second may be behind the end
        expect_as_on_threads<typename TypeParam::Hosts>(far, 5);
        RC_ASSERT(!::testing::Test::HasFailure());
    }));
}
TYPED_TEST(OnDevices, ALossBetweenMicroBatchesGivesTheBitsOfThreads) {
    using Far = typename TypeParam::Devices;
    using Near = typename TypeParam::Hosts;
    const auto in_parts = [](auto o) {
        o.micro_batches = 2;
        o.phases = {{0, 2, 4}, {1, 4, 6}, {2, 2, 5}};
        return o;
    };
    for (const std::int64_t pass : {0, 1, 4, 5, 11, 12, 19}) {  // of the lost rank
        SCOPED_TRACE(pass);
        set_script({{{1}, pass, true}});
        auto world = scripted_far(4, std::uint64_t(pass), QueueProgress::random);
        const Outcome far = outcome<Far>(world, in_parts(options<Far>()));
        ASSERT_EQ(far.record.losses.size(), 1u);
        set_script(departures_of(far.record.losses, 4));
        auto threads = scripted_threads(4);
        const Outcome near = outcome<Near>(threads, in_parts(options<Near>()));
        expect_same_learning(far.record, near.record);
        expect_same_state(far, near);
    }
}
TYPED_TEST(OnDevices, RecoverFromCheckpointsToo) {
    using Far = typename TypeParam::Devices;
    for (const std::int64_t step : {2, 5, 7, 9, 12}) {
        SCOPED_TRACE(step);
        std::vector<Outcome> runs;
        for (const auto progress : {QueueProgress::late, QueueProgress::random}) {
            auto o = options<Far>();
            o.survival.recovery = Recovery::checkpoint;
            set_script({{{1}, step, true}});
            auto world = scripted_far(3, 3, progress);
            runs.push_back(outcome<Far>(world, o));
            ASSERT_EQ(runs.back().record.losses.size(), 1u);
            EXPECT_EQ(runs.back().record.losses[0].step, step < 7 ? 0 : step < 12 ? 7 : 12);
        }
        expect_same(runs[0], runs[1]);
    }
}

// ---- Reducers that own the update -----------------------------------------------------
template <class C>
class OwnersOnDevices : public ::testing::Test {};
using Owners = ::testing::Types<Composed<gx::Sharded<gx::Bucketed<gx::Ring<fp32>, 64>>, gx::AdamW>,
                                Composed<gx::LocalSgd<gx::Ring<fp32>, 2>, gx::Sgd>>;
TYPED_TEST_SUITE(OwnersOnDevices, Owners);

TYPED_TEST(OwnersOnDevices, GoBackToACheckpointAsThreadsDo) {
    using Far = typename TypeParam::Devices;
    using Near = typename TypeParam::Hosts;
    std::int64_t every = 0;  // steps from one checkpoint to the next
    const auto go_back = [&](auto o) {
        o.survival.recovery = Recovery::checkpoint;
        o.checkpoints.every_steps = every;
        return o;
    };
    for (const std::int64_t step : {0, 1, 4, 5, 6, 8, 9, 12}) {
        SCOPED_TRACE(step);
        const auto progress = step % 2 == 0 ? QueueProgress::late : QueueProgress::random;
        every = step % 3 == 0 ? 0 : 2;
        set_script({{{int(step % 3)}, step, true}});
        auto world = scripted_far(4, std::uint64_t(step), progress);
        const Outcome far = outcome<Far>(world, go_back(options<Far>()));
        ASSERT_EQ(far.record.losses.size(), 1u);
        const std::int64_t epoch_began = step < 5 ? 0 : step < 9 ? 5 : 9;
        if (every == 0) EXPECT_EQ(far.record.losses[0].step, epoch_began);
        else EXPECT_GE(far.record.losses[0].step, epoch_began);
        set_script(departures_of(far.record.losses, 4));
        auto threads = scripted_threads(4);
        expect_same(far, outcome<Near>(threads, go_back(options<Near>())));
    }
}

}  // namespace
