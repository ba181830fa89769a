// Score: predictions against published values, by group, beside two baselines.
#pragma once

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <tools/predict/interval.hpp>  // Interval, IntervalQuality
#include <tools/predict/predict.hpp>   // Prediction

namespace gx::tools::predict {

/// A target with a published value, and what was predicted.
struct ScoredPoint {
    std::string id{}, group{}, stack{}, source{};
    int gpus = 0, machines = 1;
    bool scored = true;
    bool held_out = false;   ///< of the split "held_out": nothing was fitted on it
    bool reference = false;  ///< of the split "reference": does not count
    bool repeated = false;   ///< a measurement that an earlier case holds as well
    double published_pct = 0, predicted_pct = 0, formula_pct = 0;
    Interval interval{};      ///< of 80 %; empty where none was asked
    Interval equally_wide{};  ///< by equally_wide_intervals()

    [[nodiscard]] double error() const { return predicted_pct - published_pct; }
    [[nodiscard]] bool counts() const { return scored && !reference && machines > 1 && !repeated; }
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

/// Errors over all points; a measurement that several cases hold counts once, at its first.
struct Score {
    std::vector<ScoredPoint> points{};
    std::vector<Prediction> failed{};                  ///< cases with targets and an error
    Errors several_machines{}, one_machine{};          ///< scored, but reference points
    Errors others{};                                   ///< all others of several machines
    std::map<std::string, Errors> groups{}, stacks{};  ///< scored, several machines
    std::set<std::string> measurements{};              ///< keys of those that were added
};

/// What makes two targets one measurement: publication, conditions, GPUs, batch, unit and value.
[[nodiscard]] std::string measurement_key(const Case& c, const Point& target);

/// Efficiency as published; from the published value where no percentage is printed.
[[nodiscard]] double published_pct(const Point& target, const PredictedPoint& p);

/// Adds a prediction's points that have a published value, under the name of a group.
void add(Score& s, const Case& c, const Prediction& p, const std::string& group);

/// The 80 % intervals of the points that count, a fold for each publication.
[[nodiscard]] IntervalQuality intervals_of(const Score& s);
/// As intervals_of(), had they all one width.
[[nodiscard]] IntervalQuality equally_wide_intervals_of(const Score& s);

/// The cases turned round: the published value of the smallest target of more GPUs than the base,
/// of its phase, is the base, and what was the base is the one target. Cases without such a target
/// are left out. What predictions of fewer GPUs are worth is seen on them.
[[nodiscard]] std::vector<Case> swapped(const std::vector<Case>& cases);

/// Compares all targets that have a published value.
[[nodiscard]] Score score(const std::vector<Case>& cases, const Calibration& k = calibrated());

}  // namespace gx::tools::predict
