#include <tools/predict/predict.hpp>

#include <algorithm>  // max, min
#include <cmath>      // round

#include <fmt/format.h>  // lines of a table

#include <gx/core/error.hpp>           // Error
#include <tools/predict/interval.hpp>  // intervals_in_force

namespace gx::tools::predict {

namespace {

/// An interval that reaches over another mechanism's prediction, by as much as over this one's.
Interval reaching(const Interval& now, const Interval& around, double share) {
    return {std::min(now.low, around.low * share), std::max(now.high, around.high * share)};
}

}  // namespace

Prediction Predictor::operator()(const Case& c) {
    Prediction failed{.id = c.id, .file = c.file};
    failed.error = c.error;
    if (!c.error.empty()) return failed;
    try {
        CaseModel model(c, k_, wire_, network_ ? &*network_ : nullptr);
        Prediction p = model.run();
        std::vector<Interval> intervals;
        for (const PredictedPoint& q : p.points)
            intervals.push_back(intervals_in_force().around(q));
        const std::vector<Interval> around = intervals;
        if (!model.stack(k_).known)
            for (const Scheme as : {Scheme::fused, Scheme::buckets, Scheme::after_backward}) {
                const std::vector<PredictedPoint> others = model.points(as);
                for (std::size_t i = 0; i < p.points.size(); ++i)
                    intervals[i] = reaching(intervals[i], around[i],
                                            others[i].efficiency_pct / p.points[i].efficiency_pct);
            }
        for (std::size_t i = 0; i < p.points.size(); ++i) set_interval(p.points[i], intervals[i]);
        return p;
    } catch (const Error& e) {
        failed.error = e.what();
    } catch (const Json::exception& e) {
        failed.error = std::string("conditions: ") + e.what();
    }
    return failed;
}

std::string table(const std::vector<Prediction>& predictions) {
    std::string text;
    for (const Prediction& p : predictions)
        for (const PredictedPoint& q : p.points)
            text += fmt::format(
                "{:<30} {:>5} {:>13.6g} {:<11} {:>24} {:>10.1f} % {:>9.1f} {:>9.1f}\n", p.id,
                q.gpus, q.value, q.unit,
                q.high_pct > 0 ? fmt::format("{:.5g} to {:.5g}", q.low_value, q.high_value) : "-",
                q.efficiency_pct, q.step_ms, q.exposed_ms);
    if (text.empty()) return text;
    return fmt::format("{:<30} {:>5} {:>13} {:<11} {:>24} {:>12} {:>9} {:>9}\n", "case", "GPUs",
                       "predicted", "", "80 % interval", "efficiency", "step ms", "exposed") +
           text;
}

Json to_json(const Prediction& p) {
    Json out{{"id", p.id}};
    if (!p.error.empty()) {
        out["error"] = p.error;
        return out;
    }
    out["machine"] = p.machine;
    out["stack"] = p.stack;
    out["profile"] = p.profile;
    out["assumed"] = p.assumed;
    out["why"] = p.why;
    out["points"] = Json::array();
    const auto round = [](double x) { return std::round(x * 1e6) / 1e6; };
    for (const PredictedPoint& q : p.points) {
        Json row{{"index", q.index},
                 {"gpus", q.gpus},
                 {"value", round(q.value)},
                 {"unit", q.unit},
                 {"efficiency_pct", round(q.efficiency_pct)},
                 {"step_ms", round(q.step_ms)},
                 {"exposed_ms", round(q.exposed_ms)},
                 {"floor_ms", round(q.floor_ms)}};
        if (q.high_pct > 0) {
            row["value_80"] = {round(q.low_value), round(q.high_value)};
            row["efficiency_pct_80"] = {round(q.low_pct), round(q.high_pct)};
        }
        out["points"].push_back(std::move(row));
    }
    return out;
}

}  // namespace gx::tools::predict
