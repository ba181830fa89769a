// concat: joins the channels of several images in the blocked layout, and cuts their gradient.
#pragma once

#include <algorithm>  // copy, fill
#include <cstdint>    // int64_t

#include <gx/core/trivial_vector.hpp>    // parts
#include <gx/onednn/detail/layout.hpp>   // Layout
#include <gx/onednn/detail/program.hpp>  // Step

namespace gx::onednn::detail {

/// Some of the channels of one image.
struct Channels {
    float* image = nullptr;
    Layout layout{};
    int first = 0;
    [[nodiscard]] float* at(int c) const {  // pixel 0; the next one is a block behind
        const std::int64_t block = (first + c) / layout.block;
        return image + block * layout.pixels() * layout.block + (first + c) % layout.block;
    }
};

/// Copies `count` channels; from whole blocks to whole blocks as they lie.
inline void copy_channels(const Channels& from, const Channels& to, int count) {
    const int block = from.layout.block;
    const std::int64_t pixels = from.layout.pixels();
    int c = 0;
    if (from.first % block == 0 && to.first % block == 0 && block == to.layout.block) {
        c = count / block * block;
        std::copy(from.at(0), from.at(0) + c * pixels, to.at(0));
    }
    for (; c < count; ++c) {
        const float* x = from.at(c);
        float* y = to.at(c);
        for (std::int64_t i = 0; i < pixels; ++i) y[i * to.layout.block] = x[i * block];
    }
}

/// Zeroes the channels that pad the last block.
inline void clear_padding(float* image, const Layout& layout) {
    for (int c = layout.shape.channels; c < layout.channels(); ++c) {
        float* x = Channels{image, layout}.at(c);
        for (int i = 0; i < layout.pixels(); ++i) x[std::int64_t{i} * layout.block] = 0;
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
        for (int n = at.first; n < at.first + at.count; ++n) {
            for (const Concat::Part& p : c_.parts)
                copy_channels({p.x->image(n), p.layout, 0}, {c_.y->image(n), c_.layout, p.first},
                              p.layout.shape.channels);
            clear_padding(c_.y->image(n), c_.layout);
        }
    }

private:
    const Concat& c_;
};

/// The gradient of each part, in memory of its own: its readers change it in place.
class ConcatGradientStep : public Step {
public:
    explicit ConcatGradientStep(const Concat& c) : c_(c) {}
    void run(const Run&, const Place& at) override {
        for (int n = at.first; n < at.first + at.count; ++n)
            for (const Concat::Part& p : c_.parts) {
                if (p.dx == nullptr) continue;
                copy_channels({c_.dy->image(n), c_.layout, p.first}, {p.dx->image(n), p.layout, 0},
                              p.layout.shape.channels);
                clear_padding(p.dx->image(n), p.layout);
            }
    }

private:
    const Concat& c_;
};

}  // namespace gx::onednn::detail
