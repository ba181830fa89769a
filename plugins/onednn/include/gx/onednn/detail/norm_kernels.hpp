// norm_kernels: the four passes of batch normalisation over a chunk of images.
#pragma once

#include <algorithm>    // min
#include <cstdint>      // int64_t
#include <type_traits>  // integral_constant

#include <gx/onednn/detail/layout.hpp>   // Grid
#include <gx/onednn/detail/numbers.hpp>  // load, store
#include <gx/onednn/detail/simd.hpp>     // Vector, add_in_double

namespace gx::onednn::detail {

/// Whether a chunk lies in memory pixel after pixel, more than one block each.
template <class E, int B>
[[nodiscard]] constexpr bool in_rows(const Grid& grid) {
    return sizeof(E) < sizeof(float) && grid.pixel_stride > B;
}

/// Asks for what lies 2 KiB further on. In bf16 the passes wait for memory, and the CPU's own
/// prefetching begins anew at each page of 4 KiB.
template <class E>
GX_ONEDNN_INLINE void ask_ahead(const E* from) {
    if constexpr (sizeof(E) < sizeof(float)) __builtin_prefetch(from + 2048 / sizeof(E));
}
/// As load(), where all of an array is read.
template <int B, class E>
GX_ONEDNN_INLINE void load_next(const E* from, typename Vector<B>::type& to) {
    ask_ahead(from);
    load<B>(from, to);
}

template <int count>
using Pixels = std::integral_constant<int, count>;
/// Calls f(k) for each of 1 or 4 pixels: -O2 unrolls no loop, and then keeps arrays in memory.
template <int count, class F>
GX_ONEDNN_INLINE void each_pixel(F f) {
    f(0);
    if constexpr (count == 4) f(1), f(2), f(3);
}

/// Adds to `first` and `second` what terms() gives for each channel of a chunk. Called as
/// terms(Pixels<4 or 1>, channel, place, two vectors to set), for a chunk in_rows(). It walks in
/// the order of memory, with the sums of an image in the L1 cache: pixels of a block lie apart by
/// all channels, often a power of two.
/// Order: sums of four pixels, then these one after another in float, then images in double.
template <int B, class Terms>
GX_ONEDNN_INLINE void sum_rows(const Grid& grid, double* first, double* second, Terms terms) {
    using V = typename Vector<B>::type;
    constexpr int most = 64;  // blocks
    alignas(64) V s[most], q[most];
    V s4, q4;
    for (int n = 0; n < grid.images; ++n)
        for (int begin = 0; begin < grid.blocks; begin += most) {
            const int blocks = std::min(most, grid.blocks - begin);
            for (int b = 0; b < blocks; ++b) s[b] = q[b] = V{};
            std::int64_t row = n * grid.image_floats + begin * B;
            const auto add = [&](auto pixels) __attribute__((always_inline)) {
                for (int b = 0; b < blocks; ++b) {
                    terms(pixels, (begin + b) * B, row + b * B, s4, q4);
                    s[b] += s4, q[b] += q4;
                }
                row += pixels * grid.pixel_stride;
            };
            int p = 0;
            for (; p + 4 <= grid.pixels; p += 4) add(Pixels<4>{});
            for (; p < grid.pixels; ++p) add(Pixels<1>{});
            for (int b = 0; b < blocks; ++b) {
                add_in_double<B>(s[b], first + (begin + b) * B);
                add_in_double<B>(q[b], second + (begin + b) * B);
            }
        }
}

/// sum = of a; products = of a * b; over 1 or 4 pixels.
template <int B, int count>
GX_ONEDNN_INLINE void sum_pixels(const typename Vector<B>::type (&a)[count],
                                 const typename Vector<B>::type (&b)[count],
                                 typename Vector<B>::type& sum,
                                 typename Vector<B>::type& products) {
    if constexpr (count == 1) {
        sum = a[0], products = a[0] * b[0];
    } else {
        sum = (a[0] + a[1]) + (a[2] + a[3]);
        products = (a[0] * b[0] + a[1] * b[1]) + (a[2] * b[2] + a[3] * b[3]);
    }
}

/// Adds to sum and sum of squares of (x - shift), for each channel of a chunk.
/// Order: four partial sums over the pixels of an image in float, then images in double;
///        channels last, as sum_rows().
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
    GX_ONEDNN_INLINE static void in_order(const Args a) {
        using V = typename Vector<B>::type;
        sum_rows<B>(a.grid, a.sum, a.squares,
                    [&]<int count>(Pixels<count>, int c, std::int64_t i, V& s, V& q)
                        __attribute__((always_inline)) {
                            const V shift = *reinterpret_cast<const V*>(a.shift + c);
                            V d[count];
                            each_pixel<count>([&](int k) __attribute__((always_inline)) {
                                load_next<B>(a.x + i + k * a.grid.pixel_stride, d[k]);
                                d[k] -= shift;
                            });
                            sum_pixels<B>(d, d, s, q);
                        });
    }
    template <int B>
    GX_ONEDNN_INLINE static void run(const Args& a) {
        if (in_rows<E, B>(a.grid)) return in_order<B>(a);
        using V = typename Vector<B>::type;
        const std::int64_t step = a.grid.pixel_stride;
        for (int n = 0; n < a.grid.images; ++n) {
            for (int cb = 0; cb < a.grid.blocks; ++cb) {
                const E* x = a.x + n * a.grid.image_floats + cb * a.grid.block_stride;
                const V shift = *reinterpret_cast<const V*>(a.shift + cb * B);
                V s0{}, s1{}, s2{}, s3{}, q0{}, q1{}, q2{}, q3{}, d0, d1, d2, d3;
                int p = 0;
                for (; p + 4 <= a.grid.pixels; p += 4, x += 4 * step) {
                    load_next<B>(x, d0), load_next<B>(x + step, d1);
                    load_next<B>(x + 2 * step, d2), load_next<B>(x + 3 * step, d3);
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

/// Calls f for each run of a chunk, in the order of memory. As f(block of channels, its place,
/// pixels from there on). Channels last, a run is one pixel: one block's pixels lie apart by all
/// channels, and whole cache lines are written only by neighbouring blocks.
template <int B, class F>
GX_ONEDNN_INLINE void each_run(const Grid& grid, F f) {
    if (grid.pixel_stride > B) {
        std::int64_t i = 0;
        for (std::int64_t row = std::int64_t{grid.images} * grid.pixels; row > 0; --row)
            for (int cb = 0; cb < grid.blocks; ++cb, i += B) f(cb, i, Pixels<1>{});
        return;
    }
    for (int n = 0; n < grid.images; ++n)
        for (int cb = 0; cb < grid.blocks; ++cb)
            f(cb, n * grid.image_floats + cb * grid.block_stride, grid.pixels);
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
    GX_ONEDNN_INLINE static void rows(const Args a) {
        using V = typename Vector<B>::type;
        each_run<B>(a.grid,
                    [&](int cb, std::int64_t i, auto pixels) __attribute__((always_inline)) {
                        const V scale = *reinterpret_cast<const V*>(a.scale + cb * B);
                        const V shift = *reinterpret_cast<const V*>(a.shift + cb * B);
                        V x, add;
                        for (int p = 0; p < pixels; ++p, i += a.grid.pixel_stride) {
                            ask_ahead(a.y + i);
                            load_next<B>(a.x + i, x);
                            V y = x * scale + shift;
                            if constexpr (residual) load_next<B>(a.residual + i, add), y += add;
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

/// g = (g1 + g2) masked. For each channel, the sums of g and g * (x - mean).
/// Order: as NormSums.
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
    /// g and x - mean of B channels from `c` on, which lie at `i`.
    template <int B, Mask mask, bool two>
    GX_ONEDNN_INLINE static void one(const Args& a, int c, std::int64_t i,
                                     typename Vector<B>::type& g, typename Vector<B>::type& x) {
        using V = typename Vector<B>::type;
        V other;
        load_next<B>(a.x + i, x), load_next<B>(a.g1 + i, g);
        if constexpr (two) {
            load_next<B>(a.g2 + i, other);
            g += other;
            round_as<E, B>(g);
        }
        if constexpr (mask == Mask::from_input) {
            const V scale = *reinterpret_cast<const V*>(a.scale + c);
            const V shift = *reinterpret_cast<const V*>(a.shift + c);
            g = x * scale + shift > V{} ? g : V{};
        }
        if constexpr (mask == Mask::from_output) {
            load_next<B>(a.y + i, other);
            g = other > V{} ? g : V{};
        }
        x -= *reinterpret_cast<const V*>(a.mean + c);
    }
    template <int B, Mask mask, bool two>
    GX_ONEDNN_INLINE static void in_order(const Args a) {
        using V = typename Vector<B>::type;
        const std::int64_t step = a.grid.pixel_stride;
        sum_rows<B>(a.grid, a.sum, a.products,
                    [&]<int count>(Pixels<count>, int c, std::int64_t i, V& s, V& q)
                        __attribute__((always_inline)) {
                            V g[count], x[count];
                            each_pixel<count>([&](int k) __attribute__((always_inline)) {
                                one<B, mask, two>(a, c, i + k * step, g[k], x[k]);
                            });
                            each_pixel<count>([&](int k) __attribute__((always_inline)) {
                                if constexpr (keeps_masked_sum(mask, two))
                                    store<B>(g[k], a.g + i + k * step);
                            });
                            sum_pixels<B>(g, x, s, q);
                        });
    }
    template <int B, Mask mask, bool two>
    GX_ONEDNN_INLINE static void rows(const Args& a) {
        if (in_rows<E, B>(a.grid)) return in_order<B, mask, two>(a);
        using V = typename Vector<B>::type;
        for (int n = 0; n < a.grid.images; ++n)
            for (int cb = 0; cb < a.grid.blocks; ++cb) {
                V s[4] = {}, q[4] = {}, g, x;
                std::int64_t i = n * a.grid.image_floats + cb * a.grid.block_stride;
                const auto pixel = [&](int k) __attribute__((always_inline)) {
                    one<B, mask, two>(a, cb * B, i, g, x);
                    if constexpr (keeps_masked_sum(mask, two)) store<B>(g, a.g + i);
                    s[k] += g, q[k] += g * x;
                    i += a.grid.pixel_stride;
                };
                int p = 0;
                for (; p + 4 <= a.grid.pixels; p += 4)
                    for (int k = 0; k < 4; ++k) pixel(k);
                for (; p < a.grid.pixels; ++p) pixel(0);
                add_in_double<B>((s[0] + s[1]) + (s[2] + s[3]), a.sum + cb * B);
                add_in_double<B>((q[0] + q[1]) + (q[2] + q[3]), a.products + cb * B);
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
    GX_ONEDNN_INLINE static void rows(const Args a) {
        using V = typename Vector<B>::type;
        each_run<B>(a.grid,
                    [&](int cb, std::int64_t i, auto pixels) __attribute__((always_inline)) {
                        const V scale = *reinterpret_cast<const V*>(a.scale + cb * B);
                        const V shift = *reinterpret_cast<const V*>(a.shift + cb * B);
                        const V of_g = *reinterpret_cast<const V*>(a.of_g + cb * B);
                        const V of_x = *reinterpret_cast<const V*>(a.of_x + cb * B);
                        const V constant = *reinterpret_cast<const V*>(a.constant + cb * B);
                        V x, g;
                        for (int p = 0; p < pixels; ++p, i += a.grid.pixel_stride) {
                            load_next<B>(a.x + i, x), load_next<B>(a.g + i, g);
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
