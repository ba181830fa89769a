// Normalised values of pixels; images through views.
#pragma once

#include <algorithm>  // clamp, copy_n, fill_n, max, min
#include <array>      // all pixel values
#include <cstddef>    // ptrdiff_t, size_t
#include <cstdint>    // uint8_t, uintptr_t
#include <cmath>      // abs, floor, ilogb, ldexp
#include <cstring>    // memcmp, memcpy
#include <span>       // the table of a channel

#include <gx/loader/detail/pixel_values.hpp>  // the declarations

namespace gx::detail::loader {

/// to[i] = from[i] on the line, in whole blocks; returns how many. The first sum is exact, so that
/// the last addition alone rounds what is not far below a float's last bit. A block is read before
/// it is written. Vectors of the compilers, doubled in width one step after the other: g++ 12 makes
/// none of a loop over 16 that it unrolls, nor of one conversion from 8 to 32 bits.
inline std::size_t convert_on(const PixelLine& line, const std::uint8_t* from, float* to,
                              std::size_t count) {
    constexpr std::size_t block = 16;
    using Pixels [[gnu::vector_size(block)]] = std::uint8_t;
    using Halves [[gnu::vector_size(block * sizeof(std::uint16_t))]] = std::uint16_t;
    using Words [[gnu::vector_size(block * sizeof(std::int32_t))]] = std::int32_t;
    using Values [[gnu::vector_size(block * sizeof(float))]] = float;
    std::size_t at = 0;
    for (; at + block <= count; at += block) {
        // A store to a cold line costs more than the rest. The line may lie behind the array.
        const auto ahead = reinterpret_cast<std::uintptr_t>(to + at) + 1024 * sizeof(float);
        __builtin_prefetch(reinterpret_cast<const void*>(ahead), 1);
        Pixels pixels;
        std::memcpy(&pixels, from + at, sizeof pixels);
        const auto words = __builtin_convertvector(__builtin_convertvector(pixels, Halves), Words);
        const auto x = __builtin_convertvector(words, Values);
        const Values values =
            (x * line.slope + line.offset) + (x * line.more_slope + line.more_offset);
        std::memcpy(to + at, &values, sizeof values);
    }
    return at;
}

/// The line slope * pixel + offset of products and sums up to `largest`: both are cut at the last
/// bit of a float of that size, so that their sums are exact, and the rest is kept beside them.
inline PixelLine line_of(double slope, double offset, double largest) {
    const double last = std::ldexp(1.0, std::ilogb(largest) - 23);
    const double cut_slope = std::floor(slope / last) * last;
    const double cut_offset = std::floor(offset / last) * last;
    return {.slope = static_cast<float>(cut_slope),
            .offset = static_cast<float>(cut_offset),
            .more_slope = static_cast<float>(slope - cut_slope),
            .more_offset = static_cast<float>(offset - cut_offset)};
}

GX_DECL PixelValues::PixelValues(const SourceInfo& info) {
    std::array<std::uint8_t, 256> pixels{};
    for (std::size_t p = 0; p < pixels.size(); ++p) pixels[p] = static_cast<std::uint8_t>(p);
    for (std::size_t c = 0; c < info.mean.size(); ++c) {
        const double mean{info.mean[c]}, deviation{info.deviation[c]};
        for (const int pixel : pixels)
            table_.push_back(static_cast<float>((pixel / 255.0 - mean) / deviation));
        const std::span<const float> table = std::span(table_).subspan(256 * c);
        const double largest = std::max(
            {double{std::abs(table.front())}, double{std::abs(table.back())}, 1 / deviation});
        PixelLine line = line_of(1 / (255 * deviation), -mean / deviation, largest);
        std::array<float, 256> values{};
        convert_on(line, pixels.data(), values.data(), values.size());
        line.exact = std::memcmp(values.data(), table.data(), sizeof values) == 0;
        lines_.push_back(line);
    }
}

GX_DECL void PixelValues::convert(int channel, const std::uint8_t* from, float* to,
                                  std::size_t count) const {
    const auto c = static_cast<std::size_t>(channel);
    const float* value = &table_[256 * c];
    std::size_t i = lines_[c].exact ? convert_on(lines_[c], from, to, count) : 0;
    for (; i < count; ++i) to[i] = value[from[i]];
}

/// to[i] = from[i], or from[count - 1 - i], eight at a time, the last eight over others: rows of
/// small images are too short for a call of memmove each.
template <bool mirrored>
inline void copy_row(const std::uint8_t* from, std::uint8_t* to, int count) {
    const auto copy_eight = [&](int at) {
        std::uint64_t eight = 0;
        std::memcpy(&eight, from + (mirrored ? count - 8 - at : at), sizeof eight);
        if (mirrored) eight = __builtin_bswap64(eight);
        std::memcpy(to + at, &eight, sizeof eight);
    };
    if (count < 8) {
        for (int i = 0; i < count; ++i) to[i] = from[mirrored ? count - 1 - i : i];
        return;
    }
    for (int at = 0; at + 8 <= count; at += 8) copy_eight(at);
    copy_eight(count - 8);
}

/// Blackens `count` pixels of a row from column `at`, its first or its last ones.
inline void blacken(std::uint8_t* row, int width, int at, int count) {
    if (width < 8 || count > 8) std::fill_n(row + at, count, std::uint8_t{0});
    else std::memset(at == 0 ? row : row + width - 8, 0, 8);  // pixels beyond are written later
}

/// One channel of an image through a view. Shapes: from and out (H, W).
template <bool mirrored>
inline void show_plane(const std::uint8_t* from, std::uint8_t* out, ImageShape s, View view) {
    const std::ptrdiff_t width = s.width;
    const int left = std::clamp(view.right, 0, s.width);  // columns [left, right) are shown
    const int right = std::clamp(s.width + view.right, left, s.width);
    const int to = mirrored ? left : s.width - right, black = s.width - (right - left);
    const int top = std::clamp(-view.down, 0, s.height);  // rows [top, bottom) show some
    const int bottom = std::clamp(s.height - view.down, top, s.height);
    std::fill_n(out, top * width, std::uint8_t{0});
    std::fill_n(out + bottom * width, (s.height - bottom) * width, std::uint8_t{0});
    for (int y = top; y < bottom; ++y) {
        std::uint8_t* row = out + y * width;
        if (black > 0) blacken(row, s.width, to > 0 ? 0 : s.width - black, black);
        copy_row<mirrored>(from + (y + view.down) * width + left, row + to, right - left);
    }
}

GX_DECL void decode(const std::uint8_t* from, std::uint8_t* out, ImageShape s, View view) {
    const std::ptrdiff_t plane = std::ptrdiff_t{s.width} * s.height;
    for (int c = 0; c < s.channels; ++c, from += plane, out += plane)
        if (view == View{}) std::copy_n(from, plane, out);
        else if (view.mirrored) show_plane<true>(from, out, s, view);
        else show_plane<false>(from, out, s, view);
}

GX_DECL void decode(const std::uint8_t* from, float* out, ImageShape s, View view,
                    const PixelValues& values) {
    const std::ptrdiff_t plane = std::ptrdiff_t{s.width} * s.height;
    for (int c = 0; c < s.channels; ++c, from += plane, out += plane) {
        const std::uint8_t* pixels = from;
        if (view != View{}) {  // shown in the last quarter of the values that replace it
            std::uint8_t* shown = reinterpret_cast<std::uint8_t*>(out + plane) - plane;
            decode(from, shown, {1, s.height, s.width}, view);
            pixels = shown;
        }
        values.convert(c, pixels, out, static_cast<std::size_t>(plane));
    }
}

}  // namespace gx::detail::loader
