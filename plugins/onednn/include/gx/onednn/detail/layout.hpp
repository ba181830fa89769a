// layout: where an element of an image or a weight lies in blocked layouts.
#pragma once

#include <cstdint>  // int64_t

#include <gx/model/graph.hpp>         // ImageShape
#include <gx/onednn/detail/simd.hpp>  // cpu_block

namespace gx::onednn::detail {

[[nodiscard]] constexpr int round_up(int x, int to) { return (x + to - 1) / to * to; }

/// Where a kernel finds block b of the channels of pixel p, counted in numbers from an image's
/// begin: at b * block_stride + p * pixel_stride.
struct Grid {
    std::int64_t image_floats = 0;
    int images = 0, blocks = 0, pixels = 0;
    std::int64_t block_stride = 0, pixel_stride = 0;
};

/// An image in memory: plain (C, H, W), blocked (C / B, H, W, B), or channels last (H, W, C), the
/// latter two with the channels padded to whole blocks by zeros. Every step keeps those zeros.
struct Layout {
    ImageShape shape{};
    int block = 1;
    bool channels_last = false;
    [[nodiscard]] bool plain() const { return block == 1 && !channels_last; }
    [[nodiscard]] int channels() const { return round_up(shape.channels, block); }
    [[nodiscard]] int pixels() const { return shape.height * shape.width; }
    [[nodiscard]] std::int64_t floats() const { return std::int64_t{channels()} * pixels(); }
    /// Of element `i` of the image in row-major (C, H, W).
    [[nodiscard]] std::int64_t index(std::int64_t i) const {
        const std::int64_t c = i / pixels(), pixel = i % pixels();
        if (channels_last) return pixel * channels() + c;
        return (c / block * pixels() + pixel) * block + c % block;
    }
    [[nodiscard]] Grid grid(int images) const {
        return {.image_floats = floats(),
                .images = images,
                .blocks = channels() / block,
                .pixels = pixels(),
                .block_stride = channels_last ? block : std::int64_t{pixels()} * block,
                .pixel_stride = channels_last ? channels() : block};
    }
};

}  // namespace gx::onednn::detail
