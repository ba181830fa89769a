#include <gx/sim/measured/compare.hpp>  // first, so the header is seen to stand alone

#include <string>  // sentences
#include <vector>  // comparisons

#include <gmock/gmock.h>  // HasSubstr
#include <rapidcheck/gtest.h>

#include <gx/sim/gpus.hpp>  // h100

namespace {

using gx::OpKind;
using gx::sim::GpuSpec;
using gx::sim::measured::compare;
using gx::sim::measured::Comparison;
using gx::sim::measured::MeasuredGpu;
using gx::sim::measured::OperationRow;
using testing::HasSubstr;
using namespace gx::literals;

// "Measured" values here are made up, for the arithmetic.

/// 1 TFLOPS, 100 GB/s, all of which is reached; launches take 1 us.
GpuSpec plain() {
    return {.name = "plain", .fp32 = 1.0_TFLOPS, .tensor_fp16 = 8.0_TFLOPS, .memory = 1_GB,
            .memory_bandwidth = 100_GBps, .launch = 1_us};
}
OperationRow row(OpKind kind, int batch, int channels, int size, int outputs = 0) {
    OperationRow r{.kind = kind, .precision = "fp32", .batch = batch, .channels = channels,
                   .height = size, .width = size, .outputs = outputs};
    r.forward_us = r.backward_us = 10.0;
    return r;
}
std::vector<Comparison> compared(const OperationRow& r) {
    MeasuredGpu m;
    m.kernels = {r};
    return compare(m, plain());
}

// ---- Cases worked by hand -----------------------------------------------------------
TEST(CompareMeasured, AnOperationIsTimedAlone) {
    // 10 maps of 10,000 floats, read and written: 0.8 MB at 100 GB/s, and a launch. Backward reads
    // two and writes one.
    const auto relu = compared(row(OpKind::relu, 10, 100, 10));
    ASSERT_EQ(relu.size(), 2u);
    EXPECT_NEAR(relu[0].predicted, 1 + 8, 1e-9);
    EXPECT_NEAR(relu[1].predicted, 1 + 12, 1e-9);
    EXPECT_NEAR(relu[1].error_pct(), 30, 1e-9);
    EXPECT_EQ(relu[0].group, "relu forward fp32");
    EXPECT_EQ(relu[0].what, "10 x 100 x 10 x 10");
    // 1000 rows of 1000 by 1000 x 1000: 2 Gflop. Backward is two such kernels.
    const auto linear = compared(row(OpKind::linear, 1000, 1000, 1, 1000));
    EXPECT_NEAR(linear[0].predicted, 1 + 2000, 1e-9);
    EXPECT_NEAR(linear[1].predicted, 2 * (1 + 2000), 1e-9);
}

TEST(CompareMeasured, LaunchesAndCopies) {
    MeasuredGpu m;
    m.queued_us = 2;
    m.copies = {{"device", 80}, {"to_gpu", 20}, {"to_host", 25}, {"both", 36}};
    const auto rows = compare(m, plain());
    ASSERT_EQ(rows.size(), 3u);
    EXPECT_NEAR(rows[0].error_pct(), -50, 1e-9) << "1 us, and 2 were measured";
    EXPECT_NEAR(rows[1].error_pct(), 25, 1e-9) << "100 GB/s, and 80 were measured";
    EXPECT_NEAR(rows[2].predicted, 40, 1e-9) << "two engines, each way as slow as the slower";
    GpuSpec one = plain();
    one.copy_engines = 1;
    EXPECT_NEAR(compare(m, one)[2].predicted, 20, 1e-9);
}

TEST(CompareMeasured, AStepIsTheRooflinesAndItsMemoryThePlans) {
    MeasuredGpu m;
    m.steps = {{.network = "ResNet-18", .precision = "fp16", .batch = 32, .eager_ms = 20.0,
                .graph_ms = 10.0, .memory_peak_bytes = 2e9}};
    const auto rows = compare(m, gx::sim::h100());
    ASSERT_EQ(rows.size(), 3u);
    const gx::Graph graph = gx::graph<gx::ResNet18>();
    const gx::sim::TimedGraph timed(graph, gx::sim::h100(), gx::sim::Precision::mixed,
                                    {.fused = false});
    EXPECT_DOUBLE_EQ(rows[0].predicted, 1e3 * gx::seconds(timed.step(32)));
    EXPECT_GT(rows[1].predicted, rows[0].predicted) << "the host dispatches each kernel";
    const auto need = gx::sim::memory_need(graph, 32, gx::sim::Precision::mixed).total();
    EXPECT_DOUBLE_EQ(rows[2].predicted, static_cast<double>(need.count) / 1e9);
    EXPECT_EQ(rows[2].measured, 2);
}

TEST(CompareMeasured, WhatWasNotMeasuredIsPassedOver) {
    OperationRow failed = row(OpKind::relu, 1, 1, 1);
    failed.failed = "out of memory";
    EXPECT_TRUE(compared(failed).empty());
    OperationRow half = row(OpKind::add, 1, 1, 1);
    half.backward_us.reset();
    EXPECT_EQ(compared(half).size(), 1u);
}

// ---- Bad input ----------------------------------------------------------------------
std::string complaint(const MeasuredGpu& m) {
    try {
        (void)compare(m, plain());
    } catch (const gx::Error& e) {
        return e.what();
    }
    return "";
}
TEST(CompareMeasured, SaysWhichRowItDoesNotKnow) {
    MeasuredGpu m;
    m.kernels = {row(OpKind::relu, 1, 1, 1), row(OpKind::concat, 1, 1, 1)};
    EXPECT_THAT(complaint(m), HasSubstr("kernels[1]: operation 'concat' is not measured"));
    m.kernels = {row(OpKind::linear, 1, 8, 2, 8)};
    EXPECT_THAT(complaint(m), HasSubstr("kernels[0]: a linear of this shape cannot be: "));
    m.kernels = {};
    m.steps = {{.network = "ResNet-5O", .precision = "fp32"}};
    EXPECT_THAT(complaint(m), HasSubstr("steps[0]: unknown model 'ResNet-5O'"));
}

// ---- A property ---------------------------------------------------------------------
RC_GTEST_PROP(CompareMeasured, NothingIsFittedToTheMeasurement, ()) {
    const auto kind = *rc::gen::element(
        OpKind::conv2d, OpKind::linear, OpKind::batch_norm, OpKind::relu, OpKind::add,
        OpKind::max_pool, OpKind::avg_pool, OpKind::embedding, OpKind::layer_norm, OpKind::gelu,
        OpKind::dropout, OpKind::softmax);
    const int size = kind == OpKind::linear || kind == OpKind::embedding ? 1 : 8;
    OperationRow r = row(kind, *rc::gen::inRange(1, 64), *rc::gen::inRange(1, 256), size, 16);
    const double before = compared(r).at(0).predicted;
    r.forward_us = *rc::gen::inRange(1, 1'000'000);
    const Comparison after = compared(r).at(0);
    RC_ASSERT(after.predicted == before);
    RC_ASSERT(after.measured == *r.forward_us);
    RC_ASSERT(before >= 1);  // us, of the launch
}

}  // namespace
