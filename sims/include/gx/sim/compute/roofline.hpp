// Roofline: kernel time on a GPU: launch, then the slower of arithmetic and memory traffic.
#pragma once

#include <array>   // the last results
#include <vector>  // operations

#include <gx/core/cold.hpp>              // GX_COLD
#include <gx/core/decl.hpp>              // GX_DECL
#include <gx/core/device.hpp>            // UpdateCost
#include <gx/core/units.hpp>             // Nanoseconds
#include <gx/model/graph.hpp>            // Graph, Op
#include <gx/sim/compute/framework.hpp>  // Framework
#include <gx/sim/hardware/gpu.hpp>       // GpuSpec, Precision
#include <gx/sim/compute/gemm_time.hpp>  // Gemm

namespace gx {
struct OpCost;  // gx/model/cost.hpp
}

namespace gx::sim {

/// Kernels of a pass of one operation: their count, the bytes that they move, and their time.
struct KernelWork {
    int kernels = 0;
    double bytes = 0;
    Nanoseconds time{};

    KernelWork& operator+=(const KernelWork& o) {
        kernels += o.kernels;
        bytes += o.bytes;
        time += o.time;
        return *this;
    }
};

/// Time of one operation of a graph on one GPU, forward and backward.
///
///     time = kernels * launch + max(arithmetic, bytes / (bandwidth * efficiency))
///
/// for each kernel; the arithmetic of a product is gemm_seconds(). Products of
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
/// Cost:   the result for the last batch is cached; another batch takes some microseconds.
/// Threads: not thread-safe.
/// Source: Williams, Waterman, Patterson 2009, "Roofline", for the form; NVIDIA, "Deep Learning
///         Performance: tensor core requirements", for the multiples; cuDNN's
///         BatchNormalizationForwardTrainingEx for the fusion.
class KernelTime {
public:
    GX_COLD KernelTime(const GpuSpec& gpu, Precision precision, const Graph& graph, const Op& op,
                       const OpCost& c, bool fused, const Framework& framework = fused_kernels);
    [[nodiscard]] Nanoseconds forward(int images) const { return time(forward_, images); }
    [[nodiscard]] Nanoseconds backward(int images) const { return time(backward_, images); }
    [[nodiscard]] KernelWork forward_work(int images) const;
    /// Of backward(), the gradient of a product's weight; nothing where there is none. backward()
    /// is one roofline: its time is divided by arithmetic, evenly where memory bounds it, as its
    /// bytes are.
    [[nodiscard]] KernelWork weight_gradient_work(int images) const;
    /// The rest of backward().
    [[nodiscard]] KernelWork input_gradient_work(int images) const;

private:
    struct Pass {
        int kernels = 0, products = 0;
        double image_bytes = 0, batch_bytes = 0;
        double turned_bytes = 0;  ///< of an image, beside the product
        std::array<Gemm, 3> product{};
        mutable int last_images = 0;
        mutable Nanoseconds last{};

        void add(const Gemm& p);
        [[nodiscard]] double bytes(int images) const { return image_bytes * images + batch_bytes; }
    };
    [[nodiscard]] Nanoseconds time(const Pass& p, int images) const {
        if (images == 0 || images == p.last_images) return images == 0 ? Nanoseconds{} : p.last;
        return compute(p, images);
    }
    [[nodiscard]] Nanoseconds compute(const Pass& p, int images) const;
    [[nodiscard]] double arithmetic(const Pass& p, int product, int images) const;
    [[nodiscard]] KernelWork work(const Pass& p, int images) const;

    int multiprocessors_;
    Nanoseconds launch_;
    BytesPerSecond bandwidth_;
    FlopsPerSecond rate_;
    Pass forward_{}, backward_{};
    bool weight_gradient_ = false;  ///< the last product of backward_
};

/// Kernel fusion: whether each operation joins the kernel before it (batch norm; GEMM or softmax
/// for GELU and dropout).
GX_COLD [[nodiscard]] GX_DECL std::vector<bool> joins_the_kernel_before(const Graph& graph);

/// Kernel times of a graph on a GPU, operation by operation.
class TimedGraph {
public:
    GX_COLD TimedGraph(const Graph& graph, const GpuSpec& gpu, Precision precision,
                       const Framework& framework = fused_kernels, UpdateCost update = {});
    [[nodiscard]] const std::vector<KernelTime>& ops() const { return ops_; }
    [[nodiscard]] Nanoseconds forward(int images) const;
    [[nodiscard]] Nanoseconds backward(int images) const;
    /// Memory-bound: the optimizer's bytes per parameter at the fp32 memory bandwidth.
    [[nodiscard]] Nanoseconds update() const { return update_; }
    [[nodiscard]] Nanoseconds step(int images) const {
        return forward(images) + backward(images) + update();
    }

private:
    std::vector<KernelTime> ops_{};
    Nanoseconds update_;
};

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/compute/impl/roofline.ipp>
#endif
