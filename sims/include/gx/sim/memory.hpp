// MemoryNeed: whether a training step fits in a GPU, and which batch would.
#pragma once

#include <cstdint>  // int64_t
#include <string>   // the sentence

#include <gx/core/error.hpp>         // Error
#include <gx/core/units.hpp>         // Bytes
#include <gx/model/graph.hpp>        // Graph
#include <gx/model/memory_plan.hpp>  // MemoryPlan
#include <gx/sim/topology.hpp>       // GpuSpec, Precision

namespace gx::sim {

/// What one GPU holds while it trains: activations and their gradients, as MemoryPlan places them,
/// and parameters, gradients and momentum in fp32, with fp16 copies of the first two where the
/// computation is mixed. Workspaces of convolutions and buffers of reducers are not counted.
struct MemoryNeed {
    Bytes activations{}, parameters{};
    [[nodiscard]] Bytes total() const { return activations + parameters; }
};

[[nodiscard]] inline MemoryNeed memory_need(const Graph& graph, int batch, Precision precision) {
    const bool mixed = precision == Precision::mixed;
    const MemoryPlan plan(graph, batch, Mode::train, mixed ? 2 : 4);
    return {{plan.bytes}, {graph.parameter_elements() * (mixed ? 16 : 12)}};
}

/// The largest batch up to `batch` that fits; 0 when none does.
[[nodiscard]] inline int largest_batch(const Graph& graph, int batch, const GpuSpec& gpu,
                                       Precision precision) {
    int fits = 0, too_large = batch + 1;
    while (too_large - fits > 1) {
        const int middle = fits + (too_large - fits) / 2;
        (memory_need(graph, middle, precision).total() <= gpu.memory ? fits : too_large) = middle;
    }
    return fits;
}

/// Errors: throws gx::Error with what did not fit and what would.
inline void expect_fits(const Graph& graph, int batch, const GpuSpec& gpu, Precision precision) {
    const MemoryNeed need = memory_need(graph, batch, precision);
    if (need.total() <= gpu.memory) return;
    const auto gb = [](Bytes b) {
        const std::int64_t hundredths = (b.count + 5'000'000) / 10'000'000;
        const std::string cents = std::to_string(100 + hundredths % 100).substr(1);
        return std::to_string(hundredths / 100) + "." + cents + " GB";
    };
    const int fits = largest_batch(graph, batch, gpu, precision);
    throw Error("a batch of " + std::to_string(batch) + " images of " +
                std::string(graph.name.view()) + " does not fit in a " +
                std::string(gpu.name.view()) + ": activations take " + gb(need.activations) +
                " and parameters " + gb(need.parameters) + " of its " + gb(gpu.memory) + "; " +
                (fits > 0 ? "a batch of " + std::to_string(fits) + " fits"
                          : "no batch fits: choose a smaller network or a larger GPU"));
}

}  // namespace gx::sim
