// The Trainer on GPUs of the runtime's double: the bits of threads, in every order of the streams.
#include <gx/cuda_testing/host_computed.hpp>

#include <limits>
#include <numeric>
#include <thread>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include <gx/cuda_testing/gpu_world.hpp>
#include <gx/optimizer/adamw.hpp>
#include <gx/optimizer/lars.hpp>
#include <gx/quantized/reducer.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/top_k/reducer.hpp>
#include <gx/trainer/features.hpp>
#include <gx/trainer/predictor.hpp>
#include <gx/trainer/trainer.hpp>
#include <trainer/small.hpp>

#include "trainer_runs.hpp"

namespace {

using namespace testing_support;
using namespace gx;
using cuda_testing::GpuWorld;
using cuda_testing::HostComputed;
using cuda_testing::StreamProgress;
using Gpus = GpuWorld<HostComputed<reference::Device>>;
static_assert(QueuedDevice<HostComputed<reference::Device>>);
static_assert(explain_training_world<Gpus>());

constexpr StreamProgress all_progress[] = {StreamProgress::late, StreamProgress::eager,
                                           StreamProgress::random};

/// Trains on new GPUs, whose streams run in such an order, and expects nothing left behind.
template <class T>
RunRecord train_on_gpus(const T& trainer, const Split& data, Placement placement,
                        std::uint64_t seed, StreamProgress progress) {
    cuda_testing::reset({.seed = seed, .progress = progress});
    Gpus gpus(placement);
    const RunRecord record = trainer.train(gpus, data);
    cuda_testing::expect_clean();
    return record;
}

template <class T>
class OnGpus : public ::testing::Test {};
TYPED_TEST_SUITE(OnGpus, cuda_tests::Runs);

TYPED_TEST(OnGpus, WeightsAreThoseOfThreads) {
    cuda_tests::expect_weights_of_threads<TypeParam>(train_on_gpus<TypeParam>);
}
TYPED_TEST(OnGpus, CheckpointsAreThoseOfThreads) {
    cuda_tests::expect_checkpoints_of_threads<TypeParam>(train_on_gpus<TypeParam>);
}

TEST(Overflows, AreSkippedAsOnThreads) {
    using T = Trainer<Net, Ring<fp32>, Warmup<Poly<2>>, DynamicLossScale>;
    T::Options o{.batch = 4, .epochs = 2, .seed = 3};
    cuda_tests::overflow(o.loss_scale, false);
    const Split data = images(24, 8);
    auto wall = threads(3);
    const RunRecord expected = T(o).train(wall, data);
    EXPECT_GT(expected.skipped_steps, 0);
    for (const StreamProgress progress : all_progress)
        expect_same_learning(train_on_gpus(T(o), data, {3, 1}, 2, progress), expected);
}

// ---- Costs -------------------------------------------------------------------------------------

/// Calls of a run of one epoch of so many steps.
template <class R, class... Policies>
cuda_testing::RuntimeCounters calls(int steps, int ranks, StreamProgress progress) {
    using T = Trainer<Net, R, Warmup<Poly<2>>, Policies...>;
    typename T::Options o{.batch = 4, .epochs = 1, .seed = 3, .evaluate = false};
    cuda_testing::reset({.progress = progress});
    Gpus gpus({ranks, 1});
    EXPECT_EQ(T(o).train(gpus, images(std::int64_t{4} * ranks * steps, 8)).steps.size(),
              std::size_t(steps));
    const auto counted = cuda_testing::counters();
    cuda_testing::expect_clean();
    return counted;
}
/// Of two ranks, what ten steps more cost: no allocation, and one wait of each host a step, for the
/// outcome of the step before.
template <class R, class... Policies>
void expect_lean_steps(std::int64_t kernels_of_a_rank, std::int64_t copies) {
    for (const StreamProgress progress : all_progress) {
        const auto ten =
            calls<R, Policies...>(15, 2, progress) - calls<R, Policies...>(5, 2, progress);
        EXPECT_EQ(ten.allocations, 0);
        EXPECT_EQ(ten.frees, 0);
        EXPECT_EQ(ten.host_allocations, 0);
        EXPECT_EQ(ten.host_synchronizations, 20);
        EXPECT_EQ(ten.queries, 0);
        EXPECT_EQ(ten.kernels, 20 * kernels_of_a_rank);
        EXPECT_EQ(ten.copies, copies);
    }
}

// Kernels beside the reducer's and the update's: 1 begins the step, 1 forward, 1 backward, 4
// gradients, 3 of the decision, 1 refresh, 1 outcome. Copies beside the messages: the batch with
// the learning rate; the outcome.
TEST(Steps, AllocateNothingAndWaitOnce) {
    expect_lean_steps<Ring<fp32>>(12 + 2 + 2, 20 * (2 + 2));
    // encode, decode, and an addition of each ring
    expect_lean_steps<DoubleBuffered<MultiRing<2, fp16>>, AdamW>(12 + 4 + 2, 20 * (2 + 4));
    // 7 buckets: 12 kernels choose, 4 add, and 1 keeps the residual of a whole gradient; norms
    expect_lean_steps<Bucketed<TopK, 64>, Lars>(12 + 7 * 16 + 1 + 6, 20 * (2 + 7));
    // a block, so one of the ranks has nothing to average
    expect_lean_steps<Quantized<8>>(12 + 3 + 1 + 2, 90);  // and its count of gradients
}

// ---- Networks that are run forward alone -------------------------------------------------------

/// On the second GPU; read by another thread than the one that opened it.
TEST(Evaluators, HaveTheBitsOfTheHost) {
    using T = Trainer<Net, Ring<fp32>, Constant>;
    const Folder folder;
    const Split data = images(12);
    auto wall = threads(2);
    (void)T({.batch = 3, .epochs = 1, .output = folder.path}).train(wall, data);
    const auto file = folder / "epoch-0001.safetensors";
    const Graph g = graph<Net>({.input = {1, 4, 4}, .classes = 3});
    const auto features = [&](auto device, const EvaluatorOptions& o) {
        const Features<typename decltype(device)::type> source(data.test, g, read_weights(file, g),
                                                               "fc2", o);
        const auto reader = source.open();
        std::vector<std::uint32_t> all(std::size_t(source.info().count));
        std::iota(all.begin(), all.end(), 0u);
        std::vector<Sample> samples(all.size());
        std::vector<float> values;
        std::thread([&] { reader->read(all, samples); }).join();
        for (const Sample& s : samples)
            values.insert(values.end(), s.values, s.values + s.shape.elements());
        return values;
    };
    using Host = reference::Device;
    const auto logits = Predictor<Net, Host>(file).logits_of(data.test);
    const auto expected = features(std::type_identity<Host>(), {.batch = 5});
    for (const StreamProgress progress : all_progress) {
        cuda_testing::reset({.progress = progress});
        {
            Predictor<Net, HostComputed<Host>> predictor(file, {.batch = 5, .gpu = 1});
            EXPECT_EQ(predictor.logits_of(data.test), logits);
            EXPECT_EQ(features(std::type_identity<HostComputed<Host>>(), {.batch = 5, .gpu = 1}),
                      expected);
        }
        cuda_testing::expect_clean();
    }
}

// ---- Runs that end early -----------------------------------------------------------------------

/// The image of one call is not a number.
struct Spoiled : reference::Device {
    using reference::Device::Device;
    int calls = 0;
    ForwardReport forward(const Batch& batch, Mode mode) {
        if (++calls != 5) return reference::Device::forward(batch, mode);
        std::vector<float> images(batch.elements());
        normalise_into(batch, images.data());
        images[0] = std::numeric_limits<float>::quiet_NaN();
        return reference::Device::forward({images, batch.labels, batch.count, batch.draw}, mode);
    }
};
TEST(EarlyEnds, NameTheStepAndLayerOfABadLoss) {
    using T = Trainer<Net, DoubleBuffered<Ring<fp32>>, Constant>;
    const T trainer({.batch = 4, .epochs = 1, .seed = 3});
    const Split data = images(80);
    auto wall = threads<Spoiled>(2);
    const auto error_on = [&](auto& world) {
        return error_of([&] { (void)trainer.train(world, data); }).substr(6);  // "rank r"
    };
    const std::string expected = error_on(wall);
    EXPECT_TRUE(holds(expected, ", step 4: the loss is not finite", "outputs of input 'input'"));
    for (const StreamProgress progress : all_progress) {
        cuda_testing::reset({.progress = progress, .check_at_exit = false});
        GpuWorld<HostComputed<Spoiled>> gpus({2, 1});
        EXPECT_EQ(error_on(gpus), expected);
        EXPECT_EQ(cuda_testing::first_misuse(), "");
    }
}

struct Lost {};
thread_local bool is_lost = false;
/// On some ranks, its fourth update ends in an exception.
struct Losing {
    struct Options {
        float peak_rate = 0.1f;
    };
    [[maybe_unused]] static constexpr std::string_view name = "Losing";
    explicit Losing(Options o) : options(o) {}
    [[nodiscard]] float rate(Step t) const {
        if (is_lost && t == 3) throw Lost{};  // with work queued
        return options.peak_rate;
    }
    Options options;
};
/// Rank 1 leaves without an error, as a process that is killed does.
struct LosesRanks : Gpus {
    using Gpus::Gpus;
    void run(FunctionRef<void(Rank&)> f) {
        Gpus::run([&](Rank& rank) {
            is_lost = rank.rank() == 1;
            try {
                f(rank);
            } catch (const Lost&) {
            }
        });
    }
};
TEST(EarlyEnds, NameALostRank) {
    using T = Trainer<Net, DoubleBuffered<Bucketed<TopK, 256>>, Losing>;
    const T trainer({.batch = 4, .epochs = 3, .seed = 3});
    for (const StreamProgress progress : all_progress) {
        cuda_testing::reset({.progress = progress, .check_at_exit = false});
        LosesRanks gpus({3, 1});
        const std::string error = error_of([&] { (void)trainer.train(gpus, images(80)); });
        EXPECT_TRUE(holds(error, "rank 1")) << error << cuda_testing::first_misuse();
        EXPECT_EQ(cuda_testing::first_misuse(), "");
    }
}
TEST(EarlyEnds, NameALostGpu) {
    const Trainer<Net, Ring<fp32>, Constant> trainer({.batch = 4, .epochs = 3, .seed = 3});
    for (const StreamProgress progress : all_progress) {
        cuda_testing::reset({.progress = progress, .check_at_exit = false});
        Gpus gpus({1, 1});
        cuda_testing::fail_operation(200, cudaErrorECCUncorrectable);
        const std::string error = error_of([&] { (void)trainer.train(gpus, images(80)); });
        EXPECT_TRUE(holds(error, "GPU 0", "queue '", "cudaErrorECCUncorrectable")) << error;
        EXPECT_EQ(cuda_testing::first_misuse(), "");
    }
    cuda_testing::reset({});
}

}  // namespace
