// Beta numbers, blends of two images, and rectangles.
#pragma once

#include <algorithm>  // max, min
#include <cmath>      // sqrt
#include <cstring>    // memcpy

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/image/mix.hpp>      // MixUp, CutMix

namespace gx {

namespace detail::image {

/// The logarithm of a Gamma(shape) number; sets `draw` behind the draws that it takes.
GX_DECL double log_gamma_number(double shape, const SampleDraws& draws, int& draw) {
    const double d = shape + 1 - 1.0 / 3, c = 1 / std::sqrt(9 * d);  // of Gamma(shape + 1)
    for (;;) {
        const auto words = draws.words(draw++);
        const double x = normal(words[0]), root = 1 + rounded(c * x);
        if (root <= 0) continue;
        const double v = root * root * root, u = (words[1] + 0.5) * 0x1p-32;
        const double log_v = exact_math::log(v);
        if (exact_math::log(u) >= rounded(0.5 * x * x) + d - rounded(d * v) + rounded(d * log_v))
            continue;
        const double power = (words[2] + 0.5) * 0x1p-32;
        return exact_math::log(d) + log_v + exact_math::log(power) / shape;
    }
}

[[nodiscard]] inline float weight_left(ImageRegion cut, ImageSize size) {
    return 1 - static_cast<float>(double(cut.size().pixels()) / double(size.pixels()));
}

}  // namespace detail::image

GX_DECL double beta(double alpha, const SampleDraws& draws, int draw) {
    GX_EXPECT(alpha > 0, "Beta(alpha, alpha) needs an alpha above 0");
    const double first = detail::image::log_gamma_number(alpha, draws, draw);
    const double second = detail::image::log_gamma_number(alpha, draws, draw);
    return 1 / (1 + detail::image::exact_exp(std::clamp(second - first, -500.0, 500.0)));
}

GX_DECL float MixUp::operator()(std::uint8_t* pixels, const std::uint8_t* second, ImageSize size,
                                const SampleDraws& draws) const {
    return (*this)(pixels, second, ImageShape{3, size.height, size.width}, draws);
}
GX_DECL float MixUp::operator()(std::uint8_t* pixels, const std::uint8_t* second, ImageShape shape,
                                const SampleDraws& draws) const {
    const int weight = static_cast<int>(std::nearbyint(beta(alpha, draws) * 65536));
    const auto bytes = static_cast<std::size_t>(shape.elements());
    for (std::size_t i = 0; i < bytes; ++i)
        pixels[i] = static_cast<std::uint8_t>(
            (pixels[i] * weight + second[i] * (65536 - weight) + 32768) >> 16);
    return static_cast<float>(weight) / 65536;
}

GX_DECL ImageRegion CutMix::rectangle(ImageSize size, const SampleDraws& draws) const {
    const auto words = draws.words();
    const int x = detail::image::below(words[0], size.width);
    const int y = detail::image::below(words[1], size.height);
    const double half = 0.5 * std::sqrt(1 - beta(alpha, draws));
    const int across = static_cast<int>(half * size.width);
    const int down = static_cast<int>(half * size.height);
    const int left = std::max(x - across, 0), top = std::max(y - down, 0);
    return {left, top, std::min(x + across, size.width) - left,
            std::min(y + down, size.height) - top};
}

GX_DECL float CutMix::operator()(std::uint8_t* pixels, const std::uint8_t* second, ImageSize size,
                                 const SampleDraws& draws) const {
    const ImageRegion r = rectangle(size, draws);
    for (int y = r.top; y < r.bottom(); ++y) {
        const std::size_t at =
            std::size_t(3) * (std::size_t(size.width) * std::size_t(y) + std::size_t(r.left));
        std::memcpy(pixels + at, second + at, std::size_t(3) * r.width);
    }
    return detail::image::weight_left(r, size);
}
GX_DECL float CutMix::operator()(std::uint8_t* pixels, const std::uint8_t* second, ImageShape shape,
                                 const SampleDraws& draws) const {
    const ImageSize size{shape.width, shape.height};
    const ImageRegion r = rectangle(size, draws);
    for (int c = 0; c < shape.channels; ++c)
        for (int y = r.top; y < r.bottom(); ++y) {
            const std::int64_t at = c * size.pixels() + std::int64_t{y} * size.width + r.left;
            std::memcpy(pixels + at, second + at, static_cast<std::size_t>(r.width));
        }
    return detail::image::weight_left(r, size);
}

}  // namespace gx
