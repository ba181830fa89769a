// Weights of a resized image, and the rows that they are applied to.
#pragma once

#include <algorithm>  // clamp, max
#include <cmath>      // ceil, floor, lround
#include <cstring>    // memcpy

#include <gx/core/contract.hpp>              // GX_EXPECT
#include <gx/image/crop_resize.hpp>          // CropResize
#include <gx/image/detail/resize_loops.hpp>  // sum_pixel, blend_rows

namespace gx {

namespace detail::image {

inline constexpr int weight_bits = 22;  // Pillow's PRECISION_BITS

/// As Pillow's precompute_coeffs() and normalize_coeffs_8bpc().
GX_DECL void fill(Taps& taps, int inputs, double from, double extent, int outputs, bool reversed) {
    const double scale = extent / outputs, reach = std::max(scale, 1.0);
    const auto count = static_cast<std::size_t>(outputs);
    const auto centre = [&](int i) { return from + (i + 0.5) * scale; };
    const auto index = [&](int i) {
        return static_cast<std::size_t>(reversed ? outputs - 1 - i : i);
    };
    taps.first.resize(count);
    taps.count.resize(count);
    int most = 0;
    for (int i = 0; i < outputs; ++i) {
        const int first = std::max(static_cast<int>(centre(i) - reach + 0.5), 0);
        const int last = std::min(static_cast<int>(centre(i) + reach + 0.5), inputs);
        taps.first[index(i)] = first;
        taps.count[index(i)] = last - first;
        most = std::max(most, last - first);
    }
    taps.padded = (most + 3) / 4 * 4;
    const auto padded = static_cast<std::size_t>(taps.padded);
    taps.high.assign(count * padded, 0);
    taps.low.assign(count * padded, 0);
    for (int i = 0; i < outputs; ++i) {
        const int first = taps.first[index(i)], last = first + taps.count[index(i)];
        const auto weight = [&](int k) {
            return std::max(0.0, 1 - std::abs((k - centre(i) + 0.5) * (1 / reach)));
        };
        double sum = 0;
        for (int k = first; k < last; ++k) sum += weight(k);
        for (int k = first; k < last; ++k) {
            const double share = sum == 0 ? 0 : weight(k) / sum;
            const int rounded = static_cast<int>(0.5 + share * (1 << weight_bits));
            const std::size_t slot = index(i) * padded + static_cast<std::size_t>(k - first);
            taps.high[slot] = static_cast<std::int16_t>(rounded >> 12);
            taps.low[slot] = static_cast<std::int16_t>(rounded & 0xfff);
        }
    }
}

GX_DECL void fill(Steps& steps, int inputs, double from, double extent, int outputs,
                  bool reversed) {
    const double scale = extent / outputs;
    steps.first.resize(static_cast<std::size_t>(outputs));
    steps.weight.resize(4 * static_cast<std::size_t>(outputs));
    for (int i = 0; i < outputs; ++i) {
        const auto at = static_cast<std::size_t>(reversed ? outputs - 1 - i : i);
        const double centre = std::clamp(from + (i + 0.5) * scale - 0.5, 0.0, inputs - 1.0);
        const int first = static_cast<int>(centre);
        const long weight = std::min(std::lround((centre - first) * 32768), 32767L);
        steps.first[at] = first;
        for (std::size_t c = 0; c < 4; ++c)
            steps.weight[4 * at + c] = static_cast<std::int16_t>(weight);
    }
}

}  // namespace detail::image

GX_DECL void CropResize::begin(ImageSize from, ImageBox box, ImageSize to, ResizeMode mode,
                               bool mirrored, std::uint8_t* out, std::size_t stride) {
    GX_EXPECT(!from.empty() && !to.empty(), "an image without pixels can't be resized");
    GX_EXPECT(box.width > 0 && box.height > 0 && box.left >= 0 && box.top >= 0 &&
                  box.left + box.width <= from.width && box.top + box.height <= from.height,
              "the part that is resized lies inside the image");
    from_ = from, to_ = to, mode_ = mode, out_ = out, stride_ = stride;
    row_ = output_ = 0;
    const auto rows = static_cast<std::size_t>(to.height);
    const std::size_t slack = 32;  // the vector loops read and write so far behind a row
    if (mode == ResizeMode::antialiased) {
        fill(columns_, from.width, box.left, box.width, to.width, mirrored);
        fill(rows_, from.height, box.top, box.height, to.height, false);
        rows_needed_ = rows_.first[rows - 1] + rows_.count[rows - 1];
        line_bytes_ = std::size_t(3) * to.width + slack;
        ring_ = rows_.padded;
        lines_.resize(static_cast<std::size_t>(ring_) * line_bytes_);
        sources_.resize(static_cast<std::size_t>(ring_));
    } else {
        fill(column_steps_, from.width, box.left, box.width, to.width, mirrored);
        fill(row_steps_, from.height, box.top, box.height, to.height, false);
        rows_needed_ = std::min(row_steps_.first[rows - 1] + 2, from.height);
        previous_.resize(std::size_t(3) * from.width);
        blended_.resize(std::size_t(3) * from.width + slack);
        line_.resize(std::size_t(3) * to.width + slack);
    }
}

GX_DECL void CropResize::push(const std::uint8_t* row) {
    if (output_ == to_.height) return;
    if (mode_ == ResizeMode::antialiased) push_antialiased(row);
    else push_plain(row);
    ++row_;
}

GX_DECL void CropResize::sum_pixels(const std::uint8_t* row, std::uint8_t* to) const {
    using namespace detail::image;
#if defined(__x86_64__) && defined(__GNUC__)
    if (simd_ != Simd::portable) {
        sum_pixels_avx2(row, from_.width, columns_.first.data(), columns_.high.data(),
                        columns_.low.data(), columns_.padded, to, to_.width);
        return;
    }
#endif
    for (int x = 0; x < to_.width; ++x) {
        const auto at = static_cast<std::size_t>(x), weights = at * std::size_t(columns_.padded);
        sum_pixel(row + std::size_t(3) * columns_.first[at], &columns_.high[weights],
                  &columns_.low[weights], columns_.count[at], to + 3 * at);
    }
}

GX_DECL void CropResize::push_antialiased(const std::uint8_t* row) {
    using namespace detail::image;
    const auto line = [&](int input) {
        return &lines_[static_cast<std::size_t>(input % ring_) * line_bytes_];
    };
    if (row_ < rows_.first[static_cast<std::size_t>(output_)]) return;
    std::uint8_t* to = line(row_);
    sum_pixels(row, to);
    for (; output_ < to_.height; ++output_) {
        const auto at = static_cast<std::size_t>(output_);
        const int first = rows_.first[at], count = rows_.count[at];
        if (first + count - 1 > row_) return;
        for (int k = 0; k < count; ++k) sources_[static_cast<std::size_t>(k)] = line(first + k);
        const std::size_t weights = at * static_cast<std::size_t>(rows_.padded);
        const std::int16_t *high = &rows_.high[weights], *low = &rows_.low[weights];
        std::uint8_t* out = out_ + at * stride_;
        std::size_t done = 0;
        const std::size_t bytes = std::size_t(3) * to_.width;
#if defined(__x86_64__) && defined(__GNUC__)
        if (simd_ != Simd::portable)
            done = sum_rows_avx2(sources_.data(), high, low, count, out, bytes);
#endif
        sum_rows(sources_.data(), high, low, count, out, done, bytes);
    }
}

GX_DECL void CropResize::push_plain(const std::uint8_t* row) {
    using namespace detail::image;
    const std::size_t elements = std::size_t(3) * from_.width;
    const bool last = row_ == from_.height - 1;
    for (; output_ < to_.height; ++output_) {
        const auto at = static_cast<std::size_t>(output_);
        const int first = row_steps_.first[at];
        if (first > row_ || (first == row_ && !last)) break;
        const std::uint8_t* upper = first == row_ ? row : previous_.data();
        const std::int16_t weight = row_steps_.weight[4 * at];
        std::size_t done = 0;
        int pixels = 0;
#if defined(__x86_64__) && defined(__GNUC__)
        if (simd_ != Simd::portable)
            done = blend_rows_avx2(upper, row, weight, blended_.data(), elements);
#endif
        blend_rows(upper, row, weight, blended_.data(), done, elements);
        std::memcpy(&blended_[elements], &blended_[elements - 3], 3 * sizeof blended_[0]);
#if defined(__x86_64__) && defined(__GNUC__)
        if (simd_ != Simd::portable)
            pixels = blend_columns_avx2(blended_.data(), column_steps_.first.data(),
                                        column_steps_.weight.data(), line_.data(), to_.width);
#endif
        blend_columns(blended_.data(), column_steps_.first.data(), column_steps_.weight.data(),
                      line_.data(), pixels, to_.width);
        std::memcpy(out_ + at * stride_, line_.data(), std::size_t(3) * to_.width);
    }
    if (output_ < to_.height && row_steps_.first[static_cast<std::size_t>(output_)] == row_)
        std::memcpy(previous_.data(), row, elements);
}

}  // namespace gx
