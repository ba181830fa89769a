// pooling: largest or mean of a window, forward and backward.
#pragma once

#include <algorithm>  // max, min
#include <cstdint>    // int64_t
#include <limits>     // infinity

#include <gx/onednn/detail/layout.hpp>   // Layout, Grid
#include <gx/onednn/detail/numbers.hpp>  // load, store
#include <gx/onednn/detail/program.hpp>  // Step

namespace gx::onednn::detail {

template <class E>
struct PoolArgs {
    const E* x;    // forward: input
    E* y;          // forward: output
    const E* dy;   // backward
    E* dx;         // backward
    float* place;  // max: which pixel of the input won, as a float; laid out as y
    Grid in, out;
    int in_height, in_width, out_height, out_width;
    Window window;
};

/// The pixels of the input in a window of the output, clipped to the image.
struct Clipped {
    int h0, h1, w0, w1;
    template <class E>
    GX_ONEDNN_INLINE Clipped(const PoolArgs<E>& a, int oh, int ow) {
        const int h = oh * a.window.stride - a.window.pad_height;
        const int w = ow * a.window.stride - a.window.pad_width;
        h0 = h < 0 ? 0 : h, h1 = std::min(a.in_height, h + a.window.height);
        w0 = w < 0 ? 0 : w, w1 = std::min(a.in_width, w + a.window.width);
    }
    [[nodiscard]] int pixels() const { return (h1 - h0) * (w1 - w0); }
};

/// Calls f(image, block, row) for the rows of pixels of all blocks, in the order of memory:
/// channels last, a row has all blocks side by side, else it lies in one block.
template <class F>
GX_ONEDNN_INLINE void for_each_row(const Grid& grid, int rows, F&& f) {
    const bool last = grid.block_stride < grid.pixel_stride;
    for (int n = 0; n < grid.images; ++n)
        for (int i = 0; i < rows * grid.blocks; ++i)
            last ? f(n, i % grid.blocks, i / grid.blocks) : f(n, i / rows, i % rows);
}
/// Calls f(image and block of the input, and of the output, as offsets in numbers; output pixel,
/// its window).
template <class E, class F>
GX_ONEDNN_INLINE void for_each_window(const PoolArgs<E>& a, F&& f) {
    for_each_row(a.out, a.out_height, [&](int n, int cb, int oh) __attribute__((always_inline)) {
        for (int ow = 0; ow < a.out_width; ++ow)
            f(n * a.in.image_floats + cb * a.in.block_stride,
              n * a.out.image_floats + cb * a.out.block_stride, oh * a.out_width + ow,
              Clipped(a, oh, ow));
    });
}
/// Calls begin(), add() and end() for each pixel of the input. add(offset of the output, its pixel,
/// row and column) comes for each window that the pixel is in, then end(offset of the input,
/// pixel).
template <class E, class Begin, class Add, class End>
GX_ONEDNN_INLINE void for_each_pixel(const PoolArgs<E>& a, Begin&& begin, Add&& add, End&& end) {
    const Window& k = a.window;
    const auto first = [&](int at, int size) __attribute__((always_inline)) {
        return at < size ? 0 : (at - size) / k.stride + 1;
    };
    for_each_row(a.in, a.in_height, [&](int n, int cb, int h) __attribute__((always_inline)) {
        const std::int64_t in = n * a.in.image_floats + cb * a.in.block_stride;
        const std::int64_t out = n * a.out.image_floats + cb * a.out.block_stride;
        const int oh0 = first(h + k.pad_height, k.height);
        const int oh1 = std::min(a.out_height, (h + k.pad_height) / k.stride + 1);
        for (int w = 0; w < a.in_width; ++w) {
            const int ow0 = first(w + k.pad_width, k.width);
            const int ow1 = std::min(a.out_width, (w + k.pad_width) / k.stride + 1);
            begin(h * a.in_width + w);
            for (int oh = oh0; oh < oh1; ++oh)
                for (int ow = ow0; ow < ow1; ++ow) add(out, oh * a.out_width + ow, oh, ow);
            end(in, h * a.in_width + w);
        }
    });
}

/// Order: of equal values the first in row-major order wins, and gets the gradient; the first NaN
///        wins over all.
template <class E>
struct MaxPool {
    using number = E;
    template <int B>
    GX_ONEDNN_INLINE static void run(const PoolArgs<E>& a) {
        using V = typename Vector<B>::type;
        for_each_window(a, [&](std::int64_t in, std::int64_t out, int o,
                               const Clipped& c) __attribute__((always_inline)) {
            V best = V{} - std::numeric_limits<float>::infinity(), place = V{} - 1.0f, v;
            for (int h = c.h0; h < c.h1; ++h) {
                for (int w = c.w0; w < c.w1; ++w) {
                    const int i = h * a.in_width + w;
                    load<B>(a.x + in + i * a.in.pixel_stride, v);
                    const V here = V{} + static_cast<float>(i);
                    if (h == c.h0 && w == c.w0) {
                        best = v, place = here;
                        continue;
                    }
                    V value = v <= best ? best : v, at = v <= best ? place : here;
                    forget<B>(value), forget<B>(at);
                    place = best == best ? at : place;
                    best = best == best ? value : best;
                }
            }
            store<B>(best, a.y + out + o * a.out.pixel_stride);
            store<B>(place, a.place + out + o * a.out.pixel_stride);
        });
    }
};

/// Order: a pixel's gradient sums over the windows that it won, in row-major order.
template <class E>
struct MaxPoolGradient {
    using number = E;
    template <int B>
    GX_ONEDNN_INLINE static void run(const PoolArgs<E>& a) {
        using V = typename Vector<B>::type;
        V sum, g, place, here;
        for_each_pixel(
            a,
            [&](int i)
                __attribute__((always_inline)) { sum = V{}, here = V{} + static_cast<float>(i); },
            [&](std::int64_t out, int o, int, int) __attribute__((always_inline)) {
                load<B>(a.dy + out + o * a.out.pixel_stride, g);
                load<B>(a.place + out + o * a.out.pixel_stride, place);
                sum += place == here ? g : V{};
            },
            [&](std::int64_t in, int i) __attribute__((always_inline)) {
                store<B>(sum, a.dx + in + i * a.in.pixel_stride);
            });
    }
};

/// What the sum over a window is divided by: its pixels inside the image, or all of them.
template <class E>
GX_ONEDNN_INLINE float divisor(const PoolArgs<E>& a, const Clipped& c) {
    const int pixels = a.window.counts_padding ? a.window.height * a.window.width : c.pixels();
    return static_cast<float>(std::max(1, pixels));
}

/// Mean over the part of the window inside the image, or that sum divided by the whole window.
template <class E>
struct AvgPool {
    using number = E;
    template <int B>
    GX_ONEDNN_INLINE static void run(const PoolArgs<E>& a) {
        using V = typename Vector<B>::type;
        for_each_window(a, [&](std::int64_t in, std::int64_t out, int o,
                               const Clipped& c) __attribute__((always_inline)) {
            V sum{}, v;
            for (int h = c.h0; h < c.h1; ++h)
                for (int w = c.w0; w < c.w1; ++w) {
                    load<B>(a.x + in + (h * a.in_width + w) * a.in.pixel_stride, v);
                    sum += v;
                }
            const V mean = sum / divisor(a, c);
            store<B>(mean, a.y + out + o * a.out.pixel_stride);
        });
    }
};

/// Order: as MaxPoolGradient's.
template <class E>
struct AvgPoolGradient {
    using number = E;
    template <int B>
    GX_ONEDNN_INLINE static void run(const PoolArgs<E>& a) {
        using V = typename Vector<B>::type;
        V sum, g;
        for_each_pixel(
            a, [&](int) __attribute__((always_inline)) { sum = V{}; },
            [&](std::int64_t out, int o, int oh, int ow) __attribute__((always_inline)) {
                load<B>(a.dy + out + o * a.out.pixel_stride, g);
                sum += g / divisor(a, Clipped(a, oh, ow));
            },
            [&](std::int64_t in, int i) __attribute__((always_inline)) {
                store<B>(sum, a.dx + in + i * a.in.pixel_stride);
            });
    }
};

struct Pool {
    bool largest = false;
    Window window{};
    Layout in{}, out{};
    const Buffer *x = nullptr, *y = nullptr, *place = nullptr;
    Buffer *dy = nullptr, *dx = nullptr;

    template <class E>
    [[nodiscard]] PoolArgs<E> args(const Place& at) const {
        PoolArgs<E> a{};
        a.in = in.grid(at.count), a.out = out.grid(at.count), a.window = window;
        a.in_height = in.shape.height, a.in_width = in.shape.width;
        a.out_height = out.shape.height, a.out_width = out.shape.width;
        if (place != nullptr) a.place = place->image(at.first);
        return a;
    }
};

class PoolStep : public Step {
public:
    explicit PoolStep(const Pool& p) : p_(p) {}
    void run(const Run&, const Place& at) override {
        with_number(p_.x->type, [&]<class E>(E) {
            PoolArgs<E> a = p_.args<E>(at);
            a.x = p_.x->image_of<E>(at.first), a.y = p_.y->image_of<E>(at.first);
            p_.largest ? run_kernel<MaxPool<E>>(a) : run_kernel<AvgPool<E>>(a);
        });
    }

private:
    const Pool& p_;
};

class PoolGradientStep : public Step {
public:
    explicit PoolGradientStep(const Pool& p) : p_(p) {}
    void run(const Run&, const Place& at) override {
        with_number(p_.dy->type, [&]<class E>(E) {
            PoolArgs<E> a = p_.args<E>(at);
            a.dy = p_.dy->image_of<E>(at.first), a.dx = p_.dx->image_of<E>(at.first);
            p_.largest ? run_kernel<MaxPoolGradient<E>>(a) : run_kernel<AvgPoolGradient<E>>(a);
        });
    }

private:
    const Pool& p_;
};

}  // namespace gx::onednn::detail
