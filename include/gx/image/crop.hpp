// Crops: RandomResizedCrop, MxnetRandomResizedCrop, the centre of a resized image, mirroring.
#pragma once

#include <algorithm>    // min
#include <concepts>     // same_as
#include <cstdint>      // uint64_t
#include <string_view>  // streams

#include <gx/core/decl.hpp>     // GX_DECL
#include <gx/image/draws.hpp>   // SampleDraws
#include <gx/image/region.hpp>  // ImageRegion

namespace gx {

/// Chooses the part of an image that is shown.
template <class C>
concept ImageCrop = requires(const C& c, ImageSize size, const SampleDraws& draws) {
    { C::stream } -> std::convertible_to<std::string_view>;
    { c(size, draws) } -> std::same_as<ImageRegion>;
};

/// A part of random area and aspect, as torchvision's: ten attempts at an area that is uniform and
/// an aspect whose logarithm is uniform, then the largest centre within the limits of the aspect.
/// Errors: limits that are not 0 < minimum <= maximum break the contract.
/// Order:  an attempt a takes draw a: area, aspect, top, left. The same bits on every target.
/// Source: Szegedy et al. 2015, arXiv:1409.4842, section 6; torchvision 0.13,
///         RandomResizedCrop.get_params.
struct RandomResizedCrop {
    double area_min = 0.08, area_max = 1;  ///< of the image's
    double aspect_min = 3.0 / 4, aspect_max = 4.0 / 3;

    static constexpr std::string_view stream = "augment.random_resized_crop";
    GX_DECL ImageRegion operator()(ImageSize size, const SampleDraws& draws) const;
};

/// MXNet's variant: the aspect itself is uniform, width and height change places in every other
/// attempt, and after ten comes the centre crop of `to`, scaled down where the image is smaller.
/// Source: MXNet 1.0, mx.image.random_size_crop, center_crop and scale_down.
struct MxnetRandomResizedCrop {
    ImageSize to{224, 224};
    double area_min = 0.08, area_max = 1;
    double aspect_min = 3.0 / 4, aspect_max = 4.0 / 3;

    static constexpr std::string_view stream = "augment.mxnet_random_resized_crop";
    GX_DECL ImageRegion operator()(ImageSize size, const SampleDraws& draws) const;
};

/// The whole image, whatever its aspect.
struct WholeImage {
    static constexpr std::string_view stream = "augment.none";
    constexpr ImageRegion operator()(ImageSize size, const SampleDraws&) const {
        return whole(size);
    }
};

/// Whether a sample is shown mirrored: every other one. Its draw is another one than that of
/// loader/augment.hpp's Flip, which would mirror the same images back where both are used.
[[nodiscard]] constexpr bool mirrored(std::uint64_t seed, int epoch, std::uint64_t sample) {
    return SampleDraws(seed, "image.flip", epoch, sample).words()[0] >> 31;
}

/// What torchvision's CenterCrop(crop) shows of Resize(shorter), in the image as it was stored:
/// Resize(256), CenterCrop(224) is centre_box(size, 256, {224, 224}). Where the crop is larger than
/// the resized image, which torchvision fills with black, the largest centre of its aspect.
[[nodiscard]] GX_DECL ImageBox centre_box(ImageSize size, int shorter, ImageSize crop);

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/image/impl/crop.ipp>
#endif
