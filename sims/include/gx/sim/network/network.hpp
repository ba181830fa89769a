// FlowNetwork: flow-level network model; flows share links by weighted max-min fairness.
#pragma once

#include <algorithm>  // equal, min, max
#include <array>      // paths
#include <cstdint>    // int64_t
#include <limits>     // numeric_limits
#include <span>       // hops
#include <vector>     // flat lists

#include <gx/core/contract.hpp>            // GX_EXPECT
#include <gx/core/decl.hpp>                // GX_HEADER_ONLY
#include <gx/core/function_ref.hpp>        // FunctionRef
#include <gx/core/trivial_vector.hpp>      // flat lists
#include <gx/core/stream.hpp>              // Task
#include <gx/core/units.hpp>               // Bytes, BytesPerSecond, Nanoseconds
#include <gx/sim/des/engine.hpp>           // Engine
#include <gx/sim/network/max_min.hpp>      // MaxMinSolver
#include <gx/sim/network/flow.hpp>         // Transfer, Path
#include <gx/sim/network/flow_groups.hpp>  // FlowGroups

namespace gx::sim {

/// Flow-level (fluid) model of directed links with a capacity each.
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
/// Cost:   a message without contention is two events and no solve, unless it takes less than half
///         a nanosecond. A solve is O(flows x links of a path + links x log links) of the
///         component, equal flows counted as one; a flow that it slows down costs no event until
///         its old end comes. One of n equal flows is four events at most, and O(log n) to end.
///         Nothing is allocated once the largest number of concurrent flows has been seen.
class FlowNetwork {
public:
    explicit FlowNetwork(Engine& engine) : engine_(engine) {}
    FlowNetwork(const FlowNetwork&) = delete;  // events point at it
    FlowNetwork& operator=(const FlowNetwork&) = delete;

    int add_link(BytesPerSecond capacity);
    /// From now on the link carries `capacity`; flows on it keep what they have already sent.
    /// 0 cuts the link: its flows stand still, without an event, until it is raised again.
    void set_capacity(int link, BytesPerSecond capacity);
    void start(const Transfer& flow);
    /// Calls `reroute_flow` for each active or scheduled flow that uses one of `links`. It gets the
    /// flow's path, bytes, rank and task. If it returns true, the flow starts again from its first
    /// byte, on the path and after the latency that it wrote.
    void reroute(std::span<const int> links, FunctionRef<bool(Transfer&)> reroute_flow);

    /// Called at every change of a link's total rate. At one instant there may be several of a
    /// link, of which the last one holds.
    struct RateObserver {
        void (*changed)(void* context, int link, Nanoseconds now, BytesPerSecond rate) = nullptr;
        void* context = nullptr;
    };
    void observe(RateObserver observer) { observer_ = observer; }

    [[nodiscard]] int links() const { return static_cast<int>(links_.size()); }
    /// Capacity of the fastest link; 0 without links.
    [[nodiscard]] BytesPerSecond largest_capacity() const {
        BytesPerSecond largest{0};
        for (int link = 0; link < links(); ++link)
            largest.count = std::max(largest.count, capacity(link).count);
        return largest;
    }
    [[nodiscard]] BytesPerSecond capacity(int link) const {
        return {static_cast<double>(at(link).capacity) / 1024.0};
    }
    /// Bytes of the messages that have crossed a link to the end.
    [[nodiscard]] Bytes carried(int link) const { return {at(link).carried}; }
    /// The largest sum of rates that a link was given, as a share of its capacity at that time.
    [[nodiscard]] double peak_load(int link) const;
    [[nodiscard]] std::uint64_t messages() const { return messages_; }
    [[nodiscard]] std::uint64_t solves() const { return solves_; }
    /// Flows in all solves together, equal ones counted once.
    [[nodiscard]] std::uint64_t flows_solved() const { return flows_solved_; }

private:
    using Rate = MaxMinSolver::Rate;  // 1/1024 byte per second
    using Work = FlowGroups::Work;    // rate x nanoseconds: bytes x 1024 x 10^9
    static constexpr Rate unlimited = MaxMinSolver::unlimited;
    static constexpr Nanoseconds never = Nanoseconds::max();

    struct OnLink {
        int flow;
        int hop;  // which link of the flow's path this is
    };
    struct alignas(64) Link {  // one cache line
        TrivialVector<OnLink> flows{};
        Rate capacity = 0;
        std::uint64_t seen = 0;
        int index = 0;         // in the component that is being solved
        bool touched = false;  // it is to be solved in this instant
        Rate peak = 0;         // at the present capacity
        std::int64_t carried = 0;
    };
    struct LinkPast {
        double peak_before = 0;  // peak_load at earlier capacities
        Rate reported = 0;       // to the observer
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
        bool grouped = false;    // it leads a group of equal flows
        bool unsettled = false;  // some have come or gone since the last solve
        bool listed = false;     // in groups_, by hash
        std::array<Hop, Path::most_links> path{};
        [[nodiscard]] std::span<Hop> view() { return {path.data(), std::size_t(hops)}; }
        [[nodiscard]] Rate rate() const { return level * weight; }
    };
    // Before all others of its instant: flows that end together are then posted by their ranks.
    static constexpr int before_all_ranks = std::numeric_limits<int>::min();
    static constexpr int after_all_ranks = std::numeric_limits<int>::max();

    static Rate to_rate(BytesPerSecond r) {  // that of uplinks may be above what Rate holds
        return static_cast<Rate>(std::min(r.count, 8e15) * 1024.0);
    }
    static FlowNetwork& self(void* network) { return *static_cast<FlowNetwork*>(network); }
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
    [[nodiscard]] int members(int slot) { return active(slot).grouped ? groups_.members(slot) : 1; }
    [[nodiscard]] int joining(int slot) { return active(slot).grouped ? groups_.joining(slot) : 0; }
    [[nodiscard]] Rate given(int slot) {  // to all of them
        return active(slot).rate() * (members(slot) - joining(slot));
    }

    int take_slot();
    void activate(int slot);
    void finish(int slot, std::uint32_t generation);
    void leave(int slot, bool arrived = true);
    void touch(int link);

    // Equal flows
    [[nodiscard]] bool joins_equal(int slot);
    [[nodiscard]] int equal_to(int slot);
    [[nodiscard]] static bool are_equal(Active& a, Active& b);
    [[nodiscard]] static std::size_t hash_of(Active& a);
    void release(int slot);
    void end_member(int slot);

    // Reroutes
    void restart(int slot, const Transfer& transfer);
    [[nodiscard]] bool has_begun(int slot);
    [[nodiscard]] bool take_off(int slot);
    void take_out(int slot);

    // Rates
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

    void report_change(Active& a, Rate more);

    Engine& engine_;
    RateObserver observer_{};
    std::vector<Link> links_{};
    TrivialVector<LinkPast> pasts_{};
    TrivialVector<Active> active_{};
    FlowGroups groups_{};  // of the same slots
    TrivialVector<int> free_slots_{};
    TrivialVector<int> touched_{};
    MaxMinSolver shares_{};  // of the component that is being solved
    std::uint64_t visit_ = 0, messages_ = 0, solves_ = 0, flows_solved_ = 0;
    Rate kept_below_ = 0;
    bool settling_ = false;
};

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/network/impl/network.ipp>
#endif
