// JpegDecoder: parts of JPEG files as RGB rows, by libjpeg-turbo.
#pragma once

#include <cstdint>      // uint8_t
#include <memory>       // unique_ptr
#include <span>         // a file's bytes
#include <string_view>  // its name

#include <gx/core/decl.hpp>            // GX_DECL
#include <gx/image/codec/options.hpp>  // DecodeOptions, ImageHeader, ImageRows

namespace gx {

/// Decodes one JPEG after another: baseline and progressive, any subsampling, to 8-bit RGB.
///
///     decoder.open(bytes, "n01440764/10026.jpg");
///     decoder.begin({.left = 20, .top = 10, .width = 300, .height = 200});
///     for (ImageRows rows = decoder.next(); rows.count > 0; rows = decoder.next()) ...
///
/// Grey becomes R = G = B; CMYK and YCCK become RGB as in Pillow, which takes them as Adobe writes
/// them, inverted. IDCT and upsampling are libjpeg's defaults (ISLOW, fancy), as in Pillow.
///
/// A region holds the bits of the whole image: of the columns beside it only those are decoded that
/// upsampling reads, above it entropy decoding runs alone, and what lies below is not read.
/// Smoothing of blocks, which libjpeg applies to progressive files without last scans, is off.
///
/// Errors: gx::Error with the file's name: no JPEG, damage as DecodeOptions says (below a region
///         none is seen), more pixels than its limit, more than 500 scans. A decoder can be used
///         after an error.
/// Cost:   no allocation for an image that needs no more memory than those before it: rows of
///         blocks, and of a progressive file all coefficients.
class JpegDecoder {
public:
    GX_DECL explicit JpegDecoder(const DecodeOptions& options = {});
    GX_DECL JpegDecoder(JpegDecoder&&) noexcept;
    GX_DECL ~JpegDecoder();

    /// Reads the header. `bytes` stay valid until the last row; `where` names them in errors.
    GX_DECL const ImageHeader& open(std::span<const std::uint8_t> bytes, std::string_view where);
    /// Size of the image in scaled decoding by `eighths` of 8, rounded up.
    [[nodiscard]] static constexpr ImageSize scaled(ImageSize size, int eighths) {
        return {(size.width * eighths + 7) / 8, (size.height * eighths + 7) / 8};
    }
    /// Begins `region` of the image scaled to `eighths` of 8. `eighths` is 1, 2, 4 or 8, which is
    /// the image itself. Scaled pixels are those of smaller inverse DCTs, not of any resize; see
    /// CropOptions.
    GX_DECL void begin(ImageRegion region, int eighths = 8);
    /// The next rows of the region; none behind the last.
    GX_DECL ImageRows next();

    /// Warnings of libjpeg since open().
    [[nodiscard]] GX_DECL std::int64_t warnings() const;
    /// Memory held.
    [[nodiscard]] GX_DECL std::size_t bytes() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/image/codec/impl/jpeg.ipp>
#endif
