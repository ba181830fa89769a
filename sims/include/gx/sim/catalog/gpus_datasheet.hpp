// GPUs known from their data sheets alone: Kepler to Blackwell boards beside those of gpus.hpp.
#pragma once

#include <array>

#include <gx/sim/catalog/gpus.hpp>  // GpuRow, named

namespace gx::sim {

/// No published rate of these was fitted: what kernels reach of the peaks is as of the generation
/// named in each, Kepler boards at their boost clocks, Maxwell as Pascal, Turing as Volta, Ada as
/// Ampere, Blackwell as Hopper. M60 is a half of the board. A800 and H800: NVLink at 400 GB/s.
/// Source: NVIDIA's data sheets and architecture white papers; tensor peaks are dense and sum in
///         fp32.
// clang-format off
inline constexpr std::array<GpuRow, 22> data_sheet_gpus{{
//   name                generation            fp32  tensor    fp16    tf32  memory GB/s   SMs
    {"K20X",             generation::kepler,   3.94,   3.94,      0,      0,    6,    250,   14},
    {"K40",              generation::kepler,   5.04,   5.04,      0,      0,   12,    288,   15},
    {"M40",              generation::pascal,      7,      7,      0,      0,   12,    288,   24},
    {"M60",              generation::pascal,   4.83,   4.83,      0,      0,    8,    160,   16},
    {"Titan-X-Maxwell",  generation::pascal,   6.69,   6.69,      0,      0,   12,    336,   24},
    {"GTX-980-Ti",       generation::pascal,   6.06,   6.06,      0,      0,    6,    336,   22},
    {"GTX-1080",         generation::pascal,   8.87,   8.87,      0,      0,    8,    320,   20},
    {"Titan-Xp",         generation::pascal,  12.15,  12.15,      0,      0,   12,    547,   30},
    {"Titan-V",          generation::volta,    14.9,    119,   29.8,      0,   12,    653,   80},
    {"V100S-PCIe-32GB",  generation::volta,    16.4,    130,   32.8,      0,   32,  1'134,   80},
    {"T4",               generation::volta,     8.1,     65,   16.2,      0,   16,    320,   40},
    {"RTX-2080-Ti",      generation::volta,   13.45,   53.8,   26.9,      0,   11,    616,   68},
    {"RTX-3090",         generation::ampere,   35.6,     71,   35.6,   35.6,   24,    936,   82},
    {"RTX-A6000",        generation::ampere,   38.7,  154.8,   38.7,   77.4,   48,    768,   84},
    {"A10G",             generation::ampere,     35,     70,     35,     35,   24,    600,   80},
    {"A30",              generation::ampere,   10.3,    165,   41.2,     82,   24,    933,   56},
    {"A40",              generation::ampere,   37.4,  149.7,   37.4,   74.8,   48,    696,   84},
    {"L4",               generation::ampere,   30.3,    121,   30.3,   60.5,   24,    300,   58},
    {"L40S",             generation::ampere,   91.6,    362,   91.6,    183,   48,    864,  142},
    {"A800-SXM4-80GB",   generation::ampere,   19.5,    312,     78,    156,   80,  2'039,  108},
    {"H800-SXM5-80GB",   generation::hopper,   66.9,  989.4,  133.8,  494.7,   80,  3'350,  132},
    {"B200-SXM-180GB",   generation::hopper,     75,  2'250,    150,  1'125,  180,  8'000,  148}}};
// clang-format on

/// Rows that machines name, as values.
[[nodiscard]] constexpr GpuSpec t4() { return detail::gpus::named(data_sheet_gpus, "T4"); }
[[nodiscard]] constexpr GpuSpec a10g() { return detail::gpus::named(data_sheet_gpus, "A10G"); }
[[nodiscard]] constexpr GpuSpec l4() { return detail::gpus::named(data_sheet_gpus, "L4"); }

}  // namespace gx::sim
