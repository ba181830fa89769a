// Symmetry reduction: simulate one representative machine, and skip steps that repeat.
#pragma once

#include <algorithm>  // min
#include <concepts>   // same_as
#include <cstdint>    // int64_t
#include <vector>     // states

#include <gx/collective/exchange.hpp>    // Collective
#include <gx/core/units.hpp>             // Nanoseconds
#include <gx/sim/topology/topology.hpp>  // ClusterSpec, Topology

namespace gx::sim {

/// How much of a collective is simulated.
enum class Detail : unsigned char {
    every_message,
    collapsed  ///< one machine for all, and each repeating interval once, where that is exact
};

namespace detail {

/// Whether the network looks the same from every machine. Links between switches belong to no
/// machine, so this holds for fabrics without such links only.
[[nodiscard]] constexpr bool machines_see_the_same(const ClusterSpec& spec) {
    return spec.fabric.kind == Fabric::Kind::star || spec.fabric.kind == Fabric::Kind::rails;
}

/// Whether all machines do the same. Rank g of every machine, in every step, exchanges equal
/// numbers of chunks with the same GPUs, equally near. A collective declares it
/// (`alike_on_machines`); tests verify it.
template <Collective C>
[[nodiscard]] constexpr bool machines_do_the_same(const C& collective, const ClusterSpec& spec) {
    if (spec.machines == 1) return true;
    if constexpr (requires {
                      { collective.alike_on_machines(Placement{}) } -> std::same_as<bool>;
                  })
        return collective.alike_on_machines(spec.placement());
    else return false;
}

}  // namespace detail

/// The simulated ranks: all of them, or, folded, those of machine 0 as representatives.
///
/// Folded, a message to another machine leaves machine 0 and enters machine 0: what leaves for
/// machine m is the image of what comes from machine -m, which is in flight at the same time. Each
/// link of machine 0 then carries as many flows as in the whole cluster, from as near and as far,
/// so max-min fairness gives every flow the rate that it and its images have there.
class RepresentativeMachine {
public:
    RepresentativeMachine(const ClusterSpec& spec, FlowNetwork& network, bool folded)
        : gpus_(spec.machine.gpus),
          ranks_(spec.ranks()),
          folded_(folded),
          topology_(folded ? few_machines(spec) : spec, network) {}

    [[nodiscard]] int actors() const { return folded_ ? gpus_ : ranks_; }
    [[nodiscard]] int actor_of(int rank) const { return folded_ ? rank % gpus_ : rank; }
    /// Ranks that one actor stands for.
    [[nodiscard]] int images() const { return ranks_ / actors(); }
    [[nodiscard]] bool leaves_machine(int from, int to) const { return from / gpus_ != to / gpus_; }

    [[nodiscard]] Topology::Route route(int from, int to, int channel) const {
        if (!folded_ || !leaves_machine(from, to)) return topology_.route(from, to, channel);
        const int other = to % gpus_, last = (topology_.spec().machines - 1) * gpus_;
        Topology::Route leaving = topology_.route(from, gpus_ + other, channel);
        const Topology::Route entering = topology_.route(last + from, other, channel);
        for (int hop = 0; hop < leaving.path.count; ++hop) {  // machine 0's links are the first
            const auto h = static_cast<std::size_t>(hop);
            leaving.path.links[h] = std::min(leaving.path.links[h], entering.path.links[h]);
        }
        return leaving;
    }

private:
    static ClusterSpec few_machines(ClusterSpec spec) {
        spec.machines = std::min(spec.machines, 4);
        return spec;
    }
    int gpus_, ranks_;
    bool folded_;
    Topology topology_;
};

/// Cycle detection in the states of a deterministic system, with its counters per cycle. The
/// remembered state is replaced after ever more steps (Brent's algorithm).
class CycleDetector {
public:
    struct Counts {
        std::int64_t step = 0;
        Nanoseconds time{};
        std::uint64_t messages = 0;
        std::int64_t far_bytes = 0;
    };
    /// Returns what one cycle adds; a step of 0 if this is not the remembered state.
    [[nodiscard]] Counts see(const std::vector<std::int64_t>& state, const Counts& now) {
        if (state == state_)
            return {now.step - at_.step, now.time - at_.time, now.messages - at_.messages,
                    now.far_bytes - at_.far_bytes};
        if (++tries_ > patience_ || state_.empty()) {
            state_ = state;
            at_ = now;
            patience_ *= 2;
            tries_ = 0;
        }
        return {};
    }
    void forget() {
        state_.clear();
        patience_ = 1;
        tries_ = 0;
    }

private:
    std::vector<std::int64_t> state_{};
    Counts at_{};
    int patience_ = 1, tries_ = 0;
};

}  // namespace gx::sim
