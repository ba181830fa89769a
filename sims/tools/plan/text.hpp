// A plan as text, for readers.
#pragma once

#include <string>  // sentences
#include <vector>  // sentences

#include <tools/plan/planned.hpp>  // Planned

namespace gx::tools::plan {

/// What a plan rests on: its inputs, and what a step is assumed to pay beside computation and wire.
[[nodiscard]] std::vector<std::string> assumptions(const predict::Stack& s, const Inputs& inputs);

/// Prints the front, what the plan rests on, and the best of what is dominated or infeasible.
void print(const Planned& planned, const Arguments& o);

}  // namespace gx::tools::plan
