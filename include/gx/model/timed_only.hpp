// expect_numbers: throws if a graph can be timed and not computed.
#pragma once

#include <string>  // the sentence

#include <gx/core/error.hpp>   // Error
#include <gx/model/graph.hpp>  // Graph, is_timed_only

namespace gx {

/// Returns `graph`, for a device that computes it.
/// Errors: gx::Error with the first operation of a kind that no device computes yet.
inline const Graph& expect_numbers(const Graph& graph) {
    for (const Op& op : graph.ops)
        if (is_timed_only(op.kind))
            throw Error("'" + std::string(graph.name.view()) + "' is timed only: operation '" +
                        std::string(op.name.view()) + "' is of kind " +
                        std::string(to_string(op.kind)) +
                        ", which has no numbers yet. Train another network and pass this one as "
                        "ClusterOptions::timed_as");
    return graph;
}

}  // namespace gx
