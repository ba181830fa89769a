// Roofline: the bodies.
#pragma once

#include <algorithm>  // max

#include <gx/model/cost.hpp>               // OpCost, costs
#include <gx/sim/compute/gemm_shapes.hpp>  // gemm_shapes
#include <gx/sim/compute/roofline.hpp>     // KernelTime, TimedGraph

namespace gx::sim {

namespace detail::roofline {

inline double left_forward(const Op& op, const OpCost& c, bool fused) {
    if (!fused) return static_cast<double>(c.forward_traffic);
    return op.kind == OpKind::add ? static_cast<double>(c.elements_out) : 0.0;
}
inline double left_backward(const OpCost& c, bool fused) {
    return static_cast<double>(fused ? c.elements_out : c.backward_traffic);
}
inline FlopsPerSecond product_rate(const GpuSpec& gpu, Precision precision, const Graph& graph,
                                   const Op& op) {
    const Efficiency& e = gpu.efficiency(precision);
    const bool regular = suits_tensor_cores(graph, op, precision == Precision::tf32 ? 4 : 8);
    const bool direct = precision != Precision::fp32 || !suits_winograd(op);
    return gpu.peak(precision, regular) *
           (op.kind == OpKind::conv2d ? e.convolution * (direct ? 1.0 : gpu.winograd) : e.linear);
}

}  // namespace detail::roofline

GX_DECL KernelTime::KernelTime(const GpuSpec& gpu, Precision precision, const Graph& graph,
                               const Op& op, const OpCost& c, bool fused,
                               const Framework& framework)
    : multiprocessors_(gpu.multiprocessors),
      launch_(gpu.launch + framework.dispatch),
      bandwidth_(gpu.memory_bandwidth * gpu.efficiency(precision).memory),
      rate_(detail::roofline::product_rate(gpu, precision, graph, op)) {
    const double element = precision == Precision::mixed ? 2 : 4;
    const bool nothing = op.kind == OpKind::input || op.kind == OpKind::flatten || fused;
    const bool lookup = op.kind == OpKind::embedding;  // reads its rows, not its table
    const auto parameters = static_cast<double>(c.parameters);
    const GemmShapes of = gemm_shapes(graph, op, c);
    forward_.add(of.forward);
    backward_.add(of.data);
    backward_.add(of.other);
    const int without_weight = backward_.products;
    backward_.add(of.weight);
    weight_gradient_ = backward_.products > without_weight;
    if (forward_.products == 0) forward_.kernels = backward_.kernels = nothing ? 0 : 1;
    forward_.image_bytes = detail::roofline::left_forward(op, c, fused) * element;
    backward_.image_bytes = detail::roofline::left_backward(c, fused) * element;
    if (framework.channels_first && op.kind == OpKind::conv2d && gpu.tensor_cores(precision)) {
        const auto moved = static_cast<double>(c.elements_in + c.elements_out);
        forward_.turned_bytes = 2 * moved * element;  // read and written
        backward_.turned_bytes = (c.backward_data_flops > 0 ? 4 : 2) * moved * element;
    }
    forward_.batch_bytes = lookup ? 0 : parameters * element;
    backward_.batch_bytes = parameters * (lookup ? 4 : element + 4);
}

GX_DECL void KernelTime::Pass::add(const Gemm& p) {
    if (p.count == 0 || p.rows == 0) return;
    product[static_cast<std::size_t>(products++)] = p;
    ++kernels;
}

GX_DECL double KernelTime::arithmetic(const Pass& p, int product, int images) const {
    return gemm_seconds(p.product[static_cast<std::size_t>(product)].of(images), multiprocessors_,
                        rate_, bandwidth_);
}

GX_DECL Nanoseconds KernelTime::compute(const Pass& p, int images) const {
    double sum = 0;
    for (int i = 0; i < p.products; ++i) sum += arithmetic(p, i, images);
    const double memory = p.bytes(images) / bandwidth_.count;
    const double turned = p.turned_bytes * images / bandwidth_.count;
    p.last_images = images;
    return p.last = p.kernels * launch_ + nanoseconds(std::max(sum, memory) + turned);
}

GX_DECL KernelWork KernelTime::work(const Pass& p, int images) const {
    if (images == 0) return {};
    return {p.kernels, p.bytes(images) + p.turned_bytes * images, time(p, images)};
}
GX_DECL KernelWork KernelTime::forward_work(int images) const { return work(forward_, images); }
GX_DECL KernelWork KernelTime::weight_gradient_work(int images) const {
    const KernelWork all = work(backward_, images);
    if (!weight_gradient_ || images == 0) return {};
    const double even = 1.0 / backward_.products;
    double sum = 0, weight = 0;
    for (int i = 0; i < backward_.products; ++i) sum += weight = arithmetic(backward_, i, images);
    const bool bound = sum >= backward_.bytes(images) / bandwidth_.count;
    const double beside = seconds(all.time - all.kernels * launch_);
    return {1, all.bytes * even, launch_ + nanoseconds(beside * (bound ? weight / sum : even))};
}
GX_DECL KernelWork KernelTime::input_gradient_work(int images) const {
    const KernelWork all = work(backward_, images), weight = weight_gradient_work(images);
    return {all.kernels - weight.kernels, all.bytes - weight.bytes, all.time - weight.time};
}

GX_DECL std::vector<bool> joins_the_kernel_before(const Graph& graph) {
    std::vector<bool> normed(graph.tensors.size(), false), fused(graph.ops.size(), false);
    const auto is_normed = [&](int t) { return t >= 0 && normed[static_cast<std::size_t>(t)]; };
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
        const Op& op = graph.ops[i];
        fused[i] = (op.kind == OpKind::relu || op.kind == OpKind::add) &&
                   (is_normed(op.inputs[0]) || is_normed(op.inputs[1]));
        normed[static_cast<std::size_t>(op.output)] =
            op.kind == OpKind::batch_norm || (op.kind == OpKind::add && fused[i]);
        if (op.kind != OpKind::gelu && op.kind != OpKind::dropout) continue;
        const OpKind before = graph.ops[static_cast<std::size_t>(op.inputs[0])].kind;
        fused[i] = before == OpKind::token_linear || before == OpKind::softmax;
    }
    return fused;
}

GX_DECL TimedGraph::TimedGraph(const Graph& graph, const GpuSpec& gpu, Precision precision,
                               const Framework& framework, UpdateCost update)
    : update_((gpu.launch + framework.dispatch) *
                  (framework.fused ? 1 : static_cast<int>(graph.parameters.size())) +
              Bytes{update.bytes_per_parameter *
                    ((graph.parameter_elements() + update.shards - 1) / update.shards)} /
                  (gpu.memory_bandwidth * gpu.efficiency_fp32.memory)) {
    const std::vector<OpCost> all = costs(graph);
    const std::vector<bool> fused = joins_the_kernel_before(graph);
    for (std::size_t i = 0; i < graph.ops.size(); ++i)
        ops_.emplace_back(gpu, precision, graph, graph.ops[i], all[i], framework.fused && fused[i],
                          framework);
}

GX_DECL Nanoseconds TimedGraph::forward(int images) const {
    Nanoseconds sum{};
    for (const KernelTime& op : ops_) sum += op.forward(images);
    return sum;
}

GX_DECL Nanoseconds TimedGraph::backward(int images) const {
    Nanoseconds sum{};
    for (const KernelTime& op : ops_) sum += op.backward(images);
    return sum;
}

}  // namespace gx::sim
