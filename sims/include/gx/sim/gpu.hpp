// GpuSpec: what a GPU can do at most, and the share of it that kernels reach.
#pragma once

#include <gx/core/label.hpp>  // Label
#include <gx/core/units.hpp>  // units

namespace gx::sim {

/// What numbers are computed in; sums and parameters are fp32 in both.
enum class Precision : unsigned char {
    fp32,
    mixed  ///< activations and products in fp16, on tensor cores where the GPU has them
};

/// The share of its peak that a kind of kernel reaches on a GPU.
struct Efficiency {
    double convolution = 1, linear = 1, memory = 1;
};

struct GpuSpec {
    Label name{};
    FlopsPerSecond fp32{};         ///< peak
    FlopsPerSecond tensor_fp16{};  ///< peak of the tensor cores; the fp16 peak where there are none
    Bytes memory{};
    BytesPerSecond memory_bandwidth{};
    Nanoseconds launch{};          ///< from one kernel to the next
    Efficiency efficiency_fp32{}, efficiency_mixed{};
};

}  // namespace gx::sim
