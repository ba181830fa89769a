// MachineSpec and ClusterSpec: what machines and clusters are made of, as constexpr values.
#pragma once

#include <array>    // devices and links
#include <cstddef>  // size_t

#include <gx/core/label.hpp>               // Label
#include <gx/core/transport.hpp>           // Placement
#include <gx/core/units.hpp>               // units
#include <gx/sim/hardware/fabric.hpp>      // Fabric
#include <gx/sim/hardware/gpu.hpp>         // GpuSpec
#include <gx/sim/hardware/comm_stack.hpp>  // Profile

namespace gx::sim {

/// Where a device or a PCIe switch is plugged in, and at what rate in each direction.
struct PciePort {
    BytesPerSecond rate{};
    int under = -1;  ///< a PCIe switch of the machine; -1: a root port of `socket`
    int socket = 0;  ///< meant only where `under` is -1
};

/// The links inside a machine: GPUs on NVLink or on a tree of PCIe switches, sockets, NICs.
///
///     GPU to GPU:  NVLink of the pair; else NVSwitch; else PCIe: up to the switch or socket that
///                  both are under, from socket to socket, and down
///     GPU to NIC:  PCIe; from host memory, so past a socket, where the profile says so
///
/// Units: rates are usable ones, per direction; all links are full duplex.
/// Order: GPUs are numbered so that 0, 1, 2, ... and back to 0 follows the fastest links.
struct Wiring {
    static constexpr int most_gpus = 16, most_nics = 16, most_switches = 16, most_sockets = 8;
    static constexpr int most_rings = 4;

    bool known = false;       ///< false: MachineSpec's plain rates are all there is
    BytesPerSecond nvlink{};  ///< of one link
    std::array<std::array<unsigned char, most_gpus>, most_gpus> nvlinks{};  ///< of each pair
    int nvswitch_links = 0;  ///< of each GPU to the NVSwitches; 0: there are none
    int sockets = 1, switches = 0;
    BytesPerSecond socket_link{};  ///< QPI, UPI or the like, between any two sockets
    double peer_penalty = 1;       ///< on GPU to GPU traffic that crosses a socket
    std::array<PciePort, most_gpus> gpu{};
    std::array<PciePort, most_nics> nic{};
    std::array<PciePort, most_switches> pcie_switch{};
    /// Rings over all GPUs that share no link: a collective with as many channels, half of them
    /// reversed, uses every NVLink. Row 0 is 0, 1, 2, ...
    std::array<std::array<unsigned char, most_gpus>, most_rings> rings{};
    int ring_count = 0;
};

/// One machine. Without wiring, every pair of GPUs is equally near and each GPU has a way of its
/// own to the NICs; with wiring, the rates of peers and host are those of its links.
/// Rates are usable ones, per direction; all links are full duplex.
struct MachineSpec {
    Label name{};
    GpuSpec gpu{};
    int gpus = 1;
    BytesPerSecond peer_bandwidth{};  ///< of one GPU to all of its peers in the machine
    BytesPerSecond peer_flow_cap{0};  ///< of one message between two GPUs; 0: none
    Nanoseconds peer_latency{};       ///< of one message between two GPUs
    BytesPerSecond host_bandwidth{};  ///< of one GPU to the NICs, over PCIe
    BytesPerSecond nic_line_rate{};   ///< of each NIC, shared by the GPUs that use it
    DollarsPerHour price{};           ///< on demand; 0: unknown
    int nics = 1;
    Bytes host_memory{};          ///< 0: unknown
    DollarsPerHour spot_price{};  ///< 0: unknown
    Label price_date{};           ///< of both prices
    Dollars purchase_price{};     ///< 0: unknown
    Label profile{};              ///< of its usual network, by name; empty: unknown
    Wiring wiring{};
};

/// Equal machines on a fabric, and the stack that moves their messages.
///
/// What a message between machines takes before its first byte is `latency` and what the profile
/// adds; its rate is bounded by `flow_cap` and by the profile's cap; of the NIC's line rate
/// `goodput` times the profile's goodput carries payload. Under the profile `exact` the fields of
/// this struct are all there is.
struct ClusterSpec {
    Label name{};
    MachineSpec machine{};
    int machines = 1;
    Nanoseconds latency{};       ///< from GPU to GPU of different machines, per message
    BytesPerSecond flow_cap{0};  ///< of one connection between machines; 0: none
    double goodput = 1;          ///< share of the NIC's line rate that carries payload
    Fabric fabric{};             ///< a switch that carries all machines at line rate
    Profile profile{};
    Algorithm algorithm = Algorithm::ring;  ///< whose hop latency of the profile messages pay
    Protocol protocol = Protocol::simple;

    [[nodiscard]] constexpr Placement placement() const { return {machines, machine.gpus}; }
    [[nodiscard]] constexpr int ranks() const { return machines * machine.gpus; }
    [[nodiscard]] constexpr Dollars dollars(Nanoseconds t) const {
        return DollarsPerHour{machine.price.count * machines} * t;
    }
    [[nodiscard]] constexpr Dollars spot_dollars(Nanoseconds t) const {
        return DollarsPerHour{machine.spot_price.count * machines} * t;
    }
    /// What one NIC carries of payload in a direction.
    [[nodiscard]] constexpr BytesPerSecond nic_rate() const {
        const BytesPerSecond usable = machine.nic_line_rate * (goodput * profile.transport.goodput);
        const BytesPerSecond cap = profile.transport.nic_cap;
        return cap.count > 0 && cap < usable ? cap : usable;
    }
    /// Of one flow between machines; 0: none.
    [[nodiscard]] constexpr BytesPerSecond connection_cap() const {
        const BytesPerSecond other = profile.flow_cap();
        if (flow_cap.count <= 0 || other.count <= 0) return flow_cap + other;
        return flow_cap < other ? flow_cap : other;
    }
    /// What a message whose slowest link is of this class takes before its first byte.
    [[nodiscard]] constexpr Nanoseconds message_latency(LinkClass link) const {
        return (link == LinkClass::net ? latency : machine.peer_latency) +
               profile.latency(link, algorithm, protocol);
    }
};

}  // namespace gx::sim
