// MachineRoutes: routes over NVLink and PCIe, and the links that are omitted.
#pragma once

#include <algorithm>  // count, find, min, reverse
#include <set>        // neighbours

#include <gx/sim/topology/machine_routes.hpp>  // MachineRoutes

namespace gx::sim {

GX_DECL MachineRoutes::MachineRoutes(const ClusterSpec& spec, bool failover)
    : m_(spec.machine),
      gpus_(m_.gpus),
      nics_(spec.machines > 1 ? m_.nics : 0),
      nic_rate_(spec.nic_rate()),
      through_host_(spec.profile.transport.through_host) {
    find_near();
    const bool by_rail = spec.fabric.kind == Fabric::Kind::rails;
    for (int a = 0; a < gpus_; ++a)
        for (int b = 0; b < gpus_; ++b) peers_.push_back(a == b ? Route{} : between(a, b));
    for (int g = 0; g < gpus_; ++g)
        for (int n = 0; n < nics_; ++n) {
            out_.push_back(is_near(g, n) ? to_nic(g, n) : Route{});
            in_.push_back(is_near(g, n) ? mirrored(out_.back()) : Route{});
            if (by_rail && nic_of(g, 0) != n) in_.back() = from_rail(n, g);
            if (!failover || is_near(g, n)) continue;
            out_.back() = to_rail(g, n);
            in_.back() = from_rail(n, g);
        }
    leave_out_links();
    renumber();
}

GX_DECL MachineRoutes::Climb MachineRoutes::climb(PciePort p) const {
    Climb c;
    while (p.under >= 0 && c.count < Wiring::most_switches) {
        c.switches[index(c.count++)] = p.under;
        p = m_.wiring.pcie_switch[index(p.under)];
    }
    c.socket = p.socket;
    return c;
}

GX_DECL MachineRoutes::Tree MachineRoutes::over_pcie(PciePort from, PciePort to, bool past_socket,
                                                     bool peers) const {
    const Climb a = climb(from), b = climb(to);
    int up = a.count, down = b.count;
    for (int i = a.count - 1; i >= 0 && !past_socket; --i)
        if (const int k = b.find(a.switches[index(i)]); k < b.count) up = i, down = k;
    Tree t{.crosses_socket = up == a.count && down == b.count};
    for (int i = 0; i < up; ++i) t.links.push_back(switch_up_ + a.switches[index(i)]);
    if (t.crosses_socket && a.socket != b.socket) {
        t.links.push_back(socket_ + 8 * a.socket + b.socket);
        if (peers && m_.wiring.peer_penalty > 1)
            t.links.push_back(socket_peers_ + 8 * a.socket + b.socket);
    }
    for (int i = down - 1; i >= 0; --i) t.links.push_back(switch_down_ + b.switches[index(i)]);
    return t;
}

GX_DECL MachineRoutes::Route MachineRoutes::between(int a, int b) const {
    const Wiring& w = m_.wiring;
    if (!w.known || w.nvswitch_links > 0)
        return {{fast_out_ + a, fast_in_ + b}, LinkClass::nvlink, m_.peer_flow_cap};
    if (w.nvlinks[index(a)][index(b)] > 0)
        return {{pair_ + most_ * a + b}, LinkClass::nvlink, m_.peer_flow_cap};
    const Tree t = over_pcie(w.gpu[index(a)], w.gpu[index(b)], false, true);
    Route route{{gpu_up_ + a}, LinkClass::pci, {0}};
    route.links.insert(route.links.end(), t.links.begin(), t.links.end());
    route.links.push_back(gpu_down_ + b);
    if (!t.crosses_socket || w.peer_penalty <= 1) return route;
    BytesPerSecond narrowest = rate(route.links.front());
    for (const int l : route.links)
        if (l < socket_peers_ || l >= pair_) narrowest = std::min(narrowest, rate(l));
    route.cap = narrowest / w.peer_penalty;
    return route;
}

GX_DECL MachineRoutes::Route MachineRoutes::to_nic(int g, int n) const {
    const Wiring& w = m_.wiring;
    Route route{{gpu_up_ + g}, LinkClass::net, {0}};
    if (w.known) {
        const Tree t = over_pcie(w.gpu[index(g)], w.nic[index(n)], through_host_, false);
        route.links.insert(route.links.end(), t.links.begin(), t.links.end());
    }
    route.links.push_back(nic_out_ + n);
    return route;
}

GX_DECL MachineRoutes::Route MachineRoutes::from_rail(int n, int g) const {
    for (int relay = 0; relay < gpus_; ++relay) {
        if (nic_of(relay, 0) != n) continue;
        const Route last = between(relay, g);
        if (last.slowest != LinkClass::nvlink) continue;
        Route route = mirrored(to_nic(relay, n));
        route.links.insert(route.links.end(), last.links.begin(), last.links.end());
        return route;
    }
    return mirrored(to_nic(g, n));
}

GX_DECL MachineRoutes::Route MachineRoutes::to_rail(int g, int n) const {
    for (int relay = 0; relay < gpus_; ++relay) {
        if (nic_of(relay, 0) != n) continue;
        Route route = between(g, relay);
        if (route.slowest != LinkClass::nvlink) continue;
        const Route last = to_nic(relay, n);
        route.links.insert(route.links.end(), last.links.begin(), last.links.end());
        return route;
    }
    return to_nic(g, n);
}

GX_DECL MachineRoutes::Route MachineRoutes::mirrored(Route route) const {
    std::reverse(route.links.begin(), route.links.end());
    for (int& l : route.links) {
        const int kind = l / most_;
        if (l < socket_) l += kind % 2 == 0 ? most_ : -most_;
        else if (l < socket_peers_) l = socket_ + (l - socket_) % 8 * 8 + (l - socket_) / 8;
    }
    return route;
}

GX_DECL BytesPerSecond MachineRoutes::rate(int l) const {
    const Wiring& w = m_.wiring;
    const std::size_t i = index(l % most_);
    if (l >= pair_) {
        const int pair = l - pair_;
        return w.nvlink * double(w.nvlinks[index(pair / most_)][index(pair % most_)]);
    }
    if (l >= socket_peers_) return w.socket_link / w.peer_penalty;
    if (l >= socket_) return w.socket_link;
    if (l >= fast_out_) return w.known ? w.nvlink * double(w.nvswitch_links) : m_.peer_bandwidth;
    if (l >= nic_out_) return w.known ? std::min(nic_rate_, w.nic[i].rate) : nic_rate_;
    if (l >= switch_up_) return w.pcie_switch[i].rate;
    return w.known ? w.gpu[i].rate : m_.host_bandwidth;
}

GX_DECL void MachineRoutes::find_near() {
    near_.resize(index(gpus_));
    for (int g = 0; g < gpus_; ++g) {
        std::vector<std::size_t> far;
        for (int n = 0; n < nics_; ++n) {
            const auto& w = m_.wiring;
            const Tree t =
                w.known ? over_pcie(w.gpu[index(g)], w.nic[index(n)], false, false) : Tree{};
            far.push_back(t.links.size() + (t.crosses_socket ? 1 : 0));
        }
        for (int n = 0; n < nics_; ++n)
            if (far[index(n)] == *std::min_element(far.begin(), far.end()))
                near_[index(g)].push_back(n);
        const auto before = near_.begin() + g;
        begin_.push_back(static_cast<int>(std::count(near_.begin(), before, *before)));
    }
}

GX_DECL bool MachineRoutes::never_narrowest(int l, bool before,
                                            const std::vector<Route*>& users) const {
    const BytesPerSecond most = rate(l);
    std::set<int> neighbours;
    BytesPerSecond sum{0};
    for (const Route* route : users) {
        const auto here = std::find(route->links.begin(), route->links.end(), l);
        if (here == (before ? route->links.begin() : route->links.end() - 1)) return false;
        const int next = before ? *(here - 1) : *(here + 1);
        if (neighbours.insert(next).second) sum += rate(next);
        if (sum > most) return false;
    }
    return true;
}

GX_DECL void MachineRoutes::leave_out_links() {
    std::vector<std::vector<Route*>> users(index(all_links_));
    for (std::vector<Route>* routes : {&peers_, &out_, &in_})
        for (Route& route : *routes)
            for (const int l : route.links)
                if (users[index(l)].empty() || users[index(l)].back() != &route)
                    users[index(l)].push_back(&route);
    for (int l = 0; l < all_links_; ++l) {
        const std::vector<Route*>& mine = users[index(l)];
        if (mine.empty() || (l >= nic_out_ && l < fast_out_)) continue;
        if (!never_narrowest(l, true, mine) && !never_narrowest(l, false, mine)) continue;
        for (Route* route : mine) std::erase(route->links, l);
    }
}

GX_DECL void MachineRoutes::renumber() {
    kept_.assign(index(all_links_), -1);
    const auto keep = [&](int l) {
        int& k = kept_[index(l)];
        if (k < 0) k = static_cast<int>(rates_.size()), rates_.push_back(rate(l));
        return k;
    };
    for (int n = 0; n < nics_; ++n) keep(nic_out_ + n), keep(nic_in_ + n);
    for (std::vector<Route>* routes : {&peers_, &out_, &in_})
        for (Route& route : *routes)
            for (int& l : route.links) l = keep(l);
}

}  // namespace gx::sim
