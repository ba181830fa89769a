// layout: where an element of an image, or of a weight, lies in the blocked layouts.
#pragma once

#include <oneapi/dnnl/dnnl_types.h>  // dnnl_memory_desc_t

#include <array>    // positions
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

/// Where `position` lies in memory described by a blocked oneDNN descriptor.
/// Source: oneDNN 2.6 developer guide, "Memory formats": strides count blocks, inner blocks are
///         laid out in their order, the last one fastest.
[[nodiscard]] inline std::int64_t element_offset(const dnnl_memory_desc_t& d,
                                                 std::array<std::int64_t, 5> position) {
    const auto& blocking = d.format_desc.blocking;
    std::int64_t offset = d.offset0, stride = 1;
    for (int b = blocking.inner_nblks - 1; b >= 0; --b) {
        auto& p = position[static_cast<std::size_t>(blocking.inner_idxs[b])];
        offset += p % blocking.inner_blks[b] * stride;
        p /= blocking.inner_blks[b];
        stride *= blocking.inner_blks[b];
    }
    for (int i = 0; i < d.ndims; ++i)
        offset += position[static_cast<std::size_t>(i)] * blocking.strides[i];
    return offset;
}

}  // namespace gx::onednn::detail
