// cpu_bf16: how a CPU computes in bf16, whether the device uses it, and advice.
#pragma once

#include <oneapi/dnnl/dnnl.h>  // dnnl_get_effective_cpu_isa

#include <string>  // sentences

#include <gx/core/cold.hpp>   // GX_COLD
#include <gx/core/error.hpp>  // Error

namespace gx::onednn::detail {

/// Instructions for products of bf16, as oneDNN may use them.
enum class Bf16Unit : unsigned char {
    none,
    dot_products,  ///< AVX512-BF16: of pairs, in vector registers
    tiles          ///< AMX: of matrices
};

struct CpuBf16 {
    Bf16Unit unit = Bf16Unit::none;
    bool intel = false;
};

/// This CPU, within ONEDNN_MAX_CPU_ISA.
GX_COLD [[nodiscard]] inline CpuBf16 cpu_bf16() {
    const auto has = [isa = dnnl_get_effective_cpu_isa()](dnnl_cpu_isa_t level) {
        return (isa & level) == level;
    };
    CpuBf16 cpu;
    if (has(dnnl_cpu_isa_avx512_core_bf16)) cpu.unit = Bf16Unit::dot_products;
    if (has(dnnl_cpu_isa_avx512_core_amx)) cpu.unit = Bf16Unit::tiles;
#if defined(__x86_64__)
    cpu.intel = __builtin_cpu_is("intel");
#endif
    return cpu;
}

/// Errors: Error on a CPU without instructions for bf16, which would be slower than fp32 there.
GX_COLD inline void expect_bf16(const CpuBf16& cpu) {
    if (cpu.unit != Bf16Unit::none) return;
    throw Error(
        "gx::onednn: Compute<bf16> needs a CPU with AVX512-BF16 or AMX, and this one has neither, "
        "or ONEDNN_MAX_CPU_ISA hides them. Fix: compute in fp32, which is faster here, or train "
        "on gx::reference::Device, which emulates bf16 and is slow");
}

/// What a user of bf16 on `cpu` should know; empty if it is faster than fp32.
/// Source: measured on a Xeon with AMX, without its tiles: 118 GFLOP/s a core by VDPBF16PS, 238 by
///         fp32 multiply-adds. Zen 4 has 234 and 117.
GX_COLD [[nodiscard]] inline std::string bf16_advice(const CpuBf16& cpu) {
    if (cpu.unit != Bf16Unit::dot_products || !cpu.intel) return {};
    return "an Intel CPU without AMX computes bf16 at half the rate of fp32: bf16 shows what it "
           "does to accuracy, and fp32 is faster here";
}

}  // namespace gx::onednn::detail
