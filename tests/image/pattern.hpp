// pattern: an image of edges, slopes and fine texture, as reference/oracle/image_fixture.py has it.
#pragma once

#include <cstdint>
#include <vector>

#include <gx/image/region.hpp>

namespace gx::testing::images {

using Pixels = std::vector<std::uint8_t>;

inline Pixels pattern(ImageSize size) {
    Pixels pixels;
    for (int y = 0; y < size.height; ++y)
        for (int x = 0; x < size.width; ++x)
            for (int c = 0; c < 3; ++c) {
                const int value = ((x * x * 3 + y * y * 5 + x * y * 7) >> 4) + c * 50 +
                                  37 * ((x >> 3) ^ (y >> 3));
                const int low = value & 255;
                pixels.push_back(static_cast<std::uint8_t>(value & 256 ? 255 - low : low));
            }
    return pixels;
}

/// FNV-1a, 64 bits.
inline std::uint64_t hashed(const Pixels& pixels) {
    std::uint64_t value = 0xcbf29ce484222325u;
    for (const std::uint8_t byte : pixels) value = (value ^ byte) * 0x100000001b3u;
    return value;
}

/// Columns and rows `region` of an image.
inline Pixels part(const Pixels& image, ImageSize size, ImageRegion region) {
    Pixels pixels;
    for (int y = region.top; y < region.bottom(); ++y) {
        const auto row = image.begin() + 3 * (std::ptrdiff_t{size.width} * y + region.left);
        pixels.insert(pixels.end(), row, row + 3 * region.width);
    }
    return pixels;
}

}  // namespace gx::testing::images
