// Machines of Amazon EC2: p2 (K80), p3 and p3dn (V100), p4d (A100), p5 (H100).
#pragma once

#include <cstddef>  // size_t

#include <gx/sim/catalog/gpus.hpp>     // k80, v100, a100_40gb, h100
#include <gx/sim/hardware/wiring.hpp>  // grouped, v100_mesh

// Source: GPUs, memory and rates of the NICs: AWS briefing on P2, March 2017, and P3's launch
//         table. Prices: us-east-1, on demand, from a listing of 2018 and DAWNBench's entries
//         (0.90, 7.20, 14.40, 3.06, 24.48); p3.8xlarge and p3dn.24xlarge from general knowledge.
//         Spot: one later listing for p2 and p3.2xlarge; p3.16xlarge is 66 % below on demand, as
//         the slides of "ImageNet in 18 minutes" of 2018 have it; others unknown.
//         p4d and p5: GPUs, memory and rates as AWS's page on Capacity Blocks of 2024 has them,
//         where they cost 14.75 and 39.33; on demand from a listing of November 2026 (github.com/
//         datareceipts/data-receipts), behind AWS's reductions of June 2025 from 32.77 and 98.32.
//         Where PCIe switches and NICs are is not published; the wiring is an assumption.
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
/// Eight A100 on NVSwitch; an EFA of 100 Gb/s for two GPUs.
[[nodiscard]] constexpr MachineSpec p4d_24xlarge() {
    MachineSpec m{.name = "p4d.24xlarge",
                  .gpu = a100_40gb(),
                  .gpus = 8,
                  .nic_line_rate = 100_Gbps,
                  .price = {21.96},
                  .nics = 4,
                  .host_memory = 1152_GiB,
                  .price_date = "us-east-1, November 2026; spot unknown",
                  .profile = "nccl-2.10+roce-100g"};
    Wiring& w = m.wiring = wiring::grouped({.socket_link = wiring::upi_skylake});
    wiring::nics_under_switches(w, 1, wiring::pcie3_x16);
    wiring::nvswitch(w, wiring::a100_ports);
    return m;
}
/// Eight H100 on NVSwitch; a GPU has four EFA of 100 Gb/s, which are one NIC here.
[[nodiscard]] constexpr MachineSpec p5_48xlarge() {
    MachineSpec m{.name = "p5.48xlarge",
                  .gpu = h100(),
                  .gpus = 8,
                  .nic_line_rate = 400_Gbps,
                  .price = {55.04},
                  .nics = 8,
                  .host_memory = 2048_GiB,
                  .price_date = "us-east-1, November 2026; spot unknown",
                  .profile = "nccl-2.10+roce-100g"};
    Wiring& w = m.wiring = wiring::grouped(
        {.per_switch = 1, .pcie = wiring::pcie5_x16, .socket_link = wiring::amd_zen});
    w.peer_penalty = 1;
    wiring::nics_under_switches(w, 1, wiring::pcie5_x16);
    wiring::nvswitch(w, wiring::h100_ports);
    return m;
}

}  // namespace gx::sim::machine
