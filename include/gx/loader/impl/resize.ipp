// Weights of bilinear resizing, and the two passes.
#pragma once

#include <algorithm>  // max, max_element
#include <cstdlib>    // abs

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/core/decl.hpp>      // GX_DECL
#include <gx/loader/resize.hpp>  // the declarations

namespace gx {

GX_DECL Resize::Resize(ImageShape from, ImageShape to)
    : from_(from),
      to_(to),
      rows_(taps(from.height, to.height)),
      columns_(taps(from.width, to.width)),
      lines_(std::size_t(from.height) * std::size_t(to.width)) {
    GX_EXPECT(from.channels == to.channels, "resizing keeps the channels");
}

GX_DECL std::vector<Resize::Taps> Resize::taps(int from, int to) {
    GX_EXPECT(from > 0 && to > 0, "an image has at least one row and column");
    // |i - c| < s, times 2 to: |(2 i + 1) to - (2 x + 1) from| < reach, all whole numbers.
    const std::int64_t m = from, n = to, reach = 2 * std::max(m, n);
    constexpr std::int64_t one = std::int64_t{1} << 20;
    std::vector<Taps> all;
    for (std::int64_t x = 0; x < n; ++x) {
        const auto weight = [&](std::int64_t i) {
            return std::max(std::int64_t{0}, reach - std::abs((2 * i + 1) * n - (2 * x + 1) * m));
        };
        std::int64_t first = 0, last = m;
        while (weight(first) == 0) ++first;
        while (weight(last - 1) == 0) --last;
        std::int64_t sum = 0, given = 0;
        for (std::int64_t i = first; i < last; ++i) sum += weight(i);
        const std::size_t begin = weights_.size();
        for (std::int64_t i = first; i < last; ++i) {
            weights_.push_back(weight(i) * one / sum);
            given += weights_.back();
        }
        *std::max_element(weights_.begin() + std::ptrdiff_t(begin), weights_.end()) += one - given;
        all.push_back({static_cast<int>(first), static_cast<int>(last - first), begin});
    }
    return all;
}

GX_DECL void Resize::operator()(const std::uint8_t* from, std::uint8_t* to) {
    const auto width = static_cast<std::size_t>(to_.width);
    for (int c = 0; c < to_.channels; ++c) {
        for (std::size_t y = 0; y < std::size_t(from_.height); ++y, from += from_.width)
            for (std::size_t x = 0; x < width; ++x) {
                const Taps& t = columns_[x];
                std::int64_t sum = 0;
                for (int i = 0; i < t.count; ++i)
                    sum += weights_[t.weights + std::size_t(i)] * from[t.first + i];
                lines_[y * width + x] = sum;
            }
        for (const Taps& t : rows_)
            for (std::size_t x = 0; x < width; ++x, ++to) {
                std::int64_t sum = std::int64_t{1} << 39;  // a half
                for (int i = 0; i < t.count; ++i)
                    sum += weights_[t.weights + std::size_t(i)] *
                           lines_[std::size_t(t.first + i) * width + x];
                *to = static_cast<std::uint8_t>(sum >> 40);
            }
    }
}

}  // namespace gx
