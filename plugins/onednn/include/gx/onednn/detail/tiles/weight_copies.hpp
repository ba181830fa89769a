// weight_copies: weights rounded to bf16, in the layouts that oneDNN's kernels for AMX read.
#pragma once

#include <cstdint>  // int64_t

#include <gx/core/cold.hpp>                              // GX_COLD
#include <gx/onednn/detail/library/blocked_strides.hpp>  // BlockedStrides
#include <gx/onednn/detail/numbers.hpp>                  // Bf16
#include <gx/onednn/detail/simd.hpp>                     // run_kernel
#include <gx/onednn/detail/tiles/packing.hpp>            // interleave_pairs, interleave_fours

namespace gx::onednn::detail {

/// Weights (o, i, h, w) in blocks of 32 by `block` channels. The 32 are of one side, `block` of the
/// other; each two of the 32 lie side by side: (16, block, 2), as columns of tiles.
struct PairedLayout {
    bool pairs_of_inputs = false;  ///< which side the 32 are of
    int block = 0;                 ///< channels of the other side; 0: another layout
    std::int64_t outer[4] = {};    ///< numbers from one block to the next, along o, i, h, w

    GX_COLD [[nodiscard]] static PairedLayout of(const BlockedStrides& b) {
        PairedLayout l;
        if (b.rank != 4 || !b.bf16 || b.offset != 0 || b.inner_count != 3) return l;
        const auto pairs = b.inner_dims[0], other = b.inner_dims[1];
        const bool in_pairs = b.inner_dims[2] == pairs && pairs + other == 1 &&
                              b.inner_sizes[0] == 16 && b.inner_sizes[2] == 2 &&
                              b.inner_sizes[1] % 16 == 0;
        if (!in_pairs || b.dims[pairs] % 32 != 0 || b.dims[other] % b.inner_sizes[1] != 0) return l;
        l.pairs_of_inputs = pairs == 1;
        l.block = static_cast<int>(b.inner_sizes[1]);
        for (int k = 0; k < 4; ++k) l.outer[k] = b.strides[k];
        return l;
    }
};

/// u and then v, rounded, in one register.
#if defined(__x86_64__)
#if defined(__clang__)  // as round_16 in numbers.hpp
[[gnu::target("avx512f")]]
#else
[[gnu::always_inline]]
#endif
inline void round_both(const Vector<16>::type& u, const Vector<16>::type& v, Packed::words& to) {
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(to) : "v"(u), "v"(v));
}
#else
inline void round_both(const Vector<16>::type& u, const Vector<16>::type& v, Packed::words& to) {
    for (int i = 0; i < 16; ++i) to[i] = narrow<Bf16>(u[i]), to[16 + i] = narrow<Bf16>(v[i]);
}
#endif

/// Copies weights from (rows, taps, columns), row-major, whose rows are outputs or, `rows_of_x`,
/// inputs. Shapes: rows and columns are multiples of 32; copies are aligned to 64 bytes. Order:
/// each is rounded to nearest even.
struct CopyWeights {
    using number = Bf16;
    struct Args {
        const float* from = nullptr;
        int rows = 0, taps = 0, columns = 0, width = 1;  // width: taps of a row of the window
        bool rows_of_x = false;
        PairedLayout layouts[2] = {};
        Bf16* to[2] = {};  // null: none
    };
    template <int B>
    GX_ONEDNN_INLINE static void run(const Args& a) {
        for (int r = 0; r < a.rows; r += 32)  // both copies, while these rows are in the cache
            for (int k = 0; k < 2; ++k)
                if (a.to[k] != nullptr) copy(a, a.layouts[k], a.to[k], r);
        end_streams();
    }

private:
    GX_ONEDNN_INLINE static void copy(const Args& a, const PairedLayout& l, Bf16* to, int r) {
        const bool of_columns = l.pairs_of_inputs != a.rows_of_x;
        const std::int64_t row = std::int64_t{a.taps} * a.columns;
        const std::int64_t along_rows = l.outer[a.rows_of_x], along_columns = l.outer[!a.rows_of_x];
        for (int t = 0; t < a.taps; ++t) {
            Bf16* tap = to + t / a.width * l.outer[2] + t % a.width * l.outer[3];
            const float* from = a.from + r * row + std::int64_t{t} * a.columns;
            if (of_columns) {
                for (int c = 0; c < a.columns; c += 32)
                    for (int half = 0; half < 32; half += 16) {
                        const int n = r + half;
                        Bf16* block = tap + c / 32 * along_columns + n / l.block * along_rows;
                        transposed(from + half * row + c, row, block + n % l.block * 2,
                                   l.block * 2);
                    }
            } else {
                for (int c = 0; c < a.columns; c += 16)
                    interleaved(
                        from + c, row,
                        tap + r / 32 * along_rows + c / l.block * along_columns + c % l.block * 2,
                        l.block * 2);
            }
        }
    }
    /// Pairs of 32 rows, 16 columns.
    GX_ONEDNN_INLINE static void interleaved(const float* from, std::int64_t row, Bf16* to,
                                             std::int64_t next) {
        Vector<16>::type u, v;
        Packed::words both;
        for (int pair = 0; pair < 16; ++pair, from += 2 * row, to += next) {
            load<16>(from, u), load<16>(from + row, v);
            round_both(u, v, both);
            const Packed::words pairs = __builtin_shufflevector(
                both, both, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25,
                10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
            stream(pairs, to);
        }
    }
    /// Pairs of 32 columns, 16 rows.
    GX_ONEDNN_INLINE static void transposed(const float* from, std::int64_t row, Bf16* to,
                                            std::int64_t next) {
        Packed::words r[16], t[16];
        Vector<16>::type u, v;
        for (int i = 0; i < 16; ++i, from += row) {
            load<16>(from, u), load<16>(from + 16, v);
            round_both(u, v, r[i]);
        }
        for (int i = 0; i < 16; i += 2) interleave_pairs(r[i], r[i + 1], t[i], t[i + 1]);
        for (int i = 0; i < 16; i += 4) {
            interleave_fours(t[i], t[i + 2], r[i], r[i + 1]);
            interleave_fours(t[i + 1], t[i + 3], r[i + 2], r[i + 3]);
        }
        for (int i = 0; i < 4; ++i) {  // now in each 16 bytes: pair 4 lane + i of 4 rows
            lanes(r[i], r[i + 4], t[i], t[i + 4]);
            lanes(r[i + 8], r[i + 12], t[i + 8], t[i + 12]);
        }
        for (int i = 0; i < 4; ++i) {
            Packed::words out[4];
            lanes(t[i], t[i + 8], out[0], out[2]);
            lanes(t[i + 4], t[i + 12], out[1], out[3]);
            for (int lane = 0; lane < 4; ++lane) stream(out[lane], to + (4 * lane + i) * next);
        }
    }
    /// The even 16 bytes of u and of v, and the odd ones.
    GX_ONEDNN_INLINE static void lanes(const Packed::words& u, const Packed::words& v,
                                       Packed::words& even, Packed::words& odd) {
        using V = Packed::fours;
        const V &a = reinterpret_cast<const V&>(u), &b = reinterpret_cast<const V&>(v);
        reinterpret_cast<V&>(even) = __builtin_shufflevector(a, b, 0, 1, 4, 5, 8, 9, 12, 13);
        reinterpret_cast<V&>(odd) = __builtin_shufflevector(a, b, 2, 3, 6, 7, 10, 11, 14, 15);
    }
};

}  // namespace gx::onednn::detail
