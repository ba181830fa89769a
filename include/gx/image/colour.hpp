// Colour changes of images of 8-bit RGB: ColourJitter, PcaNoise, HslJitter.
#pragma once

#include <concepts>     // same_as
#include <cstdint>      // uint8_t
#include <string_view>  // streams

#include <gx/core/decl.hpp>     // GX_DECL
#include <gx/image/draws.hpp>   // SampleDraws
#include <gx/image/region.hpp>  // ImageSize

namespace gx {

/// Changes pixels in place. Shapes: pixels (height, width, 3).
template <class A>
concept PixelAugmentation =
    requires(const A& a, std::uint8_t* pixels, ImageSize size, const SampleDraws& draws) {
        { A::stream } -> std::convertible_to<std::string_view>;
        { a(pixels, size, draws) } -> std::same_as<void>;
    };

/// Pillow's ImageEnhance on RGB pixels: a blend of `factor` parts of the image, and 1 - factor of
/// black, of the image's mean grey, or of the image in grey. 1: unchanged.
/// Shapes: pixels (height, width, 3).
/// Order:  the bits of Pillow: in float, cut off to whole numbers.
GX_DECL void adjust_brightness(std::uint8_t* pixels, ImageSize size, float factor);
GX_DECL void adjust_contrast(std::uint8_t* pixels, ImageSize size, float factor);
GX_DECL void adjust_saturation(std::uint8_t* pixels, ImageSize size, float factor);

/// torchvision's ColorJitter without hue: factors uniform in max(0, 1 - x) ... 1 + x, in random
/// order. 0: none. Other recipes use 0.4 for each (fb.resnet.torch, Gross and Wilber 2016).
/// Order: draw 0: brightness, contrast, saturation; and which of their six orders.
struct ColourJitter {
    float brightness = 0.4f, contrast = 0.4f, saturation = 0.4f;

    static constexpr std::string_view stream = "augment.colour_jitter";
    GX_DECL void operator()(std::uint8_t* pixels, ImageSize size, const SampleDraws& draws) const;
};

/// Adds to all pixels the three principal components of ImageNet's colours. Each is times its
/// eigenvalue and a normal number of deviation `deviation`. Rounded to nearest and clamped.
/// Source: Krizhevsky et al. 2012, section 4.1; the components of MXNet's pca_noise and of
///         fb.resnet.torch, on pixels of 0 ... 255.
struct PcaNoise {
    double deviation = 0.1;

    static constexpr double eigenvalues[3] = {55.46, 4.794, 1.148};
    static constexpr double eigenvectors[3][3] = {  // a row each for R, G, B
        {-0.5675, 0.7192, 0.4009},
        {-0.5808, -0.0045, -0.8140},
        {-0.5836, -0.6948, 0.4203}};
    static constexpr std::string_view stream = "augment.pca_noise";
    GX_DECL void operator()(std::uint8_t* pixels, ImageSize size, const SampleDraws& draws) const;
    /// What is added to one channel, for normal numbers `alphas`.
    [[nodiscard]] static constexpr double shift(int channel, const double (&alphas)[3]) {
        double sum = 0;
        for (int i = 0; i < 3; ++i)
            sum += exact_math::rounded(eigenvectors[channel][i] * (alphas[i] * eigenvalues[i]));
        return sum;
    }
};

/// Adds whole numbers to hue, saturation and lightness of OpenCV's 8-bit HLS pixels. Hue is in
/// 0 ... 180 of two degrees each, the others in 0 ... 255; each is cut off at its ends, hue too.
/// Shapes: pixels (height, width, 3).
/// Order:  OpenCV's formulas in float, rounded to nearest, there and back.
GX_DECL void shift_hsl(std::uint8_t* pixels, ImageSize size, int hue, int saturation,
                       int lightness);

/// MXNet's random_h, random_s and random_l, with the values of its ResNet recipes: shifts uniform
/// in -x ... x, cut off to whole numbers.
/// Source: MXNet 1.0, src/io/image_aug_default.cc; example/image-classification/common/data.py.
struct HslJitter {
    int hue = 36, saturation = 50, lightness = 50;

    static constexpr std::string_view stream = "augment.hsl_jitter";
    GX_DECL void operator()(std::uint8_t* pixels, ImageSize size, const SampleDraws& draws) const;
};

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/image/impl/colour.ipp>
#endif
