// Bodies of head.hpp.
#pragma once

#include <string>   // sentences
#include <utility>  // move

#include <gx/core/error.hpp>  // Error
#include <gx/model/head.hpp>

namespace gx {

GX_DECL Graph prefix_of(const Graph& graph, std::string_view name) {
    const GraphCut cut = cut_before(graph, name);
    const std::string network = "network '" + std::string(graph.name.view()) + "'";
    if (cut.first <= 0)
        throw Error(network + " has no layer '" + std::string(name) +
                    "' behind its input. Name one as its parameters are, without '.weight'.");
    if (cut.tensor < 0)
        throw Error(network + " can't be cut before layer '" + std::string(name) +
                    "': more than one tensor crosses the cut. Cut before a whole block.");
    const auto elements = static_cast<int>(graph.tensors[std::size_t(cut.tensor)].elements());
    Graph out = graph;
    out.classes = elements;
    out.ops.resize(std::size_t(cut.first));
    out.tensors.resize(std::size_t(cut.first));
    std::size_t parameters = 0, statistics = 0;
    for (const Op& op : out.ops) {
        parameters += std::size_t(op.parameter_count);
        statistics += op.kind == OpKind::batch_norm ? 2 : 0;
    }
    out.parameters.resize(parameters);
    out.statistics.resize(statistics);
    const auto append = [&](Op op, ImageShape shape) {
        op.output = static_cast<int>(out.tensors.size());
        out.tensors.push_back(shape);
        out.ops.push_back(op);
        return op.output;
    };
    const int flat =
        append({.kind = OpKind::flatten, .inputs = {cut.tensor, -1}, .name = "features"},
               {elements, 1, 1});
    append({.kind = OpKind::softmax_cross_entropy, .inputs = {flat, -1}, .name = "loss"},
           {1, 1, 1});
    return out;
}

}  // namespace gx
