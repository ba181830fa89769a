// packing: channels of pixels as rows and columns of tiles; places of numbered pixels.
#pragma once

#include <algorithm>  // min
#include <cstdint>    // int64_t

#include <gx/onednn/detail/numbers.hpp>  // Bf16
#include <gx/onednn/detail/simd.hpp>     // GX_ONEDNN_INLINE

namespace gx::onednn::detail {

/// 32 numbers of bf16 in a register, or the same bits as pairs and as fours of them; in memory
/// aligned as one number is.
struct Packed {
    typedef std::uint16_t words __attribute__((vector_size(64), aligned(2), may_alias));
    typedef std::uint32_t pairs __attribute__((vector_size(64), aligned(2), may_alias));
    typedef std::uint64_t fours __attribute__((vector_size(64), aligned(2), may_alias));
    typedef std::uint16_t line __attribute__((vector_size(64), aligned(64), may_alias));
    typedef std::uint16_t eight __attribute__((vector_size(16), aligned(2), may_alias));
};

/// Stores a register, 64 bytes, past the caches: for what is read much later. `to` is aligned to
/// 64; end_streams() comes before another thread reads.
GX_ONEDNN_INLINE void stream(const Packed::words& from, void* to) {
    Packed::line* out = static_cast<Packed::line*>(to);
#if defined(__clang__)
    __builtin_nontemporal_store(static_cast<Packed::line>(from), out);
#elif defined(__x86_64__)
    asm volatile("vmovntdq %1, %0" : "=m"(*out) : "v"(from));
#else
    *out = from;
#endif
}
inline void end_streams() {
#if defined(__x86_64__)
    asm volatile("sfence" ::: "memory");
#endif
}

// Numbers, pairs or fours of u and v in turns: of the first half of each 16 bytes, of the second.
GX_ONEDNN_INLINE void interleave(const Packed::words& u, const Packed::words& v,
                                 Packed::words& first, Packed::words& second) {
    // clang-format off
    first = __builtin_shufflevector(
        u, v, 0, 32, 1, 33, 2, 34, 3, 35, 8, 40, 9, 41, 10, 42, 11, 43,
        16, 48, 17, 49, 18, 50, 19, 51, 24, 56, 25, 57, 26, 58, 27, 59);
    second = __builtin_shufflevector(
        u, v, 4, 36, 5, 37, 6, 38, 7, 39, 12, 44, 13, 45, 14, 46, 15, 47,
        20, 52, 21, 53, 22, 54, 23, 55, 28, 60, 29, 61, 30, 62, 31, 63);
    // clang-format on
}
GX_ONEDNN_INLINE void interleave_pairs(const Packed::words& u, const Packed::words& v,
                                       Packed::words& first, Packed::words& second) {
    using V = Packed::pairs;
    const V &a = reinterpret_cast<const V&>(u), &b = reinterpret_cast<const V&>(v);
    reinterpret_cast<Packed::pairs&>(first) =
        __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
    reinterpret_cast<Packed::pairs&>(second) =
        __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
}
GX_ONEDNN_INLINE void interleave_fours(const Packed::words& u, const Packed::words& v,
                                       Packed::words& first, Packed::words& second) {
    using V = Packed::fours;
    const V &a = reinterpret_cast<const V&>(u), &b = reinterpret_cast<const V&>(v);
    reinterpret_cast<Packed::fours&>(first) =
        __builtin_shufflevector(a, b, 0, 8, 2, 10, 4, 12, 6, 14);
    reinterpret_cast<Packed::fours&>(second) =
        __builtin_shufflevector(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
}

/// Channels [c, c + 8) of pixels 0, 8, 16 and 24.
GX_ONEDNN_INLINE void gather_fourth_part(const Bf16* const* pixels, int c, Packed::words& to) {
    const auto part = [&](int i) __attribute__((always_inline)) -> const Packed::eight* {
        return reinterpret_cast<const Packed::eight*>(pixels[8 * i] + c);
    };
#if defined(__x86_64__) && !defined(__clang__)  // g++ 12 makes one more shuffle of it
    asm("vmovdqu %1, %x0" : "=v"(to) : "m"(*part(0)));
    asm("vinserti32x4 $1, %1, %0, %0" : "+v"(to) : "m"(*part(1)));
    asm("vinserti32x4 $2, %1, %0, %0" : "+v"(to) : "m"(*part(2)));
    asm("vinserti32x4 $3, %1, %0, %0" : "+v"(to) : "m"(*part(3)));
#else
    Packed::eight* parts = reinterpret_cast<Packed::eight*>(&to);
    for (int i = 0; i < 4; ++i) parts[i] = *part(i);
#endif
}
/// Channels [c, c + 8) of 32 pixels, transposed: (8, 32).
GX_ONEDNN_INLINE void transpose(const Bf16* const* pixels, int c, Bf16* to) {
    Packed::words u[8], v[8];
    for (int i = 0; i < 8; ++i) gather_fourth_part(pixels + i, c, u[i]);
    for (int i = 0; i < 8; i += 2) interleave(u[i], u[i + 1], v[i], v[i + 1]);
    for (int i = 0; i < 8; i += 4) {
        interleave_pairs(v[i], v[i + 2], u[i], u[i + 1]);
        interleave_pairs(v[i + 1], v[i + 3], u[i + 2], u[i + 3]);
    }
    for (int i = 0; i < 4; ++i) interleave_fours(u[i], u[i + 4], v[2 * i], v[2 * i + 1]);
    for (int i = 0; i < 8; ++i) *reinterpret_cast<Packed::words*>(to + 32 * i) = v[i];
}

/// Channels [c, end) of `count` pixels as rows: for each 16 channels a tile of every 32 pixels.
/// All channels of a few pixels come one after another, as they lie in memory: a walk along the
/// pixels of some channels is bound by the latency of memory.
GX_ONEDNN_INLINE void pack_rows(const Bf16* const* pixels, int count, int c, int end, Bf16* to) {
    for (int p = 0; p < count; p += 32, to += 512) {
        Bf16* tile = to;
        for (int k = c; k < end; k += 16, tile += std::int64_t{16} * count) {
            transpose(pixels + p, k, tile);
            transpose(pixels + p, k + 8, tile + 256);
        }
    }
}

/// Channels [c, end) of pairs of pixels as columns. For each 32 channels: the pairs (0, 1), (2, 3),
/// ... if `even`, then the pairs (1, 2), (3, 4), ... if `odd`; of both, those of one tile and then,
/// `tile` numbers on, those of another. Channels 8 a + b and 8 a + 4 + b, b below 4, are column
/// 4 a + b of the one and of the other. Reads one pixel more than `count`.
template <bool even, bool odd>
GX_ONEDNN_INLINE void pack_columns(const Bf16* const* pixels, int count, int c, int end, Bf16* to,
                                   std::int64_t tile) {
    using Words = Packed::words;  // by name: `auto` forgets how they are aligned
    const auto at = [](const Bf16* pixel, int k) __attribute__((always_inline)) -> const Words* {
        return reinterpret_cast<const Words*>(pixel + k);
    };
    for (int i = 0; i < count; i += 2, to += 32) {
        const Bf16 *u = pixels[i], *v = pixels[i + 1], *w = pixels[i + 2];
        Bf16* out = to;
        Packed::words first, second;
        const auto put = [&]() __attribute__((always_inline)) {
            *reinterpret_cast<Packed::words*>(out) = first;
            *reinterpret_cast<Packed::words*>(out + tile) = second;
            out += 2 * tile;
        };
        for (int k = c; k < end; k += 32) {
            if constexpr (even) interleave(*at(u, k), *at(v, k), first, second), put();
            if constexpr (odd) interleave(*at(v, k), *at(w, k), first, second), put();
        }
    }
}

/// What becomes of sums: added to what is there, stored, or stored past the caches.
enum class Sums : unsigned char { added, stored, streamed };

/// The 16 floats of each of two tiles of columns, in the order of their channels.
template <Sums how>
GX_ONEDNN_INLINE void store_columns(const float* one, const float* other, float* to) {
    using V = Vector<16>::type;
    const V &u = *reinterpret_cast<const V*>(one), &v = *reinterpret_cast<const V*>(other);
    V lo = __builtin_shufflevector(u, v, 0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    V hi =
        __builtin_shufflevector(u, v, 8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    V* out = reinterpret_cast<V*>(to);
    if constexpr (how == Sums::streamed) {
        stream(reinterpret_cast<const Packed::words&>(lo), out);
        return stream(reinterpret_cast<const Packed::words&>(hi), out + 1);
    }
    if constexpr (how == Sums::added) lo += out[0], hi += out[1];
    out[0] = lo, out[1] = hi;
}

/// Images whose pixels are numbered with zeros behind each row and each image.
struct NumberedPixels {
    const Bf16* first = nullptr;
    int images = 0, height = 0, width = 0;        ///< without zeros
    int rows = 0, pitch = 0;                      ///< of an image and of a row, with them
    std::int64_t image = 0, row = 0, column = 0;  ///< from one to the next, in numbers
};
/// The addresses of pixels [from, from + count), or `zero`.
GX_ONEDNN_INLINE void point_at(const NumberedPixels& p, const Bf16* zero, int from, int count,
                               const Bf16** to) {
    int i = 0;
    for (; i < count && from + i < 0; ++i) to[i] = zero;
    const int at = from + i, in_image = at % (p.rows * p.pitch);
    int n = at / (p.rows * p.pitch), y = in_image / p.pitch, x = in_image % p.pitch;
    while (i < count) {
        const bool outside = n >= p.images || y >= p.height;
        const Bf16* pixel = outside ? zero : p.first + n * p.image + y * p.row + x * p.column;
        for (; x < p.pitch && i < count; ++x, ++i, pixel += p.column)
            to[i] = outside || x >= p.width ? zero : pixel;
        x = 0;
        if (++y == p.rows) y = 0, ++n;
    }
}

}  // namespace gx::onednn::detail
