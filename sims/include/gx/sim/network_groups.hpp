// Network where flows are equal: they are found, share a rate, and end one after the other.
#pragma once

#include <algorithm>  // equal, sort
#include <utility>    // exchange

#include <gx/sim/network.hpp>  // Network

namespace gx::sim {

// ---- Who is equal to whom ---------------------------------------------------------------

inline bool Network::are_equal(Active& a, Active& b) {
    const auto same_link = [](const Hop& x, const Hop& y) { return x.link == y.link; };
    return a.cap == b.cap && a.weight == b.weight &&
           std::equal(a.view().begin(), a.view().end(), b.view().begin(), b.view().end(),
                      same_link);
}

// Who stands on the links for flows like this one, each of which is in use. A flow that came to an
// empty link is the first there as long as it stays; one that found all in use has been listed.
inline int Network::equal_to(int slot) {
    Active& a = active(slot);
    for (const Hop& h : a.view()) {
        const int other = at(h.link).flows.front().flow;
        if (are_equal(a, active(other))) return other;
    }
    if (groups_by_hash_.empty()) return none;
    int other = groups_by_hash_[hash_of(a)];
    while (other != none && !are_equal(a, active(other))) other = group(other).next_listed;
    return other;
}

// A flow that has just come to links each of which is in use: it leaves them to its equal.
inline bool Network::joins_equal(int slot) {
    const int equal = equal_to(slot);
    if (equal == none) {
        list(slot);
        return false;
    }
    for (const Hop& h : active(slot).view()) at(h.link).flows.pop_back();
    join(equal, slot);
    return true;
}

/// Source: the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
inline std::size_t Network::hash_of(Active& a) const {
    std::uint64_t h = static_cast<std::uint64_t>(a.cap) + static_cast<std::uint64_t>(a.weight);
    for (const Hop& hop : a.view()) {
        h = (h ^ static_cast<std::uint64_t>(hop.link)) * 0xbf58476d1ce4e5b9u;
        h ^= h >> 31;
    }
    return h & (groups_by_hash_.size() - 1);
}

inline void Network::list(int slot) {
    if (listed_ == groups_by_hash_.size()) {  // twice as many lists, and all anew
        std::vector<int> all;
        for (int i : groups_by_hash_)
            for (; i != none; i = group(i).next_listed) all.push_back(i);
        groups_by_hash_.assign(std::max<std::size_t>(64, 2 * listed_), none);
        listed_ = 0;
        for (const int i : all) list(i);
    }
    Active& a = active(slot);
    a.listed = true;
    ++listed_;
    group(slot).next_listed = std::exchange(groups_by_hash_[hash_of(a)], slot);
}

inline void Network::unlist(int slot) {
    Active& a = active(slot);
    a.listed = false;
    --listed_;
    int* at = &groups_by_hash_[hash_of(a)];
    while (*at != slot) at = &group(*at).next_listed;
    *at = group(slot).next_listed;
}

// ---- What they do together --------------------------------------------------------------

// A flow that joins has no rate until the end of this instant, like any other that meets somebody.
inline void Network::join(int leader, int slot) {
    Active& a = active(leader);
    Group& g = group(leader);
    if (!a.grouped) {
        a.grouped = true;
        g.members = 1;
        g.joining = 0;
        g.coming = none;
        g.leader = g.first = leader;
        g.order = joined_++;
    }
    ++g.members;
    ++g.joining;
    a.unsettled = true;
    Group& own = group(slot);
    own.leader = leader;
    own.order = joined_++;
    own.links.sibling = std::exchange(g.coming, slot);
    for (const Hop& h : a.view()) touch(h.link);
}

// Those who joined get their places among the others. All have one rate, so each is as far from its
// end as its bytes lay ahead of what one flow, there from the start, had sent when it came.
inline void Network::regroup(int slot) {
    Active& a = active(slot);
    Group& g = group(slot);
    PairingHeap heap(ByTarget{&groups_});
    Work sent = 0;
    if (g.members - g.joining == 1) group(g.first).target = a.remaining;
    else if (g.first != none) sent = group(g.first).target - a.remaining;
    for (int comes = std::exchange(g.coming, none); comes != none;) {
        Group& own = group(comes);
        own.target = sent + active(comes).remaining;
        const int next = std::exchange(own.links.sibling, none);
        g.first = heap.meld(g.first, comes);
        comes = next;
    }
    g.joining = 0;
    a.remaining = group(g.first).target - sent;
    a.unsettled = false;
}

// All that end now, in the order of their starts, so that ties go by rank and then by that.
inline void Network::release(int slot) {
    Active& a = active(slot);
    Group& g = group(slot);
    a.posted = never;
    a.unsettled = true;
    if (g.members - g.joining == 1) return end_member(std::exchange(g.first, none));
    PairingHeap heap(ByTarget{&groups_});
    const Work sent = group(g.first).target - a.remaining;
    const Work sent_by_now = sent + Work{a.rate()} * (engine_.now() - a.since).count();
    due_.clear();
    while (g.first != none && nearest(group(g.first).target - sent_by_now, a.rate()) == 0) {
        due_.push_back(g.first);
        g.first = heap.pop(g.first);
    }
    if (g.first != none) a.remaining = group(g.first).target - sent;
    std::sort(due_.begin(), due_.end(),
              [&](int x, int y) { return group(x).order < group(y).order; });
    for (const int member : due_) {
        group(member).ending = true;
        engine_.at(engine_.now(), active(member).rank,
                   {member_event, this, static_cast<std::uint64_t>(member)});
    }
}

inline void Network::end_member(int slot) {
    group(slot).ending = false;
    const int leader = std::exchange(group(slot).leader, none);
    Active& a = active(leader);
    Group& g = group(leader);
    const Task done = active(slot).done;
    const std::int64_t bytes = active(slot).bytes;
    if (slot != leader) free_slots_.push_back(slot);
    if (g.members == 1) {
        a.bytes = bytes;
        leave(leader);
        free_slots_.push_back(leader);
    } else {
        if (observer_.changed) tell(a, -a.rate());
        --g.members;
        if (g.members == g.joining) a.level = 0;
        for (const Hop& h : a.view()) {
            at(h.link).carried += bytes;
            touch(h.link);
        }
    }
    done.run(done.context, done.argument);
}

}  // namespace gx::sim
