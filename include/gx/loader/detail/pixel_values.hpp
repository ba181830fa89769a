// PixelValues, decode: images through views, normalised.
#pragma once

#include <cstddef>  // size_t
#include <cstdint>  // uint8_t
#include <vector>   // values

#include <gx/core/decl.hpp>       // GX_DECL
#include <gx/loader/augment.hpp>  // View
#include <gx/loader/source.hpp>   // SourceInfo
#include <gx/model/graph.hpp>     // ImageShape

namespace gx::detail::loader {

/// (pixel * slope + offset) + (pixel * more_slope + more_offset), in floats.
struct PixelLine {
    float slope, offset, more_slope, more_offset;
    bool exact = false;  ///< has the table's bits for all 256 pixels
};

/// Normalised values of pixels, channel by channel, of the same bits on every target.
/// Cost: vectors of pixels on a line where that has the table's bits, as tested when built; for
///       2 % of random means and deviations it has not, and each pixel is looked up in the table.
class PixelValues {
public:
    PixelValues() = default;
    GX_DECL explicit PixelValues(const SourceInfo& info);
    /// Shapes: (C, 256).
    [[nodiscard]] const std::vector<float>& table() const { return table_; }
    /// to[i] = value of from[i]; `from` may be the last quarter of what `to` overwrites.
    GX_DECL void convert(int channel, const std::uint8_t* from, float* to, std::size_t count) const;

private:
    std::vector<float> table_{};
    std::vector<PixelLine> lines_{};  // one a channel
};

/// One image through a view, normalised or as it is. Shapes: from and out (C, H, W).
GX_DECL void decode(const std::uint8_t* from, float* out, ImageShape s, View view,
                    const PixelValues& values);
GX_DECL void decode(const std::uint8_t* from, std::uint8_t* out, ImageShape s, View view);

}  // namespace gx::detail::loader

#if defined(GX_HEADER_ONLY)
#include <gx/loader/detail/impl/pixel_values.ipp>
#endif
