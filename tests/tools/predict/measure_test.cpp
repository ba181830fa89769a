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
    for (const char* step : {"s", "sec", "s/it", "step time (s)", "iteration time, s"})
        EXPECT_EQ(of(step), of("s/iteration")) << step;
    EXPECT_EQ(of("epoch time (s)"), of("s/epoch"));
    EXPECT_EQ(of("epoch time [min]"), of("min/epoch"));
    for (const char* rate : {"it/s", "iterations/s", "steps/sec", "batches per second"})
        EXPECT_EQ(of(rate).kind, Kind::step_rate) << rate;
    for (const char* share : {"efficiency", "scaling efficiency"})
        EXPECT_EQ(of(share).kind, Kind::share) << share;
    for (const char* relative : {"x", "speedup", "times", "TFLOP/s", "epochs/h"})
        EXPECT_TRUE(of(relative).relative) << relative;
    EXPECT_TRUE(of("TFLOP/s per GPU").per_gpu);
}

// ---- Bad inputs ---------------------------------------------------------------------
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
