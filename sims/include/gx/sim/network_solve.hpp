// Network where rates are shared anew: which links and flows an instant has changed, and how.
#pragma once

#include <algorithm>  // max, min

#include <gx/sim/fair_share.hpp>  // FairShare
#include <gx/sim/network.hpp>     // Network

namespace gx::sim {

// Solved after every other event of this instant, so that they are all solved at once.
inline void Network::touch(int link) {
    if (at(link).touched) return;
    at(link).touched = true;
    touched_.push_back(link);
    if (settling_) return;
    settling_ = true;
    engine_.at(engine_.now(), after_all_ranks, {settle_event, this, 0});
}

inline void Network::settle() {
    settling_ = false;
    ++visit_;
    kept_below_ = unlimited;
    for (const int link : touched_) kept_below_ = std::min(kept_below_, unchanged_below(link));
    for (const int link : touched_) {
        at(link).touched = false;
        if (at(link).seen == visit_) continue;
        gather(link);
        solve();
    }
    touched_.clear();
}

// A level below which a change of this link changes no flow. Flows stop in the order of levels, so
// all goes as before until the link would be full, or was: its flows below that level were stopped
// by others, who will do so again. Each turn of the loop proves a higher level, or ends it.
inline Network::Rate Network::unchanged_below(int link) {
    Link& l = at(link);
    Rate before = 0, level = 0;
    for (int turn = 0; turn < 4; ++turn) {
        Rate free = l.capacity;
        std::int64_t weight = 0;
        for (const OnLink on : l.flows) {
            const Active& a = active(on.flow);
            before = std::max(before, a.level);
            const bool keeps = a.level > 0 && a.level < level;
            if (keeps) free -= given(on.flow);
            weight += std::int64_t{a.weight} * (keeps ? joining(on.flow) : members(on.flow));
        }
        if (weight == 0) break;
        const Rate full = free / weight;
        if (full == level) break;
        level = full;
    }
    return before > 0 ? std::min(before, level) : level;
}

// The connected component of `first`: links and flows that reach each other. A link with one flow
// or with equal flows connects nothing: it is a cap of each. Nor does a flow below the level of the
// change: it keeps its rate, and the links keep the rest.
inline void Network::gather(int first) {
    shares_.clear();
    Link& start = at(first);
    start.seen = visit_;
    if (start.flows.size() > 1) start.index = shares_.add_room(start.capacity, first);
    else if (!start.flows.empty()) join_component(start.flows.front().flow);
    for (std::size_t room = 0; room < shares_.rooms().size(); ++room) {
        Rate kept = 0;
        shares_.begin_members();
        for (const OnLink on : at(shares_.rooms()[room].link).flows) {
            const Active& a = active(on.flow);
            if (a.level > 0 && a.level < kept_below_ && !a.unsettled) kept += given(on.flow);
            else shares_.add_member(join_component(on.flow));
        }
        shares_.end_members(static_cast<int>(room), kept);
    }
}

inline int Network::join_component(int slot) {
    Active& a = active(slot);
    if (a.seen == static_cast<std::uint32_t>(visit_)) return a.index;
    a.seen = static_cast<std::uint32_t>(visit_);
    const int count = members(slot);
    const std::int64_t weight = std::int64_t{a.weight} * count;
    Rate cap_level = a.cap;
    for (const Hop& h : a.view()) {
        Link& link = at(h.link);
        if (link.flows.size() == 1) {
            cap_level = std::min(cap_level, FairShare::level_of(link.capacity, weight));
            continue;
        }
        if (link.seen != visit_) {
            link.seen = visit_;
            link.index = shares_.add_room(link.capacity, h.link);
        }
        shares_.shares(link.index);
    }
    return a.index = shares_.add_flow(
               {.cap_level = cap_level, .weight = a.weight, .count = count, .slot = slot});
}

inline void Network::solve() {
    if (shares_.flows().empty()) return;
    ++solves_;
    flows_solved_ += shares_.flows().size();
    shares_.solve();
    for (const FairShare::Room& r : shares_.rooms())
        at(r.link).peak = std::max(at(r.link).peak, at(r.link).capacity - r.free);
    for (const FairShare::Flow& f : shares_.flows()) apply(f.slot, f.level);
}

}  // namespace gx::sim
