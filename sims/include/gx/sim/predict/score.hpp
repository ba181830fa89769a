// Score: predictions against published values, by group, beside two baselines.
#pragma once

#include <cmath>        // abs
#include <map>          // groups, in order of name
#include <string>       // names
#include <vector>       // rows

#include <gx/sim/predict/predict.hpp>  // Prediction

namespace gx::sim::predict {

/// A target with a published value, and what was predicted.
struct ScoredPoint {
    std::string id{}, group{}, stack{};
    int gpus = 0, machines = 1;
    bool scored = true, calibration = true;
    double published_pct = 0, predicted_pct = 0, formula_pct = 0;

    [[nodiscard]] double error() const { return predicted_pct - published_pct; }
    [[nodiscard]] bool counts() const { return scored && calibration && machines > 1; }
};

/// Mean absolute errors of efficiency, in percentage points.
struct Errors {
    int points = 0;
    double model = 0, formula = 0, perfect = 0;  ///< sums; the accessors divide

    void add(const ScoredPoint& p) {
        ++points;
        model += std::abs(p.error());
        formula += std::abs(p.formula_pct - p.published_pct);
        perfect += std::abs(100 - p.published_pct);
    }
    [[nodiscard]] double mae() const { return points > 0 ? model / points : 0; }
    [[nodiscard]] double formula_mae() const { return points > 0 ? formula / points : 0; }
    [[nodiscard]] double perfect_mae() const { return points > 0 ? perfect / points : 0; }
};

struct Score {
    std::vector<ScoredPoint> points{};
    std::vector<Prediction> failed{};          ///< cases with targets and an error
    Errors several_machines{}, one_machine{};  ///< scored calibration points
    Errors others{};                           ///< reference points, several machines
    std::map<std::string, Errors> groups{}, stacks{};  ///< scored, several machines
};

namespace detail {

/// Rate of a GPU against the base's, from the published value where no percentage is printed.
[[nodiscard]] inline double published_pct(const Point& t, const PredictedPoint& p) {
    if (t.published_efficiency_pct) return *t.published_efficiency_pct;
    const Measure m = measure_of(p.unit, field(t.index, "unit"));
    const bool time = m.kind == Measure::Kind::step_time || m.kind == Measure::Kind::job_time;
    return p.efficiency_pct * (time ? p.value / *t.published : *t.published / p.value);
}

}  // namespace detail

/// Adds a prediction's points that have a published value, under the name of a group.
inline void add(Score& s, const Case& c, const Prediction& p, const std::string& group) {
    if (!p.error.empty()) s.failed.push_back(p);
    for (const PredictedPoint& q : p.points) {
        const Point& t = c.points[static_cast<std::size_t>(q.index)];
        if (!t.published && !t.published_efficiency_pct) continue;
        s.points.push_back({.id = c.id, .group = group, .stack = p.stack, .gpus = q.gpus,
                            .machines = q.machines, .scored = c.scored,
                            .calibration = c.split != "reference",
                            .published_pct = detail::published_pct(t, q),
                            .predicted_pct = q.efficiency_pct, .formula_pct = q.formula_pct});
        const ScoredPoint& row = s.points.back();
        if (row.counts()) {
            s.several_machines.add(row);
            s.groups[row.group].add(row);
            s.stacks[row.stack].add(row);
        } else if (row.machines > 1) {
            s.others.add(row);
        } else if (row.scored && row.calibration) {
            s.one_machine.add(row);
        }
    }
}

/// Compares all targets that have a published value.
[[nodiscard]] inline Score score(const std::vector<Case>& cases,
                                 const Calibration& k = calibrated) {
    Score s;
    Predictor predict(k);
    for (const Case& c : cases) {
        bool asked = !c.error.empty();
        for (const Point& p : c.points) asked = asked || p.role == Point::Role::target;
        if (asked) add(s, c, predict(c), c.group);
    }
    return s;
}

}  // namespace gx::sim::predict
