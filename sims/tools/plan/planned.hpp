// Planned: a job, where it may run, what is assumed of that, and what was found.
#pragma once

#include <vector>  // candidates

#include <tools/plan/candidate.hpp>  // Job, Candidate
#include <tools/plan/arguments.hpp>  // Arguments
#include <tools/plan/space.hpp>      // SearchSpace, Inputs

namespace gx::tools::plan {

struct Planned {
    Job job{};
    SearchSpace space{};
    Inputs inputs{};
    std::vector<Candidate> candidates{};
};

}  // namespace gx::tools::plan
