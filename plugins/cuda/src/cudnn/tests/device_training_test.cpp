// The Trainer on cuda::Device, on GPUs of the doubles: beside the reference device, and its costs.
#include <gx/cuda/device.hpp>

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <gx/core/rng.hpp>
#include <gx/cuda_testing/gpu_world.hpp>
#include <gx/model/cifar_resnet.hpp>
#include <gx/model/compute.hpp>
#include <gx/model/init.hpp>
#include <gx/optimizer/adamw.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/scheduler/constant.hpp>
#include <gx/model/head.hpp>
#include <gx/trainer/checkpoint.hpp>
#include <gx/trainer/evaluator.hpp>
#include <gx/trainer/trainer.hpp>
#include <trainer/small.hpp>

#include "../../../tests/small_maps.hpp"
#include "trained_weights.hpp"

namespace {

using namespace gx;
using namespace gx::cuda_tests;
using namespace testing_support;
using cuda_testing::StreamProgress;
static_assert(explain_training_world<Gpus>());

constexpr StreamProgress all_progress[] = {StreamProgress::late, StreamProgress::eager,
                                           StreamProgress::random};
constexpr auto all_gpus = {CudnnGpu::h100, CudnnGpu::v100};

TEST(DeviceTraining, WeightsOfAResNetAreNearTheReferences) {
    expect_weights<CifarResNet<8>, fp32>(0x1p-16);
    expect_weights<CifarResNet<8>, fp16, DynamicLossScale>(0x1p-9, 2, all_gpus);
}
TEST(DeviceTraining, WeightsOfADropoutNetworkAreNearTheReferences) {
    expect_weights<DropoutNet, fp32>(0x1p-16, 2, all_gpus);
    expect_weights<DropoutNet, fp16>(0x1p-9);
    expect_weights<DropoutNet, fp16, DynamicLossScale>(0x1p-9, 2, all_gpus);
}

// ---- Bits --------------------------------------------------------------------------------------

template <class T>
RunRecord train(const typename T::Options& o, const Split& data, StreamProgress progress,
                std::uint64_t seed) {
    begin(progress, seed);
    Gpus gpus({1, 1});
    const RunRecord record = T(o).train(gpus, data);
    EXPECT_EQ(cuda_testing::cudnn_counters().nondeterministic_executions, 0);
    cuda_testing::expect_clean();
    return record;
}
template <class T>
void expect_same_bits(const Split& data, typename T::Options o) {
    const RunRecord expected = train<T>(o, data, StreamProgress::late, 1);
    std::uint64_t seed = 2;
    for (const StreamProgress progress : all_progress)
        expect_same_learning(train<T>(o, data, progress, seed++), expected);
}
TEST(DeviceTraining, BitsAreTheSameInEveryOrderOfStreams) {
    expect_same_bits<Trainer<CifarResNet<8>, Bucketed<Ring<fp16>, 65536>, Constant>>(
        maps(6), {.batch = 2, .epochs = 1, .seed = 3});
    expect_same_bits<Trainer<DropoutNet, DoubleBuffered<Ring<fp16>>, Constant, Compute<fp16>>>(
        maps(13), {.batch = 3, .epochs = 2, .seed = 3});  // each epoch ends with one image
}
TEST(DeviceTraining, NondeterministicEnginesRunOnlyWhereTheyAreAskedFor) {
    using T = Trainer<CifarResNet<8>, Ring<fp32>, Constant>;
    const Split data = maps(6);
    const RunRecord exact =
        train<T>({.batch = 2, .epochs = 1, .seed = 3}, data, StreamProgress::late, 1);
    begin(StreamProgress::late, 1);
    Gpus gpus({1, 1});
    const RunRecord quick =
        T({.batch = 2, .epochs = 1, .seed = 3, .deterministic = false}).train(gpus, data);
    EXPECT_GT(cuda_testing::cudnn_counters().nondeterministic_executions, 100);
    cuda_testing::expect_clean();
    ASSERT_EQ(quick.steps.size(), exact.steps.size());
    for (std::size_t i = 0; i < quick.steps.size(); ++i)
        EXPECT_NEAR(quick.steps[i].loss, exact.steps[i].loss, 1e-3) << "step " << i;
}
TEST(DeviceTraining, AResumedRunHasTheBitsOfAWholeOne) {
    using T = Trainer<DropoutNet, DoubleBuffered<Ring<fp32>>, Constant, Compute<bf16>>;
    const Folder folder;
    const Split data = maps(14);
    typename T::Options o{.batch = 4, .epochs = 2, .seed = 3, .output = folder.path};
    const RunRecord whole = train<T>(o, data, StreamProgress::random, 1);
    o.output.clear();
    o.resume = folder / "epoch-0001.safetensors";
    expect_same_learning(train<T>(o, data, StreamProgress::eager, 2), whole);
}
TEST(DeviceTraining, PixelsLearnAsFloatsDo) {
    using T = Trainer<DropoutNet, Ring<fp32>, Constant>;
    typename T::Options o{.batch = 4, .epochs = 1, .seed = 3};
    const Split data = maps(10);
    const RunRecord floats = train<T>(o, data, StreamProgress::late, 1);
    o.pixels = true;
    expect_same_learning(train<T>(o, data, StreamProgress::late, 1), floats);
}

// ---- Costs -------------------------------------------------------------------------------------

template <class T>
cuda_testing::RuntimeCounters calls(int steps, StreamProgress progress, CudnnGpu gpu) {
    begin(progress, 1, gpu);
    Gpus gpus({2, 1});
    typename T::Options o{.batch = 2, .epochs = 1, .seed = 3, .evaluate = false};
    EXPECT_EQ(T(o).train(gpus, maps(std::int64_t{4} * steps)).steps.size(), std::size_t(steps));
    return cuda_testing::counters();
}
/// Of two ranks, what five steps more cost: one wait of each host a step, for the outcome of the
/// step before.
TEST(DeviceTraining, StepsAllocateNothingAndWaitOnce) {
    using T =
        Trainer<DropoutNet, DoubleBuffered<Ring<fp16>>, Constant, DynamicLossScale, Compute<fp16>>;
    for (const CudnnGpu gpu : all_gpus)
        for (const StreamProgress progress : all_progress) {
            const auto five = calls<T>(8, progress, gpu) - calls<T>(3, progress, gpu);
            EXPECT_EQ(five.allocations + five.frees + five.host_allocations, 0);
            EXPECT_EQ(five.host_synchronizations, 10);
            EXPECT_EQ(five.queries, 0);
        }
}

/// Half of the memory is of the weights, their gradient and their state, which a run has already
/// when its second phase begins.
struct WideNet {
    static constexpr std::string_view name = "WideNet";
    static constexpr ImageShape input{3, 8, 8};
    static constexpr int classes = 4;
    static constexpr int describe(GraphBuilder& b, int x) {
        x = b.linear(b.flatten(x, "flatten"), 4096, true, "fc1");
        return b.linear(b.relu(x, "relu"), b.classes(), true, "fc2");
    }
};
TEST(DeviceTraining, ASecondPhaseFitsWhereTheFirstDid) {
    using T = Trainer<WideNet, Ring<fp32>, Constant, AdamW>;
    typename T::Options o{.batch = 2, .epochs = 2, .seed = 3, .evaluate = false};
    o.phases = {{0, 2, 8}, {1, 2, 8}};
    for (const std::int64_t bytes : {19'000'000, 10'000'000}) {
        cuda_testing::reset({.device_bytes = std::size_t(bytes), .check_at_exit = false});
        cuda_testing::reset_cudnn({});
        Gpus gpus({1, 1});
        if (bytes > 15'000'000) EXPECT_EQ(T(o).train(gpus, maps(4)).steps.size(), 4u);
        else
            EXPECT_TRUE(holds(error_of([&] { (void)T(o).train(gpus, maps(4)); }),
                              "'WideNet' with a batch of 2 needs", "workspaces of cuDNN"));
    }
}

/// The sum of micro-batches is one vector more.
TEST(DeviceTraining, RefusesASumOfMicroBatchesThatDoesNotFit) {
    using T = Trainer<WideNet, Ring<fp32>, Constant, AdamW>;
    typename T::Options o{.batch = 2, .epochs = 1, .seed = 3, .evaluate = false};
    const auto error = [&](int micro_batches, std::int64_t bytes) {
        o.micro_batches = micro_batches;
        cuda_testing::reset({.device_bytes = std::size_t(bytes), .check_at_exit = false});
        cuda_testing::reset_cudnn({});
        Gpus gpus({1, 1});
        return error_of([&] { (void)T(o).train(gpus, maps(4)); });
    };
    std::int64_t bytes = 12'500'000;  // the least for one part
    while (error(1, bytes) != "no error") bytes += 250'000;
    EXPECT_TRUE(holds(error(2, bytes), "'WideNet' with a batch of 1 needs"));
    EXPECT_EQ(error(2, bytes + 4 * 900'000), "no error");
}

/// And so is the gradient of the step before.
TEST(DeviceTraining, NamesABatchThatFitsBesideGradientsInFlight) {
    using T = Trainer<WideNet, DoubleBuffered<Ring<fp32>>, Constant, AdamW>;
    const auto error = [](int batch) {
        cuda_testing::reset({.device_bytes = 20'000'000, .check_at_exit = false});
        cuda_testing::reset_cudnn({});
        Gpus gpus({1, 1});
        return error_of([&] {
            (void)T({.batch = batch, .epochs = 1, .seed = 3, .evaluate = false})
                .train(gpus, maps(batch));
        });
    };
    const std::string text = error(256), words = "A batch of ";
    ASSERT_TRUE(holds(text, words));
    const int fits = std::stoi(text.substr(text.find(words) + words.size()));
    EXPECT_EQ(error(fits), "no error");
    EXPECT_TRUE(holds(error(fits + 1), "workspaces of cuDNN among them"));
}

// ---- Networks that are run forward alone -------------------------------------------------------

/// Logits, and the maps in front of the flatten, in the graph's order.
TEST(Evaluators, AgreeWithTheReference) {
    const Graph whole = graph_of<DropoutNet>();
    const Weights weights{random_parameters(whole, 9), {}};
    for (const Graph& g : {whole, prefix_of(whole, "flatten")}) {
        const Images data(g, 3, 2);
        const Weights mine{
            {weights.parameters.begin(), weights.parameters.begin() + g.parameter_elements()}, {}};
        Evaluator<reference::Device> slow(g, mine, {.batch = 3});
        const auto expected = slow.logits(data.batch());
        for (const StreamProgress progress : all_progress) {
            begin(progress);
            Evaluator<cuda::Device> fast(g, mine, {.batch = 4, .gpu = 1});
            for (int i = 0; i < 2; ++i) {
                const auto logits = fast.logits(data.batch());
                ASSERT_EQ(logits.size(), expected.size());
                EXPECT_LE(apart(std::vector<double>(logits.begin(), logits.end()),
                                std::vector<double>(expected.begin(), expected.end())),
                          step_bound(g, 3, ElementType::fp32));
            }
        }
        EXPECT_EQ(cuda_testing::first_misuse(), "");
    }
}

// ---- Runs that end early -----------------------------------------------------------------------

/// The image of one step is not a number.
struct Spoiled {
    int calls = 0;
    void take(const Batch& batch, FunctionRef<void(const Batch&)> next) {
        if (++calls != 5) return next(batch);
        std::vector<float> images(batch.images.begin(), batch.images.end());
        images[0] = std::nanf("");
        next({images, batch.labels, batch.count, batch.draw});
    }
};
struct SpoiledHost : reference::Device {
    using Device::Device;
    Spoiled spoiled;
    ForwardReport forward(const Batch& batch, Mode mode) {
        ForwardReport report;
        spoiled.take(batch, [&](const Batch& b) { report = Device::forward(b, mode); });
        return report;
    }
};
struct SpoiledGpu : cuda::Device {
    using Device::Device;
    Spoiled spoiled;
    void load(const Batch& batch) {
        spoiled.take(batch, [&](const Batch& b) { Device::load(b); });
    }
};
using SpoiledGpus = GpuWorld<SpoiledGpu>;
TEST(DeviceTraining, NamesTheStepAndLayerOfABadLoss) {
    const Trainer<DropoutNet, DoubleBuffered<Ring<fp32>>, Constant> trainer(
        {.batch = 2, .epochs = 1, .seed = 3});
    const Split data = maps(80);
    const auto error_on = [&](auto&& world) {
        return error_of([&] { (void)trainer.train(world, data); }).substr(6);  // "rank r"
    };
    const std::string expected = error_on(threads<SpoiledHost>(2));
    EXPECT_TRUE(holds(expected, ", step 4: the loss is not finite", "outputs of input 'input'"));
    for (const StreamProgress progress : all_progress) {
        begin(progress);
        EXPECT_EQ(error_on(SpoiledGpus({2, 1})), expected);
        EXPECT_EQ(cuda_testing::first_misuse(), "");
    }
}

}  // namespace
