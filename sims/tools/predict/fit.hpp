// Fitter: the constants of stacks from published results; hold_out: the error on unseen results.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tools/predict/interval.hpp>  // Residual, IntervalRule
#include <tools/predict/predict.hpp>   // CaseModel
#include <tools/predict/score.hpp>     // Score
#include <tools/predict/stack.hpp>     // Calibration, Knob

namespace gx::tools::predict {

/// The cases that a fit may see: scored, not of the split "reference", with a target, without an
/// error.
[[nodiscard]] std::vector<const Case*> fitted_cases(const std::vector<Case>& cases);

/// Penalised least absolute errors over subsets of cases, whose models are prepared once:
///
///     sum over targets of weight * |predicted - published efficiency, in points|
///     + firmness * sum over constants of ((constant - expected) / spread)^2
///
/// The minimum is found from the priors, constant by constant, in steps that halve when none helps:
/// a local one. weight is 1, and `one_machine` of a target on one machine; a measurement that
/// several cases hold counts at its first.
/// Cost:   about 300 predictions of each case for a fit.
/// Order:  the same cases, in the same order, give the same constants.
class Fitter {
public:
    /// Infinite firmness: the priors themselves.
    static constexpr double nothing_fitted = std::numeric_limits<double>::infinity();

    /// Of cases that can be predicted. `cases` stay where they are as long as the Fitter.
    explicit Fitter(std::vector<const Case*> cases, double one_machine = 0.2);
    Fitter(const Fitter&) = delete;
    Fitter& operator=(const Fitter&) = delete;

    /// The constants fitted on the cases for which `used` is true; all cases where it is empty.
    [[nodiscard]] Calibration fit(double firmness, const std::vector<bool>& used = {});

    /// Counting points of a case, predicted under these constants.
    [[nodiscard]] std::vector<Residual> residuals(std::size_t i, const Calibration& k);
    /// Prediction of a case under these constants.
    [[nodiscard]] Prediction predict(std::size_t i, const Calibration& k);

    [[nodiscard]] const std::vector<const Case*>& cases() const { return cases_; }

private:
    struct Row {
        std::string stack{};  ///< its source, which variants of a stack share
        std::unique_ptr<CaseModel> model{};
        std::vector<bool> first{};  ///< by index in `measured`: no earlier case holds it
        bool used = true;
        double error = 0, next = 0;
    };

    [[nodiscard]] bool move(const Knob& n, double by, double firmness);
    [[nodiscard]] bool reaches(const Knob& n, const Row& r) const;
    [[nodiscard]] double error(std::size_t i);

    std::vector<const Case*> cases_;
    double one_machine_;
    Calibration k_{};
    WireTime wire_{};
    std::vector<Row> rows_{};
};

/// Firmness that a fit may choose from.
inline constexpr double firmness_choices[] = {0.5, 1, 2, 4, 8, Fitter::nothing_fitted};

/// Intervals of the points of held-out folds, calibrated on the other folds alone.
struct HeldOutIntervals {
    std::vector<JudgedInterval> by_network{};    ///< by the rules
    std::vector<JudgedInterval> equally_wide{};  ///< by one rule for all, and without its bound of
                                                 ///< linear scaling
};

/// The error on folds that nothing was chosen on, and what was chosen without each.
struct HeldOut {
    Score score{};                                ///< groups are the folds' names
    std::map<std::string, double> firmness{};     ///< by fold
    std::map<std::string, IntervalRules> rule{};  ///< by fold
    Errors one_error{};                           ///< of the same, where firmness is the greatest
                                                  ///< within a standard error of the best
    HeldOutIntervals fitted{};                    ///< around what `score` holds
    HeldOutIntervals unfitted{};                  ///< around predictions with nothing fitted
};

/// Every case predicted by constants fitted without those that share its `fold` (group or source).
/// Firmness is chosen inside each outer fold, by leaving out each of the others in turn, and its
/// intervals are calibrated on those same predictions of the others.
/// Cost:   a fit for each pair of folds and finite choice: (n (n - 1) / 2 * 5 + n) fits.
[[nodiscard]] HeldOut hold_out(const std::vector<Case>& cases, std::string Case::* fold);

/// What the constants in force are fitted with, and the intervals around them.
struct InForce {
    double firmness = 0;
    IntervalRules rules{};
};
/// The firmness with the least error on folds that are held out one by one, of all cases, and the
/// intervals calibrated on those predictions. That error is no estimate: firmness was chosen on it.
[[nodiscard]] InForce fit_in_force(const std::vector<Case>& cases, std::string Case::* fold);

}  // namespace gx::tools::predict
