// rectangular_batches: validation batches of images of like aspect, which are cropped less.
#pragma once

#include <cstdint>  // uint32_t
#include <span>     // sizes
#include <vector>   // batches

#include <gx/core/decl.hpp>     // GX_DECL
#include <gx/image/region.hpp>  // ImageSize

namespace gx {

/// Images that are cropped to one size: what a source shows as a SampleView, channels included.
struct RectangularBatch {
    std::vector<std::uint32_t> samples{};  ///< by aspect
    ImageSize to{};
    bool operator==(const RectangularBatch&) const = default;
};

/// Sorts images by width / height, cuts them into batches, and gives each the size of its mean
/// aspect: the shorter side `side`, the other a multiple of 8.
///
///     for (const RectangularBatch& b : rectangular_batches(sizes, 128, 288))
///         ...   // image i of b: centre_box(sizes[i], side * 1.14, b.to)
///
/// Errors: an image without pixels, batch < 1 or side < 8 breaks the contract.
/// Order:  equal aspects by sample; aspects and means are rounded to 5 digits, as in the source.
/// Source: fast.ai's rectangular validation: imagenet-fast 2018, dataloader.py (sort_ar,
///         map_idx2ar, CropArTfm).
[[nodiscard]] GX_DECL std::vector<RectangularBatch> rectangular_batches(
    std::span<const ImageSize> sizes, int batch, int side);

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/image/impl/rectangular.ipp>
#endif
