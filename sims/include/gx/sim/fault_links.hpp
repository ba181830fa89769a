// LinkFaults: carries out what happens to links, NICs and switches: slow, cut, flapping, lost.
#pragma once

#include <algorithm>  // find, max, min
#include <cstdint>    // uint64_t
#include <optional>   // detours
#include <vector>     // changes

#include <gx/sim/detours.hpp>          // Detours
#include <gx/sim/engine.hpp>           // Engine
#include <gx/sim/fault_values.hpp>     // Fault
#include <gx/sim/network.hpp>          // Network
#include <gx/sim/network_reroute.hpp>  // Network::reroute
#include <gx/sim/post_office.hpp>      // PostOffice
#include <gx/sim/topology.hpp>         // Topology

namespace gx::sim {

/// The links' part of a FaultInjector.
///
/// What is lost is avoided once it has been noticed: messages that are sent from then on take
/// another way (Detours), and those that were on their way there are sent again, whole, by
/// another. A message that no way is left for stands still until one is.
///
/// Order: where several faults slow a link the slowest counts.
class LinkFaults {
public:
    /// Marks in `fired` the faults that have changed a link.
    LinkFaults(Engine& engine, Network& network, const Topology& topology, PostOffice& office,
               std::vector<bool>& fired)
        : engine_(engine), network_(network), topology_(topology), office_(office), fired_(fired) {
        for (int link = 0; link < network.links(); ++link) rates_.push_back(network.capacity(link));
    }
    LinkFaults(const LinkFaults&) = delete;  // events point at it
    LinkFaults& operator=(const LinkFaults&) = delete;

    void add(std::size_t i, const SlowLink& f) {
        slow(i, f.wire, links_of(f.wire), f.share, f.at, f.lasts);
    }
    void add(std::size_t i, const CutLink& f) {
        slow(i, f.wire, links_of(f.wire), 0, f.at, f.lasts);
    }
    void add(std::size_t i, const FlappingLink& f);
    void add(std::size_t i, const LostNic& f);
    void add(std::size_t i, const SlowSwitch& f) {
        slow(i, {}, links_of(f.which), f.share, f.at, f.lasts);
    }
    void add(std::size_t i, const LostSwitch& f);

    /// As FaultHooks says.
    [[nodiscard]] bool cut_off(int rank) const;
    [[nodiscard]] bool unreachable(int rank) const {
        return lost_ > 0 && detours_->isolated(rank / topology_.spec().machine.gpus);
    }
    [[nodiscard]] bool reroute(int from, int to, int channel, Path& path) const {
        return lost_ > 0 && detours_->route(from, to, channel, path);
    }

private:
    struct Change {  // from its event until it is undone, `share` of the link's rate is left
        std::size_t fault;
        int link;
        double share;
        Wire wire;  // that is cut; none for what is lost
        bool on = false;
    };
    struct Flap {
        Nanoseconds down, up, end;
        std::size_t first, count;  // in changes_
        bool is_down = false;
    };
    struct Loss {
        int machine = -1, nic = 0;
        Switch which{};  // where there is no machine
        std::vector<int> links{};
        bool on = false;
    };

    static LinkFaults& self(void* p) { return *static_cast<LinkFaults*>(p); }
    static Nanoseconds end(Nanoseconds at, Nanoseconds lasts) {
        return lasts >= forever - at ? forever : at + lasts;
    }
    Detours& detours() {
        if (!detours_) detours_.emplace(topology_);
        return *detours_;
    }
    void slow(std::size_t i, const Wire& wire, const std::vector<int>& links, double share,
              Nanoseconds at, Nanoseconds lasts);
    void lose(Loss loss, Nanoseconds at, Nanoseconds unnoticed, Nanoseconds lasts);
    [[nodiscard]] std::vector<int> links_of(const Wire& wire) const;
    [[nodiscard]] std::vector<int> links_of(Switch which);
    static void link_event(void* p, std::uint64_t change);
    static void flap_event(void* p, std::uint64_t flap);
    static void loss_event(void* p, std::uint64_t loss);
    void toggle(Change& change);
    void toggle(Loss& loss);

    Engine& engine_;
    Network& network_;
    const Topology& topology_;
    PostOffice& office_;
    std::vector<bool>& fired_;
    std::vector<BytesPerSecond> rates_{};  // of whole links
    std::vector<Change> changes_{};
    std::vector<Flap> flaps_{};
    std::vector<Loss> losses_{};
    int lost_ = 0;  // losses that are on
    std::optional<Detours> detours_{};
};

inline std::vector<int> LinkFaults::links_of(const Wire& wire) const {
    std::vector<int> links;
    const bool out = wire.direction != Direction::in, in = wire.direction != Direction::out;
    const auto add = [&](int link) {
        if (std::find(links.begin(), links.end(), link) == links.end()) links.push_back(link);
    };
    if (wire.machine >= 0) {
        const int nics = topology_.spec().machine.nics;
        for (int nic = 0; nic < nics; ++nic) {
            if (wire.nic >= 0 && wire.nic != nic) continue;
            if (out) add(topology_.nic_out(wire.machine, nic));
            if (in) add(topology_.nic_in(wire.machine, nic));
        }
        return links;
    }
    const int gpus = topology_.spec().machine.gpus, first = wire.gpu / gpus * gpus;
    for (int peer = first; peer < first + gpus; ++peer) {
        const auto there = topology_.route(wire.gpu, peer), back = topology_.route(peer, wire.gpu);
        if (out && there.path.count > 0) add(there.path.view().front());
        if (in && back.path.count > 0) add(back.path.view().back());
    }
    return links;
}

// Its ports: links to other switches, and the NICs that are plugged into it.
inline std::vector<int> LinkFaults::links_of(Switch which) {
    const FabricSwitches& all = detours().switches();
    const int node = all.node(which), first = topology_.fabric_links().first();
    std::vector<int> links;
    for (std::size_t l = 0; l < all.links().size(); ++l)
        if (all.links()[l].from == node || all.links()[l].to == node)
            links.push_back(first + static_cast<int>(l));
    for (int m = 0; m < topology_.spec().machines; ++m)
        for (int nic = 0; nic < topology_.spec().machine.nics; ++nic)
            if (all.of(m, nic) == node) {
                links.push_back(topology_.nic_out(m, nic));
                links.push_back(topology_.nic_in(m, nic));
            }
    return links;
}

inline void LinkFaults::slow(std::size_t i, const Wire& wire, const std::vector<int>& links,
                             double share, Nanoseconds at, Nanoseconds lasts) {
    for (const int link : links) {
        const Task task{link_event, this, changes_.size()};
        changes_.push_back({i, link, share, wire});
        engine_.at(at, 0, task);
        if (end(at, lasts) != forever) engine_.at(at + lasts, 0, task);
    }
}

inline void LinkFaults::add(std::size_t i, const FlappingLink& f) {
    Flap flap{f.down, f.up, end(f.at, f.lasts), changes_.size(), 0};
    for (const int link : links_of(f.wire)) changes_.push_back({i, link, 0, f.wire});
    flap.count = changes_.size() - flap.first;
    engine_.at(f.at, 0, {flap_event, this, flaps_.size()});
    flaps_.push_back(flap);
}

inline void LinkFaults::add(std::size_t i, const LostNic& f) {
    const auto links = links_of(Wire{.machine = f.machine, .nic = f.nic});
    slow(i, {}, links, 0, f.at, forever);
    lose({.machine = f.machine, .nic = f.nic, .links = links}, f.at, f.unnoticed, forever);
}
inline void LinkFaults::add(std::size_t i, const LostSwitch& f) {
    const auto links = links_of(f.which);
    slow(i, {}, links, 0, f.at, f.lasts);
    lose({.which = f.which, .links = links}, f.at, f.unnoticed, f.lasts);
}
inline void LinkFaults::lose(Loss loss, Nanoseconds at, Nanoseconds unnoticed, Nanoseconds lasts) {
    (void)detours();
    if (unnoticed >= lasts || end(at, unnoticed) == forever) return;
    const Task task{loss_event, this, losses_.size()};
    losses_.push_back(std::move(loss));
    engine_.at(at + unnoticed, 0, task);
    if (end(at, lasts) != forever) engine_.at(at + lasts, 0, task);
}

inline void LinkFaults::link_event(void* p, std::uint64_t change) {
    self(p).toggle(self(p).changes_[change]);
}

inline void LinkFaults::flap_event(void* p, std::uint64_t which) {
    LinkFaults& me = self(p);
    Flap& flap = me.flaps_[which];
    const Nanoseconds now = me.engine_.now();
    if (now >= flap.end && !flap.is_down) return;
    for (std::size_t c = 0; c < flap.count; ++c) me.toggle(me.changes_[flap.first + c]);
    flap.is_down = !flap.is_down;
    const Nanoseconds next = end(now, flap.is_down ? flap.down : flap.up);
    me.engine_.at(flap.is_down ? std::min(next, flap.end) : next, 0, {flap_event, p, which});
}

inline void LinkFaults::loss_event(void* p, std::uint64_t loss) {
    self(p).toggle(self(p).losses_[loss]);
}

inline void LinkFaults::toggle(Change& change) {
    fired_[change.fault] = true;
    change.on = !change.on;
    double share = 1;
    for (const Change& c : changes_)
        if (c.link == change.link && c.on) share = std::min(share, c.share);
    const BytesPerSecond whole = rates_[static_cast<std::size_t>(change.link)];
    // A link that is slow still moves: at least 1 KB/s.
    network_.set_capacity(change.link, {share == 0 ? 0 : std::max(whole.count * share, 1000.0)});
}

inline void LinkFaults::toggle(Loss& loss) {
    loss.on = !loss.on;
    lost_ += loss.on ? 1 : -1;
    if (loss.machine >= 0)
        detours().lose_nic(loss.machine, loss.nic);
    else if (loss.on)
        detours().lose(loss.which);
    else
        detours().restore(loss.which);
    std::vector<int> links;  // whatever stands still on them may have another way now
    for (const Loss& l : losses_)
        if (l.on) links.insert(links.end(), l.links.begin(), l.links.end());
    network_.reroute(links, [&](Flow& flow) { return office_.resend(flow); });
}

inline bool LinkFaults::cut_off(int rank) const {
    const int machine = rank / topology_.spec().machine.gpus;
    for (const Change& c : changes_)
        if (c.on && c.share == 0 && (c.wire.gpu == rank || c.wire.machine == machine)) return true;
    return unreachable(rank);
}

}  // namespace gx::sim
