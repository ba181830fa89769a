// Staged<cuda::Device>: the steps of a device in the memory of its GPU, bit for bit.
#include <gx/cuda/staged.hpp>

#include <gtest/gtest.h>

#include <gx/model/cifar_resnet.hpp>

#include "gpu_step.hpp"

namespace {

using namespace gx;
using namespace gx::cuda_tests;

TEST(StagedDevice, StepsAsItsDeviceDoes) {
    const Graph g = graph<CifarResNet<8>>({.input = {3, 8, 8}});
    for (const ElementType element : {ElementType::fp32, ElementType::fp16}) {
        start();
        const DeviceOptions o{.batch = 3, .seed = 3, .compute = element};
        GpuRun fast(g, o);
        cuda::Staged<> staged(g, o);
        const auto parameters = random_parameters(g, 9);
        fast.load(parameters);
        staged.update([&](std::span<float> mine) { staged.from_canonical(parameters, mine); });
        for (const int count : {3, 2}) {
            const Images data(g, count, 21);
            const Step a = fast.step(data.batch(4), 0.25f);
            const ForwardReport b = staged.forward(data.batch(4), Mode::train);
            EXPECT_EQ(a.report.loss_sum, b.loss_sum);
            EXPECT_EQ(a.report.correct, b.correct);
            const auto logits = staged.logits();
            EXPECT_TRUE(std::ranges::equal(a.logits, logits));
            std::vector<float> mine(staged.parameters().size()), gradients(parameters.size());
            std::size_t last = mine.size();
            staged.backward(0.25f, mine, [&](std::size_t from) {
                EXPECT_LE(from, last);
                last = from;
            });
            EXPECT_EQ(last, 0u);
            staged.to_canonical(mine, gradients);
            EXPECT_EQ(a.gradients, gradients);
            EXPECT_TRUE(std::ranges::equal(a.statistics, staged.statistics()));
        }
        EXPECT_EQ(cuda_testing::first_misuse(), "");
    }
}

}  // namespace
