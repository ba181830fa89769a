#include <tools/predict/fit.hpp>  // first, so the header is seen to stand alone

#include <algorithm>  // max
#include <cmath>      // abs, ceil
#include <set>        // members
#include <string>     // text
#include <vector>     // cases

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>  // properties

#include <gx/core/rng.hpp>      // Rng
#include <tools/published.hpp>  // published_text

namespace {

using namespace gx::tools::predict;

const std::vector<Case>& published() {
    static const auto cases = read_cases(gx::tools::published_text(), "cases.json");
    return cases;
}

/// The published cases as if what a calibration predicts had been measured.
std::vector<Case> as_predicted_by(const Calibration& k) {
    std::vector<Case> cases = published();
    Predictor predict(k);
    for (Case& c : cases)
        for (const PredictedPoint& q : predict(c).points) {
            Point& t = c.points[static_cast<std::size_t>(q.index)];
            t.published = q.value;
            t.published_efficiency_pct = q.efficiency_pct;
        }
    return cases;
}

// ---- What the type promises ---------------------------------------------------------
TEST(Fit, KnobsAreDistinctMembersAndExpectedWithinReach) {
    Calibration k = calibrated();
    std::set<double*> seen;
    for (const Knob& n : knobs()) {
        EXPECT_TRUE(seen.insert(&n.in(k)).second) << n.name;
        EXPECT_GT(n.spread, 0) << n.name;
        EXPECT_GE(n.expected, 0) << n.name;
    }
}

// ---- Cases worked by hand -----------------------------------------------------------
TEST(Fit, WithoutCasesGivesThePriors) {
    Calibration k = Fitter({}).fit(2);
    for (const Knob& n : knobs()) EXPECT_EQ(n.in(k), n.expected) << n.name;
}
TEST(Fit, ComesBackToConstantsThatWerePlanted) {
    Calibration planted = calibrated();
    planted.pytorch.step_ms = 12;
    planted.tensorflow.machines_ms = 28;
    planted.mxnet.interference = 0.5;
    planted.tcp_share = 0.7;
    const auto cases = as_predicted_by(planted);
    const Calibration found = Fitter(fitted_cases(cases), 1).fit(0.01);
    EXPECT_LT(score(cases, found).several_machines.mae(), 0.25);
    EXPECT_GT(score(cases).several_machines.mae(), 0.5);
    EXPECT_NEAR(found.pytorch.step_ms, 12, 1.5);
    EXPECT_NEAR(found.tensorflow.machines_ms, 28, 3);
}
/// A fit on a subset is the fit of a Fitter that has seen nothing else.
TEST(Fit, CasesThatAreLeftOutChangeNothing) {
    const auto all = fitted_cases(published());
    std::vector<const Case*> some;
    std::vector<bool> used;
    for (const Case* c : all) {
        used.push_back(c->group.starts_with("D.") || c->group.starts_with("E."));
        if (used.back()) some.push_back(c);
    }
    Calibration left = Fitter(all).fit(2, used), alone = Fitter(some).fit(2);
    for (const Knob& n : knobs()) EXPECT_EQ(n.in(left), n.in(alone)) << n.name;
}

// ---- What was published -------------------------------------------------------------
TEST(Fit, TheConstantsInForceAreThoseThatAreFound) {
    Calibration found = Fitter(fitted_cases(published())).fit(2), held = calibrated();
    for (const Knob& n : knobs()) EXPECT_NEAR(n.in(found), n.in(held), 0.1 * n.spread) << n.name;
}
/// Three groups of the file, each predicted by constants and a firmness that the others give.
TEST(HoldOut, GroupsAreNearerThanAFormula) {
    std::vector<Case> some;
    for (const Case& c : published())
        if (c.group.starts_with("D.") || c.group.starts_with("E.") || c.group.starts_with("F."))
            some.push_back(c);
    const HeldOut h = hold_out(some, &Case::group);
    EXPECT_EQ(h.firmness.size(), 3u);
    EXPECT_EQ(h.score.groups.size(), 3u);
    EXPECT_GE(h.score.several_machines.points, 33);
    EXPECT_LT(h.score.several_machines.mae(), h.score.several_machines.formula_mae());
}
/// What is chosen for a fold does not depend on the values of the fold.
TEST(HoldOut, AFoldChoosesNothingOfItsOwn) {
    std::vector<Case> some;
    for (const Case& c : published())
        if (c.group.starts_with("D.") || c.group.starts_with("E.") || c.group.starts_with("F."))
            some.push_back(c);
    const HeldOut before = hold_out(some, &Case::group);
    for (Case& c : some)
        if (c.group.starts_with("E."))
            for (Point& p : c.points) {
                if (p.published) *p.published *= 0.5;
                if (p.published_efficiency_pct) *p.published_efficiency_pct *= 0.5;
            }
    const HeldOut after = hold_out(some, &Case::group);
    for (const auto& [name, firmness] : before.firmness)
        if (name.starts_with("E.")) {
            EXPECT_EQ(after.firmness.at(name), firmness);
            for (std::size_t i = 0; i < before.score.points.size(); ++i) {
                const ScoredPoint &x = before.score.points[i], &y = after.score.points[i];
                if (x.group != name) continue;
                EXPECT_EQ(x.predicted_pct, y.predicted_pct);
            }
            const IntervalRule &a = before.rule.at(name), &b = after.rule.at(name);
            EXPECT_EQ(a.lost_share, b.lost_share);
            EXPECT_EQ(a.constants_share, b.constants_share);
            EXPECT_EQ(a.quantile, b.quantile);
        }
    ASSERT_EQ(before.fitted.scaled.size(), after.fitted.scaled.size());
    for (const auto member : {&HeldOut::fitted, &HeldOut::unfitted})
        for (std::size_t i = 0; i < before.fitted.scaled.size(); ++i) {
            const JudgedInterval &x = (before.*member).scaled[i], &y = (after.*member).scaled[i];
            if (x.fold != 1) continue;  // of D, E, F
            EXPECT_EQ(x.interval.low, y.interval.low);
            EXPECT_EQ(x.interval.high, y.interval.high);
        }
}
// ---- Intervals ----------------------------------------------------------------------
/// Errors of predictions at 80 %, each in a fold of its own; `lost` of each.
std::vector<Residual> residuals(const std::vector<double>& errors,
                                const std::vector<double>& lost) {
    std::vector<Residual> all;
    for (std::size_t i = 0; i < errors.size(); ++i)
        all.push_back({.fold = i,
                       .predicted_pct = 80,
                       .published_pct = 80 - errors[i],
                       .uncertainty = {.lost = lost[i]}});
    return all;
}

TEST(Interval, ScoreIsTheWidthAndTenTimesTheMiss) {
    EXPECT_DOUBLE_EQ(interval_score({80, 90}, 85), 10);
    EXPECT_DOUBLE_EQ(interval_score({80, 90}, 92), 10 + 10 * 2);
    EXPECT_DOUBLE_EQ(interval_score({80, 90}, 75), 10 + 10 * 5);
}
TEST(Interval, QuantileOfNineErrorsIsTheEighth) {
    const auto nine = residuals({-9, 8, 1, -2, 3, -4, 5, 6, -7}, std::vector<double>(9));
    EXPECT_DOUBLE_EQ(with_quantile({}, nine).quantile, 8);  // ceil(0.8 * 10)
    EXPECT_DOUBLE_EQ(with_quantile({}, residuals({3, 1}, {0, 0})).quantile, 3);
    // scales sqrt(1 + (0.5 * 6)^2) and sqrt(1 + (0.5 * 4)^2): ratios 6.32 and 2.24
    const IntervalRule half{.lost_share = 0.5};
    EXPECT_DOUBLE_EQ(half.scale({.lost = 6}), std::sqrt(10.0));
    EXPECT_DOUBLE_EQ(with_quantile(half, residuals({20, 5}, {6, 4})).quantile,
                     20 / std::sqrt(10.0));
}
TEST(Interval, BoundsOfATimeAreThoseOfTheRateTurned) {
    PredictedPoint rate{.value = 1000, .unit = "img/s", .efficiency_pct = 80};
    set_interval(rate, {60, 100});
    EXPECT_DOUBLE_EQ(rate.low_value, 750);
    EXPECT_DOUBLE_EQ(rate.high_value, 1250);
    PredictedPoint time{.value = 0.3, .unit = "s/iteration", .efficiency_pct = 80};
    set_interval(time, {60, 100});
    EXPECT_DOUBLE_EQ(time.low_value, 0.24);
    EXPECT_DOUBLE_EQ(time.high_value, 0.4);
}
TEST(Interval, NoBoundMakesATimeInfinite) {
    EXPECT_DOUBLE_EQ((IntervalRule{.quantile = 50}.around(30, {}).low), 3);
    EXPECT_DOUBLE_EQ((IntervalRule{.quantile = 50}.around(30, {}).high), 80);
}
TEST(Interval, SharesFollowWhatTheErrorsDo) {
    std::vector<double> lost, like_lost, unlike;
    const gx::Rng rng(3, "errors");
    for (std::uint64_t i = 0; i < 60; ++i) {
        lost.push_back(i % 2 == 0 ? 1 : 20);
        like_lost.push_back(rng.normal(i) * 0.3 * lost.back());
        unlike.push_back(rng.normal(i) * 3);
    }
    EXPECT_GT(calibrate_intervals(residuals(like_lost, lost)).lost_share, 0);
    EXPECT_EQ(calibrate_intervals(residuals(unlike, lost)).lost_share, 0);
}
TEST(Interval, QualityOfRowsWorkedByHand) {
    const std::vector<JudgedInterval> rows{
        {0, {70, 80}, 75}, {0, {70, 90}, 95}, {1, {50, 54}, 52}, {1, {50, 60}, 60}};
    const IntervalQuality q = quality_of(rows);
    EXPECT_EQ(q.points, 4);
    EXPECT_DOUBLE_EQ(q.covered, 0.75);
    EXPECT_DOUBLE_EQ(q.score, (10 + 20 + 50 + 4 + 10) / 4.0);
    EXPECT_DOUBLE_EQ(q.median_width, 10);
    EXPECT_DOUBLE_EQ(q.least, 0.5);  // both draws the first publication
    EXPECT_DOUBLE_EQ(q.most, 1);
    EXPECT_EQ(quality_of({rows[0], rows[1]}).least, 0.5);  // of one, nothing is drawn
    EXPECT_EQ(quality_of({}).points, 0);
}
/// Conformal: of 99 exchangeable errors and a hundredth, the interval holds 80 of 100 in the mean,
/// whatever their distribution; 1,000 rounds deviate by 0.013, and the bound is four of that.
TEST(Interval, HoldsItsShareOfNewErrors) {
    const gx::Rng rng(1, "rounds");
    int held = 0;
    for (std::uint64_t round = 0; round < 1000; ++round) {
        std::vector<double> errors;
        for (std::uint64_t i = 0; i < 100; ++i) {
            const double x = rng.at(round).normal(i);
            errors.push_back(x * x * x);  // heavy tails
        }
        const double fresh = errors.back();
        errors.pop_back();
        const IntervalRule rule = with_quantile({}, residuals(errors, std::vector<double>(99)));
        held += rule.around(80, {}).holds(80 - fresh) ? 1 : 0;
    }
    EXPECT_NEAR(held / 1000.0, interval_coverage, 0.052);
}
RC_GTEST_PROP(Interval, QuantileHoldsItsShareOfItsOwnErrors, ()) {
    const auto tenths =
        *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(-500, 500)));
    std::vector<double> errors, lost;
    for (const int t : tenths) {
        errors.push_back(t * 0.1);
        lost.push_back(*rc::gen::inRange(0, 25));
    }
    const IntervalRule rule =
        with_quantile({.lost_share = *rc::gen::element(0.0, 0.4)}, residuals(errors, lost));
    double held = 0;
    for (std::size_t i = 0; i < errors.size(); ++i)
        held += std::abs(errors[i]) <= rule.quantile * rule.scale({.lost = lost[i]}) * (1 + 1e-12);
    RC_ASSERT(held >= interval_coverage * static_cast<double>(errors.size()) - 1e-9);
}
TEST(Interval, EveryPredictionHasOne) {
    Predictor predict;
    for (const Case& c : published())
        for (const PredictedPoint& q : predict(c).points) {
            EXPECT_LT(0, q.low_pct) << c.id;
            EXPECT_LT(q.low_pct, q.efficiency_pct) << c.id;
            EXPECT_LT(q.efficiency_pct, q.high_pct) << c.id;
            EXPECT_LT(q.low_value, q.value) << c.id;
            EXPECT_LT(q.value, q.high_value) << c.id;
        }
}
TEST(Interval, SpreadOfConstantsLeavesTheCalibrationAsItWas) {
    Calibration k = calibrated();
    WireTime wire;
    for (const Case& c : published())
        if (c.id == "ray-ddp-fp32") {
            CaseModel model(c, k, wire);
            const auto before = model.points();
            const auto spread = constants_spread(model, k);
            const auto after = model.points();
            ASSERT_EQ(spread.size(), before.size());
            for (std::size_t i = 0; i < before.size(); ++i) {
                EXPECT_EQ(before[i].efficiency_pct, after[i].efficiency_pct);
                EXPECT_GT(spread[i], before[i].machines > 1 ? 0.5 : 0);
            }
        }
}

TEST(Score, AMeasurementOfTwoCasesCountsOnce) {
    const Score s = score(published());
    int repeated = 0;
    for (const ScoredPoint& p : s.points) repeated += p.repeated ? 1 : 0;
    EXPECT_EQ(repeated, 2);  // mlperf-06-dgx2h-32 and mlperf-07-dgxa100-2, again in -96
    EXPECT_EQ(s.several_machines.points, 89);
    std::vector<Case> twice = published();
    twice.insert(twice.end(), published().begin(), published().end());
    EXPECT_EQ(score(twice).several_machines.points, 89);
    EXPECT_EQ(score(twice).several_machines.mae(), s.several_machines.mae());
}

}  // namespace
