// all_reduce_time: time of collectives on the simulated network, without payload.
#pragma once

#include <cstdint>  // uint64_t
#include <span>     // collectives

#include <gx/collective/exchange.hpp>           // Collective
#include <gx/core/contract.hpp>                 // GX_EXPECT
#include <gx/core/units.hpp>                    // Bytes, Nanoseconds
#include <gx/sim/des/engine.hpp>                // Engine
#include <gx/sim/timing/collective_replay.hpp>  // CollectiveReplay
#include <gx/sim/timing/symmetry.hpp>           // Detail
#include <gx/sim/topology/topology.hpp>         // ClusterSpec

namespace gx::sim {

struct CollectiveTiming {
    Nanoseconds time{};
    std::uint64_t messages = 0;   ///< of all ranks, simulated or not
    std::uint64_t events = 0;     ///< of the engine, while simulating
    double peak_load = 0;         ///< of the fullest link, as a share of its capacity
    Bytes wire{};                 ///< of the messages between machines
    std::uint64_t simulated = 0;  ///< messages that went through the network
    bool collapsed = false;       ///< one representative machine was simulated
    bool rounded = false;         ///< chunks of unequal size were timed as the largest of them
};

/// Time of K concurrent collectives that share `bytes` between them, all ranks starting at once.
/// Chunks are cut by bytes; execution with payload cuts by elements, and takes the same time where
/// both cut alike.
///
/// Detail::collapsed returns the same nanosecond from a fraction of the messages where every
/// machine does the same on a fabric that looks the same to each, and chunks have equal sizes. Of
/// unequal chunks, `messages_worth_simulating` messages are simulated one by one; beyond that they
/// are timed as the largest of them (`rounded`). One ring then takes the true time where every
/// machine has one GPU, and elsewhere at most the time of one byte a step more. Collectives whose
/// flows share a NIC may in truth drift out of step and so get by with less: up to 7 % less in 400
/// random clusters with chunks of 1,000 to 20,000 bytes. Other collectives are simulated whole.
///
/// Errors: gx::Error for a spec that check(spec) rejects; no collective, one of another number of
///         ranks, and one that stops before its last step break the contract.
template <Collective C>
[[nodiscard]] CollectiveTiming all_reduce_time(std::span<const C> collectives,
                                               const ClusterSpec& spec, Bytes bytes,
                                               Detail detail = Detail::every_message) {
    const ReductionPlan<C> plan{collectives, {bytes.count}, 1};
    const bool collapsed = detail == Detail::collapsed && can_collapse(plan, spec);
    Engine engine;
    CollectiveReplay<C> reductions(plan, spec, engine, collapsed,
                                   {[](void*, std::uint64_t) {}, nullptr, 0});
    for (int actor = 0; actor < reductions.actors(); ++actor) reductions.queue(actor, 1);
    engine.drain();
    for (int actor = 0; actor < reductions.actors(); ++actor)
        GX_EXPECT(reductions.reduced(actor) == 1, "the collective stops before its last step");
    return {.time = engine.now(),
            .messages = reductions.messages(),
            .events = engine.events(),
            .peak_load = reductions.peak_load(),
            .wire = reductions.wire(),
            .simulated = reductions.simulated(),
            .collapsed = collapsed,
            .rounded = collapsed && !plan.has_equal_chunks()};
}
template <Collective C>
[[nodiscard]] CollectiveTiming all_reduce_time(const C& collective, const ClusterSpec& spec,
                                               Bytes bytes, Detail detail = Detail::every_message) {
    return all_reduce_time(std::span<const C>(&collective, 1), spec, bytes, detail);
}

}  // namespace gx::sim
