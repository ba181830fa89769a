#include <gx/sim/predict/fit.hpp>  // first, so the header is seen to stand alone

#include <filesystem>  // reference/published
#include <fstream>     // cases.json
#include <iterator>    // whole file
#include <set>         // members
#include <string>      // text
#include <vector>      // cases

#include <gtest/gtest.h>

namespace {

using namespace gx::sim::predict;

const std::vector<Case>& published() {
    static const auto cases = [] {
        const auto file = std::filesystem::path(__FILE__).parent_path() /
                          "../../../reference/published/cases.json";
        std::ifstream in(file, std::ios::binary);
        return read_cases(std::string(std::istreambuf_iterator<char>(in), {}), "cases.json");
    }();
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
    Calibration k;
    std::set<double*> seen;
    for (const Knob& n : knobs()) {
        EXPECT_TRUE(seen.insert(&n.in(k)).second) << n.name;
        EXPECT_GT(n.spread, 0) << n.name;
        EXPECT_GE(n.expected, 0) << n.name;
    }
}

// ---- Cases worked by hand -----------------------------------------------------------
TEST(Fit, WithoutCasesGivesWhatIsExpected) {
    Calibration k = Fit({})();
    for (const Knob& n : knobs()) EXPECT_EQ(n.in(k), n.expected) << n.name;
}
TEST(Fit, ComesBackToConstantsThatWerePlanted) {
    Calibration planted;
    planted.pytorch.step_ms = 12;
    planted.tensorflow.machines_ms = 28;
    planted.mxnet.interference = 0.5;
    planted.tcp_share = 0.7;
    const auto cases = as_predicted_by(planted);
    const Calibration found = Fit(fitted_cases(cases), {.one_machine = 1, .firmness = 0.01})();
    EXPECT_LT(score(cases, found).several_machines.mae(), 0.25);
    EXPECT_GT(score(cases, calibrated).several_machines.mae(), 0.5);
    EXPECT_NEAR(found.pytorch.step_ms, 12, 1.5);
    EXPECT_NEAR(found.tensorflow.machines_ms, 28, 3);
}

// ---- What was published -------------------------------------------------------------
TEST(Fit, TheConstantsInForceAreThoseThatAreFound) {
    Calibration found = Fit(fitted_cases(published()))(), held = calibrated;
    for (const Knob& n : knobs()) EXPECT_NEAR(n.in(found), n.in(held), 0.1 * n.spread) << n.name;
}
/// Three groups of the file: each is predicted by constants that the two others give.
TEST(Fit, HeldOutGroupsAreNearerThanAFormula) {
    std::vector<Case> some;
    for (const Case& c : published())
        if (c.group.starts_with("D.") || c.group.starts_with("E.") || c.group.starts_with("F."))
            some.push_back(c);
    const Score s = held_out(some, &Case::group);
    EXPECT_EQ(s.groups.size(), 3u);
    EXPECT_GE(s.several_machines.points, 33);
    EXPECT_LT(s.several_machines.mae(), 4.5);
    EXPECT_LT(s.several_machines.mae(), s.several_machines.formula_mae());
}

}  // namespace
