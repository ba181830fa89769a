#include <tools/predict/interval.hpp>

#include <algorithm>  // nth_element, sort
#include <cmath>      // sqrt, ceil
#include <map>        // points of a fold
#include <set>        // folds

#include <gx/core/contract.hpp>         // GX_EXPECT
#include <gx/core/rng.hpp>              // Rng
#include <tools/common/json.hpp>        // Json, parse_json
#include <tools/data.hpp>               // stacks
#include <tools/predict/case_file.hpp>  // field
#include <tools/predict/measure.hpp>    // measure_of

namespace gx::tools::predict {

namespace {

double median(std::vector<double> all) {
    if (all.empty()) return 0;
    std::sort(all.begin(), all.end());
    const std::size_t half = all.size() / 2;
    return all.size() % 2 == 1 ? all[half] : 0.5 * (all[half - 1] + all[half]);
}

/// The sum of interval scores where each fold's quantile is that of the others.
double score_left_out(const IntervalRule& shares, const std::vector<Residual>& residuals,
                      const std::set<std::size_t>& folds) {
    double sum = 0;
    for (const std::size_t fold : folds) {
        std::vector<Residual> others;
        for (const Residual& r : residuals)
            if (r.fold != fold) others.push_back(r);
        const IntervalRule rule = with_quantile(shares, others);
        for (const Residual& r : residuals)
            if (r.fold == fold)
                sum += interval_score(rule.around(r.predicted_pct, r.uncertainty), r.published_pct);
    }
    return sum;
}

}  // namespace

double IntervalRule::scale(const Uncertainty& u) const {
    const double lost = lost_share * u.lost, constants = constants_share * u.constants;
    const double more = doubling * u.doublings;
    return std::sqrt(1 + lost * lost + constants * constants + more * more);
}

Interval IntervalRule::around(double predicted_pct, const Uncertainty& u) const {
    const double half = quantile * scale(u);
    return {std::max(predicted_pct - half, 0.1 * predicted_pct), predicted_pct + half};
}

double interval_score(const Interval& i, double x) {
    constexpr double miss = 2 / (1 - interval_coverage);
    return i.width() + miss * std::max({0.0, i.low - x, x - i.high});
}

IntervalRule with_quantile(IntervalRule rule, const std::vector<Residual>& residuals) {
    GX_EXPECT(!residuals.empty(), "intervals are calibrated on at least one residual");
    std::vector<double> ratios;
    for (const Residual& r : residuals)
        ratios.push_back(std::abs(r.error()) / rule.scale(r.uncertainty));
    const double n = static_cast<double>(ratios.size());
    const auto rank =
        static_cast<std::size_t>(std::min(n, std::ceil(interval_coverage * (n + 1) - 1e-9)));
    const auto at = ratios.begin() + static_cast<std::ptrdiff_t>(rank - 1);
    std::nth_element(ratios.begin(), at, ratios.end());
    rule.quantile = *at;
    return rule;
}

IntervalRule calibrate_intervals(const std::vector<Residual>& residuals) {
    std::set<std::size_t> folds;
    for (const Residual& r : residuals) folds.insert(r.fold);
    IntervalRule best;
    if (folds.size() < 2) return with_quantile(best, residuals);
    double least = score_left_out(best, residuals, folds);
    for (const double lost : share_choices)
        for (const double constants : share_choices)
            for (const double doubling : share_choices) {
                const IntervalRule rule{lost, constants, doubling};
                const double score = score_left_out(rule, residuals, folds);
                if (score < least) least = score, best = rule;
            }
    return with_quantile(best, residuals);
}

IntervalQuality quality_of(const std::vector<JudgedInterval>& rows) {
    IntervalQuality q{.points = static_cast<int>(rows.size())};
    if (rows.empty()) return q;
    struct Fold {
        double points = 0, held = 0;
    };
    std::map<std::size_t, Fold> by_fold;
    std::vector<double> widths;
    double held = 0;
    for (const JudgedInterval& r : rows) {
        Fold& f = by_fold[r.fold];
        const double is = r.interval.holds(r.published_pct) ? 1 : 0;
        f.points += 1, f.held += is, held += is;
        q.score += interval_score(r.interval, r.published_pct) / q.points;
        widths.push_back(r.interval.width());
    }
    q.covered = held / q.points;
    q.median_width = median(widths);
    std::vector<Fold> folds;
    for (const auto& [number, f] : by_fold) folds.push_back(f);
    constexpr std::size_t draws = 10'000;
    const Rng rng(1, "publications");
    std::vector<double> shares;
    for (std::size_t d = 0; d < draws; ++d) {
        Fold sum;
        for (std::size_t i = 0; i < folds.size(); ++i) {
            const Fold& f = folds[rng.at(d).below(i, folds.size())];
            sum.points += f.points, sum.held += f.held;
        }
        shares.push_back(sum.held / sum.points);
    }
    std::sort(shares.begin(), shares.end());
    q.least = shares[draws / 40];
    q.most = shares[draws - 1 - draws / 40];
    return q;
}

std::vector<double> constants_spread(CaseModel& model, Calibration& k) {
    const Calibration held = k;
    k = priors();
    const std::vector<PredictedPoint> at_priors = model.points();
    const std::string stack = model.stack(k).source;
    std::vector<double> squares(at_priors.size());
    for (const Knob& n : knobs()) {
        if (n.stack != nullptr && (k.*n.stack).source != stack) continue;
        double& x = n.in(k);
        const double was = x;
        x = was + n.spread;
        if (n.own != nullptr && n.expected < 1 && x > 1) x = was - n.spread;  // a share
        const std::vector<PredictedPoint> moved = model.points();
        x = was;
        for (std::size_t i = 0; i < squares.size(); ++i) {
            const double by = moved[i].efficiency_pct - at_priors[i].efficiency_pct;
            squares[i] += by * by;
        }
    }
    k = held;
    for (double& s : squares) s = std::sqrt(s);
    return squares;
}

Uncertainty uncertainty_of(const PredictedPoint& p, double constants) {
    const double lost = p.efficiency_pct * (p.anchor_pct - p.efficiency_pct) / p.anchor_pct;
    return {.lost = std::abs(lost),
            .constants = constants,
            .doublings = std::abs(std::log2(double(p.gpus) / p.anchor_gpus))};
}

const IntervalRule& interval_in_force() {
    static const IntervalRule rule = [] {
        const Json row = parse_json(data::stacks, "stacks.json").at("intervals");
        return IntervalRule{row.at("lost_share").get<double>(),
                            row.at("constants_share").get<double>(),
                            row.at("doubling").get<double>(), row.at("quantile").get<double>()};
    }();
    return rule;
}

void set_interval(PredictedPoint& p, const Interval& i) {
    p.low_pct = i.low;
    p.high_pct = i.high;
    const double low = i.low / p.efficiency_pct, high = i.high / p.efficiency_pct;
    const Measure::Kind kind = measure_of(p.unit, field(p.index, "unit")).kind;
    const bool time = kind == Measure::Kind::step_time || kind == Measure::Kind::job_time;
    p.low_value = p.value * (time ? 1 / high : low);
    p.high_value = p.value * (time ? 1 / low : high);
}

}  // namespace gx::tools::predict
