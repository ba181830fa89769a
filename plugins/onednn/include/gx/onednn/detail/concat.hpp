// concat: joins the channels of several images, and cuts their gradient.
#pragma once

#include <algorithm>  // copy, fill
#include <cstdint>    // int64_t

#include <gx/core/trivial_vector.hpp>    // parts
#include <gx/onednn/detail/layout.hpp>   // Layout
#include <gx/onednn/detail/program.hpp>  // Step

namespace gx::onednn::detail {

/// Some of the channels of one image.
template <class E>
struct Channels {
    E* image = nullptr;
    Layout layout{};
    int first = 0;
    Grid grid = layout.grid(1);
    [[nodiscard]] E* at(int c) const {  // pixel 0; the next one is a pixel_stride behind
        return image + (first + c) / layout.block * grid.block_stride + (first + c) % layout.block;
    }
};

/// Copies `count` channels; from whole blocks to whole blocks, or of a pixel, as they lie.
template <class E>
void copy_channels(const Channels<E>& from, const Channels<E>& to, int count) {
    const std::int64_t pixels = from.layout.pixels();
    const std::int64_t step = from.grid.pixel_stride, to_step = to.grid.pixel_stride;
    if (from.layout.channels_last) {
        const E* x = from.at(0);
        for (std::int64_t i = 0; i < pixels; ++i)
            std::copy(x + i * step, x + i * step + count, to.at(0) + i * to_step);
        return;
    }
    const int block = from.layout.block;
    int c = 0;
    if (from.first % block == 0 && to.first % block == 0 && block == to.layout.block) {
        c = count / block * block;
        std::copy(from.at(0), from.at(0) + c * pixels, to.at(0));
    }
    for (; c < count; ++c) {
        const E* x = from.at(c);
        E* y = to.at(c);
        for (std::int64_t i = 0; i < pixels; ++i) y[i * to_step] = x[i * step];
    }
}

/// Zeroes the channels that pad the last block.
template <class E>
void clear_padding(const Channels<E>& all) {
    for (int c = all.layout.shape.channels; c < all.layout.channels(); ++c) {
        E* x = all.at(c);
        for (int i = 0; i < all.layout.pixels(); ++i) x[i * all.grid.pixel_stride] = E{};
    }
}

/// The images that one concat joins, or several where each joins what the one before gave: their
/// channels lie one behind another in `y`.
struct Concat {
    struct Part {
        Buffer* x = nullptr;
        Buffer* dx = nullptr;  ///< null: it needs no gradient
        Layout layout{};
        int first = 0;  ///< channel of y
    };
    TrivialVector<Part> parts{};
    TrivialVector<int> tensors{};  ///< of each part
    Layout layout{};
    Buffer *y = nullptr, *dy = nullptr;
};

class ConcatStep : public Step {
public:
    explicit ConcatStep(const Concat& c) : c_(c) {}
    void run(const Run&, const Place& at) override {
        with_number(c_.y->type, [&]<class E>(E) { join<E>(at); });
    }

private:
    template <class E>
    void join(const Place& at) {
        for (int n = at.first; n < at.first + at.count; ++n) {
            E* y = c_.y->image_of<E>(n);
            for (const Concat::Part& p : c_.parts)
                copy_channels<E>({p.x->image_of<E>(n), p.layout}, {y, c_.layout, p.first},
                                 p.layout.shape.channels);
            clear_padding<E>({y, c_.layout});
        }
    }
    const Concat& c_;
};

/// The gradient of each part, in memory of its own: its readers change it in place.
class ConcatGradientStep : public Step {
public:
    explicit ConcatGradientStep(const Concat& c) : c_(c) {}
    void run(const Run&, const Place& at) override {
        with_number(c_.dy->type, [&]<class E>(E) { cut<E>(at); });
    }

private:
    template <class E>
    void cut(const Place& at) {
        for (int n = at.first; n < at.first + at.count; ++n)
            for (const Concat::Part& p : c_.parts) {
                if (p.dx == nullptr) continue;
                E* dx = p.dx->image_of<E>(n);
                copy_channels<E>({c_.dy->image_of<E>(n), c_.layout, p.first}, {dx, p.layout},
                                 p.layout.shape.channels);
                clear_padding<E>({dx, p.layout});
            }
    }
    const Concat& c_;
};

}  // namespace gx::onednn::detail
