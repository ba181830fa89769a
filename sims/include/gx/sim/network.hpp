// Network: messages as fluid flows that share links by weighted max-min fairness.
#pragma once

#include <algorithm>  // min
#include <array>      // paths
#include <cstdint>    // int64_t
#include <limits>     // numeric_limits
#include <span>       // paths
#include <vector>     // flat lists

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/core/stream.hpp>    // Task
#include <gx/core/units.hpp>     // Bytes, BytesPerSecond, Nanoseconds
#include <gx/sim/engine.hpp>     // Engine

namespace gx::sim {

/// Links that a message crosses, in order; at most 16: PCIe, sockets, NICs and switches.
struct Path {
    static constexpr int most_links = 16;
    std::array<int, most_links> links{};
    int count = 0;

    constexpr void add(int link) {
        GX_EXPECT(count < most_links, "a path crosses at most 16 links");
        links[static_cast<std::size_t>(count++)] = link;
    }
    [[nodiscard]] constexpr std::span<const int> view() const {
        return {links.data(), static_cast<std::size_t>(count)};
    }
};

/// A message: after `latency` its bytes flow along `path` at the fair rate, never above `cap`.
struct Flow {
    Path path{};
    Bytes bytes{};
    Nanoseconds latency{};
    BytesPerSecond cap{0};     ///< 0: no cap
    std::int32_t weight = 1;   ///< shares a link like this many flows
    int rank = 0;              ///< orders events of one instant
    Task done{};               ///< run when the last byte arrives
};

/// Directed links with a capacity each, and the flows on them.
///
/// Rates are weighted max-min fair: all flows grow together until a link is full or a cap is met;
/// those flows stop there, the others grow on. Flows that start or end at one instant are solved
/// once, after every other event of that instant, and only the links that they reach through
/// shared flows are solved again.
///
/// Order:  rates are integers of 1/1024 byte per second, rounded down, and remaining bytes are
///         integers too, so no result depends on the order in which flows are visited, on the
///         compiler or on the machine. A flow ends at the nearest whole nanosecond.
/// Units:  a link is never given more than its capacity; rounding to whole nanoseconds lets each
///         message end at most half a nanosecond early.
/// Cost:   a message is two or three events; nothing is allocated once the largest number of
///         concurrent flows has been seen.
/// Source: progressive filling as in Bertsekas and Gallager, Data Networks, section 6.5.2.
class Network {
public:
    explicit Network(Engine& engine) : engine_(engine) {}
    Network(const Network&) = delete;  // events point at it
    Network& operator=(const Network&) = delete;

    int add_link(BytesPerSecond capacity) {
        GX_EXPECT(capacity.count > 0, "a link needs a rate above 0");
        links_.push_back({.capacity = to_rate(capacity)});
        return static_cast<int>(links_.size()) - 1;
    }
    /// From now on the link carries `capacity`; flows on it keep what they have already sent.
    /// 0 cuts the link: its flows stand still, without an event, until it is raised again.
    void set_capacity(int link, BytesPerSecond capacity);
    void start(const Flow& flow);

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
        if (l.peak == 0) return l.peak_before;
        return std::max(l.peak_before,
                        static_cast<double>(l.peak) / static_cast<double>(l.capacity));
    }
    [[nodiscard]] std::uint64_t messages() const { return messages_; }
    [[nodiscard]] std::uint64_t solves() const { return solves_; }

private:
    using Rate = std::int64_t;                // 1/1024 byte per second
    __extension__ typedef __int128 Work;      // rate x nanoseconds: bytes x 1024 x 10^9
    static constexpr Rate unlimited = std::numeric_limits<Rate>::max();

    struct OnLink {
        int flow;
        int hop;  // which link of the flow's path this is
    };
    struct Link {
        Rate capacity = 0;
        std::int64_t carried = 0;
        Rate peak = 0;            // at the present capacity
        double peak_before = 0;   // peak_load at earlier capacities
        std::vector<OnLink> flows{};
        std::uint64_t seen = 0;
        Rate free = 0;            // while solving
        std::int64_t weight = 0;  // of the flows that still grow
        Rate share = 0;           // free / weight at the start of the round
        Rate told = 0;            // to the observer
    };
    struct Active {
        Flow flow{};
        std::array<int, Path::most_links> place{};  // in Link::flows
        Work remaining = 0;
        Nanoseconds since{};
        Rate rate = 0, cap = unlimited, solved = 0;
        std::uint64_t seen = 0;
        std::uint32_t generation = 0;
    };

    static Rate to_rate(BytesPerSecond r) { return static_cast<Rate>(r.count * 1024.0); }
    static Network& self(void* network) { return *static_cast<Network*>(network); }
    static void start_event(void* network, std::uint64_t slot) {
        self(network).activate(static_cast<int>(slot));
    }
    static void finish_event(void* network, std::uint64_t ticket) {
        self(network).finish(static_cast<int>(ticket & 0xffffffffu),
                             static_cast<std::uint32_t>(ticket >> 32));
    }
    static void settle_event(void* network, std::uint64_t) { self(network).settle(); }

    Link& at(int link) { return links_[static_cast<std::size_t>(link)]; }
    const Link& at(int link) const { return links_[static_cast<std::size_t>(link)]; }
    Active& active(int slot) { return active_[static_cast<std::size_t>(slot)]; }

    void activate(int slot);
    void finish(int slot, std::uint32_t generation);
    void touch(std::span<const int> links);
    void settle();
    void gather(int link);
    void solve();
    Rate begin_round();
    void fix(Active& a, Rate level);
    void apply(int slot);
    bool cut(const Flow& flow) const;
    void tell(int link, Rate rate) {
        Link& l = at(link);
        if (rate == l.told) return;
        l.told = rate;
        observer_.changed(observer_.context, link, engine_.now(),
                          {static_cast<double>(rate) / 1024.0});
    }

    Engine& engine_;
    RateObserver observer_{};
    std::vector<Link> links_{};
    std::vector<Active> active_{};
    std::vector<int> free_slots_{};
    std::vector<int> touched_{}, component_links_{}, component_flows_{}, growing_{};
    std::uint64_t visit_ = 0, messages_ = 0, solves_ = 0;
    bool settling_ = false;
};

inline void Network::set_capacity(int link, BytesPerSecond capacity) {
    GX_EXPECT(capacity.count >= 0, "a link carries at least 0 bytes per second");
    Link& l = at(link);
    l.peak_before = peak_load(link);
    l.peak = 0;
    l.capacity = to_rate(capacity);
    if (!l.flows.empty()) touch({&link, 1});
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
    if (free_slots_.empty()) {
        free_slots_.push_back(static_cast<int>(active_.size()));
        active_.emplace_back();
    }
    const int slot = free_slots_.back();
    free_slots_.pop_back();
    Active& a = active(slot);
    a.flow = flow;
    a.cap = flow.cap.count > 0 ? to_rate(flow.cap) : unlimited;
    a.rate = 0;
    a.remaining = Work{flow.bytes.count} * 1024 * 1'000'000'000;
    engine_.at(begin, flow.rank, {start_event, this, static_cast<std::uint64_t>(slot)});
}

inline void Network::activate(int slot) {
    Active& a = active(slot);
    a.since = engine_.now();
    for (int hop = 0; hop < a.flow.path.count; ++hop) {
        auto& flows = at(a.flow.path.links[static_cast<std::size_t>(hop)]).flows;
        a.place[static_cast<std::size_t>(hop)] = static_cast<int>(flows.size());
        flows.push_back({slot, hop});
    }
    touch(a.flow.path.view());
}

inline void Network::finish(int slot, std::uint32_t generation) {
    Active& a = active(slot);
    if (a.generation != generation) return;  // its rate has changed since this was posted
    ++a.generation;
    bool others = false;
    for (int hop = 0; hop < a.flow.path.count; ++hop) {
        Link& link = at(a.flow.path.links[static_cast<std::size_t>(hop)]);
        link.carried += a.flow.bytes.count;
        const auto place = static_cast<std::size_t>(a.place[static_cast<std::size_t>(hop)]);
        const OnLink moved = link.flows.back();
        link.flows[place] = moved;
        active(moved.flow).place[static_cast<std::size_t>(moved.hop)] = static_cast<int>(place);
        link.flows.pop_back();
        others = others || !link.flows.empty();
        if (observer_.changed && link.flows.empty())
            tell(a.flow.path.links[static_cast<std::size_t>(hop)], 0);
    }
    if (others) touch(a.flow.path.view());
    free_slots_.push_back(slot);
    const Task done = a.flow.done;
    done.run(done.context, done.argument);
}

// Rank INT_MAX: after every other event of this instant, so that they are all solved at once.
inline void Network::touch(std::span<const int> links) {
    touched_.insert(touched_.end(), links.begin(), links.end());
    if (settling_) return;
    settling_ = true;
    engine_.at(engine_.now(), std::numeric_limits<int>::max(), {settle_event, this, 0});
}

inline void Network::settle() {
    settling_ = false;
    ++visit_;
    for (const int link : touched_) {
        if (at(link).seen == visit_) continue;
        gather(link);
        solve();
    }
    touched_.clear();
}

// The connected component of `first`: links and flows that reach each other.
inline void Network::gather(int first) {
    component_links_.assign(1, first);
    component_flows_.clear();
    at(first).seen = visit_;
    for (std::size_t i = 0; i < component_links_.size(); ++i)
        for (const OnLink on : at(component_links_[i]).flows) {
            Active& a = active(on.flow);
            if (a.seen == visit_) continue;
            a.seen = visit_;
            component_flows_.push_back(on.flow);
            for (const int link : a.flow.path.view())
                if (at(link).seen != visit_) {
                    at(link).seen = visit_;
                    component_links_.push_back(link);
                }
        }
}

inline void Network::solve() {
    if (component_flows_.empty()) return;
    ++solves_;
    for (const int l : component_links_) {
        Link& link = at(l);
        link.free = link.capacity;
        link.weight = 0;
        for (const OnLink on : link.flows) link.weight += active(on.flow).flow.weight;
    }
    growing_ = component_flows_;
    while (!growing_.empty()) {
        const Rate level = begin_round();
        std::size_t kept = 0;
        for (const int slot : growing_) {
            Active& a = active(slot);
            bool stops = a.cap / a.flow.weight <= level;
            for (const int link : a.flow.path.view()) stops = stops || at(link).share <= level;
            if (stops) fix(a, level);
            else growing_[kept++] = slot;
        }
        growing_.resize(kept);
    }
    for (const int l : component_links_)
        at(l).peak = std::max(at(l).peak, at(l).capacity - at(l).free);
    if (observer_.changed)
        for (const int l : component_links_) tell(l, at(l).capacity - at(l).free);
    for (const int slot : component_flows_) apply(slot);
}

// The level at which the next link is full or the next cap is met.
inline Network::Rate Network::begin_round() {
    Rate level = unlimited;
    for (const int l : component_links_) {
        Link& link = at(l);
        link.share = link.weight > 0 ? link.free / link.weight : unlimited;
        level = std::min(level, link.share);
    }
    for (const int slot : growing_)
        level = std::min(level, active(slot).cap / active(slot).flow.weight);
    return level;
}

inline void Network::fix(Active& a, Rate level) {
    a.solved = level * a.flow.weight;
    for (const int l : a.flow.path.view()) {
        at(l).free -= a.solved;
        at(l).weight -= a.flow.weight;
    }
}

inline bool Network::cut(const Flow& flow) const {
    for (const int link : flow.path.view())
        if (at(link).capacity == 0) return true;
    return false;
}

// A flow whose rate stays keeps its end: solving once more changes nothing.
inline void Network::apply(int slot) {
    Active& a = active(slot);
    if (a.solved == a.rate) return;
    a.remaining -= Work{a.rate} * (engine_.now() - a.since).count();
    a.since = engine_.now();
    a.rate = a.solved;
    const std::uint64_t ticket =
        std::uint64_t{++a.generation} << 32 | static_cast<std::uint32_t>(slot);
    if (a.rate == 0) {
        GX_EXPECT(cut(a.flow),
                  "too many flows share a link: each is given less than 1/1024 byte/s");
        return;  // until the link is raised
    }
    const Work left = a.remaining > 0 ? (a.remaining + a.rate / 2) / a.rate : Work{0};
    engine_.at(engine_.now() + Nanoseconds(static_cast<std::int64_t>(left)), a.flow.rank,
               {finish_event, this, ticket});
}

}  // namespace gx::sim
