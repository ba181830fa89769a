#include <gx/sim/roofline.hpp>  // first, so the header is seen to stand alone

#include <cstdio>  // printf

#include <gtest/gtest.h>

#include <gx/model/resnet.hpp>  // ResNet50
#include <gx/sim/machines.hpp>  // v100

namespace {

using gx::Nanoseconds;
using gx::sim::Precision;
using namespace gx::literals;

/// 1 TFLOPS, 100 GB/s, all of which is reached; launches take 1 us.
gx::sim::GpuSpec plain() {
    return {.name = "plain", .fp32 = 1.0_TFLOPS, .tensor_fp16 = 8.0_TFLOPS, .memory = 1_GB,
            .memory_bandwidth = 100_GBps, .launch = 1_us};
}

// ---- Cases worked by hand -----------------------------------------------------------
TEST(Roofline, AProductIsBoundByArithmeticOrByMemory) {
    gx::GraphBuilder b("one layer", {1000, 1, 1}, 2);
    const int x = b.linear(b.input(), 1000, false, "wide");
    (void)b.softmax_cross_entropy(b.linear(x, 2, false, "logits"), 0, "loss");
    const gx::Graph graph = std::move(b).finish();
    const gx::sim::TimedGraph times(graph, plain(), Precision::fp32);
    const auto& wide = times.ops()[1];
    // One image: 2 Mflop take 2 us; 4 MB of weights and 8 KB of activations take 40.08 us.
    EXPECT_EQ(wide.forward(1), 1_us + Nanoseconds(40'080));
    // 1000 images: 2 Gflop take 2 ms, memory 0.12 ms. Backward: for the weights alone, as much.
    EXPECT_EQ(wide.forward(1000), 1_us + 2'000_us);
    EXPECT_EQ(wide.backward(1000), 1_us + 2'000_us) << "the image needs no gradient";
    // The second layer asks for the gradient of its input: two kernels.
    EXPECT_GT(times.ops()[2].backward(1), 2_us);
    EXPECT_EQ(wide.forward(0), Nanoseconds(0));
    EXPECT_EQ(times.update(), 1_us + Nanoseconds(20 * 1'002'000 / 100));
}

TEST(Roofline, ReluAndAddBelongToTheBatchNormBeforeThem) {
    gx::GraphBuilder b("block", {4, 8, 8}, 2);
    int x = b.conv2d(b.input(), {.channels = 4, .window = gx::Window::square(3, 1, 1)}, "conv");
    const int normed = b.batch_norm(x, {}, "bn");
    const int sum = b.relu(b.add(normed, x, "add"), "relu");
    const int alone = b.relu(x, "alone");
    x = b.flatten(b.global_avg_pool(b.add(sum, alone, "plain add"), "pool"), "flatten");
    (void)b.softmax_cross_entropy(b.linear(x, 2, true, "logits"), 0, "loss");
    const gx::Graph graph = std::move(b).finish();
    const auto fused = gx::sim::fused_into_batch_norm(graph);
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
        const auto name = graph.ops[i].name.view();
        EXPECT_EQ(fused[i], name == "add" || name == "relu") << name;
    }
}

// ---- The rate of ResNet-50 on one V100 ----------------------------------------------
double images_per_second(Precision precision, int batch) {
    const gx::sim::TimedGraph times(gx::graph<gx::ResNet50>(), gx::sim::v100(), precision);
    return batch / gx::seconds(times.step(batch));
}
TEST(Roofline, ResNet50OnV100IsWithinThePublishedRates) {
    // fp32: NVIDIA DeepLearningExamples 362 to 412 (TensorFlow, MXNet, DGX-1), DLPerf 353 to 398.
    const double fp32 = images_per_second(Precision::fp32, 128);
    EXPECT_GT(fp32, 353);
    EXPECT_LT(fp32, 412);
    // mixed: DeepLearningExamples 1200 (PyTorch) to 1492 (MXNet), DLPerf 1394 (MXNet).
    const double mixed = images_per_second(Precision::mixed, 128);
    EXPECT_GT(mixed, 1200);
    EXPECT_LT(mixed, 1492);
    EXPECT_LT(images_per_second(Precision::mixed, 8), 0.9 * mixed) << "small batches pay launches";
    std::printf("ResNet-50 on one V100: fp32 %.0f, mixed %.0f img/s\n", fp32, mixed);
}

}  // namespace
