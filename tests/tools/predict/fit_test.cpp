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
TEST(Fit, TheConstantsInForceAreThePriors) {
    Calibration prior = priors(), held = calibrated();
    for (const Knob& n : knobs()) {
        EXPECT_EQ(n.in(held), n.expected) << n.name;
        EXPECT_EQ(n.in(prior), n.expected) << n.name;
    }
}
/// A fit brings its own cases nearer, which is not what it is judged by.
TEST(Fit, FindsConstantsThatFitItsOwnCasesBetter) {
    const Calibration found = Fitter(fitted_cases(published())).fit(2);
    EXPECT_LT(score(published(), found).several_machines.mae(), 3.0);
    EXPECT_LT(score(published(), found).one_machine.mae(), 2.0);
    EXPECT_GT(score(published()).several_machines.mae(), 3.5);
}
TEST(Fit, LeavesOutWhatIsHeldOutOrReference) {
    std::vector<Case> cases;
    for (const Case& c : published())
        if (c.scored && c.calibrates() && c.asks()) cases.push_back(c);
    const std::size_t all = fitted_cases(cases).size();
    ASSERT_GT(all, 4u);
    cases[0].split = "held_out";
    cases[1].split = "reference";
    cases[2].scored = false;
    EXPECT_EQ(fitted_cases(cases).size(), all - 3);
    const Score s = score(cases);
    for (const ScoredPoint& p : s.points) {
        const bool held_out = p.id == cases[0].id;
        const bool no = p.id == cases[1].id || p.id == cases[2].id || p.machines == 1 || p.repeated;
        EXPECT_EQ(p.held_out, held_out) << p.id;
        EXPECT_EQ(p.counts(), !no) << p.id << ": what nothing was fitted on counts";
    }
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
            const IntervalRules &a = before.rule.at(name), &b = after.rule.at(name);
            for (std::size_t k = 0; k < kinds_between; ++k) EXPECT_EQ(a.of[k].half, b.of[k].half);
        }
    ASSERT_EQ(before.fitted.by_network.size(), after.fitted.by_network.size());
    for (const auto member : {&HeldOut::fitted, &HeldOut::unfitted})
        for (std::size_t i = 0; i < before.fitted.by_network.size(); ++i) {
            const JudgedInterval &x = (before.*member).by_network[i],
                                 &y = (after.*member).by_network[i];
            if (x.fold != 1) continue;  // of D, E, F
            EXPECT_EQ(x.interval.low, y.interval.low);
            EXPECT_EQ(x.interval.high, y.interval.high);
        }
}
/// Three groups as if priors, or other constants, and normal noise of 4 points had made them: the
/// rule of one standard error fits nothing, or does.
double error_over_unfitted(const Calibration& k) {
    std::vector<Case> some;
    const gx::Rng rng(5, "noise");
    std::uint64_t drawn = 0;
    for (Case& c : as_predicted_by(k))
        if (c.group.starts_with("D.") || c.group.starts_with("E.") || c.group.starts_with("F.")) {
            for (Point& p : c.points)
                if (p.published_efficiency_pct)
                    *p.published_efficiency_pct += 4 * rng.normal(drawn++);
            some.push_back(c);
        }
    return hold_out(some, &Case::group).one_error.mae() /
           score(some, priors()).several_machines.mae();
}
TEST(HoldOut, ByOneErrorNothingIsFittedToNoise) {
    EXPECT_DOUBLE_EQ(error_over_unfitted(priors()), 1);
    Calibration slow = priors();
    for (const Knob& n : knobs())
        if (n.name == "machines_ms") n.in(slow) = 80;
    EXPECT_LT(error_over_unfitted(slow), 0.9);
}
// ---- Intervals ----------------------------------------------------------------------
/// Errors of predictions at 80 %, each in a fold of its own.
std::vector<Residual> residuals(const std::vector<double>& errors) {
    std::vector<Residual> all;
    for (std::size_t i = 0; i < errors.size(); ++i)
        all.push_back({.fold = i, .predicted_pct = 80, .published_pct = 80 - errors[i]});
    return all;
}

TEST(Interval, ScoreIsTheWidthAndTenTimesTheMiss) {
    EXPECT_DOUBLE_EQ(interval_score({80, 90}, 85), 10);
    EXPECT_DOUBLE_EQ(interval_score({80, 90}, 92), 10 + 10 * 2);
    EXPECT_DOUBLE_EQ(interval_score({80, 90}, 75), 10 + 10 * 5);
}
TEST(Interval, QuantileOfNineErrorsIsTheEighth) {
    const auto nine = residuals({-9, 8, 1, -2, 3, -4, 5, 6, -7});
    EXPECT_DOUBLE_EQ(calibrate_intervals(nine).half, 8);  // ceil(0.8 * 10)
    EXPECT_DOUBLE_EQ(calibrate_intervals(residuals({3, 1})).half, 3);
}
TEST(Interval, EndsAPointAboveLinearScaling) {
    const IntervalRule rule{7};
    EXPECT_DOUBLE_EQ(rule.around(90).low, 83);
    EXPECT_DOUBLE_EQ(rule.around(90).high, 97);
    EXPECT_DOUBLE_EQ(rule.around(97).low, 90);
    EXPECT_DOUBLE_EQ(rule.around(97).high, 101);
    EXPECT_DOUBLE_EQ(rule.equally_wide(97).high, 104);
    EXPECT_DOUBLE_EQ(rule.around(104).high, 105) << "a prediction is inside its interval";
}
TEST(Interval, EachNetworkHasTheQuantileOfItsOwnErrors) {
    std::vector<Residual> all;
    for (std::size_t i = 1; i <= 19; ++i) {  // ceil(0.8 * 20) = 16
        const double e = static_cast<double>(i);
        all.push_back({.predicted_pct = 80, .published_pct = 80 - e, .between = Between::rdma});
        all.push_back(
            {.predicted_pct = 80, .published_pct = 80 + 3 * e, .between = Between::sockets});
    }
    const IntervalRules rules = calibrate_by_network(all);
    EXPECT_DOUBLE_EQ(rules[Between::rdma].half, 16);
    EXPECT_DOUBLE_EQ(rules[Between::sockets].half, 48);
    EXPECT_DOUBLE_EQ(rules[Between::links].half, calibrate_intervals(all).half)
        << "none of its own";
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
    EXPECT_DOUBLE_EQ(IntervalRule{50}.around(30).low, 3);
    EXPECT_DOUBLE_EQ(IntervalRule{50}.around(30).high, 80);
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
        const IntervalRule rule = calibrate_intervals(residuals(errors));
        held += rule.equally_wide(80).holds(80 - fresh) ? 1 : 0;
    }
    EXPECT_NEAR(held / 1000.0, interval_coverage, 0.052);
}
RC_GTEST_PROP(Interval, QuantileHoldsItsShareOfItsOwnErrors, ()) {
    const auto tenths =
        *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(-500, 500)));
    std::vector<double> errors;
    for (const int t : tenths) errors.push_back(t * 0.1);
    const IntervalRule rule = calibrate_intervals(residuals(errors));
    double held = 0;
    for (const double e : errors) held += std::abs(e) <= rule.half * (1 + 1e-12);
    RC_ASSERT(held >= interval_coverage * static_cast<double>(errors.size()) - 1e-9);
}
/// Two points of one publication and one of another, of which one interval holds its value.
TEST(Score, JudgesTheIntervalsOfThePointsThatCount) {
    Score s;
    const auto add = [&](const char* source, int machines, double published) {
        s.points.push_back({.source = source,
                            .machines = machines,
                            .published_pct = published,
                            .interval = {70, 90}});
    };
    add("a", 2, 80), add("a", 4, 60), add("b", 2, 91);
    add("b", 1, 80);  // of one machine: does not count
    const IntervalQuality q = intervals_of(s);
    EXPECT_EQ(q.points, 3);
    EXPECT_DOUBLE_EQ(q.covered, 1.0 / 3);
    EXPECT_DOUBLE_EQ(q.least, 0);   // both draws "b"
    EXPECT_DOUBLE_EQ(q.most, 0.5);  // both draws "a"
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
/// 16 GPUs are predicted from 32, the fewest above them: 5,000 / 16 img/s of a GPU are 125 % of
/// 8,000 / 32.
TEST(Score, SwapsTheBaseAndItsSmallestLargerTarget) {
    const auto cases = read_cases(
        R"([{"id": "two machines", "conditions": {"gpu": "V100", "gpus_per_node": 8,
             "nic_gbps_per_node": 25, "transport": "TCP", "model": "ResNet-50"}, "measured": [
             {"gpus": 16, "value": 5000, "unit": "img/s", "role": "base"},
             {"gpus": 8, "value": 2700, "role": "target"},
             {"gpus": 8, "value": 2700, "role": "given"},
             {"gpus": 64, "value": 15000, "role": "target"}, {"gpus": 32, "role": "target"},
             {"gpus": 32, "value": 8000, "role": "target", "efficiency_vs_base_pct": 80}]},
            {"id": "fewer alone", "conditions": {"gpu": "V100"}, "measured": [
             {"gpus": 16, "value": 5000, "unit": "img/s", "role": "base"},
             {"gpus": 8, "value": 2700, "role": "target"}]},
            {"id": "wrong", "measured": []}])",
        "three.json");
    const std::vector<Case> turned = swapped(cases);
    ASSERT_EQ(turned.size(), 1u);
    const Score s = score(turned);
    ASSERT_EQ(s.points.size(), 1u);
    EXPECT_EQ(s.points[0].gpus, 16);
    EXPECT_DOUBLE_EQ(s.points[0].published_pct, 125);
    EXPECT_NEAR(s.points[0].predicted_pct, 125, 30);
    EXPECT_EQ(s.several_machines.points, 1);
    EXPECT_EQ(s.points[0].machines, 4) << "those of the 32 GPUs";
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
