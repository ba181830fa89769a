// Steps over NCCL's double that are captured as CUDA graphs and replayed.
#include <gx/nccl/world.hpp>

#include <atomic>
#include <mutex>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include <gx/cuda_testing/host_computed.hpp>
#include <gx/local_sgd/reducer.hpp>
#include <gx/nccl/all_reduce.hpp>
#include <gx/optimizer/adamw.hpp>
#include <gx/optimizer/lars.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/scheduler/constant.hpp>
#include <gx/sharded/reducer.hpp>
#include <gx/top_k/reducer.hpp>
#include <gx/trainer/trainer.hpp>
#include <gx/trees/double_tree.hpp>
#include <trainer/small.hpp>

#include "../../cuda/tests/trainer_runs.hpp"
#include "nccl_world.hpp"

namespace {

using namespace testing_support;
using namespace gx;
using cuda_testing::HostComputed;
using cuda_testing::RuntimeCounters;
using cuda_testing::StreamProgress;
using nccl_tests::every_progress;
using nccl_tests::start;
using Computed = HostComputed<reference::Device>;
using Gpus = nccl::World<Computed>;

static_assert(RepeatsWork<DoubleBuffered<Bucketed<MultiRing<2, fp16>, 64>>>);
static_assert(RepeatsWork<nccl::AllReduce<fp16>> && RepeatsWork<TopK>);
static_assert(RepeatsWork<Sharded<Ring<fp16>>> && RepeatsWork<LocalSgd<Ring<fp32>, 3>>);
static_assert(RepeatsWork<Bucketed<Quantized<8>, 64>>);

/// Trains in two runs, the second of which queues each step anew, and expects the same.
template <class T>
void expect_the_same_without_graphs(int ranks, typename T::Options o, const Split& data) {
    SCOPED_TRACE(T::name() + " on " + std::to_string(ranks) + " ranks");
    std::uint64_t seed = 1;
    std::optional<RunRecord> expected;
    for (const StreamProgress progress : every_progress)
        for (const bool graphs : {false, true}) {
            start(progress, seed++);
            Gpus gpus({.placement = {ranks, 1}, .graphs = graphs});
            const RunRecord record = T(o).train(gpus, data);
            EXPECT_EQ(cuda_testing::counters().graph_launches > 0, graphs);
            cuda_testing::expect_clean();
            if (expected) expect_same_learning(record, *expected);
            else expected = record;
        }
}
template <class R, class... Policies>
using Run = Trainer<Net, R, Warmup<Poly<2>>, Policies...>;

template <class T>
class CapturedSteps : public ::testing::Test {};
using Trainers =
    ::testing::Types<Run<Ring<fp32>, AdamW>,
                     Run<DoubleBuffered<Bucketed<MultiRing<2, fp16>, 64>>, DynamicLossScale>,
                     Run<DoubleTree<3, fp16>, Lars>, Run<Bucketed<TopK, 256>, DynamicLossScale>,
                     Run<DoubleBuffered<DoubleBuffered<Ring<bf16>>>>,
                     Run<Sharded<Bucketed<MultiRing<2, fp16>, 64>>, Lars, DynamicLossScale>,
                     Run<LocalSgd<Bucketed<Ring<fp32>, 256>, 3>, AdamW>,
                     Run<DoubleBuffered<Bucketed<Quantized<8>, 512>>, DynamicLossScale>>;
TYPED_TEST_SUITE(CapturedSteps, Trainers);

/// Tails, an evaluation between epochs, skipped steps, and a checkpoint each epoch.
TYPED_TEST(CapturedSteps, HaveTheBitsOfQueuedOnes) {
    const Folder folder;
    auto o = cuda_tests::options_of_run<TypeParam>();
    o.batch = 2;
    o.epochs = 2;
    o.output = folder.path;
    for (const int ranks : {1, 2, 3})
        expect_the_same_without_graphs<TypeParam>(ranks, o, images(std::int64_t{23} * ranks, 8));
}
TYPED_TEST(CapturedSteps, GoOnFromACheckpoint) {
    const Folder folder;
    auto o = cuda_tests::options_of_run<TypeParam>();
    o.batch = 2;
    o.epochs = 2;
    o.output = folder.path;
    const Split data = images(40, 8);
    start(StreamProgress::random, 1);
    Gpus gpus({.placement = {2, 1}});
    const RunRecord whole = TypeParam(o).train(gpus, data);
    o.output.clear();
    o.resume = folder / "epoch-0001.safetensors";
    for (const StreamProgress progress : every_progress) {
        start(progress, 2);
        Gpus again({.placement = {2, 1}});
        expect_same_learning(TypeParam(o).train(again, data), whole);
    }
}
/// Steps of three micro-batches, of two in a tail, and skipped ones.
TYPED_TEST(CapturedSteps, OfMicroBatchesHaveTheBitsOfQueuedOnes) {
    auto o = cuda_tests::options_of_run<TypeParam>();
    o.batch = 6;
    o.micro_batches = 3;
    o.epochs = 2;
    expect_the_same_without_graphs<TypeParam>(2, o, images(2 * 34, 8));
}
/// A phase has graphs of its own.
TYPED_TEST(CapturedSteps, AreCapturedAnewInAPhase) {
    auto o = cuda_tests::options_of_run<TypeParam>();
    o.epochs = 3;
    o.phases = {{0, 2, 4}, {1, 4, 4}, {2, 2, 4}};
    expect_the_same_without_graphs<TypeParam>(2, o, images(40, 8));
}

// ---- Costs -------------------------------------------------------------------------------------

struct Calls {
    RuntimeCounters runtime{};
    nccl_testing::NcclCounters nccl{};
    std::vector<std::size_t> graphs{};  ///< of each rank
};
std::mutex mutex;
/// Counts the graphs of each rank.
struct Counting : Gpus {
    using Gpus::Gpus;
    std::vector<std::size_t> graphs{};
    void run(FunctionRef<void(Rank&)> f) {
        Gpus::run([&](Rank& rank) {
            f(rank);
            const std::lock_guard lock(mutex);
            graphs.push_back(rank.transport().graphs().count());
        });
    }
};
/// Calls of a run of one epoch of so many steps.
template <class T>
Calls calls(int steps, int ranks, StreamProgress progress, int micro_batches) {
    typename T::Options o{
        .batch = 4, .epochs = 1, .micro_batches = micro_batches, .seed = 3, .evaluate = false};
    start(progress, 1);
    Counting gpus({.placement = {ranks, 1}});
    EXPECT_EQ(T(o).train(gpus, images(std::int64_t{4} * ranks * steps, 8)).steps.size(),
              std::size_t(steps));
    return {cuda_testing::counters(), nccl_testing::counters(), gpus.graphs};
}
TEST(CapturedStep, IsOneLaunch) {
    using Plain = Trainer<Net, Bucketed<Ring<fp32>, 64>, Constant, AdamW>;
    using Late = Trainer<Net, DoubleBuffered<Bucketed<MultiRing<2, fp16>, 64>>, Constant>;
    using Native = Trainer<Net, nccl::AllReduce<fp16>, Constant>;
    using Parts = Trainer<Net, Sharded<Bucketed<MultiRing<2, fp16>, 64>>, Constant, Lars>;
    using Local = Trainer<Net, LocalSgd<Ring<fp32>, 3>, Constant, AdamW>;
    const auto check = []<class T>(std::type_identity<T>, std::size_t graphs,
                                   int micro_batches = 1) {
        for (const int ranks : {1, 2, 3})
            for (const StreamProgress progress : every_progress) {
                if (ranks < 3 && progress != StreamProgress::random) continue;
                const Calls many = calls<T>(16, ranks, progress, micro_batches),
                            few = calls<T>(10, ranks, progress, micro_batches);
                const RuntimeCounters six = many.runtime - few.runtime;
                const std::int64_t steps = std::int64_t{6} * ranks;
                EXPECT_EQ(six.graph_launches, steps);
                EXPECT_EQ(six.allocations + six.frees + six.host_allocations, 0);
                EXPECT_EQ(six.host_synchronizations, 0) << "the host polls for the step before";
                EXPECT_EQ(six.kernels + six.sets + six.host_functions, 0);
                EXPECT_EQ(six.copies, steps) << "the batch, with its draws and the rate";
                EXPECT_EQ(many.graphs, std::vector<std::size_t>(std::size_t(ranks), graphs));
            }
    };
    check(std::type_identity<Plain>{}, 2);
    check(std::type_identity<Late>{}, 2);
    check(std::type_identity<Native>{}, 2);
    check(std::type_identity<Parts>{}, 2);
    check(std::type_identity<Local>{}, 4);  // with a mean behind it, or without
    check(std::type_identity<Plain>{}, 2, 4);
    check(std::type_identity<Late>{}, 2, 2);
}
/// Epochs of five steps, the last of them short: its work repeats too, and that of the first step
/// behind an epoch, which finds no gradient to reduce.
TEST(CapturedStep, IsATailToo) {
    const auto launches = []<class T>(std::type_identity<T>, int epochs) {
        start(StreamProgress::random, 1);
        Gpus gpus({.placement = {2, 1}});
        EXPECT_EQ(T({.batch = 4, .epochs = epochs, .seed = 3}).train(gpus, images(37)).steps.size(),
                  std::size_t(5 * epochs));
        return cuda_testing::counters().graph_launches;
    };
    const auto check = [&]<class T>(std::type_identity<T> run) {
        EXPECT_EQ(launches(run, 9) - launches(run, 5), 2 * 4 * 5);
    };
    check(std::type_identity<Trainer<Net, Ring<fp16>, Constant>>{});
    check(std::type_identity<Trainer<Net, DoubleBuffered<Ring<fp16>>, Constant, AdamW>>{});
    check(std::type_identity<Trainer<Net, Sharded<Ring<fp32>>, Constant>>{});
}

/// Counts forward passes that run while the messages of an earlier gradient are under way.
std::atomic<int> overlaps = 0;
struct Overlapping : reference::Device {
    using Device::Device;
    std::int64_t pass = 0;
    ForwardReport forward(const Batch& batch, Mode mode) {
        constexpr std::int64_t ranks = 2, buckets = 4, groups = 2;
        if (pass > 6 && nccl_testing::counters().kernels < pass * ranks * buckets * groups)
            ++overlaps;
        ++pass;
        return Device::forward(batch, mode);
    }
};
template <class R>
int overlaps_of() {
    overlaps = 0;
    const Trainer<Net, R, Constant> trainer(
        {.batch = 4, .epochs = 1, .seed = 3, .evaluate = false});
    for (const std::uint64_t seed : {1, 2, 3}) {
        start(StreamProgress::random, seed);
        nccl::World<HostComputed<Overlapping>> gpus({.placement = {2, 1}});
        EXPECT_EQ(trainer.train(gpus, images(160, 8)).steps.size(), 20u);
    }
    return overlaps;
}
TEST(CapturedStep, HasTheReductionOfTheStepBeforeBesideItsPasses) {
    EXPECT_GT((overlaps_of<DoubleBuffered<Bucketed<MultiRing<2, fp16>, 64>>>()), 0);
    EXPECT_EQ((overlaps_of<Bucketed<MultiRing<2, fp16>, 64>>()), 0);
}

// ---- A reducer that breaks its promise ---------------------------------------------------------

/// Scales by another number in its seventh gradient.
struct Uneven : Ring<fp32> {
    static std::string name() { return "Uneven"; }
    template <Link T>
    ReduceReport all_reduce(T& link, const BucketOn<T>& bucket) {
        const ReduceReport done = Ring<fp32>::all_reduce(link, bucket);
        launch(queue_of(link), kernels::Scale{bucket.gradient == 6 ? 0.5f : 1.0f}, bucket.values);
        return done;
    }
};
TEST(CapturedStep, OfWorkThatDoesNotRepeatIsNamed) {
    const Trainer<Net, Uneven, Constant> trainer({.batch = 4, .epochs = 1, .seed = 3});
    for (const StreamProgress progress : every_progress) {
        cuda_testing::reset({.progress = progress, .check_at_exit = false});
        Gpus gpus({.placement = {2, 1}});
        const std::string error = error_of([&] { (void)trainer.train(gpus, images(80)); });
        EXPECT_TRUE(holds(error, ", step 6: its work was to be that of a captured step, and is not",
                          "'scale', had other arguments when it was captured", "Reducer Uneven",
                          "graphs = false"))
            << error;
        EXPECT_EQ(cuda_testing::first_misuse(), "");
        start(progress, 1);
        Gpus queued({.placement = {2, 1}, .graphs = false});
        EXPECT_EQ(trainer.train(queued, images(80)).steps.size(), 10u);
    }
}

}  // namespace
