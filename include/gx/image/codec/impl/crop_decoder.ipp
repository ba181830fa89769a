// What CropDecoder does beside its decoders and its resizing: formats, orientations, scales.
#pragma once

#include <algorithm>  // equal, max, min
#include <cmath>      // ceil
#include <cstring>    // memcpy
#include <string>     // names

#include <gx/core/contract.hpp>             // GX_EXPECT
#include <gx/core/error.hpp>                // Error
#include <gx/image/codec/crop_decoder.hpp>  // CropDecoder

namespace gx {

namespace detail::image {

/// EXIF: rows and columns of the stored image change places where `transposed`; then the upright
/// image is read from right to left, or from below.
struct Turn {
    bool transposed, from_right, from_below;
};
[[nodiscard]] constexpr Turn turn(int orientation) {
    constexpr Turn turns[] = {{false, false, false}, {false, true, false}, {false, true, true},
                              {false, false, true},  {true, false, false}, {true, true, false},
                              {true, true, true},    {true, false, true}};
    return turns[orientation - 1];
}

[[nodiscard]] constexpr ImageSize upright(ImageSize stored, int orientation) {
    return turn(orientation).transposed ? ImageSize{stored.height, stored.width} : stored;
}
/// Where in the stored image `region` of the upright one lies.
[[nodiscard]] constexpr ImageRegion stored_region(ImageRegion region, ImageSize upright_size,
                                                  int orientation) {
    const Turn t = turn(orientation);
    if (t.from_right) region.left = upright_size.width - region.right();
    if (t.from_below) region.top = upright_size.height - region.bottom();
    if (!t.transposed) return region;
    return {region.top, region.left, region.height, region.width};
}
/// Shapes: from (the stored region), to (`size`), both times 3.
GX_DECL void turn_upright(const std::uint8_t* from, ImageSize size, int orientation,
                          std::uint8_t* to) {
    const Turn t = turn(orientation);
    const std::size_t width = std::size_t(3) * (t.transposed ? size.height : size.width);
    for (int y = 0; y < size.height; ++y)
        for (int x = 0; x < size.width; ++x, to += 3) {
            const int column = t.from_right ? size.width - 1 - x : x;
            const int row = t.from_below ? size.height - 1 - y : y;
            const std::size_t at = t.transposed
                                       ? width * std::size_t(column) + std::size_t(3) * row
                                       : width * std::size_t(row) + std::size_t(3) * column;
            std::memcpy(to, from + at, 3);
        }
}

}  // namespace detail::image

GX_DECL ImageSize CropDecoder::open(std::span<const std::uint8_t> bytes, std::string_view where) {
    constexpr std::uint8_t png[] = {0x89, 'P', 'N', 'G'};
    if (bytes.empty())
        throw Error(std::string(where) + ": an image of 0 bytes. Copy the file again or remove it");
    if (bytes.size() >= 2 && bytes[0] == 0xff && bytes[1] == 0xd8) {
        header_ = jpeg_.open(bytes, where);
    } else if (bytes.size() >= 4 && std::equal(png, png + 4, bytes.begin())) {
        header_ = png_.open(bytes, where);
    } else {
        throw Error(std::string(where) +
                    ": neither a JPEG nor a PNG: its first bytes are not theirs. "
                    "Convert the file or remove it");
    }
    return detail::image::upright(header_.size, header_.orientation);
}

GX_DECL void CropDecoder::begin(ImageRegion region, int eighths) {
    if (header_.format == ImageFormat::jpeg) jpeg_.begin(region, eighths);
    else png_.begin(region);
}

GX_DECL void CropDecoder::copy_region(ImageRegion region, std::uint8_t* out) {
    begin(region, 8);
    const std::size_t bytes = std::size_t(3) * region.width;
    for (ImageRows rows = next(); rows.count > 0; rows = next())
        for (int i = 0; i < rows.count; ++i, out += bytes)
            std::memcpy(out, rows.pixels + rows.stride * static_cast<std::size_t>(i), bytes);
}

GX_DECL void CropDecoder::decode_turned(ImageRegion region, std::uint8_t* out) {
    using namespace detail::image;
    const ImageSize size = upright(header_.size, header_.orientation);
    GX_EXPECT(lies_in(region, size), "a region lies inside its image");
    scratch_.resize(static_cast<std::size_t>(3 * region.size().pixels()));
    copy_region(stored_region(region, size, header_.orientation), scratch_.data());
    turn_upright(scratch_.data(), region.size(), header_.orientation, out);
}

GX_DECL void CropDecoder::decode(ImageRegion region, std::uint8_t* out) {
    if (header_.orientation == 1) copy_region(region, out);
    else decode_turned(region, out);
}

/// Resizes `box` of `region`, which is decoded at `eighths`; both in scaled pixels.
GX_DECL void CropDecoder::resize_rows(ImageRegion region, ImageBox box, int eighths, ImageSize to,
                                      const CropOptions& o, std::uint8_t* out) {
    const std::size_t stride = std::size_t(3) * to.width;
    resize_.begin(region.size(), box, to, o.mode, o.mirrored, out, stride);
    if (header_.orientation != 1) {
        turned_.resize(static_cast<std::size_t>(3 * region.size().pixels()));
        decode_turned(region, turned_.data());
        for (int y = 0; y < resize_.rows_needed(); ++y)
            resize_.push(&turned_[std::size_t(3) * region.width * std::size_t(y)]);
        return;
    }
    begin(region, eighths);
    for (ImageRows rows = next(); rows.count > 0; rows = next())
        for (int i = 0; i < rows.count; ++i)
            resize_.push(rows.pixels + rows.stride * static_cast<std::size_t>(i));
}

GX_DECL void CropDecoder::resize(ImageRegion region, ImageSize to, const CropOptions& o,
                                 std::uint8_t* out) {
    const bool scales = header_.format == ImageFormat::jpeg && header_.orientation == 1;
    const int eighths = scales ? detail::image::eighths_for(region.size(), to, o.reducing_gap) : 8;
    if (eighths == 8) {
        resize_rows(region, whole_box(region.size()), 8, to, o, out);
        return;
    }
    const double scale = eighths / 8.0;
    resize_rows_in(
        JpegDecoder::scaled(header_.size, eighths),
        {region.left * scale, region.top * scale, region.width * scale, region.height * scale},
        {0, 0}, eighths, to, o, out);
}

GX_DECL void CropDecoder::resize_box(ImageBox box, ImageSize to, const CropOptions& o,
                                     std::uint8_t* out) {
    const double across = std::max(box.width / to.width, 1.0);
    const double down = std::max(box.height / to.height, 1.0);
    resize_rows_in(detail::image::upright(header_.size, header_.orientation), box,
                   {static_cast<int>(across) + 2, static_cast<int>(down) + 2}, 8, to, o, out);
}

/// Resizes `box` of an image of `size`, of which the pixels up to `beside` around it are decoded.
GX_DECL void CropDecoder::resize_rows_in(ImageSize size, ImageBox box, ImageSize beside,
                                         int eighths, ImageSize to, const CropOptions& o,
                                         std::uint8_t* out) {
    const int left = std::max(static_cast<int>(box.left) - beside.width, 0);
    const int top = std::max(static_cast<int>(box.top) - beside.height, 0);
    const int right = static_cast<int>(std::ceil(box.left + box.width)) + beside.width;
    const int bottom = static_cast<int>(std::ceil(box.top + box.height)) + beside.height;
    const ImageRegion region{left, top, std::min(right, size.width) - left,
                             std::min(bottom, size.height) - top};
    box.left -= left;
    box.top -= top;
    box.width = std::min(box.width, region.width - box.left);  // rounding may pass the border
    box.height = std::min(box.height, region.height - box.top);
    resize_rows(region, box, eighths, to, o, out);
}

}  // namespace gx
