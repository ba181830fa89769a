// Machines that are neither rented nor NVIDIA's: a node of MN-1, a workstation.
#pragma once

#include <gx/sim/catalog/gpus.hpp>     // p100_pcie, gtx_1080_ti
#include <gx/sim/hardware/wiring.hpp>  // grouped

namespace gx::sim::machine {

using namespace gx::literals;

namespace detail {
[[nodiscard]] constexpr MachineSpec mn_1(Label name, BytesPerSecond nic) {
    MachineSpec m{.name = name,
                  .gpu = p100_pcie(),
                  .gpus = 8,
                  .nic_line_rate = nic,
                  .host_memory = 256_GB,
                  .price_date = "not for rent"};
    m.wiring = wiring::grouped({.per_switch = 4});
    m.wiring.nic[0] = {.rate = wiring::pcie3_x8, .socket = 0};
    return m;
}
}  // namespace detail

/// A node of MN-1: eight P100, two Xeon E5-2667, 256 GB; its InfiniBand FDR, 56 Gb/s.
/// Source: Akiba, Suzuki and Fukuda 2017, arXiv:1711.04325, section 4 (node); the P100 are taken to
///         be PCIe boards, four under a switch at each socket, and the NIC at socket 0 in an x8
///         slot: assumptions.
[[nodiscard]] constexpr MachineSpec mn_1_fdr() { return detail::mn_1("MN-1-FDR", 56_Gbps); }
/// The same node on its 10 Gb/s Ethernet.
[[nodiscard]] constexpr MachineSpec mn_1_10g() { return detail::mn_1("MN-1-10GbE", 10_Gbps); }

/// Two GTX 1080 Ti in the two x8 slots of a desktop's CPU, and 1 Gb/s Ethernet.
/// Source: PCIe 3 x8 each where an x16 port is shared (Intel's desktop CPUs); memory assumed.
[[nodiscard]] constexpr MachineSpec workstation() {
    MachineSpec m{.name = "workstation",
                  .gpu = gtx_1080_ti(),
                  .gpus = 2,
                  .nic_line_rate = 1_Gbps,
                  .host_memory = 64_GB,
                  .price_date = "not for rent"};
    m.wiring =
        wiring::grouped({.gpus = 2, .per_switch = 1, .sockets = 1, .pcie = wiring::pcie3_x8});
    m.wiring.nic[0] = {.rate = wiring::pcie3_x8, .socket = 0};
    return m;
}

}  // namespace gx::sim::machine
