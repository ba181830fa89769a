// MachineRoutes: routes inside a machine, over the links that can be the narrowest.
#pragma once

#include <algorithm>  // find, max
#include <array>      // the route up
#include <cstddef>    // size_t
#include <vector>     // links and routes

#include <gx/core/decl.hpp>             // GX_HEADER_ONLY
#include <gx/sim/hardware/machine.hpp>  // ClusterSpec, Wiring

namespace gx::sim {

/// Links and routes of one machine of a cluster; all machines have the same.
///
/// A link is omitted where the links just before it, or just after it, on every route over it
/// carry no more together than it does: then it can never be the narrowest, and fair shares are
/// the same without it. NICs are always kept.
class MachineRoutes {
public:
    struct Route {
        std::vector<int> links{};  // of this machine, from 0
        LinkClass slowest = LinkClass::nvlink;
        BytesPerSecond cap{0};  // of one flow; 0: none
    };

    /// `failover`: routes between each GPU and each NIC, not only the nearest ones.
    explicit MachineRoutes(const ClusterSpec& spec, bool failover = false);

    /// Rate of each link that is kept.
    [[nodiscard]] const std::vector<BytesPerSecond>& rates() const { return rates_; }
    [[nodiscard]] const Route& peers(int from, int to) const { return peers_[at(from, gpus_, to)]; }
    [[nodiscard]] const Route& out(int gpu, int nic) const { return out_[at(gpu, nics_, nic)]; }
    [[nodiscard]] const Route& in(int nic, int gpu) const { return in_[at(gpu, nics_, nic)]; }
    [[nodiscard]] int nic_out(int nic) const { return kept_[index(nic_out_ + nic)]; }
    [[nodiscard]] int nic_in(int nic) const { return kept_[index(nic_in_ + nic)]; }

    /// The NIC that a GPU uses on a channel: of those nearest to it, GPUs that share them begin
    /// with different ones, and the next channel takes the next.
    [[nodiscard]] int nic_of(int gpu, int channel) const {
        const std::vector<int>& near = near_[index(gpu)];
        if (near.size() == 1) return near[0];  // a division is the dearest part of a route
        return near[index(begin_[index(gpu)] + channel) % near.size()];
    }

    [[nodiscard]] bool is_near(int gpu, int nic) const {
        const auto& near = near_[index(gpu)];
        return std::find(near.begin(), near.end(), nic) != near.end();
    }

private:
    static std::size_t index(int i) { return static_cast<std::size_t>(i); }
    static std::size_t at(int row, int columns, int column) {
        return index(row * columns + column);
    }

    struct Climb {  // from a device to the socket
        std::array<int, Wiring::most_switches> switches{};
        int count = 0, socket = 0;
        [[nodiscard]] int find(int s) const {
            const auto end = switches.begin() + count;
            return static_cast<int>(std::find(switches.begin(), end, s) - switches.begin());
        }
    };
    [[nodiscard]] Climb climb(PciePort p) const;

    struct Tree {  // a route over PCIe, without its two ends
        std::vector<int> links{};
        bool crosses_socket = false;
    };
    [[nodiscard]] Tree over_pcie(PciePort from, PciePort to, bool past_socket, bool peers) const;

    [[nodiscard]] Route between(int a, int b) const;

    [[nodiscard]] Route to_nic(int g, int n) const;
    /// From a NIC to a GPU that begins with another: over NVLink from one that begins with it, if
    /// there is such a route, as NCCL's PXN does; else over PCIe.
    [[nodiscard]] Route from_rail(int n, int g) const;
    /// From a GPU to a NIC that another begins with, the same route back.
    [[nodiscard]] Route to_rail(int g, int n) const;
    /// The same route in the other direction.
    [[nodiscard]] Route mirrored(Route route) const;

    [[nodiscard]] BytesPerSecond rate(int l) const;

    void find_near();

    /// Whether the neighbours of `l` on its routes carry no more than it does. They are those
    /// before it, or after it, on each route that uses it.
    [[nodiscard]] bool never_narrowest(int l, bool before, const std::vector<Route*>& users) const;
    /// Cost: of the order of all routes' links, for each direction.
    void leave_out_links();
    void renumber();

    MachineSpec m_;
    int gpus_, nics_;
    // Links before any is omitted, by kind; up, out and down, in alternate.
    int most_ = std::max({Wiring::most_switches, gpus_, nics_});  // devices of a kind
    int gpu_up_ = 0, gpu_down_ = most_, switch_up_ = 2 * most_, switch_down_ = 3 * most_,
        nic_out_ = 4 * most_, nic_in_ = 5 * most_, fast_out_ = 6 * most_, fast_in_ = 7 * most_,
        socket_ = 8 * most_, socket_peers_ = socket_ + 64, pair_ = socket_peers_ + 64,
        all_links_ = pair_ + most_ * most_;
    BytesPerSecond nic_rate_;
    bool through_host_;
    std::vector<std::vector<int>> near_{};  // NICs nearest to each GPU
    std::vector<int> begin_{};              // which of them it begins with
    std::vector<Route> peers_{}, out_{}, in_{};
    std::vector<BytesPerSecond> rates_{};
    std::vector<int> kept_{};
};

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/topology/impl/machine_routes.ipp>
#endif
