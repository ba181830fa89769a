// MixUp, CutMix: images of two samples in one, and the weight of the first.
#pragma once

#include <cstdint>      // uint8_t
#include <string_view>  // streams

#include <gx/core/decl.hpp>     // GX_DECL
#include <gx/image/draws.hpp>   // SampleDraws
#include <gx/image/region.hpp>  // ImageRegion
#include <gx/model/graph.hpp>   // ImageShape

namespace gx {

/// A number of the Beta(alpha, alpha) distribution; draws from `draw` on are its own.
/// Errors: alpha <= 0 breaks the contract.
/// Source: Marsaglia and Tsang 2000, "A simple method for generating gamma variables".
[[nodiscard]] GX_DECL double beta(double alpha, const SampleDraws& draws, int draw = 1);

/// The other sample of a pair: any of `count`, so that a pair does not depend on batches or ranks.
/// Draw 0.
[[nodiscard]] constexpr std::uint64_t partner(const SampleDraws& draws, std::uint64_t count) {
    const auto words = draws.words();
    return (std::uint64_t{words[2]} << 32 | words[3]) % count;
}

/// out = weight * first + (1 - weight) * second, rounded to nearest; the loss has the same weights.
/// weight: Beta(alpha, alpha), one a sample; the paper draws one a batch.
/// Source: Zhang et al. 2018, arXiv:1710.09412; alpha 0.2 for ImageNet (section 3.1).
struct MixUp {
    double alpha = 0.2;

    static constexpr std::string_view stream = "augment.mixup";
    /// Mixes `second` into `pixels`; returns the weight of the first.
    /// Shapes: both (height, width, 3), or (C, H, W).
    GX_DECL float operator()(std::uint8_t* pixels, const std::uint8_t* second, ImageSize size,
                             const SampleDraws& draws) const;
    GX_DECL float operator()(std::uint8_t* pixels, const std::uint8_t* second, ImageShape shape,
                             const SampleDraws& draws) const;
};

/// A rectangle of the second image in the first: its centre uniform, its area that of the image
/// times 1 - Beta(alpha, alpha), cut off at the border; the weight is what is left of the first.
/// Source: Yun et al. 2019, arXiv:1905.04899; alpha 1 (section 4.1).
struct CutMix {
    double alpha = 1;

    static constexpr std::string_view stream = "augment.cutmix";
    /// The rectangle; it may be empty. Draw 0 and those of beta().
    [[nodiscard]] GX_DECL ImageRegion rectangle(ImageSize size, const SampleDraws& draws) const;
    /// As MixUp.
    GX_DECL float operator()(std::uint8_t* pixels, const std::uint8_t* second, ImageSize size,
                             const SampleDraws& draws) const;
    GX_DECL float operator()(std::uint8_t* pixels, const std::uint8_t* second, ImageShape shape,
                             const SampleDraws& draws) const;
};

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/image/impl/mix.ipp>
#endif
