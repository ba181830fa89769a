#include <tools/predict/predict.hpp>

#include <cmath>  // round

#include <gx/core/error.hpp>  // Error

namespace gx::tools::predict {

Prediction Predictor::operator()(const Case& c) {
    Prediction failed{.id = c.id};
    failed.error = c.error;
    if (!c.error.empty()) return failed;
    try {
        return CaseModel(c, k_, wire_).run();
    } catch (const Error& e) {
        failed.error = e.what();
    } catch (const Json::exception& e) {
        failed.error = std::string("conditions: ") + e.what();
    }
    return failed;
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
    out["why"] = p.why;
    out["points"] = Json::array();
    const auto round = [](double x) { return std::round(x * 1e6) / 1e6; };
    for (const PredictedPoint& q : p.points)
        out["points"].push_back({{"index", q.index},
                                 {"gpus", q.gpus},
                                 {"value", round(q.value)},
                                 {"unit", q.unit},
                                 {"efficiency_pct", round(q.efficiency_pct)},
                                 {"step_ms", round(q.step_ms)},
                                 {"exposed_ms", round(q.exposed_ms)},
                                 {"floor_ms", round(q.floor_ms)}});
    return out;
}

}  // namespace gx::tools::predict
