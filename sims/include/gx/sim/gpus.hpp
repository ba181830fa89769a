// GPUs that people rent: v100; every number with its source.
#pragma once

#include <gx/sim/gpu.hpp>  // GpuSpec

namespace gx::sim {

/// Tesla V100 SXM2 16 GB.
/// Source: NVIDIA V100 data sheet: 15.7 TFLOPS fp32, 125 TFLOPS tensor, 16 GB, 900 GB/s.
///         Efficiencies: set so that ResNet-50 at 224 px runs at the published single-GPU rates,
///         fp32 362 to 400 img/s (NVIDIA DeepLearningExamples; DLPerf) and mixed 1,200 to 1,490
///         (DeepLearningExamples; MLPerf v0.7); not measured kernel by kernel.
///         Launch: 5 us is an assumption, within the usual 3 to 10 us of a framework.
[[nodiscard]] constexpr GpuSpec v100() {
    using namespace gx::literals;
    return {.name = "V100-SXM2-16GB",
            .fp32 = 15.7_TFLOPS,
            .tensor_fp16 = 125.0_TFLOPS,
            .memory = 16_GB,
            .memory_bandwidth = 900_GBps,
            .launch = 5_us,
            .efficiency_fp32 = {.convolution = 0.75, .linear = 0.75, .memory = 0.8},
            .efficiency_mixed = {.convolution = 0.45, .linear = 0.45, .memory = 0.8}};
}

}  // namespace gx::sim
