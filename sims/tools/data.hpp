// Data of the tools: the text of each file of sims/tools/data, compiled in.
#pragma once

#include <string_view>

namespace gx::tools::data {

extern const std::string_view gpu_proxies, mechanisms, network_rates, parameter_profiles, stacks;

}  // namespace gx::tools::data
