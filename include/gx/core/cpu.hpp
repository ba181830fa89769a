// Simd: vector instruction sets of this processor, detected at run time.
#pragma once

#include <string_view>  // names

namespace gx {

/// Vector instruction sets; each level includes those before it.
enum class Simd : unsigned char {
    portable,    ///< plain C++, whatever the compiler makes of it
    avx2,        ///< AVX2 and F16C: x86 processors since 2013
    avx512,      ///< AVX-512 Foundation
    avx512_bf16  ///< with BW and DQ, and conversions to bf16: Xeons with AMX, Zen 4
};

[[nodiscard]] constexpr std::string_view to_string(Simd simd) {
    constexpr std::string_view names[] = {"portable", "avx2+f16c", "avx512", "avx512+bf16"};
    return names[static_cast<unsigned>(simd)];
}

/// Whether this processor and its operating system support `simd`.
[[nodiscard]] inline bool supported(Simd simd) {
#if defined(__x86_64__) && defined(__GNUC__)
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
    if (simd == Simd::avx2) return avx2;
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f");
    if (simd == Simd::avx512) return avx512;
    if (simd == Simd::avx512_bf16)
        return avx512 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512bf16");
#endif
    return simd == Simd::portable;
}

/// The highest supported level, detected once.
[[nodiscard]] inline Simd best_simd() {
    static const Simd best = [] {
        for (const Simd simd : {Simd::avx512_bf16, Simd::avx512, Simd::avx2})
            if (supported(simd)) return simd;
        return Simd::portable;
    }();
    return best;
}

}  // namespace gx
