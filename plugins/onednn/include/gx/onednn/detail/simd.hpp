// simd: kernels written once on vectors of channels, compiled for the CPU's widest registers.
#pragma once

#include <cstdint>  // int32_t, uint16_t

#include <gx/core/cold.hpp>  // GX_COLD

#if defined(__clang__) || defined(__GNUC__)
#define GX_ONEDNN_INLINE [[gnu::always_inline]] inline
#else
#error "gx::onednn needs a compiler with GNU vector types"
#endif

#if defined(__x86_64__)
#define GX_ONEDNN_PLAIN GX_COLD  // only CPUs without AVX2 take it
#else
#define GX_ONEDNN_PLAIN
#endif

namespace gx::onednn::detail {

/// `lanes` floats in one register, or in several where the CPU has shorter ones. Loads and stores
/// through a pointer to it need no alignment beyond a float's.
template <int lanes>
struct Vector;
template <>
struct Vector<16> {
    typedef float type __attribute__((vector_size(64), aligned(4), may_alias));
    typedef std::int32_t integers __attribute__((vector_size(64), aligned(4), may_alias));
    typedef std::uint16_t halves __attribute__((vector_size(32), aligned(2), may_alias));
    typedef double doubles __attribute__((vector_size(128), aligned(8), may_alias));
};
template <>
struct Vector<8> {
    typedef float type __attribute__((vector_size(32), aligned(4), may_alias));
    typedef std::int32_t integers __attribute__((vector_size(32), aligned(4), may_alias));
    typedef std::uint16_t halves __attribute__((vector_size(16), aligned(2), may_alias));
    typedef double doubles __attribute__((vector_size(64), aligned(8), may_alias));
};

/// to[c] += from[c] for each of `lanes` channels, in double.
template <int lanes>
GX_ONEDNN_INLINE void add_in_double(const typename Vector<lanes>::type& from, double* to) {
    using D = typename Vector<lanes>::doubles;
    *reinterpret_cast<D*>(to) += __builtin_convertvector(from, D);
}

/// Keeps the compiler from joining what made x with what uses it. Of two choices, one after the
/// other, g++ 12 makes one by the AND of their comparisons, and compares number by number for it.
template <int lanes>
GX_ONEDNN_INLINE void forget([[maybe_unused]] typename Vector<lanes>::type& x) {
#if defined(__x86_64__) && !defined(__clang__)
    if constexpr (lanes == 16) asm("" : "+v"(x));
#endif
}

/// A kernel is a struct with `template <int B> static GX_ONEDNN_INLINE void run(const Args&)`; it
/// is inlined below into a function of each instruction set.
namespace isa {
#if defined(__x86_64__)
template <class Kernel, class Args>
[[gnu::target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma"), gnu::noinline]] void wide(
    const Args& a) {
    Kernel::template run<16>(a);
}
template <class Kernel, class Args>
[[gnu::target("avx2,fma"), gnu::noinline]] void middle(const Args& a) {
    Kernel::template run<8>(a);
}
#endif
template <class Kernel, class Args>
GX_ONEDNN_PLAIN [[gnu::noinline]] void plain(const Args& a) {
    Kernel::template run<8>(a);
}
}  // namespace isa

/// Channels in a block: 16 with AVX-512, else 8; the layouts that oneDNN's kernels want.
[[nodiscard]] inline int cpu_block() {
#if defined(__x86_64__)
    static const bool wide =
        __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
    return wide ? 16 : 8;
#else
    return 8;
#endif
}

/// A kernel on numbers of 2 bytes, which it names as its `number`: only CPUs that have AVX-512 run
/// one, since the device refuses bf16 on others.
template <class Kernel>
concept OnHalves = requires { requires sizeof(typename Kernel::number) == 2; };

/// Runs a kernel as the CPU can.
/// Order: one CPU always takes the same path, so equal inputs give equal bits.
template <class Kernel, class Args>
void run_kernel(const Args& a) {
#if defined(__x86_64__)
    if constexpr (OnHalves<Kernel>) {
        isa::wide<Kernel>(a);
    } else {
        static const bool middle = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
        if (cpu_block() == 16) return isa::wide<Kernel>(a);
        if (middle) return isa::middle<Kernel>(a);
        isa::plain<Kernel>(a);
    }
#else
    isa::plain<Kernel>(a);
#endif
}

}  // namespace gx::onednn::detail
