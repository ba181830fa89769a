// DecodeOptions, ImageHeader, ImageRows: what decoders take and return.
#pragma once

#include <cstddef>  // size_t
#include <cstdint>  // uint8_t

#include <gx/image/region.hpp>  // ImageSize

namespace gx {

/// Which damage of a file is an error. What is missing or wrong is filled by the library else.
enum class DamageLimit : unsigned char {
    truncated,  ///< an end before the last pixel decoded, as in Pillow; warnings are counted
    any,        ///< a warning of the library, too
    none        ///< neither: what can be decoded is
};

/// The errors' defaults are Pillow's.
struct DecodeOptions {
    bool orient = false;  ///< rotate and mirror as EXIF says, as OpenCV does and Pillow does not
    DamageLimit damage = DamageLimit::truncated;
    /// Larger images are refused before memory is taken: twice Pillow's MAX_IMAGE_PIXELS.
    std::int64_t pixels_max = 178'956'970;
};

enum class ImageFormat : unsigned char { jpeg, png };

/// What a file's first bytes say.
struct ImageHeader {
    ImageFormat format{};
    ImageSize size{};     ///< as stored, not yet turned by `orientation`
    int channels = 0;     ///< as stored: 1 grey, 2 grey and alpha, 3 RGB or palette, 4 RGBA or CMYK
    int orientation = 1;  ///< EXIF, 1 ... 8; 1 where DecodeOptions::orient is false
};

/// Rows of RGB in the decoder's memory, valid until its next call. Shapes: (count, width, 3).
struct ImageRows {
    const std::uint8_t* pixels = nullptr;
    std::size_t stride = 0;  ///< bytes between rows
    int count = 0;
};

}  // namespace gx
