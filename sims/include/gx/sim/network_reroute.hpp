// Network::reroute: messages on their way start again on another one.
#pragma once

#include <algorithm>  // find
#include <cstddef>    // size_t
#include <span>       // links
#include <utility>    // exchange
#include <vector>     // slots

#include <gx/sim/network.hpp>  // Network

namespace gx::sim {

// A flow that has not begun yet keeps its beginning, and only its path is changed. One whose last
// byte arrives in this instant has arrived.
inline void Network::reroute(std::span<const int> links, FunctionRef<bool(Flow&)> way) {
    std::vector<bool> ask(active_.size(), true);
    for (const int slot : free_slots_) ask[static_cast<std::size_t>(slot)] = false;
    for (int slot = 0; slot < static_cast<int>(ask.size()); ++slot) {
        Active a = active(slot);
        const bool for_others_only = a.grouped && group(slot).leader == none;
        bool crosses = false;
        Flow flow{.bytes = {a.bytes}, .weight = a.weight, .rank = a.rank, .done = a.done};
        for (const Hop& h : a.view()) {
            crosses = crosses || std::find(links.begin(), links.end(), h.link) != links.end();
            flow.path.add(h.link);
        }
        if (!ask[static_cast<std::size_t>(slot)] || for_others_only || group(slot).ending) continue;
        if (!crosses || !way(flow)) continue;
        const bool begun = has_begun(slot);
        int again = slot;
        if (begun && !take_off(slot)) {
            again = take_slot();
            if (again < static_cast<int>(ask.size())) ask[static_cast<std::size_t>(again)] = false;
        }
        Active& b = active(again);
        if (again != slot) {
            b.bytes = a.bytes;
            b.weight = a.weight;
            b.cap = a.cap;
            b.rank = a.rank;
            b.done = a.done;
        }
        b.hops = static_cast<std::uint8_t>(flow.path.count);
        for (std::size_t hop = 0; hop < flow.path.view().size(); ++hop)
            b.path[hop].link = flow.path.links[hop];
        if (!begun) continue;
        b.level = 0;
        b.grouped = b.unsettled = false;
        b.remaining = Work{b.bytes} * 1024 * 1'000'000'000;
        engine_.at(engine_.now() + flow.latency, b.rank,
                   {start_event, this, static_cast<std::uint64_t>(again)});
    }
}

inline bool Network::has_begun(int slot) {
    if (group(slot).leader != none) return true;
    const Hop& first = active(slot).path[0];
    const auto& there = at(first.link).flows;
    const auto place = static_cast<std::size_t>(first.place);
    return place < there.size() && there[place].flow == slot;
}

// Takes a flow that has begun off its links; false where it still stands there for others.
inline bool Network::take_off(int slot) {
    const int leader = group(slot).leader;
    Active& a = active(leader == none ? slot : leader);
    if (a.posted != never) engine_.retract();
    ++a.generation;
    a.posted = never;
    if (leader == none) {
        leave(slot, false);
        return true;
    }
    take_out(slot);
    if (group(leader).members > 0) return slot != leader;
    leave(leader, false);
    if (slot != leader) free_slots_.push_back(leader);
    return true;
}

// Takes a flow out of its group; the others go on, and are solved and posted anew.
inline void Network::take_out(int slot) {
    const int leader = std::exchange(group(slot).leader, none);
    Active& a = active(leader);
    Group& g = group(leader);
    PairingHeap heap(ByTarget{&groups_});
    if (a.level > 0) a.remaining -= Work{a.rate()} * (engine_.now() - a.since).count();
    a.since = engine_.now();
    const bool several = g.members - g.joining > 1;
    const Work sent = several && g.first != none ? group(g.first).target - a.remaining : 0;
    std::vector<int> others;
    bool joining = false;
    for (int next = std::exchange(g.coming, none); next != none;) {
        const int comes = std::exchange(next, std::exchange(group(next).links.sibling, none));
        if (comes == slot) joining = true;
        else group(comes).links.sibling = std::exchange(g.coming, comes);
    }
    while (g.first != none) {
        const int first = std::exchange(g.first, heap.pop(g.first));
        if (first != slot) others.push_back(first);
    }
    for (const int other : others) g.first = heap.meld(g.first, other);
    if (g.first != none && several) a.remaining = group(g.first).target - sent;
    if (joining) --g.joining;
    else if (observer_.changed) tell(a, -a.rate());
    --g.members;
    if (g.members == g.joining) a.level = 0;
    a.unsettled = true;
    for (const Hop& h : a.view()) touch(h.link);
}

}  // namespace gx::sim
