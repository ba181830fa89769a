// ResNet-50 over four rings in fp16 on nccl::World<cuda::Device>, on V100s of the doubles.
#include <gx/cuda/device.hpp>
#include <gx/cuda/staged.hpp>
#include <gx/nccl/world.hpp>

#include <chrono>

#include <gtest/gtest.h>

#include <gx/cuda_testing/cudnn.hpp>
#include <gx/cuda_testing/runtime.hpp>
#include <gx/loader/synthetic.hpp>
#include <gx/model/compute.hpp>
#include <gx/model/resnet.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/trainer/trainer.hpp>
#include <trainer/small.hpp>

namespace {

using namespace gx;
using cuda_testing::StreamProgress;

/// A step of two ranks.
template <class World>
RunRecord trained(StreamProgress progress, std::uint64_t seed) {
    cuda_testing::reset({.seed = seed, .progress = progress, .devices = 2, .sm = 70});
    cuda_testing::reset_cudnn({.gpu = cuda_testing::CudnnGpu::v100, .seed = seed});
    const Trainer<ResNet50, MultiRing<4, fp16>, Warmup<Poly<2>>, Compute<fp16>> trainer(
        {.batch = 4, .epochs = 1, .seed = 3, .evaluate = false});
    World world({.placement = {2, 1}, .deadline = std::chrono::minutes(10)});
    return trainer.train(
        world, synthetic({.shape = {3, 16, 16}, .classes = 4, .train_count = 8, .test_count = 0}));
}
/// Their reducers and optimizers run on the host.
TEST(ResNet50, HasTheWeightsOfThreads) {
    const RunRecord expected = trained<Threads<2, cuda::Staged<>>>(StreamProgress::late, 1);
    EXPECT_EQ(expected.steps.size(), 1u);
    testing_support::expect_same_learning(
        trained<nccl::World<cuda::Device>>(StreamProgress::random, 2), expected);
    cuda_testing::expect_clean();
}

}  // namespace
