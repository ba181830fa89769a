// The search space that options ask for, and what it rests on.
#pragma once

#include <vector>  // inputs

#include <gx/model/graph.hpp>        // Graph
#include <tools/plan/inputs.hpp>     // Input, StepInput
#include <tools/plan/arguments.hpp>  // Arguments
#include <tools/plan/search.hpp>     // SearchSpace

namespace gx::tools::plan {

using Inputs = std::vector<Input>;

/// Machines, counts, reducers and wires, with what is measured or assumed of networks.
/// Errors: gx::Error naming the option, for machines of one name, files that can't be read, rates
///         of several machines, and where each machine has more GPUs than are allowed.
[[nodiscard]] SearchSpace space_of(const Arguments& o, Inputs& inputs);

/// The measured step, with the text of its trace and its examples.
/// Errors: gx::Error for a trace that can't be read.
[[nodiscard]] StepInput step_of(const Arguments& o);

/// Gives the space the step of a known network that its candidates are timed with: the measured
/// one, else the roofline's.
/// Errors: those of step_of(), read_step() and expect_possible(); gx::Error for examples of a step
///         that was not measured.
void set_step(SearchSpace& space, const Arguments& o, const Graph& graph, Inputs& inputs);

}  // namespace gx::tools::plan
