// Evaluators on GPUs of the runtime's double, beside ranks on other GPUs, and where a GPU is lost.
#include <gx/cuda_testing/host_computed.hpp>

#include <string>
#include <type_traits>
#include <vector>

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <gx/cuda/staged.hpp>
#include <gx/cuda_testing/gpu_world.hpp>
#include <gx/model/head.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/scheduler/constant.hpp>
#include <gx/trainer/features.hpp>
#include <gx/trainer/trainer.hpp>
#include <trainer/small.hpp>

namespace {

using namespace testing_support;
using namespace gx;
using cuda_testing::HostComputed;
using cuda_testing::StreamProgress;
using Host = reference::Device;

/// Ranks on two GPUs, whose loaders read what the first one computes.
TEST(Evaluators, LeaveEachRankItsGpu) {
    using T = Trainer<Head<Net, "fc2">, Ring<fp32>, Constant>;
    const Split data = images(24, 8);
    const Graph g = graph<Net>({.input = {1, 4, 4}, .classes = 3});
    const Weights w = initial_weights(g, 5);
    const auto trained = [&](auto device, auto& world) {
        using D = typename decltype(device)::type;
        const Features<D> train(data.train, g, w, "fc2", 5), test(data.test, g, w, "fc2", 5);
        return T({.batch = 4, .epochs = 2, .seed = 3}).train(world, Sources{train, test});
    };
    auto wall = threads(2);
    const RunRecord expected = trained(std::type_identity<Host>(), wall);
    for (const auto progress :
         {StreamProgress::late, StreamProgress::eager, StreamProgress::random}) {
        cuda_testing::reset({.progress = progress});
        cuda_testing::GpuWorld<HostComputed<Host>> gpus({2, 1});
        expect_same_learning(trained(std::type_identity<HostComputed<Host>>(), gpus), expected);
        cuda_testing::expect_clean();
    }
}
template <class D>
void ends_with_the_error_of_a_lost_gpu() {
    const Graph g = graph<Net>({.input = {1, 4, 4}, .classes = 3});
    cuda_testing::reset({.check_at_exit = false});
    const std::vector<float> image(16, 0.5f);
    const std::vector<std::int32_t> label(1);
    const std::string error = error_of([&] {
        Evaluator<D> network(g, initial_weights(g, 5), {.gpu = 1});
        cuda_testing::lose_device(1);
        (void)network.logits({.images = image, .labels = label, .count = 1});
    });
    EXPECT_TRUE(holds(error, "GPU 1")) << error;
    int current = -1;
    EXPECT_EQ(cudaGetDevice(&current), cudaSuccess);
    EXPECT_EQ(current, 0);
}
TEST(Evaluators, EndWithTheErrorOfALostGpu) {
    ends_with_the_error_of_a_lost_gpu<HostComputed<Host>>();
    ends_with_the_error_of_a_lost_gpu<cuda::Staged<HostComputed<Host>>>();
}
TEST(Evaluators, OfAStagedDeviceLeaveTheThreadItsGpu) {
    cuda_testing::reset({});
    const Graph g = graph<Net>({.input = {1, 4, 4}, .classes = 3});
    const Weights weights = initial_weights(g, 5);
    const std::vector<float> image(16, 0.5f);
    const std::vector<std::int32_t> label(1);
    const auto logits = [&](auto device) {
        Evaluator<typename decltype(device)::type> network(g, weights, {.gpu = 1});
        return network.logits({.images = image, .labels = label, .count = 1});
    };
    EXPECT_EQ(cudaSetDevice(2), cudaSuccess);
    EXPECT_EQ(logits(std::type_identity<cuda::Staged<HostComputed<Host>>>()),
              logits(std::type_identity<Host>()));
    int current = -1;
    EXPECT_EQ(cudaGetDevice(&current), cudaSuccess);
    EXPECT_EQ(current, 2);
    cuda_testing::expect_clean();
}

}  // namespace
