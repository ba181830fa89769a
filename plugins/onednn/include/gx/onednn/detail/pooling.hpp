// pooling: largest or mean of a window, blocked layout, forward and backward.
#pragma once

#include <cstdint>  // int64_t
#include <limits>   // infinity

#include <gx/onednn/detail/layout.hpp>   // Layout
#include <gx/onednn/detail/program.hpp>  // Step

namespace gx::onednn::detail {

struct PoolArgs {
    const float* x;   // forward: input
    float* y;         // forward: output
    const float* dy;  // backward
    float* dx;        // backward
    float* place;     // max: which position of the window won, as a float
    std::int64_t in_floats, out_floats;
    int images, blocks, in_height, in_width, out_height, out_width;
    Window window;
};

/// Calls f(output pixel, its rows and columns of the input clipped to the image).
template <class F>
GX_ONEDNN_INLINE void for_each_window(const PoolArgs& a, F&& f) {
    for (int oh = 0; oh < a.out_height; ++oh) {
        for (int ow = 0; ow < a.out_width; ++ow) {
            const int h = oh * a.window.stride - a.window.pad_height;
            const int w = ow * a.window.stride - a.window.pad_width;
            f(oh * a.out_width + ow, h < 0 ? 0 : h, std::min(a.in_height, h + a.window.height),
              w < 0 ? 0 : w, std::min(a.in_width, w + a.window.width));
        }
    }
}

/// Order: of equal values the first in row-major order wins, and gets the gradient.
struct MaxPool {
    template <int B>
    GX_ONEDNN_INLINE static void run(const PoolArgs& a) {
        using V = typename Vector<B>::type;
        for (int n = 0; n < a.images; ++n) {
            for (int cb = 0; cb < a.blocks; ++cb) {
                const float* x =
                    a.x + n * a.in_floats + std::int64_t{cb} * a.in_height * a.in_width * B;
                const std::int64_t out =
                    n * a.out_floats + std::int64_t{cb} * a.out_height * a.out_width * B;
                for_each_window(a, [&](int o, int h0, int h1, int w0,
                                       int w1) __attribute__((always_inline)) {
                    V best = V{} - std::numeric_limits<float>::infinity(), place = V{} - 1.0f;
                    for (int h = h0; h < h1; ++h) {
                        for (int w = w0; w < w1; ++w) {
                            const int i = h * a.in_width + w;
                            const V v = *reinterpret_cast<const V*>(x + std::int64_t{i} * B);
                            const V here = V{} + static_cast<float>(i);
                            const auto wins = (v > best) | (v != v) | (place < V{});  // NaN spreads
                            const auto open = best == best;
                            place = (wins & open) ? here : place;
                            best = (wins & open) ? v : best;
                        }
                    }
                    *reinterpret_cast<V*>(a.y + out + std::int64_t{o} * B) = best;
                    *reinterpret_cast<V*>(a.place + out + std::int64_t{o} * B) = place;
                });
            }
        }
    }
};

struct MaxPoolGradient {
    template <int B>
    GX_ONEDNN_INLINE static void run(const PoolArgs& a) {
        using V = typename Vector<B>::type;
        for (std::int64_t i = 0; i < a.images * a.in_floats; i += B)
            *reinterpret_cast<V*>(a.dx + i) = V{};
        for (int n = 0; n < a.images; ++n) {
            for (int cb = 0; cb < a.blocks; ++cb) {
                float* dx =
                    a.dx + n * a.in_floats + std::int64_t{cb} * a.in_height * a.in_width * B;
                const std::int64_t out =
                    n * a.out_floats + std::int64_t{cb} * a.out_height * a.out_width * B;
                for (int o = 0; o < a.out_height * a.out_width; ++o) {
                    const float* g = a.dy + out + std::int64_t{o} * B;
                    const float* place = a.place + out + std::int64_t{o} * B;
                    for (int c = 0; c < B; ++c)
                        if (place[c] >= 0) dx[static_cast<std::int64_t>(place[c]) * B + c] += g[c];
                }
            }
        }
    }
};

/// What the sum over a window is divided by, of which `rows` x `columns` lie inside the image.
GX_ONEDNN_INLINE int divisor(const Window& w, int rows, int columns) {
    return w.counts_padding ? w.height * w.width : std::max(1, rows * columns);
}

/// Mean over the part of the window inside the image, or that sum divided by the whole window.
struct AvgPool {
    template <int B>
    GX_ONEDNN_INLINE static void run(const PoolArgs& a) {
        using V = typename Vector<B>::type;
        for (int n = 0; n < a.images; ++n) {
            for (int cb = 0; cb < a.blocks; ++cb) {
                const float* x =
                    a.x + n * a.in_floats + std::int64_t{cb} * a.in_height * a.in_width * B;
                float* y =
                    a.y + n * a.out_floats + std::int64_t{cb} * a.out_height * a.out_width * B;
                for_each_window(
                    a, [&](int o, int h0, int h1, int w0, int w1) __attribute__((always_inline)) {
                        V sum{};
                        for (int h = h0; h < h1; ++h)
                            for (int w = w0; w < w1; ++w)
                                sum += *reinterpret_cast<const V*>(
                                    x + (std::int64_t{h} * a.in_width + w) * B);
                        const int inside = divisor(a.window, h1 - h0, w1 - w0);
                        *reinterpret_cast<V*>(y + std::int64_t{o} * B) =
                            sum / static_cast<float>(inside);
                    });
            }
        }
    }
};

struct AvgPoolGradient {
    template <int B>
    GX_ONEDNN_INLINE static void run(const PoolArgs& a) {
        using V = typename Vector<B>::type;
        for (std::int64_t i = 0; i < a.images * a.in_floats; i += B)
            *reinterpret_cast<V*>(a.dx + i) = V{};
        for (int n = 0; n < a.images; ++n) {
            for (int cb = 0; cb < a.blocks; ++cb) {
                float* dx =
                    a.dx + n * a.in_floats + std::int64_t{cb} * a.in_height * a.in_width * B;
                const float* dy =
                    a.dy + n * a.out_floats + std::int64_t{cb} * a.out_height * a.out_width * B;
                for_each_window(a, [&](int o, int h0, int h1, int w0,
                                       int w1) __attribute__((always_inline)) {
                    const int inside = divisor(a.window, h1 - h0, w1 - w0);
                    const V g = *reinterpret_cast<const V*>(dy + std::int64_t{o} * B) /
                                static_cast<float>(inside);
                    for (int h = h0; h < h1; ++h)
                        for (int w = w0; w < w1; ++w)
                            *reinterpret_cast<V*>(dx + (std::int64_t{h} * a.in_width + w) * B) += g;
                });
            }
        }
    }
};

struct Pool {
    bool largest = false;
    Window window{};
    Layout in{}, out{};
    const Buffer *x = nullptr, *y = nullptr, *place = nullptr;
    Buffer *dy = nullptr, *dx = nullptr;

    [[nodiscard]] PoolArgs args(const Place& at) const {
        PoolArgs a{};
        a.in_floats = in.floats(), a.out_floats = out.floats(), a.images = at.count;
        a.blocks = in.channels() / in.block, a.window = window;
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
        PoolArgs a = p_.args(at);
        a.x = p_.x->image(at.first), a.y = p_.y->image(at.first);
        p_.largest ? run_kernel<MaxPool>(a) : run_kernel<AvgPool>(a);
    }

private:
    const Pool& p_;
};

class PoolGradientStep : public Step {
public:
    explicit PoolGradientStep(const Pool& p) : p_(p) {}
    void run(const Run&, const Place& at) override {
        PoolArgs a = p_.args(at);
        a.dy = p_.dy->image(at.first), a.dx = p_.dx->image(at.first);
        p_.largest ? run_kernel<MaxPoolGradient>(a) : run_kernel<AvgPoolGradient>(a);
    }

private:
    const Pool& p_;
};

}  // namespace gx::onednn::detail
