// serial_mean: the mean of rows in plain words, the oracle of both tests of this folder.
#pragma once

#include <bit>      // bit_cast
#include <cmath>    // isnan
#include <cstddef>  // size_t
#include <cstdint>  // uint32_t

#include <gx/testing/rows.hpp>  // Rows

namespace testing_support {

/// By its bits, as a compiler may take any NaN of a sum for any other.
inline float quiet(float nan) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(nan) | 0x400000u);
}
/// Element `i` of the mean: rows in order, each rounded to E, and the mean rounded again.
template <class E>
float serial_mean(const gx::testing::Rows& rows, std::size_t i) {
    float sum = E::decode(E::encode(rows[0][i]));
    for (std::size_t r = 1; r < rows.size(); ++r) {
        const float next = E::decode(E::encode(rows[r][i]));
        sum = std::isnan(sum) ? quiet(sum) : sum + next;  // of two NaNs the first
    }
    return E::decode(E::encode(sum * (1.0f / static_cast<float>(rows.size()))));
}
inline bool same_bits(float a, float b) {
    return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

}  // namespace testing_support
