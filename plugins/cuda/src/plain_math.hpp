// exponential, logarithm: of sums, products and quotients of doubles, the same on host and GPU.
#pragma once

#include <array>    // coefficients
#include <bit>      // bit_cast
#include <cstddef>  // size_t
#include <cstdint>  // uint64_t
#include <limits>   // infinity

namespace gx::cuda {

template <std::size_t N>
[[nodiscard]] constexpr double polynomial(const double (&c)[N], double x) {
    double sum = c[N - 1];
    for (std::size_t i = N - 1; i-- > 0;) sum = sum * x + c[i];
    return sum;
}

/// exp(x) to two units of the last place; 0 where it is below 2^-1022.
[[nodiscard]] constexpr double exponential(double x) {
    if (x != x) return x;
    if (x < -708) return 0;
    if (x > 709) return std::numeric_limits<double>::infinity();
    const double turns = x * 1.4426950408889634;  // 1 / log 2
    const auto n = static_cast<int>(turns < 0 ? turns - 0.5 : turns + 0.5);
    const double r = (x - n * 0x1.62e42fefap-1) - n * 0x1.cf79abc9e3b39p-40;  // log 2 in two parts
    constexpr double series[] = {1.0,
                                 1.0,
                                 1.0 / 2,
                                 1.0 / 6,
                                 1.0 / 24,
                                 1.0 / 120,
                                 1.0 / 720,
                                 1.0 / 5040,
                                 1.0 / 40320,
                                 1.0 / 362880,
                                 1.0 / 3628800,
                                 1.0 / 39916800,
                                 1.0 / 479001600,
                                 1.0 / 6227020800};
    return polynomial(series, r) *
           std::bit_cast<double>(static_cast<std::uint64_t>(1023 + n) << 52);
}

/// Natural logarithm of x, a normal number of at least 1, or NaN: as exact_math::log.
[[nodiscard]] constexpr double logarithm(double x) {
    if (x != x) return x;
    const auto bits = std::bit_cast<std::uint64_t>(x);
    auto exponent = static_cast<int>(bits >> 52) - 1023;
    double m = std::bit_cast<double>((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
    if (m > 1.4142135623730951) {  // keeps m near 1, where the series is short
        m *= 0.5;
        ++exponent;
    }
    constexpr double odd[] = {2.0,      2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9,
                              2.0 / 11, 2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19};
    const double s = (m - 1.0) / (m + 1.0);  // log m = 2 (s + s^3 / 3 + s^5 / 5 + ...)
    return exponent * 0.6931471805599453 + s * polynomial(odd, s * s);
}

}  // namespace gx::cuda
