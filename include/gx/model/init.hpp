// initial_parameters, initial_statistics: initial values, from names and a seed alone.
#pragma once

#include <cstdint>  // uint64_t
#include <span>     // flat vectors

#include <gx/core/decl.hpp>    // GX_DECL
#include <gx/model/graph.hpp>  // Graph, Parameter

namespace gx {

/// Initial values of one parameter: weights are normal with mean 0 and variance 2 / fan_in (He et
/// al., forward variant, linear layers too), biases and beta are 0, gamma is 1, or 0 where
/// Parameter::zero is set. Element i of parameter p is draw i of the stream "parameter <name of
/// p>": a layer added or removed elsewhere, or a renumbered list, changes nothing here.
/// Shapes: values has parameter.count elements, in the canonical layout.
/// Order:  equal seeds and names give equal bits everywhere.
/// Source: He et al. 2015, arXiv:1502.01852, equation 10.
GX_DECL void initial_parameter(const Parameter& parameter, std::uint64_t seed,
                               std::span<float> values);

/// All parameters of a graph, in the canonical layout.
/// Shapes: canonical has graph.parameter_elements() elements.
GX_DECL void initial_parameters(const Graph& graph, std::uint64_t seed, std::span<float> canonical);

/// Running means 0 and running variances 1, as Graph::statistics lists them.
GX_DECL void initial_statistics(const Graph& graph, std::span<float> statistics);

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/model/impl/init.ipp>
#endif
