// MemoryNeed: GPU memory check of a training step, and the largest batch that fits.
#pragma once

#include <cstdint>  // int64_t

#include <gx/core/cold.hpp>         // GX_COLD
#include <gx/core/decl.hpp>         // GX_DECL
#include <gx/core/device.hpp>       // UpdateCost
#include <gx/core/units.hpp>        // Bytes
#include <gx/model/graph.hpp>       // Graph
#include <gx/sim/hardware/gpu.hpp>  // GpuSpec, Precision

namespace gx::sim {

/// GPU memory of a training step: activations and their gradients, as MemoryPlan places them,
/// and parameters, gradients and optimizer state in fp32, with fp16 copies of the first two where
/// the computation is mixed, and one vector more for the sum of micro-batches. Workspaces of
/// convolutions, buffers of reducers and what a framework itself takes are not counted.
struct MemoryNeed {
    Bytes activations{}, parameters{};
    Label largest{};        ///< the operation with the largest output, and
    Bytes largest_bytes{};  ///< how large it is
    [[nodiscard]] Bytes total() const { return activations + parameters; }
};

/// Bytes of parameters, gradients and optimizer state, whatever the batch.
[[nodiscard]] GX_DECL Bytes parameter_need(std::int64_t parameters, Precision precision,
                                           UpdateCost update = {});
[[nodiscard]] GX_DECL Bytes parameter_need(const Graph& graph, Precision precision,
                                           UpdateCost update = {});

/// Memory of a training step over `batch` images.
/// Errors: a batch below 1 breaks the contract.
[[nodiscard]] GX_DECL MemoryNeed memory_need(const Graph& graph, int batch, Precision precision,
                                             UpdateCost update = {});

/// The largest batch up to `batch` that fits; 0 when none does.
/// Cost: a memory plan for each halving of the range, 10 for a batch of 1,024.
[[nodiscard]] GX_DECL int largest_batch(const Graph& graph, int batch, const GpuSpec& gpu,
                                        Precision precision, UpdateCost update = {});

/// Throws unless a training step fits in the GPU.
/// Errors: gx::Error with what does not fit (the parameters alone, or the activations and the
///         largest of them) and the batch that does.
GX_COLD GX_DECL void expect_fits(const Graph& graph, int batch, const GpuSpec& gpu,
                                 Precision precision, UpdateCost update = {});

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/compute/impl/gpu_memory.ipp>
#endif
