#include <gx/sim/compute/step_kernels.hpp>  // first, so the header is seen to stand alone

#include <cmath>  // abs

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/core/error.hpp>              // Error
#include <gx/model/resnet.hpp>            // ResNet50
#include <gx/sim/catalog/find_gpu.hpp>    // known_gpus, h100
#include <gx/sim/catalog/find_model.hpp>  // models
#include <support/files.hpp>              // error_of, holds

namespace {

using gx::Nanoseconds;
using gx::seconds;
using gx::sim::Framework;
using gx::sim::KernelKind;
using gx::sim::Precision;
using gx::sim::step_kernels;
using namespace gx::literals;
using testing_support::error_of;
using testing_support::holds;

/// 1 TFLOPS, 100 GB/s, all of which is reached; launches take 1 us.
gx::sim::GpuSpec plain() {
    return {.name = "plain",
            .fp32 = 1.0_TFLOPS,
            .tensor_fp16 = 8.0_TFLOPS,
            .memory = 1_GB,
            .memory_bandwidth = 100_GBps,
            .launch = 1_us};
}

/// 1000 pixels of 10 channels through a convolution of 1x1 with batch norm and ReLU, twice.
gx::Graph two_convolutions() {
    gx::GraphBuilder b("two", {10, 100, 10}, 10);
    int x = b.input();
    for (const char* name : {"first", "second"}) {
        x = b.conv2d(x, {.channels = 10, .window = gx::Window::square(1, 1, 0)}, name);
        x = b.relu(b.batch_norm(x, {}, "bn"), "relu");
    }
    (void)b.softmax_cross_entropy(b.flatten(b.global_avg_pool(x, "pool"), "flatten"), 0, "loss");
    return std::move(b).finish();
}

// ---- What the names promise ---------------------------------------------------------
static_assert(to_string(KernelKind::products_forward) == "products, forward");
static_assert(to_string(KernelKind::other) == "other");
static_assert(is_product(KernelKind::products_weight_gradient));
static_assert(!is_product(KernelKind::batch_norm_forward));
static_assert(is_memory_bound(KernelKind::pools) && !is_memory_bound(KernelKind::loss));

// ---- A case worked by hand ----------------------------------------------------------
TEST(StepKernels, AreSummedByKind) {
    // A map of one image has 10,000 elements, 40 kB in fp32: 0.4 us read or written. A convolution
    // has 100 weights: 0.004 us read, 0.008 us read and their gradient written; 0.2 Mflop, 0.2 us.
    const auto all = step_kernels(two_convolutions(), plain(), Precision::fp32, 1);
    const auto is = [&](KernelKind k, int kernels, double kilobytes, Nanoseconds time) {
        EXPECT_EQ(all[k].kernels, kernels) << to_string(k);
        EXPECT_NEAR(all[k].bytes, 1e3 * kilobytes, 1e-3) << to_string(k);
        EXPECT_LE(std::abs((all[k].time - time).count()), 2) << to_string(k);
    };
    is(KernelKind::products_forward, 2, 2 * 80.4, 2 * (1_us + Nanoseconds(804)));
    // The first needs no gradient of the image; of the second both halves are bound by memory.
    is(KernelKind::products_input_gradient, 1, 80.4, 1_us + Nanoseconds(804));
    is(KernelKind::products_weight_gradient, 2, 80.8 + 80.4, 2_us + Nanoseconds(808 + 804));
    // Batch norm reads twice and writes once, ReLU is free; backward also reads the ReLU's output.
    is(KernelKind::batch_norm_forward, 2, 2 * 120.08, 2 * (1_us + Nanoseconds(1'201)));
    is(KernelKind::batch_norm_backward, 2, 2 * 240.16, 2 * (1_us + Nanoseconds(2'402)));
    is(KernelKind::optimizer, 1, 20 * 0.24, 1_us + Nanoseconds(48));
    EXPECT_EQ(all[KernelKind::copies].kernels, 0);
    EXPECT_EQ(all[KernelKind::other].time, 0_us);
}

TEST(StepKernels, SeparateKernelsOfReluAreCopies) {
    const Framework apart{.fused = false};
    const auto all = step_kernels(two_convolutions(), plain(), Precision::fp32, 1, apart);
    EXPECT_EQ(all[KernelKind::copies].kernels, 4);
    EXPECT_EQ(all[KernelKind::optimizer].kernels, 6) << "a weight, gamma and beta of two layers";
}

TEST(StepKernels, ArithmeticDividesABackwardThatItBounds) {
    gx::GraphBuilder b("square", {1000, 1, 1}, 1000);
    int x = b.linear(b.input(), 1000, false, "first");
    (void)b.softmax_cross_entropy(b.linear(x, 1000, false, "second"), 0, "loss");
    const gx::Graph graph = std::move(b).finish();
    const auto all = step_kernels(graph, plain(), Precision::fp32, 1000);
    // 1000 images: 2 Gflop each way, 2 ms.
    EXPECT_EQ(all[KernelKind::products_forward].time, 2 * 2'001_us);
    EXPECT_EQ(all[KernelKind::products_input_gradient].time, 2'001_us);
    EXPECT_EQ(all[KernelKind::products_weight_gradient].time, 2 * 2'001_us);
}

// ---- Properties ---------------------------------------------------------------------
RC_GTEST_PROP(StepKernels, AddUpToTheStep, ()) {
    const gx::sim::GpuSpec gpu = *rc::gen::elementOf(gx::sim::known_gpus);
    const gx::Graph graph = (*rc::gen::elementOf(gx::sim::models)).make({});
    const Precision p = *rc::gen::element(Precision::fp32, Precision::mixed, Precision::tf32);
    const Framework framework = *rc::gen::element(gx::sim::fused_kernels, gx::sim::separate_kernels,
                                                  gx::sim::channels_first_kernels);
    const int images = *rc::gen::inRange(0, 300);
    const gx::sim::TimedGraph times(graph, gpu, p, framework);
    const auto all = step_kernels(graph, gpu, p, images, framework);
    RC_ASSERT(all.sum([](KernelKind) { return true; }).time == times.step(images));
    for (const auto& kind : all.kinds)
        RC_ASSERT(kind.kernels >= 0 && kind.bytes >= 0 && kind.time >= 0_us);
}

TEST(WithMeasured, TakesTheTimesThatWereMeasured) {
    const gx::Graph graph = gx::graph<gx::ResNet50>();
    const gx::sim::GpuSpec sheet = gx::sim::h100();
    for (const double products : {18e-3, 30e-3, 200e-3}) {
        const auto gpu = with_measured(sheet, {products, 25e-3}, graph, Precision::mixed, 256);
        const auto all = step_kernels(graph, gpu, Precision::mixed, 256);
        EXPECT_NEAR(seconds(all.sum(gx::sim::is_product).time), products, 1e-6);
        EXPECT_NEAR(seconds(all.sum(gx::sim::is_memory_bound).time), 25e-3, 1e-6);
        EXPECT_NEAR(gpu.efficiency_mixed.convolution / gpu.efficiency_mixed.linear, 0.7 / 0.6,
                    1e-9);
        EXPECT_EQ(gpu.efficiency_fp32.memory, sheet.efficiency_fp32.memory);
        EXPECT_EQ(gpu.memory_bandwidth, sheet.memory_bandwidth);
    }
}

TEST(WithMeasured, FindsTheEfficienciesThatMadeTheTimes) {
    const gx::Graph graph = gx::graph<gx::ResNet50>();
    for (const Precision p : {Precision::fp32, Precision::mixed, Precision::tf32}) {
        const auto all = step_kernels(graph, gx::sim::h100(), p, 64);
        const auto gpu = with_measured(gx::sim::h100(),
                                       {seconds(all.sum(gx::sim::is_product).time),
                                        seconds(all.sum(gx::sim::is_memory_bound).time)},
                                       graph, p, 64);
        EXPECT_NEAR(gpu.efficiency(p).memory, 0.9, 1e-4) << to_string(p);
        EXPECT_NEAR(gpu.efficiency(p).convolution, gx::sim::h100().efficiency(p).convolution, 1e-4)
            << to_string(p);
    }
}

// ---- Times that no efficiency explains ------------------------------------------------
TEST(WithMeasured, RefusesWhatIsOutOfReach) {
    const gx::Graph graph = gx::graph<gx::ResNet50>();
    const auto error = [&](gx::sim::MeasuredKernels m) {
        return error_of(
            [&] { (void)with_measured(gx::sim::h100(), m, graph, Precision::mixed, 256); });
    };
    EXPECT_TRUE(holds(error({16e-3, 1e-3}),
                      "batch norms and pools of a step took 1.000 ms: a simulated H100-SXM5-80GB "
                      "takes from"));
    EXPECT_TRUE(holds(error({16e-3, 100}), "took 100000.000 ms"));
    EXPECT_TRUE(holds(error({1e-3, 20e-3}), "products of a step took 1.000 ms"));
    EXPECT_TRUE(holds(error({0, 20e-3}), "products of a step took 0.000 ms"));
}

}  // namespace
