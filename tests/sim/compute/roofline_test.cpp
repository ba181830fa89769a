#include <gx/sim/compute/roofline.hpp>  // first, so the header is seen to stand alone

#include <cstdio>  // printf

#include <gtest/gtest.h>

#include <gx/model/cost.hpp>  // total_cost
#include <rapidcheck/gtest.h>

#include <gx/model/bert.hpp>            // BertBase
#include <gx/model/resnet.hpp>          // ResNet50
#include <gx/sim/catalog/find_gpu.hpp>  // gpus

namespace {

using gx::Nanoseconds;
using gx::sim::Precision;
using namespace gx::literals;

/// 1 TFLOPS, 100 GB/s, all of which is reached; launches take 1 us.
gx::sim::GpuSpec plain() {
    return {.name = "plain",
            .fp32 = 1.0_TFLOPS,
            .tensor_fp16 = 8.0_TFLOPS,
            .memory = 1_GB,
            .memory_bandwidth = 100_GBps,
            .launch = 1_us};
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
    const auto fused = gx::sim::joins_the_kernel_before(graph);
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
        const auto name = graph.ops[i].name.view();
        EXPECT_EQ(fused[i], name == "add" || name == "relu") << name;
    }
}

TEST(Roofline, SeparateKernelsPayForEachOperationAndEachUpdate) {
    const gx::Graph graph = gx::graph<gx::ResNet50>();
    const gx::sim::TimedGraph fused(graph, plain(), Precision::fp32);
    const gx::sim::TimedGraph apart(graph, plain(), Precision::fp32, gx::sim::separate_kernels);
    EXPECT_EQ(apart.update() - fused.update(), 161 * 21_us - 1_us);
    EXPECT_GT(apart.forward(1), fused.forward(1) + 65 * 21_us) << "49 ReLUs and 16 adds";
}

TEST(Roofline, AnEmbeddingReadsItsRowsAndNotItsTable) {
    const gx::Graph graph = gx::graph<gx::BertBase>();
    const gx::sim::TimedGraph times(graph, plain(), Precision::fp32);
    ASSERT_EQ(graph.ops[1].kind, gx::OpKind::embedding);
    // 128 rows of 768 floats read and written: 786 KB at 100 GB/s; the table alone is 94 MB.
    EXPECT_EQ(times.ops()[1].forward(1), 1_us + Nanoseconds(7'864));
    EXPECT_GT(times.ops()[1].backward(1), 900_us) << "its gradient is as long as the table";
}

// ---- What suits tensor cores --------------------------------------------------------
/// Forward of a wide 1x1 convolution from `in` to `out` channels.
Nanoseconds pointwise(int in, int out, Precision precision) {
    gx::GraphBuilder b("pointwise", {in, 64, 64}, 2);
    const int x = b.conv2d(b.input(), {.channels = out, .window = gx::Window::square(1)}, "conv");
    (void)b.softmax_cross_entropy(
        b.linear(b.flatten(b.global_avg_pool(x, "pool"), "flatten"), 2, false, "fc"), 0, "loss");
    gx::sim::GpuSpec gpu = plain();
    gpu.memory_bandwidth = 10'000_GBps;
    gpu.tf32 = 4.0_TFLOPS;
    gpu.fp16 = 2.0_TFLOPS;
    return gx::sim::TimedGraph(std::move(b).finish(), gpu, precision).ops()[1].forward(64) - 1_us;
}
TEST(Roofline, ChannelsThatAreNoMultipleOfEightRunBesideTheTensorCores) {
    const auto per_channel = [](int in, int out, Precision p) {
        return gx::seconds(pointwise(in, out, p)) / in / out;
    };
    const double fast = per_channel(512, 512, Precision::mixed);
    EXPECT_NEAR(per_channel(512, 500, Precision::mixed) / fast, 4, 1e-3) << "8 against 2 TFLOPS";
    EXPECT_NEAR(per_channel(500, 512, Precision::mixed) / fast, 4, 1e-3);
    EXPECT_NEAR(per_channel(504, 520, Precision::mixed) / fast, 1, 1e-3);
    const double tf32 = per_channel(512, 512, Precision::tf32);
    EXPECT_NEAR(tf32 / fast, 2, 1e-3);
    EXPECT_NEAR(per_channel(512, 500, Precision::tf32) / tf32, 1, 1e-3) << "multiples of 4 do";
    EXPECT_NEAR(per_channel(512, 510, Precision::tf32) / tf32, 4, 1e-3) << "fp32: 1 TFLOPS";
}

// ---- Properties ---------------------------------------------------------------------
RC_GTEST_PROP(Roofline, ALargerBatchTakesLongerAndAnImageOfItNeverMoreThanAlone, ()) {
    static const gx::Graph graph = gx::graph<gx::ResNet18>();
    const auto index = *rc::gen::inRange<std::size_t>(0, gx::sim::known_gpus.size());
    const gx::sim::GpuSpec& gpu = gx::sim::known_gpus[index];
    const auto precision = *rc::gen::element(Precision::fp32, Precision::mixed, Precision::tf32);
    const gx::sim::TimedGraph times(graph, gpu, precision);
    const int batch = *rc::gen::inRange(1, 200);
    const Nanoseconds step = times.step(batch);
    RC_ASSERT(times.step(batch + 1) >= step);
    RC_ASSERT(step <= batch * times.step(1));
    // The floor: all flops at the peak, with the most that Winograd saves.
    const double gain = precision == Precision::fp32 ? 2.25 : 1.0;
    RC_ASSERT(gx::seconds(step) >=
              batch * gx::total_cost(graph).flops() / (gpu.peak(precision).count * gain));
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
    EXPECT_LT(images_per_second(Precision::mixed, 8), 0.6 * mixed) << "small batches pay launches";
    std::printf("ResNet-50 on one V100: fp32 %.0f, mixed %.0f img/s\n", fp32, mixed);
}

}  // namespace
