#include <gx/scheduler/piecewise_linear.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/scheduler/linear_scaling.hpp>  // LinearScaling
#include <gx/scheduler/warmup.hpp>          // Warmup

namespace {

using namespace gx;
using Points = std::vector<PiecewiseLinear::Point>;

// ---- What the type promises ---------------------------------------------------------------
static_assert(Scheduler<PiecewiseLinear> && Scheduler<LinearScaling<PiecewiseLinear>>);
static_assert(Scheduler<Warmup<PiecewiseLinear>>);

// ---- Cases worked by hand -----------------------------------------------------------------
constexpr float at(Points points, Step steps_per_epoch, Step t) {
    return PiecewiseLinear{{.points = std::move(points), .steps_per_epoch = steps_per_epoch}}.rate(
        t);
}
static_assert(at({{0, 0.25f}}, 5, 0) == 0.25f && at({{0, 0.25f}}, 5, 1'000'000) == 0.25f);
static_assert(at({{0, 1}, {4, 3}}, 2, 0) == 1 && at({{0, 1}, {4, 3}}, 2, 4) == 2);
static_assert(at({{0, 1}, {4, 3}}, 2, 1) == 1.25f, "within an epoch");
static_assert(at({{0, 1}, {4, 3}}, 2, 8) == 3 && at({{0, 1}, {4, 3}}, 2, 9) == 3, "then constant");
static_assert(at({{0, 0}, {0.5, 8}, {1, 0}}, 8, 4) == 8 && at({{0, 0}, {0.5, 8}}, 8, 2) == 4);
static_assert(at({{0, 2}, {2, 0}}, 4, 8) == 0 && at({{0, 2}, {2, 0}}, 4, 7) == 0.25f);

// Of a jump the second rate is in force from its epoch on; the line before it ends at the first.
static_assert(at({{0, 0}, {2, 4}, {2, 1}, {4, 3}}, 4, 7) == 3.5f);
static_assert(at({{0, 0}, {2, 4}, {2, 1}, {4, 3}}, 4, 8) == 1);
static_assert(at({{0, 0}, {2, 4}, {2, 1}, {4, 3}}, 4, 12) == 2);
static_assert(at({{0, 4}, {0, 1}}, 4, 0) == 1, "one at the start has no rate before it");
static_assert(at({{0, 4}, {3, 4}, {3, 1}}, 4, 12) == 1 && at({{0, 4}, {3, 4}, {3, 1}}, 4, 11) == 4);

TEST(PiecewiseLinear, OfLinearScalingNeedsNoJumpWhereTheBatchChanges) {
    const auto scaled = [](int batch) {
        return LinearScaling<PiecewiseLinear>{
            {256, batch, {.points = {{0, 1}, {2, 3}}, .steps_per_epoch = 4}}};
    };
    EXPECT_EQ(scaled(256).rate(4), 2.0f);
    EXPECT_EQ(scaled(128).rate(4), 1.0f);
}
TEST(PiecewiseLinear, OfWarmupCountsEpochsFromTheBeginOfTheRun) {
    const Warmup<PiecewiseLinear> climbs{
        {.climb_steps = 2, .next = {.points = {{0, 1}, {2, 3}}, .steps_per_epoch = 4}}};
    EXPECT_EQ(climbs.rate(0), 0.5f);
    EXPECT_EQ(climbs.rate(1), 1.25f) << "the line's, where the climb ends";
    EXPECT_EQ(climbs.rate(2), 1.5f);
    EXPECT_EQ(climbs.rate(4), 2.0f);
    EXPECT_EQ(climbs.rate(8), 3.0f) << "the last point is at its epoch";
}

// ---- Options ------------------------------------------------------------------------------
static_assert(complete_options<PiecewiseLinear>({}, {.steps_per_epoch = 8}).steps_per_epoch == 8);
static_assert(complete_options<PiecewiseLinear>({.steps_per_epoch = 3}, {.steps_per_epoch = 8})
                  .steps_per_epoch == 3);

std::vector<std::string> findings(Points points, Step steps_per_epoch = 1) {
    std::vector<std::string> found;
    for (const auto sentence : check_options<PiecewiseLinear>(
             {.points = std::move(points), .steps_per_epoch = steps_per_epoch}))
        found.emplace_back(sentence);
    return found;
}
using Sentences = std::vector<std::string>;

TEST(PiecewiseLinear, TakesPointsInOrder) {
    constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
    constexpr double infinity = std::numeric_limits<double>::infinity();
    const Sentences falls{
        "PiecewiseLinear: epochs of points must be finite and must not fall; "
        "two points at one epoch are a jump"};
    EXPECT_EQ(findings({{0, 1}, {2, 1}, {2, 2}, {5, 0}}), Sentences{});
    EXPECT_EQ(findings({{0, 1}, {2, 1}, {1, 2}}), falls);
    EXPECT_EQ(findings({{0, 1}, {infinity, 1}}), falls);
    EXPECT_EQ(findings({{0, 1}, {not_a_number, 1}}), falls);
    EXPECT_EQ(findings({{0.5, 1}}),
              Sentences{"PiecewiseLinear: the first of points must be at epoch 0"});
    EXPECT_EQ(findings({{-1, 1}, {0, 1}}),
              Sentences{"PiecewiseLinear: the first of points must be at epoch 0"});
    EXPECT_EQ(findings({{0, 1}, {2, 1}, {2, 2}, {2, 3}}),
              Sentences{"PiecewiseLinear: at most two points may be at one epoch: the rates before "
                        "and after a jump"});
}
TEST(PiecewiseLinear, TakesFiniteRatesOnly) {
    for (const float bad : {-0.1f, std::nanf(""), std::numeric_limits<float>::infinity()})
        EXPECT_EQ(findings({{0, 1}, {2, bad}}),
                  Sentences{"PiecewiseLinear: rates of points must be at least 0 and finite"});
    EXPECT_EQ(findings({{0, 0}, {2, std::numeric_limits<float>::max()}}), Sentences{});
}
TEST(PiecewiseLinear, ListsEveryBadOptionAtOnce) {
    EXPECT_EQ(findings({}, 0),
              (Sentences{"PiecewiseLinear: points are missing: give at least one, such as "
                         "{0, 0.1}, an epoch and its rate",
                         "PiecewiseLinear: steps_per_epoch must be above 0"}));
    EXPECT_EQ(findings({{1, -1}, {0, 1}}, -1).size(), 4u);
}
TEST(PiecewiseLinearDeathTest, StopsOnABrokenContract) {
    EXPECT_DEATH((PiecewiseLinear{{.steps_per_epoch = 1}}), "points are missing");
}

// ---- Properties -----------------------------------------------------------------------------

/// numpy.interp(x, xp, fp) as NumPy 1.26's arr_interp defines it, for xp that rises: the slope of
/// the interval whose left end is the last at or before x; beyond the last the last one's value.
double interp(double x, const std::vector<double>& xp, const std::vector<double>& fp) {
    std::size_t j = 0;
    while (j + 1 < xp.size() && xp[j + 1] <= x) ++j;
    if (j + 1 == xp.size()) return fp[j];
    return (fp[j + 1] - fp[j]) / (xp[j + 1] - xp[j]) * (x - xp[j]) + fp[j];
}
/// interp() over the part between two jumps that x lies in.
double interp_with_jumps(double x, const Points& points) {
    std::vector<double> xp, fp;
    for (std::size_t i = 0; i < points.size(); ++i) {
        if (i > 0 && points[i].epoch == points[i - 1].epoch) {
            if (points[i].epoch > x) break;
            xp.clear(), fp.clear();
        }
        xp.push_back(points[i].epoch);
        fp.push_back(double{points[i].rate});
    }
    return interp(x, xp, fp);
}
/// At epochs that are multiples of a 16th, or of a third.
Points any_points() {
    const double unit = *rc::gen::element(1.0 / 16, 1.0 / 3, 1.0);
    Points points{{0, static_cast<float>(*rc::gen::inRange(0, 1'000)) / 100}};
    const int more = *rc::gen::inRange(0, 12);
    int at = 0;
    for (int i = 0; i < more; ++i) {
        const bool may_jump = i > 0 && points[points.size() - 2].epoch < points.back().epoch;
        at += *rc::gen::inRange(may_jump ? 0 : 1, 40);
        points.push_back({at * unit, static_cast<float>(*rc::gen::inRange(0, 1'000)) / 100});
    }
    return points;
}
RC_GTEST_PROP(PiecewiseLinear, EqualsNumPysInterp, ()) {
    const Points points = any_points();
    const Step steps_per_epoch = *rc::gen::inRange<Step>(1, 300);
    const PiecewiseLinear schedule{{points, steps_per_epoch}};
    const auto end = static_cast<Step>(points.back().epoch * double(steps_per_epoch)) + 10;
    for (Step t = 0; t <= end; t += 1 + end / 500)
        RC_ASSERT(std::abs(double{schedule.rate(t)} -
                           interp_with_jumps(double(t) / double(steps_per_epoch), points)) <= 1e-6);
}
RC_GTEST_PROP(PiecewiseLinear, StaysBetweenThePointsOnBothSidesAndMeetsThem, ()) {
    const Points points = any_points();
    const Step steps_per_epoch = 48 * *rc::gen::inRange<Step>(1, 5);  // each point is at a step
    const PiecewiseLinear schedule{{points, steps_per_epoch}};
    const auto step_of = [&](const PiecewiseLinear::Point& p) {
        return static_cast<Step>(std::llround(p.epoch * double(steps_per_epoch)));
    };
    for (std::size_t i = 0; i + 1 < points.size(); ++i) {
        const auto [low, high] = std::minmax(points[i].rate, points[i + 1].rate);
        const Step first = step_of(points[i]), last = step_of(points[i + 1]);
        for (Step t = first; t < last; ++t) {
            RC_ASSERT(low <= schedule.rate(t) && schedule.rate(t) <= high);
            // No jump but those of two points: a step is one part of the line.
            const float next = t + 1 < last ? schedule.rate(t + 1) : points[i + 1].rate;
            RC_ASSERT(std::abs(next - schedule.rate(t)) <=
                      double{high - low} / double(last - first) + 1e-5);
        }
        if (first < last) RC_ASSERT(std::abs(schedule.rate(first) - points[i].rate) <= 1e-5);
    }
    RC_ASSERT(schedule.rate(step_of(points.back())) == points.back().rate);
}
/// 40 images, of which the last step of an epoch has fewer than the others.
TEST(PiecewiseLinear, CountsAPartialBatchAsAStep) {
    const Points points{{0, 1}, {1, 0}};
    EXPECT_EQ((PiecewiseLinear{{points, 5}}.rate(4)), 0.2f) << "32 images by 8";
    EXPECT_EQ((PiecewiseLinear{{points, 3}}.rate(2)), static_cast<float>(1 - 2 / 3.0)) << "by 16";
    EXPECT_EQ((PiecewiseLinear{{points, 2}}.rate(1)), 0.5f) << "by 32";
}
RC_GTEST_PROP(PiecewiseLinear, DependsOnProgressInTheDataAlone, ()) {
    const Points points = any_points();
    const Step steps_per_epoch = *rc::gen::inRange<Step>(1, 300);
    const Step smaller_batch = *rc::gen::inRange<Step>(1, 20);
    const PiecewiseLinear one{{points, steps_per_epoch}};
    const PiecewiseLinear other{{points, steps_per_epoch * smaller_batch}};
    for (Step t = 0; t < 100; ++t) RC_ASSERT(one.rate(t) == other.rate(t * smaller_batch));
}

}  // namespace
