// Network: messages as fluid flows that share links by weighted max-min fairness.
#pragma once

#include <algorithm>  // equal, min, max
#include <array>      // paths
#include <cstdint>    // int64_t
#include <limits>     // numeric_limits
#include <span>       // hops
#include <vector>     // flat lists

#include <gx/core/contract.hpp>      // GX_EXPECT
#include <gx/core/function_ref.hpp>  // FunctionRef
#include <gx/core/stream.hpp>        // Task
#include <gx/core/units.hpp>         // Bytes, BytesPerSecond, Nanoseconds
#include <gx/sim/engine.hpp>         // Engine
#include <gx/sim/fair_share.hpp>     // FairShare
#include <gx/sim/flow.hpp>           // Flow, Path
#include <gx/sim/pairing_heap.hpp>   // HeapLinks, PairingHeap

namespace gx::sim {

/// Directed links with a capacity each, and the flows on them.
///
/// Rates are weighted max-min fair: all flows grow together until a link is full or a cap is met;
/// those flows stop there, the others grow on. Flows that start or end at one instant are solved
/// once, after every other event of that instant, and only the links that they reach through
/// shared flows are solved again. Equal flows (the same links in the same order, cap and weight)
/// are one: whatever their bytes and whenever they start, they have one rate at each moment, so a
/// link and the solver see their number, and they wait for their ends in one queue.
///
/// Order:  rates are integers of 1/1024 byte per second, rounded down, and remaining bytes are
///         integers too, so no result depends on the order in which flows are visited, on the
///         compiler or on the machine. A flow ends at the nearest whole nanosecond.
/// Units:  a link is never given more than its capacity; rounding to whole nanoseconds lets each
///         message end at most half a nanosecond early.
/// Cost:   a message that meets no other is two events and no solve, unless it takes less than half
///         a nanosecond. A solve is O(flows x links of a path + links x log links) of the
///         component, equal flows counted as one; a flow that it slows down costs no event until
///         its old end comes. One of n equal flows is four events at most, and O(log n) to end.
///         Nothing is allocated once the largest number of concurrent flows has been seen.
class Network {
public:
    explicit Network(Engine& engine) : engine_(engine) {}
    Network(const Network&) = delete;  // events point at it
    Network& operator=(const Network&) = delete;

    int add_link(BytesPerSecond capacity) {
        GX_EXPECT(capacity.count > 0, "a link needs a rate above 0");
        links_.push_back({.capacity = to_rate(capacity)});
        pasts_.emplace_back();
        return static_cast<int>(links_.size()) - 1;
    }
    /// From now on the link carries `capacity`; flows on it keep what they have already sent.
    /// 0 cuts the link: its flows stand still, without an event, until it is raised again.
    void set_capacity(int link, BytesPerSecond capacity);
    void start(const Flow& flow);
    /// Asks `way` about each flow that crosses one of these links, or is going to: its path,
    /// bytes, rank and task. Where it answers true, the flow starts again from its first byte, on
    /// the path and after the latency that it was given. Of <gx/sim/network_reroute.hpp>.
    void reroute(std::span<const int> links, FunctionRef<bool(Flow&)> way);

    /// Who is told of every change of a link's total rate. At one instant there may be several of
    /// a link, of which the last one holds.
    struct RateObserver {
        void (*changed)(void* context, int link, Nanoseconds now, BytesPerSecond rate) = nullptr;
        void* context = nullptr;
    };
    void observe(RateObserver observer) { observer_ = observer; }

    [[nodiscard]] int links() const { return static_cast<int>(links_.size()); }
    [[nodiscard]] BytesPerSecond capacity(int link) const {
        return {static_cast<double>(at(link).capacity) / 1024.0};
    }
    /// Bytes of the messages that have crossed a link to the end.
    [[nodiscard]] Bytes carried(int link) const { return {at(link).carried}; }
    /// The largest sum of rates that a link was given, as a share of its capacity at that time.
    [[nodiscard]] double peak_load(int link) const {
        const Link& l = at(link);
        const double before = pasts_[static_cast<std::size_t>(link)].peak_before;
        if (l.peak == 0) return before;
        return std::max(before, static_cast<double>(l.peak) / static_cast<double>(l.capacity));
    }
    [[nodiscard]] std::uint64_t messages() const { return messages_; }
    [[nodiscard]] std::uint64_t solves() const { return solves_; }
    /// Flows in all solves together, equal ones counted once.
    [[nodiscard]] std::uint64_t flows_solved() const { return flows_solved_; }

private:
    using Rate = FairShare::Rate;         // 1/1024 byte per second
    __extension__ typedef __int128 Work;  // rate x nanoseconds: bytes x 1024 x 10^9
    static constexpr Rate unlimited = FairShare::unlimited;
    static constexpr Nanoseconds never = Nanoseconds::max();

    struct OnLink {
        int flow;
        int hop;  // which link of the flow's path this is
    };
    struct alignas(64) Link {  // one cache line
        std::vector<OnLink> flows{};
        Rate capacity = 0;
        std::uint64_t seen = 0;
        int index = 0;         // in the component that is being solved
        bool touched = false;  // it is to be solved in this instant
        Rate peak = 0;         // at the present capacity
        std::int64_t carried = 0;
    };
    struct LinkPast {
        double peak_before = 0;  // peak_load at earlier capacities
        Rate told = 0;           // to the observer
    };
    struct Hop {
        int link = 0;
        int place = 0;  // in Link::flows
    };
    static constexpr int none = -1;
    // A flow, or, of equal flows, the one that came first and stands on the links for all of them.
    struct alignas(64) Active {
        // When it ends: one cache line.
        Work remaining = 0;  // of equal flows, what the first to end has left
        Nanoseconds since{}, ends = never, posted = never;
        Task done{};
        // What it may have and has: one more, if the path is short.
        Rate level = 0;        // the rate of each, for each unit of weight
        Rate cap = unlimited;  // a level too
        std::int64_t bytes = 0;
        std::uint32_t seen = 0;  // the last 32 bits of the visit
        int index = 0;           // in the component that is being solved
        std::uint32_t generation = 0;
        int rank = 0, weight = 1;
        std::uint8_t hops = 0;
        bool grouped = false;    // it stands for others too: see Group
        bool unsettled = false;  // some have come or gone since the last solve
        bool listed = false;     // in groups_by_hash_
        std::array<Hop, Path::most_links> path{};
        [[nodiscard]] std::span<Hop> view() { return {path.data(), std::size_t(hops)}; }
        [[nodiscard]] Rate rate() const { return level * weight; }
    };
    struct Group {                // what equal flows need beside; of the same slot
        Work target = 0;          // own, at which this flow ends, where the first began at 0
        std::uint64_t order = 0;  // own, of starting
        HeapLinks links{};        // own, by target; or the next of `coming`
        int leader = none;        // own: who stands for this flow, if it is in a group
        int members = 1;          // all that have not ended
        int joining = 0;          // of them, those without a rate as yet
        int coming = none;        // their list
        int first = none;         // the heap of the others: the first to end
        int next_listed = none;
        bool ending = false;  // own: its last byte arrives in this instant
    };
    struct ByTarget {
        std::vector<Group>* groups;
        HeapLinks& links(int slot) { return of(slot).links; }
        bool before(int a, int b) { return of(a).target < of(b).target; }
        Group& of(int slot) { return (*groups)[static_cast<std::size_t>(slot)]; }
    };
    // Before all others of its instant: flows that end together are then posted by their ranks.
    static constexpr int before_all_ranks = std::numeric_limits<int>::min();
    static constexpr int after_all_ranks = std::numeric_limits<int>::max();

    static Rate to_rate(BytesPerSecond r) { return static_cast<Rate>(r.count * 1024.0); }
    static Network& self(void* network) { return *static_cast<Network*>(network); }
    static void start_event(void* network, std::uint64_t slot) {
        self(network).activate(static_cast<int>(slot));
    }
    static void finish_event(void* network, std::uint64_t ticket) {
        self(network).finish(static_cast<int>(ticket & 0xffffffffu),
                             static_cast<std::uint32_t>(ticket >> 32));
    }
    static void member_event(void* network, std::uint64_t slot) {
        self(network).end_member(static_cast<int>(slot));
    }
    static void settle_event(void* network, std::uint64_t) { self(network).settle(); }

    Link& at(int link) { return links_[static_cast<std::size_t>(link)]; }
    const Link& at(int link) const { return links_[static_cast<std::size_t>(link)]; }
    Active& active(int slot) { return active_[static_cast<std::size_t>(slot)]; }
    Group& group(int slot) { return groups_[static_cast<std::size_t>(slot)]; }
    [[nodiscard]] int members(int slot) { return active(slot).grouped ? group(slot).members : 1; }
    [[nodiscard]] int joining(int slot) { return active(slot).grouped ? group(slot).joining : 0; }
    [[nodiscard]] Rate given(int slot) {  // to all of them
        return active(slot).rate() * (members(slot) - joining(slot));
    }

    int take_slot();
    void activate(int slot);
    void finish(int slot, std::uint32_t generation);
    void leave(int slot, bool arrived = true);
    void touch(int link);

    [[nodiscard]] bool joins_equal(int slot);
    [[nodiscard]] int equal_to(int slot);
    [[nodiscard]] static bool are_equal(Active& a, Active& b);
    [[nodiscard]] std::size_t hash_of(Active& a) const;
    void list(int slot);
    void unlist(int slot);
    void join(int leader, int slot);
    void regroup(int slot);
    void release(int slot);
    void end_member(int slot);
    [[nodiscard]] bool has_begun(int slot);
    [[nodiscard]] bool take_off(int slot);
    void take_out(int slot);

    void settle();
    [[nodiscard]] Rate unchanged_below(int link);
    void gather(int link);
    int join_component(int slot);
    void solve();
    void apply(int slot, Rate level);
    void go_alone(int slot, Rate level);
    void post_finish(int slot);
    [[nodiscard]] static std::int64_t nearest(Work work, Rate rate);
    [[nodiscard]] bool cut(Active& a);

    void tell(Active& a, Rate more) {  // its links carry so much more, or less
        for (const Hop& h : a.view()) {
            const Rate now = pasts_[static_cast<std::size_t>(h.link)].told += more;
            observer_.changed(observer_.context, h.link, engine_.now(),
                              {static_cast<double>(now) / 1024.0});
        }
    }

    Engine& engine_;
    RateObserver observer_{};
    std::vector<Link> links_{};
    std::vector<LinkPast> pasts_{};
    std::vector<Active> active_{};
    std::vector<Group> groups_{};  // of the same slots
    std::vector<int> free_slots_{};
    std::vector<int> touched_{};
    std::vector<int> groups_by_hash_{};  // the first of each list; a power of two of them
    std::vector<int> due_{};
    std::size_t listed_ = 0;
    FairShare shares_{};  // of the component that is being solved
    std::uint64_t visit_ = 0, messages_ = 0, solves_ = 0, flows_solved_ = 0, joined_ = 0;
    Rate kept_below_ = 0;
    bool settling_ = false;
};

inline void Network::set_capacity(int link, BytesPerSecond capacity) {
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

inline int Network::take_slot() {
    if (free_slots_.empty()) {
        free_slots_.push_back(static_cast<int>(active_.size()));
        active_.emplace_back();
        groups_.emplace_back();
    }
    const int slot = free_slots_.back();
    free_slots_.pop_back();
    return slot;
}

inline void Network::start(const Flow& flow) {
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
    a.cap = flow.cap.count > 0 ? FairShare::level_of(to_rate(flow.cap), flow.weight) : unlimited;
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

// A flow that meets nobody has its rate at once; if another comes in this instant, both are solved.
// Not one so short that it would end in this instant: whether it met others would then depend on
// who came first.
inline void Network::activate(int slot) {
    Active& a = active(slot);
    a.since = engine_.now();
    a.ends = a.posted = never;
    Rate room = unlimited;
    bool alone = true, with_others = true;  // on no link, or on each of them
    int hop = 0;
    for (Hop& h : a.view()) {
        Link& link = at(h.link);
        alone = alone && link.flows.empty();
        with_others = with_others && !link.flows.empty();
        room = std::min(room, link.capacity);
        h.place = static_cast<int>(link.flows.size());
        link.flows.push_back({slot, hop++});
    }
    if (with_others && joins_equal(slot)) return;
    const Rate level = std::min(a.cap, FairShare::level_of(room, a.weight));
    if (alone && 2 * a.remaining >= level * a.weight) return go_alone(slot, level);
    for (const Hop& h : a.view()) touch(h.link);
}

// What apply() does, for most messages.
inline void Network::go_alone(int slot, Rate level) {
    if (level == 0) return;  // a link is cut
    Active& a = active(slot);
    a.level = level;
    const Rate rate = level * a.weight;
    if (observer_.changed) tell(a, rate);
    for (const Hop& h : a.view()) at(h.link).peak = std::max(at(h.link).peak, rate);
    a.ends = a.posted = a.since + Nanoseconds(nearest(a.remaining, rate));
    ++a.generation;
    post_finish(slot);
}

inline void Network::finish(int slot, std::uint32_t generation) {
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

inline void Network::leave(int slot, bool arrived) {
    Active& a = active(slot);
    if (observer_.changed) tell(a, -a.rate());
    for (const Hop& h : a.view()) {
        Link& link = at(h.link);
        link.carried += arrived ? a.bytes : 0;
        const OnLink moved = link.flows.back();
        link.flows[static_cast<std::size_t>(h.place)] = moved;
        active(moved.flow).path[static_cast<std::size_t>(moved.hop)].place = h.place;
        link.flows.pop_back();
        if (!link.flows.empty()) touch(h.link);
    }
    if (a.listed) unlist(slot);
}

// A flow whose rate stays keeps its end: solving once more changes nothing. One that is slowed down
// keeps the event that is posted, which looks again; only one that ends earlier is posted again.
inline void Network::apply(int slot, Rate level) {
    Active& a = active(slot);
    if (level == a.level && !a.unsettled) return;
    const Rate rate = level * a.weight;
    if (a.level > 0) a.remaining -= Work{a.rate()} * (engine_.now() - a.since).count();
    a.since = engine_.now();
    const Rate total = rate * members(slot);
    if (observer_.changed) tell(a, total - given(slot));
    const bool regrouped = a.unsettled;
    if (regrouped) regroup(slot);
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

inline void Network::post_finish(int slot) {
    const Active& a = active(slot);
    const std::uint64_t ticket =
        std::uint64_t{a.generation} << 32 | static_cast<std::uint32_t>(slot);
    int rank = a.rank;
    if (a.grouped) rank = members(slot) == 1 ? active(group(slot).first).rank : before_all_ranks;
    engine_.at(a.posted, rank, {finish_event, this, ticket});
}

inline std::int64_t Network::nearest(Work work, Rate rate) {
    if (work <= 0) return 0;
    constexpr Work narrow = Work{1} << 62;  // most messages: one division of 64 bits
    if (work < narrow && rate < narrow)
        return (static_cast<std::int64_t>(work) + rate / 2) / rate;
    return static_cast<std::int64_t>((work + rate / 2) / rate);
}

inline bool Network::cut(Active& a) {
    for (const Hop& h : a.view())
        if (at(h.link).capacity == 0) return true;
    return false;
}

}  // namespace gx::sim

#include <gx/sim/network_groups.hpp>  // the rest of Network: equal flows
#include <gx/sim/network_solve.hpp>   // and their rates
