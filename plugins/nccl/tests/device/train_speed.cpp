// TrainSpeed over the doubles: that it runs, and what it counts; their times mean nothing.
#include "../../gpu/train_speed.hpp"

#include <gtest/gtest.h>

#include <gx/cuda/device.hpp>
#include <gx/cuda_testing/cudnn.hpp>
#include <gx/model/cifar_resnet.hpp>
#include <gx/model/compute.hpp>
#include <gx/nccl/world.hpp>
#include <gx/reducer/multi_ring.hpp>

#include "../nccl_world.hpp"

namespace {

using namespace gx;

using T = Trainer<CifarResNet<8>, MultiRing<4, fp16>, Warmup<Poly<2>>, Compute<fp16>>;

/// Bytes that copies brought in a run on images of that width.
std::int64_t copied_bytes(int width) {
    nccl_tests::start(cuda_testing::StreamProgress::late, 1);
    cuda_testing::reset_cudnn({.gpu = cuda_testing::CudnnGpu::h100});
    nccl::World<cuda::Device> world({.placement = {1, 1}});
    (void)train_speed<T>(
        world, {.batch = 1, .shape = {3, 8, width}, .classes = 4, .steps = 6, .before = 2});
    return cuda_testing::counters().copied_bytes;
}
TEST(TrainSpeed, ImagesCrossAsPixels) {
    constexpr std::int64_t steps = 8, bytes = steps * 3 * 8 * 8;
    EXPECT_EQ(copied_bytes(16) - copied_bytes(8), bytes) << "4 times as many where they are floats";
}
TEST(TrainSpeed, TrainsMoreClassesThanLabelsInBytesName) {
    nccl_tests::start(cuda_testing::StreamProgress::late, 1);
    cuda_testing::reset_cudnn({.gpu = cuda_testing::CudnnGpu::h100});
    nccl::World<cuda::Device> world({.placement = {1, 1}});
    const TrainSpeed speed = train_speed<T>(
        world, {.batch = 1, .shape = {3, 8, 8}, .classes = 1000, .steps = 3, .before = 2});
    EXPECT_GT(speed.images_per_second, 0);
    cuda_testing::expect_clean();
}
TEST(TrainSpeed, TimesTheLaterSteps) {
    nccl_tests::start(cuda_testing::StreamProgress::late, 1);
    cuda_testing::reset_cudnn({.gpu = cuda_testing::CudnnGpu::h100});
    nccl::World<cuda::Device> world({.placement = {1, 2}});
    const TrainSpeed speed = train_speed<T>(
        world, {.batch = 1, .shape = {3, 8, 8}, .classes = 4, .steps = 3, .before = 2});
    EXPECT_EQ(speed.composition, T::name());
    EXPECT_EQ(speed.ranks, 2);
    EXPECT_EQ(speed.batch, 1);
    EXPECT_GT(speed.images_per_second, 0);
    cuda_testing::expect_clean();
}

}  // namespace
