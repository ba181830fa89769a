// GPUs that people rent and own: k80 to h200; every number with its source.
#pragma once

#include <gx/sim/gpu.hpp>  // GpuSpec

namespace gx::sim {

/// Peaks, memory and bandwidth are the vendor's; GB is 10^9 bytes.
///
/// Source: NVIDIA data sheets (Tesla K80, Tesla P100, P40, V100, A100, H100, H200), the Pascal,
///         Volta, Ampere and Hopper architecture white papers for multiprocessors and peaks beside
///         the tensor cores; tensor peaks are the dense ones.
///         Efficiencies: set on published rates of one GPU, a set for each precision and generation
///         and none for a single case; `gx_calibrate` prints the rates and what is left over. They
///         are not measured kernel by kernel.
///         Launch: what a kernel costs beyond its work: from one kernel to the next, and the time
///         in which it fills and drains the GPU. Kepler to Volta: set on rates of ResNet-50 at
///         batches of 1 to 128. Volta to Hopper: on what MLPerf's rates lose where the batch of a
///         GPU falls from 208, 408 and 400 to 52, 204 and 50, with 5 to 10 % of those steps left
///         to the network; Hopper's entries replay graphs of kernels.
///
/// A half of a K80: the board carries two GK210, and clouds and frameworks count each as a GPU.
/// The peak is at the boost clock of 875 MHz; p2 machines run at it.
[[nodiscard]] constexpr GpuSpec k80() {
    using namespace gx::literals;
    return {.name = "K80",
            .fp32 = 4.37_TFLOPS,
            .tensor_fp16 = 4.37_TFLOPS,
            .memory = 12_GB,
            .memory_bandwidth = 240_GBps,
            .launch = 40_us,
            .efficiency_fp32 = {.convolution = 0.40, .linear = 0.6, .memory = 0.55},
            .efficiency_mixed = {.convolution = 0.40, .linear = 0.6, .memory = 0.55},
            .winograd = 1.7,
            .multiprocessors = 13,
            .copy_engines = 2};
}

/// Tesla P100 on NVLink.
[[nodiscard]] constexpr GpuSpec p100() {
    using namespace gx::literals;
    return {.name = "P100-SXM2-16GB",
            .fp32 = 10.6_TFLOPS,
            .tensor_fp16 = 21.2_TFLOPS,
            .memory = 16_GB,
            .memory_bandwidth = 732_GBps,
            .launch = 40_us,
            .efficiency_fp32 = {.convolution = 0.8, .linear = 0.7, .memory = 0.75},
            .efficiency_mixed = {.convolution = 0.6, .linear = 0.6, .memory = 0.75},
            .winograd = 2.2,
            .multiprocessors = 56};
}
[[nodiscard]] constexpr GpuSpec p100_pcie() {
    using namespace gx::literals;
    GpuSpec g = p100();
    g.name = "P100-PCIe-16GB";
    g.fp32 = 9.3_TFLOPS;
    g.tensor_fp16 = 18.7_TFLOPS;
    return g;
}

[[nodiscard]] constexpr GpuSpec p100_pcie_12gb() {
    using namespace gx::literals;
    GpuSpec g = p100_pcie();
    g.name = "P100-PCIe-12GB";
    g.memory = 12_GB;
    g.memory_bandwidth = 549_GBps;
    return g;
}

/// Pascal boards without fast fp16 (1/64 of fp32): mixed precision only saves them memory.
/// P40, GeForce GTX 1080 Ti and Titan X (Pascal) differ in clocks and memory.
[[nodiscard]] constexpr GpuSpec p40() {
    using namespace gx::literals;
    GpuSpec g = p100();
    g.name = "P40";
    g.fp32 = g.tensor_fp16 = 11.76_TFLOPS;
    g.memory = 24_GB;
    g.memory_bandwidth = 346_GBps;
    g.multiprocessors = 30;
    return g;
}
[[nodiscard]] constexpr GpuSpec gtx_1080_ti() {
    using namespace gx::literals;
    GpuSpec g = p40();
    g.name = "GTX-1080-Ti";
    g.fp32 = g.tensor_fp16 = 11.34_TFLOPS;
    g.memory = 11_GB;
    g.memory_bandwidth = 484_GBps;
    g.multiprocessors = 28;
    return g;
}
[[nodiscard]] constexpr GpuSpec titan_x_pascal() {
    using namespace gx::literals;
    GpuSpec g = gtx_1080_ti();
    g.name = "Titan-X-Pascal";
    g.fp32 = g.tensor_fp16 = 10.97_TFLOPS;
    g.memory = 12_GB;
    g.memory_bandwidth = 480_GBps;
    return g;
}

/// Tesla V100 SXM2 16 GB.
[[nodiscard]] constexpr GpuSpec v100() {
    using namespace gx::literals;
    return {.name = "V100-SXM2-16GB",
            .fp32 = 15.7_TFLOPS,
            .tensor_fp16 = 125.0_TFLOPS,
            .memory = 16_GB,
            .memory_bandwidth = 900_GBps,
            .launch = 20_us,
            .efficiency_fp32 = {.convolution = 0.9, .linear = 0.95, .memory = 0.8},
            .efficiency_mixed = {.convolution = 0.8, .linear = 0.48, .memory = 0.75},
            .fp16 = 31.4_TFLOPS,
            .winograd = 1.6,
            .multiprocessors = 80};
}
[[nodiscard]] constexpr GpuSpec v100_32gb() {
    using namespace gx::literals;
    GpuSpec g = v100();
    g.name = "V100-SXM2-32GB";
    g.memory = 32_GB;
    return g;
}
[[nodiscard]] constexpr GpuSpec v100_pcie() {
    using namespace gx::literals;
    GpuSpec g = v100();
    g.name = "V100-PCIe-16GB";
    g.fp32 = 14.0_TFLOPS;
    g.tensor_fp16 = 112.0_TFLOPS;
    g.fp16 = 28.0_TFLOPS;
    return g;
}
[[nodiscard]] constexpr GpuSpec v100_pcie_32gb() {
    using namespace gx::literals;
    GpuSpec g = v100_pcie();
    g.name = "V100-PCIe-32GB";
    g.memory = 32_GB;
    return g;
}
/// Of a DGX-2: 2 PFLOPS over 16 GPUs; memory at 958 MHz.
[[nodiscard]] constexpr GpuSpec v100_sxm3() {
    using namespace gx::literals;
    GpuSpec g = v100_32gb();
    g.name = "V100-SXM3-32GB";
    g.memory_bandwidth = 981_GBps;
    return g;
}
/// Of a DGX-2H, at 450 W in place of 350 W: 2.1 PFLOPS over 16 GPUs.
[[nodiscard]] constexpr GpuSpec v100_sxm3_h() {
    using namespace gx::literals;
    GpuSpec g = v100_sxm3();
    g.name = "V100-SXM3-32GB-H";
    g.fp32 = 16.4_TFLOPS;
    g.tensor_fp16 = 131.0_TFLOPS;
    g.fp16 = 32.8_TFLOPS;
    return g;
}

[[nodiscard]] constexpr GpuSpec a100_40gb() {
    using namespace gx::literals;
    return {.name = "A100-SXM4-40GB",
            .fp32 = 19.5_TFLOPS,
            .tensor_fp16 = 312.0_TFLOPS,
            .memory = 40_GB,
            .memory_bandwidth = 1'555_GBps,
            .launch = 15_us,
            .efficiency_fp32 = {.convolution = 0.9, .linear = 0.95, .memory = 0.8},
            .efficiency_mixed = {.convolution = 0.77, .linear = 0.6, .memory = 0.8},
            .efficiency_tf32 = {.convolution = 0.36, .linear = 0.95, .memory = 0.8},
            .tf32 = 156.0_TFLOPS,
            .fp16 = 78.0_TFLOPS,
            .winograd = 1.6,
            .multiprocessors = 108,
            .copy_engines = 5};
}
[[nodiscard]] constexpr GpuSpec a100_80gb() {
    using namespace gx::literals;
    GpuSpec g = a100_40gb();
    g.name = "A100-SXM4-80GB";
    g.memory = 80_GB;
    g.memory_bandwidth = 2'039_GBps;
    return g;
}
[[nodiscard]] constexpr GpuSpec a100_pcie_40gb() {
    GpuSpec g = a100_40gb();
    g.name = "A100-PCIe-40GB";
    return g;
}
/// The same peaks under a limit of 300 W, which long products do not reach.
[[nodiscard]] constexpr GpuSpec a100_pcie_80gb() {
    using namespace gx::literals;
    GpuSpec g = a100_80gb();
    g.name = "A100-PCIe-80GB";
    g.memory_bandwidth = 1'935_GBps;
    return g;
}

/// Only mixed precision is set on a published rate; fp32 and TF32 are A100's shares.
[[nodiscard]] constexpr GpuSpec h100() {
    using namespace gx::literals;
    return {.name = "H100-SXM5-80GB",
            .fp32 = 66.9_TFLOPS,
            .tensor_fp16 = 989.4_TFLOPS,
            .memory = 80_GB,
            .memory_bandwidth = 3'350_GBps,
            .launch = 6_us,
            .efficiency_fp32 = {.convolution = 0.9, .linear = 0.95, .memory = 0.9},
            .efficiency_mixed = {.convolution = 0.7, .linear = 0.6, .memory = 0.9},
            .efficiency_tf32 = {.convolution = 0.36, .linear = 0.9, .memory = 0.9},
            .tf32 = 494.7_TFLOPS,
            .fp16 = 133.8_TFLOPS,
            .winograd = 1.6,
            .multiprocessors = 132,
            .copy_engines = 5};
}
[[nodiscard]] constexpr GpuSpec h100_pcie() {
    using namespace gx::literals;
    GpuSpec g = h100();
    g.name = "H100-PCIe-80GB";
    g.fp32 = 51.2_TFLOPS;
    g.tensor_fp16 = 756.0_TFLOPS;
    g.tf32 = 378.0_TFLOPS;
    g.fp16 = 102.4_TFLOPS;
    g.memory_bandwidth = 2'000_GBps;
    g.multiprocessors = 114;
    return g;
}
[[nodiscard]] constexpr GpuSpec h200() {
    using namespace gx::literals;
    GpuSpec g = h100();
    g.name = "H200-SXM5-141GB";
    g.memory = 141_GB;
    g.memory_bandwidth = 4'800_GBps;
    return g;
}

}  // namespace gx::sim
