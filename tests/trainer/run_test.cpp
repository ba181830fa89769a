// The start of a run, without a Trainer: schedules, checks, terms, the plan of survivors.
#include <gtest/gtest.h>

#include <new>
#include <string>
#include <vector>

#include <gx/io/build_id.hpp>
#include <gx/loader/synthetic.hpp>
#include <gx/model/lenet.hpp>
#include <gx/scheduler/constant.hpp>
#include <gx/scheduler/poly.hpp>
#include <gx/scheduler/warmup.hpp>
#include <gx/trainer/run.hpp>

#include <support/files.hpp>  // error_of, holds

namespace {

using gx::Plan;
using gx::Problems;
using gx::detail::trainer::RunComposition;
using gx::detail::trainer::RunOptions;
using gx::detail::trainer::RunWorld;
using gx::detail::trainer::schedule_of;
using gx::detail::trainer::start_run;

using Curve = gx::Warmup<gx::Poly<2>>;

const gx::Split& images() {
    static const gx::Split split =
        gx::synthetic({.shape = {1, 28, 28}, .classes = 10, .train_count = 100, .test_count = 20});
    return split;
}
gx::Sources sources() { return {images().train, images().test}; }

RunComposition composition() {
    return {.name = "Trainer<LeNet, ...>",
            .reducer = "Ring<fp32>",
            .model = gx::LeNet::name,
            .graph = &gx::graph<gx::LeNet>,
            .trouble = &gx::trouble<gx::LeNet>,
            .schedule = [](const Plan& plan) { return schedule_of<Curve>({}, plan); },
            .check_policies = [](Problems&, int) {}};
}

TEST(Schedule, HasTheRatesOfItsScheduler) {
    const Plan plan{.total_steps = 50, .steps_per_epoch = 10, .ranks = 4, .global_batch = 128};
    const Curve curve(gx::complete_options<Curve>({}, plan));
    const auto schedule = schedule_of<Curve>({}, plan);
    ASSERT_TRUE(schedule.findings.empty());
    const auto rate = schedule.make();
    for (gx::Step t = 0; t < plan.total_steps; ++t) EXPECT_EQ(rate(t), curve.rate(t));
}
TEST(Schedule, OfWrongOptionsHasFindingsAndNoRates) {
    const auto schedule = schedule_of<gx::Constant>({.peak_rate = -1}, Plan{});
    EXPECT_FALSE(schedule.findings.empty());
    EXPECT_FALSE(schedule.make);
}

TEST(Run, StartsWithPlanPhasesAndTimetable) {
    const RunOptions options{.batch = 8, .epochs = 3};
    const RunWorld world{.ranks = 4, .first_local_rank = 2};
    const auto run = start_run(composition(), options, sources(), world);
    EXPECT_EQ(run.plan, (Plan{.total_steps = 12,
                              .steps_per_epoch = 4,
                              .ranks = 4,
                              .global_batch = 32}));  // 100 images: 3 steps of 32, one of 4
    ASSERT_EQ(run.phases.size(), 1u);
    EXPECT_EQ(run.graph().input, (gx::ImageShape{1, 28, 28}));
    EXPECT_EQ(run.timetable.steps_per_epoch(0), 4);
    EXPECT_EQ(run.rates.size(), 1u);
    EXPECT_EQ(run.first_local_rank, 2);
    EXPECT_FALSE(run.resume);
}
TEST(Run, HasAScheduleForTheBatchOfEachPhase) {
    std::vector<int> batches;
    RunComposition r = composition();
    r.schedule = [&](const Plan& plan) {
        batches.push_back(plan.global_batch);
        return schedule_of<Curve>({}, plan);
    };
    RunOptions options{.batch = 8, .epochs = 3};
    options.phases = {{0, 4, 28}, {1, 10, 28}};
    const auto run = start_run(r, options, sources(), {.ranks = 2});
    EXPECT_EQ(batches, (std::vector<int>{8, 20}));
    EXPECT_EQ(run.timetable.steps_per_epoch(0), 13);
    EXPECT_EQ(run.timetable.steps_per_epoch(1), 5);
}
TEST(Run, WarnsOfPhasesThatNeverBegin) {
    const auto warnings = [](int first_epoch) {
        RunOptions options{.batch = 8, .epochs = 3};
        options.phases = {{0, 4, 28}, {first_epoch, 10, 28}};
        return start_run(composition(), options, sources(), {.ranks = 2}).warnings;
    };
    EXPECT_TRUE(warnings(2).empty());
    EXPECT_EQ(warnings(3), std::vector<std::string>{
                               "phase 2 never begins: it is from epoch 3 on, counted from 0, and "
                               "the run has 3. Let it begin earlier, or train longer."});
}
TEST(Run, WarnsOfAWarmupThatItDoesNotEnd) {
    RunComposition r = composition();
    gx::Step climb = 0;
    r.schedule = [&](const Plan& plan) {
        return schedule_of<Curve>({.climb_steps = climb, .next = {.total_steps = 20}}, plan);
    };
    const auto warnings = [&](gx::Step steps) {
        climb = steps;
        return start_run(r, {.batch = 8, .epochs = 3}, sources(), {.ranks = 4}).warnings;
    };
    EXPECT_TRUE(warnings(11).empty()) << "the last of 12 steps is at the peak";
    ASSERT_EQ(warnings(13).size(), 1u);
    EXPECT_EQ(warnings(24)[0],
              "the learning rate still rises at the last of 12 steps, to 0.05: a warm-up is to end "
              "before the run does. Let it end earlier ('climb_steps' of Warmup, 'points' of "
              "PiecewiseLinear), or train longer.");
}
TEST(Run, NotesABatchThatIsLargerThanTheTrainingSet) {
    const auto notes = [](int batch) {
        const RunWorld world{.ranks = 4};
        const RunOptions o{.batch = batch, .epochs = 1};
        return record_of(start_run(composition(), o, sources(), world), world).notes;
    };
    const auto images = sources().train.count();
    EXPECT_TRUE(notes(int(images) / 4).empty()) << "a step takes all, and as many";
    const std::vector<std::string> found = notes(int(images));
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0], "Every step takes all " + std::to_string(images) +
                            " training images: batch " + std::to_string(images) +
                            " on 4 ranks is " + std::to_string(4 * images) + ".");
}
TEST(Run, ThatIsWrongListsTheProblemsOfOptionsSchedulesAndPolicies) {
    RunComposition r = composition();
    r.schedule = [](const Plan& plan) {
        return schedule_of<gx::Constant>({.peak_rate = -1}, plan);
    };
    r.check_policies = [](Problems& problems, int ranks) {
        problems.add("a policy is wrong on " + std::to_string(ranks) + " ranks");
    };
    r.loads_any_source = false;
    const std::string error = testing_support::error_of(
        [&] { (void)start_run(r, {.batch = 8, .epochs = 0}, sources(), {.ranks = 2}); });
    EXPECT_TRUE(testing_support::holds(error, "this run can't start", "epochs is 0",
                                       "Constant:", "a policy is wrong on 2 ranks"));
    EXPECT_EQ(error.find("in memory only"), std::string::npos) << "the data is in memory";
}
/// Its table does not fit, as that of a long plan may not.
struct Table {
    struct Options {};
    explicit Table(Options) { throw std::bad_alloc(); }
    [[nodiscard]] float rate(gx::Step) const { return 0; }
};
TEST(Run, ListsItsProblemsBeforeItMakesAScheduler) {
    RunComposition r = composition();
    r.schedule = [](const Plan& plan) { return schedule_of<Table>({}, plan); };
    const auto error = [&](int epochs) {
        return testing_support::error_of(
            [&] { (void)start_run(r, {.batch = 8, .epochs = epochs}, sources(), {.ranks = 2}); });
    };
    EXPECT_TRUE(testing_support::holds(error(0), "this run can't start", "epochs is 0"));
    EXPECT_TRUE(testing_support::holds(error(1), "rank 0: there is not enough memory"));
}
TEST(Run, TakesPixelsOnDevicesThatDo) {
    const RunOptions options{.batch = 8, .epochs = 1, .pixels = true};
    EXPECT_TRUE(testing_support::holds(testing_support::error_of([&] {
                                           (void)start_run(composition(), options, sources(),
                                                           {.device = "Mine", .ranks = 2});
                                       }),
                                       "pixels is true, and Mine takes normalised floats only"));
    EXPECT_NO_THROW(
        (void)start_run(composition(), options, sources(), {.ranks = 2, .takes_pixels = true}));
}

TEST(RunTerms, DifferWhereAnOptionThatChangesTheTrajectoryDoes) {
    const auto terms = [](const RunComposition& r, const RunOptions& o) {
        return gx::detail::trainer::terms_of(start_run(r, o, sources(), {.ranks = 2}), 2);
    };
    const RunOptions options{.batch = 8, .epochs = 1};
    EXPECT_EQ(terms(composition(), options), terms(composition(), options));
    RunComposition other = composition();
    other.choices = {{"optimizer.momentum", "0.8"}};
    EXPECT_NE(terms(other, options), terms(composition(), options));
    RunOptions more = options;
    more.batch = 4;
    EXPECT_NE(terms(composition(), more), terms(composition(), options));
    RunOptions silent = options;  // what has no effect on the weights
    silent.trace_steps = 7;
    EXPECT_EQ(terms(composition(), silent), terms(composition(), options));
    EXPECT_TRUE(testing_support::holds(
        terms(composition(), options).options,
        "\nprogram (its build id; copy one build to all machines)=" + gx::build_id() + "\n"));
}

TEST(Run, IsPlannedAnewForSurvivors) {
    auto run = start_run(composition(), {.batch = 8, .epochs = 3}, sources(), {.ranks = 4});
    plan_for_survivors(run, {.ranks = 3, .first_local_rank = 1}, std::chrono::seconds(2));
    EXPECT_EQ(run.plan.steps_per_epoch, 5);  // 100 images in steps of 24
    EXPECT_EQ(run.timetable.steps_per_epoch(0), 5);
    EXPECT_EQ(run.restart_time, std::chrono::seconds(2));
    EXPECT_EQ(run.first_local_rank, 1);
}

// ---- Members of the worlds of a run -------------------------------------------------------
// Steps that are made again are written by fewer ranks than the first time.
TEST(Run, ACheckpointThatIsWrittenAgainHasTheMembersOfItsLastWorld) {
    using Ranks = std::vector<int>;
    gx::detail::trainer::Membership members(4);
    EXPECT_EQ(members.shrink({1, 2, 3}), (Ranks{0}));
    EXPECT_EQ(members.go_back_to(10), (Ranks{0, 1, 2, 3}));
    EXPECT_EQ(members.shrink({0, 2}), (Ranks{2}));
    EXPECT_EQ(members.go_back_to(10), (Ranks{0, 1, 2, 3})) << "nothing was written since";
    EXPECT_EQ(members.shrink({1}), (Ranks{1}));
    EXPECT_EQ(members.go_back_to(15), (Ranks{1, 3}));
    EXPECT_EQ(members.go_back_to(20), (Ranks{3}));
    EXPECT_EQ(members.go_back_to(11), (Ranks{1, 3})) << "newer ones are torn";
    EXPECT_EQ(members.go_back_to(4), (Ranks{0, 1, 2, 3}));
    EXPECT_EQ(members.go_back_to(0), (Ranks{0, 1, 2, 3}));
    EXPECT_EQ(members.go_back_to(2), (Ranks{3}));
}
TEST(Run, MembersGetTheirOwnStateOfACheckpoint) {
    using States = std::vector<std::vector<float>>;
    gx::Checkpoint c;
    c.reducer = {{.name = "residual", .ranks = {{0}, {10}, {20}, {30}}},
                 {.name = "scale", .replicated = true, .ranks = {{7}}}};
    gx::detail::trainer::keep_members(c, {0, 1, 2, 3}, {0, 2, 3});
    EXPECT_EQ(c.reducer[0].ranks, (States{{0}, {20}, {30}}));
    EXPECT_EQ(c.reducer[1].ranks, (States{{7}}));
    gx::detail::trainer::keep_members(c, {0, 2, 3}, {3});  // by their numbers in the first world
    EXPECT_EQ(c.reducer[0].ranks, (States{{30}}));
}
TEST(Run, WhatARootHasWrittenIsOneNumber) {
    using gx::detail::trainer::Written;
    for (const Written w : {Written{}, Written{3}, Written{0, {7, 0}}, Written{300, {7, 45}},
                            Written{4'000'000, {8'000'000'000, 3'999'999}}}) {
        const Written back = Written::from(w.number());
        EXPECT_EQ(back.epochs, w.epochs);
        EXPECT_EQ(back.within.step, w.within.step);
        EXPECT_EQ(back.within.epochs, w.within.epochs);
    }
    const Written old = Written::from(Written{300, {7, 44}}.number());  // epochs are newer
    EXPECT_EQ(old.epochs, 300);
    EXPECT_EQ(old.within.step, 0);
}

}  // namespace
