// Predictor: a published case's targets from its conditions and given values.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tools/common/json.hpp>         // Json
#include <tools/predict/case_model.hpp>  // Prediction

namespace gx::tools::predict {

/// Predicts cases one by one; what was simulated for one is kept for the next.
///
/// Each point has an 80 % interval (interval.hpp). Only `conditions` and the values of points of
/// role base and given are used.
/// Errors: none are thrown; a case that cannot be predicted holds a sentence in `error`.
/// Order:  equal cases give equal predictions, whatever was predicted before.
class Predictor {
public:
    /// `network`: measured (a cluster file, nccl-tests), in place of that of the conditions.
    explicit Predictor(const Calibration& k = calibrated(),
                       std::optional<sim::ClusterSpec> network = {})
        : k_(k), network_(std::move(network)) {}

    [[nodiscard]] Prediction operator()(const Case& c);

    /// Messages that went through the simulated network so far.
    [[nodiscard]] std::uint64_t simulated() const { return wire_.simulated(); }

private:
    Calibration k_;
    std::optional<sim::ClusterSpec> network_;
    WireTime wire_{};
};

/// A line for each point, below a header; empty where there is none.
[[nodiscard]] std::string table(const std::vector<Prediction>& predictions);

/// A prediction as JSON, rounded to six digits behind the point.
[[nodiscard]] Json to_json(const Prediction& p);

}  // namespace gx::tools::predict
