// known_machines(): the names in a refusal of an unknown machine, in the catalog's order.
#pragma once

#include <string>  // names

#include <gx/sim/catalog/find_machine.hpp>  // machine_makers

namespace testing_support {

/// "p2.xlarge, p2.8xlarge, ..."
inline std::string known_machines() {
    std::string names;
    for (const auto make : gx::sim::machine_makers)
        names += (names.empty() ? "" : ", ") + std::string(make().name.view());
    return names;
}

}  // namespace testing_support
