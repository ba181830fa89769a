// StepKernels: a training step's kernels by kind; with_measured: a GPU at their measured times.
#pragma once

#include <array>        // a sum for each kind
#include <cstddef>      // size_t
#include <string_view>  // names

#include <gx/core/decl.hpp>              // GX_DECL
#include <gx/core/device.hpp>            // UpdateCost
#include <gx/core/units.hpp>             // Nanoseconds
#include <gx/model/graph.hpp>            // Graph
#include <gx/sim/compute/framework.hpp>  // Framework
#include <gx/sim/compute/roofline.hpp>   // KernelWork
#include <gx/sim/hardware/gpu.hpp>       // GpuSpec, Precision

namespace gx::sim {

/// What a kernel of a training step computes.
enum class KernelKind : unsigned char {
    products_forward,
    products_input_gradient,
    products_weight_gradient,
    batch_norm_forward,  ///< with the ReLU and add that join it
    batch_norm_backward,
    pools,
    loss,
    optimizer,
    copies,  ///< casts, copies and sums
    other
};
inline constexpr std::size_t kernel_kinds = 10;

/// The names that plugins/nccl/gpu/kernel_times.py gives to kinds.
[[nodiscard]] constexpr std::string_view to_string(KernelKind kind) {
    constexpr std::array<std::string_view, kernel_kinds> names{"products, forward",
                                                               "products, input gradient",
                                                               "products, weight gradient",
                                                               "batch norm, forward",
                                                               "batch norm, backward",
                                                               "pools",
                                                               "loss",
                                                               "optimizer",
                                                               "casts, copies and sums",
                                                               "other"};
    return names[static_cast<std::size_t>(kind)];
}
[[nodiscard]] constexpr bool is_product(KernelKind kind) {
    return kind <= KernelKind::products_weight_gradient;
}
/// Whether memory bounds every kernel of the kind, and large kernels are most of it.
[[nodiscard]] constexpr bool is_memory_bound(KernelKind kind) {
    return kind == KernelKind::batch_norm_forward || kind == KernelKind::batch_norm_backward ||
           kind == KernelKind::pools;
}

/// Simulated kernels of a training step, by KernelKind. Their times add up to TimedGraph::step.
struct StepKernels {
    std::array<KernelWork, kernel_kinds> kinds{};

    [[nodiscard]] KernelWork& operator[](KernelKind k) {
        return kinds[static_cast<std::size_t>(k)];
    }
    [[nodiscard]] const KernelWork& operator[](KernelKind k) const {
        return kinds[static_cast<std::size_t>(k)];
    }
    /// The sum of the kinds for which `holds`.
    template <class F>
    [[nodiscard]] KernelWork sum(F holds) const {
        KernelWork all;
        for (std::size_t i = 0; i < kernel_kinds; ++i)
            if (holds(static_cast<KernelKind>(i))) all += kinds[i];
        return all;
    }
};

[[nodiscard]] GX_DECL StepKernels step_kernels(const Graph& graph, const GpuSpec& gpu,
                                               Precision precision, int images,
                                               const Framework& framework = fused_kernels,
                                               UpdateCost update = {});

/// Measured sums of a step's kernels, in seconds.
struct MeasuredKernels {
    double products = 0, memory_bound = 0;
};

/// The GPU whose simulated products and memory-bound kernels take the times that were measured, to
/// 1 us: `memory` of the precision's Efficiency is solved from the memory-bound kinds, then
/// `convolution` and `linear` are scaled by one factor. All else stays as it is.
/// Errors: gx::Error where a share would be below 0.01 or above 1: what the kernels' launches or
///         memory traffic leave of the time, or the peak, can't explain it.
[[nodiscard]] GX_DECL GpuSpec with_measured(const GpuSpec& gpu, const MeasuredKernels& measured,
                                            const Graph& graph, Precision precision, int images,
                                            const Framework& framework = fused_kernels);

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/compute/impl/step_kernels.ipp>
#endif
