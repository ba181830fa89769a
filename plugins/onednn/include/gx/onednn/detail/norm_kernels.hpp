// norm_kernels: the four passes of batch normalisation over a chunk of images.
#pragma once

#include <cstdint>  // int64_t

#include <gx/onednn/detail/layout.hpp>   // Grid
#include <gx/onednn/detail/numbers.hpp>  // load, store
#include <gx/onednn/detail/simd.hpp>     // Vector, add_in_double

namespace gx::onednn::detail {

/// Adds to sum and sum of squares of (x - shift), for each channel of a chunk.
/// Order: four partial sums over the pixels of an image in float, then images in double.
template <class E>
struct NormSums {
    using number = E;
    struct Args {
        const E* x;
        Grid grid;
        const float* shift;  // (channels), near the mean: keeps the sums free of cancellation
        double *sum, *squares;
    };
    template <int B>
    GX_ONEDNN_INLINE static void run(const Args& a) {
        using V = typename Vector<B>::type;
        const std::int64_t step = a.grid.pixel_stride;
        for (int n = 0; n < a.grid.images; ++n) {
            for (int cb = 0; cb < a.grid.blocks; ++cb) {
                const E* x = a.x + n * a.grid.image_floats + cb * a.grid.block_stride;
                const V shift = *reinterpret_cast<const V*>(a.shift + cb * B);
                V s0{}, s1{}, s2{}, s3{}, q0{}, q1{}, q2{}, q3{}, d0, d1, d2, d3;
                int p = 0;
                for (; p + 4 <= a.grid.pixels; p += 4, x += 4 * step) {
                    load<B>(x, d0), load<B>(x + step, d1);
                    load<B>(x + 2 * step, d2), load<B>(x + 3 * step, d3);
                    d0 -= shift, d1 -= shift, d2 -= shift, d3 -= shift;
                    s0 += d0, s1 += d1, s2 += d2, s3 += d3;
                    q0 += d0 * d0, q1 += d1 * d1, q2 += d2 * d2, q3 += d3 * d3;
                }
                for (; p < a.grid.pixels; ++p, x += step) {
                    load<B>(x, d0);
                    d0 -= shift;
                    s0 += d0, q0 += d0 * d0;
                }
                const V s = (s0 + s1) + (s2 + s3), q = (q0 + q1) + (q2 + q3);
                add_in_double<B>(s, a.sum + cb * B);
                add_in_double<B>(q, a.squares + cb * B);
            }
        }
    }
};

/// Calls f(block of channels, its place, pixels from there on) in the order in which a chunk lies
/// in memory. Channels last, a run is one pixel: one block's pixels lie apart by all channels, and
/// whole cache lines are written only by neighbouring blocks.
template <int B, class F>
GX_ONEDNN_INLINE void each_run(const Grid& grid, F f) {
    const bool last = grid.pixel_stride > B;
    const int runs = last ? grid.pixels : 1, pixels = last ? 1 : grid.pixels;
    for (int n = 0; n < grid.images; ++n)
        for (int r = 0; r < runs; ++r)
            for (int cb = 0; cb < grid.blocks; ++cb)
                f(cb, n * grid.image_floats + r * grid.pixel_stride + cb * grid.block_stride,
                  pixels);
}

/// y = scale * x + shift (+ residual), made at least 0 where a ReLU follows; NaN stays NaN.
template <class E>
struct NormApply {
    using number = E;
    struct Args {
        const E *x, *residual;  // residual: null when none
        E* y;
        Grid grid;
        const float *scale, *shift;
        bool relu;
    };
    template <int B, bool residual, bool relu>
    GX_ONEDNN_INLINE static void rows(const Args& a) {
        using V = typename Vector<B>::type;
        each_run<B>(a.grid, [&](int cb, std::int64_t i, int pixels) __attribute__((always_inline)) {
            const V scale = *reinterpret_cast<const V*>(a.scale + cb * B);
            const V shift = *reinterpret_cast<const V*>(a.shift + cb * B);
            V x, add;
            for (int p = 0; p < pixels; ++p, i += a.grid.pixel_stride) {
                load<B>(a.x + i, x);
                V y = x * scale + shift;
                if constexpr (residual) load<B>(a.residual + i, add), y += add;
                if constexpr (relu) y = y < V{} ? V{} : y;
                store<B>(y, a.y + i);
            }
        });
    }
    template <int B>
    GX_ONEDNN_INLINE static void run(const Args& a) {
        if (a.residual != nullptr) return a.relu ? rows<B, true, true>(a) : rows<B, true, false>(a);
        return a.relu ? rows<B, false, true>(a) : rows<B, false, false>(a);
    }
};

/// Which elements of a gradient pass the ReLU that follows a normalisation.
enum class Mask : unsigned char {
    none,
    from_input,  ///< scale * x + shift > 0, worked out again: one pass over memory less
    from_output  ///< y > 0
};

/// Whether NormGradientSums writes the masked sum to `g`; if not, it is worked out again.
[[nodiscard]] constexpr bool keeps_masked_sum(Mask mask, bool two) {
    return two || mask == Mask::from_output;
}

/// g = (g1 + g2) masked, and for each channel the sums of g and g * (x - mean).
template <class E>
struct NormGradientSums {
    using number = E;
    struct Args {
        const E *g1, *g2;  // g2: null when there is one gradient
        E* g;              // the masked sum, kept where keeps_masked_sum()
        const E *x, *y;
        Grid grid;
        const float *scale, *shift, *mean;
        double *sum, *products;
        Mask mask;
    };
    /// `wide` blocks of channels side by side, from block `cb` of an image on.
    template <int B, Mask mask, bool two, int wide>
    GX_ONEDNN_INLINE static void blocks(const Args& a, int n, int cb) {
        using V = typename Vector<B>::type;
        V s[wide][4] = {}, q[wide][4] = {};
        const auto one = [&](int b, int k, std::int64_t i) __attribute__((always_inline)) {
            V x, g, other;
            const int c = (cb + b) * B;
            load<B>(a.x + i, x), load<B>(a.g1 + i, g);
            if constexpr (two) {
                load<B>(a.g2 + i, other);
                g += other;
                round_as<E, B>(g);
            }
            if constexpr (mask == Mask::from_input) {
                const V scale = *reinterpret_cast<const V*>(a.scale + c);
                const V shift = *reinterpret_cast<const V*>(a.shift + c);
                g = x * scale + shift > V{} ? g : V{};
            }
            if constexpr (mask == Mask::from_output) {
                load<B>(a.y + i, other);
                g = other > V{} ? g : V{};
            }
            if constexpr (keeps_masked_sum(mask, two)) store<B>(g, a.g + i);
            s[b][k] += g;
            q[b][k] += g * (x - *reinterpret_cast<const V*>(a.mean + c));
        };
        std::int64_t i = n * a.grid.image_floats + cb * a.grid.block_stride;
        const auto pixel = [&](int k) __attribute__((always_inline)) {
            for (int b = 0; b < wide; ++b) one(b, k, i + b * a.grid.block_stride);
            i += a.grid.pixel_stride;
        };
        int p = 0;
        for (; p + 4 <= a.grid.pixels; p += 4)
            for (int k = 0; k < 4; ++k) pixel(k);
        for (; p < a.grid.pixels; ++p) pixel(0);
        for (int b = 0; b < wide; ++b) {
            const V st = (s[b][0] + s[b][1]) + (s[b][2] + s[b][3]);
            const V qt = (q[b][0] + q[b][1]) + (q[b][2] + q[b][3]);
            add_in_double<B>(st, a.sum + (cb + b) * B);
            add_in_double<B>(qt, a.products + (cb + b) * B);
        }
    }
    /// Channels last, blocks side by side fill cache lines; else each lies in one piece.
    template <int B, Mask mask, bool two>
    GX_ONEDNN_INLINE static void rows(const Args& a) {
        const int wide = a.grid.pixel_stride > B ? 4 : 1;
        for (int n = 0; n < a.grid.images; ++n) {
            int cb = 0;
            for (; wide == 4 && cb + 4 <= a.grid.blocks; cb += 4) blocks<B, mask, two, 4>(a, n, cb);
            for (; cb < a.grid.blocks; ++cb) blocks<B, mask, two, 1>(a, n, cb);
        }
    }
    template <int B, Mask mask>
    GX_ONEDNN_INLINE static void masked(const Args& a) {
        a.g2 != nullptr ? rows<B, mask, true>(a) : rows<B, mask, false>(a);
    }
    template <int B>
    GX_ONEDNN_INLINE static void run(const Args& a) {
        if (a.mask == Mask::none) return masked<B, Mask::none>(a);
        if (a.mask == Mask::from_input) return masked<B, Mask::from_input>(a);
        return masked<B, Mask::from_output>(a);
    }
};

/// dx = of_g * (g masked) + of_x * x + constant, for each channel.
template <class E>
struct NormGradientApply {
    using number = E;
    struct Args {
        const E *g, *x;
        E* dx;  // may be g
        Grid grid;
        const float *scale, *shift;           // of the forward pass, for the mask
        const float *of_g, *of_x, *constant;  // (channels)
        bool mask;
    };
    template <int B, bool mask>
    GX_ONEDNN_INLINE static void rows(const Args& a) {
        using V = typename Vector<B>::type;
        each_run<B>(a.grid, [&](int cb, std::int64_t i, int pixels) __attribute__((always_inline)) {
            const V scale = *reinterpret_cast<const V*>(a.scale + cb * B);
            const V shift = *reinterpret_cast<const V*>(a.shift + cb * B);
            const V of_g = *reinterpret_cast<const V*>(a.of_g + cb * B);
            const V of_x = *reinterpret_cast<const V*>(a.of_x + cb * B);
            const V constant = *reinterpret_cast<const V*>(a.constant + cb * B);
            V x, g;
            for (int p = 0; p < pixels; ++p, i += a.grid.pixel_stride) {
                load<B>(a.x + i, x), load<B>(a.g + i, g);
                if constexpr (mask) g = x * scale + shift > V{} ? g : V{};
                const V dx = g * of_g + (x * of_x + constant);
                store<B>(dx, a.dx + i);
            }
        });
    }
    template <int B>
    GX_ONEDNN_INLINE static void run(const Args& a) {
        return a.mask ? rows<B, true>(a) : rows<B, false>(a);
    }
};

}  // namespace gx::onednn::detail
