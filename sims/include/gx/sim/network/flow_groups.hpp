// FlowGroups: equal flows of a network, found by hash, solved as one.
#pragma once

#include <algorithm>  // max, sort
#include <cstddef>    // size_t
#include <cstdint>    // uint64_t
#include <span>       // due
#include <utility>    // exchange

#include <gx/core/decl.hpp>                 // GX_HEADER_ONLY
#include <gx/core/trivial_vector.hpp>       // flat lists
#include <gx/sim/network/pairing_heap.hpp>  // HeapLinks, PairingHeap

namespace gx::sim {

/// Groups of equal flows. Each flow has a slot, numbered by the network; the flow of a group that
/// came first is its leader, and stands on the links for all members, also once it has ended.
///
/// All members have one rate at each moment. So a member's distance from its end, counted in what
/// one flow that was there from the start has sent, never changes: its target. The next member to
/// end is the least of a heap of targets.
///
///     add(slot, hash), remove(slot), find(hash, equal)    leaders, by what makes flows equal
///     begin(leader), join(leader, slot, remaining)        a member has no rate before ...
///     remaining = settle(leader, remaining)               ... its place in the heap
///     due(leader, remaining, sent, ends)                  those whose last byte arrives now
///     leave(slot)                                         a member that has ended
///     remaining = take_out(slot, remaining)               a member before its end
///
/// `remaining` is what the member that ends first has left.
///
/// Order:  members that end in one instant do so in the order of their joining.
/// Cost:   O(1) to join, O(log members) to end, O(members) to take one out; no allocation once the
///         largest number of flows has been seen.
class FlowGroups {
public:
    __extension__ typedef __int128 Work;  // rate x time
    static constexpr int none = -1;

    void add_slot() { groups_.emplace_back(); }

    // ---- Leaders by hash
    template <class Equal>
    [[nodiscard]] int find(std::size_t hash, Equal equal) const {
        if (lists_.empty()) return none;
        int slot = lists_[hash & (lists_.size() - 1)];
        while (slot != none && !equal(slot)) slot = at(slot).next_listed;
        return slot;
    }
    void add(int slot, std::size_t hash) {
        if (listed_ == lists_.size()) grow();
        ++listed_;
        Group& g = at(slot);
        g.hash = hash;
        g.next_listed = std::exchange(list_of(g), slot);
    }
    void remove(int slot) {
        --listed_;
        int* here = &list_of(at(slot));
        while (*here != slot) here = &at(*here).next_listed;
        *here = at(slot).next_listed;
    }

    // ---- Members
    /// The leader of the group that this flow is a member of; none: of no group.
    [[nodiscard]] int leader(int slot) const { return at(slot).leader; }
    [[nodiscard]] int members(int leader) const { return at(leader).members; }
    [[nodiscard]] int joining(int leader) const { return at(leader).joining; }  ///< without a rate
    [[nodiscard]] bool has_rate(int leader) const {
        return at(leader).members > at(leader).joining;
    }
    [[nodiscard]] int first(int leader) const { return at(leader).first; }  ///< to end
    /// Its last byte arrives in this instant.
    [[nodiscard]] bool ending(int slot) const { return at(slot).ending; }

    void begin(int leader) {
        Group& g = at(leader);
        g.members = 1;
        g.joining = 0;
        g.coming = none;
        g.leader = g.first = leader;
        g.order = joined_++;
    }
    void join(int leader, int slot, Work remaining) {
        Group& g = at(leader);
        ++g.members;
        ++g.joining;
        Group& own = at(slot);
        own.leader = leader;
        own.order = joined_++;
        own.target = remaining;
        own.links.sibling = std::exchange(g.coming, slot);
    }
    [[nodiscard]] Work settle(int leader, Work remaining) {
        Group& g = at(leader);
        Work sent = 0;
        if (g.members - g.joining == 1) at(g.first).target = remaining;
        else if (g.first != none) sent = at(g.first).target - remaining;
        for (int comes = std::exchange(g.coming, none); comes != none;) {
            Group& own = at(comes);
            own.target += sent;
            const int next = std::exchange(own.links.sibling, none);
            g.first = heap().meld(g.first, comes);
            comes = next;
        }
        g.joining = 0;
        return at(g.first).target - sent;
    }
    /// Takes the members that end now out of the heap: `ends(left)` of what they have left after
    /// `sent` more. Valid until the next call.
    template <class Ends>
    [[nodiscard]] std::span<const int> due(int leader, Work& remaining, Work sent, Ends ends) {
        Group& g = at(leader);
        due_.clear();
        if (g.members - g.joining == 1) {
            due_.push_back(std::exchange(g.first, none));
            return due_;
        }
        const Work before = at(g.first).target - remaining;
        while (g.first != none && ends(at(g.first).target - before - sent)) {
            due_.push_back(g.first);
            g.first = heap().pop(g.first);
        }
        if (g.first != none) remaining = at(g.first).target - before;
        std::sort(due_.begin(), due_.end(),
                  [&](int a, int b) { return at(a).order < at(b).order; });
        for (const int member : due_) at(member).ending = true;
        return due_;
    }
    /// Returns the leader of the group that the member was of.
    int leave(int slot) {
        at(slot).ending = false;
        const int leader = std::exchange(at(slot).leader, none);
        --at(leader).members;
        return leader;
    }
    [[nodiscard]] Work take_out(int slot, Work remaining);

private:
    struct Group {                // of a leader; what is a member's own is marked
        Work target = 0;          // own
        std::uint64_t order = 0;  // own, of joining
        HeapLinks links{};        // own, by target; or the next of `coming`
        int leader = none;        // own
        int members = 1;          // that have not ended
        int joining = 0;          // of them, those without a rate as yet
        int coming = none;        // their list
        int first = none;         // the heap of the others
        int next_listed = none;
        std::size_t hash = 0;
        bool ending = false;  // own
    };
    struct ByTarget {
        TrivialVector<Group>* groups;
        HeapLinks& links(int slot) { return of(slot).links; }
        bool before(int a, int b) { return of(a).target < of(b).target; }
        Group& of(int slot) { return (*groups)[static_cast<std::size_t>(slot)]; }
    };

    Group& at(int slot) { return groups_[static_cast<std::size_t>(slot)]; }
    const Group& at(int slot) const { return groups_[static_cast<std::size_t>(slot)]; }
    int& list_of(const Group& g) { return lists_[g.hash & (lists_.size() - 1)]; }
    PairingHeap<ByTarget> heap() { return PairingHeap(ByTarget{&groups_}); }
    void grow() {  // twice as many lists, and all anew
        TrivialVector<int> all;
        for (int i : lists_)
            for (; i != none; i = at(i).next_listed) all.push_back(i);
        lists_.assign(std::max<std::size_t>(64, 2 * listed_), none);
        for (const int i : all) at(i).next_listed = std::exchange(list_of(at(i)), i);
    }

    TrivialVector<Group> groups_{};  // by slot
    TrivialVector<int> lists_{};     // the first of each; a power of two of them
    TrivialVector<int> due_{};
    std::size_t listed_ = 0;
    std::uint64_t joined_ = 0;
};

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/network/impl/flow_groups.ipp>
#endif
