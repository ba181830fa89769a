// Timing of reducers that run an all-reduce's halves apart, the update in between.
#pragma once

#include <algorithm>    // min
#include <cstdint>      // int64_t
#include <span>         // collectives
#include <type_traits>  // remove_cvref_t
#include <vector>       // buckets

#include <gx/collective/tree.hpp>               // Tree
#include <gx/core/device.hpp>                   // UpdateCost
#include <gx/reducer/concept.hpp>               // OwnsUpdate
#include <gx/reducer/collective_reducer.hpp>    // Plan
#include <gx/sim/timing/collective_replay.hpp>  // ReductionPlan, CollectiveReplay

namespace gx::sim {

/// A reducer that declares `halves`: a plan whose collectives have a reduce_scatter(), which runs
/// beside the backward pass, and an all_gather() of the parameters, in fp32, after the update.
template <class R>
concept RunsHalves = OwnsUpdate<R> && gx::detail::reducer::Plan<typename R::halves> && requires {
    R::halves::make(Placement{}, 0).reduce_scatter();
    R::halves::make(Placement{}, 0).all_gather();
};

/// The cost of an optimizer's update on each of `ranks` ranks with reducer R.
template <class R>
[[nodiscard]] constexpr UpdateCost update_cost_with([[maybe_unused]] int ranks, UpdateCost update) {
    if constexpr (OwnsUpdate<R>)
        if (R::owns_update.in_parts) update.shards = ranks;
    return update;
}

/// What exchanging parameters costs: time, all ranks starting at once, and messages of all ranks.
struct ExchangeTiming {
    Nanoseconds time{};
    std::uint64_t messages = 0, simulated = 0;
    Bytes wire{};
    ExchangeTiming& operator+=(const ExchangeTiming& o) {
        time += o.time;
        messages += o.messages;
        simulated += o.simulated;
        wire = {wire.count + o.wire.count};
        return *this;
    }
};

/// One round of the buckets of `plan`.
template <Collective C>
[[nodiscard]] ExchangeTiming exchange_time(const ReductionPlan<C>& plan, const ClusterSpec& spec,
                                           Detail detail, std::int64_t worth_simulating) {
    const bool collapsed =
        detail == Detail::collapsed && can_collapse(plan, spec, worth_simulating);
    Engine engine;
    CollectiveReplay<C> exchanges(plan, spec, engine, collapsed,
                                  {[](void*, std::uint64_t) {}, nullptr, 0});
    for (int actor = 0; actor < exchanges.actors(); ++actor)
        exchanges.queue(actor, std::ssize(plan.elements));
    engine.drain();
    return {engine.now(), exchanges.messages(), exchanges.simulated(), exchanges.wire()};
}

/// What reducer R adds to a step after the reduce-scatter: the decision on the step by a tree, and
/// the all-gather of `elements` parameters in buckets of `bucket_elements`.
template <RunsHalves R>
[[nodiscard]] ExchangeTiming exchange_time_of(std::int64_t elements, std::int64_t bucket_elements,
                                              const ClusterSpec& spec, Detail detail,
                                              std::int64_t worth_simulating) {
    using P = typename R::halves;
    const collective::Tree tree(spec.ranks());
    ExchangeTiming t =
        exchange_time(ReductionPlan<collective::Tree>{std::span(&tree, 1), {1}, sizeof(float)},
                      spec, Detail::every_message, worth_simulating);
    using Gather = std::remove_cvref_t<decltype(P::make(Placement{}, 0).all_gather())>;
    std::vector<Gather> gathers;
    for (int k = 0; k < P::count; ++k) gathers.push_back(P::make(spec.placement(), k).all_gather());
    ReductionPlan<Gather> plan{gathers, {}, sizeof(float)};
    for (std::int64_t end = elements; end > 0; end -= bucket_elements)
        plan.elements.push_back(std::min(end, bucket_elements));
    return t += exchange_time(plan, spec, detail, worth_simulating);
}

}  // namespace gx::sim
