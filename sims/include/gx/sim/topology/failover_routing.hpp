// FailoverRouting: routing that avoids failed NICs and switches.
#pragma once

#include <map>      // routes that were found
#include <utility>  // pair
#include <vector>   // what is lost

#include <gx/core/decl.hpp>                     // GX_HEADER_ONLY
#include <gx/sim/topology/fabric_switches.hpp>  // FabricSwitches, Switch
#include <gx/sim/topology/topology.hpp>         // Topology

namespace gx::sim {

/// Routes between machines that avoid failed NICs and switches (resilient ECMP).
///
/// A message whose own route is intact keeps it, as resilient hashing does. Else
///
///     NIC      of the nearest that are left, GPU g on channel c takes number (g + c) mod their
///              count; where rails are joined by nothing, one that both machines have left
///     fabric   the fewest links; at each switch with several such routes, machine d is reached by
///              number (d / n) mod their count, n being the links that leave the whole switch
///
/// so the traffic of a lost spine or NIC is spread over all that are left. With two rails, one lost
/// here and the other one there, there is no route between the two machines.
///
/// Order:  a function of what is lost; not of the order of losses.
/// Cost:   a search over the fabric for each pair of machines, once until the next loss.
class FailoverRouting {
public:
    explicit FailoverRouting(const Topology& topology);

    void lose_nic(int machine, int nic) {
        nic_lost_[std::size_t(machine * nics_ + nic)] = true;
        forget();
    }
    void lose(Switch s) {
        ++switch_lost_[std::size_t(switches_.node(s))];
        forget();
    }
    /// As often as it was lost.
    void restore(Switch s) {
        --switch_lost_[std::size_t(switches_.node(s))];
        forget();
    }
    [[nodiscard]] const FabricSwitches& switches() const { return switches_; }
    /// Whether neither the NIC nor the switch that it is plugged into has failed.
    [[nodiscard]] bool usable(int machine, int nic) const {
        const int node = switches_.of(machine, nic);
        return !nic_lost_[std::size_t(machine * nics_ + nic)] && (node < 0 || !lost(node));
    }
    /// Writes the route of a message sent now to `path`; false, and `path` unchanged, if none is
    /// left.
    [[nodiscard]] bool route(int from, int to, int channel, Path& path) const;
    /// Whether some NIC of one machine reaches one of the other.
    [[nodiscard]] bool reaches(int from_machine, int to_machine) const;
    /// Whether the machine is cut off: it has no usable NIC, or is not in the largest connected
    /// component of machines (of equal ones, the one with the first machine). If no machine has a
    /// usable NIC, machine 0 is not isolated, so that one can continue.
    [[nodiscard]] bool isolated(int machine) const;

private:
    struct Route {
        bool found = false;
        std::vector<int> links{};
    };

    [[nodiscard]] bool lost(int node) const { return switch_lost_[std::size_t(node)] > 0; }
    void forget() {
        routes_.clear();
        isolated_.clear();
    }
    [[nodiscard]] int choose_nic(int gpu, int channel, int machine, int other) const;
    [[nodiscard]] bool usable_to(int machine, int nic, int other) const {
        const bool rails = topology_.spec().fabric.kind == Fabric::Kind::rails;
        return usable(machine, nic) && (!rails || usable(other, nic));
    }
    const Route& between(int from, int to) const;
    [[nodiscard]] bool whole(const Path& path, int from, int to) const;
    void search(int from, int to, Route& route) const;
    void find_isolated() const;

    const Topology& topology_;
    int machines_, nics_;
    FabricSwitches switches_;
    std::vector<bool> nic_lost_;               // by machine, then NIC
    std::vector<int> switch_lost_;             // by node: how often
    std::vector<std::vector<int>> leaving_{};  // by node: links to other switches
    mutable std::map<std::pair<int, int>, Route> routes_{};
    mutable std::vector<bool> isolated_{};  // by machine; empty: not known
};

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/topology/impl/failover_routing.ipp>
#endif
