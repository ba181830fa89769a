// GPUs known from their data sheets alone: Kepler to Blackwell boards beside those of gpus.hpp.
#pragma once

#include <gx/sim/gpus.hpp>  // those that shares are taken from

namespace gx::sim {

/// Source: NVIDIA's data sheets and architecture white papers; tensor peaks are dense and sum in
///         fp32. No published rate of these was fitted: what kernels reach of the peaks is as of
///         the board named in each.
///
/// Kepler boards of one GPU, at their boost clocks; shares as of K80's.
[[nodiscard]] constexpr GpuSpec k20x() {
    using namespace gx::literals;
    GpuSpec g = k80();
    g.name = "K20X";
    g.fp32 = 3.94_TFLOPS;
    g.tensor_fp16 = 3.94_TFLOPS;
    g.memory = 6_GB;
    g.memory_bandwidth = 250_GBps;
    g.multiprocessors = 14;
    return g;
}
[[nodiscard]] constexpr GpuSpec k40() {
    using namespace gx::literals;
    GpuSpec g = k80();
    g.name = "K40";
    g.fp32 = 5.04_TFLOPS;
    g.tensor_fp16 = 5.04_TFLOPS;
    g.memory = 12_GB;
    g.memory_bandwidth = 288_GBps;
    g.multiprocessors = 15;
    return g;
}

/// Maxwell boards; shares as of Pascal. M60: a half of the board.
[[nodiscard]] constexpr GpuSpec m40() {
    using namespace gx::literals;
    GpuSpec g = p40();
    g.name = "M40";
    g.fp32 = 7.0_TFLOPS;
    g.tensor_fp16 = 7.0_TFLOPS;
    g.memory = 12_GB;
    g.memory_bandwidth = 288_GBps;
    g.multiprocessors = 24;
    return g;
}
[[nodiscard]] constexpr GpuSpec m60() {
    using namespace gx::literals;
    GpuSpec g = p40();
    g.name = "M60";
    g.fp32 = 4.83_TFLOPS;
    g.tensor_fp16 = 4.83_TFLOPS;
    g.memory = 8_GB;
    g.memory_bandwidth = 160_GBps;
    g.multiprocessors = 16;
    return g;
}
[[nodiscard]] constexpr GpuSpec titan_x_maxwell() {
    using namespace gx::literals;
    GpuSpec g = p40();
    g.name = "Titan-X-Maxwell";
    g.fp32 = 6.69_TFLOPS;
    g.tensor_fp16 = 6.69_TFLOPS;
    g.memory = 12_GB;
    g.memory_bandwidth = 336_GBps;
    g.multiprocessors = 24;
    return g;
}
[[nodiscard]] constexpr GpuSpec gtx_980_ti() {
    using namespace gx::literals;
    GpuSpec g = p40();
    g.name = "GTX-980-Ti";
    g.fp32 = 6.06_TFLOPS;
    g.tensor_fp16 = 6.06_TFLOPS;
    g.memory = 6_GB;
    g.memory_bandwidth = 336_GBps;
    g.multiprocessors = 22;
    return g;
}
[[nodiscard]] constexpr GpuSpec gtx_1080() {
    using namespace gx::literals;
    GpuSpec g = p40();
    g.name = "GTX-1080";
    g.fp32 = 8.87_TFLOPS;
    g.tensor_fp16 = 8.87_TFLOPS;
    g.memory = 8_GB;
    g.memory_bandwidth = 320_GBps;
    g.multiprocessors = 20;
    return g;
}
[[nodiscard]] constexpr GpuSpec titan_xp() {
    using namespace gx::literals;
    GpuSpec g = p40();
    g.name = "Titan-Xp";
    g.fp32 = 12.15_TFLOPS;
    g.tensor_fp16 = 12.15_TFLOPS;
    g.memory = 12_GB;
    g.memory_bandwidth = 547_GBps;
    g.multiprocessors = 30;
    return g;
}

/// Volta on PCIe, and Turing; shares as of V100.
[[nodiscard]] constexpr GpuSpec titan_v() {
    using namespace gx::literals;
    GpuSpec g = v100_pcie();
    g.name = "Titan-V";
    g.fp32 = 14.9_TFLOPS;
    g.tensor_fp16 = 119.0_TFLOPS;
    g.fp16 = 29.8_TFLOPS;
    g.memory = 12_GB;
    g.memory_bandwidth = 653_GBps;
    return g;
}
[[nodiscard]] constexpr GpuSpec v100s() {
    using namespace gx::literals;
    GpuSpec g = v100_pcie();
    g.name = "V100S-PCIe-32GB";
    g.fp32 = 16.4_TFLOPS;
    g.tensor_fp16 = 130.0_TFLOPS;
    g.fp16 = 32.8_TFLOPS;
    g.memory = 32_GB;
    g.memory_bandwidth = 1'134_GBps;
    return g;
}
[[nodiscard]] constexpr GpuSpec t4() {
    using namespace gx::literals;
    GpuSpec g = v100_pcie();
    g.name = "T4";
    g.fp32 = 8.1_TFLOPS;
    g.tensor_fp16 = 65.0_TFLOPS;
    g.fp16 = 16.2_TFLOPS;
    g.memory = 16_GB;
    g.memory_bandwidth = 320_GBps;
    g.multiprocessors = 40;
    return g;
}
[[nodiscard]] constexpr GpuSpec rtx_2080_ti() {
    using namespace gx::literals;
    GpuSpec g = v100_pcie();
    g.name = "RTX-2080-Ti";
    g.fp32 = 13.45_TFLOPS;
    g.tensor_fp16 = 53.8_TFLOPS;
    g.fp16 = 26.9_TFLOPS;
    g.memory = 11_GB;
    g.memory_bandwidth = 616_GBps;
    g.multiprocessors = 68;
    return g;
}

/// Ampere and Ada boards on PCIe 4; shares as of A100. Peaks of products summed in fp32.
[[nodiscard]] constexpr GpuSpec rtx_3090() {
    using namespace gx::literals;
    GpuSpec g = a100_pcie_40gb();
    g.name = "RTX-3090";
    g.fp32 = 35.6_TFLOPS;
    g.tensor_fp16 = 71.0_TFLOPS;
    g.tf32 = 35.6_TFLOPS;
    g.fp16 = 35.6_TFLOPS;
    g.memory = 24_GB;
    g.memory_bandwidth = 936_GBps;
    g.multiprocessors = 82;
    return g;
}
[[nodiscard]] constexpr GpuSpec rtx_a6000() {
    using namespace gx::literals;
    GpuSpec g = a100_pcie_40gb();
    g.name = "RTX-A6000";
    g.fp32 = 38.7_TFLOPS;
    g.tensor_fp16 = 154.8_TFLOPS;
    g.tf32 = 77.4_TFLOPS;
    g.fp16 = 38.7_TFLOPS;
    g.memory = 48_GB;
    g.memory_bandwidth = 768_GBps;
    g.multiprocessors = 84;
    return g;
}
[[nodiscard]] constexpr GpuSpec a10g() {
    using namespace gx::literals;
    GpuSpec g = a100_pcie_40gb();
    g.name = "A10G";
    g.fp32 = 35.0_TFLOPS;
    g.tensor_fp16 = 70.0_TFLOPS;
    g.tf32 = 35.0_TFLOPS;
    g.fp16 = 35.0_TFLOPS;
    g.memory = 24_GB;
    g.memory_bandwidth = 600_GBps;
    g.multiprocessors = 80;
    return g;
}
[[nodiscard]] constexpr GpuSpec a30() {
    using namespace gx::literals;
    GpuSpec g = a100_pcie_40gb();
    g.name = "A30";
    g.fp32 = 10.3_TFLOPS;
    g.tensor_fp16 = 165.0_TFLOPS;
    g.tf32 = 82.0_TFLOPS;
    g.fp16 = 41.2_TFLOPS;
    g.memory = 24_GB;
    g.memory_bandwidth = 933_GBps;
    g.multiprocessors = 56;
    return g;
}
[[nodiscard]] constexpr GpuSpec a40() {
    using namespace gx::literals;
    GpuSpec g = a100_pcie_40gb();
    g.name = "A40";
    g.fp32 = 37.4_TFLOPS;
    g.tensor_fp16 = 149.7_TFLOPS;
    g.tf32 = 74.8_TFLOPS;
    g.fp16 = 37.4_TFLOPS;
    g.memory = 48_GB;
    g.memory_bandwidth = 696_GBps;
    g.multiprocessors = 84;
    return g;
}
[[nodiscard]] constexpr GpuSpec l4() {
    using namespace gx::literals;
    GpuSpec g = a100_pcie_40gb();
    g.name = "L4";
    g.fp32 = 30.3_TFLOPS;
    g.tensor_fp16 = 121.0_TFLOPS;
    g.tf32 = 60.5_TFLOPS;
    g.fp16 = 30.3_TFLOPS;
    g.memory = 24_GB;
    g.memory_bandwidth = 300_GBps;
    g.multiprocessors = 58;
    return g;
}
[[nodiscard]] constexpr GpuSpec l40s() {
    using namespace gx::literals;
    GpuSpec g = a100_pcie_40gb();
    g.name = "L40S";
    g.fp32 = 91.6_TFLOPS;
    g.tensor_fp16 = 362.0_TFLOPS;
    g.tf32 = 183.0_TFLOPS;
    g.fp16 = 91.6_TFLOPS;
    g.memory = 48_GB;
    g.memory_bandwidth = 864_GBps;
    g.multiprocessors = 142;
    return g;
}

/// A100 and H100 with NVLink at 400 GB/s; B200's shares are H100's.
[[nodiscard]] constexpr GpuSpec a800() {
    using namespace gx::literals;
    GpuSpec g = a100_80gb();
    g.name = "A800-SXM4-80GB";
    return g;
}
[[nodiscard]] constexpr GpuSpec h800() {
    using namespace gx::literals;
    GpuSpec g = h100();
    g.name = "H800-SXM5-80GB";
    return g;
}
[[nodiscard]] constexpr GpuSpec b200() {
    using namespace gx::literals;
    GpuSpec g = h100();
    g.name = "B200-SXM-180GB";
    g.fp32 = 75.0_TFLOPS;
    g.tensor_fp16 = 2'250.0_TFLOPS;
    g.tf32 = 1'125.0_TFLOPS;
    g.fp16 = 150.0_TFLOPS;
    g.memory = 180_GB;
    g.memory_bandwidth = 8'000_GBps;
    g.multiprocessors = 148;
    return g;
}

}  // namespace gx::sim
