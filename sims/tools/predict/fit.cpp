#include <tools/predict/fit.hpp>

#include <algorithm>  // max, min
#include <array>      // sums
#include <cmath>      // abs, isinf
#include <iterator>   // size
#include <set>        // folds, in order of name

namespace gx::tools::predict {

std::vector<const Case*> fitted_cases(const std::vector<Case>& cases) {
    std::vector<const Case*> all;
    Predictor predict;
    for (const Case& c : cases)
        if (c.scored && c.split != "reference" && predict(c).error.empty()) all.push_back(&c);
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

std::pair<double, int> Fitter::error_of(std::size_t i, const Calibration& k) {
    k_ = k;
    std::pair<double, int> sum{0, 0};
    for (const PredictedPoint& q : rows_[i].model->points()) {
        const auto index = static_cast<std::size_t>(q.index);
        if (!rows_[i].first[index] || q.machines < 2) continue;
        sum.first += std::abs(q.efficiency_pct - published_pct(cases_[i]->points[index], q));
        ++sum.second;
    }
    return sum;
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
    /// The sum of errors of a fold's counting points.
    [[nodiscard]] double error(std::size_t f, const Calibration& k) {
        double sum = 0;
        for (std::size_t i = 0; i < fold_.size(); ++i)
            if (fold_[i] == f) sum += fitter_.error_of(i, k).first;
        return sum;
    }

private:
    Fitter& fitter_;
    std::vector<std::string> names_{};
    std::vector<std::size_t> fold_{};  ///< of each case
};

constexpr std::size_t choices = std::size(firmness_choices);
using Sums = std::array<double, choices>;

double least(const Sums& sums) {
    return firmness_choices[std::min_element(sums.begin(), sums.end()) - sums.begin()];
}

}  // namespace

HeldOut hold_out(const std::vector<Case>& cases, std::string Case::* fold) {
    Fitter fitter(fitted_cases(cases));
    Folds folds(fitter, fold);
    std::vector<Sums> inner(folds.count(), Sums{});  // of each outer fold, over inner ones
    for (std::size_t a = 0; a < folds.count(); ++a)
        for (std::size_t b = 0; b < a; ++b)
            for (std::size_t f = 0; f < choices; ++f) {
                const Calibration k = folds.without(a, b, firmness_choices[f]);
                inner[a][f] += folds.error(b, k);
                inner[b][f] += folds.error(a, k);
            }
    HeldOut out;
    for (std::size_t a = 0; a < folds.count(); ++a) {
        const double firmness = out.firmness[folds.name(a)] = least(inner[a]);
        const Calibration k = folds.without(a, a, firmness);
        for (std::size_t i = 0; i < fitter.cases().size(); ++i)
            if (folds.holds(a, i))
                add(out.score, *fitter.cases()[i], fitter.predict(i, k), folds.name(a));
    }
    return out;
}

double best_firmness(const std::vector<Case>& cases, std::string Case::* fold) {
    Fitter fitter(fitted_cases(cases));
    Folds folds(fitter, fold);
    Sums sums{};
    for (std::size_t f = 0; f < choices; ++f)
        for (std::size_t a = 0; a < folds.count(); ++a)
            sums[f] += folds.error(a, folds.without(a, a, firmness_choices[f]));
    return least(sums);
}

}  // namespace gx::tools::predict
