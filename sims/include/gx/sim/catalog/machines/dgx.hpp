// NVIDIA's DGX machines: DGX-1 with P100 or V100, DGX-2, DGX A100, DGX H100.
#pragma once

#include <cstddef>  // size_t

#include <gx/sim/catalog/gpus.hpp>     // p100, v100, a100, h100
#include <gx/sim/hardware/wiring.hpp>  // grouped, meshes

// Source: NVIDIA's data sheets and user guides for GPUs, NICs and memory; the order of PCIe
//         switches as `nvidia-smi topo -m` prints it for these machines (DGX-2: NVIDIA/nccl-tests
//         issue 78). They are not rented by the hour; the purchase price of a DGX-1 is that of 2017
//         (BEEVA). Others unknown.
namespace gx::sim::machine {

using namespace gx::literals;

namespace detail {
/// Four pairs of GPUs, a PCIe switch and an EDR NIC for each; Broadwell.
[[nodiscard]] constexpr MachineSpec dgx_1(Label name, const GpuSpec& gpu) {
    MachineSpec m{.name = name,
                  .gpu = gpu,
                  .gpus = 8,
                  .nic_line_rate = 100_Gbps,
                  .nics = 4,
                  .host_memory = 512_GB,
                  .price_date = "not for rent; purchase: 2017",
                  .purchase_price = {149'000}};
    m.wiring = wiring::grouped({});
    wiring::nics_under_switches(m.wiring, 1, wiring::pcie3_x16);
    return m;
}
}  // namespace detail

[[nodiscard]] constexpr MachineSpec dgx_1p() {
    MachineSpec m = detail::dgx_1("DGX-1P", p100());
    wiring::p100_mesh(m.wiring);
    return m;
}
[[nodiscard]] constexpr MachineSpec dgx_1v() {
    MachineSpec m = detail::dgx_1("DGX-1V", v100());
    wiring::v100_mesh(m.wiring);
    return m;
}
/// 16 V100 on NVSwitch. Two GPUs and an EDR NIC are under a PCIe switch, two of these under
/// another, two of those at each socket.
[[nodiscard]] constexpr MachineSpec dgx_2() {
    MachineSpec m{.name = "DGX-2",
                  .gpu = v100_sxm3(),
                  .gpus = 16,
                  .nic_line_rate = 100_Gbps,
                  .nics = 8,
                  .host_memory = {1'500'000'000'000},
                  .price_date = "unknown"};
    Wiring& w = m.wiring = wiring::grouped({.gpus = 16, .socket_link = wiring::upi_skylake});
    wiring::nics_under_switches(w, 1, wiring::pcie3_x16);
    for (int s = 0; s < 8; ++s) w.pcie_switch[static_cast<std::size_t>(s)].under = 8 + s / 2;
    for (int s = 0; s < 4; ++s)
        w.pcie_switch[static_cast<std::size_t>(8 + s)] = {.rate = wiring::pcie3_x16,
                                                          .socket = s / 2};
    w.switches = 12;
    wiring::nvswitch(w, wiring::v100_ports);
    return m;
}
/// Eight A100 on NVSwitch; two GPUs and two HDR NICs under each PCIe switch; AMD Rome.
[[nodiscard]] constexpr MachineSpec dgx_a100() {
    MachineSpec m{.name = "DGX-A100",
                  .gpu = a100_40gb(),
                  .gpus = 8,
                  .nic_line_rate = 200_Gbps,
                  .nics = 8,
                  .host_memory = {1'000'000'000'000},
                  .price_date = "unknown"};
    Wiring& w = m.wiring = wiring::grouped(
        {.pcie = wiring::pcie4_x16, .socket_link = wiring::amd_zen, .peer_penalty = 1});
    wiring::nics_under_switches(w, 2, wiring::pcie4_x16);
    wiring::nvswitch(w, wiring::a100_ports);
    return m;
}
/// Eight H100 on NVSwitch; each GPU shares a PCIe switch with an NDR NIC; Sapphire Rapids.
[[nodiscard]] constexpr MachineSpec dgx_h100() {
    MachineSpec m{.name = "DGX-H100",
                  .gpu = h100(),
                  .gpus = 8,
                  .nic_line_rate = 400_Gbps,
                  .nics = 8,
                  .host_memory = {2'000'000'000'000},
                  .price_date = "unknown"};
    Wiring& w = m.wiring = wiring::grouped(
        {.per_switch = 1, .pcie = wiring::pcie5_x16, .socket_link = wiring::upi_sapphire_rapids});
    wiring::nics_under_switches(w, 1, wiring::pcie5_x16);
    wiring::nvswitch(w, wiring::h100_ports);
    return m;
}

}  // namespace gx::sim::machine
