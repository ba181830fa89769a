// Roofline: how long a kernel takes on a GPU: launch, then the slower of arithmetic and memory.
#pragma once

#include <algorithm>  // max
#include <array>      // the last answers
#include <cstdint>    // int64_t
#include <vector>     // operations

#include <gx/core/cold.hpp>  // GX_COLD
#include <gx/core/units.hpp>        // Nanoseconds
#include <gx/model/cost.hpp>        // OpCost, costs
#include <gx/model/graph.hpp>       // Graph, Op
#include <gx/sim/framework.hpp>     // Framework
#include <gx/sim/gpu.hpp>           // GpuSpec, Precision
#include <gx/sim/product_time.hpp>  // Product, product_seconds
#include <gx/sim/products_of.hpp>   // products_of

namespace gx::sim {

/// One operation of a graph on one GPU, forward and backward.
///
///     time = kernels * launch + max(arithmetic, bytes / (bandwidth * efficiency))
///
/// for each kernel; the arithmetic of a product is product_seconds(). Products of
/// Precision::mixed run on tensor cores and move fp16, where channels in and out of a group are
/// multiples of 8 (of 4 for TF32), and at the plain fp16 rate where they are not; the rest moves
/// fp16 too. 3x3 convolutions of stride 1 in fp32 gain by Winograd's algorithm. Backward of a
/// trained product is two kernels.
///
/// A framework that keeps channels first turns both ends of a convolution around for the tensor
/// cores, before and after the product.
///
/// Operations that are fused cost no launch and only the traffic that is left (the other addend
/// read and its gradient written, the ReLU's output read in backward).
///
/// Cost:   the answer for the last batch is kept; another batch takes some microseconds. Not to be
///         shared among threads.
/// Source: Williams, Waterman, Patterson 2009, "Roofline", for the form; NVIDIA, "Deep Learning
///         Performance: tensor core requirements", for the multiples; cuDNN's
///         BatchNormalizationForwardTrainingEx for the fusion.
class KernelTime {
public:
    GX_COLD KernelTime(const GpuSpec& gpu, Precision precision, const Graph& graph, const Op& op,
                       const OpCost& c, bool fused, const Framework& framework = fused_kernels)
        : multiprocessors_(gpu.multiprocessors),
          launch_(gpu.launch + framework.dispatch),
          bandwidth_(gpu.memory_bandwidth * gpu.efficiency(precision).memory),
          rate_(product_rate(gpu, precision, graph, op)) {
        const double element = precision == Precision::mixed ? 2 : 4;
        const bool nothing = op.kind == OpKind::input || op.kind == OpKind::flatten || fused;
        const bool lookup = op.kind == OpKind::embedding;  // reads its rows, not its table
        const auto parameters = static_cast<double>(c.parameters);
        const ProductsOf of = products_of(graph, op, c);
        forward_.add(of.forward);
        backward_.add(of.data);
        backward_.add(of.other);
        backward_.add(of.weight);
        if (forward_.products == 0) forward_.kernels = backward_.kernels = nothing ? 0 : 1;
        forward_.image_bytes = left_forward(op, c, fused) * element;
        backward_.image_bytes = left_backward(c, fused) * element;
        if (framework.channels_first && op.kind == OpKind::conv2d && gpu.tensor_cores(precision)) {
            const auto moved = static_cast<double>(c.elements_in + c.elements_out);
            forward_.turned_bytes = 2 * moved * element;  // read and written
            backward_.turned_bytes = (c.backward_data_flops > 0 ? 4 : 2) * moved * element;
        }
        forward_.batch_bytes = lookup ? 0 : parameters * element;
        backward_.batch_bytes = parameters * (lookup ? 4 : element + 4);
    }
    [[nodiscard]] Nanoseconds forward(int images) const { return time(forward_, images); }
    [[nodiscard]] Nanoseconds backward(int images) const { return time(backward_, images); }

private:
    struct Pass {
        int kernels = 0, products = 0;
        double image_bytes = 0, batch_bytes = 0;
        double turned_bytes = 0;  ///< of an image, beside the product
        std::array<Product, 3> product{};
        mutable int last_images = 0;
        mutable Nanoseconds last{};

        void add(const Product& p) {
            if (p.count == 0 || p.rows == 0) return;
            product[static_cast<std::size_t>(products++)] = p;
            ++kernels;
        }
    };
    static double left_forward(const Op& op, const OpCost& c, bool fused) {
        if (!fused) return static_cast<double>(c.forward_traffic);
        return op.kind == OpKind::add ? static_cast<double>(c.elements_out) : 0.0;
    }
    static double left_backward(const OpCost& c, bool fused) {
        return static_cast<double>(fused ? c.elements_out : c.backward_traffic);
    }
    static FlopsPerSecond product_rate(const GpuSpec& gpu, Precision precision, const Graph& graph,
                                       const Op& op) {
        const Efficiency& e = gpu.efficiency(precision);
        const bool regular = suits_tensor_cores(graph, op, precision == Precision::tf32 ? 4 : 8);
        const bool direct = precision != Precision::fp32 || !suits_winograd(op);
        return gpu.peak(precision, regular) *
               (op.kind == OpKind::conv2d ? e.convolution * (direct ? 1.0 : gpu.winograd)
                                          : e.linear);
    }
    [[nodiscard]] Nanoseconds time(const Pass& p, int images) const {
        if (images == 0 || images == p.last_images) return images == 0 ? Nanoseconds{} : p.last;
        double arithmetic = 0;
        for (int i = 0; i < p.products; ++i)
            arithmetic += product_seconds(p.product[static_cast<std::size_t>(i)].of(images),
                                          multiprocessors_, rate_, bandwidth_);
        const double memory = (p.image_bytes * images + p.batch_bytes) / bandwidth_.count;
        const double turned = p.turned_bytes * images / bandwidth_.count;
        p.last_images = images;
        return p.last = p.kernels * launch_ + nanoseconds(std::max(arithmetic, memory) + turned);
    }

    int multiprocessors_;
    Nanoseconds launch_;
    BytesPerSecond bandwidth_;
    FlopsPerSecond rate_;
    Pass forward_{}, backward_{};
};

/// For each operation, whether it is part of the kernel of the batch norm before it, or of the
/// product or softmax before it where it is a GELU or a dropout.
GX_COLD [[nodiscard]] inline std::vector<bool> joins_the_kernel_before(const Graph& graph) {
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

/// A graph on a GPU: the time of every operation.
class TimedGraph {
public:
    GX_COLD TimedGraph(const Graph& graph, const GpuSpec& gpu, Precision precision,
                       const Framework& framework = fused_kernels)
        : update_((gpu.launch + framework.dispatch) *
                      (framework.fused ? 1 : static_cast<int>(graph.parameters.size())) +
                  Bytes{20 * graph.parameter_elements()} /
                                   (gpu.memory_bandwidth * gpu.efficiency_fp32.memory)) {
        const std::vector<OpCost> all = costs(graph);
        const std::vector<bool> fused = joins_the_kernel_before(graph);
        for (std::size_t i = 0; i < graph.ops.size(); ++i)
            ops_.emplace_back(gpu, precision, graph, graph.ops[i], all[i],
                              framework.fused && fused[i], framework);
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
    /// SGD with momentum: 20 bytes a parameter (gradient, parameter and momentum
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
