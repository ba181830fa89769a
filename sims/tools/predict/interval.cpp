#include <tools/predict/interval.hpp>

#include <algorithm>  // nth_element, sort
#include <cmath>      // sqrt, ceil
#include <map>        // points of a fold

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

}  // namespace

Interval IntervalRule::equally_wide(double predicted_pct) const {
    return {std::max(predicted_pct - half, 0.1 * predicted_pct), predicted_pct + half};
}

Interval IntervalRule::around(double predicted_pct, double from_pct) const {
    Interval i = equally_wide(predicted_pct);
    i.high = std::min(i.high, std::max({from_pct, 100.0, predicted_pct}) + 1);
    return i;
}

double of_more_gpus(const PredictedPoint& p, double efficiency_pct) {
    return p.fewer ? 100 * p.anchor_pct / efficiency_pct : efficiency_pct;
}

Interval IntervalRules::around(const PredictedPoint& p) const {
    const Interval i =
        (*this)[p.between].around(of_more_gpus(p, p.efficiency_pct), p.fewer ? 100 : p.anchor_pct);
    if (!p.fewer) return i;
    return {of_more_gpus(p, i.high), of_more_gpus(p, i.low)};
}

double interval_score(const Interval& i, double x) {
    constexpr double miss = 2 / (1 - interval_coverage);
    return i.width() + miss * std::max({0.0, i.low - x, x - i.high});
}

IntervalRule calibrate_intervals(const std::vector<Residual>& residuals) {
    GX_EXPECT(!residuals.empty(), "intervals are calibrated on at least one residual");
    std::vector<double> errors;
    for (const Residual& r : residuals) errors.push_back(std::abs(r.error()));
    const double n = static_cast<double>(errors.size());
    const auto rank =
        static_cast<std::size_t>(std::min(n, std::ceil(interval_coverage * (n + 1) - 1e-9)));
    const auto at = errors.begin() + static_cast<std::ptrdiff_t>(rank - 1);
    std::nth_element(errors.begin(), at, errors.end());
    return {*at};
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

IntervalRules calibrate_by_network(const std::vector<Residual>& residuals) {
    IntervalRules rules;
    for (std::size_t k = 0; k < kinds_between; ++k) {
        std::vector<Residual> own;
        for (const Residual& r : residuals)
            if (static_cast<std::size_t>(r.between) == k) own.push_back(r);
        rules.of[k] = calibrate_intervals(own.size() < fewest_residuals ? residuals : own);
    }
    return rules;
}

const IntervalRules& intervals_in_force() {
    static const IntervalRules rules = [] {
        const Json file = parse_json(data::stacks, "stacks.json");
        const Json& half = file.at("intervals").at("half_pct");
        return IntervalRules{{{{half.at("links").get<double>()},
                               {half.at("rdma").get<double>()},
                               {half.at("sockets").get<double>()}}}};
    }();
    return rules;
}

const IntervalRules& equally_wide_intervals() {
    static const IntervalRules rules = [] {
        const Json file = parse_json(data::stacks, "stacks.json");
        IntervalRules all;
        all.of.fill({file.at("intervals").at("equal_half_pct").get<double>()});
        return all;
    }();
    return rules;
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
