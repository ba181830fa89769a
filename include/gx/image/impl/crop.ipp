// The attempts of random crops, and centre crops.
#pragma once

#include <algorithm>  // min, max, swap
#include <cmath>      // sqrt, nearbyint

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/image/crop.hpp>     // RandomResizedCrop

namespace gx {

namespace detail::image {

inline constexpr int crop_attempts = 10;

template <class Crop>
void expect_limits(const Crop& c, ImageSize size) {
    GX_EXPECT(!size.empty(), "an image without pixels has no part");
    GX_EXPECT(c.area_min > 0 && c.area_min <= c.area_max && c.area_max <= 1,
              "areas: 0 < area_min <= area_max <= 1");
    GX_EXPECT(c.aspect_min > 0 && c.aspect_min <= c.aspect_max,
              "aspects: 0 < aspect_min <= aspect_max");
}
/// As Python's round(): halves to even.
[[nodiscard]] inline int rounded_int(double x) { return static_cast<int>(std::nearbyint(x)); }
[[nodiscard]] inline bool fits(int width, int height, ImageSize size) {
    return width > 0 && height > 0 && width <= size.width && height <= size.height;
}
[[nodiscard]] inline ImageRegion centre(int width, int height, ImageSize size) {
    return {(size.width - width) / 2, (size.height - height) / 2, width, height};
}

}  // namespace detail::image

GX_DECL ImageRegion RandomResizedCrop::operator()(ImageSize size, const SampleDraws& draws) const {
    using namespace detail::image;
    expect_limits(*this, size);
    const double pixels = static_cast<double>(size.pixels());
    const double log_min = exact_math::log(aspect_min), log_max = exact_math::log(aspect_max);
    for (int attempt = 0; attempt < crop_attempts; ++attempt) {
        const auto words = draws.words(attempt);
        const double area = pixels * uniform(words[0], area_min, area_max);
        const double aspect = exact_exp(uniform(words[1], log_min, log_max));
        const int width = rounded_int(std::sqrt(area * aspect));
        const int height = rounded_int(std::sqrt(area / aspect));
        if (!fits(width, height, size)) continue;
        return {below(words[3], size.width - width + 1), below(words[2], size.height - height + 1),
                width, height};
    }
    const double aspect = double(size.width) / size.height;
    if (aspect < aspect_min)
        return centre(size.width, std::min(rounded_int(size.width / aspect_min), size.height),
                      size);
    if (aspect > aspect_max)
        return centre(std::min(rounded_int(size.height * aspect_max), size.width), size.height,
                      size);
    return whole(size);
}

GX_DECL ImageRegion MxnetRandomResizedCrop::operator()(ImageSize size,
                                                       const SampleDraws& draws) const {
    using namespace detail::image;
    expect_limits(*this, size);
    const double pixels = static_cast<double>(size.pixels());
    for (int attempt = 0; attempt < crop_attempts; ++attempt) {
        const auto words = draws.words(attempt);
        const double area = pixels * uniform(words[0], area_min, area_max);
        const double aspect = uniform(words[1], aspect_min, aspect_max);
        int width = rounded_int(std::sqrt(area * aspect));
        int height = rounded_int(std::sqrt(area / aspect));
        if (words[3] & 1) std::swap(width, height);  // the lowest bit hardly moves `left`
        if (!fits(width, height, size)) continue;
        return {below(words[3], size.width - width + 1), below(words[2], size.height - height + 1),
                width, height};
    }
    double width = to.width, height = to.height;
    if (size.height < height) width = width * size.height / height, height = size.height;
    if (size.width < width) height = height * size.width / width, width = size.width;
    return centre(std::max(static_cast<int>(width), 1), std::max(static_cast<int>(height), 1),
                  size);
}

GX_DECL ImageBox centre_box(ImageSize size, int shorter, ImageSize crop) {
    using detail::image::rounded_int;
    ImageSize resized{shorter, shorter};
    if (size.width <= size.height)
        resized.height = int(std::int64_t{shorter} * size.height / size.width);
    else resized.width = int(std::int64_t{shorter} * size.width / size.height);
    GX_EXPECT(!size.empty() && !crop.empty(), "a centre crop has pixels");
    if (crop.width > resized.width || crop.height > resized.height) {
        const double scale =
            std::min(double(size.width) / crop.width, double(size.height) / crop.height);
        const double width = std::min(crop.width * scale, double(size.width));
        const double height = std::min(crop.height * scale, double(size.height));
        return {(size.width - width) / 2, (size.height - height) / 2, width, height};
    }
    const double across = double(size.width) / resized.width;
    const double down = double(size.height) / resized.height;
    const double left = rounded_int((resized.width - crop.width) / 2.0) * across;
    const double top = rounded_int((resized.height - crop.height) / 2.0) * down;
    return {left, top, std::min(crop.width * across, size.width - left),
            std::min(crop.height * down, size.height - top)};  // rounding may pass the border
}

}  // namespace gx
