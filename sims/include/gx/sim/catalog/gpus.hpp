// GPUs of the catalog, K80 to H200: data-sheet peaks and the fraction that kernels achieve.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <gx/sim/hardware/gpu.hpp>  // GpuSpec

namespace gx::sim {

/// What the GPUs of a generation share: efficiencies of kernels, launch time, copy engines.
///
/// Source: efficiencies: set on published rates of one GPU, a set for each precision and generation
///         and none for a single case; `gx_calibrate` prints the rates and what is left over. They
///         are not measured kernel by kernel. 92 of the 96 rates are of K80, P100 and V100; Ampere
///         rests on 3 rates of A100, Hopper on none that reference/published holds: its fp32 and
///         TF32 are Ampere's.
///         Launch: what a kernel costs beyond its work: from one kernel to the next, and the time
///         in which it fills and drains the GPU. Kepler to Volta: set on rates of ResNet-50 at
///         batches of 1 to 128. Volta to Hopper: on what MLPerf's rates lose where the batch of a
///         GPU falls from 208, 408 and 400 to 52, 204 and 50, with 5 to 10 % of those steps left
///         to the network; Hopper's entries replay graphs of kernels.
struct GpuGeneration {
    Nanoseconds launch{};
    Efficiency fp32{}, mixed{}, tf32{};  ///< (convolution, linear, memory)
    double winograd = 1;
    int copy_engines = 2;
};
namespace generation {
using namespace gx::literals;
inline constexpr GpuGeneration kepler{40_us, {0.40, 0.6, 0.55}, {0.40, 0.6, 0.55}, {}, 1.7};
inline constexpr GpuGeneration pascal{40_us, {0.8, 0.7, 0.75}, {0.6, 0.6, 0.75}, {}, 2.2};
inline constexpr GpuGeneration volta{20_us, {0.9, 0.95, 0.8}, {0.8, 0.48, 0.75}, {}, 1.6};
inline constexpr GpuGeneration ampere{
    15_us, {0.9, 0.95, 0.8}, {0.77, 0.6, 0.8}, {0.36, 0.95, 0.8}, 1.6, 5};
inline constexpr GpuGeneration hopper{
    6_us, {0.9, 0.95, 0.9}, {0.7, 0.6, 0.9}, {0.36, 0.9, 0.9}, 1.6, 5};
}  // namespace generation

/// A row of a table of GPUs, in a data sheet's units: TFLOP/s, 10^9 bytes, GB/s. A peak of 0 is one
/// that the GPU does not have, as GpuSpec says; tensor peaks are dense and sum in fp32.
struct GpuRow {
    std::string_view name;
    const GpuGeneration& generation;
    double fp32, tensor_fp16, fp16, tf32;
    std::int64_t memory_gb;
    double memory_gb_per_s;
    int multiprocessors;

    [[nodiscard]] constexpr GpuSpec spec() const {
        return {.name = name,
                .fp32 = {fp32 * 1e12},
                .tensor_fp16 = {tensor_fp16 * 1e12},
                .memory = {memory_gb * 1'000'000'000},
                .memory_bandwidth = {memory_gb_per_s * 1e9},
                .launch = generation.launch,
                .efficiency_fp32 = generation.fp32,
                .efficiency_mixed = generation.mixed,
                .efficiency_tf32 = generation.tf32,
                .tf32 = {tf32 * 1e12},
                .fp16 = {fp16 * 1e12},
                .winograd = generation.winograd,
                .multiprocessors = multiprocessors,
                .copy_engines = generation.copy_engines};
    }
};

/// The plain form of a family stands before its others.
///
/// K80 is a half of the board, which carries two GK210, as clouds and frameworks count it; its peak
/// is at the boost clock of 875 MHz, at which p2 machines run. P40, GTX 1080 Ti and Titan X have no
/// fast fp16 (1/64 of fp32): mixed precision only saves them memory. V100-SXM3-32GB: of a DGX-2,
/// 2 PFLOPS over 16 GPUs, memory at 958 MHz; -H: of a DGX-2H, at 450 W in place of 350 W, 2.1
/// PFLOPS over 16. A100-PCIe-80GB: the same peaks under a limit of 300 W, which long products do
/// not reach.
///
/// Source: NVIDIA data sheets (Tesla K80, Tesla P100, P40, V100, A100, H100, H200), the Pascal,
///         Volta, Ampere and Hopper architecture white papers for multiprocessors and peaks beside
///         the tensor cores.
// clang-format off
inline constexpr std::array<GpuRow, 20> calibrated_gpus{{
//   name                generation            fp32  tensor    fp16    tf32  memory GB/s   SMs
    {"K80",              generation::kepler,   4.37,   4.37,      0,      0,   12,    240,   13},
    {"P100-SXM2-16GB",   generation::pascal,   10.6,   21.2,      0,      0,   16,    732,   56},
    {"P100-PCIe-16GB",   generation::pascal,    9.3,   18.7,      0,      0,   16,    732,   56},
    {"P40",              generation::pascal,  11.76,  11.76,      0,      0,   24,    346,   30},
    {"GTX-1080-Ti",      generation::pascal,  11.34,  11.34,      0,      0,   11,    484,   28},
    {"Titan-X-Pascal",   generation::pascal,  10.97,  10.97,      0,      0,   12,    480,   28},
    {"V100-SXM2-16GB",   generation::volta,    15.7,    125,   31.4,      0,   16,    900,   80},
    {"V100-SXM2-32GB",   generation::volta,    15.7,    125,   31.4,      0,   32,    900,   80},
    {"V100-PCIe-16GB",   generation::volta,      14,    112,     28,      0,   16,    900,   80},
    {"V100-SXM3-32GB",   generation::volta,    15.7,    125,   31.4,      0,   32,    981,   80},
    {"V100-PCIe-32GB",   generation::volta,      14,    112,     28,      0,   32,    900,   80},
    {"P100-PCIe-12GB",   generation::pascal,    9.3,   18.7,      0,      0,   12,    549,   56},
    {"V100-SXM3-32GB-H", generation::volta,    16.4,    131,   32.8,      0,   32,    981,   80},
    {"A100-SXM4-40GB",   generation::ampere,   19.5,    312,     78,    156,   40,  1'555,  108},
    {"A100-SXM4-80GB",   generation::ampere,   19.5,    312,     78,    156,   80,  2'039,  108},
    {"A100-PCIe-40GB",   generation::ampere,   19.5,    312,     78,    156,   40,  1'555,  108},
    {"A100-PCIe-80GB",   generation::ampere,   19.5,    312,     78,    156,   80,  1'935,  108},
    {"H100-SXM5-80GB",   generation::hopper,   66.9,  989.4,  133.8,  494.7,   80,  3'350,  132},
    {"H100-PCIe-80GB",   generation::hopper,   51.2,    756,  102.4,    378,   80,  2'000,  114},
    {"H200-SXM5-141GB",  generation::hopper,   66.9,  989.4,  133.8,  494.7,  141,  4'800,  132}}};
// clang-format on

namespace detail::gpus {
/// The row of this name; it is there, or the program does not compile.
template <std::size_t n>
consteval GpuSpec named(const std::array<GpuRow, n>& rows, std::string_view name) {
    for (const GpuRow& row : rows)
        if (row.name == name) return row.spec();
    throw "no GPU of this name in the table";
}
consteval GpuSpec calibrated(std::string_view name) { return named(calibrated_gpus, name); }
}  // namespace detail::gpus

/// Rows that machines and tests name most, as values.
[[nodiscard]] constexpr GpuSpec k80() { return detail::gpus::calibrated("K80"); }
[[nodiscard]] constexpr GpuSpec p100() { return detail::gpus::calibrated("P100-SXM2-16GB"); }
[[nodiscard]] constexpr GpuSpec p100_pcie() { return detail::gpus::calibrated("P100-PCIe-16GB"); }
[[nodiscard]] constexpr GpuSpec p40() { return detail::gpus::calibrated("P40"); }
[[nodiscard]] constexpr GpuSpec gtx_1080_ti() { return detail::gpus::calibrated("GTX-1080-Ti"); }
[[nodiscard]] constexpr GpuSpec v100() { return detail::gpus::calibrated("V100-SXM2-16GB"); }
[[nodiscard]] constexpr GpuSpec v100_32gb() { return detail::gpus::calibrated("V100-SXM2-32GB"); }
[[nodiscard]] constexpr GpuSpec v100_pcie() { return detail::gpus::calibrated("V100-PCIe-16GB"); }
[[nodiscard]] constexpr GpuSpec v100_sxm3() { return detail::gpus::calibrated("V100-SXM3-32GB"); }
[[nodiscard]] constexpr GpuSpec a100_40gb() { return detail::gpus::calibrated("A100-SXM4-40GB"); }
[[nodiscard]] constexpr GpuSpec a100_80gb() { return detail::gpus::calibrated("A100-SXM4-80GB"); }
[[nodiscard]] constexpr GpuSpec a100_pcie_40gb() {
    return detail::gpus::calibrated("A100-PCIe-40GB");
}
[[nodiscard]] constexpr GpuSpec a100_pcie_80gb() {
    return detail::gpus::calibrated("A100-PCIe-80GB");
}
[[nodiscard]] constexpr GpuSpec h100() { return detail::gpus::calibrated("H100-SXM5-80GB"); }
[[nodiscard]] constexpr GpuSpec h200() { return detail::gpus::calibrated("H200-SXM5-141GB"); }

}  // namespace gx::sim
