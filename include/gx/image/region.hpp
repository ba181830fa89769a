// ImageSize, ImageRegion, ImageBox: sizes and parts of images of interleaved 8-bit RGB.
#pragma once

#include <cstdint>  // int64_t

namespace gx {

/// Pixels.
struct ImageSize {
    int width = 0, height = 0;
    [[nodiscard]] constexpr std::int64_t pixels() const { return std::int64_t{width} * height; }
    [[nodiscard]] constexpr bool empty() const { return width < 1 || height < 1; }
    constexpr bool operator==(const ImageSize&) const = default;
};

/// Whole pixels of an image; (0, 0) is its upper left one.
struct ImageRegion {
    int left = 0, top = 0, width = 0, height = 0;
    [[nodiscard]] constexpr int right() const { return left + width; }
    [[nodiscard]] constexpr int bottom() const { return top + height; }
    [[nodiscard]] constexpr ImageSize size() const { return {width, height}; }
    constexpr bool operator==(const ImageRegion&) const = default;
};

[[nodiscard]] constexpr ImageRegion whole(ImageSize size) {
    return {0, 0, size.width, size.height};
}
/// Whether `region` has pixels, and all of them lie in an image of `size`.
[[nodiscard]] constexpr bool lies_in(ImageRegion region, ImageSize size) {
    return region.left >= 0 && region.top >= 0 && region.width >= 1 && region.height >= 1 &&
           region.left <= size.width - region.width && region.top <= size.height - region.height;
}

/// Part of an image with borders between pixels.
struct ImageBox {
    double left = 0, top = 0, width = 0, height = 0;
    constexpr bool operator==(const ImageBox&) const = default;
};

[[nodiscard]] constexpr ImageBox whole_box(ImageSize size) {
    return {0, 0, double(size.width), double(size.height)};
}

}  // namespace gx
