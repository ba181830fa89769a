// ready_points: one walk over the operations, for three layouts of parameters.
#pragma once

#include <algorithm>  // max
#include <cstdint>    // uint64_t

#include <gx/sim/compute/ready_points.hpp>  // ready_points

namespace gx::sim {

namespace detail {

/// `end_of[p]` is the end of parameter p in the flat vector.
GX_DECL std::vector<std::size_t> ready_points(const Graph& graph,
                                              const std::vector<std::size_t>& end_of) {
    std::vector<std::size_t> after(graph.ops.size(), 0);  // ends of all parameters of earlier ops
    std::size_t end = 0;
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
        after[i] = end;
        for (int p = 0; p < graph.ops[i].parameter_count; ++p)
            end = std::max(end, end_of[static_cast<std::size_t>(graph.ops[i].first_parameter + p)]);
    }
    return after;
}

}  // namespace detail

GX_DECL std::vector<std::size_t> ready_points(const Graph& graph) {
    return ready_points(graph, static_cast<std::size_t>(graph.parameter_elements()));
}
GX_DECL std::vector<std::size_t> ready_points(const Graph& graph,
                                              std::span<const ParameterSlice> slices) {
    std::vector<std::size_t> end_of(graph.parameters.size(), 0);
    for (const ParameterSlice& s : slices)
        end_of[static_cast<std::size_t>(s.parameter)] = s.offset + s.count;
    return detail::ready_points(graph, end_of);
}
GX_DECL std::vector<std::size_t> ready_points(const Graph& timed, std::size_t real) {
    const auto total = static_cast<std::uint64_t>(timed.parameter_elements());
    std::vector<std::size_t> end_of;
    for (const auto& p : timed.parameters) {
        const auto end = static_cast<std::uint64_t>(p.offset + p.count);
        end_of.push_back(static_cast<std::size_t>((real * end + total - 1) / total));
    }
    return detail::ready_points(timed, end_of);
}

}  // namespace gx::sim
