// step_work, wire_floor: a step's kernels, and the bandwidth bound of its messages.
#pragma once

#include <cstdint>  // int64_t
#include <vector>   // watermarks

#include <gx/sim/compute/ready_points.hpp>  // ready_points
#include <gx/sim/timing/step_time.hpp>      // step_work

namespace gx::sim {

GX_DECL StepWork step_work(const Graph& graph, const TimedGraph& times, int batch) {
    StepWork work{times.forward(batch),
                  times.backward(batch),
                  times.update(),
                  graph.parameter_elements(),
                  {},
                  {},
                  {}};
    for (const auto& op : times.ops()) work.forward_kernels.push_back(op.forward(batch));
    const std::vector<std::size_t> ready = ready_points(graph);
    Nanoseconds after{};
    std::int64_t watermark = work.elements;
    for (std::size_t i = graph.ops.size(); i-- > 0;) {
        after += work.backward_kernels.emplace_back(times.ops()[i].backward(batch));
        const auto from = static_cast<std::int64_t>(ready[i]);
        if (from < watermark) work.ready.push_back({after, watermark = from});
    }
    return work;
}

namespace detail {

GX_DECL Nanoseconds wire_floor(const ClusterSpec& spec, Bytes gradient) {
    const bool far = spec.machines > 1;
    const int n = far ? spec.machines : spec.machine.gpus;
    const BytesPerSecond rate =
        far ? spec.nic_rate() * double(spec.machine.nics) : spec.machine.peer_bandwidth;
    if (n == 1 || rate.count <= 0) return {};
    return nanoseconds(2.0 * (n - 1) / n * static_cast<double>(gradient.count) / rate.count);
}

}  // namespace detail

}  // namespace gx::sim
