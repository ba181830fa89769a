// The arithmetic of Pillow's blends and of OpenCV's HLS.
#pragma once

#include <algorithm>  // clamp, max, min
#include <array>      // tables
#include <cmath>      // nearbyint

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/image/colour.hpp>   // ColourJitter

namespace gx {

namespace detail::image {

using ByteTable = std::array<std::uint8_t, 256>;

[[nodiscard]] inline std::size_t byte_count(ImageSize size) {
    return static_cast<std::size_t>(3 * size.pixels());
}
/// Pillow's ImagingBlend(degenerate, pixel, factor).
[[nodiscard]] inline std::uint8_t blend(int degenerate, int pixel, float factor) {
    const float product = factor * static_cast<float>(pixel - degenerate);
    const float blended = static_cast<float>(degenerate) + product;
    return static_cast<std::uint8_t>(std::clamp(blended, 0.0f, 255.0f));
}
/// Pillow's convert("L").
[[nodiscard]] inline int grey(const std::uint8_t* pixel) {
    return (pixel[0] * 19595 + pixel[1] * 38470 + pixel[2] * 7471 + 0x8000) >> 16;
}
inline void blend_all(std::uint8_t* pixels, ImageSize size, int degenerate, float factor) {
    ByteTable table;
    for (int i = 0; i < 256; ++i) table[std::size_t(i)] = blend(degenerate, i, factor);
    for (std::size_t i = 0; i < byte_count(size); ++i) pixels[i] = table[pixels[i]];
}
[[nodiscard]] inline std::uint8_t nearest_byte(double x) {
    return static_cast<std::uint8_t>(std::clamp(std::nearbyint(x), 0.0, 255.0));
}

struct Hls {
    float hue, lightness, saturation;  // degrees, 0 ... 1, 0 ... 1
};
/// OpenCV's RGB2HLS_f.
[[nodiscard]] inline Hls to_hls(float r, float g, float b) {
    const float most = std::max({r, g, b}), least = std::min({r, g, b});
    const float range = most - least, lightness = (most + least) * 0.5f;
    if (range <= 1.1920929e-7f) return {0, lightness, 0};
    const float saturation = lightness < 0.5f ? range / (most + least) : range / (2 - most - least);
    const float step = 60.0f / range;
    float hue = 0;
    if (most == r) hue = (g - b) * step;
    else if (most == g) hue = (b - r) * step + 120.0f;
    else hue = (r - g) * step + 240.0f;
    return {hue < 0 ? hue + 360.0f : hue, lightness, saturation};
}
/// OpenCV's HLS2RGB_f.
inline void to_rgb(Hls x, float (&rgb)[3]) {
    if (x.saturation == 0) {
        rgb[0] = rgb[1] = rgb[2] = x.lightness;
        return;
    }
    const float upper = x.lightness <= 0.5f
                            ? x.lightness * (1 + x.saturation)
                            : x.lightness + x.saturation - x.lightness * x.saturation;
    const float lower = 2 * x.lightness - upper;
    float hue = x.hue / 60.0f;
    if (hue >= 6) hue -= 6;
    const int sector = static_cast<int>(hue);
    hue -= static_cast<float>(sector);
    const float levels[4] = {upper, lower, lower + (upper - lower) * (1 - hue),
                             lower + (upper - lower) * hue};
    constexpr int of_sector[6][3] = {{0, 3, 1}, {2, 0, 1}, {1, 0, 3},
                                     {1, 2, 0}, {3, 1, 0}, {0, 1, 2}};
    for (int c = 0; c < 3; ++c) rgb[c] = levels[of_sector[sector][c]];
}

}  // namespace detail::image

GX_DECL void adjust_brightness(std::uint8_t* pixels, ImageSize size, float factor) {
    detail::image::blend_all(pixels, size, 0, factor);
}
GX_DECL void adjust_contrast(std::uint8_t* pixels, ImageSize size, float factor) {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < detail::image::byte_count(size); i += 3)
        sum += detail::image::grey(pixels + i);
    const double mean = static_cast<double>(sum) / static_cast<double>(size.pixels());
    detail::image::blend_all(pixels, size, static_cast<int>(mean + 0.5), factor);
}
GX_DECL void adjust_saturation(std::uint8_t* pixels, ImageSize size, float factor) {
    for (std::size_t i = 0; i < detail::image::byte_count(size); i += 3) {
        const int grey = detail::image::grey(pixels + i);
        for (std::size_t c = 0; c < 3; ++c)
            pixels[i + c] = detail::image::blend(grey, pixels[i + c], factor);
    }
}

GX_DECL void ColourJitter::operator()(std::uint8_t* pixels, ImageSize size,
                                      const SampleDraws& draws) const {
    GX_EXPECT(brightness >= 0 && contrast >= 0 && saturation >= 0,
              "the strengths of a colour jitter are at least 0");
    using Adjust = void (*)(std::uint8_t*, ImageSize, float);
    constexpr Adjust adjust[] = {adjust_brightness, adjust_contrast, adjust_saturation};
    constexpr std::size_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                          {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    const float strengths[] = {brightness, contrast, saturation};
    const auto words = draws.words();
    for (const std::size_t i : orders[detail::image::below(words[3], 6)]) {
        if (strengths[i] == 0) continue;
        const double least = std::max(0.0, 1.0 - strengths[i]), most = 1.0 + strengths[i];
        adjust[i](pixels, size, static_cast<float>(detail::image::uniform(words[i], least, most)));
    }
}

GX_DECL void PcaNoise::operator()(std::uint8_t* pixels, ImageSize size,
                                  const SampleDraws& draws) const {
    const auto words = draws.words();
    double alphas[3];
    for (std::size_t i = 0; i < 3; ++i) alphas[i] = deviation * detail::image::normal(words[i]);
    std::array<detail::image::ByteTable, 3> tables;
    for (std::size_t c = 0; c < 3; ++c)
        for (int i = 0; i < 256; ++i)
            tables[c][std::size_t(i)] =
                detail::image::nearest_byte(i + shift(static_cast<int>(c), alphas));
    for (std::size_t i = 0; i < detail::image::byte_count(size); i += 3)
        for (std::size_t c = 0; c < 3; ++c) pixels[i + c] = tables[c][pixels[i + c]];
}

GX_DECL void shift_hsl(std::uint8_t* pixels, ImageSize size, int hue, int saturation,
                       int lightness) {
    using namespace detail::image;
    const auto shifted = [](float x, int shift, int most) {
        return static_cast<float>(std::clamp(int(nearest_byte(x)) + shift, 0, most));
    };
    for (std::size_t i = 0; i < byte_count(size); i += 3) {
        std::uint8_t* p = pixels + i;
        Hls x =
            to_hls(static_cast<float>(p[0]) * (1 / 255.0f), static_cast<float>(p[1]) * (1 / 255.0f),
                   static_cast<float>(p[2]) * (1 / 255.0f));
        x = {shifted(x.hue / 2, hue, 180) * 2,
             shifted(x.lightness * 255, lightness, 255) * (1 / 255.0f),
             shifted(x.saturation * 255, saturation, 255) * (1 / 255.0f)};
        float rgb[3];
        to_rgb(x, rgb);
        for (int c = 0; c < 3; ++c) p[c] = nearest_byte(rgb[c] * 255);
    }
}

GX_DECL void HslJitter::operator()(std::uint8_t* pixels, ImageSize size,
                                   const SampleDraws& draws) const {
    const auto words = draws.words();
    const auto shift = [&](std::size_t i, int most) {
        return static_cast<int>(detail::image::uniform(words[i], -most, most));
    };
    shift_hsl(pixels, size, shift(0, hue), shift(1, saturation), shift(2, lightness));
}

}  // namespace gx
