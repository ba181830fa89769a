// The loops of convert.hpp in AVX2 with F16C, and in AVX-512; include convert.hpp instead.
#pragma once

#include <bit>      // bit_cast
#include <cstddef>  // size_t
#include <cstdint>  // uint32_t

#include <gx/core/element.hpp>  // fp16, bf16

namespace gx::detail::convert {

/// What happens between load and store: nothing, times a factor, or plus what is there.
enum class Combining : unsigned char { copy, scale, add };

/// mine + x; of two NaNs mine, made quiet. By its bits: a compiler may take one NaN for another.
[[nodiscard]] constexpr float sum_of(float mine, float x) {
    if (mine != mine) return std::bit_cast<float>(std::bit_cast<std::uint32_t>(mine) | 0x400000u);
    return mine + x;
}

}  // namespace gx::detail::convert

#if defined(__x86_64__) && defined(__GNUC__)

// On the compiler's own vector types: <immintrin.h> would be a third of the text that a program
// parses for gx. Each loop carries its instruction set, so programs need no -march flag and still
// run where the instructions are missing. Overloads on the element take it as a tag, for type
// deduction; vectors go by reference, since by value they would be a matter of the ABI.
#define GX_INLINE __attribute__((always_inline)) inline
#define GX_AVX2 __attribute__((target("avx2,f16c")))
#define GX_AVX512 __attribute__((target("avx512f")))

namespace gx::detail::convert {

/// `width` numbers in registers; stored_... as they lie in memory, at any address, pairs of halves
/// two to a lane.
template <int width>
struct Pack;
template <>
struct Pack<8> {
    typedef float floats __attribute__((vector_size(32)));
    typedef std::uint32_t words __attribute__((vector_size(32)));
    typedef int integers __attribute__((vector_size(32)));
    typedef short halves __attribute__((vector_size(16)));
    typedef float stored_floats __attribute__((vector_size(32), aligned(4), may_alias));
    typedef std::uint16_t stored_halves __attribute__((vector_size(16), aligned(2), may_alias));
    typedef std::uint16_t stored_pairs __attribute__((vector_size(32), aligned(2), may_alias));
};
template <>
struct Pack<16> {
    typedef float floats __attribute__((vector_size(64)));
    typedef std::uint32_t words __attribute__((vector_size(64)));
    typedef int integers __attribute__((vector_size(64)));
    typedef short halves __attribute__((vector_size(32)));
    typedef float stored_floats __attribute__((vector_size(64), aligned(4), may_alias));
    typedef std::uint16_t stored_halves __attribute__((vector_size(32), aligned(2), may_alias));
    typedef std::uint16_t stored_pairs __attribute__((vector_size(64), aligned(2), may_alias));
};
using Floats8 = Pack<8>::floats;
using Floats16 = Pack<16>::floats;
inline constexpr std::uint16_t every_lane = 0xffff;  // as a mask

// Halves to the lower ends of words, and back. g++ 12 has one instruction for it, but not behind
// __builtin_convertvector, which clang does better.
#if defined(__clang__)
GX_INLINE void widen(const Pack<8>::stored_halves& halves, Pack<8>::words& words) {
    words = __builtin_convertvector(halves, Pack<8>::words);
}
GX_INLINE void widen(const Pack<16>::stored_halves& halves, Pack<16>::words& words) {
    words = __builtin_convertvector(halves, Pack<16>::words);
}
GX_INLINE void narrow(const Pack<16>::words& words, Pack<16>::stored_halves& halves) {
    halves = __builtin_convertvector(words, Pack<16>::stored_halves);
}
#else
GX_AVX2 GX_INLINE void widen(const Pack<8>::stored_halves& halves, Pack<8>::words& words) {
    words = reinterpret_cast<Pack<8>::words>(
        __builtin_ia32_pmovzxwd256(reinterpret_cast<Pack<8>::halves>(halves)));
}
GX_AVX512 GX_INLINE void widen(const Pack<16>::stored_halves& halves, Pack<16>::words& words) {
    words = reinterpret_cast<Pack<16>::words>(__builtin_ia32_pmovzxwd512_mask(
        reinterpret_cast<Pack<16>::halves>(halves), Pack<16>::integers{}, every_lane));
}
GX_AVX512 GX_INLINE void narrow(const Pack<16>::words& words, Pack<16>::stored_halves& halves) {
    halves = reinterpret_cast<Pack<16>::stored_halves>(__builtin_ia32_pmovdw512_mask(
        reinterpret_cast<Pack<16>::integers>(words), Pack<16>::halves{}, every_lane));
}
#endif
GX_AVX2 GX_INLINE void narrow(const Pack<8>::words& words, Pack<8>::stored_halves& halves) {
    const auto w = reinterpret_cast<Pack<8>::integers>(words);
    halves = reinterpret_cast<Pack<8>::stored_halves>(__builtin_ia32_packusdw128(
        __builtin_shufflevector(w, w, 0, 1, 2, 3), __builtin_shufflevector(w, w, 4, 5, 6, 7)));
}

template <class V>
GX_INLINE void load(fp32, const float* from, V& x) {
    x = *reinterpret_cast<const typename Pack<sizeof(V) / 4>::stored_floats*>(from);
}
GX_AVX2 GX_INLINE void load(fp16, const fp16::storage* from, Floats8& x) {
    const Pack<8>::stored_halves halves = *reinterpret_cast<const Pack<8>::stored_halves*>(from);
    x = __builtin_ia32_vcvtph2ps256(reinterpret_cast<Pack<8>::halves>(halves));
}
GX_AVX512 GX_INLINE void load(fp16, const fp16::storage* from, Floats16& x) {
    const Pack<16>::stored_halves halves = *reinterpret_cast<const Pack<16>::stored_halves*>(from);
    x = __builtin_ia32_vcvtph2ps512_mask(reinterpret_cast<Pack<16>::halves>(halves), Floats16{},
                                         every_lane, 4);  // 4: exact, so as the mode says
}
GX_AVX2 GX_INLINE void load(bf16, const bf16::storage* from, Floats8& x) {
    Pack<8>::words words;
    widen(*reinterpret_cast<const Pack<8>::stored_halves*>(from), words);
    x = reinterpret_cast<Floats8>(words << 16);
}
GX_AVX512 GX_INLINE void load(bf16, const bf16::storage* from, Floats16& x) {
    Pack<16>::words words;
    widen(*reinterpret_cast<const Pack<16>::stored_halves*>(from), words);
    x = reinterpret_cast<Floats16>(words << 16);
}

template <class V>
GX_INLINE void store(fp32, float* to, const V& x) {
    *reinterpret_cast<typename Pack<sizeof(V) / 4>::stored_floats*>(to) = x;
}
GX_AVX2 GX_INLINE void store(fp16, fp16::storage* to, const Floats8& x) {
    *reinterpret_cast<Pack<8>::stored_halves*>(to) = reinterpret_cast<Pack<8>::stored_halves>(
        __builtin_ia32_vcvtps2ph256(x, 0));  // 0: to nearest
}
GX_AVX512 GX_INLINE void store(fp16, fp16::storage* to, const Floats16& x) {
    *reinterpret_cast<Pack<16>::stored_halves*>(to) = reinterpret_cast<Pack<16>::stored_halves>(
        __builtin_ia32_vcvtps2ph512_mask(x, 8, Pack<16>::halves{}, every_lane));  // 8: the same
}
/// The words whose lower halves are x rounded to bf16.
/// By integers: VCVTNEPS2BF16 takes subnormals for zero, which fp32 gradients can well be.
template <class V, class W>
GX_INLINE void round_to_bf16(const V& x, W& y) {
    const W bits = reinterpret_cast<W>(x), upper = bits >> 16;
    const W near = (bits + ((upper & 1u) + 0x7fffu)) >> 16;
    y = x != x ? upper | 0x40u : near;
}
GX_AVX2 GX_INLINE void store(bf16, bf16::storage* to, const Floats8& x) {
    Pack<8>::words y;
    round_to_bf16(x, y);
    narrow(y, *reinterpret_cast<Pack<8>::stored_halves*>(to));
}
GX_AVX512 GX_INLINE void store(bf16, bf16::storage* to, const Floats16& x) {
    Pack<16>::words y;
    round_to_bf16(x, y);
    narrow(y, *reinterpret_cast<Pack<16>::stored_halves*>(to));
}

/// x = mine + x; of two NaNs mine, as the instruction takes its first operand's. Compilers choose
/// which one that is, and assemblers do where a shorter encoding is to be had: not that of vex3.
GX_AVX2 GX_INLINE void add_to(const Floats8& mine, Floats8& x) {
    asm("%{vex3%} vaddps %0, %1, %0" : "+x"(x) : "x"(mine));
}
GX_AVX512 GX_INLINE void add_to(const Floats16& mine, Floats16& x) {
    asm("vaddps %0, %1, %0" : "+v"(x) : "v"(mine));
}

/// Converts whole groups of 8; returns the number of elements done.
template <class From, class To, Combining combining>
GX_AVX2 std::size_t avx2(const typename From::storage* from, typename To::storage* to,
                         std::size_t count, float factor) {
    std::size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        Floats8 x;
        load(From{}, from + i, x);
        if constexpr (combining == Combining::scale) x *= factor;
        if constexpr (combining == Combining::add) {
            Floats8 mine;
            load(To{}, to + i, mine);
            add_to(mine, x);
        }
        store(To{}, to + i, x);
    }
    return i;
}
/// Converts whole groups of 16; returns the number of elements done.
template <class From, class To, Combining combining>
GX_AVX512 std::size_t avx512(const typename From::storage* from, typename To::storage* to,
                             std::size_t count, float factor) {
    std::size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        Floats16 x;
        load(From{}, from + i, x);
        if constexpr (combining == Combining::scale) x *= factor;
        if constexpr (combining == Combining::add) {
            Floats16 mine;
            load(To{}, to + i, mine);
            add_to(mine, x);
        }
        store(To{}, to + i, x);
    }
    return i;
}

// to = (to * of_to + from * of_from) * of_sum, each product and the sum rounded: a compiler can't
// fuse a product with add_to(). For whole groups; returns the number of elements done.
GX_AVX2 inline std::size_t add_products_avx2(const float* from, float* to, std::size_t count,
                                             float of_from, float of_to, float of_sum) {
    std::size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        Floats8 x, mine;
        load(fp32{}, from + i, x), load(fp32{}, to + i, mine);
        x *= of_from, mine *= of_to;
        add_to(mine, x);
        x *= of_sum;
        store(fp32{}, to + i, x);
    }
    return i;
}
GX_AVX512 inline std::size_t add_products_avx512(const float* from, float* to, std::size_t count,
                                                 float of_from, float of_to, float of_sum) {
    std::size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        Floats16 x, mine;
        load(fp32{}, from + i, x), load(fp32{}, to + i, mine);
        x *= of_from, mine *= of_to;
        add_to(mine, x);
        x *= of_sum;
        store(fp32{}, to + i, x);
    }
    return i;
}

}  // namespace gx::detail::convert

#undef GX_INLINE
#undef GX_AVX2
#undef GX_AVX512
#endif
