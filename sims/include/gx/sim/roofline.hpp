// Roofline: how long a kernel takes on a GPU: launch, then the slower of arithmetic and memory.
#pragma once

#include <algorithm>  // max
#include <cstdint>    // int64_t
#include <vector>     // operations

#include <gx/core/units.hpp>        // Nanoseconds
#include <gx/model/cost.hpp>        // OpCost, costs
#include <gx/model/graph.hpp>       // Graph, Op
#include <gx/sim/topology.hpp>      // GpuSpec, Precision

namespace gx::sim {

/// One operation of a graph on one GPU, forward and backward.
///
///     time = kernels * launch + max(flops / (peak * efficiency), bytes / (bandwidth * efficiency))
///
/// Convolutions and linear layers of Precision::mixed run on tensor cores and move fp16; batch norm
/// and pooling move fp16 too. Backward of a trained product is two kernels.
///
/// ReLUs and residual adds that follow a batch norm are part of its kernel, as in cuDNN's
/// BatchNormalizationForwardTrainingEx: they cost no launch and only the traffic that is left
/// (the other addend read and its gradient written, the ReLU's output read in backward).
/// Source: Williams, Waterman, Patterson 2009, "Roofline", for the form.
class KernelTime {
public:
    KernelTime(const GpuSpec& gpu, Precision precision, const Op& op, const OpCost& c, bool fused) {
        const bool mixed = precision == Precision::mixed;
        const Efficiency& e = mixed ? gpu.efficiency_mixed : gpu.efficiency_fp32;
        const double peak = (mixed ? gpu.tensor_fp16 : gpu.fp32).count *
                            (op.kind == OpKind::conv2d ? e.convolution : e.linear);
        const double bandwidth = gpu.memory_bandwidth.count * e.memory;
        const double element = mixed ? 2 : 4;
        const bool nothing = op.kind == OpKind::input || op.kind == OpKind::flatten;
        const bool product = c.forward_flops > 0;
        const auto parameters = static_cast<double>(c.parameters);
        launch_ = gpu.launch;
        forward_.kernels = nothing || fused ? 0 : 1;
        backward_.kernels = nothing || fused ? 0 : product && c.backward_data_flops > 0 ? 2 : 1;
        forward_.flops_s = c.forward_flops / peak;
        backward_.flops_s = (c.backward_data_flops + c.backward_weight_flops) / peak;
        forward_.image_s = left_forward(op, c, fused) * element / bandwidth;
        backward_.image_s = left_backward(op, c, fused) * element / bandwidth;
        forward_.batch_s = parameters * element / bandwidth;
        backward_.batch_s = parameters * (element + 4) / bandwidth;
    }
    [[nodiscard]] Nanoseconds forward(int images) const { return time(forward_, images); }
    [[nodiscard]] Nanoseconds backward(int images) const { return time(backward_, images); }

private:
    struct Pass {
        int kernels = 0;
        double flops_s = 0;  ///< of one image
        double image_s = 0;  ///< traffic of one image
        double batch_s = 0;  ///< traffic of the parameters
    };
    static double left_forward(const Op& op, const OpCost& c, bool fused) {
        if (!fused) return static_cast<double>(c.forward_traffic);
        return op.kind == OpKind::add ? static_cast<double>(c.elements_out) : 0.0;
    }
    static double left_backward(const Op&, const OpCost& c, bool fused) {
        return static_cast<double>(fused ? c.elements_out : c.backward_traffic);
    }
    [[nodiscard]] Nanoseconds time(const Pass& p, int images) const {
        if (images == 0) return {};
        const double memory = p.image_s * images + p.batch_s;
        return p.kernels * launch_ + nanoseconds(std::max(p.flops_s * images, memory));
    }

    Nanoseconds launch_{};
    Pass forward_{}, backward_{};
};

/// For each operation, whether it is part of the kernel of the batch norm before it.
[[nodiscard]] inline std::vector<bool> fused_into_batch_norm(const Graph& graph) {
    std::vector<bool> normed(graph.tensors.size(), false), fused(graph.ops.size(), false);
    const auto is_normed = [&](int t) { return t >= 0 && normed[static_cast<std::size_t>(t)]; };
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
        const Op& op = graph.ops[i];
        fused[i] = (op.kind == OpKind::relu || op.kind == OpKind::add) &&
                   (is_normed(op.inputs[0]) || is_normed(op.inputs[1]));
        normed[static_cast<std::size_t>(op.output)] =
            op.kind == OpKind::batch_norm || (op.kind == OpKind::add && fused[i]);
    }
    return fused;
}

/// A graph on a GPU: the time of every operation.
class TimedGraph {
public:
    TimedGraph(const Graph& graph, const GpuSpec& gpu, Precision precision)
        : update_(gpu.launch + Bytes{20 * graph.parameter_elements()} /
                                   (gpu.memory_bandwidth * gpu.efficiency_fp32.memory)) {
        const std::vector<OpCost> all = costs(graph);
        const std::vector<bool> fused = fused_into_batch_norm(graph);
        for (std::size_t i = 0; i < graph.ops.size(); ++i)
            ops_.emplace_back(gpu, precision, graph.ops[i], all[i], fused[i]);
    }
    [[nodiscard]] const std::vector<KernelTime>& ops() const { return ops_; }
    [[nodiscard]] Nanoseconds forward(int images) const {
        Nanoseconds sum{};
        for (const KernelTime& op : ops_) sum += op.forward(images);
        return sum;
    }
    [[nodiscard]] Nanoseconds backward(int images) const {
        Nanoseconds sum{};
        for (const KernelTime& op : ops_) sum += op.backward(images);
        return sum;
    }
    /// SGD with momentum in one kernel: 20 bytes a parameter (gradient, parameter and momentum
    /// read, the last two written, in fp32).
    [[nodiscard]] Nanoseconds update() const { return update_; }
    [[nodiscard]] Nanoseconds step(int images) const {
        return forward(images) + backward(images) + update();
    }

private:
    std::vector<KernelTime> ops_{};
    Nanoseconds update_;
};

}  // namespace gx::sim
