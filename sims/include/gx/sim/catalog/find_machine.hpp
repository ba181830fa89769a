// find_machine("p3.16xlarge"): known machines by name.
#pragma once

#include <array>        // the table
#include <string_view>  // names
#include <vector>       // the known names

#include <gx/core/error.hpp>                  // Error
#include <gx/io/nearest.hpp>                  // unknown_name
#include <gx/sim/catalog/machines/aws.hpp>    // p2 to p5
#include <gx/sim/catalog/machines/dgx.hpp>    // DGX
#include <gx/sim/catalog/machines/other.hpp>  // MN-1, workstation

namespace gx::sim {

/// Every machine by name, as functions of no argument.
inline constexpr std::array<MachineSpec (*)(), 17> machine_makers{
    machine::p2_xlarge,   machine::p2_8xlarge,  machine::p2_16xlarge,   machine::p3_2xlarge,
    machine::p3_8xlarge,  machine::p3_16xlarge, machine::p3dn_24xlarge, machine::p4d_24xlarge,
    machine::p5_48xlarge, machine::dgx_1p,      machine::dgx_1v,        machine::dgx_2,
    machine::dgx_a100,    machine::dgx_h100,    machine::mn_1_fdr,      machine::mn_1_10g,
    machine::workstation};

/// Errors: gx::Error with the nearest known name.
[[nodiscard]] inline MachineSpec find_machine(std::string_view name) {
    std::vector<Label> labels;
    for (const auto make : machine_makers) {
        MachineSpec m = make();
        if (m.name.view() == name) return m;
        labels.push_back(m.name);
    }
    const std::vector<std::string_view> known(labels.begin(), labels.end());
    throw Error(unknown_name("machine", name, known));
}

}  // namespace gx::sim
