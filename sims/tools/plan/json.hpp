// A plan as JSON: its job, what it rests on, and all candidates.
#pragma once

#include <nlohmann/json.hpp>  // ordered_json

#include <tools/plan/planned.hpp>  // Planned

namespace gx::tools::plan {

[[nodiscard]] nlohmann::ordered_json json_of(const Planned& planned, const Arguments& o);

}  // namespace gx::tools::plan
