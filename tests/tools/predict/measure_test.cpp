#include <tools/predict/measure.hpp>  // first, so the header is seen to stand alone

#include <string>  // sentences

#include <gmock/gmock.h>  // HasSubstr

#include <gx/core/error.hpp>  // Error

namespace {

using namespace gx::tools::predict;
using Kind = Measure::Kind;

Measure of(const char* unit) { return measure_of(unit, "field 'unit': "); }

// ---- Units that published results have ----------------------------------------------
TEST(Measure, TellRatesFromTimes) {
    for (const char* rate : {"img/s", "images/sec", "seq/s", "samples per second", "tokens/s"})
        EXPECT_EQ(of(rate).kind, Kind::rate) << rate;
    EXPECT_TRUE(of("tokens/s").tokens);
    EXPECT_FALSE(of("img/s").tokens);
    EXPECT_TRUE(of("img/s per GPU").per_gpu);
    EXPECT_EQ(of("img/min").seconds, 60);

    EXPECT_EQ(of("s/iteration").kind, Kind::step_time);
    EXPECT_EQ(of("ms per step (median)").kind, Kind::step_time);
    EXPECT_EQ(of("ms").kind, Kind::step_time);
    EXPECT_EQ(of("ms per step").seconds, 1e-3);

    EXPECT_EQ(of("s/epoch").kind, Kind::job_time);
    EXPECT_EQ(of("h for 90 epochs").kind, Kind::job_time);
    EXPECT_EQ(of("h for 90 epochs").epochs, 90);
    EXPECT_EQ(of("h for 90 epochs").seconds, 3600);
    EXPECT_EQ(of("min to train").epochs, 1);
    EXPECT_EQ(of("% of 8-GPU rate").kind, Kind::share);
}
TEST(Measure, OtherWordsForTheSame) {
    for (const char* rate : {"fps", "FPS", "imgs/sec total", "frames/s", "qps"})
        EXPECT_EQ(of(rate), of("img/s")) << rate;
    EXPECT_EQ(of("wps"), of("tokens/s"));
    EXPECT_EQ(of("k img/s").seconds, 1e-3);
    EXPECT_EQ(of("ktokens/s").seconds, 1e-3);
    EXPECT_EQ(of("kg/s").seconds, 1);
    EXPECT_TRUE(of("img/s per node").per_node);
    for (const char* each : {"img/s/GPU", "img/s per V100", "images/s on each GPU", "img/s a GPU",
                             "fps/GPU", "TPS per GPU"})
        EXPECT_TRUE(of(each).per_gpu && !of(each).per_node) << each;
    for (const char* each :
         {"img/s/node", "img/s per machine", "images/s (per server)", "wps per node"})
        EXPECT_TRUE(of(each).per_node && !of(each).per_gpu) << each;
    for (const char* all : {"img/s, 8 GPUs", "img/s on 8 GPUs", "images/s (16 nodes)",
                            "img/s, 2 machines", "img/s per 8 GPUs"})
        EXPECT_EQ(of(all), of("img/s")) << all;
    for (const char* step : {"s", "sec", "s/it", "step time (s)", "iteration time, s"})
        EXPECT_EQ(of(step), of("s/iteration")) << step;
    EXPECT_EQ(of("epoch time (s)"), of("s/epoch"));
    EXPECT_EQ(of("epoch time [min]"), of("min/epoch"));
    for (const char* rate :
         {"it/s", "its/s", "iterations/s", "steps/sec", "batches per second", "k steps/s"})
        EXPECT_EQ(of(rate).kind, Kind::step_rate) << rate;
    for (const char* share : {"efficiency", "scaling efficiency"})
        EXPECT_EQ(of(share).kind, Kind::share) << share;
    for (const char* relative : {"x", "speedup", "times", "TFLOP/s", "epochs/h", "runs/h",
                                 "runs per day", "jobs/day", "training runs/h"})
        EXPECT_TRUE(of(relative).relative) << relative;
    EXPECT_FALSE(of("records/s").relative);
    EXPECT_TRUE(of("TFLOP/s per GPU").per_gpu);
}

// ---- Bad inputs ---------------------------------------------------------------------
std::string refusal(const char* unit) {
    try {
        (void)of(unit);
    } catch (const gx::Error& e) {
        return e.what();
    }
    return "no error";
}
/// Each was read as the time of a step or of a job.
TEST(Measure, TimesOfExamplesAndOfSeveralStepsAreRefused) {
    for (const std::string unit :
         {"ms/image", "us/img", "s/image", "ms per sample", "s / sequence", "ms per training image",
          "ms/token", "time per image (ms)", "s/img, batch 64", "ms (per image)", "ms/query",
          "ms/patch", "ms per data point", "ms [per frame]", "ms/step/image", "ms for one image",
          "s for 1 image", "ms for an image"})
        EXPECT_THAT(refusal(unit.c_str()),
                    testing::StartsWith("field 'unit': unit '" + unit +
                                        "' is a time of one example: give a rate, in img/s"));
    for (const std::string unit : {"s/100 it",
                                   "seconds per 100 steps",
                                   "s/1,000 iterations",
                                   "s/100it",
                                   "s per 1k steps",
                                   "s for 100 iterations",
                                   "s per thousand steps",
                                   "time per 100 iterations (s)",
                                   "s/1000 images",
                                   "s/100",
                                   "s/k steps",
                                   "s/ten steps",
                                   "s/dozen steps",
                                   "s/ksteps",
                                   "ms (100 steps)",
                                   "ms (for 100 steps)",
                                   "s (total of 100 steps)",
                                   "s/M tokens",
                                   "s/100 training steps",
                                   "days for 300 billion tokens",
                                   "days for 300B tokens",
                                   "days (300B tokens)",
                                   "h for 1 million images",
                                   "ms, 100 steps",
                                   "ms, 1,000 iterations",
                                   "s of 5 steps",
                                   "s in 5 steps",
                                   "s over 5 steps",
                                   "s x 5 steps",
                                   "s, five steps",
                                   "s for the first 5 iterations",
                                   "s taken by 5 steps"})
        EXPECT_THAT(refusal(unit.c_str()),
                    testing::StartsWith("field 'unit': unit '" + unit +
                                        "' is a time of several steps or examples: give that of "
                                        "one step"));
    for (const std::string unit : {"h for ten epochs", "min per hundred epochs"})
        EXPECT_THAT(refusal(unit.c_str()),
                    testing::StartsWith("field 'unit': unit '" + unit +
                                        "' has its number of epochs in words"));
    EXPECT_THAT(refusal("min for ninety epochs"), testing::HasSubstr("epochs in words"));
    for (const char* unit : {"min for epochs 1 to 90", "h for 60-90 epochs", "h for 1,00 epochs"})
        EXPECT_THAT(refusal(unit), testing::HasSubstr("does not state how many epochs")) << unit;
    for (const char* unit : {"h for 1,000 epochs", "h for 1000 epochs", "h for 1000.0 epochs",
                             "h (1000 ImageNet epochs)", "h for 1000-epoch training"})
        EXPECT_EQ(of(unit).epochs, 1000) << unit;
    EXPECT_EQ(of("h for 2.5 epochs").epochs, 2.5);
    EXPECT_EQ(of("ms average over 100 iterations"), of("ms"));
    EXPECT_EQ(of("ms of a step"), of("ms"));
    EXPECT_EQ(of("s, step of two GPUs"), of("s/iteration"));
    EXPECT_EQ(of("s/epoch, ten workers"), of("s/epoch"));
    for (const char* step :
         {"s/iteration of 64 images", "s per batch of 32 images", "s per 1 step",
          "s/step, mean of 100 steps", "s per mini-batch (8 samples)", "s (mean of 100 steps)",
          "s/it (64 images)", "s (3 runs)", "s/forward"})
        EXPECT_EQ(of(step), of("s/iteration")) << step;
    EXPECT_EQ(of("h per ImageNet epoch"), of("h/epoch"));
    EXPECT_EQ(of("h per 90 epochs"), of("h for 90 epochs"));
    EXPECT_EQ(of("h (8 GPUs)"), of("h"));
    EXPECT_EQ(of("h for two nodes"), of("h"));
    EXPECT_EQ(of("s/epoch (5004 iterations)"), of("s/epoch"));
}
/// Each was read as a rate of single ones.
TEST(Measure, RatesInOtherMultiplesAreRefused) {
    for (const std::string unit : {"thousand images/s",
                                   "thousands of images per second",
                                   "10^3 img/s",
                                   "1000 img/s",
                                   "1e3 img/s",
                                   "million tokens/day",
                                   "billion tokens/day",
                                   "B tokens/day",
                                   "100 it/s",
                                   "kilo-images/s",
                                   "Gtokens/s",
                                   "G tokens/s",
                                   "dozens of images/s",
                                   "tens of images/s",
                                   "1k img/s",
                                   "total k img/s",
                                   "images (thousands)/s",
                                   "images (k)/s",
                                   "img/s (thousands)",
                                   "tokens per second (millions)",
                                   "img/s (x1000)",
                                   "img/s x1000",
                                   "images/s * 1e3",
                                   "img/s [k]",
                                   "img/s (in thousands)",
                                   "images/s [10^3 images/s]",
                                   "img/s, thousands",
                                   "img/s in thousands",
                                   "img/s x 1000",
                                   "img/s / 1000",
                                   "x 1000 img/s",
                                   "times 1000 img/s"})
        EXPECT_THAT(refusal(unit.c_str()),
                    testing::StartsWith("field 'unit': unit '" + unit +
                                        "' counts in multiples: write img/s"));
    for (const char* bytes : {"MB/s", "Gbit/s", "GB per second"})
        EXPECT_THAT(refusal(bytes), testing::HasSubstr("' is a rate of bytes: give one of"));
    for (const char* rate : {"img/s, 2 x XE9680", "img/s (k = 3)", "img/s, 8 x NDR 400"})
        EXPECT_EQ(of(rate), of("img/s")) << rate;
    EXPECT_EQ(of("k steps/s").seconds, 1e-3);
    EXPECT_EQ(of("M tokens/s").seconds, 1e-6);
    for (const std::string counted :
         {"img", "images", "samples", "examples", "ex", "frames", "sentences", "records",
          "pictures", "queries", "requests", "patches", "training images", "batches"}) {
        EXPECT_EQ(of(("k " + counted + "/s").c_str()).seconds, 1e-3) << counted;
        EXPECT_EQ(of(("M " + counted + " per second").c_str()).seconds, 1e-6) << counted;
    }
    for (const char* rate : {"ktok/s", "k tok/s", "ktokens/s"})
        EXPECT_EQ(of(rate), of("k tokens/s")) << rate;
    EXPECT_EQ(of("Mtok/s"), of("M tokens/s"));
    EXPECT_EQ(of("tok/s"), of("tokens/s"));
    EXPECT_FALSE(of("img/s in Tokyo").tokens);
    EXPECT_EQ(of("mini-batches/s"), of("batches/s"));
    EXPECT_EQ(of("tokens of a 345 M model/s"), of("tokens/s"));
    for (const char* rate : {"total img/s", "training images/s", "224 px images/s"})
        EXPECT_EQ(of(rate), of("img/s")) << rate;
}
/// Each but the last group was read as a rate of one GPU or node, or the reverse.
TEST(Measure, ARateIsPerGpuByWhatFollowsIt) {
    for (const char* all :
         {"img/s, batch 64 per GPU", "img/s (64 per GPU)", "img/s at 64 per GPU",
          "img/s, 8 GPUs per node", "img/s, 8 GPUs/node", "img/s, one GPU per process",
          "img/s of a GPU cluster", "img/s, sum of every GPU", "img/s, every GPU busy",
          "img/s (1 process per GPU)", "img/s, batch of 64 on each GPU", "img/s, not per GPU",
          "img/s, 2 nodes of 8 GPUs each", "img/s (batch 64/GPU)", "img/s, one node of 8"})
        EXPECT_EQ(of(all), of("img/s")) << all;
    for (const char* each : {"img/s per worker",
                             "img/s/rank",
                             "img/s per process",
                             "img/s per replica",
                             "img/s per NVIDIA V100",
                             "img/s per Tesla V100",
                             "img/s per RTX 3090",
                             "img/s per single GPU",
                             "img/s per A10G",
                             "img/s per T4",
                             "img/s each",
                             "per-GPU img/s",
                             "img/s (per GPU)",
                             "img/s [per V100]",
                             "img/GPU/s",
                             "img per GPU per second",
                             "img/s per GPU, batch 64 per GPU",
                             "img/s, per GPU",
                             "img/s per V100-SXM2-16GB",
                             "img/s on each of the GPUs"})
        EXPECT_TRUE(of(each).per_gpu && !of(each).per_node) << each;
    for (const char* each : {"img/s per instance", "img/s per VM", "img/s/box", "img/s per DGX-1",
                             "img/s per p3.16xlarge", "img/s per 8-GPU node", "img/s (per host)",
                             "img/s per GPU server"})
        EXPECT_TRUE(of(each).per_node && !of(each).per_gpu) << each;
    for (const std::string unit :
         {"img/s per rack", "img/s/furlong", "img/s each way", "img/s (per socket)",
          "img/s, mean per socket", "img/s per GPU per node", "fps/rack", "TFLOP/s per rack",
          "img/rack/s", "per-rack img/s"})
        EXPECT_THAT(refusal(unit.c_str()),
                    testing::AllOf(testing::StartsWith("field 'unit': unit '" + unit + "' has '"),
                                   testing::HasSubstr("not known what it is: write img/s")));
}
TEST(Measure, AUnitIsRelativeOnlyWhereItBeginsSo) {
    for (const char* rate : {"img/s (speedup 7.9)", "img/s, scaling efficiency 90 %",
                             "img/s at 100 GFLOP", "xla img/s"})
        EXPECT_EQ(of(rate), of("img/s")) << rate;
    EXPECT_EQ(of("ms per step (speedup 2x)"), of("ms"));
    EXPECT_TRUE(of("images/s/node, 8 flops").per_node);
    for (const char* unit : {"timesteps/s", "times/s"})
        EXPECT_THAT(refusal(unit), testing::HasSubstr("unknown unit")) << unit;
    for (const char* relative : {"x faster", "times", "relative speedup", "peak TFLOP/s"})
        EXPECT_TRUE(of(relative).relative) << relative;
}
TEST(Measure, RefuseWhatSaysNothing) {
    for (const char* unit : {"", "parsecs", "fit", "GB", "img/fortnight"}) {
        try {
            (void)of(unit);
            FAIL() << "'" << unit << "' was taken";
        } catch (const gx::Error& e) {
            EXPECT_THAT(e.what(), testing::StartsWith("field 'unit': "));
            EXPECT_THAT(e.what(), testing::HasSubstr("img/s"));
        }
    }
}

}  // namespace
