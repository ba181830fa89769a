// average: the mean of several ranks' values, written to all of them in one pass over memory.
#pragma once

#include <concepts>  // same_as
#include <cstddef>   // byte
#include <span>      // buffers

#include <gx/core/convert_x86.hpp>  // load, store, add_to
#include <gx/core/cpu.hpp>          // Simd
#include <gx/core/element.hpp>      // fp32, fp16, bf16

#if defined(__x86_64__) && defined(__GNUC__)
#define GX_INLINE __attribute__((always_inline)) inline
#define GX_AVX2 __attribute__((target("avx2,f16c")))
#define GX_AVX512 __attribute__((target("avx512f")))
// Below -O3 g++ would leave a group's loop a loop, and its sums in memory.
#if defined(__clang__)
#define GX_UNROLL _Pragma("clang loop unroll(full)")
#else
#define GX_UNROLL _Pragma("GCC unroll 4")
#endif
#endif

namespace gx::detail::shared_memory {

using Buffers = std::span<const std::span<std::byte>>;

/// Values of type S, which is fp32 or E, of a rank from `first` on.
template <class S>
typename S::storage* at(Buffers buffers, std::size_t rank, std::size_t first) {
    return reinterpret_cast<typename S::storage*>(buffers[rank].data()) + first;
}

/// From `first` on, each in the order of the ranks:
///
///     sum    = E::decode(E::encode(buffer_0[i])) + ... of the last rank, in float
///     mean   = E::decode(E::encode(sum * factor))
///
/// and S::encode(mean) in all buffers; of two NaNs the sum keeps the first.
template <class E, class S>
void average_portable(Buffers buffers, std::size_t first, std::size_t end, float factor) {
    const auto contribution = [&](std::size_t r, std::size_t i) {
        return E::decode(E::encode(S::decode(*at<S>(buffers, r, i))));
    };
    for (std::size_t i = first; i < end; ++i) {
        float sum = contribution(0, i);
        for (std::size_t r = 1; r < buffers.size(); ++r) {
            const float x = contribution(r, i);
            sum = sum != sum ? sum + sum : sum + x;
        }
        const auto mean = S::encode(E::decode(E::encode(sum * factor)));
        for (std::size_t r = 0; r < buffers.size(); ++r) *at<S>(buffers, r, i) = mean;
    }
}

#if defined(__x86_64__) && defined(__GNUC__)

/// x = E::decode(E::encode(x)) in registers. A `careful` one is for NaNs too.
template <bool careful, class V>
GX_INLINE void round_to(fp32, V&) {}
template <bool careful, class V>
GX_INLINE void round_to(bf16, V& x) {
    using Words = typename convert::Pack<sizeof(V) / 4>::words;
    Words y;
    if constexpr (careful) {
        convert::round_to_bf16(x, y);
        y <<= 16;
    } else {
        const Words bits = reinterpret_cast<Words>(x);
        y = (bits + (((bits >> 16) & 1u) + 0x7fffu)) & 0xffff0000u;
    }
    x = reinterpret_cast<V>(y);
}
#if !defined(__clang__)  // which has other builtins, and finds the mask by itself
/// As above without care, in one operation less: the last bit that stays is a lane of a mask.
template <bool careful>
    requires(!careful)
GX_AVX512 GX_INLINE void round_to(bf16, convert::Floats16& x) {
    using Bits = int __attribute__((vector_size(64)));
    const Bits bits = reinterpret_cast<Bits>(x), even = bits + 0x7fff;
    const auto odd = __builtin_ia32_ptestmd512(bits, Bits{} + 0x10000, convert::every_lane);
    const Bits y = __builtin_ia32_paddd512_mask(even, Bits{} + 1, even, odd);
    x = reinterpret_cast<convert::Floats16>(y & ~0xffff);
}
#endif
template <bool careful>
GX_AVX2 GX_INLINE void round_to(fp16, convert::Floats8& x) {
    x = __builtin_ia32_vcvtph2ps256(__builtin_ia32_vcvtps2ph256(x, 0));  // 0: to nearest
}
template <bool careful>
GX_AVX512 GX_INLINE void round_to(fp16, convert::Floats16& x) {
    using Halves = convert::Pack<16>::halves;
    const auto all = convert::every_lane;
    x = __builtin_ia32_vcvtph2ps512_mask(__builtin_ia32_vcvtps2ph512_mask(x, 8, Halves{}, all),
                                         convert::Floats16{}, all, 4);
}

/// The mean, which is rounded to bf16 where it is stored so.
template <class V>
GX_INLINE void store_mean(fp32, float* to, const V& x) {
    convert::store(fp32{}, to, x);
}
GX_AVX2 GX_INLINE void store_mean(fp16, fp16::storage* to, const convert::Floats8& x) {
    convert::store(fp16{}, to, x);
}
GX_AVX512 GX_INLINE void store_mean(fp16, fp16::storage* to, const convert::Floats16& x) {
    convert::store(fp16{}, to, x);
}
GX_AVX2 GX_INLINE void store_mean(bf16, bf16::storage* to, const convert::Floats8& x) {
    using Pack = convert::Pack<8>;
    const Pack::words upper = reinterpret_cast<Pack::words>(x) >> 16;
    convert::narrow(upper, *reinterpret_cast<Pack::stored_halves*>(to));
}
GX_AVX512 GX_INLINE void store_mean(bf16, bf16::storage* to, const convert::Floats16& x) {
    using Pack = convert::Pack<16>;
    const Pack::words upper = reinterpret_cast<Pack::words>(x) >> 16;
    convert::narrow(upper, *reinterpret_cast<Pack::stored_halves*>(to));
}

/// Whether contributions are rounded to E by operations on integers, which a NaN would not survive.
template <class E, class S>
inline constexpr bool rounds_by_integers = std::same_as<E, bf16> && !std::same_as<E, S>;

GX_AVX2 GX_INLINE bool has_nan(const convert::Floats8& x) {
    return __builtin_ia32_movmskps256(reinterpret_cast<convert::Floats8>(x != x)) != 0;
}
GX_AVX512 GX_INLINE bool has_nan(const convert::Floats16& x) {
    constexpr int unordered = 3, as_the_mode_says = 4;
    return __builtin_ia32_cmpps512_mask(x, x, unordered, convert::every_lane, as_the_mode_says) !=
           0;
}

// Whole groups of four vectors from `first` on; returns the end of what is done. Where there is no
// NaN, sums need no look at each operand, and bf16 rounds in half of the operations: so a group is
// summed without care, and again with it if a NaN has come in or out.
#define GX_AVERAGE(SIMD, TARGET, V)                                                        \
    template <bool careful, class E, class S>                                              \
    TARGET GX_INLINE bool average_group(Buffers buffers, std::size_t i, const V& factor) { \
        constexpr std::size_t width = sizeof(V) / sizeof(float), group = 4;                \
        constexpr bool looks_at_inputs = !careful && rounds_by_integers<E, S>;             \
        V sum[group] = {}, inputs[group] = {};                                             \
        for (std::size_t r = 0; r < buffers.size(); ++r) {                                 \
            const auto* const from = at<S>(buffers, r, i);                                 \
            GX_UNROLL                                                                      \
            for (std::size_t k = 0; k < group; ++k) {                                      \
                V x;                                                                       \
                convert::load(S{}, from + k * width, x);                                   \
                if constexpr (looks_at_inputs) inputs[k] = r == 0 ? x : inputs[k] + x;     \
                if constexpr (!std::same_as<E, S>) round_to<careful>(E{}, x);              \
                if (r == 0) sum[k] = x;                                                    \
                else if constexpr (careful) convert::add_to(sum[k], x), sum[k] = x;        \
                else sum[k] += x;                                                          \
            }                                                                              \
        }                                                                                  \
        if constexpr (!careful) {                                                          \
            const V* const all = looks_at_inputs ? inputs : sum;                           \
            if (has_nan((all[0] + all[1]) + (all[2] + all[3]))) return false;              \
        }                                                                                  \
        GX_UNROLL                                                                          \
        for (std::size_t k = 0; k < group; ++k) {                                          \
            sum[k] *= factor;                                                              \
            if constexpr (!std::same_as<E, S> || std::same_as<E, bf16>)                    \
                round_to<careful>(E{}, sum[k]);                                            \
        }                                                                                  \
        for (std::size_t r = 0; r < buffers.size(); ++r) {                                 \
            GX_UNROLL                                                                      \
            for (std::size_t k = 0; k < group; ++k)                                        \
                store_mean(S{}, at<S>(buffers, r, i) + k * width, sum[k]);                 \
        }                                                                                  \
        return true;                                                                       \
    }                                                                                      \
    template <class E, class S>                                                            \
    TARGET std::size_t average_##SIMD(Buffers buffers, std::size_t first, std::size_t end, \
                                      float factor) {                                      \
        constexpr std::size_t step = 4 * sizeof(V) / sizeof(float);                        \
        const V factors = factor - V{};                                                    \
        std::size_t i = first;                                                             \
        for (; i + step <= end; i += step)                                                 \
            if (!average_group<false, E, S>(buffers, i, factors)) [[unlikely]]             \
                average_group<true, E, S>(buffers, i, factors);                            \
        return i;                                                                          \
    }
GX_AVERAGE(avx2, GX_AVX2, convert::Floats8)
GX_AVERAGE(avx512, GX_AVX512, convert::Floats16)
#undef GX_AVERAGE
#undef GX_UNROLL
#undef GX_INLINE
#undef GX_AVX2
#undef GX_AVX512

#endif

/// Elements [first, end) of all buffers become their mean, rounded to E on the way in and out.
template <class E, class S = fp32>
void average(Buffers buffers, std::size_t first, std::size_t end, Simd simd = best_simd()) {
    const float factor = 1.0f / static_cast<float>(buffers.size());
#if defined(__x86_64__) && defined(__GNUC__)
    constexpr bool vectorised =
        std::same_as<E, fp32> || std::same_as<E, fp16> || std::same_as<E, bf16>;
    if constexpr (vectorised) {
        if (simd == Simd::avx512) first = average_avx512<E, S>(buffers, first, end, factor);
        if (simd == Simd::avx2) first = average_avx2<E, S>(buffers, first, end, factor);
    }
#endif
    average_portable<E, S>(buffers, first, end, factor);
}

}  // namespace gx::detail::shared_memory
