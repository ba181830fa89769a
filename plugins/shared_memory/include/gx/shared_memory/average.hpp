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
#define GX_AVX512_BF16 __attribute__((target("avx512f,avx512bw,avx512dq,avx512bf16")))
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

/// x rounded to bf16 in the upper half of each lane; anything in the lower. A `careful` one is for
/// NaNs too.
template <bool careful, class V>
GX_INLINE void round_upper_half(V& x) {
    using Words = typename convert::Pack<sizeof(V) / 4>::words;
    Words y;
    if constexpr (careful) {
        convert::round_to_bf16(x, y);
        y <<= 16;
    } else {
        const Words bits = reinterpret_cast<Words>(x);
        y = bits + (((bits >> 16) & 1u) + 0x7fffu);
    }
    x = reinterpret_cast<V>(y);
}
#if !defined(__clang__)  // which has other builtins, and finds the mask by itself
/// As above without care, in one operation less: the last bit that stays is a lane of a mask.
template <bool careful>
    requires(!careful)
GX_AVX512 GX_INLINE void round_upper_half(convert::Floats16& x) {
    using Bits = int __attribute__((vector_size(64)));
    const Bits bits = reinterpret_cast<Bits>(x), even = bits + 0x7fff;
    const auto odd = __builtin_ia32_ptestmd512(bits, Bits{} + 0x10000, convert::every_lane);
    x = reinterpret_cast<convert::Floats16>(
        __builtin_ia32_paddd512_mask(even, Bits{} + 1, even, odd));
}
#endif

/// x = E::decode(E::encode(x)) in registers.
template <bool careful, class V>
GX_INLINE void round_to(fp32, V&) {}
template <bool careful>
GX_AVX2 GX_INLINE void round_to(bf16, convert::Floats8& x) {
    using Words = convert::Pack<8>::words;
    round_upper_half<careful>(x);
    x = reinterpret_cast<convert::Floats8>(reinterpret_cast<Words>(x) & 0xffff0000u);
}
template <bool careful>
GX_AVX512 GX_INLINE void round_to(bf16, convert::Floats16& x) {
    using Words = convert::Pack<16>::words;
    round_upper_half<careful>(x);
    x = reinterpret_cast<convert::Floats16>(reinterpret_cast<Words>(x) & 0xffff0000u);
}
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

// Two vectors of values that lie side by side in memory. Those of bf16 are one vector there, of
// which the first has the even elements and the second the odd ones: a shift and a mask in place of
// two conversions that cross lanes.
template <class W, class V>
GX_INLINE void unpack(const W& both, V& even, V& odd) {
    even = reinterpret_cast<V>(both << 16);
    odd = reinterpret_cast<V>(both & 0xffff0000u);
}
template <class V>
GX_INLINE void load_two(bf16, const bf16::storage* from, V& even, V& odd) {
    using Pack = convert::Pack<sizeof(V) / 4>;
    unpack(reinterpret_cast<typename Pack::words>(
               *reinterpret_cast<const typename Pack::stored_pairs*>(from)),
           even, odd);
}
/// Means that are rounded, to bf16 in the upper half of each lane.
template <class V>
GX_INLINE void store_two(bf16, bf16::storage* to, const V& even, const V& odd) {
    using Pack = convert::Pack<sizeof(V) / 4>;
    using Words = typename Pack::words;
    const Words both =
        (reinterpret_cast<Words>(even) >> 16) | (reinterpret_cast<Words>(odd) & 0xffff0000u);
    using Stored = typename Pack::stored_pairs;
    *reinterpret_cast<Stored*>(to) = reinterpret_cast<Stored>(both);
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
    template <class S>                                                                     \
        requires(!std::same_as<S, bf16>)                                                   \
    TARGET GX_INLINE void load_two(S, const typename S::storage* from, V& x, V& y) {       \
        convert::load(S{}, from, x);                                                       \
        convert::load(S{}, from + sizeof(V) / sizeof(float), y);                           \
    }                                                                                      \
    template <class S>                                                                     \
        requires(!std::same_as<S, bf16>)                                                   \
    TARGET GX_INLINE void store_two(S, typename S::storage* to, const V& x, const V& y) {  \
        convert::store(S{}, to, x);                                                        \
        convert::store(S{}, to + sizeof(V) / sizeof(float), y);                            \
    }                                                                                      \
    template <bool careful, class E, class S>                                              \
    TARGET GX_INLINE bool average_group(Buffers buffers, std::size_t i, const V& factor) { \
        constexpr std::size_t width = sizeof(V) / sizeof(float), group = 4;                \
        constexpr bool looks_at_inputs = !careful && rounds_by_integers<E, S>;             \
        V sum[group], inputs[group] = {};                                                  \
        load_two(S{}, at<S>(buffers, 0, i), sum[0], sum[1]);                               \
        load_two(S{}, at<S>(buffers, 0, i) + 2 * width, sum[2], sum[3]);                   \
        GX_UNROLL                                                                          \
        for (std::size_t k = 0; k < group; ++k) {                                          \
            if constexpr (looks_at_inputs) inputs[k] = sum[k];                             \
            if constexpr (!std::same_as<E, S>) round_to<careful>(E{}, sum[k]);             \
        }                                                                                  \
        for (std::size_t r = 1; r < buffers.size(); ++r) {                                 \
            const auto* const from = at<S>(buffers, r, i);                                 \
            V x[group];                                                                    \
            load_two(S{}, from, x[0], x[1]);                                               \
            load_two(S{}, from + 2 * width, x[2], x[3]);                                   \
            GX_UNROLL                                                                      \
            for (std::size_t k = 0; k < group; ++k) {                                      \
                if constexpr (looks_at_inputs) inputs[k] += x[k];                          \
                if constexpr (!std::same_as<E, S>) round_to<careful>(E{}, x[k]);           \
                if constexpr (careful) convert::add_to(sum[k], x[k]), sum[k] = x[k];       \
                else sum[k] += x[k];                                                       \
            }                                                                              \
        }                                                                                  \
        if constexpr (!careful) {                                                          \
            const V* const all = looks_at_inputs ? inputs : sum;                           \
            if (has_nan((all[0] + all[1]) + (all[2] + all[3]))) return false;              \
        }                                                                                  \
        GX_UNROLL                                                                          \
        for (std::size_t k = 0; k < group; ++k) {                                          \
            sum[k] *= factor;                                                              \
            if constexpr (!std::same_as<E, S>) round_to<careful>(E{}, sum[k]);             \
            else if constexpr (std::same_as<S, bf16>) round_upper_half<careful>(sum[k]);   \
        }                                                                                  \
        for (std::size_t r = 0; r < buffers.size(); ++r) {                                 \
            auto* const to = at<S>(buffers, r, i);                                         \
            store_two(S{}, to, sum[0], sum[1]);                                            \
            store_two(S{}, to + 2 * width, sum[2], sum[3]);                                \
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

// The same of bf16 where the processor converts to it: one instruction packs two vectors into one.
// It takes subnormals for zero, so groups that have one are summed with care, as those with a NaN.
// Where a program makes the processor take them for zeros itself (DAZ, by -ffast-math), so does
// this, and other instruction sets do not.
using Words16 = convert::Pack<16>::words;
using Halves32 = convert::Pack<16>::stored_pairs;

GX_AVX512_BF16 GX_INLINE void pack(const convert::Floats16& x, const convert::Floats16& y,
                                   Words16& packed) {  // compilers differ in its builtin
    asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(packed) : "v"(y), "v"(x));
}
/// The lanes with a NaN or a subnormal number.
GX_AVX512_BF16 GX_INLINE unsigned need_care(const convert::Floats16& x) {
    constexpr int quiet_nan = 1, subnormal = 0x20, signalling_nan = 0x80;
    return __builtin_ia32_fpclassps512_mask(x, quiet_nan | subnormal | signalling_nan,
                                            convert::every_lane);
}
GX_AVX512_BF16 GX_INLINE void load_packed(const bf16::storage* from, Words16& packed, unsigned&) {
    packed = reinterpret_cast<Words16>(*reinterpret_cast<const Halves32*>(from));
}
GX_AVX512_BF16 GX_INLINE void load_packed(const float* from, Words16& packed, unsigned& careful) {
    convert::Floats16 x, y;
    load_two(fp32{}, from, x, y);
    careful |= need_care(x) | need_care(y);
    pack(x, y, packed);
}
// From the 16 even and the 16 odd elements to their order in memory.
GX_AVX512_BF16 GX_INLINE void store_packed(bf16::storage* to, const Words16& packed) {
    const auto p = reinterpret_cast<Halves32>(packed);
    *reinterpret_cast<Halves32*>(to) =
        __builtin_shufflevector(p, p, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24,
                                9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
GX_AVX512_BF16 GX_INLINE void store_packed(float* to, const Words16& packed) {
    const auto p = reinterpret_cast<Halves32>(packed);
    constexpr int o = 32;  // a zero, the lower half of the float
    const auto x =
        __builtin_shufflevector(p, Halves32{}, o, 0, o, 16, o, 1, o, 17, o, 2, o, 18, o, 3, o, 19,
                                o, 4, o, 20, o, 5, o, 21, o, 6, o, 22, o, 7, o, 23);
    const auto y =
        __builtin_shufflevector(p, Halves32{}, o, 8, o, 24, o, 9, o, 25, o, 10, o, 26, o, 11, o, 27,
                                o, 12, o, 28, o, 13, o, 29, o, 14, o, 30, o, 15, o, 31);
    convert::store(fp32{}, to, reinterpret_cast<convert::Floats16>(x));
    convert::store(fp32{}, to + 16, reinterpret_cast<convert::Floats16>(y));
}
template <class S>
GX_AVX512_BF16 GX_INLINE bool average_packed(Buffers buffers, std::size_t i,
                                             const convert::Floats16& factor) {
    convert::Floats16 sum[4], x, y;
    Words16 first, second;
    unsigned careful = 0;
    load_packed(at<S>(buffers, 0, i), first, careful);
    load_packed(at<S>(buffers, 0, i + 32), second, careful);
    unpack(first, sum[0], sum[1]);
    unpack(second, sum[2], sum[3]);
    for (std::size_t r = 1; r < buffers.size(); ++r) {
        load_packed(at<S>(buffers, r, i), first, careful);
        load_packed(at<S>(buffers, r, i + 32), second, careful);
        unpack(first, x, y);
        sum[0] += x, sum[1] += y;
        unpack(second, x, y);
        sum[2] += x, sum[3] += y;
    }
    GX_UNROLL
    for (auto& mean : sum) mean *= factor, careful |= need_care(mean);
    if (careful != 0) return false;
    pack(sum[0], sum[1], first);
    pack(sum[2], sum[3], second);
    for (std::size_t r = 0; r < buffers.size(); ++r) {
        store_packed(at<S>(buffers, r, i), first);
        store_packed(at<S>(buffers, r, i + 32), second);
    }
    return true;
}
template <class S>
GX_AVX512_BF16 std::size_t average_avx512_bf16(Buffers buffers, std::size_t first, std::size_t end,
                                               float factor) {
    const convert::Floats16 factors = factor - convert::Floats16{};
    std::size_t i = first;
    for (; i + 64 <= end; i += 64)
        if (!average_packed<S>(buffers, i, factors)) [[unlikely]]
            average_group<true, bf16, S>(buffers, i, factors);
    return i;
}

#undef GX_UNROLL
#undef GX_INLINE
#undef GX_AVX2
#undef GX_AVX512
#undef GX_AVX512_BF16

#endif

/// Elements [first, end) of all buffers become their mean, rounded to E on the way in and out.
template <class E, class S = fp32>
void average(Buffers buffers, std::size_t first, std::size_t end, Simd simd = best_simd()) {
    const float factor = 1.0f / static_cast<float>(buffers.size());
#if defined(__x86_64__) && defined(__GNUC__)
    constexpr bool vectorised =
        std::same_as<E, fp32> || std::same_as<E, fp16> || std::same_as<E, bf16>;
    if constexpr (vectorised) {
        if (simd >= Simd::avx512) {
            if constexpr (std::same_as<E, bf16>)
                if (simd == Simd::avx512_bf16)
                    first = average_avx512_bf16<S>(buffers, first, end, factor);
            first = average_avx512<E, S>(buffers, first, end, factor);
        }
        if (simd == Simd::avx2) first = average_avx2<E, S>(buffers, first, end, factor);
    }
#endif
    average_portable<E, S>(buffers, first, end, factor);
}

}  // namespace gx::detail::shared_memory
