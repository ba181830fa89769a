// The table of normalised pixel values; images through views.
#pragma once

#include <algorithm>  // clamp, copy_n, fill_n
#include <cstddef>    // size_t
#include <vector>     // the table

#include <gx/core/error.hpp>        // Error
#include <gx/loader/in_memory.hpp>  // the declarations

namespace gx::detail::loader {

GX_DECL SourceInfo info_at(const SourceRef& source, int image_side) {
    SourceInfo info = source.info();
    if (image_side > 0 && source.has_sizes()) info.shape.height = info.shape.width = image_side;
    return info;
}

GX_DECL std::vector<float> normalised_values(const SourceInfo& info) {
    std::vector<float> table;
    for (std::size_t c = 0; c < info.mean.size(); ++c)
        for (int pixel = 0; pixel < 256; ++pixel)
            table.push_back(static_cast<float>((pixel / 255.0 - double{info.mean[c]}) /
                                               double{info.deviation[c]}));
    return table;
}

/// One row: out[x] = value of from[x + right], black outside; mirrored: written from the right.
template <bool mirrored, class T>
inline void decode_row(const std::uint8_t* from, T* out, int width, int right, const T* value) {
    const int first = std::clamp(-right, 0, width), last = std::clamp(width - right, 0, width);
    const auto at = [&](int x) -> T& { return out[mirrored ? width - 1 - x : x]; };
    for (int x = 0; x < first; ++x) at(x) = value[0];
    for (int x = first; x < last; ++x) at(x) = value[from[x + right]];
    for (int x = last; x < width; ++x) at(x) = value[0];
}

template <class T>
void decode_image(const std::uint8_t* from, T* out, ImageShape s, View view, const T* table) {
    const std::ptrdiff_t width = s.width;
    for (int c = 0; c < s.channels; ++c, table += 256) {
        const std::uint8_t* plane = from + c * width * s.height;
        for (int y = 0; y < s.height; ++y, out += s.width) {
            const int row = y + view.down;
            if (row < 0 || row >= s.height) std::fill_n(out, s.width, table[0]);
            else if (view.mirrored)
                decode_row<true>(plane + row * width, out, s.width, view.right, table);
            else decode_row<false>(plane + row * width, out, s.width, view.right, table);
        }
    }
}

GX_DECL void decode(const std::uint8_t* from, float* out, ImageShape s, View view,
                    const float* table) {
    decode_image(from, out, s, view, table);
}
GX_DECL void decode(const std::uint8_t* from, std::uint8_t* out, ImageShape s, View view,
                    const std::uint8_t* table) {
    decode_image(from, out, s, view, table);
}

GX_DECL void take_values(const SourceInfo& info, const Sample& sample, bool plain, float* to) {
    if (!plain)
        throw Error("gx: data set '" + info.name +
                    "' holds numbers, not pixels: they can't be resized, augmented or sent to the "
                    "device as pixels. Use InMemory<> without 'pixels', in one phase.");
    std::copy_n(sample.values, sample.shape.elements(), to);
}

}  // namespace gx::detail::loader

#if defined(GX_COMPILED)
template class gx::InMemory<>;
#endif
