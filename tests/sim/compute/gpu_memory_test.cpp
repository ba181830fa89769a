#include <gx/sim/compute/gpu_memory.hpp>  // first, so the header is seen to stand alone

#include <limits>  // largest batch

#include <gtest/gtest.h>

#include <gx/core/error.hpp>  // Error
#include <gx/model/alexnet.hpp>
#include <gx/model/bert.hpp>
#include <gx/model/gpt.hpp>
#include <gx/model/inception.hpp>
#include <gx/model/resnet.hpp>      // ResNet50
#include <gx/sim/catalog/gpus.hpp>  // v100

namespace {

using gx::sim::Precision;

TEST(Memory, TheLargestBatchFitsAndOneMoreDoesNot) {
    const auto graph = gx::graph<gx::ResNet50>();
    const auto gpu = gx::sim::v100();
    const int fits = gx::sim::largest_batch(graph, 1024, gpu, Precision::fp32);
    EXPECT_NO_THROW(gx::sim::expect_fits(graph, fits, gpu, Precision::fp32));
    EXPECT_THROW(gx::sim::expect_fits(graph, fits + 1, gpu, Precision::fp32), gx::Error);
    EXPECT_GT(gx::sim::largest_batch(graph, 1024, gpu, Precision::mixed), fits);
    EXPECT_EQ(gx::sim::largest_batch(graph, std::numeric_limits<int>::max(), gpu, Precision::fp32),
              fits);
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

TEST(Memory, BatchesThatWereTrainedFit) {
    // Published runs: MXNet and TensorFlow on K80 and P100, NVIDIA's and DLPerf's on V100, MLPerf's
    // on A100. A plan that needs more than the GPU had would be wrong.
    const auto fits = [](const gx::Graph& graph, int batch, const gx::sim::GpuSpec& gpu,
                         Precision precision) {
        EXPECT_NO_THROW(gx::sim::expect_fits(graph, batch, gpu, precision));
    };
    const auto sequences = [](int tokens) {
        return gx::graph<gx::BertLargePretraining>({.input = {1, tokens, 1}});
    };
    fits(gx::graph<gx::ResNet152>(), 32, gx::sim::k80(), Precision::fp32);
    fits(gx::graph<gx::InceptionV3>(), 64, gx::sim::k80(), Precision::fp32);
    fits(gx::graph<gx::AlexNet>(), 512, gx::sim::k80(), Precision::fp32);
    fits(gx::graph<gx::ResNet152>(), 64, gx::sim::p100(), Precision::fp32);
    fits(gx::graph<gx::ResNet50>(), 128, gx::sim::v100(), Precision::fp32);
    fits(gx::graph<gx::ResNet50>(), 256, gx::sim::v100(), Precision::mixed);
    fits(gx::graph<gx::ResNet50>(), 408, gx::sim::a100_40gb(), Precision::mixed);
    fits(gx::graph<gx::ResNet50>(), 512, gx::sim::a100_80gb(), Precision::tf32);
    fits(gx::graph<gx::BertBasePretraining>(), 160, gx::sim::v100(), Precision::mixed);
    fits(sequences(128), 16, gx::sim::v100(), Precision::mixed);
    fits(sequences(512), 32, gx::sim::a100_80gb(), Precision::mixed);
}

// ---- Bad input ----------------------------------------------------------------------
std::string complaint(const gx::Graph& graph, int batch, const gx::sim::GpuSpec& gpu,
                      Precision precision, gx::UpdateCost update = {}) {
    try {
        gx::sim::expect_fits(graph, batch, gpu, precision, update);
    } catch (const gx::Error& e) {
        return e.what();
    }
    return "";
}
TEST(Memory, NamesWhatIsLargestAndTheBatchThatFits) {
    const auto graph = gx::graph<gx::ResNet50>();
    const std::string text = complaint(graph, 1024, gx::sim::v100(), Precision::fp32);
    // 64 channels of 112 x 112 floats for each of 1,024 images: 3.29 GB.
    EXPECT_NE(text.find("'conv1' alone 3.29 GB; a batch of "), std::string::npos) << text;
    EXPECT_NE(text.find("a batch of 1024 images of ResNet50 does not fit in a V100-SXM2-16GB"),
              std::string::npos)
        << text;
}
TEST(Memory, SaysThatTheParametersAloneAreTooMany) {
    const auto graph = gx::graph<gx::Gpt2Xl>();
    const std::string text =
        complaint(graph, 1, gx::sim::k80(), Precision::fp32, {.state_vectors = 2});
    EXPECT_NE(text.find("a batch of 1 sequences of GPT-48x1600"), std::string::npos) << text;
    EXPECT_NE(text.find("parameters 24.92 GB of its 12.00 GB, less than the parameters"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("no batch fits: choose"), std::string::npos) << text;
}
TEST(Memory, RanksThatShareTheUpdateKeepAPartOfItsState) {
    const auto graph = gx::graph<gx::Gpt2Xl>();
    const auto need = [&](int shards) {
        return gx::sim::parameter_need(graph, Precision::mixed,
                                       {.state_vectors = 2, .shards = shards})
            .count;
    };
    const std::int64_t n = graph.parameter_elements();  // fp32 w and g, fp16 copies; m and v
    EXPECT_EQ(need(1), n * 12 + n * 8);
    EXPECT_EQ(need(4), n * 12 + (n + 3) / 4 * 8);
    EXPECT_EQ(need(7), n * 12 + (n + 6) / 7 * 8) << "of the largest shard";
}
TEST(Memory, SaysThatMixedPrecisionWouldFit) {
    auto gpu = gx::sim::v100();  // activations outweigh the fp16 copies of parameters
    const auto graph = gx::graph<gx::ResNet18>({.input = {3, 896, 896}});
    gpu.memory = gx::sim::memory_need(graph, 1, Precision::mixed).total();
    const std::string text = complaint(graph, 8, gpu, Precision::fp32);
    EXPECT_NE(text.find("no batch fits, but one of 1 does in mixed precision"), std::string::npos)
        << text;
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
