// Kernels of a step by kind: the bodies.
#pragma once

#include <algorithm>  // max
#include <cmath>      // sqrt
#include <cstddef>    // size_t
#include <cstdint>    // int64_t
#include <vector>     // operations

#include <fmt/core.h>  // sentences

#include <gx/core/error.hpp>                // Error
#include <gx/sim/compute/step_kernels.hpp>  // StepKernels

namespace gx::sim {

namespace detail::step_kernels {

struct KindsOfOp {
    KernelKind forward, backward;
};
[[nodiscard]] inline KindsOfOp kinds_of(const Op& op, bool joined) {
    if (op.macs > 0) return {KernelKind::products_forward, KernelKind::products_input_gradient};
    switch (op.kind) {
        case OpKind::batch_norm:
            return {KernelKind::batch_norm_forward, KernelKind::batch_norm_backward};
        case OpKind::max_pool:
        case OpKind::avg_pool: return {KernelKind::pools, KernelKind::pools};
        case OpKind::softmax_cross_entropy: return {KernelKind::loss, KernelKind::loss};
        case OpKind::relu:
        case OpKind::add:
            if (joined) return {KernelKind::batch_norm_forward, KernelKind::batch_norm_backward};
            return {KernelKind::copies, KernelKind::copies};
        case OpKind::concat: return {KernelKind::copies, KernelKind::copies};
        default: return {KernelKind::other, KernelKind::other};
    }
}

[[nodiscard]] inline Efficiency& efficiency(GpuSpec& gpu, Precision p) {
    if (p == Precision::tf32 && gpu.tf32.count > 0) return gpu.efficiency_tf32;
    return p == Precision::mixed ? gpu.efficiency_mixed : gpu.efficiency_fp32;
}
[[noreturn]] inline void out_of_reach(const GpuSpec& gpu, const char* what, double measured,
                                      double least, double most) {
    throw Error(fmt::format(
        "{} of a step took {:.3f} ms: a simulated {} takes from {:.3f} ms at its peak to {:.3f} ms "
        "at a hundredth of it",
        what, 1e3 * measured, gpu.name.view(), 1e3 * least, 1e3 * most));
}

/// The share in [least, most] at which time_of(share) is `measured`; times fall as shares grow.
template <class F>
[[nodiscard]] double solve(const GpuSpec& gpu, const char* what, double measured, double least,
                           double most, F time_of) {
    const double slowest = time_of(least), fastest = time_of(most);
    if (measured < fastest || measured > slowest)
        out_of_reach(gpu, what, measured, fastest, slowest);
    for (int i = 0; i < 60; ++i) {
        const double middle = std::sqrt(least * most);
        (time_of(middle) > measured ? least : most) = middle;
    }
    return most;
}

}  // namespace detail::step_kernels

GX_DECL StepKernels step_kernels(const Graph& graph, const GpuSpec& gpu, Precision precision,
                                 int images, const Framework& framework, UpdateCost update) {
    const TimedGraph times(graph, gpu, precision, framework, update);
    const std::vector<bool> joins = joins_the_kernel_before(graph);
    StepKernels all;
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
        const auto [forward, backward] =
            detail::step_kernels::kinds_of(graph.ops[i], framework.fused && joins[i]);
        const KernelTime& op = times.ops()[i];
        all[forward] += op.forward_work(images);
        all[backward] += op.input_gradient_work(images);
        all[KernelKind::products_weight_gradient] += op.weight_gradient_work(images);
    }
    const std::int64_t updated = (graph.parameter_elements() + update.shards - 1) / update.shards;
    all[KernelKind::optimizer] = {framework.fused ? 1 : static_cast<int>(graph.parameters.size()),
                                  static_cast<double>(update.bytes_per_parameter * updated),
                                  times.update()};
    return all;
}

GX_DECL GpuSpec with_measured(const GpuSpec& gpu, const MeasuredKernels& measured,
                              const Graph& graph, Precision precision, int images,
                              const Framework& framework) {
    namespace d = detail::step_kernels;
    GpuSpec fitted = gpu;
    Efficiency& e = d::efficiency(fitted, precision);
    const auto seconds_of = [&](auto holds) {
        const StepKernels all = step_kernels(graph, fitted, precision, images, framework);
        return seconds(all.sum(holds).time);
    };
    e.memory =
        d::solve(gpu, "batch norms and pools", measured.memory_bound, 0.01, 1, [&](double x) {
            e.memory = x;
            return seconds_of(is_memory_bound);
        });
    const Efficiency before = e;
    const double most = std::max(before.convolution, before.linear);
    const auto scale = [&](double share) {
        e.convolution = before.convolution * share / most;
        e.linear = before.linear * share / most;
    };
    scale(d::solve(gpu, "products", measured.products, 0.01, 1, [&](double share) {
        scale(share);
        return seconds_of(is_product);
    }));
    return fitted;
}

}  // namespace gx::sim
