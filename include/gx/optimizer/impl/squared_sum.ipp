// Bodies of SquaredSum.
#pragma once

#include <algorithm>  // min, count_if
#include <bit>        // bit_cast
#include <cmath>      // ldexp, floor, isfinite
#include <cstdint>    // uint64_t
#include <limits>     // quiet_NaN

#include <gx/core/contract.hpp>          // GX_EXPECT
#include <gx/optimizer/squared_sum.hpp>  // the declarations

namespace gx {

namespace detail::squared_sum {

constexpr std::size_t bins = 254;      // exponents of finite numbers
constexpr std::size_t chunk = 32768;   // squares below 2^48 that 64 bits hold, with a bit left
constexpr double word_range = 0x1p32;  // of a word after its carry
constexpr std::size_t top = SquaredSum::word_count - 2;  // the most significant word
constexpr std::size_t bad = SquaredSum::word_count - 1;  // the count of numbers that are not finite
constexpr int lowest_bit = -298;                         // of word 0

}  // namespace detail::squared_sum

GX_DECL void SquaredSum::add(std::span<const float> values) {
    using namespace detail::squared_sum;
    while (!values.empty()) {
        const std::size_t count = std::min(values.size(), chunk);
        std::array<std::uint64_t, bins + 1> sums{};  // by exponent; the last: not finite
        for (const float x : values.first(count)) {
            const auto bits = std::bit_cast<std::uint32_t>(x);
            const std::uint32_t biased = bits >> 23 & 0xffu;
            const std::uint64_t fraction = bits & 0x7fffffu;
            const std::uint64_t m = biased == 0 ? fraction : fraction | 0x800000u;
            sums[biased - (biased != 0)] += m * m;
        }
        for (std::size_t e = 0; e < bins; ++e) {
            if (sums[e] == 0) continue;
            const std::size_t word = 2 * e / 32, shift = 2 * e % 32;
            const std::uint64_t low = sums[e] << shift;
            const std::uint64_t high = shift == 0 ? 0 : sums[e] >> (64 - shift);
            words_[word] += static_cast<double>(low & 0xffffffffu);
            words_[word + 1] += static_cast<double>(low >> 32);
            if (high != 0) words_[word + 2] += static_cast<double>(high);
        }
        if (sums[bins] != 0)
            words_[bad] += static_cast<double>(std::ranges::count_if(
                values.first(count), [](float x) { return !std::isfinite(x); }));
        carry();
        values = values.subspan(count);
    }
}

GX_DECL void SquaredSum::add(const SquaredSum& part) {
    for (std::size_t k = 0; k < word_count; ++k) words_[k] += part.words_[k];
    carry();
}

GX_DECL void SquaredSum::carry() {
    using namespace detail::squared_sum;
    for (std::size_t k = 0; k < top; ++k) {
        const double over = std::floor(words_[k] / word_range);
        words_[k] -= over * word_range;
        words_[k + 1] += over;
    }
}

GX_DECL double SquaredSum::value() const {
    using namespace detail::squared_sum;
    if (words_[bad] != 0) return std::numeric_limits<double>::quiet_NaN();
    SquaredSum s = *this;  // words() may hold carries
    s.carry();
    double sum = 0;
    for (std::size_t k = top + 1; k-- > 0;)  // the largest first: 3 words fill a double
        sum += std::ldexp(s.words_[k], 32 * static_cast<int>(k) + lowest_bit);
    return sum;
}

GX_DECL bool SquaredSum::operator==(const SquaredSum& other) const {
    SquaredSum x = *this, y = other;
    x.carry();
    y.carry();
    return x.words_ == y.words_;
}

GX_DECL void squared_norms(std::span<const ParameterSlice> slices, std::span<const float> values,
                           std::span<SquaredSum> sums) {
    GX_EXPECT(slices.size() == sums.size(), "one sum for each slice");
    for (std::size_t i = 0; i < slices.size(); ++i) {
        const ParameterSlice& s = slices[i];
        GX_EXPECT(s.offset <= values.size() && s.count <= values.size() - s.offset,
                  "a parameter lies outside of the flat vector");
        sums[i].add(values.subspan(s.offset, s.count));
    }
}

}  // namespace gx
