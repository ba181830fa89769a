// IntervalRule: 80 % intervals of predicted efficiency, calibrated on publications left out.
#pragma once

#include <cstddef>
#include <vector>

#include <tools/predict/case_model.hpp>  // CaseModel, PredictedPoint
#include <tools/predict/stack.hpp>       // Calibration

namespace gx::tools::predict {

/// Share of published values that an interval is to hold.
inline constexpr double interval_coverage = 0.8;

/// How uncertain a predicted efficiency is before any published value is seen, in points.
struct Uncertainty {
    /// Points that the time beyond linear scaling from the anchor costs, if it doubles (to first
    /// order): e (a - e) / a, where e is the predicted efficiency and a the anchor's.
    double lost = 0;
    /// Root of the sum of squares of what each fitted constant moves the prediction by, when it
    /// goes from its prior by its spread.
    double constants = 0;
    /// How often the GPUs of the anchor double.
    double doublings = 0;
};

/// Bounds of an efficiency, in percent.
struct Interval {
    double low = 0, high = 0;
    [[nodiscard]] double width() const { return high - low; }
    [[nodiscard]] bool holds(double x) const { return low <= x && x <= high; }
};

/// The half-width of an interval, in points:
///
///     quantile * sqrt(1 + (lost_share * lost)^2 + (constants_share * constants)^2
///                       + (doubling * doublings)^2)
///
/// 1 point is what figures are commonly rounded and repeated to. With all three at 0
/// all intervals are equally wide.
struct IntervalRule {
    double lost_share = 0, constants_share = 0, doubling = 0, quantile = 1;

    [[nodiscard]] double scale(const Uncertainty& u) const;
    /// No bound is below a tenth of the prediction, so that times stay finite.
    [[nodiscard]] Interval around(double predicted_pct, const Uncertainty& u) const;
};

/// A prediction whose constants were chosen without its publication, and the published value.
struct Residual {
    std::size_t fold = 0;  ///< its publication's number
    double predicted_pct = 0, published_pct = 0;
    Uncertainty uncertainty{};
    [[nodiscard]] double error() const { return predicted_pct - published_pct; }
};

/// Interval score: the width, and 2 / (1 - coverage) times the distance of a value outside. Less is
/// better; its mean is least where the bounds are the quantiles.
/// Source: Gneiting and Raftery 2007, "Strictly proper scoring rules, prediction, and estimation",
///         section 6.2; Winkler 1972.
[[nodiscard]] double interval_score(const Interval& i, double published_pct);

/// The rule with these shares whose quantile makes intervals hold `interval_coverage` of residuals:
/// the ceil(coverage * (n + 1))-th smallest |error| / scale (split conformal prediction).
/// Errors: no residuals break the contract.
/// Source: Lei, G'Sell, Rinaldo, Tibshirani, Wasserman 2018, "Distribution-free predictive
///         inference for regression", section 5.2.
[[nodiscard]] IntervalRule with_quantile(IntervalRule rule, const std::vector<Residual>& residuals);

/// As with_quantile, with the shares from `share_choices` that give the least mean interval score
/// when each fold's intervals are calibrated on the others.
[[nodiscard]] IntervalRule calibrate_intervals(const std::vector<Residual>& residuals);

inline constexpr double share_choices[] = {0, 0.1, 0.2, 0.4, 0.8};

/// The rule in force, of data/stacks.json.
[[nodiscard]] const IntervalRule& interval_in_force();

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

/// What the fitted constants' spreads do to each target of a case, in the order of points().
/// `k` is the calibration that `model` reads; it is changed meanwhile and restored.
/// Cost: a prediction for each constant that the case's stack has.
[[nodiscard]] std::vector<double> constants_spread(CaseModel& model, Calibration& k);

/// The uncertainty of a predicted point whose constants' spread is known.
[[nodiscard]] Uncertainty uncertainty_of(const PredictedPoint& p, double constants);

/// Sets the bounds of a point's efficiency, and of its value: a rate or share rises with the
/// efficiency, a time falls.
void set_interval(PredictedPoint& p, const Interval& i);

}  // namespace gx::tools::predict
