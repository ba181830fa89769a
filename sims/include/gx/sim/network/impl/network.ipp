// FlowNetwork: links, a flow's life, equal flows, rates, and reroutes.
#pragma once

#include <algorithm>  // equal, find, max, min

#include <gx/core/contract.hpp>        // GX_EXPECT
#include <gx/sim/network/network.hpp>  // FlowNetwork

namespace gx::sim {

// ---- Links ----------------------------------------------------------------------------

GX_DECL int FlowNetwork::add_link(BytesPerSecond capacity) {
    GX_EXPECT(capacity.count > 0, "a link needs a rate above 0");
    links_.push_back({.capacity = to_rate(capacity)});
    pasts_.emplace_back();
    return static_cast<int>(links_.size()) - 1;
}

GX_DECL double FlowNetwork::peak_load(int link) const {
    const Link& l = at(link);
    const double before = pasts_[static_cast<std::size_t>(link)].peak_before;
    if (l.peak == 0) return before;
    return std::max(before, static_cast<double>(l.peak) / static_cast<double>(l.capacity));
}

GX_DECL void FlowNetwork::set_capacity(int link, BytesPerSecond capacity) {
    GX_EXPECT(capacity.count >= 0, "a link carries at least 0 bytes per second");
    Link& l = at(link);
    pasts_[static_cast<std::size_t>(link)].peak_before = peak_load(link);
    l.capacity = to_rate(capacity);
    Rate used = 0;
    for (const OnLink on : l.flows) used += given(on.flow);
    l.peak = used <= l.capacity ? used : 0;  // else what this instant's solve will give
    if (!l.flows.empty()) touch(link);
    for (const OnLink on : l.flows) {  // those that stood still are new to their other links
        Active& a = active(on.flow);
        if (a.level > 0) continue;
        for (const Hop& h : a.view()) touch(h.link);
    }
}

// Reports to the observer that the links of a flow carry `more` (or less, if negative).
GX_DECL void FlowNetwork::report_change(Active& a, Rate more) {
    for (const Hop& h : a.view()) {
        const Rate now = pasts_[static_cast<std::size_t>(h.link)].reported += more;
        observer_.changed(observer_.context, h.link, engine_.now(),
                          {static_cast<double>(now) / 1024.0});
    }
}

// ---- A flow's life --------------------------------------------------------------------

GX_DECL int FlowNetwork::take_slot() {
    if (free_slots_.empty()) {
        free_slots_.push_back(static_cast<int>(active_.size()));
        active_.emplace_back();
        groups_.add_slot();
    }
    const int slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
}

GX_DECL void FlowNetwork::start(const Transfer& flow) {
    GX_EXPECT(flow.bytes.count >= 0 && flow.latency.count() >= 0 && flow.weight > 0,
              "a message has at least 0 bytes, a latency of at least 0 and a weight above 0");
    ++messages_;
    const Nanoseconds begin = engine_.now() + flow.latency;
    if (flow.bytes.count == 0 || flow.path.count == 0) {
        engine_.at(begin, flow.rank, flow.done);
        return;
    }
    const int slot = take_slot();
    Active& a = active(slot);
    a.level = 0;
    a.grouped = a.unsettled = false;
    a.cap = flow.cap.count > 0 ? MaxMinSolver::level_of(to_rate(flow.cap), flow.weight) : unlimited;
    a.weight = flow.weight;
    a.hops = static_cast<std::uint8_t>(flow.path.count);
    for (std::size_t hop = 0; hop < flow.path.view().size(); ++hop)
        a.path[hop].link = flow.path.links[hop];
    a.remaining = Work{flow.bytes.count} * 1024 * 1'000'000'000;
    a.bytes = flow.bytes.count;
    a.done = flow.done;
    a.rank = flow.rank;
    engine_.at(begin, flow.rank, {start_event, this, static_cast<std::uint64_t>(slot)});
}

// A flow without contention has its rate at once; if another comes in this instant, both are
// solved. Not one so short that it would end in this instant: whether it met others would then
// depend on the order of their starts.
GX_DECL void FlowNetwork::activate(int slot) {
    Active& a = active(slot);
    a.since = engine_.now();
    a.ends = a.posted = never;
    Rate narrowest = unlimited;
    bool alone = true, with_others = true;  // on no link, or on each of them
    int hop = 0;
    for (Hop& h : a.view()) {
        Link& link = at(h.link);
        alone = alone && link.flows.empty();
        with_others = with_others && !link.flows.empty();
        narrowest = std::min(narrowest, link.capacity);
        h.place = static_cast<int>(link.flows.size());
        link.flows.push_back({slot, hop++});
    }
    if (with_others && joins_equal(slot)) return;
    const Rate level = std::min(a.cap, MaxMinSolver::level_of(narrowest, a.weight));
    if (alone && 2 * a.remaining >= level * a.weight) return go_alone(slot, level);
    for (const Hop& h : a.view()) touch(h.link);
}

// What apply() does, for most messages.
GX_DECL void FlowNetwork::go_alone(int slot, Rate level) {
    if (level == 0) return;  // a link is cut
    Active& a = active(slot);
    a.level = level;
    const Rate rate = level * a.weight;
    if (observer_.changed) report_change(a, rate);
    for (const Hop& h : a.view()) at(h.link).peak = std::max(at(h.link).peak, rate);
    a.ends = a.posted = a.since + Nanoseconds(nearest(a.remaining, rate));
    ++a.generation;
    post_finish(slot);
}

GX_DECL void FlowNetwork::finish(int slot, std::uint32_t generation) {
    Active& a = active(slot);
    if (a.generation != generation) return engine_.dropped();  // it was posted again, for earlier
    if (engine_.now() < a.ends) {                              // it has been slowed down since
        a.posted = a.ends;
        return post_finish(slot);
    }
    ++a.generation;
    if (a.grouped) return release(slot);
    leave(slot);
    free_slots_.push_back(slot);
    const Task done = a.done;
    done.run(done.context, done.argument);
}

GX_DECL void FlowNetwork::leave(int slot, bool arrived) {
    Active& a = active(slot);
    if (observer_.changed) report_change(a, -a.rate());
    for (const Hop& h : a.view()) {
        Link& link = at(h.link);
        link.carried += arrived ? a.bytes : 0;
        const OnLink moved = link.flows.back();
        link.flows[static_cast<std::size_t>(h.place)] = moved;
        active(moved.flow).path[static_cast<std::size_t>(moved.hop)].place = h.place;
        link.flows.pop_back();
        if (!link.flows.empty()) touch(h.link);
    }
    if (a.listed) {
        a.listed = false;
        groups_.remove(slot);
    }
}

// A flow whose rate stays keeps its end: solving once more changes nothing. One that is slowed down
// keeps the event that is posted, which looks again; only one that ends earlier is posted again.
GX_DECL void FlowNetwork::apply(int slot, Rate level) {
    Active& a = active(slot);
    if (level == a.level && !a.unsettled) return;
    const Rate rate = level * a.weight;
    if (a.level > 0) a.remaining -= Work{a.rate()} * (engine_.now() - a.since).count();
    a.since = engine_.now();
    const Rate total = rate * members(slot);
    if (observer_.changed) report_change(a, total - given(slot));
    const bool regrouped = a.unsettled;
    if (regrouped) a.remaining = groups_.settle(slot, a.remaining);
    a.unsettled = false;
    a.level = level;
    for (const Hop& h : a.view())
        if (at(h.link).flows.size() == 1) at(h.link).peak = std::max(at(h.link).peak, total);
    GX_EXPECT(rate > 0 || cut(a),
              "too many flows share a link: each is given less than 1/1024 byte/s");
    a.ends = rate > 0 ? a.since + Nanoseconds(nearest(a.remaining, rate)) : never;
    if (a.posted <= a.ends && rate > 0 && !(regrouped && a.posted == a.ends)) return;
    if (a.posted != never) engine_.retract();
    ++a.generation;
    a.posted = a.ends;
    if (rate > 0) post_finish(slot);  // else it stands still until the link is raised
}

GX_DECL void FlowNetwork::post_finish(int slot) {
    const Active& a = active(slot);
    const std::uint64_t ticket =
        std::uint64_t{a.generation} << 32 | static_cast<std::uint32_t>(slot);
    int rank = a.rank;
    if (a.grouped) rank = members(slot) == 1 ? active(groups_.first(slot)).rank : before_all_ranks;
    engine_.at(a.posted, rank, {finish_event, this, ticket});
}

GX_DECL std::int64_t FlowNetwork::nearest(Work work, Rate rate) {
    if (work <= 0) return 0;
    constexpr Work narrow = Work{1} << 62;  // most messages: one division of 64 bits
    if (work < narrow && rate < narrow) return (static_cast<std::int64_t>(work) + rate / 2) / rate;
    return static_cast<std::int64_t>((work + rate / 2) / rate);
}

GX_DECL bool FlowNetwork::cut(Active& a) {
    for (const Hop& h : a.view())
        if (at(h.link).capacity == 0) return true;
    return false;
}

// ---- Equal flows ----------------------------------------------------------------------

GX_DECL bool FlowNetwork::are_equal(Active& a, Active& b) {
    const auto same_link = [](const Hop& x, const Hop& y) { return x.link == y.link; };
    return a.cap == b.cap && a.weight == b.weight &&
           std::equal(a.view().begin(), a.view().end(), b.view().begin(), b.view().end(),
                      same_link);
}

// The leader of flows like this one, all of whose links are in use. A flow that came to an empty
// link is the first there as long as it stays; one that found all in use has been listed.
GX_DECL int FlowNetwork::equal_to(int slot) {
    Active& a = active(slot);
    for (const Hop& h : a.view()) {
        const int other = at(h.link).flows.front().flow;
        if (are_equal(a, active(other))) return other;
    }
    return groups_.find(hash_of(a), [&](int other) { return are_equal(a, active(other)); });
}

// A flow that has just come to links that are all in use: it leaves them to its equal, and has no
// rate until the end of this instant, like any other that meets a flow.
GX_DECL bool FlowNetwork::joins_equal(int slot) {
    const int leader = equal_to(slot);
    if (leader == none) {
        active(slot).listed = true;
        groups_.add(slot, hash_of(active(slot)));
        return false;
    }
    for (const Hop& h : active(slot).view()) at(h.link).flows.pop_back();
    Active& a = active(leader);
    if (!a.grouped) groups_.begin(leader);
    a.grouped = a.unsettled = true;
    groups_.join(leader, slot, active(slot).remaining);
    for (const Hop& h : a.view()) touch(h.link);
    return true;
}

/// Source: the finaliser of SplitMix64 (Steele, Lea, Flood 2014).
GX_DECL std::size_t FlowNetwork::hash_of(Active& a) {
    std::uint64_t h = static_cast<std::uint64_t>(a.cap) + static_cast<std::uint64_t>(a.weight);
    for (const Hop& hop : a.view()) {
        h = (h ^ static_cast<std::uint64_t>(hop.link)) * 0xbf58476d1ce4e5b9u;
        h ^= h >> 31;
    }
    return h;
}

// All that end now, in the order of their starts, so that ties go by rank and then by that.
GX_DECL void FlowNetwork::release(int slot) {
    Active& a = active(slot);
    a.posted = never;
    a.unsettled = true;
    const bool several = members(slot) - joining(slot) > 1;
    const Work sent = Work{a.rate()} * (engine_.now() - a.since).count();
    const Rate rate = a.rate();
    const auto due =
        groups_.due(slot, a.remaining, sent, [&](Work left) { return nearest(left, rate) == 0; });
    if (!several) return end_member(due.front());
    for (const int member : due)
        engine_.at(engine_.now(), active(member).rank,
                   {member_event, this, static_cast<std::uint64_t>(member)});
}

GX_DECL void FlowNetwork::end_member(int slot) {
    const int leader = groups_.leave(slot);
    Active& a = active(leader);
    const Task done = active(slot).done;
    const std::int64_t bytes = active(slot).bytes;
    if (slot != leader) free_slots_.push_back(slot);
    if (groups_.members(leader) == 0) {
        a.bytes = bytes;
        leave(leader);
        free_slots_.push_back(leader);
    } else {
        if (observer_.changed) report_change(a, -a.rate());
        if (!groups_.has_rate(leader)) a.level = 0;
        for (const Hop& h : a.view()) {
            at(h.link).carried += bytes;
            touch(h.link);
        }
    }
    done.run(done.context, done.argument);
}

// ---- Rates ----------------------------------------------------------------------------

// Solved after every other event of this instant, so that they are all solved at once.
GX_DECL void FlowNetwork::touch(int link) {
    if (at(link).touched) return;
    at(link).touched = true;
    touched_.push_back(link);
    if (settling_) return;
    settling_ = true;
    engine_.at(engine_.now(), after_all_ranks, {settle_event, this, 0});
}

GX_DECL void FlowNetwork::settle() {
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
GX_DECL FlowNetwork::Rate FlowNetwork::unchanged_below(int link) {
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
GX_DECL void FlowNetwork::gather(int first) {
    shares_.clear();
    Link& start = at(first);
    start.seen = visit_;
    if (start.flows.size() > 1) start.index = shares_.add_link(start.capacity, first);
    else if (!start.flows.empty()) join_component(start.flows.front().flow);
    for (std::size_t l = 0; l < shares_.links().size(); ++l) {
        Rate kept = 0;
        shares_.begin_members();
        for (const OnLink on : at(shares_.links()[l].id).flows) {
            const Active& a = active(on.flow);
            if (a.level > 0 && a.level < kept_below_ && !a.unsettled) kept += given(on.flow);
            else shares_.add_member(join_component(on.flow));
        }
        shares_.end_members(static_cast<int>(l), kept);
    }
}

GX_DECL int FlowNetwork::join_component(int slot) {
    Active& a = active(slot);
    if (a.seen == static_cast<std::uint32_t>(visit_)) return a.index;
    a.seen = static_cast<std::uint32_t>(visit_);
    const int count = members(slot);
    const std::int64_t weight = std::int64_t{a.weight} * count;
    Rate cap_level = a.cap;
    for (const Hop& h : a.view()) {
        Link& link = at(h.link);
        if (link.flows.size() == 1) {
            cap_level = std::min(cap_level, MaxMinSolver::level_of(link.capacity, weight));
            continue;
        }
        if (link.seen != visit_) {
            link.seen = visit_;
            link.index = shares_.add_link(link.capacity, h.link);
        }
        shares_.crosses(link.index);
    }
    return a.index = shares_.add_flow(
               {.cap_level = cap_level, .weight = a.weight, .count = count, .slot = slot});
}

GX_DECL void FlowNetwork::solve() {
    if (shares_.flows().empty()) return;
    ++solves_;
    flows_solved_ += shares_.flows().size();
    shares_.solve();
    for (const MaxMinSolver::Link& l : shares_.links())
        at(l.id).peak = std::max(at(l.id).peak, at(l.id).capacity - l.free);
    for (const MaxMinSolver::Flow& f : shares_.flows()) apply(f.slot, f.level);
}

// ---- Reroutes -------------------------------------------------------------------------

// A flow that has not begun yet keeps its beginning, and only its path is changed. One whose last
// byte arrives in this instant has arrived.
GX_DECL void FlowNetwork::reroute(std::span<const int> links,
                                  FunctionRef<bool(Transfer&)> reroute_flow) {
    TrivialVector<bool> ask(active_.size(), true);
    for (const int slot : free_slots_) ask[static_cast<std::size_t>(slot)] = false;
    for (int slot = 0; slot < static_cast<int>(ask.size()); ++slot) {
        Active a = active(slot);
        const bool for_others_only = a.grouped && groups_.leader(slot) == none;
        bool crosses = false;
        Transfer flow{.bytes = {a.bytes}, .weight = a.weight, .rank = a.rank, .done = a.done};
        for (const Hop& h : a.view()) {
            crosses = crosses || std::find(links.begin(), links.end(), h.link) != links.end();
            flow.path.add(h.link);
        }
        if (!ask[static_cast<std::size_t>(slot)] || for_others_only || groups_.ending(slot))
            continue;
        if (!crosses || !reroute_flow(flow)) continue;
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

GX_DECL bool FlowNetwork::has_begun(int slot) {
    if (groups_.leader(slot) != none) return true;
    const Hop& first = active(slot).path[0];
    const auto& there = at(first.link).flows;
    const auto place = static_cast<std::size_t>(first.place);
    return place < there.size() && there[place].flow == slot;
}

// Takes a flow that has begun off its links; false where it still stands there for others.
GX_DECL bool FlowNetwork::take_off(int slot) {
    const int leader = groups_.leader(slot);
    Active& a = active(leader == none ? slot : leader);
    if (a.posted != never) engine_.retract();
    ++a.generation;
    a.posted = never;
    if (leader == none) {
        leave(slot, false);
        return true;
    }
    take_out(slot);
    if (groups_.members(leader) > 0) return slot != leader;
    leave(leader, false);
    if (slot != leader) free_slots_.push_back(leader);
    return true;
}

// Takes a flow out of its group; the others go on, and are solved and posted anew.
GX_DECL void FlowNetwork::take_out(int slot) {
    const int leader = groups_.leader(slot), joining = groups_.joining(leader);
    Active& a = active(leader);
    if (a.level > 0) a.remaining -= Work{a.rate()} * (engine_.now() - a.since).count();
    a.since = engine_.now();
    a.remaining = groups_.take_out(slot, a.remaining);
    if (groups_.joining(leader) == joining && observer_.changed) report_change(a, -a.rate());
    if (!groups_.has_rate(leader)) a.level = 0;
    a.unsettled = true;
    for (const Hop& h : a.view()) touch(h.link);
}

}  // namespace gx::sim
