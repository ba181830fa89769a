// ready_points: when gradients are final during a backward pass, as watermarks by operation.
#pragma once

#include <cstddef>  // size_t
#include <span>     // slices
#include <vector>   // watermarks

#include <gx/core/decl.hpp>    // GX_DECL
#include <gx/core/device.hpp>  // ParameterSlice
#include <gx/model/graph.hpp>  // Graph

namespace gx::sim {

/// Watermarks of a backward pass: once operation i has run backward, all gradients of the flat
/// vector from element `ready_points(...)[i]` up are final.
///
///     ready_points(graph)           in the graph's canonical layout
///     ready_points(graph, slices)   in the layout of a device that trains the graph
///     ready_points(timed, real)     of another graph of `real` elements: the same share of them,
///                                   rounded up, so that no gradient is ready too early
[[nodiscard]] GX_DECL std::vector<std::size_t> ready_points(const Graph& graph);
[[nodiscard]] GX_DECL std::vector<std::size_t> ready_points(const Graph& graph,
                                                            std::span<const ParameterSlice> slices);
[[nodiscard]] GX_DECL std::vector<std::size_t> ready_points(const Graph& timed, std::size_t real);

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/compute/impl/ready_points.ipp>
#endif
