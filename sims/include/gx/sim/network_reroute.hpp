// Network::reroute: messages on their way start again on another one.
#pragma once

#include <algorithm>  // find
#include <cstddef>    // size_t
#include <span>       // links
#include <vector>     // slots

#include <gx/sim/network.hpp>  // Network

namespace gx::sim {

// A flow that has not begun yet keeps its beginning, and only its path is changed.
inline void Network::reroute(std::span<const int> links, FunctionRef<bool(Flow&)> way) {
    std::vector<bool> used(active_.size(), true);
    for (const int slot : free_slots_) used[static_cast<std::size_t>(slot)] = false;
    for (int slot = 0; slot < static_cast<int>(used.size()); ++slot) {
        Active& a = active(slot);
        bool crosses = false;
        Flow flow{.bytes = {a.bytes}, .weight = a.weight, .rank = a.rank, .done = a.done};
        for (const Hop& h : a.view()) {
            crosses = crosses || std::find(links.begin(), links.end(), h.link) != links.end();
            flow.path.add(h.link);
        }
        if (!used[static_cast<std::size_t>(slot)] || !crosses || !way(flow)) continue;
        const Hop& first = a.path[0];
        const auto& there = at(first.link).flows;
        const auto place = static_cast<std::size_t>(first.place);
        const bool begun = place < there.size() && there[place].flow == slot;
        if (begun) {
            leave(slot, false);
            if (a.posted != never) engine_.retract();
            ++a.generation;
            a.rate = 0;
            a.remaining = Work{a.bytes} * 1024 * 1'000'000'000;
        }
        a.hops = flow.path.count;
        for (std::size_t hop = 0; hop < flow.path.view().size(); ++hop)
            a.path[hop].link = flow.path.links[hop];
        if (begun)
            engine_.at(engine_.now() + flow.latency, a.rank,
                       {start_event, this, static_cast<std::uint64_t>(slot)});
    }
}

}  // namespace gx::sim
