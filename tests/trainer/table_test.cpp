#include <gx/trainer/table.hpp>

#include <limits>  // NaN

#include <gtest/gtest.h>

#include <support/files.hpp>  // holds
#include <trainer/runs.hpp>   // run

namespace {

using namespace testing_support;

TEST(Tables, OneLineAnEpoch) {
    EXPECT_EQ(gx::epoch_table(run()),
              "epoch   virtual s   images/s   train loss   train %   test loss   test %   "
              "top-5 %\n"
              "    1        0.50        512       2.5000     10.00      2.2500    12.50     "
              "37.50\n"
              "    2        1.00        510       1.5000     60.00      1.2500    62.50     "
              "87.50\n");
}
TEST(Tables, OneLineAComposition) {
    EXPECT_EQ(gx::comparison_table({run(), run("MultiRing<4, fp16>")}),
              "reducer              test accuracy   virtual time   images/s   efficiency   exposed "
              "comm.   "
              "dollars\n"
              "Ring<fp32>                 62.50 %          1.0 s        512       50.0 %          "
              "25.0 %   "
              "  0.125\n"
              "MultiRing<4, fp16>         62.50 %          1.0 s        512       50.0 %          "
              "25.0 %   "
              "  0.125\n");
    gx::RunRecord odd = run();
    odd.scaling_efficiency_pct = std::numeric_limits<double>::quiet_NaN();
    odd.warnings = {"1 of 2 steps were skipped.", "accuracy is at chance."};
    EXPECT_EQ(gx::comparison_table({odd}),
              "reducer      test accuracy   virtual time   images/s   efficiency   exposed comm.   "
              "dollars\n"
              "Ring<fp32>         62.50 %          1.0 s        512      unknown          25.0 %   "
              "  0.125\n"
              "warning: Ring<fp32>: 1 of 2 steps were skipped.\n"
              "warning: Ring<fp32>: accuracy is at chance.\n");
    odd.dollars = 0;  // of threads, which have no price
    EXPECT_TRUE(holds(gx::comparison_table({odd}), "25.0 %         -\n"));
    // of a run resumed by another clock
    odd.seconds = odd.epochs[1].seconds = odd.images_per_second = odd.exposed_communication_pct =
        odd.dollars = odd.scaling_efficiency_pct;
    EXPECT_TRUE(holds(gx::comparison_table({odd}),
                      "Ring<fp32>         62.50 %        unknown    unknown      unknown         "
                      "unknown   unknown\n"));
    EXPECT_TRUE(
        gx::epoch_table(odd).ends_with("\nwarning: 1 of 2 steps were skipped.\n"
                                       "warning: accuracy is at chance.\n"));
    EXPECT_TRUE(holds(gx::epoch_table(odd), "    2     unknown        510       1.5000"));
    EXPECT_EQ(gx::comparison_table({}).find('\n') + 1, gx::comparison_table({}).size());
}

}  // namespace
