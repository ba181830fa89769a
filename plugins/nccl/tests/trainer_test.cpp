// The Trainer over NCCL's double: the bits of threads, in every order of the streams.
#include <gx/nccl/world.hpp>

#include <vector>

#include <gtest/gtest.h>

#include <gx/cuda_testing/host_computed.hpp>
#include <gx/nccl/all_reduce.hpp>

#include "../../cuda/tests/trainer_runs.hpp"
#include "nccl_world.hpp"

namespace {

using namespace testing_support;
using namespace gx;
using cuda_testing::HostComputed;
using cuda_testing::StreamProgress;
using nccl_tests::every_progress;
using nccl_tests::start;
using Gpus = nccl::World<HostComputed<reference::Device>>;
static_assert(explain_training_world<Gpus>());

/// Trains on new GPUs, whose streams run in such an order, and expects nothing left behind.
template <class T>
RunRecord train_on_gpus(const T& trainer, const Split& data, Placement placement,
                        std::uint64_t seed, StreamProgress progress) {
    start(progress, seed);
    Gpus gpus({.placement = placement});
    const RunRecord record = trainer.train(gpus, data);
    cuda_testing::expect_clean();
    return record;
}

// Two worlds of GPUs differ in how messages are queued, so one composition for each use of them.
// cuda_tests::Runs, of which these are, also varies policies; conformance_test.cpp runs every
// reducer over NCCL.
using cuda_tests::Run;
using Runs =
    ::testing::Types<Run<Ring<fp32>>,                                            // a neighbour each
                     Run<DoubleBuffered<MultiRing<2, fp16>>, DynamicLossScale>,  // channels; late
                     Run<DoubleBuffered<Bucketed<TopK, 256>>>,                   // gathers of bytes
                     Run<DoubleBuffered<Bucketed<Quantized<8>, 512>>, AdamW>,  // bytes, all to all
                     Run<Sharded<Ring<fp16>>, ClipByGlobalNorm<AdamW>>,        // shards, norms
                     Run<LocalSgd<Bucketed<Ring<fp32>, 256>, 3>, AdamW>,       // parameters
                     Run<DoubleTree<3, fp16>, WeightAverage<Sgd>>,             // chunks in turn
                     Run<Hierarchical<Ring<fp32>, Ring<fp16>>>,                // groups of ranks
                     Run<ParameterServer<fp16>>,                               // many to one
                     Run<SharedMemory<bf16>>>;                                 // all to all
template <class T>
class TrainersOverNccl : public ::testing::Test {};
TYPED_TEST_SUITE(TrainersOverNccl, Runs);

TYPED_TEST(TrainersOverNccl, WeightsAreThoseOfThreads) {
    cuda_tests::expect_weights_of_threads<TypeParam>(train_on_gpus<TypeParam>);
}
TYPED_TEST(TrainersOverNccl, CheckpointsAreThoseOfThreads) {
    cuda_tests::expect_checkpoints_of_threads<TypeParam>(train_on_gpus<TypeParam>);
}

TEST(MicroBatches, GiveTheBitsOfThreads) {
    using T = Trainer<Net, DoubleBuffered<Bucketed<MultiRing<2, fp16>, 64>>, Constant>;
    const T trainer({.batch = 6, .epochs = 3, .micro_batches = 3, .seed = 3});
    auto wall = threads(3);
    const RunRecord expected = trainer.train(wall, images());
    for (const StreamProgress progress : every_progress) {
        expect_same_learning(train_on_gpus(trainer, images(), {3, 1}, 1, progress), expected);
        EXPECT_GT(cuda_testing::counters().graph_launches, 0);
    }
}

// ---- Costs -------------------------------------------------------------------------------------

struct Calls {
    cuda_testing::RuntimeCounters runtime{};
    nccl_testing::NcclCounters nccl{};
};
/// Calls of a run of one epoch of so many steps.
template <class T>
Calls calls(int steps, int ranks, StreamProgress progress) {
    typename T::Options o{.batch = 4, .epochs = 1, .seed = 3, .evaluate = false};
    start(progress, 1);
    Gpus gpus({.placement = {ranks, 1}});
    EXPECT_EQ(T(o).train(gpus, images(std::int64_t{4} * ranks * steps, 8)).steps.size(),
              std::size_t(steps));
    return {cuda_testing::counters(), nccl_testing::counters()};
}
TEST(Steps, AllocateNothingAndLaunchWhatTheFormulaSays) {
    using T = Trainer<Net, DoubleBuffered<Bucketed<MultiRing<2, fp16>, 64>>, Constant>;
    const std::int64_t buckets = 4;
    for (const int ranks : {2, 3})
        for (const StreamProgress progress : every_progress) {
            const Calls many = calls<T>(15, ranks, progress), few = calls<T>(5, ranks, progress);
            const auto runtime = many.runtime - few.runtime;
            const auto nccl = many.nccl - few.nccl;
            EXPECT_EQ(runtime.allocations, 0);
            EXPECT_EQ(runtime.frees, 0);
            EXPECT_EQ(runtime.host_allocations, 0);
            EXPECT_EQ(runtime.host_synchronizations, 0) << "the host polls";
            EXPECT_EQ(nccl.kernels, 10 * ranks * buckets * 2 * (ranks - 1));
            EXPECT_EQ(nccl.sends, 10 * ranks * buckets * 2 * (ranks - 1) * 2);
        }
}
/// Where all work is done by the time that the host asks, it asks once a wait: once a step.
TEST(Steps, WaitForTheStepBeforeOnly) {
    using T = Trainer<Net, Ring<fp32>, Constant>;
    const auto polls = calls<T>(15, 1, StreamProgress::eager).nccl.polls -
                       calls<T>(5, 1, StreamProgress::eager).nccl.polls;
    EXPECT_EQ(polls, 10);
}

}  // namespace
