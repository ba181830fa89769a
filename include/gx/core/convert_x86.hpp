// The loops of convert.hpp in AVX2 with F16C, and in AVX-512; include convert.hpp instead.
#pragma once

#include <cstddef>  // size_t

#include <gx/core/element.hpp>  // fp16, bf16

namespace gx::detail::convert {

/// What happens between load and store: nothing, times a factor, or plus what is there.
enum class Combining : unsigned char { copy, scale, add };

}  // namespace gx::detail::convert

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>  // _mm512_cvtps_ph and friends

// Each function carries its instruction set, so programs need no -march flag and still run where
// the instructions are missing. Overloads on the element take it as a tag, for type deduction.
#define GX_AVX2 __attribute__((target("avx2,f16c"), always_inline)) inline
#define GX_AVX512 __attribute__((target("avx512f"), always_inline)) inline

namespace gx::detail::convert {

GX_AVX2 __m256 load8(fp32, const float* from) { return _mm256_loadu_ps(from); }
GX_AVX2 __m256 load8(fp16, const fp16::storage* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}
GX_AVX2 __m256 load8(bf16, const bf16::storage* from) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

GX_AVX2 void store8(fp32, float* to, __m256 x) { _mm256_storeu_ps(to, x); }
GX_AVX2 void store8(fp16, fp16::storage* to, __m256 x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
// By integers: VCVTNEPS2BF16 takes subnormals for zero, which fp32 gradients can well be.
GX_AVX2 void store8(bf16, bf16::storage* to, __m256 x) {
    const __m256i bits = _mm256_castps_si256(x);
    const __m256i upper = _mm256_srli_epi32(bits, 16);
    const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
    const __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    const __m256i near = _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
    const __m256i quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i y = _mm256_blendv_epi8(near, quiet, nan);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm_packus_epi32(_mm256_castsi256_si128(y), _mm256_extracti128_si256(y, 1)));
}

/// mine + received; where mine is a NaN, that NaN, whichever operand the compiler puts first.
GX_AVX2 __m256 sum8(__m256 mine, __m256 received) {
    const __m256 nan = _mm256_cmp_ps(mine, mine, _CMP_UNORD_Q);
    return _mm256_blendv_ps(_mm256_add_ps(mine, received), _mm256_add_ps(mine, mine), nan);
}

/// Does whole groups of 8; answers how many elements are done.
template <class From, class To, Combining combining>
__attribute__((target("avx2,f16c"))) std::size_t avx2(const typename From::storage* from,
                                                      typename To::storage* to, std::size_t count,
                                                      float factor) {
    const __m256 factors = _mm256_set1_ps(factor);
    std::size_t i = 0;
    for (; i + 8 <= count; i += 8) {
        __m256 x = load8(From{}, from + i);
        if constexpr (combining == Combining::scale) x = _mm256_mul_ps(x, factors);
        if constexpr (combining == Combining::add) x = sum8(load8(To{}, to + i), x);
        store8(To{}, to + i, x);
    }
    return i;
}

GX_AVX512 __m512 load16(fp32, const float* from) { return _mm512_loadu_ps(from); }
GX_AVX512 __m512 load16(fp16, const fp16::storage* from) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return _mm512_maskz_cvtph_ps(static_cast<__mmask16>(-1), halves);
}
GX_AVX512 __m512 load16(bf16, const bf16::storage* from) {
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    const auto all = static_cast<__mmask16>(-1);  // maskz: g++ 12 warns about the plain ones
    return _mm512_castsi512_ps(
        _mm512_maskz_slli_epi32(all, _mm512_maskz_cvtepu16_epi32(all, halves), 16));
}

GX_AVX512 void store16(fp32, float* to, __m512 x) { _mm512_storeu_ps(to, x); }
GX_AVX512 void store16(fp16, fp16::storage* to, __m512 x) {
    const __m256i halves = _mm512_maskz_cvtps_ph(static_cast<__mmask16>(-1), x,
                                                 _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), halves);
}
GX_AVX512 void store16(bf16, bf16::storage* to, __m512 x) {
    const auto all = static_cast<__mmask16>(-1);
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i upper = _mm512_maskz_srli_epi32(all, bits, 16);
    const __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
    const __m512i half = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    const __m512i near = _mm512_maskz_srli_epi32(all, _mm512_add_epi32(bits, half), 16);
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __m512i y = _mm512_mask_or_epi32(near, nan, upper, _mm512_set1_epi32(0x40));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_maskz_cvtepi32_epi16(all, y));
}

GX_AVX512 __m512 sum16(__m512 mine, __m512 received) {
    const __mmask16 nan = _mm512_cmp_ps_mask(mine, mine, _CMP_UNORD_Q);
    return _mm512_mask_add_ps(_mm512_add_ps(mine, received), nan, mine, mine);
}

/// Does whole groups of 16; answers how many elements are done.
template <class From, class To, Combining combining>
__attribute__((target("avx512f"))) std::size_t avx512(const typename From::storage* from,
                                                      typename To::storage* to, std::size_t count,
                                                      float factor) {
    const __m512 factors = _mm512_set1_ps(factor);
    std::size_t i = 0;
    for (; i + 16 <= count; i += 16) {
        __m512 x = load16(From{}, from + i);
        if constexpr (combining == Combining::scale) x = _mm512_mul_ps(x, factors);
        if constexpr (combining == Combining::add) x = sum16(load16(To{}, to + i), x);
        store16(To{}, to + i, x);
    }
    return i;
}

}  // namespace gx::detail::convert

#undef GX_AVX2
#undef GX_AVX512
#endif
