// average: mean of several ranks' values, written to all in one pass over memory.
#pragma once

#include <array>     // TwoBuffers
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

/// Those of two ranks: loops over them unroll, and their addresses stay in registers.
using TwoBuffers = std::array<std::span<std::byte>, 2>;

/// Values of type S, which is fp32 or E, of a rank from `first` on.
template <class S>
typename S::storage* at(const auto& buffers, std::size_t rank, std::size_t first) {
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
        for (std::size_t r = 1; r < buffers.size(); ++r)
            sum = convert::sum_of(sum, contribution(r, i));
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
// NaN, bf16 rounds in half of the operations: so a group is averaged without care, and again with
// it if a NaN has come in or out.
#define GX_AVERAGE(SIMD, TARGET, V)                                                            \
    template <class S>                                                                         \
        requires(!std::same_as<S, bf16>)                                                       \
    TARGET GX_INLINE void load_two(S, const typename S::storage* from, V& x, V& y) {           \
        convert::load(S{}, from, x);                                                           \
        convert::load(S{}, from + sizeof(V) / sizeof(float), y);                               \
    }                                                                                          \
    template <class S>                                                                         \
        requires(!std::same_as<S, bf16>)                                                       \
    TARGET GX_INLINE void store_two(S, typename S::storage* to, const V& x, const V& y) {      \
        convert::store(S{}, to, x);                                                            \
        convert::store(S{}, to + sizeof(V) / sizeof(float), y);                                \
    }                                                                                          \
    template <bool careful, class E, class S>                                                  \
    TARGET GX_INLINE bool average_group(const auto& buffers, std::size_t i, const V& factor) { \
        constexpr std::size_t width = sizeof(V) / sizeof(float), group = 4;                    \
        constexpr bool looks_at_inputs = !careful && rounds_by_integers<E, S>;                 \
        V sum[group], inputs[group] = {};                                                      \
        load_two(S{}, at<S>(buffers, 0, i), sum[0], sum[1]);                                   \
        load_two(S{}, at<S>(buffers, 0, i) + 2 * width, sum[2], sum[3]);                       \
        GX_UNROLL                                                                              \
        for (std::size_t k = 0; k < group; ++k) {                                              \
            if constexpr (looks_at_inputs) inputs[k] = sum[k];                                 \
            if constexpr (!std::same_as<E, S>) round_to<careful>(E{}, sum[k]);                 \
        }                                                                                      \
        for (std::size_t r = 1; r < buffers.size(); ++r) {                                     \
            const auto* const from = at<S>(buffers, r, i);                                     \
            V x[group];                                                                        \
            load_two(S{}, from, x[0], x[1]);                                                   \
            load_two(S{}, from + 2 * width, x[2], x[3]);                                       \
            GX_UNROLL                                                                          \
            for (std::size_t k = 0; k < group; ++k) {                                          \
                if constexpr (looks_at_inputs) inputs[k] += x[k];                              \
                if constexpr (!std::same_as<E, S>) round_to<careful>(E{}, x[k]);               \
                convert::add_to(sum[k], x[k]), sum[k] = x[k];                                  \
            }                                                                                  \
        }                                                                                      \
        if constexpr (!careful && std::same_as<E, bf16>) {                                     \
            const V* const all = looks_at_inputs ? inputs : sum;                               \
            if (has_nan((all[0] + all[1]) + (all[2] + all[3]))) return false;                  \
        }                                                                                      \
        GX_UNROLL                                                                              \
        for (std::size_t k = 0; k < group; ++k) {                                              \
            sum[k] *= factor;                                                                  \
            if constexpr (!std::same_as<E, S>) round_to<careful>(E{}, sum[k]);                 \
            else if constexpr (std::same_as<S, bf16>) round_upper_half<careful>(sum[k]);       \
        }                                                                                      \
        for (std::size_t r = 0; r < buffers.size(); ++r) {                                     \
            auto* const to = at<S>(buffers, r, i);                                             \
            store_two(S{}, to, sum[0], sum[1]);                                                \
            store_two(S{}, to + 2 * width, sum[2], sum[3]);                                    \
        }                                                                                      \
        return true;                                                                           \
    }                                                                                          \
    template <class E, class S, class B>                                                       \
    TARGET std::size_t average_##SIMD(const B& given, std::size_t first, std::size_t end,      \
                                      float factor) {                                          \
        const B buffers = given; /* whose address no store can have */                         \
        constexpr std::size_t step = 4 * sizeof(V) / sizeof(float);                            \
        const V factors = factor - V{};                                                        \
        std::size_t i = first;                                                                 \
        for (; i + step <= end; i += step)                                                     \
            if (!average_group<false, E, S>(buffers, i, factors)) [[unlikely]]                 \
                average_group<true, E, S>(buffers, i, factors);                                \
        return i;                                                                              \
    }
GX_AVERAGE(avx2, GX_AVX2, convert::Floats8)
GX_AVERAGE(avx512, GX_AVX512, convert::Floats16)
#undef GX_AVERAGE

// The same of bf16 where the processor rounds to it: one instruction packs two vectors into one. It
// takes subnormals for zero, so a group's means are stored only if all sums on the way to them, and
// they, are 2^-95 or more: what was taken for zero, at most 2^-126, is then less than half of the
// last bit of its sum, and would not have changed it. Other groups are averaged as above. (Where a
// program makes the processor take subnormals for zero itself, by DAZ of -ffast-math, this does so
// everywhere, and other instruction sets do not.)
struct LeastSum {
    using Shorts = short __attribute__((vector_size(64)));
    using Ints = int __attribute__((vector_size(64)));
    Shorts exponent = Shorts{} + 0x7000;  ///< of bf16: none of these bits is set below 2^-95
    Ints doubled = Ints{} + 0x20000000;   ///< bits of 2^-95 as a float, without the sign

    /// In registers: compilers would make both again in each turn of a loop.
    GX_AVX512_BF16 LeastSum() { asm("" : "+v"(exponent), "+v"(doubled)); }
};
using Words16 = convert::Pack<16>::words;
using Halves32 = convert::Pack<16>::stored_pairs;

GX_AVX512_BF16 GX_INLINE void pack(const convert::Floats16& x, const convert::Floats16& y,
                                   Words16& packed) {  // compilers differ in its builtin
    asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(packed) : "v"(y), "v"(x));
}
/// The lanes of packed numbers, or of floats, below 2^-95.
GX_AVX512_BF16 GX_INLINE unsigned are_small(const Words16& packed, const LeastSum& least) {
    unsigned lanes;
    asm("vptestnmw %2, %1, %0" : "=k"(lanes) : "v"(packed), "v"(least.exponent));
    return lanes;
}
GX_AVX512_BF16 GX_INLINE unsigned are_small(const convert::Floats16& x, const LeastSum& least) {
    constexpr int less = 1;
    const auto bits = reinterpret_cast<Words16>(x);
    return __builtin_ia32_ucmpd512_mask(reinterpret_cast<LeastSum::Ints>(bits + bits),
                                        least.doubled, less, convert::every_lane);
}
GX_AVX512_BF16 GX_INLINE void load_packed(const bf16::storage* from, Words16& packed) {
    packed = reinterpret_cast<Words16>(*reinterpret_cast<const Halves32*>(from));
}
GX_AVX512_BF16 GX_INLINE void load_packed(const float* from, Words16& packed) {
    convert::Floats16 x, y;
    load_two(fp32{}, from, x, y);
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
/// Whether the group could be averaged so; if not, nothing is stored.
template <class S>
GX_AVX512_BF16 GX_INLINE bool average_packed(const auto& buffers, std::size_t i,
                                             const convert::Floats16& factor,
                                             const LeastSum& least) {
    convert::Floats16 sum[4], x, y;
    Words16 first, second;
    unsigned small = 0;
    load_packed(at<S>(buffers, 0, i), first);
    load_packed(at<S>(buffers, 0, i + 32), second);
    unpack(first, sum[0], sum[1]);
    unpack(second, sum[2], sum[3]);
    for (std::size_t r = 1; r < buffers.size(); ++r) {
        if (r > 1 && std::same_as<S, fp32>) {
            GX_UNROLL
            for (const auto& partial : sum) small |= are_small(partial, least);
        }
        load_packed(at<S>(buffers, r, i), first);
        load_packed(at<S>(buffers, r, i + 32), second);
        unpack(first, x, y);
        convert::add_to(sum[0], x), sum[0] = x;
        convert::add_to(sum[1], y), sum[1] = y;
        unpack(second, x, y);
        convert::add_to(sum[2], x), sum[2] = x;
        convert::add_to(sum[3], y), sum[3] = y;
    }
    GX_UNROLL
    for (auto& mean : sum) mean *= factor;  // no mean is above its sum
    pack(sum[0], sum[1], first);
    pack(sum[2], sum[3], second);
    small |= are_small(first, least) | are_small(second, least);
    if (small != 0) return false;
    for (std::size_t r = 0; r < buffers.size(); ++r) {
        store_packed(at<S>(buffers, r, i), first);
        store_packed(at<S>(buffers, r, i + 32), second);
    }
    return true;
}
/// Groups from `first` on, until one could not be averaged so; returns where that one begins. By
/// itself, as other groups' constants would take this loop's registers.
template <class S, class B>
GX_AVX512_BF16 __attribute__((noinline)) std::size_t average_packed_groups(const B& given,
                                                                           std::size_t first,
                                                                           std::size_t end,
                                                                           float factor) {
    const B buffers = given;
    const convert::Floats16 factors = factor - convert::Floats16{};
    const LeastSum least;
    std::size_t i = first;
    while (i + 64 <= end && average_packed<S>(buffers, i, factors, least)) i += 64;
    return i;
}
template <class S>
GX_AVX512_BF16 std::size_t average_avx512_bf16(const auto& buffers, std::size_t first,
                                               std::size_t end, float factor) {
    const convert::Floats16 factors = factor - convert::Floats16{};
    std::size_t i = first;
    for (;;) {
        i = average_packed_groups<S>(buffers, i, end, factor);
        if (i + 64 > end) return i;
        // Zeros lie together: the groups behind this one are not tried.
        for (const std::size_t behind = i + 512; i < behind && i + 64 <= end; i += 64)
            if (!average_group<false, bf16, S>(buffers, i, factors))
                average_group<true, bf16, S>(buffers, i, factors);
    }
}

#undef GX_UNROLL
#undef GX_INLINE
#undef GX_AVX2
#undef GX_AVX512
#undef GX_AVX512_BF16

/// Whole groups, by vectors; returns the end of what is done.
template <class E, class S>
std::size_t average_vectors(const auto& buffers, std::size_t first, std::size_t end, Simd simd,
                            float factor) {
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
    return first;
}

#endif

/// Elements [first, end) of all buffers become their mean, rounded to E on the way in and out.
template <class E, class S = fp32>
void average(Buffers buffers, std::size_t first, std::size_t end, Simd simd = best_simd()) {
    const float factor = 1.0f / static_cast<float>(buffers.size());
#if defined(__x86_64__) && defined(__GNUC__)
    first = buffers.size() == 2 ? average_vectors<E, S>(TwoBuffers{buffers[0], buffers[1]}, first,
                                                        end, simd, factor)
                                : average_vectors<E, S>(buffers, first, end, simd, factor);
#endif
    average_portable<E, S>(buffers, first, end, factor);
}

}  // namespace gx::detail::shared_memory
