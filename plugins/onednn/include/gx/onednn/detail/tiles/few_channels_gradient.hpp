// few_channels_gradient: the weight gradient of a first layer, whose images have few channels.
#pragma once

#include <algorithm>  // copy_n, fill_n
#include <cstddef>    // byte
#include <cstdint>    // int64_t

#include <gx/core/cold.hpp>                            // GX_COLD
#include <gx/model/graph.hpp>                          // Window
#include <gx/onednn/detail/layout.hpp>                 // Layout
#include <gx/onednn/detail/numbers.hpp>                // Bf16
#include <gx/onednn/detail/tiles/weight_gradient.hpp>  // TileWeightGradient

namespace gx::onednn::detail {

/// The gradient dw (k, r, s, c) of TileWeightGradient for rows of few numbers. A row of the window
/// has at most 32: these lie one behind the other, and are the channels of a window of one column.
/// Rows of x are copied first, with zeros for padding.
class FewChannelsWeightGradient {
public:
    GX_COLD FewChannelsWeightGradient(const Layout& x, const Layout& dy, const Window& window,
                                      int images, const Blocking& blocking = {})
        : x_(x),
          window_(window),
          images_(images),
          outputs_(dy.channels()),
          row_(round_up((x.shape.width + 2 * window.pad_width) * x.channels() + columns, 32)),
          tiles_(PixelGrid{x.shape.height, dy.shape.width, columns, row_ * x.shape.height, row_,
                           std::int64_t{window.stride} * x.channels()},
                 PixelGrid::of(dy),
                 Window{.height = window.height,
                        .stride = window.stride,
                        .pad_height = window.pad_height},
                 1, images, false, blocking) {}
    [[nodiscard]] static bool runs(const Layout& x, const Layout& dy, const Window& w) {
        return x.channels_last && dy.channels_last && dy.channels() % 32 == 0 &&
               x.channels() * w.width <= columns;
    }
    [[nodiscard]] std::int64_t scratch_bytes() const {
        return copy_bytes() + gradient_bytes() + tiles_.scratch_bytes();
    }
    /// As TileWeightGradient::run.
    template <class Tiles>
    void run(const Bf16* x, const Bf16* dy, float* dw, bool add, void* scratch) const {
        auto* copy = static_cast<Bf16*>(scratch);
        auto* wide = reinterpret_cast<float*>(static_cast<std::byte*>(scratch) + copy_bytes());
        pad(x, copy);
        tiles_.run<Tiles>(copy, dy, wide, false,
                          static_cast<std::byte*>(scratch) + copy_bytes() + gradient_bytes());
        const int used = window_.width * x_.channels();
        for (int row = 0; row < outputs_ * window_.height; ++row, wide += columns, dw += used)
            for (int i = 0; i < used; ++i) dw[i] = add ? dw[i] + wide[i] : wide[i];
    }

private:
    static constexpr int columns = 32;
    void pad(const Bf16* x, Bf16* to) const {
        const std::int64_t numbers = std::int64_t{x_.channels()} * x_.shape.width,
                           left = std::int64_t{x_.channels()} * window_.pad_width;
        for (int r = 0; r < images_ * x_.shape.height; ++r, x += numbers, to += row_) {
            std::fill_n(to, left, Bf16{0});
            std::copy_n(x, numbers, to + left);
            std::fill_n(to + left + numbers, row_ - left - numbers, Bf16{0});
        }
    }
    [[nodiscard]] std::int64_t copy_bytes() const {
        return (2 * images_ * x_.shape.height * row_ + 63) / 64 * 64;
    }
    [[nodiscard]] std::int64_t gradient_bytes() const {
        return std::int64_t{4} * columns * outputs_ * window_.height;
    }

    Layout x_;
    Window window_;
    int images_, outputs_;
    std::int64_t row_;  // numbers of a padded row, and those that its last pixel reads behind it
    TileWeightGradient tiles_;
};

}  // namespace gx::onednn::detail
