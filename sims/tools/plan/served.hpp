// Choices of reducers whose messages are all in flight at once: ParameterServer, SharedMemory.
#pragma once

#include <algorithm>    // max, min
#include <cstdint>      // int64_t
#include <string>       // names
#include <string_view>  // wires

#include <gx/parameter_server/reducer.hpp>    // ParameterServer
#include <gx/shared_memory/reducer.hpp>       // SharedMemory
#include <gx/sim/timing/rank_order_time.hpp>  // rank_order_time
#include <tools/plan/search.hpp>              // ReducerChoice

namespace gx::tools::plan {

/// Step with a RankOrderMean of each bucket: buckets are cut from the end of the gradient, begin
/// when they are whole, and follow each other, on all ranks together. Its kernels are charged,
/// because no stack's costs have a server's sums.
template <class R>
[[nodiscard]] sim::StepTiming served_time(const sim::StepWork& work, const sim::ClusterSpec& spec,
                                          Bytes bucket) {
    constexpr int element_bytes = sizeof(typename R::wire_type::storage);
    const std::int64_t most =
        bucket.count > 0 ? std::clamp<std::int64_t>(bucket.count / element_bytes, 1, work.elements)
                         : work.elements;
    const auto whole = sim::rank_order_time(spec, most, element_bytes);
    const Nanoseconds computed = work.forward + work.backward;
    sim::StepTiming t{.forward = work.forward, .backward = work.backward, .update = work.update};
    Nanoseconds end{};
    std::size_t gate = 0;
    for (std::int64_t left = work.elements; left > 0; left -= most) {
        const std::int64_t begin = std::max<std::int64_t>(0, left - most);
        while (gate + 1 < work.ready.size() && work.ready[gate].watermark > begin) ++gate;
        const auto mean = left >= most ? whole : sim::rank_order_time(spec, left, element_bytes);
        const Nanoseconds queued = work.forward + work.ready[gate].after;
        end = std::max(end, queued) + mean.time;
        t.communication += mean.time;
        t.messages += mean.messages;
        t.wire += mean.wire;
    }
    t.exposed = std::max(Nanoseconds(0), end - computed);
    t.step = work.total() + t.exposed;
    t.floor =
        std::max(work.total(), sim::detail::wire_floor(spec, {work.elements * element_bytes}));
    t.simulated = t.messages;
    t.settled = true;
    t.dollars = spec.dollars(t.step);
    return t;
}

/// ParameterServer<E> with all ranks serving, or SharedMemory<E> where ranks reach each other by
/// messages alone.
template <class R>
[[nodiscard]] ReducerChoice served_choice(std::string_view wire) {
    const auto messages = [](const sim::StepWork&, const sim::ClusterSpec& spec, Bytes) {
        const double gpus = spec.machine.gpus, n = spec.ranks();
        return gpus * gpus * gpus / 20 + 2 * 2 * n * (n - 1);  // two lengths of buckets
    };
    return {
        .name = R::name(), .wire = std::string(wire), .time = served_time<R>, .messages = messages};
}

}  // namespace gx::tools::plan
