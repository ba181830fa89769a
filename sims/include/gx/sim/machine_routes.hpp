// MachineRoutes: the links inside a machine that can ever be the narrowest, and the ways over them.
#pragma once

#include <algorithm>  // count, find, min, sort
#include <array>      // the way up
#include <cstddef>    // size_t
#include <vector>     // links and ways

#include <gx/core/cold.hpp>  // GX_COLD
#include <gx/sim/machine.hpp>  // ClusterSpec, Wiring

namespace gx::sim {

/// Links and routes of one machine of a cluster; all machines have the same.
///
/// A link is left out where the links just before it, or just after it, on every route over it
/// carry no more together than it does: then it can never be the narrowest, and fair shares are
/// the same without it. NICs are always kept.
class MachineRoutes {
public:
    struct Way {
        std::vector<int> links{};  // of this machine, from 0
        LinkClass slowest = LinkClass::nvlink;
        BytesPerSecond cap{0};     // of one flow; 0: none
    };

    /// `detours`: there are ways between each GPU and each NIC, and not the nearest ones only.
    GX_COLD explicit MachineRoutes(const ClusterSpec& spec, bool detours = false)
        : m_(spec.machine), gpus_(m_.gpus), nics_(spec.machines > 1 ? m_.nics : 0),
          nic_rate_(spec.nic_rate()), through_host_(spec.profile.transport.through_host) {
        find_near();
        const bool by_rail = spec.fabric.kind == Fabric::Kind::rails;
        for (int a = 0; a < gpus_; ++a)
            for (int b = 0; b < gpus_; ++b) peers_.push_back(a == b ? Way{} : between(a, b));
        for (int g = 0; g < gpus_; ++g)
            for (int n = 0; n < nics_; ++n) {
                out_.push_back(is_near(g, n) ? to_nic(g, n) : Way{});
                in_.push_back(is_near(g, n) ? mirrored(out_.back()) : Way{});
                if (by_rail && nic_of(g, 0) != n) in_.back() = from_rail(n, g);
                if (!detours || is_near(g, n)) continue;
                out_.back() = to_rail(g, n);
                in_.back() = from_rail(n, g);
            }
        leave_out_links();
        renumber();
    }

    /// Rate of each link that is kept.
    [[nodiscard]] const std::vector<BytesPerSecond>& rates() const { return rates_; }
    [[nodiscard]] const Way& peers(int from, int to) const { return peers_[at(from, gpus_, to)]; }
    [[nodiscard]] const Way& out(int gpu, int nic) const { return out_[at(gpu, nics_, nic)]; }
    [[nodiscard]] const Way& in(int nic, int gpu) const { return in_[at(gpu, nics_, nic)]; }
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
    GX_COLD [[nodiscard]] Climb climb(PciePort p) const {
        Climb c;
        while (p.under >= 0 && c.count < Wiring::most_switches) {
            c.switches[index(c.count++)] = p.under;
            p = m_.wiring.pcie_switch[index(p.under)];
        }
        c.socket = p.socket;
        return c;
    }

    struct Tree {  // a way over PCIe, without its two ends
        std::vector<int> links{};
        bool crosses_socket = false;
    };
    GX_COLD [[nodiscard]] Tree over_pcie(PciePort from, PciePort to, bool past_socket,
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
        for (int i = down - 1; i >= 0; --i)
            t.links.push_back(switch_down_ + b.switches[index(i)]);
        return t;
    }

    GX_COLD [[nodiscard]] Way between(int a, int b) const {
        const Wiring& w = m_.wiring;
        if (!w.known || w.nvswitch_links > 0)
            return {{fast_out_ + a, fast_in_ + b}, LinkClass::nvlink, m_.peer_flow_cap};
        if (w.nvlinks[index(a)][index(b)] > 0)
            return {{pair_ + most_ * a + b}, LinkClass::nvlink, m_.peer_flow_cap};
        const Tree t = over_pcie(w.gpu[index(a)], w.gpu[index(b)], false, true);
        Way way{{gpu_up_ + a}, LinkClass::pci, {0}};
        way.links.insert(way.links.end(), t.links.begin(), t.links.end());
        way.links.push_back(gpu_down_ + b);
        if (!t.crosses_socket || w.peer_penalty <= 1) return way;
        BytesPerSecond narrowest = rate(way.links.front());
        for (const int l : way.links)
            if (l < socket_peers_ || l >= pair_) narrowest = std::min(narrowest, rate(l));
        way.cap = narrowest / w.peer_penalty;
        return way;
    }

    GX_COLD [[nodiscard]] Way to_nic(int g, int n) const {
        const Wiring& w = m_.wiring;
        Way way{{gpu_up_ + g}, LinkClass::net, {0}};
        if (w.known) {
            const Tree t = over_pcie(w.gpu[index(g)], w.nic[index(n)], through_host_, false);
            way.links.insert(way.links.end(), t.links.begin(), t.links.end());
        }
        way.links.push_back(nic_out_ + n);
        return way;
    }
    /// From a NIC to a GPU that begins with another: over NVLink from one that begins with it, if
    /// there is such a way, as NCCL's PXN does; else over PCIe.
    GX_COLD [[nodiscard]] Way from_rail(int n, int g) const {
        for (int relay = 0; relay < gpus_; ++relay) {
            if (nic_of(relay, 0) != n) continue;
            const Way last = between(relay, g);
            if (last.slowest != LinkClass::nvlink) continue;
            Way way = mirrored(to_nic(relay, n));
            way.links.insert(way.links.end(), last.links.begin(), last.links.end());
            return way;
        }
        return mirrored(to_nic(g, n));
    }
    /// From a GPU to a NIC that another begins with, the same way back.
    GX_COLD [[nodiscard]] Way to_rail(int g, int n) const {
        for (int relay = 0; relay < gpus_; ++relay) {
            if (nic_of(relay, 0) != n) continue;
            Way way = between(g, relay);
            if (way.slowest != LinkClass::nvlink) continue;
            const Way last = to_nic(relay, n);
            way.links.insert(way.links.end(), last.links.begin(), last.links.end());
            return way;
        }
        return to_nic(g, n);
    }
    /// The same way in the other direction.
    GX_COLD [[nodiscard]] Way mirrored(Way way) const {
        std::reverse(way.links.begin(), way.links.end());
        for (int& l : way.links) {
            const int kind = l / most_;
            if (l < socket_) l += kind % 2 == 0 ? most_ : -most_;
            else if (l < socket_peers_) l = socket_ + (l - socket_) % 8 * 8 + (l - socket_) / 8;
        }
        return way;
    }

    GX_COLD [[nodiscard]] BytesPerSecond rate(int l) const {
        const Wiring& w = m_.wiring;
        const std::size_t i = index(l % most_);
        if (l >= pair_) {
            const int pair = l - pair_;
            return w.nvlink * double(w.nvlinks[index(pair / most_)][index(pair % most_)]);
        }
        if (l >= socket_peers_) return w.socket_link / w.peer_penalty;
        if (l >= socket_) return w.socket_link;
        if (l >= fast_out_)
            return w.known ? w.nvlink * double(w.nvswitch_links) : m_.peer_bandwidth;
        if (l >= nic_out_) return w.known ? std::min(nic_rate_, w.nic[i].rate) : nic_rate_;
        if (l >= switch_up_) return w.pcie_switch[i].rate;
        return w.known ? w.gpu[i].rate : m_.host_bandwidth;
    }

    GX_COLD void find_near() {
        near_.resize(index(gpus_));
        for (int g = 0; g < gpus_; ++g) {
            std::vector<std::size_t> far;
            for (int n = 0; n < nics_; ++n) {
                const auto& w = m_.wiring;
                const Tree t = w.known ? over_pcie(w.gpu[index(g)], w.nic[index(n)], false, false)
                                       : Tree{};
                far.push_back(t.links.size() + (t.crosses_socket ? 1 : 0));
            }
            for (int n = 0; n < nics_; ++n)
                if (far[index(n)] == *std::min_element(far.begin(), far.end()))
                    near_[index(g)].push_back(n);
            const auto before = near_.begin() + g;
            begin_.push_back(static_cast<int>(std::count(near_.begin(), before, *before)));
        }
    }

    /// Do the neighbours of `l` on every route, before it or after it, carry no more than it does?
    GX_COLD [[nodiscard]] bool never_narrowest(int l, bool before) {
        std::vector<int> neighbours;
        for (const std::vector<Way>* ways : {&peers_, &out_, &in_})
            for (const Way& way : *ways) {
                const auto here = std::find(way.links.begin(), way.links.end(), l);
                if (here == way.links.end()) continue;
                if (here == (before ? way.links.begin() : way.links.end() - 1)) return false;
                const int next = before ? *(here - 1) : *(here + 1);
                if (std::find(neighbours.begin(), neighbours.end(), next) == neighbours.end())
                    neighbours.push_back(next);
            }
        BytesPerSecond sum{0};
        for (const int n : neighbours) sum += rate(n);
        return !neighbours.empty() && sum <= rate(l);
    }
    GX_COLD void leave_out_links() {
        for (const int l : links_in_use()) {
            if (l >= nic_out_ && l < fast_out_) continue;
            if (!never_narrowest(l, true) && !never_narrowest(l, false)) continue;
            for (std::vector<Way>* ways : {&peers_, &out_, &in_})
                for (Way& way : *ways) std::erase(way.links, l);
        }
    }
    GX_COLD [[nodiscard]] std::vector<int> links_in_use() const {
        std::vector<int> used;
        for (const std::vector<Way>* ways : {&peers_, &out_, &in_})
            for (const Way& way : *ways)
                used.insert(used.end(), way.links.begin(), way.links.end());
        std::sort(used.begin(), used.end());
        used.erase(std::unique(used.begin(), used.end()), used.end());
        return used;
    }
    GX_COLD void renumber() {
        kept_.assign(index(all_links_), -1);
        const auto keep = [&](int l) {
            int& k = kept_[index(l)];
            if (k < 0) k = static_cast<int>(rates_.size()), rates_.push_back(rate(l));
            return k;
        };
        for (int n = 0; n < nics_; ++n) keep(nic_out_ + n), keep(nic_in_ + n);
        for (std::vector<Way>* ways : {&peers_, &out_, &in_})
            for (Way& way : *ways)
                for (int& l : way.links) l = keep(l);
    }

    MachineSpec m_;
    int gpus_, nics_;
    // Links before any is left out, by kind; up, out and down, in alternate.
    int most_ = std::max({Wiring::most_switches, gpus_, nics_});  // devices of a kind
    int gpu_up_ = 0, gpu_down_ = most_, switch_up_ = 2 * most_, switch_down_ = 3 * most_,
        nic_out_ = 4 * most_, nic_in_ = 5 * most_, fast_out_ = 6 * most_, fast_in_ = 7 * most_,
        socket_ = 8 * most_, socket_peers_ = socket_ + 64, pair_ = socket_peers_ + 64,
        all_links_ = pair_ + most_ * most_;
    BytesPerSecond nic_rate_;
    bool through_host_;
    std::vector<std::vector<int>> near_{};  // NICs nearest to each GPU
    std::vector<int> begin_{};              // which of them it begins with
    std::vector<Way> peers_{}, out_{}, in_{};
    std::vector<BytesPerSecond> rates_{};
    std::vector<int> kept_{};
};

}  // namespace gx::sim
