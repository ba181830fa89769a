// Sums, products and quotients whose NaNs have the bits that they have on the host.
#pragma once

#include <bit>      // bit_cast
#include <cstdint>  // uint32_t

namespace gx::cuda {

inline constexpr std::uint32_t quiet_bit = 0x400000u;
/// What x86 makes of infinity - infinity and infinity * 0. A GPU makes 0x7fffffff of every NaN.
inline constexpr std::uint32_t invalid_bits = 0xffc00000u;

[[nodiscard]] constexpr float quieted(float nan) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(nan) | quiet_bit);
}

/// mine + x; of two NaNs mine.
[[nodiscard]] constexpr float sum_of(float mine, float x) {
    if (mine != mine) return quieted(mine);
    if (x != x) return quieted(x);
    const float sum = mine + x;
    return sum != sum ? std::bit_cast<float>(invalid_bits) : sum;
}

/// x * factor, where factor is no NaN.
[[nodiscard]] constexpr float product_of(float x, float factor) {
    if (x != x) return quieted(x);
    const float product = x * factor;
    return product != product ? std::bit_cast<float>(invalid_bits) : product;
}

/// x / divisor, where divisor is neither NaN nor infinite.
[[nodiscard]] constexpr float quotient_of(float x, float divisor) {
    if (x != x) return quieted(x);
    const float quotient = x / divisor;
    return quotient != quotient ? std::bit_cast<float>(invalid_bits) : quotient;
}

}  // namespace gx::cuda
