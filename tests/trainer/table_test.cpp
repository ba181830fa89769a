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
TEST(Tables, OfARunWithoutATest) {
    gx::RunRecord r = run();
    r.epochs = {{.epoch = 0, .step = 1, .seconds = 0.5, .train_loss = 2.5}};
    EXPECT_TRUE(holds(gx::epoch_table(r), "  0.00           -        -         -\n"));
    EXPECT_TRUE(holds(gx::comparison_table({r}), "Ring<fp32>               -          1.0 s"));
    r.epochs.clear();
    EXPECT_TRUE(holds(gx::comparison_table({r}), "Ring<fp32>               -          1.0 s"));
}
TEST(Tables, ShowShortTimesAndSmallPrices) {
    using gx::detail::table::dollars, gx::detail::table::time;
    EXPECT_EQ(time(0), "0.0 s");
    EXPECT_EQ(time(12.34), "12.3 s");
    EXPECT_EQ(time(0.5), "500 ms");
    EXPECT_EQ(time(0.03125), "31.2 ms");
    EXPECT_EQ(time(7.5e-6), "7.5 us");
    EXPECT_EQ(time(0.9996), "1.0 s");
    EXPECT_EQ(time(0.9994), "999 ms");
    EXPECT_EQ(time(0.9996e-3), "1 ms");
    EXPECT_EQ(time(std::numeric_limits<double>::quiet_NaN()), "unknown");
    EXPECT_EQ(dollars(0.125), "0.125");
    EXPECT_EQ(dollars(0.00159), "0.0016");
    gx::RunRecord r = run();
    r.seconds = r.epochs[1].seconds = 0.03125, r.epochs[0].seconds = 0.0125;
    EXPECT_TRUE(holds(gx::epoch_table(r), "    1    0.012500        512"));
    EXPECT_TRUE(holds(gx::comparison_table({r}), "62.50 %        31.2 ms        512"));
}
TEST(Tables, OfARunResumedByAnotherClockNameNone) {
    gx::RunRecord r = run();
    r.clock = "wall";
    r.seconds = r.epochs[1].seconds = std::numeric_limits<double>::quiet_NaN();
    EXPECT_TRUE(gx::epoch_table(r).starts_with("epoch           s   images/s"));
    r.epochs[0].seconds = 0.0125;  // of the earlier clock
    EXPECT_TRUE(holds(gx::epoch_table(r), "    1    0.012500        512"));
    EXPECT_TRUE(holds(gx::comparison_table({r}), "accuracy           time   images/s"));
    EXPECT_EQ(gx::detail::table::clock_of(std::vector{run(), run()}), "virtual ");
    EXPECT_EQ(gx::detail::table::clock_of(std::vector{run(), r}), "");
    EXPECT_EQ(gx::detail::table::clock_of({}), "");
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

// ---- Names ------------------------------------------------------------------------------

using Names = std::vector<std::string>;

TEST(RunNames, AreTheReducersWhereTheseDiffer) {
    EXPECT_EQ(gx::run_names({run("A"), run("B")}), (Names{"A", "B"}));
    EXPECT_EQ(gx::run_names({run("A")}), Names{"A"});
    EXPECT_TRUE(gx::run_names({}).empty());
}
TEST(RunNames, AddWhatDiffersBetweenRunsOfAReducer) {
    std::vector<gx::RunRecord> runs{run("A"), run("B"), run("A")};
    const auto names_with = [&](auto change) {
        auto changed = runs;
        change(changed[2]);
        return gx::run_names(changed);
    };
    EXPECT_EQ(names_with([](gx::RunRecord& r) { r.ranks = 1; }),
              (Names{"A on 8 ranks", "B", "A on 1 rank"}));
    EXPECT_EQ(names_with([](gx::RunRecord& r) { r.model = "Other"; }),
              (Names{"A, Net", "B", "A, Other"}));
    EXPECT_EQ(names_with([](gx::RunRecord& r) { r.scheduler = "Cosine"; }),
              (Names{"A, Constant", "B", "A, Cosine"}));
    EXPECT_EQ(names_with([](gx::RunRecord& r) { r.optimizer = "Lars"; }),
              (Names{"A, Sgd", "B", "A, Lars"}));
    EXPECT_EQ(names_with([](gx::RunRecord& r) { r.batch_per_rank = 64; }),
              (Names{"A, 32 images a rank", "B", "A, 64 images a rank"}));
    EXPECT_EQ(names_with([](gx::RunRecord& r) { r.epochs_planned = 3; }),
              (Names{"A, epochs: 2", "B", "A, epochs: 3"}));
    EXPECT_EQ(names_with([](gx::RunRecord& r) { r.seed = 6; }),
              (Names{"A, seed 5", "B", "A, seed 6"}));
    EXPECT_EQ(names_with([](gx::RunRecord& r) { r.world = "threads"; }),
              (Names{"A, a world", "B", "A, threads"}));
    EXPECT_EQ(names_with([](gx::RunRecord& r) { r.timed_as = ""; }),
              (Names{"A, timed as ResNet50", "B", "A"}));
    EXPECT_EQ(names_with([](gx::RunRecord& r) { r.composition = "Trainer<...>"; })[2],
              "A, Trainer<...>");
    EXPECT_EQ(names_with([](gx::RunRecord&) {}), (Names{"A, run 1", "B", "A, run 3"}));
}
TEST(RunNames, AddMoreOnlyToThoseThatAreStillEqual) {
    std::vector<gx::RunRecord> runs(4, run("A"));
    runs[2].ranks = 4;
    runs[2].seed = runs[3].seed = 6;
    EXPECT_EQ(gx::run_names({runs[0], runs[2], runs[3]}),
              (Names{"A on 8 ranks, seed 5", "A on 4 ranks", "A on 8 ranks, seed 6"}));
    EXPECT_EQ(gx::run_names(runs),
              (Names{"A on 8 ranks, seed 5, run 1", "A on 8 ranks, seed 5, run 2", "A on 4 ranks",
                     "A on 8 ranks, seed 6"}));
}
TEST(Tables, HaveTheNamesOfRuns) {
    std::vector<gx::RunRecord> runs{run(), run()};
    runs[1].ranks = 4;
    runs[1].clock = "wall";
    runs[1].warnings = {"slow."};
    const std::string text = gx::comparison_table(runs);
    EXPECT_TRUE(text.starts_with("run                     test accuracy           time   "));
    EXPECT_TRUE(holds(text, "\nRing<fp32> on 8 ranks         62.50 %", "\nRing<fp32> on 4 ranks  ",
                      "warning: Ring<fp32> on 4 ranks: slow.\n"));
    EXPECT_TRUE(holds(gx::comparison_table(runs, {"eight", "four"}), "\neight   ", "\nfour   ",
                      "warning: four: slow."));
    EXPECT_DEATH((void)gx::comparison_table(runs, {"one"}), "one for each run");
}

}  // namespace
