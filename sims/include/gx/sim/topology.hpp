// Topology: the links of a cluster in a network, and the way from rank to rank.
#pragma once

#include <algorithm>  // max
#include <array>      // latencies
#include <span>       // links
#include <string>     // sentences

#include <gx/core/cold.hpp>  // GX_COLD
#include <gx/core/contract.hpp>         // GX_EXPECT
#include <gx/core/error.hpp>            // Error
#include <gx/sim/fabric_links.hpp>      // FabricLinks
#include <gx/sim/machine.hpp>           // ClusterSpec, MachineSpec
#include <gx/sim/machine_check.hpp>     // check
#include <gx/sim/machine_routes.hpp>    // MachineRoutes
#include <gx/sim/network.hpp>           // Network, Path

namespace gx::sim {

/// The links of a cluster in a network, and the way from rank to rank.
///
///     same machine:  NVLink, NVSwitch or PCIe, as its wiring says
///     else:          GPU to NIC, NIC out, fabric, NIC in, NIC to GPU
///     same rank:     no link
///
/// A link inside a machine is left out where it can never be the narrowest (MachineRoutes).
/// A NIC is chosen by the GPU that sends and by the channel; on rails it is met by the NIC of the
/// same number, else by the one that the receiving GPU would use.
/// Errors: gx::Error where check(spec) has one.
class Topology {
public:
    struct Route {
        Path path{};
        Nanoseconds latency{};
        BytesPerSecond cap{0};                  ///< of one flow; 0: none
        LinkClass slowest = LinkClass::nvlink;  ///< class of the slowest link crossed
    };

    /// `detours`: GPUs have ways to all NICs of their machine, for when the nearest are lost.
    GX_COLD Topology(const ClusterSpec& spec, Network& network, bool detours = false)
        : spec_(checked(spec)), inside_(spec, detours), first_(network.links()),
          stride_(static_cast<int>(inside_.rates().size())),
          fabric_(add_links(network)) {
        const int most = longest();
        if (most > Path::most_links)
            throw Error("the longest route crosses " + std::to_string(most) +
                        " links, and a path holds " + std::to_string(Path::most_links) +
                        ": choose a smaller torus, or fewer PCIe switches under each other");
    }

    /// The way of a message; `channel` tells parallel collectives apart and picks the NIC.
    [[nodiscard]] Route route(int from, int to, int channel = 0) const {
        Route r;  // the one that is returned, so that it is built in place
        if (from == to) return r;
        const int a = from / gpus_, b = to / gpus_, x = from - a * gpus_, y = to - b * gpus_;
        if (a == b) {
            const MachineRoutes::Way& way = inside_.peers(x, y);
            add(way, a, r.path);
            r.slowest = way.slowest;
            r.cap = way.cap;
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
    /// The way between two machines by these NICs and links of the fabric; false, and `path` as it
    /// was: it would cross more links than a path holds.
    GX_COLD [[nodiscard]] bool route_over(int from, int to, int out, int in,
                                          std::span<const int> between, Path& path) const {
        const int a = from / gpus_, b = to / gpus_;
        const auto &up = inside_.out(from - a * gpus_, out), &down = inside_.in(in, to - b * gpus_);
        if (up.links.size() + between.size() + down.links.size() > Path::most_links) return false;
        path = {};
        add(up, a, path);
        for (const int link : between) path.add(link);
        add(down, b, path);
        return true;
    }
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
    GX_COLD static const ClusterSpec& checked(const ClusterSpec& spec) {
        GX_EXPECT(spec.machines > 0 && spec.machine.gpus > 0,
                  "a cluster has at least one machine, and a machine at least one GPU");
        GX_EXPECT(spec.goodput > 0 && spec.goodput <= 1, "goodput is a share above 0, at most 1");
        check(spec);
        return spec;
    }
    GX_COLD [[nodiscard]] FabricLinks add_links(Network& network) const {
        for (int m = 0; m < spec_.machines; ++m)
            for (const BytesPerSecond rate : inside_.rates()) network.add_link(rate);
        return {spec_.fabric, spec_.machines, spec_.machine.nics, spec_.nic_rate(), network};
    }
    [[nodiscard]] int base(int machine) const { return first_ + machine * stride_; }
    void add(const MachineRoutes::Way& way, int machine, Path& path) const {
        const int first = base(machine);  // longest() is known to fit
        auto next = path.links.begin() + path.count;
        for (const int l : way.links) *next++ = first + l;
        path.count += static_cast<int>(way.links.size());
    }
    GX_COLD [[nodiscard]] int longest() const {
        std::size_t peers = 0, out = 0, in = 0;
        const int nics = spec_.machines > 1 ? spec_.machine.nics : 0;
        for (int g = 0; g < gpus_; ++g) {
            for (int n = 0; n < nics; ++n) {
                if (!by_rail_ && !inside_.is_near(g, n)) continue;  // a detour
                out = std::max(out, inside_.out(g, n).links.size());
                in = std::max(in, inside_.in(n, g).links.size());
            }
            for (int h = 0; h < gpus_; ++h)
                peers = std::max(peers, inside_.peers(g, h).links.size());
        }
        const int between = static_cast<int>(out + in) + longest_route(spec_.fabric);
        return std::max(static_cast<int>(peers), nics > 0 ? between : 0);
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
