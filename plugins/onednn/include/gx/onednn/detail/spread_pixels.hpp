// spread_pixels: images into larger ones, with zeros between their pixels; channels last.
#pragma once

#include <algorithm>  // copy_n, fill_n
#include <cstdint>    // int64_t

#include <gx/onednn/detail/layout.hpp>   // Layout
#include <gx/onednn/detail/numbers.hpp>  // Bf16

namespace gx::onednn::detail {

/// Pixel (y, x) of each image becomes pixel (stride y, stride x) of a larger one; others are 0.
inline void spread_pixels(const Bf16* from, const Layout& small, int stride, int images, Bf16* to,
                          const Layout& large) {
    const std::int64_t channels = large.channels(), row = channels * large.shape.width;
    for (int n = 0; n < images; ++n)
        for (int y = 0; y < large.shape.height; ++y, to += row) {
            if (y % stride != 0 || y / stride >= small.shape.height) {
                std::fill_n(to, row, Bf16{0});
                continue;
            }
            const Bf16* pixel =
                from + n * small.floats() + y / stride * channels * small.shape.width;
            for (int x = 0; x < large.shape.width; ++x) {
                const bool between = x % stride != 0 || x / stride >= small.shape.width;
                if (between) std::fill_n(to + x * channels, channels, Bf16{0});
                else std::copy_n(pixel, channels, to + x * channels), pixel += channels;
            }
        }
}

}  // namespace gx::onednn::detail
