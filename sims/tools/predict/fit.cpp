#include <tools/predict/fit.hpp>

#include <algorithm>  // max, min, min_element
#include <array>      // sums
#include <cmath>      // abs, isinf
#include <iterator>   // size
#include <set>        // folds, in order of name

namespace gx::tools::predict {

std::vector<const Case*> fitted_cases(const std::vector<Case>& cases) {
    std::vector<const Case*> all;
    Predictor predict;
    for (const Case& c : cases)
        if (c.scored && c.calibrates() && predict(c).error.empty()) all.push_back(&c);
    return all;
}

Fitter::Fitter(std::vector<const Case*> cases, double one_machine)
    : cases_(std::move(cases)), one_machine_(one_machine), k_(priors()) {
    std::set<std::string> measurements;
    for (const Case* c : cases_) {
        Row& r = rows_.emplace_back();
        r.model = std::make_unique<CaseModel>(*c, k_, wire_);
        r.stack = r.model->stack(k_).source;
        for (const Point& p : c->points)
            r.first.push_back(p.role == Point::Role::target &&
                              (p.published || p.published_efficiency_pct) &&
                              measurements.insert(measurement_key(*c, p)).second);
    }
}

Calibration Fitter::fit(double firmness, const std::vector<bool>& used) {
    k_ = priors();
    if (std::isinf(firmness)) return k_;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
        rows_[i].used = used.empty() || used[i];
        if (rows_[i].used) rows_[i].error = error(i);
    }
    for (double step = 1; step > 0.04;) {
        bool better = false;
        for (const Knob& n : knobs())
            better =
                move(n, step * n.spread, firmness) || move(n, -step * n.spread, firmness) || better;
        if (!better) step /= 2;
    }
    return k_;
}

/// Changes a constant if that makes the sum less; returns whether it did.
bool Fitter::move(const Knob& n, double by, double firmness) {
    double& x = n.in(k_);
    const double was = x;
    x = std::max(0.0, was + by);
    if (n.own != nullptr && n.expected < 1) x = std::min(x, 1.0);
    if (x == was) return false;
    const auto penalty = [&](double value) {
        const double d = (value - n.expected) / n.spread;
        return firmness * d * d;
    };
    double gain = penalty(was) - penalty(x);
    for (std::size_t i = 0; i < rows_.size(); ++i)
        if (reaches(n, rows_[i])) gain += rows_[i].error - (rows_[i].next = error(i));
    if (gain < 1e-9) {
        x = was;
        return false;
    }
    for (Row& r : rows_)
        if (reaches(n, r)) r.error = r.next;
    return true;
}

bool Fitter::reaches(const Knob& n, const Row& r) const {
    return r.used && (n.stack == nullptr || (k_.*n.stack).source == r.stack);
}

double Fitter::error(std::size_t i) {
    const Row& r = rows_[i];
    double sum = 0;
    for (const PredictedPoint& q : r.model->points()) {
        const auto index = static_cast<std::size_t>(q.index);
        if (r.first[index])
            sum += (q.machines > 1 ? 1 : one_machine_) *
                   std::abs(q.efficiency_pct - published_pct(cases_[i]->points[index], q));
    }
    return sum;
}

std::vector<Residual> Fitter::residuals(std::size_t i, const Calibration& k) {
    k_ = k;
    std::vector<Residual> all;
    const std::vector<PredictedPoint> points = rows_[i].model->points();
    for (const PredictedPoint& q : points) {
        const auto index = static_cast<std::size_t>(q.index);
        if (!rows_[i].first[index]) continue;
        const double is = published_pct(cases_[i]->points[index], q);
        all.push_back({.predicted_pct = of_more_gpus(q, q.efficiency_pct),
                       .published_pct = of_more_gpus(q, is),
                       .from_pct = q.fewer ? 100 : q.anchor_pct,
                       .between = q.between});
    }
    return all;
}

Prediction Fitter::predict(std::size_t i, const Calibration& k) {
    k_ = k;
    return rows_[i].model->run();
}

namespace {

/// Folds of a Fitter's cases, and errors with one or two of them held out.
class Folds {
public:
    Folds(Fitter& fitter, std::string Case::* fold) : fitter_(fitter) {
        std::set<std::string> names;
        for (const Case* c : fitter.cases()) names.insert(c->*fold);
        names_.assign(names.begin(), names.end());
        for (const Case* c : fitter.cases())
            fold_.push_back(static_cast<std::size_t>(
                std::find(names_.begin(), names_.end(), c->*fold) - names_.begin()));
    }
    [[nodiscard]] std::size_t count() const { return names_.size(); }
    [[nodiscard]] const std::string& name(std::size_t f) const { return names_[f]; }
    [[nodiscard]] bool holds(std::size_t f, std::size_t i) const { return fold_[i] == f; }

    [[nodiscard]] Calibration without(std::size_t a, std::size_t b, double firmness) {
        std::vector<bool> used;
        for (const std::size_t f : fold_) used.push_back(f != a && f != b);
        return fitter_.fit(firmness, used);
    }
    /// Counting points of a fold.
    [[nodiscard]] std::vector<Residual> residuals(std::size_t f, const Calibration& k) {
        std::vector<Residual> all;
        for (std::size_t i = 0; i < fold_.size(); ++i)
            if (fold_[i] == f)
                for (Residual& r : fitter_.residuals(i, k)) {
                    r.fold = f;
                    all.push_back(r);
                }
        return all;
    }

private:
    Fitter& fitter_;
    std::vector<std::string> names_{};
    std::vector<std::size_t> fold_{};  ///< of each case
};

constexpr std::size_t choices = std::size(firmness_choices);
bool counts(const Residual& r) { return r.between != Between::links; }

/// Residuals of folds that were left out, by choice of firmness.
using ByChoice = std::array<std::vector<Residual>, choices>;

void append(std::vector<Residual>& to, const std::vector<Residual>& more) {
    to.insert(to.end(), more.begin(), more.end());
}

std::size_t least(const ByChoice& all) {
    std::array<double, choices> sums{};
    for (std::size_t f = 0; f < choices; ++f)
        for (const Residual& r : all[f])
            if (counts(r)) sums[f] += std::abs(r.error());
    return static_cast<std::size_t>(std::min_element(sums.begin(), sums.end()) - sums.begin());
}

/// The greatest firmness whose errors exceed the least by no more than a standard error of what
/// they differ by, over folds.
/// Source: the one-standard-error rule: Breiman, Friedman, Olshen, Stone 1984; Hastie, Tibshirani,
///         Friedman 2009, "The Elements of Statistical Learning", section 7.10.
std::size_t within_one_error(const ByChoice& all) {
    const std::size_t best = least(all);
    for (std::size_t f = choices; f-- > best + 1;) {
        std::map<std::size_t, double> more;  // of each fold
        for (std::size_t i = 0; i < all[f].size(); ++i)
            if (counts(all[f][i]))
                more[all[f][i].fold] +=
                    std::abs(all[f][i].error()) - std::abs(all[best][i].error());
        const double n = static_cast<double>(more.size());
        double sum = 0, squares = 0;
        for (const auto& [fold, x] : more) sum += x;
        for (const auto& [fold, x] : more) squares += (x - sum / n) * (x - sum / n);
        if (n > 1 && sum <= std::sqrt(n * squares / (n - 1))) return f;
    }
    return best;
}

/// Adds intervals around a held-out fold's points, calibrated on those of others.
IntervalRules judge(HeldOutIntervals& to, const std::vector<Residual>& points,
                    const std::vector<Residual>& others) {
    std::vector<Residual> over_networks;
    for (const Residual& r : others)
        if (counts(r)) over_networks.push_back(r);
    if (over_networks.empty()) return {};
    const IntervalRules rules = calibrate_by_network(others);
    const IntervalRule one = calibrate_intervals(over_networks);
    for (const Residual& r : points) {
        if (!counts(r)) continue;
        to.by_network.push_back(
            {r.fold, rules[r.between].around(r.predicted_pct, r.from_pct), r.published_pct});
        to.equally_wide.push_back({r.fold, one.equally_wide(r.predicted_pct), r.published_pct});
    }
    return rules;
}

}  // namespace

HeldOut hold_out(const std::vector<Case>& cases, std::string Case::* fold) {
    Fitter fitter(fitted_cases(cases));
    Folds folds(fitter, fold);
    std::vector<ByChoice> inner(folds.count());  // of each outer fold, over inner ones
    for (std::size_t a = 0; a < folds.count(); ++a)
        for (std::size_t b = 0; b < a; ++b)
            for (std::size_t f = 0; f < choices; ++f) {
                const Calibration k = folds.without(a, b, firmness_choices[f]);
                append(inner[a][f], folds.residuals(b, k));
                append(inner[b][f], folds.residuals(a, k));
            }
    HeldOut out;
    Score one_error;
    for (std::size_t a = 0; a < folds.count(); ++a) {
        const std::size_t best = least(inner[a]);
        const double firmness = out.firmness[folds.name(a)] = firmness_choices[best];
        const Calibration k = folds.without(a, a, firmness);
        out.rule[folds.name(a)] = judge(out.fitted, folds.residuals(a, k), inner[a][best]);
        (void)judge(out.unfitted, folds.residuals(a, priors()), inner[a][choices - 1]);
        const Calibration firm = folds.without(a, a, firmness_choices[within_one_error(inner[a])]);
        for (std::size_t i = 0; i < fitter.cases().size(); ++i) {
            if (!folds.holds(a, i)) continue;
            add(out.score, *fitter.cases()[i], fitter.predict(i, k), folds.name(a));
            add(one_error, *fitter.cases()[i], fitter.predict(i, firm), folds.name(a));
        }
    }
    out.one_error = one_error.several_machines;
    return out;
}

InForce fit_in_force(const std::vector<Case>& cases, std::string Case::* fold) {
    Fitter fitter(fitted_cases(cases));
    Folds folds(fitter, fold);
    ByChoice left_out;
    for (std::size_t f = 0; f < choices; ++f)
        for (std::size_t a = 0; a < folds.count(); ++a)
            append(left_out[f], folds.residuals(a, folds.without(a, a, firmness_choices[f])));
    const std::size_t best = least(left_out);
    return {firmness_choices[best], calibrate_by_network(left_out[best])};
}

}  // namespace gx::tools::predict
