// MemoryNeed: whether a training step fits in a GPU, what does not, and which batch would.
#pragma once

#include <cstdint>  // int64_t
#include <string>   // the sentence

#include <gx/core/cold.hpp>  // GX_COLD
#include <gx/core/error.hpp>         // Error
#include <gx/core/units.hpp>         // Bytes
#include <gx/model/graph.hpp>        // Graph
#include <gx/model/memory_plan.hpp>  // MemoryPlan
#include <gx/sim/gpu.hpp>            // GpuSpec, Precision

namespace gx::sim {

/// What an optimizer keeps for each parameter, in fp32: 1 with momentum, 2 with Adam or LAMB.
struct OptimizerState {
    int values = 1;
};

/// What one GPU holds while it trains: activations and their gradients, as MemoryPlan places them,
/// and parameters, gradients and optimizer state in fp32, with fp16 copies of the first two where
/// the computation is mixed. Workspaces of convolutions, buffers of reducers and what a framework
/// itself takes are not counted.
struct MemoryNeed {
    Bytes activations{}, parameters{};
    Label largest{};        ///< the operation with the largest output, and
    Bytes largest_bytes{};  ///< how large it is
    [[nodiscard]] Bytes total() const { return activations + parameters; }
};

/// Bytes of parameters, gradients and optimizer state, whatever the batch.
[[nodiscard]] inline Bytes parameter_need(const Graph& graph, Precision precision,
                                          OptimizerState optimizer = {}) {
    const int copies = precision == Precision::mixed ? 4 : 0;
    return {graph.parameter_elements() * (8 + 4 * optimizer.values + copies)};
}

/// Errors: a batch below 1 breaks the contract.
[[nodiscard]] inline MemoryNeed memory_need(const Graph& graph, int batch, Precision precision,
                                            OptimizerState optimizer = {}) {
    const std::int64_t element = precision == Precision::mixed ? 2 : 4;
    const MemoryPlan plan(graph, batch, Mode::train, element);
    MemoryNeed need{{plan.bytes}, parameter_need(graph, precision, optimizer), {}, {}};
    for (const Op& op : graph.ops) {
        const auto output = static_cast<std::size_t>(op.output);
        const Bytes bytes{graph.tensors[output].elements() * batch * element};
        if (bytes <= need.largest_bytes) continue;
        need.largest = op.name;
        need.largest_bytes = bytes;
    }
    return need;
}

/// The largest batch up to `batch` that fits; 0 when none does.
/// Cost: a memory plan for each halving of the range, 10 for a batch of 1,024.
[[nodiscard]] inline int largest_batch(const Graph& graph, int batch, const GpuSpec& gpu,
                                       Precision precision, OptimizerState optimizer = {}) {
    if (parameter_need(graph, precision, optimizer) > gpu.memory) return 0;
    int fits = 0, too_large = batch + 1;
    while (too_large - fits > 1) {
        const int middle = fits + (too_large - fits) / 2;
        const Bytes need = memory_need(graph, middle, precision, optimizer).total();
        (need <= gpu.memory ? fits : too_large) = middle;
    }
    return fits;
}

namespace detail::memory {

GX_COLD inline std::string gigabytes(Bytes b) {
    const std::int64_t hundredths = (b.count + 5'000'000) / 10'000'000;
    const std::string cents = std::to_string(100 + hundredths % 100).substr(1);
    return std::to_string(hundredths / 100) + "." + cents + " GB";
}

/// Which batch fits, and in which precision where this one does not.
inline std::string what_fits(const Graph& graph, int batch, const GpuSpec& gpu,
                             Precision precision, OptimizerState optimizer) {
    const int fits = largest_batch(graph, batch, gpu, precision, optimizer);
    if (fits > 0) return "a batch of " + std::to_string(fits) + " fits";
    const int mixed = precision == Precision::mixed
                          ? 0
                          : largest_batch(graph, batch, gpu, Precision::mixed, optimizer);
    if (mixed > 0)
        return "no batch fits, but one of " + std::to_string(mixed) + " does in mixed precision";
    return "no batch fits: choose a smaller network or a larger GPU";
}

}  // namespace detail::memory

/// Errors: throws gx::Error with what did not fit (the parameters alone, or the activations and
///         the largest of them) and which batch would.
GX_COLD inline void expect_fits(const Graph& graph, int batch, const GpuSpec& gpu,
                                Precision precision, OptimizerState optimizer = {}) {
    using detail::memory::gigabytes;
    const MemoryNeed need = memory_need(graph, batch, precision, optimizer);
    if (need.total() <= gpu.memory) return;
    const bool tokens = graph.input.channels == 1 && graph.input.width == 1;
    const std::string room = gigabytes(gpu.memory);
    std::string sentence = "a batch of " + std::to_string(batch) +
                           (tokens ? " sequences of " : " images of ") +
                           std::string(graph.name.view()) + " does not fit in a " +
                           std::string(gpu.name.view()) + ": activations take " +
                           gigabytes(need.activations) + " and parameters " +
                           gigabytes(need.parameters) + " of its " + room;
    if (need.parameters > gpu.memory)
        sentence += ", less than the parameters with their gradients and optimizer state alone";
    else
        sentence += ", and '" + std::string(need.largest.view()) + "' alone " +
                    gigabytes(need.largest_bytes);
    throw Error(sentence + "; " +
                detail::memory::what_fits(graph, batch, gpu, precision, optimizer));
}

}  // namespace gx::sim
