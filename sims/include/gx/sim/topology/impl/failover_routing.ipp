// FailoverRouting: choice of NICs, search over the fabric, isolated machines.
#pragma once

#include <algorithm>  // reverse

#include <gx/sim/topology/failover_routing.hpp>  // FailoverRouting

namespace gx::sim {

GX_DECL FailoverRouting::FailoverRouting(const Topology& topology)
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

GX_DECL bool FailoverRouting::route(int from, int to, int channel, Path& path) const {
    const int gpus = topology_.spec().machine.gpus, a = from / gpus, b = to / gpus;
    if (a == b) return true;
    const int x = from % gpus, y = to % gpus;
    const int out = choose_nic(x, channel, a, b);
    if (out < 0) return false;
    const bool rails = topology_.spec().fabric.kind == Fabric::Kind::rails;
    const int in = rails ? out : choose_nic(y, channel, b, a);
    if (in < 0) return false;
    const Route& links = between(a, b);
    return links.found && topology_.route_over(from, to, out, in, links.links, path);
}

// The message's own NIC where it is left, else one of those nearest to the GPU.
GX_DECL int FailoverRouting::choose_nic(int gpu, int channel, int machine, int other) const {
    const MachineRoutes& inside = topology_.inside();
    const int own = inside.nic_of(gpu, channel);
    if (usable_to(machine, own, other)) return own;
    std::vector<int> near, far;
    for (int n = 0; n < nics_; ++n)
        if (usable_to(machine, n, other)) (inside.is_near(gpu, n) ? near : far).push_back(n);
    const std::vector<int>& from = near.empty() ? far : near;
    return from.empty() ? -1 : from[std::size_t(gpu + channel) % from.size()];
}

GX_DECL const FailoverRouting::Route& FailoverRouting::between(int from, int to) const {
    const auto [at, fresh] = routes_.try_emplace({from, to});
    Route& route = at->second;
    if (!fresh) return route;
    Path own;
    topology_.fabric_links().add_route(from, to, own);
    if (whole(own, from, to)) {
        route.found = true;
        route.links.assign(own.view().begin(), own.view().end());
    } else {
        search(from, to, route);
    }
    return route;
}

GX_DECL bool FailoverRouting::whole(const Path& path, int from, int to) const {
    const int first = topology_.fabric_links().first();
    if (switches_.of(from, 0) < 0 || topology_.spec().fabric.kind == Fabric::Kind::rails)
        return true;  // what a NIC is plugged into is part of its being usable
    if (lost(switches_.of(from, 0)) || lost(switches_.of(to, 0))) return false;
    for (const int link : path.view())
        if (lost(switches_.links()[std::size_t(link - first)].to)) return false;
    return true;
}

// Breadth first, so the first route found has the fewest links.
GX_DECL void FailoverRouting::search(int from, int to, Route& route) const {
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
    for (int at = end; at != begin; at = switches_.links()[std::size_t(route.links.back())].from) {
        if (came_by[std::size_t(at)] < 0) return;
        route.links.push_back(came_by[std::size_t(at)]);
    }
    std::reverse(route.links.begin(), route.links.end());
    for (int& l : route.links) l += topology_.fabric_links().first();
    route.found = true;
}

GX_DECL bool FailoverRouting::reaches(int from, int to) const {
    if (from == to) return true;
    bool out = false, in = false;
    for (int n = 0; n < nics_; ++n) {
        out = out || usable_to(from, n, to);
        in = in || usable_to(to, n, from);
    }
    return out && in && between(from, to).found;
}

GX_DECL bool FailoverRouting::isolated(int machine) const {
    if (isolated_.empty()) find_isolated();
    return isolated_[std::size_t(machine)];
}

// Floods each part from its first machine, over switches and the machines plugged into them.
GX_DECL void FailoverRouting::find_isolated() const {
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
