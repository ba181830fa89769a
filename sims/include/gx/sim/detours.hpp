// Detours: the ways between machines that are left when NICs and switches are lost.
#pragma once

#include <algorithm>  // reverse
#include <map>        // ways that were found
#include <utility>    // pair
#include <vector>     // what is lost

#include <gx/sim/fabric_switches.hpp>  // FabricSwitches, Switch
#include <gx/sim/topology.hpp>         // Topology

namespace gx::sim {

/// The ways between machines without the NICs and switches that are lost.
///
/// A message whose own way is whole keeps it, as resilient hashing does. Else
///
///     NIC      of the nearest that are left, GPU g on channel c takes number (g + c) mod their
///              count; where rails are joined by nothing, one that both machines have left
///     fabric   the fewest links; at each switch with several such ways, machine d is reached by
///              number (d / n) mod their count, n being the links that leave the whole switch
///
/// so the traffic of a lost spine or NIC is spread over all that are left. With two rails, one lost
/// here and the other one there, there is no way between the two machines.
///
/// Order:  a function of what is lost; not of the order of losses.
/// Cost:   a search over the fabric for each pair of machines, once until the next loss.
class Detours {
public:
    explicit Detours(const Topology& topology)
        : topology_(topology),
          machines_(topology.spec().machines),
          nics_(machines_ > 1 ? topology.spec().machine.nics : 0),
          switches_(topology.spec().fabric, machines_, nics_),
          nic_lost_(static_cast<std::size_t>(machines_ * nics_), false),
          switch_lost_(static_cast<std::size_t>(switches_.count()), 0) {
        leaving_.resize(switch_lost_.size());
        for (std::size_t l = 0; l < switches_.links().size(); ++l) {
            const auto [from, to] = switches_.links()[l];
            if (from != to) leaving_[std::size_t(from)].push_back(static_cast<int>(l));
        }
    }

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
    /// A NIC that is there and plugged into a switch that is.
    [[nodiscard]] bool usable(int machine, int nic) const {
        const int node = switches_.of(machine, nic);
        return !nic_lost_[std::size_t(machine * nics_ + nic)] && (node < 0 || !lost(node));
    }
    /// The way of a message that is now to be sent; false, and `path` as it was: none is left.
    [[nodiscard]] bool route(int from, int to, int channel, Path& path) const;
    /// Whether some NIC of one machine reaches one of the other.
    [[nodiscard]] bool reaches(int from_machine, int to_machine) const;
    /// Cut off from most: without a usable NIC, or not in the largest part of machines that are
    /// joined to each other (of equal parts, the one with the first machine). Machine 0 never is
    /// where no machine has a usable NIC, so there is always one to go on with.
    [[nodiscard]] bool isolated(int machine) const;

private:
    struct Way {
        bool found = false;
        std::vector<int> links{};
    };

    [[nodiscard]] bool lost(int node) const { return switch_lost_[std::size_t(node)] > 0; }
    void forget() {
        ways_.clear();
        isolated_.clear();
    }
    [[nodiscard]] int choose_nic(int gpu, int channel, int machine, int other) const;
    [[nodiscard]] bool usable_to(int machine, int nic, int other) const {
        const bool rails = topology_.spec().fabric.kind == Fabric::Kind::rails;
        return usable(machine, nic) && (!rails || usable(other, nic));
    }
    const Way& way(int from, int to) const;
    [[nodiscard]] bool whole(const Path& path, int from, int to) const;
    void search(int from, int to, Way& way) const;
    void find_isolated() const;

    const Topology& topology_;
    int machines_, nics_;
    FabricSwitches switches_;
    std::vector<bool> nic_lost_;               // by machine, then NIC
    std::vector<int> switch_lost_;             // by node: how often
    std::vector<std::vector<int>> leaving_{};  // by node: links to other switches
    mutable std::map<std::pair<int, int>, Way> ways_{};
    mutable std::vector<bool> isolated_{};  // by machine; empty: not known
};

inline bool Detours::route(int from, int to, int channel, Path& path) const {
    const int gpus = topology_.spec().machine.gpus, a = from / gpus, b = to / gpus;
    if (a == b) return true;
    const int x = from % gpus, y = to % gpus;
    const int out = choose_nic(x, channel, a, b);
    if (out < 0) return false;
    const bool rails = topology_.spec().fabric.kind == Fabric::Kind::rails;
    const int in = rails ? out : choose_nic(y, channel, b, a);
    if (in < 0) return false;
    const Way& between = way(a, b);
    return between.found && topology_.route_over(from, to, out, in, between.links, path);
}

// The message's own NIC where it is left, else one of those nearest to the GPU.
inline int Detours::choose_nic(int gpu, int channel, int machine, int other) const {
    const MachineRoutes& inside = topology_.inside();
    const int own = inside.nic_of(gpu, channel);
    if (usable_to(machine, own, other)) return own;
    std::vector<int> near, far;
    for (int n = 0; n < nics_; ++n)
        if (usable_to(machine, n, other)) (inside.is_near(gpu, n) ? near : far).push_back(n);
    const std::vector<int>& from = near.empty() ? far : near;
    return from.empty() ? -1 : from[std::size_t(gpu + channel) % from.size()];
}

inline const Detours::Way& Detours::way(int from, int to) const {
    const auto [at, fresh] = ways_.try_emplace({from, to});
    Way& way = at->second;
    if (!fresh) return way;
    Path own;
    topology_.fabric_links().add_route(from, to, own);
    if (whole(own, from, to)) {
        way.found = true;
        way.links.assign(own.view().begin(), own.view().end());
    } else {
        search(from, to, way);
    }
    return way;
}

inline bool Detours::whole(const Path& path, int from, int to) const {
    const int first = topology_.fabric_links().first();
    if (switches_.of(from, 0) < 0 || topology_.spec().fabric.kind == Fabric::Kind::rails)
        return true;  // what a NIC is plugged into is part of its being usable
    if (lost(switches_.of(from, 0)) || lost(switches_.of(to, 0))) return false;
    for (const int link : path.view())
        if (lost(switches_.links()[std::size_t(link - first)].to)) return false;
    return true;
}

// Breadth first, so the first way found has the fewest links.
inline void Detours::search(int from, int to, Way& way) const {
    const int begin = switches_.of(from, 0), end = switches_.of(to, 0);
    if (lost(begin) || lost(end)) return;
    std::vector<int> came_by(leaving_.size(), -1), queue{begin};
    for (std::size_t next = 0; next < queue.size() && queue[next] != end; ++next) {
        const std::vector<int>& all = leaving_[std::size_t(queue[next])];
        std::vector<int> left;
        for (const int l : all)
            if (!lost(switches_.links()[std::size_t(l)].to)) left.push_back(l);
        for (std::size_t i = 0; i < left.size(); ++i) {
            const int l = left[(i + std::size_t(to) / all.size()) % left.size()];
            const int there = switches_.links()[std::size_t(l)].to;
            if (there == begin || came_by[std::size_t(there)] >= 0) continue;
            came_by[std::size_t(there)] = l;
            queue.push_back(there);
        }
    }
    for (int at = end; at != begin; at = switches_.links()[std::size_t(way.links.back())].from) {
        if (came_by[std::size_t(at)] < 0) return;
        way.links.push_back(came_by[std::size_t(at)]);
    }
    std::reverse(way.links.begin(), way.links.end());
    for (int& l : way.links) l += topology_.fabric_links().first();
    way.found = true;
}

inline bool Detours::reaches(int from, int to) const {
    if (from == to) return true;
    bool out = false, in = false;
    for (int n = 0; n < nics_; ++n) {
        out = out || usable_to(from, n, to);
        in = in || usable_to(to, n, from);
    }
    return out && in && way(from, to).found;
}

inline bool Detours::isolated(int machine) const {
    if (isolated_.empty()) find_isolated();
    return isolated_[std::size_t(machine)];
}

// Floods each part from its first machine, over switches and the machines plugged into them.
inline void Detours::find_isolated() const {
    isolated_.assign(std::size_t(machines_), true);
    const std::size_t star = leaving_.size();  // a node of its own, where there is no other
    std::vector<std::vector<int>> plugged(star + 1);
    std::vector<bool> seen(star + 1, false), counted(std::size_t(machines_), false);
    const auto node = [&](int m, int n) {
        const int at = switches_.of(m, n);
        return at < 0 ? star : std::size_t(at);
    };
    for (int m = 0; m < machines_; ++m)
        for (int n = 0; n < nics_; ++n)
            if (usable(m, n)) plugged[node(m, n)].push_back(m);
    std::vector<int> largest;
    for (int first = 0; first < machines_; ++first) {
        std::vector<int> part;
        std::vector<std::size_t> queue;
        const auto reach = [&](std::size_t at) {
            if (!seen[at]) seen[at] = true, queue.push_back(at);
        };
        const auto count = [&](int m) {
            if (counted[std::size_t(m)]) return;
            counted[std::size_t(m)] = true;
            part.push_back(m);
            for (int n = 0; n < nics_; ++n)
                if (usable(m, n)) reach(node(m, n));
        };
        count(first);
        for (std::size_t i = 0; i < queue.size(); ++i) {
            const std::size_t at = queue[i];
            for (const int m : plugged[at]) count(m);
            if (at == star) continue;
            for (const int l : leaving_[at])
                if (const int there = switches_.links()[std::size_t(l)].to; !lost(there))
                    reach(std::size_t(there));
        }
        if (!queue.empty() && part.size() > largest.size()) largest = part;
    }
    if (largest.empty()) largest.push_back(0);
    for (const int m : largest) isolated_[std::size_t(m)] = false;
}

}  // namespace gx::sim
