// FlowGroups: taking a member out.
#pragma once

#include <utility>  // exchange

#include <gx/sim/network/flow_groups.hpp>  // FlowGroups

namespace gx::sim {

// The heap cannot drop an inner node: the others are put in a new one.
GX_DECL FlowGroups::Work FlowGroups::take_out(int slot, Work remaining) {
    const int leader = std::exchange(at(slot).leader, none);
    Group& g = at(leader);
    const bool several = g.members - g.joining > 1;
    const Work sent = several && g.first != none ? at(g.first).target - remaining : 0;
    for (int next = std::exchange(g.coming, none); next != none;) {
        const int comes = std::exchange(next, std::exchange(at(next).links.sibling, none));
        if (comes == slot) --g.joining;
        else at(comes).links.sibling = std::exchange(g.coming, comes);
    }
    TrivialVector<int> others;
    while (g.first != none) {
        const int first = std::exchange(g.first, heap().pop(g.first));
        if (first != slot) others.push_back(first);
    }
    for (const int other : others) g.first = heap().meld(g.first, other);
    if (g.first != none && several) remaining = at(g.first).target - sent;
    --g.members;
    return remaining;
}

}  // namespace gx::sim
