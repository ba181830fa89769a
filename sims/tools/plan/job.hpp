// The job that options ask for.
#pragma once

#include <cstdint>  // parameters

#include <gx/model/graph.hpp>             // Graph, GraphOptions
#include <gx/sim/catalog/find_model.hpp>  // KnownModel
#include <tools/plan/candidate.hpp>       // Job
#include <tools/plan/arguments.hpp>       // Arguments

namespace gx::tools::plan {

/// Errors: gx::Error for an option that needs the graph of a known network, and the other way
///         round.
void expect_options_of_model(const Arguments& o);

/// Errors: gx::Error for a length of images, and for one that the network can't take, with its
///         reason.
[[nodiscard]] GraphOptions graph_options(const Arguments& o, const sim::KnownModel& model);

/// The job of a known network, whose graph is of graph_options().
/// Errors: gx::Error naming the option, as the phase, and what was expected: for phases that don't
///         follow one another or whose images don't fit the network, for sequences whose number is
///         not given, and for a step of more examples than there are.
[[nodiscard]] Job known_job(const Arguments& o, const sim::KnownModel& model, const Graph& graph);
/// The job of a network of the user's own.
/// Errors: gx::Error for a step of more examples than there are.
[[nodiscard]] Job own_job(const Arguments& o, std::int64_t parameters);

}  // namespace gx::tools::plan
