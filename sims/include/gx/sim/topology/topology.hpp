// Topology: links of a cluster in a network, and routes between pairs of ranks.
#pragma once

#include <array>  // latencies
#include <span>   // links

#include <gx/core/decl.hpp>                    // GX_HEADER_ONLY
#include <gx/sim/topology/fabric_links.hpp>    // FabricLinks
#include <gx/sim/hardware/machine.hpp>         // ClusterSpec, MachineSpec
#include <gx/sim/topology/machine_routes.hpp>  // MachineRoutes
#include <gx/sim/network/network.hpp>          // FlowNetwork, Path
#include <gx/sim/topology/check_cluster.hpp>   // check_routes

namespace gx::sim {

/// Links of a cluster in a network, and the route between each pair of ranks.
///
///     same machine:  NVLink, NVSwitch or PCIe, as its wiring says
///     else:          GPU to NIC, NIC out, fabric, NIC in, NIC to GPU
///     same rank:     no link
///
/// A link inside a machine is omitted where it can never be the narrowest (MachineRoutes).
/// The sending GPU and the channel choose the NIC; the receiving NIC is, on rails, the one of the
/// same number, else the one that the receiving GPU would send by.
/// Errors: gx::Error where check_cluster(spec, failover) has one.
class Topology {
public:
    struct Route {
        Path path{};
        Nanoseconds latency{};
        BytesPerSecond cap{0};                  ///< of one flow; 0: none
        LinkClass slowest = LinkClass::nvlink;  ///< class of the slowest link crossed
    };

    /// `failover`: GPUs have routes to all NICs of their machine, for when the nearest fail.
    Topology(const ClusterSpec& spec, FlowNetwork& network, bool failover = false);

    /// Route of a message; `channel` identifies parallel collectives and selects the NIC.
    [[nodiscard]] Route route(int from, int to, int channel = 0) const {
        Route r;  // the one that is returned, so that it is built in place
        if (from == to) return r;
        const int a = from / gpus_, b = to / gpus_, x = from - a * gpus_, y = to - b * gpus_;
        if (a == b) {
            const MachineRoutes::Route& inside = inside_.peers(x, y);
            add(inside, a, r.path);
            r.slowest = inside.slowest;
            r.cap = inside.cap;
        } else {
            const int nic = inside_.nic_of(x, channel);
            add(inside_.out(x, nic), a, r.path);
            fabric_.add_route(a, b, r.path);
            add(inside_.in(by_rail_ ? nic : inside_.nic_of(y, channel), y), b, r.path);
            r.slowest = LinkClass::net;
            r.cap = connection_cap_;
        }
        r.latency = latency_[static_cast<std::size_t>(r.slowest)];
        return r;
    }
    /// Writes the route over these NICs and links of the fabric to `path`; false, and `path` is
    /// unchanged, if it has more links than a path holds.
    [[nodiscard]] bool route_over(int from, int to, int out, int in, std::span<const int> between,
                                  Path& path) const;
    [[nodiscard]] const MachineRoutes& inside() const { return inside_; }
    [[nodiscard]] int nic_out(int machine, int nic = 0) const {
        return base(machine) + inside_.nic_out(nic);
    }
    [[nodiscard]] int nic_in(int machine, int nic = 0) const {
        return base(machine) + inside_.nic_in(nic);
    }
    /// The NIC that a rank sends by on a channel.
    [[nodiscard]] int nic_of(int rank, int channel = 0) const {
        return inside_.nic_of(rank % spec_.machine.gpus, channel);
    }
    /// The links between switches are `fabric_links().first()` and the `count()` that follow.
    [[nodiscard]] const FabricLinks& fabric_links() const { return fabric_; }
    [[nodiscard]] const ClusterSpec& spec() const { return spec_; }

private:
    static const ClusterSpec& checked(const ClusterSpec& spec);
    [[nodiscard]] FabricLinks add_links(FlowNetwork& network) const;
    [[nodiscard]] int base(int machine) const { return first_ + machine * stride_; }
    void add(const MachineRoutes::Route& part, int machine, Path& path) const {
        const int first = base(machine);  // the longest is known to fit
        auto next = path.links.begin() + path.count;
        for (const int l : part.links) *next++ = first + l;
        path.count += static_cast<int>(part.links.size());
    }

    ClusterSpec spec_;
    MachineRoutes inside_;
    int gpus_ = spec_.machine.gpus;
    bool by_rail_ = spec_.fabric.kind == Fabric::Kind::rails;
    BytesPerSecond connection_cap_ = spec_.connection_cap();
    std::array<Nanoseconds, 3> latency_{spec_.message_latency(LinkClass::nvlink),
                                        spec_.message_latency(LinkClass::pci),
                                        spec_.message_latency(LinkClass::net)};
    int first_, stride_;
    FabricLinks fabric_;
};

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/topology/impl/topology.ipp>
#endif
