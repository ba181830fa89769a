// LinkFaults: the bodies.
#pragma once

#include <algorithm>  // find, max, min

#include <gx/sim/fault/link_faults.hpp>  // LinkFaults

namespace gx::sim {

GX_DECL LinkFaults::LinkFaults(Engine& engine, FlowNetwork& network, const Topology& topology,
                               MessageMatcher& matcher, std::vector<bool>& fired)
    : engine_(engine), network_(network), topology_(topology), matcher_(matcher), fired_(fired) {
    for (int link = 0; link < network.links(); ++link) rates_.push_back(network.capacity(link));
}

GX_DECL std::vector<int> LinkFaults::links_of(const Wire& wire) const {
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
GX_DECL std::vector<int> LinkFaults::links_of(Switch which) {
    const FabricSwitches& all = failover().switches();
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

GX_DECL void LinkFaults::slow(std::size_t i, const Wire& wire, const std::vector<int>& links,
                              double share, Nanoseconds at, Nanoseconds lasts) {
    for (const int link : links) {
        const Task task{link_event, this, changes_.size()};
        changes_.push_back({i, link, share, wire});
        engine_.at(at, 0, task);
        if (end(at, lasts) != forever) engine_.at(at + lasts, 0, task);
    }
}

GX_DECL void LinkFaults::add(std::size_t i, const FlappingLink& f) {
    Flap flap{f.down, f.up, end(f.at, f.lasts), changes_.size(), 0};
    for (const int link : links_of(f.wire)) changes_.push_back({i, link, 0, f.wire});
    flap.count = changes_.size() - flap.first;
    engine_.at(f.at, 0, {flap_event, this, flaps_.size()});
    flaps_.push_back(flap);
}

GX_DECL void LinkFaults::add(std::size_t i, const LostNic& f) {
    const auto links = links_of(Wire{.machine = f.machine, .nic = f.nic});
    slow(i, {}, links, 0, f.at, forever);
    lose({.machine = f.machine, .nic = f.nic, .links = links}, f.at, f.unnoticed, forever);
}
GX_DECL void LinkFaults::add(std::size_t i, const LostSwitch& f) {
    const auto links = links_of(f.which);
    slow(i, {}, links, 0, f.at, f.lasts);
    lose({.which = f.which, .links = links}, f.at, f.unnoticed, f.lasts);
}
GX_DECL void LinkFaults::lose(Loss loss, Nanoseconds at, Nanoseconds unnoticed, Nanoseconds lasts) {
    (void)failover();
    if (unnoticed >= lasts || end(at, unnoticed) == forever) return;
    const Task task{loss_event, this, losses_.size()};
    losses_.push_back(std::move(loss));
    engine_.at(at + unnoticed, 0, task);
    if (end(at, lasts) != forever) engine_.at(at + lasts, 0, task);
}

GX_DECL void LinkFaults::link_event(void* p, std::uint64_t change) {
    self(p).toggle(self(p).changes_[change]);
}

GX_DECL void LinkFaults::flap_event(void* p, std::uint64_t which) {
    LinkFaults& me = self(p);
    Flap& flap = me.flaps_[which];
    const Nanoseconds now = me.engine_.now();
    if (now >= flap.end && !flap.is_down) return;
    for (std::size_t c = 0; c < flap.count; ++c) me.toggle(me.changes_[flap.first + c]);
    flap.is_down = !flap.is_down;
    const Nanoseconds next = end(now, flap.is_down ? flap.down : flap.up);
    me.engine_.at(flap.is_down ? std::min(next, flap.end) : next, 0, {flap_event, p, which});
}

GX_DECL void LinkFaults::loss_event(void* p, std::uint64_t loss) {
    self(p).toggle(self(p).losses_[loss]);
}

GX_DECL void LinkFaults::toggle(Change& change) {
    fired_[change.fault] = true;
    change.on = !change.on;
    double share = 1;
    for (const Change& c : changes_)
        if (c.link == change.link && c.on) share = std::min(share, c.share);
    const BytesPerSecond whole = rates_[static_cast<std::size_t>(change.link)];
    // A link that is slow still moves: at least 1 KB/s.
    network_.set_capacity(change.link, {share == 0 ? 0 : std::max(whole.count * share, 1000.0)});
}

GX_DECL void LinkFaults::toggle(Loss& loss) {
    loss.on = !loss.on;
    lost_ += loss.on ? 1 : -1;
    if (loss.machine >= 0) failover().lose_nic(loss.machine, loss.nic);
    else if (loss.on) failover().lose(loss.which);
    else failover().restore(loss.which);
    std::vector<int> links;  // messages stopped on them may have another route now
    for (const Loss& l : losses_)
        if (l.on) links.insert(links.end(), l.links.begin(), l.links.end());
    network_.reroute(links, [&](Transfer& flow) { return matcher_.resend(flow); });
}

GX_DECL bool LinkFaults::cut_off(int rank) const {
    const int machine = rank / topology_.spec().machine.gpus;
    for (const Change& c : changes_)
        if (c.on && c.share == 0 && (c.wire.gpu == rank || c.wire.machine == machine)) return true;
    return unreachable(rank);
}

}  // namespace gx::sim
