// FusionAnswers: the fusions that cuDNN has for a network's layers, by reference/cudnn/<gpu>.json.
#pragma once

#include <algorithm>    // find_if
#include <set>          // layers
#include <string>       // their names
#include <string_view>  // a file's text
#include <utility>      // pair
#include <vector>       // refusals

#include <gx/core/error.hpp>     // Error
#include <gx/io/json_value.hpp>  // read_json

#include "questions.hpp"  // DnnFusion, PlannedNetwork

namespace gx::cuda {

class FusionAnswers {
public:
    /// Errors: JsonError; gx::Error where the text has no plans of the network.
    FusionAnswers(std::string_view json, const PlannedNetwork& of)
        : FusionAnswers(read_json(json), of) {}

    [[nodiscard]] const std::string& gpu() const { return gpu_; }
    [[nodiscard]] const std::string& cudnn() const { return cudnn_; }
    [[nodiscard]] bool takes(DnnFusion fusion, const Op& conv) const {
        return taken_.contains({fusion, std::string(conv.name.view())});
    }
    struct Refusal {
        DnnFusion fusion = DnnFusion::none;
        std::vector<std::string> layers{};
        std::size_t asked = 0;  ///< of how many
    };
    /// Of the fusions that were refused for any layer.
    [[nodiscard]] const std::vector<Refusal>& refusals() const { return refusals_; }

private:
    FusionAnswers(const JsonValue& file, const PlannedNetwork& of)
        : gpu_(file.at("gpu").string()), cudnn_(file.at("cudnn").string()) {
        const auto& networks = file.at("networks").array();
        const auto at = std::ranges::find_if(networks, [&](const JsonValue& n) {
            return n.at("network").string() == of.graph.name.view() &&
                   n.at("batch").integer<int>() == of.batch &&
                   n.at("compute").string() == to_string(of.compute);
        });
        if (at == networks.end())
            throw Error("no plans of '" + std::string(of.graph.name.view()) +
                        "' are in the file. Write it anew by ./gx cuda-plans.");
        read(at->at("plans").array());
    }
    void read(const std::vector<JsonValue>& plans) {
        for (const DnnFusion fusion : dnn_fusions) {
            Refusal refusal{.fusion = fusion};
            for (const JsonValue& p : plans) {
                if (p.at("pattern").string() != to_string(fusion)) continue;
                const bool taken = p.at("plans").kind == JsonValue::Kind::array;
                for (const JsonValue& layer : p.at("layers").array()) {
                    ++refusal.asked;
                    if (taken) taken_.insert({fusion, layer.string()});
                    else refusal.layers.push_back(layer.string());
                }
            }
            if (!refusal.layers.empty()) refusals_.push_back(std::move(refusal));
        }
    }

    std::string gpu_, cudnn_;
    std::set<std::pair<DnnFusion, std::string>> taken_{};
    std::vector<Refusal> refusals_{};
};

}  // namespace gx::cuda
