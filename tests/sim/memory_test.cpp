#include <gx/sim/memory.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

#include <gx/core/error.hpp>    // Error
#include <gx/model/resnet.hpp>  // ResNet50
#include <gx/sim/machines.hpp>  // v100

namespace {

using gx::sim::Precision;

TEST(Memory, TheLargestBatchFitsAndOneMoreDoesNot) {
    const auto graph = gx::graph<gx::ResNet50>();
    const auto gpu = gx::sim::v100();
    const int fits = gx::sim::largest_batch(graph, 1024, gpu, Precision::fp32);
    EXPECT_NO_THROW(gx::sim::expect_fits(graph, fits, gpu, Precision::fp32));
    EXPECT_THROW(gx::sim::expect_fits(graph, fits + 1, gpu, Precision::fp32), gx::Error);
    EXPECT_GT(gx::sim::largest_batch(graph, 1024, gpu, Precision::mixed), fits);
}

TEST(Memory, ParametersAreCountedWithGradientsAndMomentum) {
    const auto graph = gx::graph<gx::ResNet50>();
    const auto elements = graph.parameter_elements();
    const auto of = [&](Precision p) { return gx::sim::memory_need(graph, 1, p); };
    EXPECT_EQ(of(Precision::fp32).parameters.count, 12 * elements);
    EXPECT_EQ(of(Precision::mixed).parameters.count, 16 * elements);
    EXPECT_GT(of(Precision::fp32).activations, of(Precision::mixed).activations);
    // 21.8 M activations an image must be kept for backward: outputs of convolutions and of ReLUs.
    EXPECT_GT(of(Precision::fp32).activations.count, 4 * 21'000'000);
    EXPECT_LT(of(Precision::fp32).activations.count, 4 * 30'000'000);
}

TEST(Memory, SaysWhenNoBatchFits) {
    auto gpu = gx::sim::v100();
    gpu.memory = {100'000'000};
    try {
        gx::sim::expect_fits(gx::graph<gx::ResNet50>(), 4, gpu, Precision::fp32);
        FAIL() << "the parameters alone take 307 MB";
    } catch (const gx::Error& e) {
        EXPECT_NE(std::string(e.what()).find("no batch fits"), std::string::npos) << e.what();
        EXPECT_NE(std::string(e.what()).find("parameters 0.31 GB"), std::string::npos) << e.what();
    }
}

}  // namespace
