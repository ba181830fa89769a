// The lists of reducers that campaigns run, one for each file that compiles them.
#pragma once

#include <vector>  // lists

#include <fuzz/verdict.hpp>  // Subject

namespace gx::sim::fuzz {

[[nodiscard]] std::vector<Subject> ring_subjects();
[[nodiscard]] std::vector<Subject> late_subjects();
[[nodiscard]] std::vector<Subject> tree_subjects();

}  // namespace gx::sim::fuzz
