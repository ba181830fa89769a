// CropDecoder: encoded image to a cropped, resized, mirrored one, in one pass over its rows.
#pragma once

#include <cstdint>      // uint8_t
#include <span>         // bytes
#include <string_view>  // names

#include <gx/core/decl.hpp>          // GX_DECL
#include <gx/image/codec/jpeg.hpp>   // JpegDecoder
#include <gx/image/codec/png.hpp>    // PngDecoder
#include <gx/image/crop_resize.hpp>  // CropResize, ResizeMode

namespace gx {

/// How a part of an image becomes an output image.
struct CropOptions {
    ResizeMode mode = ResizeMode::antialiased;
    bool mirrored = false;
    /// JPEGs may be decoded at 4, 2 or 1 eighths, as by Pillow's reducing_gap. They are so where
    /// the part then still has this many times the pixels of the output in each direction; 0:
    /// never, so that the bits are those of a whole decode. Antialiased, on a smooth image with
    /// some texture, 2 and 3 differ from never by at most 2 of 255, 1 by 4; of 4:1:1, whose colour
    /// is scaled to a quarter of the width, by 3 and 14. What is sharper differs more.
    double reducing_gap = 0;
};

namespace detail::image {
/// The smallest scale at which `region` has at least `gap` times as many pixels as `to`.
[[nodiscard]] constexpr int eighths_for(ImageSize region, ImageSize to, double gap) {
    for (const int eighths : {1, 2, 4})
        if (gap > 0 && region.width * eighths >= 8 * gap * to.width &&
            region.height * eighths >= 8 * gap * to.height)
            return eighths;
    return 8;
}

}  // namespace detail::image

/// JPEG or PNG, whichever the bytes are. One for each thread.
///
///     CropDecoder decoder;
///     const ImageSize size = decoder.open(bytes, where);
///     decoder.resize({.left = 20, .top = 10, .width = 300, .height = 200}, {224, 224}, {}, out);
///
/// Sizes and regions are those of the upright image where DecodeOptions::orient is set.
///
/// Errors: gx::Error with `where`: as JpegDecoder and PngDecoder; neither of both, and no bytes. A
///         region that is not inside breaks the contract.
/// Order:  the bits of CropResize on the region of the whole image, where reducing_gap is 0.
/// Cost:   no allocation for an image that needs no more memory than those before it. A region is
///         never in memory whole, but for orientations other than 1 and interlaced PNGs.
class CropDecoder {
public:
    explicit CropDecoder(const DecodeOptions& options = {}) : jpeg_(options), png_(options) {}

    /// Returns the size of the image. `bytes` stay valid until the last call for it.
    GX_DECL ImageSize open(std::span<const std::uint8_t> bytes, std::string_view where);
    [[nodiscard]] const ImageHeader& header() const { return header_; }

    /// Decodes `region`. Shapes: out (region.height, region.width, 3). Once after each open().
    GX_DECL void decode(ImageRegion region, std::uint8_t* out);
    /// Shows `region` on an image of `to`. Shapes: out (to.height, to.width, 3). Once after open().
    GX_DECL void resize(ImageRegion region, ImageSize to, const CropOptions& o, std::uint8_t* out);
    /// Shows `box` of the whole image on an image of `to`: pixels beside the box count, as where
    /// the whole image is resized and then cropped; see centre_box. Scaled decoding is not used.
    GX_DECL void resize_box(ImageBox box, ImageSize to, const CropOptions& o, std::uint8_t* out);

    /// Warnings of the libraries since open().
    [[nodiscard]] std::int64_t warnings() const {
        return header_.format == ImageFormat::jpeg ? jpeg_.warnings() : png_.warnings();
    }
    /// Memory held for coming images.
    [[nodiscard]] std::size_t bytes() const {
        return jpeg_.bytes() + png_.bytes() + scratch_.capacity() + turned_.capacity();
    }

private:
    void begin(ImageRegion region, int eighths);
    void resize_rows(ImageRegion region, ImageBox box, int eighths, ImageSize to,
                     const CropOptions& o, std::uint8_t* out);
    ImageRows next() { return header_.format == ImageFormat::jpeg ? jpeg_.next() : png_.next(); }
    void resize_rows_in(ImageSize size, ImageBox box, ImageSize beside, int eighths, ImageSize to,
                        const CropOptions& o, std::uint8_t* out);
    void copy_region(ImageRegion region, std::uint8_t* out);
    void decode_turned(ImageRegion region, std::uint8_t* out);

    JpegDecoder jpeg_;
    PngDecoder png_;
    CropResize resize_{};
    ImageHeader header_{};
    TrivialVector<std::uint8_t> scratch_{}, turned_{};  // of images that EXIF turns
};

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/image/codec/impl/crop_decoder.ipp>
#endif
