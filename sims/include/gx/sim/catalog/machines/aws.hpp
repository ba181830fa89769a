// Machines of Amazon EC2: p2 (K80), p3 (V100), p4 (A100), p5 (H100, H200), g4dn, g5.
#pragma once

#include <cstddef>  // size_t

#include <gx/sim/catalog/gpus_datasheet.hpp>  // t4, a10g
#include <gx/sim/catalog/gpus.hpp>            // k80, v100, a100, h100, h200
#include <gx/sim/hardware/wiring.hpp>         // grouped, v100_mesh

// Source: GPUs, memory and rates of the NICs: AWS briefing on P2, March 2017, and P3's launch
//         table. Prices: us-east-1, on demand, from a listing of 2018 and DAWNBench's entries
//         (0.90, 7.20, 14.40, 3.06, 24.48); p3.8xlarge and p3dn.24xlarge from general knowledge.
//         Spot: one later listing for p2 and p3.2xlarge; p3.16xlarge is 66 % below on demand, as
//         the slides of "ImageNet in 18 minutes" of 2018 have it; others unknown.
//         p4d and p5: GPUs, memory and rates as AWS's page on Capacity Blocks of 2024 has them,
//         where they cost 14.75 and 39.33; on demand, as p4de, from a listing of November 2026
//         (github.com/datareceipts/data-receipts), behind AWS's reductions of June 2025 from 32.77
//         and 98.32. p4de, p5e, p5en, g4dn and g5: GPUs, memory, EFA and rates (g4dn.xlarge and
//         g5.xlarge: the sustained ones) as github.com/aws/karpenter-provider-aws of August 2026
//         lists them (reference/instance-types.md); on demand as in its list of 20 July 2026
//         (zz_generated.pricing_aws.go), which has no p5e. CPUs of p5en and g4dn are from general
//         knowledge. Where PCIe switches and NICs are is not published: the wiring is an
//         assumption.
namespace gx::sim::machine {

using namespace gx::literals;

/// Half a K80 board.
[[nodiscard]] constexpr MachineSpec p2_xlarge() {
    MachineSpec m{.name = "p2.xlarge",
                  .gpu = k80(),
                  .gpus = 1,
                  .nic_line_rate = 1.25_Gbps,
                  .price = {0.90},
                  .host_memory = 61_GiB,
                  .spot_price = {0.27},
                  .price_date = "us-east-1; spot: one later listing",
                  .profile = "nccl-2.10+tcp-aws"};
    m.wiring = wiring::grouped({.gpus = 1, .per_switch = 1, .sockets = 1});
    m.wiring.nic[0] = {.rate = wiring::pcie3_x16, .socket = 0};
    return m;
}
/// Four K80 boards. Both halves of a board are under its switch, the boards under another, so that
/// all GPUs are peers without crossing the CPU.
[[nodiscard]] constexpr MachineSpec p2_8xlarge() {
    MachineSpec m{.name = "p2.8xlarge",
                  .gpu = k80(),
                  .gpus = 8,
                  .nic_line_rate = 10_Gbps,
                  .price = {7.20},
                  .host_memory = 488_GiB,
                  .spot_price = {2.16},
                  .price_date = "us-east-1; spot: one later listing",
                  .profile = "nccl-2.10+tcp-aws"};
    Wiring& w = m.wiring = wiring::grouped({.gpus = 8, .per_switch = 2, .sockets = 1});
    w.pcie_switch[4] = {.rate = wiring::pcie3_x16, .socket = 0};
    for (std::size_t board = 0; board < 4; ++board) w.pcie_switch[board].under = 4;
    w.switches = 5;
    w.nic[0] = {.rate = wiring::pcie3_x16, .socket = 0};
    return m;
}
/// Eight K80 boards, four at each of two sockets (Broadwell, QPI), each four as in p2.8xlarge.
[[nodiscard]] constexpr MachineSpec p2_16xlarge() {
    MachineSpec m{.name = "p2.16xlarge",
                  .gpu = k80(),
                  .gpus = 16,
                  .nic_line_rate = 20_Gbps,
                  .price = {14.40},
                  .host_memory = 732_GiB,
                  .spot_price = {4.32},
                  .price_date = "us-east-1; spot: one later listing",
                  .profile = "nccl-2.10+tcp-aws"};
    Wiring& w = m.wiring = wiring::grouped({.gpus = 16, .per_switch = 2, .sockets = 2});
    for (int s = 0; s < 2; ++s)
        w.pcie_switch[static_cast<std::size_t>(8 + s)] = {.rate = wiring::pcie3_x16, .socket = s};
    for (std::size_t board = 0; board < 8; ++board)
        w.pcie_switch[board].under = 8 + static_cast<int>(board) / 4;
    w.switches = 10;
    w.nic[0] = {.rate = wiring::pcie3_x16, .socket = 0};
    return m;
}

[[nodiscard]] constexpr MachineSpec p3_2xlarge() {
    MachineSpec m{.name = "p3.2xlarge",
                  .gpu = v100(),
                  .gpus = 1,
                  .nic_line_rate = 10_Gbps,
                  .price = {3.06},
                  .host_memory = 61_GiB,
                  .spot_price = {0.918},
                  .price_date = "us-east-1; spot: one later listing",
                  .profile = "nccl-2.10+tcp-aws"};
    m.wiring = wiring::grouped({.gpus = 1, .per_switch = 1, .sockets = 1});
    m.wiring.nic[0] = {.rate = wiring::pcie3_x16, .socket = 0};
    return m;
}
[[nodiscard]] constexpr MachineSpec p3_8xlarge() {
    MachineSpec m{.name = "p3.8xlarge",
                  .gpu = v100(),
                  .gpus = 4,
                  .nic_line_rate = 10_Gbps,
                  .price = {12.24},
                  .host_memory = 244_GiB,
                  .price_date = "us-east-1, unverified; spot unknown",
                  .profile = "nccl-2.10+tcp-aws"};
    m.wiring = wiring::grouped({.gpus = 4, .per_switch = 2, .sockets = 1});
    wiring::v100_quad(m.wiring);
    m.wiring.nic[0] = {.rate = wiring::pcie3_x16, .socket = 0};
    return m;
}
/// The NIC is taken to be at socket 0.
[[nodiscard]] constexpr MachineSpec p3_16xlarge() {
    MachineSpec m{.name = "p3.16xlarge",
                  .gpu = v100(),
                  .gpus = 8,
                  .nic_line_rate = 25_Gbps,
                  .price = {24.48},
                  .host_memory = 488_GiB,
                  .spot_price = {8.32},
                  .price_date = "us-east-1, 2018; spot: 66 % less",
                  .profile = "nccl-2.10+tcp-aws"};
    m.wiring = wiring::grouped({});
    wiring::v100_mesh(m.wiring);
    m.wiring.nic[0] = {.rate = wiring::pcie3_x16, .socket = 0};
    return m;
}
[[nodiscard]] constexpr MachineSpec p3dn_24xlarge() {
    MachineSpec m{.name = "p3dn.24xlarge",
                  .gpu = v100_32gb(),
                  .gpus = 8,
                  .nic_line_rate = 100_Gbps,
                  .price = {31.212},
                  .host_memory = 768_GiB,
                  .price_date = "us-east-1, unverified; spot unknown",
                  .profile = "nccl-2.10+tcp-aws"};
    m.wiring = wiring::grouped({.socket_link = wiring::upi_skylake});
    wiring::v100_mesh(m.wiring);
    m.wiring.nic[0] = {.rate = wiring::pcie3_x16, .socket = 0};
    return m;
}
namespace detail {
/// Eight A100 on NVSwitch; an EFA of 100 Gb/s for two GPUs.
[[nodiscard]] constexpr MachineSpec p4(Label name, const GpuSpec& gpu) {
    MachineSpec m{.name = name,
                  .gpu = gpu,
                  .gpus = 8,
                  .nic_line_rate = 100_Gbps,
                  .nics = 4,
                  .host_memory = 1152_GiB,
                  .profile = "nccl-2.10+roce-100g"};
    Wiring& w = m.wiring = wiring::grouped({.socket_link = wiring::upi_skylake});
    wiring::nics_under_switches(w, 1, wiring::pcie3_x16);
    wiring::nvswitch(w, wiring::a100_ports);
    return m;
}
/// Eight H100 or H200 on NVSwitch; a GPU has four EFA of 100 Gb/s, or two of 200, which are one NIC
/// here.
[[nodiscard]] constexpr MachineSpec p5(Label name, const GpuSpec& gpu) {
    MachineSpec m{.name = name,
                  .gpu = gpu,
                  .gpus = 8,
                  .nic_line_rate = 400_Gbps,
                  .nics = 8,
                  .host_memory = 2048_GiB,
                  .profile = "nccl-2.10+roce-100g"};
    Wiring& w = m.wiring = wiring::grouped(
        {.per_switch = 1, .pcie = wiring::pcie5_x16, .socket_link = wiring::amd_zen});
    w.peer_penalty = 1;
    wiring::nics_under_switches(w, 1, wiring::pcie5_x16);
    wiring::nvswitch(w, wiring::h100_ports);
    return m;
}
/// GPUs on PCIe, as many at each socket, without NVLink; one NIC, at socket 0.
[[nodiscard]] constexpr MachineSpec on_pcie(Label name, const GpuSpec& gpu, BytesPerSecond nic,
                                            DollarsPerHour price, wiring::Groups groups) {
    MachineSpec m{.name = name,
                  .gpu = gpu,
                  .gpus = groups.gpus,
                  .nic_line_rate = nic,
                  .price = price,
                  .price_date = "us-east-1, July 2026; spot unknown",
                  .profile = "nccl-2.10+tcp-aws"};
    groups.per_switch = 1;
    m.wiring = wiring::grouped(groups);
    m.wiring.nic[0] = {.rate = groups.pcie, .socket = 0};
    return m;
}
/// T4; Cascade Lake.
[[nodiscard]] constexpr MachineSpec g4dn(Label name, int gpus, int sockets, BytesPerSecond nic,
                                         DollarsPerHour price) {
    return on_pcie(name, t4(), nic, price,
                   {.gpus = gpus, .sockets = sockets, .socket_link = wiring::upi_skylake});
}
/// A10G; AMD EPYC.
[[nodiscard]] constexpr MachineSpec g5(Label name, int gpus, int sockets, BytesPerSecond nic,
                                       DollarsPerHour price) {
    return on_pcie(name, a10g(), nic, price,
                   {.gpus = gpus,
                    .sockets = sockets,
                    .pcie = wiring::pcie4_x16,
                    .socket_link = wiring::amd_zen,
                    .peer_penalty = 1});
}
}  // namespace detail

[[nodiscard]] constexpr MachineSpec p4d_24xlarge() {
    MachineSpec m = detail::p4("p4d.24xlarge", a100_40gb());
    m.price = {21.96};
    m.price_date = "us-east-1, November 2026; spot unknown";
    return m;
}
[[nodiscard]] constexpr MachineSpec p4de_24xlarge() {
    MachineSpec m = detail::p4("p4de.24xlarge", a100_80gb());
    m.price = {27.447};
    m.price_date = "us-east-1, November 2026; spot unknown";
    return m;
}
[[nodiscard]] constexpr MachineSpec p5_48xlarge() {
    MachineSpec m = detail::p5("p5.48xlarge", h100());
    m.price = {55.04};
    m.price_date = "us-east-1, November 2026; spot unknown";
    return m;
}
[[nodiscard]] constexpr MachineSpec p5e_48xlarge() {
    MachineSpec m = detail::p5("p5e.48xlarge", h200());
    m.price_date = "unknown";
    return m;
}
/// Intel's Sapphire Rapids in place of AMD's CPUs.
[[nodiscard]] constexpr MachineSpec p5en_48xlarge() {
    MachineSpec m = detail::p5("p5en.48xlarge", h200());
    m.price = {63.296};
    m.price_date = "us-east-1, July 2026; spot unknown";
    m.wiring.socket_link = wiring::upi_sapphire_rapids;
    m.wiring.peer_penalty = wiring::intel_peer_penalty;
    return m;
}

[[nodiscard]] constexpr MachineSpec g4dn_xlarge() {
    MachineSpec m = detail::g4dn("g4dn.xlarge", 1, 1, 5_Gbps, {0.526});
    m.host_memory = 16_GiB;
    return m;
}
[[nodiscard]] constexpr MachineSpec g4dn_12xlarge() {
    MachineSpec m = detail::g4dn("g4dn.12xlarge", 4, 1, 50_Gbps, {3.912});
    m.host_memory = 192_GiB;
    return m;
}
[[nodiscard]] constexpr MachineSpec g4dn_metal() {
    MachineSpec m = detail::g4dn("g4dn.metal", 8, 2, 100_Gbps, {7.824});
    m.host_memory = 384_GiB;
    return m;
}
[[nodiscard]] constexpr MachineSpec g5_xlarge() {
    MachineSpec m = detail::g5("g5.xlarge", 1, 1, 2.5_Gbps, {1.006});
    m.host_memory = 16_GiB;
    return m;
}
[[nodiscard]] constexpr MachineSpec g5_48xlarge() {
    MachineSpec m = detail::g5("g5.48xlarge", 8, 2, 100_Gbps, {16.288});
    m.host_memory = 768_GiB;
    return m;
}

}  // namespace gx::sim::machine
