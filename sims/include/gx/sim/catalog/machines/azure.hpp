// Machines of Microsoft Azure: NC (V100, A100), ND v2 (V100), v4 (A100), v5 (H100).
#pragma once

#include <gx/sim/catalog/gpus.hpp>     // v100, a100, h100
#include <gx/sim/hardware/wiring.hpp>  // grouped, v100_mesh

// Names are those of the sizes without "Standard_".
// Source: GPUs, memory, CPUs and InfiniBand: the series' pages of 2024 and 2025 in MicrosoftDocs/
//         azure-docs and azure-compute-docs (sizes/gpu-accelerated); that NCv3 has FDR, on
//         ConnectX-3 Pro: azure-docs, workloads/hpc/configure.md. Sockets, switches and NICs of ND
//         and of NC A100 v4: NCCL topology files of Azure/azhpc-images (topology/*.xml).
//         Prices: eastus, on demand, from the list of 18 June 2026 in Azure/
//         karpenter-provider-azure (zz_generated.pricing.go); that of NC96ads_A100_v4 is Linux's of
//         several public lists, where github.com/datareceipts/data-receipts of 9 November 2026 has
//         19.108: with Windows, at 0.046 a virtual CPU. It has those of ND96asr_v4 and
//         ND96isr_H100_v5 unchanged. NC24rs_v3 was retired in September 2025.
//         Profiles: InfiniBand with GPUDirect, or TCP of the kernel; no cap of a flow is stated.
namespace gx::sim::machine {

using namespace gx::literals;

/// Four V100 on PCIe and an InfiniBand FDR. Two GPUs at each of two sockets (Broadwell), the NIC at
/// socket 0 in an x8 slot: the wiring is an assumption.
[[nodiscard]] constexpr MachineSpec nc24rs_v3() {
    MachineSpec m{.name = "NC24rs_v3",
                  .gpu = v100_pcie(),
                  .gpus = 4,
                  .nic_line_rate = 56_Gbps,
                  .price = {13.46},
                  .host_memory = 448_GiB,
                  .price_date = "eastus, June 2026; spot unknown",
                  .profile = "nccl-2.10+ib-fdr"};
    m.wiring = wiring::grouped({.gpus = 4});
    m.wiring.nic[0] = {.rate = wiring::pcie3_x8, .socket = 0};
    return m;
}
/// Four A100 on PCIe, one in each quarter of an AMD Milan, and 80 Gb/s of Ethernet. NVLink bridges
/// are not stated, and none are here.
[[nodiscard]] constexpr MachineSpec nc96ads_a100_v4() {
    MachineSpec m{.name = "NC96ads_A100_v4",
                  .gpu = a100_pcie_80gb(),
                  .gpus = 4,
                  .nic_line_rate = 80_Gbps,
                  .price = {14.692},
                  .host_memory = 880_GiB,
                  .price_date = "eastus, undated lists; spot unknown",
                  .profile = "nccl-2.10+tcp-10g"};
    m.wiring = wiring::grouped({.gpus = 4,
                                .per_switch = 1,
                                .sockets = 4,
                                .pcie = wiring::pcie4_x16,
                                .socket_link = wiring::amd_zen,
                                .peer_penalty = 1});
    m.wiring.nic[0] = {.rate = wiring::pcie4_x16, .socket = 0};
    return m;
}
/// Eight V100 on NVLink and an InfiniBand EDR at socket 0, two Skylakes. That the mesh is a
/// DGX-1V's and pairs of GPUs share a switch are assumptions.
[[nodiscard]] constexpr MachineSpec nd40rs_v2() {
    MachineSpec m{.name = "ND40rs_v2",
                  .gpu = v100_32gb(),
                  .gpus = 8,
                  .nic_line_rate = 100_Gbps,
                  .price = {22.032},
                  .host_memory = 672_GiB,
                  .price_date = "eastus, June 2026; spot unknown",
                  .profile = "nccl-2.10+ib-edr"};
    m.wiring = wiring::grouped({.socket_link = wiring::upi_skylake});
    wiring::v100_mesh(m.wiring);
    m.wiring.nic[0] = {.rate = wiring::pcie3_x16, .socket = 0};
    return m;
}

namespace detail {
/// Eight A100 on NVSwitch; two GPUs and two InfiniBand HDR in each quarter of two AMD Romes.
[[nodiscard]] constexpr MachineSpec nd_v4(Label name, const GpuSpec& gpu, DollarsPerHour price,
                                          Bytes memory) {
    MachineSpec m{.name = name,
                  .gpu = gpu,
                  .gpus = 8,
                  .nic_line_rate = 200_Gbps,
                  .price = price,
                  .nics = 8,
                  .host_memory = memory,
                  .price_date = "eastus, June 2026; spot unknown",
                  .profile = "nccl-2.10+ib-edr"};
    Wiring& w = m.wiring = wiring::grouped({.sockets = 4,
                                            .pcie = wiring::pcie4_x16,
                                            .socket_link = wiring::amd_zen,
                                            .peer_penalty = 1});
    wiring::nics_under_switches(w, 2, wiring::pcie4_x16);
    wiring::nvswitch(w, wiring::a100_ports);
    return m;
}
}  // namespace detail

[[nodiscard]] constexpr MachineSpec nd96asr_v4() {
    return detail::nd_v4("ND96asr_v4", a100_40gb(), {27.197}, 900_GiB);
}
[[nodiscard]] constexpr MachineSpec nd96amsr_a100_v4() {
    return detail::nd_v4("ND96amsr_A100_v4", a100_80gb(), {32.77}, 1900_GiB);
}
/// Eight H100 on NVSwitch; each GPU shares a PCIe switch with an NDR NIC; two Sapphire Rapids.
[[nodiscard]] constexpr MachineSpec nd96isr_h100_v5() {
    MachineSpec m{.name = "ND96isr_H100_v5",
                  .gpu = h100(),
                  .gpus = 8,
                  .nic_line_rate = 400_Gbps,
                  .price = {98.32},
                  .nics = 8,
                  .host_memory = 1900_GiB,
                  .price_date = "eastus, June 2026; spot unknown",
                  .profile = "nccl-2.10+ib-edr"};
    Wiring& w = m.wiring = wiring::grouped(
        {.per_switch = 1, .pcie = wiring::pcie5_x16, .socket_link = wiring::upi_sapphire_rapids});
    wiring::nics_under_switches(w, 1, wiring::pcie5_x16);
    wiring::nvswitch(w, wiring::h100_ports);
    return m;
}

}  // namespace gx::sim::machine
