// GPU memory of a training step: the bodies.
#pragma once

#include <cstdint>  // int64_t
#include <string>   // the sentence

#include <gx/core/error.hpp>              // Error
#include <gx/model/memory_plan.hpp>       // MemoryPlan
#include <gx/sim/compute/gpu_memory.hpp>  // MemoryNeed

namespace gx::sim {

GX_DECL Bytes parameter_need(std::int64_t parameters, Precision precision, UpdateCost update) {
    const int sums = update.micro_batches > 1 ? 4 : 0;
    const int copies = (precision == Precision::mixed ? 4 : 0) + sums;
    const std::int64_t shards = update.shards, own = (parameters + shards - 1) / shards;
    return {parameters * (8 + copies) + own * 4 * update.state_vectors};
}
GX_DECL Bytes parameter_need(const Graph& graph, Precision precision, UpdateCost update) {
    return parameter_need(graph.parameter_elements(), precision, update);
}

GX_DECL MemoryNeed memory_need(const Graph& graph, int batch, Precision precision,
                               UpdateCost update) {
    const std::int64_t element = precision == Precision::mixed ? 2 : 4;
    const MemoryPlan plan(graph, batch, Mode::train, element);
    MemoryNeed need{{plan.bytes}, parameter_need(graph, precision, update), {}, {}};
    for (const Op& op : graph.ops) {
        const auto output = static_cast<std::size_t>(op.output);
        const Bytes bytes{graph.tensors[output].elements() * batch * element};
        if (bytes <= need.largest_bytes) continue;
        need.largest = op.name;
        need.largest_bytes = bytes;
    }
    return need;
}

GX_DECL int largest_batch(const Graph& graph, int batch, const GpuSpec& gpu, Precision precision,
                          UpdateCost update) {
    if (parameter_need(graph, precision, update) > gpu.memory) return 0;
    std::int64_t fits = 0, too_large = std::int64_t{batch} + 1;
    while (too_large - fits > 1) {
        const std::int64_t middle = fits + (too_large - fits) / 2;
        const Bytes need = memory_need(graph, static_cast<int>(middle), precision, update).total();
        (need <= gpu.memory ? fits : too_large) = middle;
    }
    return static_cast<int>(fits);
}

namespace detail::memory {

GX_COLD inline std::string gigabytes(Bytes b) {
    const std::int64_t hundredths = (b.count + 5'000'000) / 10'000'000;
    const std::string cents = std::to_string(100 + hundredths % 100).substr(1);
    return std::to_string(hundredths / 100) + "." + cents + " GB";
}

inline std::string what_fits(const Graph& graph, int batch, const GpuSpec& gpu, Precision precision,
                             UpdateCost update) {
    const int fits = largest_batch(graph, batch, gpu, precision, update);
    if (fits > 0) return "a batch of " + std::to_string(fits) + " fits";
    const int mixed = precision == Precision::mixed
                          ? 0
                          : largest_batch(graph, batch, gpu, Precision::mixed, update);
    if (mixed > 0)
        return "no batch fits, but one of " + std::to_string(mixed) + " does in mixed precision";
    return "no batch fits: choose a smaller network or a larger GPU";
}

}  // namespace detail::memory

GX_DECL void expect_fits(const Graph& graph, int batch, const GpuSpec& gpu, Precision precision,
                         UpdateCost update) {
    using detail::memory::gigabytes;
    const MemoryNeed need = memory_need(graph, batch, precision, update);
    if (need.total() <= gpu.memory) return;
    const bool tokens = graph.input.channels == 1 && graph.input.width == 1;
    const std::string room = gigabytes(gpu.memory);
    std::string sentence =
        "a batch of " + std::to_string(batch) + (tokens ? " sequences of " : " images of ") +
        std::string(graph.name.view()) + " does not fit in a " + std::string(gpu.name.view()) +
        ": activations take " + gigabytes(need.activations) + " and parameters " +
        gigabytes(need.parameters) + " of its " + room;
    if (need.parameters > gpu.memory)
        sentence += ", less than the parameters with their gradients and optimizer state alone";
    else
        sentence += ", and '" + std::string(need.largest.view()) + "' alone " +
                    gigabytes(need.largest_bytes);
    throw Error(sentence + "; " + detail::memory::what_fits(graph, batch, gpu, precision, update));
}

}  // namespace gx::sim
