// The loops of crop_resize.hpp: plain C++, and AVX2 with the same bits.
#pragma once

#include <algorithm>  // min
#include <cstddef>    // size_t
#include <cstdint>    // uint8_t
#include <cstring>    // memcpy

namespace gx::detail::image {

/// Rounds (2^12 high + low) / 2^22. Weights sum to 1 within 2^-22 a tap, so only 255 can be passed.
[[nodiscard]] inline std::uint8_t rounded_sum(int high, int low) {
    const int sum = ((high << 12) + low + (1 << 21)) >> 22;
    return static_cast<std::uint8_t>(sum > 255 ? 255 : sum);
}
/// x y / 2^15, halves up, as PMULHRSW has it.
[[nodiscard]] inline std::int16_t scaled(int x, int y) {
    return static_cast<std::int16_t>((x * y + (1 << 14)) >> 15);
}

/// One pixel of an antialiased row: `count` taps from `from` on.
inline void sum_pixel(const std::uint8_t* from, const std::int16_t* high, const std::int16_t* low,
                      int count, std::uint8_t* to) {
    for (int c = 0; c < 3; ++c) {
        int sums[2] = {};
        for (int k = 0; k < count; ++k) {
            sums[0] += from[3 * k + c] * high[k];
            sums[1] += from[3 * k + c] * low[k];
        }
        to[c] = rounded_sum(sums[0], sums[1]);
    }
}

/// Bytes [first, last) of the weighted sum of `count` rows.
inline void sum_rows(const std::uint8_t* const* rows, const std::int16_t* high,
                     const std::int16_t* low, int count, std::uint8_t* to, std::size_t first,
                     std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
        int sums[2] = {};
        for (int k = 0; k < count; ++k) {
            sums[0] += rows[k][i] * high[k];
            sums[1] += rows[k][i] * low[k];
        }
        to[i] = rounded_sum(sums[0], sums[1]);
    }
}

/// Elements [first, last) of 2^7 (a + weight (b - a)).
inline void blend_rows(const std::uint8_t* a, const std::uint8_t* b, std::int16_t weight,
                       std::int16_t* to, std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i)
        to[i] = static_cast<std::int16_t>((a[i] << 7) + scaled((b[i] - a[i]) * 128, weight));
}

/// Pixels [first_pixel, last_pixel) of a plain row. Shapes: from, pixels of three; to likewise.
inline void blend_columns(const std::int16_t* from, const int* first, const std::int16_t* weights,
                          std::uint8_t* to, int first_pixel, int last_pixel) {
    for (int x = first_pixel; x < last_pixel; ++x) {
        const std::int16_t* at = from + std::size_t(3) * first[x];
        for (int c = 0; c < 3; ++c) {
            const int sum = at[c] + scaled(at[c + 3] - at[c], weights[4 * x]);
            to[3 * x + c] = static_cast<std::uint8_t>((sum + 64) >> 7);
        }
    }
}

}  // namespace gx::detail::image

#if defined(__x86_64__) && defined(__GNUC__)

// On the compiler's own vector types, as core/convert_x86.hpp explains.
#define GX_AVX2 __attribute__((target("avx2")))
#define GX_INLINE GX_AVX2 __attribute__((always_inline)) inline

namespace gx::detail::image {

typedef char Bytes16 __attribute__((vector_size(16)));
typedef char Bytes32 __attribute__((vector_size(32)));
typedef short Shorts16 __attribute__((vector_size(32)));
typedef int Ints8 __attribute__((vector_size(32)));
typedef long long Longs4 __attribute__((vector_size(32)));

template <class V>
GX_INLINE void load(const void* from, V& x) {
    __builtin_memcpy(&x, from, sizeof x);
}
template <class V>
GX_INLINE void store(void* to, const V& x) {
    __builtin_memcpy(to, &x, sizeof x);
}
/// 16 bytes as 16-bit numbers.
GX_INLINE void widen(const Bytes16& bytes, Shorts16& shorts) {
#if defined(__clang__)
    typedef unsigned char Unsigned16 __attribute__((vector_size(16)));
    shorts = __builtin_convertvector(reinterpret_cast<Unsigned16>(bytes), Shorts16);
#else
    shorts = reinterpret_cast<Shorts16>(__builtin_ia32_pmovzxbw256(bytes));
#endif
}
GX_INLINE void join(const Bytes16& a, const Bytes16& b, Bytes32& both) {
    both = __builtin_shufflevector(a, b, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
                                   17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31);
}
GX_INLINE void add_products(const Shorts16& x, const Shorts16& y, Ints8& sums) {
    sums += reinterpret_cast<Ints8>(__builtin_ia32_pmaddwd256(x, y));
}

/// Pixels of an antialiased row. Shapes: from (columns, 3); to has 4 bytes more than it shows.
/// Four taps at a time: those of the first two pixels in the lower half, channel by channel.
GX_AVX2 inline void sum_pixels_avx2(const std::uint8_t* from, int columns, const int* first,
                                    const std::int16_t* high, const std::int16_t* low, int padded,
                                    std::uint8_t* to, int pixels) {
    const Bytes32 pairs = {0, -1, 3, -1, 1, -1, 4,  -1, 2, -1, 5,  -1, -1, -1, -1, -1,
                           6, -1, 9, -1, 7, -1, 10, -1, 8, -1, 11, -1, -1, -1, -1, -1};
    const Bytes32 weights = {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3,
                             4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7, 4, 5, 6, 7};
    const auto reads = static_cast<long>(3 * padded + 4);
    for (int x = 0; x < pixels; ++x) {
        const std::uint8_t* at = from + 3L * first[x];
        const std::int16_t *h = high + std::size_t(padded) * x, *l = low + std::size_t(padded) * x;
        if (3L * first[x] + reads > 3L * columns) {  // loads would reach behind the row
            sum_pixel(at, h, l, std::min(padded, columns - first[x]), to + 3L * x);
            continue;
        }
        Ints8 high_sums{}, low_sums{};
        for (int k = 0; k < padded; k += 4) {
            Bytes16 bytes;
            load(at + 3 * k, bytes);
            const Bytes32 both = __builtin_shufflevector(bytes, bytes, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9,
                                                         10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5,
                                                         6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
            const auto taps = reinterpret_cast<Shorts16>(__builtin_ia32_pshufb256(both, pairs));
            long long four_high, four_low;
            load(h + k, four_high);
            load(l + k, four_low);
            const Longs4 hs = {four_high, four_high, four_high, four_high};
            const Longs4 ls = {four_low, four_low, four_low, four_low};
            add_products(taps,
                         reinterpret_cast<Shorts16>(
                             __builtin_ia32_pshufb256(reinterpret_cast<Bytes32>(hs), weights)),
                         high_sums);
            add_products(taps,
                         reinterpret_cast<Shorts16>(
                             __builtin_ia32_pshufb256(reinterpret_cast<Bytes32>(ls), weights)),
                         low_sums);
        }
        Ints8 sums = (high_sums << 12) + low_sums;
        sums += __builtin_shufflevector(sums, sums, 4, 5, 6, 7, 0, 1, 2, 3);
        sums = (sums + (1 << 21)) >> 22;
        const auto words = reinterpret_cast<Shorts16>(__builtin_ia32_packssdw256(sums, sums));
        const auto packed = reinterpret_cast<Ints8>(__builtin_ia32_packuswb256(words, words));
        const int pixel = packed[0];
        store(to + 3L * x, pixel);
    }
}

/// Whole groups of 16 bytes of sum_rows; returns the bytes done.
GX_AVX2 inline std::size_t sum_rows_avx2(const std::uint8_t* const* rows, const std::int16_t* high,
                                         const std::int16_t* low, int count, std::uint8_t* to,
                                         std::size_t bytes) {
    std::size_t i = 0;
    for (; i + 16 <= bytes; i += 16) {
        Ints8 high_sums[2] = {}, low_sums[2] = {};  // of bytes 0-7 and 8-15
        for (int k = 0; k < count; k += 2) {        // a last row without a partner: weight 0
            Bytes16 a, b;
            load(rows[k] + i, a);
            load(rows[k + 1 < count ? k + 1 : k] + i, b);
            int high_pair, low_pair;
            load(high + k, high_pair);
            load(low + k, low_pair);
            const auto hs = reinterpret_cast<Shorts16>(Ints8{} + high_pair);
            const auto ls = reinterpret_cast<Shorts16>(Ints8{} + low_pair);
            Shorts16 pairs;
            widen(__builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7,
                                          23),
                  pairs);
            add_products(pairs, hs, high_sums[0]);
            add_products(pairs, ls, low_sums[0]);
            widen(__builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14,
                                          30, 15, 31),
                  pairs);
            add_products(pairs, hs, high_sums[1]);
            add_products(pairs, ls, low_sums[1]);
        }
        const Ints8 lower = ((high_sums[0] << 12) + low_sums[0] + (1 << 21)) >> 22;
        const Ints8 upper = ((high_sums[1] << 12) + low_sums[1] + (1 << 21)) >> 22;
        // In each half of a register: four of the lower ones, four of the upper ones.
        const auto words = reinterpret_cast<Shorts16>(__builtin_ia32_packssdw256(lower, upper));
        const auto packed = reinterpret_cast<Ints8>(__builtin_ia32_packuswb256(words, words));
        const int sixteen[4] = {packed[0], packed[4], packed[1], packed[5]};
        std::memcpy(to + i, sixteen, sizeof sixteen);
    }
    return i;
}

/// Whole groups of 16 elements of blend_rows; returns the elements done.
GX_AVX2 inline std::size_t blend_rows_avx2(const std::uint8_t* a, const std::uint8_t* b,
                                           std::int16_t weight, std::int16_t* to,
                                           std::size_t elements) {
    const Shorts16 weights = Shorts16{} + weight;
    std::size_t i = 0;
    for (; i + 16 <= elements; i += 16) {
        Bytes16 bytes;
        Shorts16 x, y;
        load(a + i, bytes);
        widen(bytes, x);
        load(b + i, bytes);
        widen(bytes, y);
        const Shorts16 difference = (y - x) << 7;
        store(to + i, Shorts16((x << 7) + reinterpret_cast<Shorts16>(
                                              __builtin_ia32_pmulhrsw256(difference, weights))));
    }
    return i;
}

/// Whole groups of 4 pixels of blend_columns; returns the pixels done. Shapes: from is read up to 5
/// elements behind the last pixel, to is written up to 2.
GX_AVX2 inline int blend_columns_avx2(const std::int16_t* from, const int* first,
                                      const std::int16_t* weights, std::uint8_t* to, int pixels) {
    // In each half of a register: a pixel, then the one to its right.
    const Bytes32 pairs = {0, 1, 2, 3, 4, 5, -1, -1, 6, 7, 8, 9, 10, 11, -1, -1,
                           0, 1, 2, 3, 4, 5, -1, -1, 6, 7, 8, 9, 10, 11, -1, -1};
    const Bytes32 channels = {0, 1, 2, 4, 5, 6, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                              0, 1, 2, 4, 5, 6, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    int x = 0;
    for (; x + 4 <= pixels; x += 4) {
        // Not as an array: g++ 12 stores it on the stack, and reading it then waits for the stores.
        Bytes16 p0, p1, p2, p3;
        load(from + 3L * first[x], p0);
        load(from + 3L * first[x + 1], p1);
        load(from + 3L * first[x + 2], p2);
        load(from + 3L * first[x + 3], p3);
        Bytes32 even, odd;
        join(p0, p2, even);
        join(p1, p3, odd);
        const auto e = reinterpret_cast<Longs4>(__builtin_ia32_pshufb256(even, pairs));
        const auto o = reinterpret_cast<Longs4>(__builtin_ia32_pshufb256(odd, pairs));
        const auto a = reinterpret_cast<Shorts16>(__builtin_shufflevector(e, o, 0, 4, 2, 6));
        const auto b = reinterpret_cast<Shorts16>(__builtin_shufflevector(e, o, 1, 5, 3, 7));
        Shorts16 w;
        load(weights + 4L * x, w);
        const auto step = reinterpret_cast<Shorts16>(__builtin_ia32_pmulhrsw256(b - a, w));
        const Shorts16 sum = (a + step + 64) >> 7;
        const auto packed = __builtin_ia32_packuswb256(sum, sum);
        const auto pixel_bytes = reinterpret_cast<Longs4>(
            __builtin_ia32_pshufb256(reinterpret_cast<Bytes32>(packed), channels));
        const long long lower = pixel_bytes[0], upper = pixel_bytes[2];
        store(to + 3L * x, lower);
        store(to + 3L * x + 6, upper);
    }
    return x;
}

}  // namespace gx::detail::image

#undef GX_AVX2
#undef GX_INLINE
#endif
