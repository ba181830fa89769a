#include <gx/sim/measured/measured_file.hpp>  // first, so the header is seen to stand alone

#include <string>  // sentences

#include <gmock/gmock.h>  // HasSubstr
#include <rapidcheck/gtest.h>

namespace {

using gx::sim::Precision;
using gx::sim::measured::MeasuredGpu;
using gx::sim::measured::precision_of;
using gx::sim::measured::read_measured;
using testing::HasSubstr;

const std::string opening = R"({"format": "gx.gpu.measured.1",
    "conditions": {"gpu": "H100", "smoke": false, "torch": "2.11", "date": "2026-01-31"})";

/// A file with one row, in the form that measure.py writes. All numbers here are made up.
std::string with_kernel(const std::string& row) {
    return opening + R"(, "kernels": [)" + row + "]}";
}
std::string complaint(const std::string& text) {
    try {
        (void)read_measured(text, "h100.json");
    } catch (const gx::Error& e) {
        return e.what();
    }
    return "";
}

// ---- A case worked by hand ----------------------------------------------------------
TEST(MeasuredFile, ReadsEveryPart) {
    const MeasuredGpu m = read_measured(opening + R"(,
        "launch": {"issued_us": 4.5, "queued_us": 2.5, "graph_us": null},
        "copies": [{"way": "to_gpu", "bytes": 1000, "gb_per_s": 50}],
        "overlap": [{"kind": "relu", "precision": "fp16", "alone_us": 2,
                     "beside_device_copies_us": 3}],
        "kernels": [{"kind": "conv2d", "precision": "bf16", "batch": 64, "channels": 3,
                     "height": 224, "width": 200, "outputs": 60, "window": 7, "stride": 2,
                     "forward_us": 10, "backward_data_us": 4, "backward_weight_us": 5,
                     "backward_us": 9}],
        "steps": [{"network": "BERT-large", "precision": "fp16", "batch": 8, "tokens": 512,
                   "eager_ms": 7, "memory_peak_bytes": 5000000000,
                   "graph_failed": "not permitted"}]})",
                                        "h100.json");
    EXPECT_EQ(m.gpu, "H100");
    EXPECT_EQ(m.issued_us, 4.5);
    EXPECT_EQ(m.graph_us, std::nullopt);
    EXPECT_EQ(m.copies.at(0).gb_per_s, 50);
    EXPECT_EQ(m.overlap.at(0).beside_device_copies_us, 3);
    EXPECT_EQ(m.overlap.at(0).beside_to_gpu_copies_us, std::nullopt);
    const auto& conv = m.kernels.at(0);
    EXPECT_EQ(conv.kind, gx::OpKind::conv2d);
    EXPECT_EQ(conv.width, 200);
    EXPECT_EQ(conv.outputs, 60);
    EXPECT_EQ(conv.backward_us, 9);
    EXPECT_EQ(m.steps.at(0).tokens, 512);
    EXPECT_EQ(m.steps.at(0).graph_ms, std::nullopt);
    EXPECT_EQ(m.steps.at(0).memory_peak_bytes, 5e9);
}

TEST(MeasuredFile, BothHalfPrecisionsAreTimedAsMixed) {
    EXPECT_EQ(precision_of("fp16"), Precision::mixed);
    EXPECT_EQ(precision_of("bf16"), Precision::mixed);
    EXPECT_EQ(precision_of("tf32"), Precision::tf32);
}

// ---- Bad input ----------------------------------------------------------------------
TEST(MeasuredFile, SaysWhichRowAndField) {
    EXPECT_THAT(complaint("{"), HasSubstr("h100.json: not JSON at byte"));
    EXPECT_THAT(complaint(R"({"format": "gx.gpu.measured.9"})"), HasSubstr("format is"));
    EXPECT_THAT(complaint(R"({"format": "gx.gpu.measured.1"})"),
                HasSubstr("'conditions' is missing"));
    EXPECT_THAT(complaint(with_kernel(R"({"kind": "relo", "precision": "fp32"})")),
                HasSubstr("kernels[0]: unknown operation 'relo': did you mean 'relu'?"));
    EXPECT_THAT(complaint(with_kernel(R"({"kind": "relu", "precision": "fp23"})")),
                HasSubstr("kernels[0]: unknown precision 'fp23': did you mean 'fp32'?"));
    EXPECT_THAT(complaint(with_kernel(R"({"kind": "relu", "precision": "fp32", "batch": 0})")),
                HasSubstr("field 'batch' is 0, not from 1"));
    EXPECT_THAT(complaint(with_kernel(R"({"kind": "linear", "precision": "fp32", "batch": 1,
                                         "channels": 1})")),
                HasSubstr("field 'outputs' is missing"));
    EXPECT_THAT(complaint(with_kernel(R"({"kind": "relu", "precision": "fp32", "batch": 1,
                                         "channels": 1, "forward_us": 0})")),
                HasSubstr("field 'forward_us' is not above 0"));
    EXPECT_THAT(complaint(opening + R"(, "copies": [{"way": "device"}]})"),
                HasSubstr("copies[0]: field 'gb_per_s' is missing"));
}

// ---- A property ---------------------------------------------------------------------
RC_GTEST_PROP(MeasuredFile, TimesComeBackAsTheyWereWritten, ()) {
    const int us = *rc::gen::inRange(1, 1'000'000'000);
    const auto m = read_measured(
        with_kernel(R"({"kind": "gelu", "precision": "fp32", "batch": 1, "channels": 1,
                        "forward_us": )" + std::to_string(us) + "}"), "h100.json");
    RC_ASSERT(m.kernels.at(0).forward_us == static_cast<double>(us));
}

}  // namespace
