// The Trainer on nccl::World<cuda::Device>, over the doubles of NCCL, cuDNN and the CUDA runtime.
#include <gx/cuda/device.hpp>
#include <gx/nccl/world.hpp>

#include <optional>

#include <gtest/gtest.h>

#include <gx/cuda_testing/cudnn.hpp>
#include <gx/cuda_testing/gpu_world.hpp>
#include <gx/cuda_testing/runtime.hpp>
#include <gx/hierarchical/reducer.hpp>
#include <gx/model/cifar_resnet.hpp>
#include <gx/model/compute.hpp>
#include <gx/nccl/all_reduce.hpp>
#include <gx/optimizer/adamw.hpp>
#include <gx/optimizer/lars.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/sharded/reducer.hpp>
#include <gx/top_k/reducer.hpp>
#include <gx/trainer/trainer.hpp>
#include <trainer/small.hpp>

#include "../../../cuda/tests/small_maps.hpp"
#include "../nccl_world.hpp"

namespace {

using namespace testing_support;
using namespace gx;
using cuda_testing::CudnnGpu;
using cuda_testing::StreamProgress;
using cuda_tests::maps;
using nccl_tests::every_progress;
using Gpus = nccl::World<cuda::Device>;
static_assert(explain_training_world<Gpus>());

constexpr CudnnGpu all_gpus[] = {CudnnGpu::h100, CudnnGpu::v100};
void start(StreamProgress progress, std::uint64_t seed, CudnnGpu gpu = CudnnGpu::h100) {
    cuda_testing::reset(
        {.seed = seed, .progress = progress, .sm = gpu == CudnnGpu::v100 ? 70 : 90});
    cuda_testing::reset_cudnn({.gpu = gpu, .seed = seed});
}

struct SmallNet {
    static constexpr std::string_view name = "SmallNet";
    static constexpr ImageShape input{3, 8, 8};
    static constexpr int classes = 4;
    static constexpr int describe(GraphBuilder& b, int x) {
        x = b.conv2d(x, {.channels = 8, .window = Window::square(3, 2, 1)}, "conv");
        x = b.relu(b.batch_norm(x, {}, "norm"), "relu");
        x = b.dropout(b.global_avg_pool(x, "pool"), 0.2, "dropout");
        return b.linear(b.flatten(x, "flatten"), b.classes(), true, "fc");
    }
};

// ---- Bits: those of the same device where messages are copies between GPUs ---------------------

template <class T>
void expect_same_bits(Placement placement, const typename T::Options& o, const Split& data,
                      CudnnGpu gpu = CudnnGpu::h100) {
    SCOPED_TRACE(T::name() + " on " + std::to_string(placement.ranks()) +
                 (gpu == CudnnGpu::v100 ? " V100" : " H100"));
    start(StreamProgress::late, 1, gpu);
    cuda_testing::GpuWorld<cuda::Device> peers(placement);
    const RunRecord expected = T(o).train(peers, data);
    std::uint64_t seed = 2;
    for (const StreamProgress progress : every_progress) {
        start(progress, seed++, gpu);
        Gpus gpus({.placement = placement});
        expect_same_learning(T(o).train(gpus, data), expected);
        cuda_testing::expect_clean();
    }
}
template <class R, class... Policies>
using Small = Trainer<SmallNet, R, Warmup<Poly<2>>, Policies...>;

TEST(Device, TrainsAResNetOverFourRings) {
    using T = Trainer<CifarResNet<8>, MultiRing<4, fp16>, Warmup<Poly<2>>, DynamicLossScale,
                      Compute<fp16>>;
    for (const CudnnGpu gpu : all_gpus)
        expect_same_bits<T>({4, 1}, {.batch = 2, .epochs = 1, .seed = 3}, maps(16), gpu);
}
TEST(Device, TrainsOnOneToEightRanks) {
    for (int ranks = 1; ranks <= 8; ++ranks)
        expect_same_bits<Small<Bucketed<Ring<fp16>, 256>>>(
            {ranks, 1}, {.batch = 2, .epochs = 2, .seed = 3}, maps(3 * ranks));
}
TEST(Device, TrainsByReducersOfEveryKind) {
    const auto all = []<class... T>(std::type_identity<T>...) {
        (expect_same_bits<T>({2, 2}, {.batch = 2, .epochs = 2, .seed = 3}, maps(18)), ...);
    };
    all(std::type_identity<Small<DoubleBuffered<MultiRing<2, fp16>>, Compute<bf16>>>{},
        std::type_identity<Small<Hierarchical<fp32>, Lars>>{},
        std::type_identity<Small<Sharded<Ring<fp16>>, AdamW, Compute<fp16>>>{},
        std::type_identity<Small<DoubleBuffered<Bucketed<TopK, 256>>>>{});
}

// ---- Costs -------------------------------------------------------------------------------------

TEST(Device, StepsAllocateNothing) {
    using T = Small<DoubleBuffered<Bucketed<MultiRing<2, fp16>, 256>>, Compute<fp16>>;
    const auto calls = [](int steps, StreamProgress progress) {
        start(progress, 1);
        Gpus gpus({.placement = {2, 1}});
        const T trainer({.batch = 2, .epochs = 1, .seed = 3, .evaluate = false});
        EXPECT_EQ(trainer.train(gpus, maps(std::int64_t{4} * steps)).steps.size(),
                  std::size_t(steps));
        return cuda_testing::counters();
    };
    for (const StreamProgress progress : every_progress) {
        const auto five = calls(8, progress) - calls(3, progress);
        EXPECT_EQ(five.allocations + five.frees + five.host_allocations, 0);
        EXPECT_EQ(five.host_synchronizations, 0) << "the host polls";
    }
}

/// One launch, and one copy of a batch with its draws and the learning rate: also of micro-batches.
template <class... Policies>
void expect_one_launch(int batch, int micro_batches, CudnnGpu gpu = CudnnGpu::h100) {
    SCOPED_TRACE(std::to_string(micro_batches) + " micro-batches");
    using T = Small<DoubleBuffered<Bucketed<MultiRing<2, fp16>, 256>>, Policies..., Compute<fp16>>;
    // Draws, rate and labels; values of pixels; images.
    const std::int64_t bytes = 256 + 4 * 256 * 3 + 4 * batch * SmallNet::input.elements();
    for (const int ranks : {1, 2})
        for (const StreamProgress progress : every_progress) {
            const auto calls = [&](int steps) {
                start(progress, 1, gpu);
                Gpus gpus({.placement = {ranks, 1}});
                const T trainer({.batch = batch,
                                 .epochs = 1,
                                 .micro_batches = micro_batches,
                                 .seed = 3,
                                 .evaluate = false});
                const std::int64_t images = std::int64_t{batch} * ranks * steps;
                EXPECT_EQ(trainer.train(gpus, maps(images)).steps.size(), std::size_t(steps));
                return cuda_testing::counters();
            };
            const auto ten = calls(18) - calls(8);
            const std::int64_t steps = std::int64_t{10} * ranks;
            EXPECT_EQ(ten.graph_launches, steps);
            EXPECT_EQ(ten.kernels + ten.sets + ten.host_functions, 0);
            EXPECT_EQ(ten.copies, steps);
            EXPECT_EQ(ten.copied_bytes, bytes * steps);
            EXPECT_EQ(ten.allocations + ten.frees + ten.host_allocations, 0);
            EXPECT_EQ(ten.host_synchronizations, 0) << "the host polls";
        }
}
TEST(Device, AStepIsOneLaunch) {
    expect_one_launch(2, 1);
    expect_one_launch(6, 3);
    expect_one_launch<DynamicLossScale>(2, 1, CudnnGpu::v100);
}
/// Dropout, batch norm, tails, two epochs with an evaluation between, and skipped steps.
TEST(Device, CapturedStepsHaveTheBitsOfQueuedOnes) {
    const auto check = []<class T>(std::type_identity<T>, auto o, CudnnGpu gpu = CudnnGpu::h100) {
        std::optional<RunRecord> expected;
        std::uint64_t seed = 1;
        for (const StreamProgress progress : every_progress)
            for (const bool graphs : {false, true}) {
                start(progress, seed++, gpu);
                Gpus gpus({.placement = {2, 1}, .graphs = graphs});
                const RunRecord record = T(o).train(gpus, maps(39));
                EXPECT_EQ(cuda_testing::counters().graph_launches > 0, graphs);
                cuda_testing::expect_clean();
                if (expected) expect_same_learning(record, *expected);
                else expected = record;
            }
        return expected->skipped_steps;
    };
    using Scaled = Small<Ring<fp16>, DynamicLossScale, Compute<fp16>>;
    Scaled::Options scaled{.batch = 2, .epochs = 2, .seed = 3};
    scaled.loss_scale.initial = scaled.loss_scale.largest = 0x1p17f;
    for (const CudnnGpu gpu : all_gpus)
        EXPECT_GT(check(std::type_identity<Scaled>{}, scaled, gpu), 0);
    using Late = Small<DoubleBuffered<Bucketed<MultiRing<2, bf16>, 256>>, AdamW, Compute<bf16>>;
    check(std::type_identity<Late>{}, Late::Options{.batch = 2, .epochs = 2, .seed = 3});
    check(std::type_identity<Late>{},
          Late::Options{.batch = 6, .epochs = 2, .micro_batches = 3, .seed = 3});
    using Native = Small<nccl::AllReduce<fp32>, Lars>;
    const Native::Options native{.batch = 2, .epochs = 2, .seed = 3};
    start(StreamProgress::random, 1);
    Gpus gpus({.placement = {2, 1}});  // NCCL's sums repeat in no order
    EXPECT_EQ(Native(native).train(gpus, maps(39)).steps.size(), 20u);
    cuda_testing::expect_clean();
}

// ---- A rank that is lost -----------------------------------------------------------------------

struct Dies : cuda::Device {
    Dies(cuda::DeviceContext& gpu, const Graph& graph, DeviceOptions o)
        : Device(gpu, graph, o), rank(o.rank) {}
    void forward(Mode mode, View<ForwardReport> report) {
        if (rank == 1 && ++calls == 3) throw Error("the feed of this rank broke");
        Device::forward(mode, report);
    }
    int rank, calls = 0;
};
TEST(Device, ARankThatThrowsEndsTheRunWithItsError) {
    for (const StreamProgress progress : every_progress) {
        start(progress, 1);
        nccl::World<Dies> gpus({.placement = {3, 1}});
        const Small<Ring<fp16>> trainer({.batch = 2, .epochs = 1, .seed = 3});
        EXPECT_EQ(error_of([&] { (void)trainer.train(gpus, maps(36)); }),
                  "the feed of this rank broke");
        EXPECT_EQ(cuda_testing::first_misuse(), "");
    }
}

}  // namespace
