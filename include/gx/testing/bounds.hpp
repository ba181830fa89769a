// Error bounds of a mean that is rounded at every hop, against the exact one.
#pragma once

#include <cmath>    // abs
#include <cstdint>  // int64_t
#include <vector>   // bounds

#include <gx/core/element.hpp>  // Element
#include <gx/testing/rows.hpp>  // Rows, WireLimits

namespace gx::testing {

/// Largest relative error of one rounding to E: half the spacing of numbers just above 1.
template <Element E>
[[nodiscard]] constexpr double unit_roundoff() {
    float spacing = 1.0f;
    while (E::decode(E::encode(1.0f + spacing / 2)) == 1.0f + spacing / 2 &&
           1.0f + spacing / 2 != 1.0f)
        spacing /= 2;
    return spacing / 2;
}
static_assert(unit_roundoff<fp32>() == 0x1p-24 && unit_roundoff<fp16>() == 0x1p-11 &&
              unit_roundoff<bf16>() == 0x1p-8);

/// The largest finite number of E.
template <Element E>
[[nodiscard]] constexpr float largest_finite() {
    const auto keeps = [](double x) {
        return x <= 0x1.fffffep127 &&
               static_cast<double>(E::decode(E::encode(static_cast<float>(x)))) == x;
    };
    double x = 1;
    while (keeps(2 * x)) x *= 2;
    const double last_bit = x * 0x1p-23;
    for (double part = x / 2; part >= last_bit; part /= 2)
        if (keeps(x + part)) x += part;
    return static_cast<float>(x);
}
static_assert(largest_finite<fp16>() == 65504.0f && largest_finite<fp32>() == 0x1.fffffep127f);

/// The smallest positive number of E.
template <Element E>
[[nodiscard]] constexpr double smallest_positive() {
    float x = 1.0f;
    while (x / 2 > 0 && E::decode(E::encode(x / 2)) == x / 2) x /= 2;
    return x;
}
static_assert(smallest_positive<fp16>() == 0x1p-24);

/// The limits of E as a value.
template <Element E>
[[nodiscard]] constexpr WireLimits wire_limits() {
    return {unit_roundoff<E>(), smallest_positive<E>(), largest_finite<E>()};
}

/// Largest error of the mean of n values whose magnitudes add up to S. They are rounded to the
/// wire, added in any order with a rounding to float and to the wire after each of the n - 1
/// additions, and divided in float before, after or both. With u and v the unit roundoffs of the
/// wire and of float:
///
///     n u S: one rounding for each value, one for each partial sum, none larger than S
///     (n + 3) v S: the sums and the factors in float
///     1 + n (u + v): partial sums carry earlier errors
///
/// divided by n; and n roundings below the wire's normal range, scaled by at most n.
[[nodiscard]] constexpr double mean_bound(const WireLimits& wire, int ranks, double magnitudes) {
    const double n = ranks, u = wire.unit_roundoff, v = 0x1p-24;
    return (n * u + (n + 3) * v) * (1 + n * (u + v)) * magnitudes / n + n * wire.smallest_positive;
}

/// The bound of each column's mean.
[[nodiscard]] inline std::vector<double> mean_bounds(const WireLimits& wire, const Rows& rows) {
    std::vector<double> bound(rows.empty() ? 0 : rows[0].size());
    for (std::size_t i = 0; i < bound.size(); ++i) {
        double magnitudes = 0;
        for (const auto& row : rows) magnitudes += std::abs(static_cast<double>(row[i]));
        bound[i] = mean_bound(wire, static_cast<int>(rows.size()), magnitudes);
    }
    return bound;
}
template <Element E>
[[nodiscard]] std::vector<double> mean_bounds(const Rows& rows) {
    return mean_bounds(wire_limits<E>(), rows);
}

}  // namespace gx::testing
