// Plain clusters for tests and examples: v100_box, ethernet_10g, plain_p3_16xlarge.
#pragma once

#include <gx/sim/catalog/gpus.hpp>      // v100
#include <gx/sim/hardware/machine.hpp>  // MachineSpec, ClusterSpec

namespace gx::sim {

/// Eight V100 on NVLink, as in a DGX-1V or p3.16xlarge.
/// Source: six links of 20 GB/s usable per GPU, PCIe gen3 x16 12 GB/s (NVIDIA/nccl, topo.h, 2.30);
///         two links join a pair at best: 47.9 GB/s measured (Dell HPC report on V100 SXM2).
///         Latency 5.7 us per message: NCCL 2.5's ring over NVLink, protocol Simple (tuning.cc).
///         25 Gbit/s and 24.48 dollars an hour: AWS P3, on demand, us-east-1.
/// A ring in the order of the hybrid cube mesh is assumed: pairs without a link are not slower.
[[nodiscard]] constexpr MachineSpec v100_octet() {
    using namespace gx::literals;
    return {.name = "8 x V100 on NVLink",
            .gpu = v100(),
            .gpus = 8,
            .peer_bandwidth = 120_GBps,
            .peer_flow_cap = 47.9_GBps,
            .peer_latency = Nanoseconds(5'700),
            .host_bandwidth = 12_GBps,
            .nic_line_rate = 25_Gbps,
            .price = {24.48}};
}

/// One machine of eight V100.
[[nodiscard]] constexpr ClusterSpec v100_box() {
    return {.name = "8 x V100 in one machine", .machine = v100_octet(), .machines = 1};
}

/// Machines of one V100 each, on 10 Gb/s Ethernet.
/// Source: goodput 1460 / 1538 of the line rate (frames of 1500 bytes); one TCP connection carries
///         5 Gbit/s between instances outside a placement group (AWS EC2 network bandwidth page);
///         3.06 dollars an hour: p3.2xlarge, on demand, us-east-1.
///         Latency 40 us is an assumption: a TCP round trip in one zone takes tens of us.
[[nodiscard]] constexpr ClusterSpec ethernet_10g(int machines = 8) {
    using namespace gx::literals;
    return {.name = "V100 machines on 10 Gb/s Ethernet",
            .machine = {.name = "1 x V100",
                        .gpu = v100(),
                        .gpus = 1,
                        .host_bandwidth = 12_GBps,
                        .nic_line_rate = 10_Gbps,
                        .price = {3.06}},
            .machines = machines,
            .latency = 40_us,
            .flow_cap = 5_Gbps,
            .goodput = 0.949};
}

/// p3.16xlarge instances in one placement group, every pair of GPUs of an instance equally near.
/// The instance with its NVLinks, PCIe switches and NIC is cluster_of("p3.16xlarge", ...).
/// Source: 25 Gbit/s, 10 Gbit/s per connection in a placement group (AWS EC2 network bandwidth
///         page). Latency 40 us is an assumption, as above; goodput 0.94 of a kernel's TCP.
[[nodiscard]] constexpr ClusterSpec plain_p3_16xlarge(int machines) {
    using namespace gx::literals;
    return {.name = "p3.16xlarge, plain links",
            .machine = v100_octet(),
            .machines = machines,
            .latency = 40_us,
            .flow_cap = 10_Gbps,
            .goodput = 0.94};
}

}  // namespace gx::sim
