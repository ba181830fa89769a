// find_machine("p3.16xlarge"): known machines by name.
#pragma once

#include <algorithm>    // none_of
#include <array>        // the table
#include <string>       // sentences
#include <string_view>  // names
#include <vector>       // the known names

#include <gx/core/error.hpp>                  // Error
#include <gx/io/nearest.hpp>                  // suggested_name, known_names
#include <gx/sim/catalog/find_gpu.hpp>        // known_gpus, names_gpu
#include <gx/sim/catalog/machines/aws.hpp>    // p2 to p5, g4dn, g5
#include <gx/sim/catalog/machines/azure.hpp>  // NC, ND
#include <gx/sim/catalog/machines/dgx.hpp>    // DGX
#include <gx/sim/catalog/machines/gcp.hpp>    // N1, A2, A3, G2
#include <gx/sim/catalog/machines/other.hpp>  // MN-1, workstation

namespace gx::sim {

/// Every machine by name, as functions of no argument. Of those with the same GPUs the first lends
/// published cases its name and wiring (sims/tools/predict): new ones stand behind.
// clang-format off
inline constexpr std::array<MachineSpec (*)(), 39> machine_makers{
    machine::p2_xlarge, machine::p2_8xlarge, machine::p2_16xlarge, machine::p3_2xlarge,
    machine::p3_8xlarge, machine::p3_16xlarge, machine::p3dn_24xlarge, machine::p4d_24xlarge,
    machine::p4de_24xlarge, machine::p5_48xlarge, machine::p5e_48xlarge, machine::p5en_48xlarge,
    machine::g4dn_xlarge, machine::g4dn_12xlarge, machine::g4dn_metal, machine::g5_xlarge,
    machine::g5_48xlarge,
    machine::dgx_1p, machine::dgx_1v, machine::dgx_2, machine::dgx_a100, machine::dgx_h100,
    machine::nc24rs_v3, machine::nc96ads_a100_v4, machine::nd40rs_v2, machine::nd96asr_v4,
    machine::nd96amsr_a100_v4, machine::nd96isr_h100_v5,
    machine::n1_standard_96_v100, machine::a2_highgpu_8g, machine::a2_megagpu_16g,
    machine::a2_ultragpu_8g, machine::a3_highgpu_8g, machine::a3_megagpu_8g,
    machine::g2_standard_4, machine::g2_standard_96,
    machine::mn_1_fdr, machine::mn_1_10g, machine::workstation};
// clang-format on

namespace detail::machine_names {

/// "machines with that GPU are p4d.24xlarge, DGX-A100"; empty where `name` names no GPU.
[[nodiscard]] inline std::string machines_with_gpu(std::string_view name) {
    const auto is_named = [&](const GpuSpec& gpu) { return names_gpu(name, gpu); };
    if (std::ranges::none_of(known_gpus, is_named)) return {};
    std::string names;
    for (const auto make : machine_makers) {
        const MachineSpec m = make();
        if (!is_named(m.gpu)) continue;
        names += (names.empty() ? "" : ", ") + std::string(m.name.view());
    }
    return names.empty() ? "no known machine has that GPU" : "machines with that GPU are " + names;
}

}  // namespace detail::machine_names

/// Azure's sizes with or without their "Standard_".
/// Errors: gx::Error with the nearest known name and all others; for the name of a GPU, with the
///         machines that have it.
[[nodiscard]] inline MachineSpec find_machine(std::string_view name) {
    const bool is_whole = name.starts_with("Standard_") || name.starts_with("standard_");
    const std::string_view size = is_whole ? name.substr(9) : name;
    std::vector<Label> labels;
    for (const auto make : machine_makers) {
        MachineSpec m = make();
        const bool is_azures = m.name.view().starts_with("N");  // NC, ND; no other's name does
        if (m.name.view() == (is_azures ? size : name)) return m;
        labels.push_back(m.name);
    }
    const std::vector<std::string_view> known(labels.begin(), labels.end());
    const std::string_view suggested = suggested_name(size, known);
    const std::string with_gpu = detail::machine_names::machines_with_gpu(name);
    const bool near =
        !suggested.empty() && (with_gpu.empty() || with_gpu.find(suggested) != std::string::npos);
    const std::string unknown = "unknown machine '" + std::string(name) + "': ";
    if (near)
        throw Error(unknown + "did you mean '" + std::string(suggested) + "'? (" +
                    known_names(known) + ")");
    throw Error(unknown + (with_gpu.empty() ? "" : with_gpu + "; ") + known_names(known));
}

}  // namespace gx::sim
