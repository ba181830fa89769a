// read_trace: a training step as PyTorch's profiler recorded it: its parts and gradient order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gx::tools::predict {

/// A step of one process. Times of a trace with kernels are the GPU's, from its first kernel to its
/// last; of one without, the CPU's. Where a step sums the gradients of several micro-batches,
/// `forward_ms` and `backward_ms` are means of one, and `backward` and `gradients` are the last's.
struct MeasuredStep {
    /// A function of backward, which is a layer's or a part of one.
    struct Layer {
        std::string name{};
        double ms = 0;
    };
    /// A parameter's gradient, in the order in which they are ready.
    struct Gradient {
        std::int64_t elements = 0;
        double ready = 0;  ///< share of backward that has passed
    };
    int number = 0;  ///< of ProfilerStep
    bool gpu = false;
    int micro_batches = 1;
    double step_ms = 0;  ///< of the annotation: what a loop around it measures
    double forward_ms = 0, backward_ms = 0, update_ms = 0;
    double gap_ms = 0;  ///< between kernels, on a GPU
    std::vector<Layer> backward{};
    std::vector<Gradient> gradients{};

    /// Elements of all gradients.
    [[nodiscard]] std::int64_t elements() const;
};

/// The step of median duration of a Chrome JSON trace (torch.profiler, export_chrome_trace; from
/// PyTorch 1.9 on), whose `text` is that of `file`. It may be packed by gzip, of up to 256 MiB.
/// Errors: gx::Error naming the file, what it lacks and the profiler's option that records it: no
///         JSON, no ProfilerStep, no AccumulateGrad, no function of backward, no shapes, no
///         Optimizer.step, kernels without their launches, backward passes whose gradients differ;
///         reentrant activation checkpoints, whose inputs have gradients as parameters do; or, of a
///         step on several GPUs, what shows that: operators of two processes, kernels of two
///         devices, those of NCCL.
/// Cost:   O(n log n) in events; of a GPU, besides, kernels times gradients and functions of
///         backward.
[[nodiscard]] MeasuredStep read_trace(std::string_view text, const std::string& file);

}  // namespace gx::tools::predict
