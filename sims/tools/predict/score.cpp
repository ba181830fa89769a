#include <tools/predict/score.hpp>

#include <algorithm>  // find
#include <utility>    // swap

#include <fmt/core.h>  // format

namespace gx::tools::predict {

std::string measurement_key(const Case& c, const Point& t) {
    std::string base;
    for (const Point& p : c.points)
        if (p.role == Point::Role::base) base += fmt::format("{}|", p.given.value_or(0));
    return fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", c.source, c.conditions.dump(), base,
                       t.gpus, t.nodes, t.batch_per_gpu, t.unit, t.phase, t.variant,
                       t.published.value_or(0), t.published_efficiency_pct.value_or(0));
}

double published_pct(const Point& t, const PredictedPoint& p) {
    if (t.published_efficiency_pct) return *t.published_efficiency_pct;
    const Measure m = measure_of(p.unit, field(t.index, "unit"));
    const bool time = m.kind == Measure::Kind::step_time || m.kind == Measure::Kind::job_time;
    return p.efficiency_pct * (time ? p.value / *t.published : *t.published / p.value);
}

void add(Score& s, const Case& c, const Prediction& p, const std::string& group) {
    if (!p.error.empty()) s.failed.push_back(p);
    for (const PredictedPoint& q : p.points) {
        const Point& t = c.points[static_cast<std::size_t>(q.index)];
        if (!t.refused.empty())
            s.failed.push_back({.id = c.id, .file = c.file, .error = t.refused});
        if (!t.published && !t.published_efficiency_pct) continue;
        s.points.push_back({.id = c.id,
                            .group = group,
                            .stack = p.stack,
                            .source = c.source,
                            .gpus = q.gpus,
                            .machines = q.machines,
                            .scored = c.scored,
                            .held_out = c.split == "held_out",
                            .reference = c.split == "reference",
                            .repeated = !s.measurements.insert(measurement_key(c, t)).second,
                            .published_pct = published_pct(t, q),
                            .predicted_pct = q.efficiency_pct,
                            .formula_pct = q.formula_pct,
                            .interval = {q.low_pct, q.high_pct},
                            .equally_wide = equally_wide_intervals().around(q)});
        const ScoredPoint& row = s.points.back();
        if (row.repeated) continue;
        if (row.counts()) {
            s.several_machines.add(row);
            s.groups[row.group].add(row);
            s.stacks[row.stack].add(row);
        } else if (row.machines > 1) {
            s.others.add(row);
        } else if (row.scored && !row.reference) {
            s.one_machine.add(row);
        }
    }
}

namespace {

IntervalQuality quality_of_points(const Score& s, Interval ScoredPoint::* interval) {
    std::map<std::string, std::size_t> folds;
    std::vector<JudgedInterval> rows;
    for (const ScoredPoint& p : s.points)
        if (p.counts() && p.interval.high > 0)
            rows.push_back({folds.try_emplace(p.source, folds.size()).first->second, p.*interval,
                            p.published_pct});
    return quality_of(rows);
}

}  // namespace

IntervalQuality intervals_of(const Score& s) {
    return quality_of_points(s, &ScoredPoint::interval);
}
IntervalQuality equally_wide_intervals_of(const Score& s) {
    return quality_of_points(s, &ScoredPoint::equally_wide);
}

namespace {

/// The smallest target with a value that has more GPUs than the base; null: none.
Point* smallest_above(const Point& base, std::vector<Point>& points) {
    Point* best = nullptr;
    for (Point& p : points) {
        if (p.role != Point::Role::target || !p.published || p.phase != base.phase) continue;
        const auto more = [&](const Point& than) {
            return p.gpus > 0 && than.gpus > 0 ? p.gpus - than.gpus : p.nodes - than.nodes;
        };
        if (more(base) > 0 && (best == nullptr || more(*best) < 0)) best = &p;
    }
    return best;
}

}  // namespace

std::vector<Case> swapped(const std::vector<Case>& cases) {
    std::vector<Case> all;
    for (Case c : cases) {
        const auto base = std::ranges::find(c.points, Point::Role::base, &Point::role);
        if (!c.error.empty() || base == c.points.end()) continue;
        Point* const from = smallest_above(*base, c.points);
        if (from == nullptr) continue;
        for (Point& p : c.points)
            if (&p != from && &p != &*base) p.role = Point::Role::other;
        from->role = Point::Role::base;
        base->role = Point::Role::target;
        std::swap(from->given, from->published);
        std::swap(base->given, base->published);
        base->published_efficiency_pct.reset();
        if (from->unit.empty()) from->unit = base->unit;
        all.push_back(std::move(c));
    }
    return all;
}

Score score(const std::vector<Case>& cases, const Calibration& k) {
    Score s;
    Predictor predict(k);
    for (const Case& c : cases)
        if (!c.error.empty() || c.asks()) add(s, c, predict(c), c.group);
    return s;
}

}  // namespace gx::tools::predict
