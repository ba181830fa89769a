// MachineSpec, ClusterSpec: what a cluster is made of; Topology: its links and routes.
#pragma once

#include <vector>  // links

#include <gx/core/contract.hpp>   // GX_EXPECT
#include <gx/core/label.hpp>      // Label
#include <gx/core/transport.hpp>  // Placement
#include <gx/core/units.hpp>      // units
#include <gx/sim/gpu.hpp>         // GpuSpec
#include <gx/sim/network.hpp>     // Network, Path

namespace gx::sim {

/// Rates are usable ones, per direction; all links are full duplex.
struct MachineSpec {
    Label name{};
    GpuSpec gpu{};
    int gpus = 1;
    BytesPerSecond peer_bandwidth{};  ///< of one GPU to all of its peers in the machine
    BytesPerSecond peer_flow_cap{0};  ///< of one message between two GPUs; 0: none
    Nanoseconds peer_latency{};
    BytesPerSecond host_bandwidth{};  ///< of one GPU to the NIC, over PCIe
    BytesPerSecond nic_line_rate{};   ///< shared by the machine's GPUs
    DollarsPerHour price{};           ///< on demand
};

/// Equal machines on a switch that carries all of them at line rate.
struct ClusterSpec {
    Label name{};
    MachineSpec machine{};
    int machines = 1;
    Nanoseconds latency{};            ///< from GPU to GPU of different machines, per message
    BytesPerSecond flow_cap{0};       ///< of one connection between machines; 0: none
    double goodput = 1;               ///< share of the NIC's line rate that carries payload

    [[nodiscard]] constexpr Placement placement() const { return {machines, machine.gpus}; }
    [[nodiscard]] constexpr int ranks() const { return machines * machine.gpus; }
    [[nodiscard]] constexpr Dollars dollars(Nanoseconds t) const {
        return DollarsPerHour{machine.price.count * machines} * t;
    }
};

/// The links of a cluster in a network, and the way from rank to rank.
///
///     same machine:  GPU's peer link out, GPU's peer link in
///     else:          GPU to NIC, NIC out, NIC in, NIC to GPU
///     same rank:     no link
///
/// The link between a GPU and its NIC is left out where it is at least as fast as the NIC: every
/// message that crosses it crosses the NIC too, so it can never be the narrower one.
class Topology {
public:
    struct Route {
        Path path{};
        Nanoseconds latency{};
        BytesPerSecond cap{0};
    };

    Topology(const ClusterSpec& spec, Network& network) : spec_(spec) {
        GX_EXPECT(spec.machines > 0 && spec.machine.gpus > 0,
                  "a cluster has at least one machine, and a machine at least one GPU");
        GX_EXPECT(spec.goodput > 0 && spec.goodput <= 1, "goodput is a share above 0, at most 1");
        const MachineSpec& m = spec.machine;
        const BytesPerSecond nic = m.nic_line_rate * spec.goodput;
        narrow_host_ = m.host_bandwidth < nic;
        if (spec.machines > 1) add_pairs(network, nic_, spec.machines, nic);
        if (m.gpus > 1) add_pairs(network, peer_, spec.ranks(), m.peer_bandwidth);
        if (spec.machines > 1 && narrow_host_)
            add_pairs(network, host_, spec.ranks(), m.host_bandwidth);
    }

    [[nodiscard]] Route route(int from, int to) const {
        const MachineSpec& m = spec_.machine;
        Route r;
        if (from == to) return r;
        const int a = from / m.gpus, b = to / m.gpus;
        if (a == b) {
            r.path.add(out(peer_, from));
            r.path.add(in(peer_, to));
            r.latency = m.peer_latency;
            r.cap = m.peer_flow_cap;
            return r;
        }
        if (narrow_host_) r.path.add(out(host_, from));
        r.path.add(out(nic_, a));
        r.path.add(in(nic_, b));
        if (narrow_host_) r.path.add(in(host_, to));
        r.latency = spec_.latency;
        r.cap = spec_.flow_cap;
        return r;
    }
    [[nodiscard]] int nic_out(int machine) const { return out(nic_, machine); }
    [[nodiscard]] int nic_in(int machine) const { return in(nic_, machine); }
    [[nodiscard]] const ClusterSpec& spec() const { return spec_; }

private:
    static void add_pairs(Network& network, int& first, int count, BytesPerSecond rate) {
        first = network.links();
        for (int i = 0; i < 2 * count; ++i) network.add_link(rate);
    }
    static int out(int first, int i) { return first + 2 * i; }
    static int in(int first, int i) { return first + 2 * i + 1; }

    ClusterSpec spec_;
    int nic_ = 0, peer_ = 0, host_ = 0;
    bool narrow_host_ = false;
};

}  // namespace gx::sim
