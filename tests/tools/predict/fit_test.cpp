#include <tools/predict/fit.hpp>  // first, so the header is seen to stand alone

#include <set>     // members
#include <string>  // text
#include <vector>  // cases

#include <gtest/gtest.h>
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
