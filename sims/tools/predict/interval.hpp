// IntervalRule: 80 % intervals of predicted efficiency, calibrated on publications left out.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include <tools/predict/case_model.hpp>  // PredictedPoint, Between

namespace gx::tools::predict {

/// Share of published values that an interval is to hold.
inline constexpr double interval_coverage = 0.8;

/// Bounds of an efficiency, in percent.
struct Interval {
    double low = 0, high = 0;
    [[nodiscard]] double width() const { return high - low; }
    [[nodiscard]] bool holds(double x) const { return low <= x && x <= high; }
};

/// Half the width of an interval, in points, and its bounds:
///
///     [max(p - half, p / 10), min(p + half, max(a, 100, p) + 1)]        around a prediction p
///
/// The upper bound is linear scaling from the base, or from the given point with the efficiency a,
/// which no more GPUs exceed but by what figures are rounded and repeated to, 1 point. Intervals
/// that widened with what is uncertain (the time beyond linear scaling, what the constants' spreads
/// do, how often GPUs double) held publications that were left out no better: their shares were
/// chosen by too few publications.
struct IntervalRule {
    double half = 1;

    /// No bound is below a tenth of the prediction, so that times stay finite; of a prediction
    /// beyond linear scaling the upper one is 1 point above it.
    [[nodiscard]] Interval around(double predicted_pct, double from_pct = 100) const;
    /// The same without the bound of linear scaling: what the rule is compared with.
    [[nodiscard]] Interval equally_wide(double predicted_pct) const;
};

/// A prediction whose constants were chosen without its publication, and the published value.
struct Residual {
    std::size_t fold = 0;  ///< its publication's number
    double predicted_pct = 0, published_pct = 0;
    double from_pct = 100;  ///< of the given point
    Between between = Between::rdma;
    [[nodiscard]] double error() const { return predicted_pct - published_pct; }
};

/// Interval score: the width, and 2 / (1 - coverage) times the distance of a value outside. Less is
/// better; its mean is least where the bounds are the quantiles.
/// Source: Gneiting and Raftery 2007, "Strictly proper scoring rules, prediction, and estimation",
///         section 6.2; Winkler 1972.
[[nodiscard]] double interval_score(const Interval& i, double published_pct);

/// The rule whose intervals hold `interval_coverage` of residuals: half their width is the
/// ceil(coverage * (n + 1))-th smallest |error| (split conformal prediction).
/// Errors: no residuals break the contract.
/// Source: Lei, G'Sell, Rinaldo, Tibshirani, Wasserman 2018, "Distribution-free predictive
///         inference for regression", section 2.2.
[[nodiscard]] IntervalRule calibrate_intervals(const std::vector<Residual>& residuals);

/// A rule for each of what may lie between GPUs.
struct IntervalRules {
    std::array<IntervalRule, kinds_between> of{};
    [[nodiscard]] const IntervalRule& operator[](Between b) const {
        return of[static_cast<std::size_t>(b)];
    }
    /// Of a point's efficiency. A `fewer` one than the given point, which has the efficiency a,
    /// exceeds linear scaling by what that point loses. Rules are calibrated on more GPUs, so its
    /// bounds are those of the given point as predicted from it, inverted:
    ///
    ///     [100 a / high, 100 a / low]        [low, high] around 100 a / p
    [[nodiscard]] Interval around(const PredictedPoint& p) const;
};
/// An efficiency of a point in the direction that rules are calibrated in: of a `fewer` one, the
/// given point's efficiency against it. It is its own inverse.
[[nodiscard]] double of_more_gpus(const PredictedPoint& p, double efficiency_pct);

/// Each calibrated on its own residuals; on all of them where it has fewer than `fewest_residuals`.
/// Errors: no residuals break the contract.
/// Source: conformal prediction by classes ("Mondrian"): Vovk, Gammerman, Shafer 2005,
///         "Algorithmic Learning in a Random World", section 4.5.
[[nodiscard]] IntervalRules calibrate_by_network(const std::vector<Residual>& residuals);
inline constexpr std::size_t fewest_residuals = 10;

/// The rules in force, of data/stacks.json.
[[nodiscard]] const IntervalRules& intervals_in_force();
/// One rule for all, calibrated on the same residuals: what those in force are compared with.
[[nodiscard]] const IntervalRules& equally_wide_intervals();

/// Intervals beside published values: how many hold them, how wide they are.
struct IntervalQuality {
    int points = 0;
    double covered = 0;          ///< share
    double least = 0, most = 0;  ///< of it: 95 % bootstrap, publications drawn with replacement
    double score = 0;            ///< mean interval score, in points
    double median_width = 0;     ///< in points
};
struct JudgedInterval {
    std::size_t fold = 0;
    Interval interval{};
    double published_pct = 0;
};
/// Order: the same rows give the same bootstrap.
[[nodiscard]] IntervalQuality quality_of(const std::vector<JudgedInterval>& rows);

/// Sets the bounds of a point's efficiency, and of its value: a rate or share rises with the
/// efficiency, a time falls.
void set_interval(PredictedPoint& p, const Interval& i);

}  // namespace gx::tools::predict
