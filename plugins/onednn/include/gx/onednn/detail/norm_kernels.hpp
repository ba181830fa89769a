// norm_kernels: the four passes of batch normalisation over a chunk in blocked layout.
#pragma once

#include <cstdint>  // int64_t

#include <gx/onednn/detail/simd.hpp>  // Vector, add_in_double

namespace gx::onednn::detail {

/// Adds to sum and sum of squares of (x - shift), for each channel of a chunk.
/// Order: four partial sums over the pixels of an image in float, then images in double.
struct NormSums {
    struct Args {
        const float* x;
        std::int64_t image_floats;
        int images, blocks, pixels;
        const float* shift;  // (channels), near the mean: keeps the sums free of cancellation
        double *sum, *squares;
    };
    template <int B>
    GX_ONEDNN_INLINE static void run(const Args& a) {
        using V = typename Vector<B>::type;
        for (int n = 0; n < a.images; ++n) {
            for (int cb = 0; cb < a.blocks; ++cb) {
                const float* x = a.x + n * a.image_floats + std::int64_t{cb} * a.pixels * B;
                const V shift = *reinterpret_cast<const V*>(a.shift + cb * B);
                V s0{}, s1{}, s2{}, s3{}, q0{}, q1{}, q2{}, q3{};
                int p = 0;
                for (; p + 4 <= a.pixels; p += 4, x += 4 * B) {
                    const V d0 = *reinterpret_cast<const V*>(x) - shift;
                    const V d1 = *reinterpret_cast<const V*>(x + B) - shift;
                    const V d2 = *reinterpret_cast<const V*>(x + 2 * B) - shift;
                    const V d3 = *reinterpret_cast<const V*>(x + 3 * B) - shift;
                    s0 += d0, s1 += d1, s2 += d2, s3 += d3;
                    q0 += d0 * d0, q1 += d1 * d1, q2 += d2 * d2, q3 += d3 * d3;
                }
                for (; p < a.pixels; ++p, x += B) {
                    const V d = *reinterpret_cast<const V*>(x) - shift;
                    s0 += d, q0 += d * d;
                }
                const V s = (s0 + s1) + (s2 + s3), q = (q0 + q1) + (q2 + q3);
                add_in_double<B>(s, a.sum + cb * B);
                add_in_double<B>(q, a.squares + cb * B);
            }
        }
    }
};

/// y = scale * x + shift (+ residual), made at least 0 where a ReLU follows; NaN stays NaN.
struct NormApply {
    struct Args {
        const float *x, *residual;  // residual: null when none
        float* y;
        std::int64_t image_floats;
        int images, blocks, pixels;
        const float *scale, *shift;
        bool relu;
    };
    template <int B, bool residual, bool relu>
    GX_ONEDNN_INLINE static void rows(const Args& a) {
        using V = typename Vector<B>::type;
        for (int n = 0; n < a.images; ++n) {
            for (int cb = 0; cb < a.blocks; ++cb) {
                const std::int64_t at = n * a.image_floats + std::int64_t{cb} * a.pixels * B;
                const V scale = *reinterpret_cast<const V*>(a.scale + cb * B);
                const V shift = *reinterpret_cast<const V*>(a.shift + cb * B);
                for (int p = 0; p < a.pixels; ++p) {
                    const std::int64_t i = at + std::int64_t{p} * B;
                    V y = *reinterpret_cast<const V*>(a.x + i) * scale + shift;
                    if constexpr (residual) y += *reinterpret_cast<const V*>(a.residual + i);
                    if constexpr (relu) y = y < V{} ? V{} : y;
                    *reinterpret_cast<V*>(a.y + i) = y;
                }
            }
        }
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

/// g = (g1 + g2) masked, and for each channel the sums of g and g * (x - mean).
struct NormGradientSums {
    struct Args {
        const float *g1, *g2;  // g2: null when there is one gradient
        float* g;              // the masked sum, kept in either case of keeps()
        const float *x, *y;
        std::int64_t image_floats;
        int images, blocks, pixels;
        const float *scale, *shift, *mean;
        double *sum, *products;
        Mask mask;
    };
    /// Whether the masked sum is written to `g`; if not, it is worked out again.
    [[nodiscard]] static constexpr bool keeps(Mask mask, bool two) {
        return two || mask == Mask::from_output;
    }
    template <int B, Mask mask, bool two>
    GX_ONEDNN_INLINE static void rows(const Args& a) {
        using V = typename Vector<B>::type;
        for (int n = 0; n < a.images; ++n) {
            for (int cb = 0; cb < a.blocks; ++cb) {
                const std::int64_t at = n * a.image_floats + std::int64_t{cb} * a.pixels * B;
                const V scale = *reinterpret_cast<const V*>(a.scale + cb * B);
                const V shift = *reinterpret_cast<const V*>(a.shift + cb * B);
                const V mean = *reinterpret_cast<const V*>(a.mean + cb * B);
                V s[4] = {}, q[4] = {};
                const auto one = [&](std::int64_t i, V& sum,
                                     V& product) __attribute__((always_inline)) {
                    const V x = *reinterpret_cast<const V*>(a.x + i);
                    V g = *reinterpret_cast<const V*>(a.g1 + i);
                    if constexpr (two) g += *reinterpret_cast<const V*>(a.g2 + i);
                    if constexpr (mask == Mask::from_input) g = x * scale + shift > V{} ? g : V{};
                    if constexpr (mask == Mask::from_output)
                        g = *reinterpret_cast<const V*>(a.y + i) > V{} ? g : V{};
                    if constexpr (keeps(mask, two)) *reinterpret_cast<V*>(a.g + i) = g;
                    sum += g;
                    product += g * (x - mean);
                };
                int p = 0;
                for (; p + 4 <= a.pixels; p += 4)
                    for (int k = 0; k < 4; ++k) one(at + std::int64_t{p + k} * B, s[k], q[k]);
                for (; p < a.pixels; ++p) one(at + std::int64_t{p} * B, s[0], q[0]);
                const V st = (s[0] + s[1]) + (s[2] + s[3]), qt = (q[0] + q[1]) + (q[2] + q[3]);
                add_in_double<B>(st, a.sum + cb * B);
                add_in_double<B>(qt, a.products + cb * B);
            }
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
struct NormGradientApply {
    struct Args {
        const float *g, *x;
        float* dx;  // may be g
        std::int64_t image_floats;
        int images, blocks, pixels;
        const float *scale, *shift;           // of the forward pass, for the mask
        const float *of_g, *of_x, *constant;  // (channels)
        bool mask;
    };
    template <int B, bool mask>
    GX_ONEDNN_INLINE static void rows(const Args& a) {
        using V = typename Vector<B>::type;
        for (int n = 0; n < a.images; ++n) {
            for (int cb = 0; cb < a.blocks; ++cb) {
                const std::int64_t at = n * a.image_floats + std::int64_t{cb} * a.pixels * B;
                const V scale = *reinterpret_cast<const V*>(a.scale + cb * B);
                const V shift = *reinterpret_cast<const V*>(a.shift + cb * B);
                const V of_g = *reinterpret_cast<const V*>(a.of_g + cb * B);
                const V of_x = *reinterpret_cast<const V*>(a.of_x + cb * B);
                const V constant = *reinterpret_cast<const V*>(a.constant + cb * B);
                for (int p = 0; p < a.pixels; ++p) {
                    const std::int64_t i = at + std::int64_t{p} * B;
                    const V x = *reinterpret_cast<const V*>(a.x + i);
                    V g = *reinterpret_cast<const V*>(a.g + i);
                    if constexpr (mask) g = x * scale + shift > V{} ? g : V{};
                    *reinterpret_cast<V*>(a.dx + i) = g * of_g + (x * of_x + constant);
                }
            }
        }
    }
    template <int B>
    GX_ONEDNN_INLINE static void run(const Args& a) {
        return a.mask ? rows<B, true>(a) : rows<B, false>(a);
    }
};

}  // namespace gx::onednn::detail
