// Machines of Google Cloud: N1 with V100, A2 (A100), A3 (H100), G2 (L4).
#pragma once

#include <gx/sim/catalog/gpus_datasheet.hpp>  // l4
#include <gx/sim/catalog/gpus.hpp>            // v100, a100, h100
#include <gx/sim/hardware/wiring.hpp>         // grouped, v100_mesh

// Source: GPUs, memory, NICs and CPUs: Google's pages on accelerator-optimized machines and on
//         networking of GPU machines, of 2024 to 2026 (docs.cloud.google.com/compute/docs/{gpus,
//         accelerator-optimized-machines,gpus/gpu-network-bandwidth}); Google's GB are GiB. Where
//         GPUs and NICs are plugged in is not published; the wiring is an assumption.
//         Prices: us-central1 (a3-megagpu-8g: us-east4), of 6 March 2025 (github.com/Cyclenerd/
//         google-cloud-pricing-cost-calculator, pricing.yml, commit 0166a59); a2-ultragpu and a3
//         with the SSDs that belong to them. V100: 8 x 2.48 of skypilot-org/skypilot-catalog,
//         catalogs/v2/gcp.csv, and 4.56 of copies of Google's list for n1-standard-96; neither
//         names its day. No source read has a price of G2.
//         Profiles: TCP of the kernel, without a cap of a flow: Google states none inside a
//         network, and 31 of 32 Gb/s were measured (reference/published, gcp-32gbe). A3 moves
//         GPUs' memory to the NIC past the CPU (GPUDirect-TCPX and -TCPXO): RoCE is the nearest of
//         the profiles, and its latency is lower than TCP's.
namespace gx::sim::machine {

using namespace gx::literals;

/// n1-standard-96 with eight of the accelerator nvidia-tesla-v100, taken to be the mesh of a
/// DGX-1V. 32 Gb/s is what an N1 sends; up to 100 Gb/s with gVNIC: set `nic_line_rate`.
[[nodiscard]] constexpr MachineSpec n1_standard_96_v100() {
    MachineSpec m{.name = "n1-standard-96-8xV100",
                  .gpu = v100(),
                  .gpus = 8,
                  .nic_line_rate = 32_Gbps,
                  .price = {24.40},
                  .host_memory = 360_GiB,
                  .price_date = "us-central1, undated lists; spot unknown",
                  .profile = "nccl-2.10+tcp-10g"};
    m.wiring = wiring::grouped({.socket_link = wiring::upi_skylake});
    wiring::v100_mesh(m.wiring);
    m.wiring.nic[0] = {.rate = wiring::pcie3_x16, .socket = 0};
    return m;
}

namespace detail {
/// A100 on NVSwitch, two under a PCIe switch, and a NIC of 100 Gb/s at socket 0; Cascade Lake.
[[nodiscard]] constexpr MachineSpec a2(Label name, const GpuSpec& gpu, int gpus) {
    MachineSpec m{.name = name,
                  .gpu = gpu,
                  .gpus = gpus,
                  .nic_line_rate = 100_Gbps,
                  .price_date = "us-central1, March 2025",
                  .profile = "nccl-2.10+tcp-10g"};
    Wiring& w = m.wiring = wiring::grouped({.gpus = gpus, .socket_link = wiring::upi_skylake});
    w.nic[0] = {.rate = wiring::pcie3_x16, .socket = 0};
    wiring::nvswitch(w, wiring::a100_ports);
    return m;
}
/// Eight H100 on NVSwitch, two under a PCIe switch with their NICs of 200 Gb/s; Sapphire Rapids.
/// One NIC more, of the host, is not here.
[[nodiscard]] constexpr MachineSpec a3(Label name, int nics) {
    MachineSpec m{.name = name,
                  .gpu = h100(),
                  .gpus = 8,
                  .nic_line_rate = 200_Gbps,
                  .nics = nics,
                  .host_memory = 1872_GiB,
                  .profile = "nccl-2.10+roce-100g"};
    Wiring& w = m.wiring =
        wiring::grouped({.pcie = wiring::pcie5_x16, .socket_link = wiring::upi_sapphire_rapids});
    wiring::nics_under_switches(w, nics / w.switches, wiring::pcie5_x16);
    wiring::nvswitch(w, wiring::h100_ports);
    return m;
}
/// L4 on PCIe 3 (Cascade Lake), half of them at each socket, without NVLink.
[[nodiscard]] constexpr MachineSpec g2(Label name, int gpus, BytesPerSecond nic, Bytes memory) {
    MachineSpec m{.name = name,
                  .gpu = l4(),
                  .gpus = gpus,
                  .nic_line_rate = nic,
                  .host_memory = memory,
                  .price_date = "unknown",
                  .profile = "nccl-2.10+tcp-10g"};
    m.wiring = wiring::grouped({.gpus = gpus,
                                .per_switch = 1,
                                .sockets = gpus > 1 ? 2 : 1,
                                .socket_link = wiring::upi_skylake});
    m.wiring.nic[0] = {.rate = wiring::pcie3_x16, .socket = 0};
    return m;
}
}  // namespace detail

[[nodiscard]] constexpr MachineSpec a2_highgpu_8g() {
    MachineSpec m = detail::a2("a2-highgpu-8g", a100_40gb(), 8);
    m.host_memory = 680_GiB;
    m.price = {29.387};
    m.spot_price = {10.347};
    return m;
}
/// All 16 GPUs on one NVSwitch fabric.
[[nodiscard]] constexpr MachineSpec a2_megagpu_16g() {
    MachineSpec m = detail::a2("a2-megagpu-16g", a100_40gb(), 16);
    m.host_memory = 1360_GiB;
    m.price = {55.740};
    m.spot_price = {19.480};
    return m;
}
[[nodiscard]] constexpr MachineSpec a2_ultragpu_8g() {
    MachineSpec m = detail::a2("a2-ultragpu-8g", a100_80gb(), 8);
    m.host_memory = 1360_GiB;
    m.price = {40.550};
    m.spot_price = {16.220};
    return m;
}
[[nodiscard]] constexpr MachineSpec a3_highgpu_8g() {
    MachineSpec m = detail::a3("a3-highgpu-8g", 4);
    m.price = {88.490};
    m.spot_price = {35.396};
    m.price_date = "us-central1, March 2025";
    return m;
}
[[nodiscard]] constexpr MachineSpec a3_megagpu_8g() {
    MachineSpec m = detail::a3("a3-megagpu-8g", 8);
    m.price = {92.938};
    m.spot_price = {37.392};
    m.price_date = "us-east4, March 2025";
    return m;
}
[[nodiscard]] constexpr MachineSpec g2_standard_4() {
    return detail::g2("g2-standard-4", 1, 10_Gbps, 16_GiB);
}
[[nodiscard]] constexpr MachineSpec g2_standard_96() {
    return detail::g2("g2-standard-96", 8, 100_Gbps, 384_GiB);
}

}  // namespace gx::sim::machine
