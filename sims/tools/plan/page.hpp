// page(candidates, job): a plan as one page of HTML that loads nothing from the network.
#pragma once

#include <string>
#include <vector>

#include <tools/plan/candidate.hpp>  // Candidate, Job

namespace gx::tools::plan {

/// The Pareto front, a picture, and every other candidate with the reason why it is dominated.
/// `assumptions` are sentences below the front.
[[nodiscard]] std::string page(const std::vector<Candidate>& candidates, const Job& job,
                               const std::vector<std::string>& assumptions = {});

}  // namespace gx::tools::plan
