// PngDecoder: parts of PNG files as RGB rows, by libpng.
#pragma once

#include <cstdint>      // uint8_t
#include <memory>       // unique_ptr
#include <span>         // a file's bytes
#include <string_view>  // its name

#include <gx/core/decl.hpp>            // GX_DECL
#include <gx/image/codec/options.hpp>  // DecodeOptions, ImageHeader, ImageRows

namespace gx {

/// Decodes one PNG after another to 8-bit RGB: JpegDecoder's interface.
///
/// Palettes and fewer bits than 8 are expanded, 16 bits lose their lower 8, grey becomes R = G = B,
/// alpha and transparent colours are dropped, gamma is ignored: Pillow's convert("RGB"), but for
/// 16-bit grey, which Pillow clips at 255.
///
/// Errors: as JpegDecoder, but a truncated file whatever DecodeOptions say. Texts and colour
///         profiles are skipped; another chunk of more than 8 MB beside the pixels is refused.
/// Cost:   rows are decoded from the first to the last of the region; of an interlaced file the
///         whole image, which is held in memory.
class PngDecoder {
public:
    GX_DECL explicit PngDecoder(const DecodeOptions& options = {});
    GX_DECL PngDecoder(PngDecoder&&) noexcept;
    GX_DECL ~PngDecoder();

    /// Reads the header. `bytes` stay valid until the last row; `where` names them in errors.
    GX_DECL const ImageHeader& open(std::span<const std::uint8_t> bytes, std::string_view where);
    /// Begins `region` of the image, once after each open().
    GX_DECL void begin(ImageRegion region);
    /// The next rows of the region; none behind the last.
    GX_DECL ImageRows next();

    /// Warnings of libpng since open().
    [[nodiscard]] GX_DECL std::int64_t warnings() const;
    /// Memory held.
    [[nodiscard]] GX_DECL std::size_t bytes() const;

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/image/codec/impl/png.ipp>
#endif
