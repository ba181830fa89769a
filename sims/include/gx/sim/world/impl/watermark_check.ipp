// The sentence about a gradient that changed after it was reported.
#pragma once

#include <string>  // sentences

#include <gx/core/error.hpp>                 // Error
#include <gx/model/graph.hpp>                // Graph
#include <gx/sim/world/watermark_check.hpp>  // the declarations

namespace gx::sim {

namespace detail::watermark {

GX_COLD GX_DECL std::string named(const Graph& graph, int parameter) {
    std::string text =
        "'" + std::string(graph.parameters.at(static_cast<std::size_t>(parameter)).name.view()) +
        "'";
    for (const Op& op : graph.ops)
        if (parameter >= op.first_parameter && parameter < op.first_parameter + op.parameter_count)
            text += " of layer '" + std::string(op.name.view()) + "'";
    return text;
}

}  // namespace detail::watermark

GX_DECL void WatermarkCheck::fail(std::size_t element, const Graph& graph,
                                  std::span<const ParameterSlice> slices) const {
    std::size_t mark = end_;
    for (const std::size_t m : marks_)
        if (m <= element) {
            mark = m;
            break;
        }
    std::string which = "padding";
    for (const ParameterSlice& s : slices)
        if (element >= s.offset && element - s.offset < s.count)
            which = detail::watermark::named(graph, s.parameter);
    throw Error("backward reported the gradients from element " + std::to_string(mark) +
                " on as ready, and then changed element " + std::to_string(element) + ", of " +
                which +
                ": a device calls ready(watermark) after the last write to any of "
                "them. Move the call behind that layer's backward.");
}

GX_DECL void WatermarkCheck::begin(std::span<const float> gradients) {
    gradients_ = gradients;
    seen_.resize(gradients.size());
    end_ = gradients.size();
    marks_.clear();
}

}  // namespace gx::sim
