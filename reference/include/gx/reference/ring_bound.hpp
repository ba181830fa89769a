// ring_error_bound: how far a ring's mean can be from the exact one, by its roundings.
#pragma once

#include <algorithm>  // max
#include <cmath>      // ilogb, ldexp, fabs
#include <concepts>   // same_as
#include <cstdint>    // int64_t
#include <limits>     // infinity
#include <span>       // orders
#include <vector>     // bounds

#include <gx/core/element.hpp>    // fp32, fp16, bf16
#include <gx/reference/ring.hpp>  // for_each_multi_ring_sum

namespace gx::reference {

/// How a binary format rounds: digits of significand, exponent of the smallest normal number,
/// largest finite number.
struct Format {
    int digits = 0;
    int exponent_min = 0;
    double largest = 0;
};
template <class E>
inline constexpr Format format_of{};
template <>
inline constexpr Format format_of<fp32>{24, -126, 0x1.fffffep127};
template <>
inline constexpr Format format_of<fp16>{11, -14, 65504.0};
template <>
inline constexpr Format format_of<bf16>{8, -126, 0x1.fep127};

/// The largest error of rounding to nearest a number of at most this magnitude: half a unit in the
/// last place, which below the smallest normal number stays what it is there. +inf where the
/// number may pass the largest finite one.
[[nodiscard]] inline double rounding_error(Format f, double magnitude) {
    if (magnitude == 0) return 0;
    if (!(magnitude <= f.largest)) return std::numeric_limits<double>::infinity();
    return std::ldexp(1.0, std::max(std::ilogb(magnitude), f.exponent_min) - f.digits);
}

namespace detail {
/// A number known to be within `error` of `exact`, and what rounding does to it.
struct Inexact {
    double exact = 0, error = 0;
    [[nodiscard]] Inexact rounded(Format f) const {
        return {exact, error + rounding_error(f, std::fabs(exact) + error)};
    }
    [[nodiscard]] Inexact times(double factor) const {  // factor > 0
        return {exact * factor, error * factor};
    }
    [[nodiscard]] Inexact plus(Inexact other) const {
        return {exact + other.exact, error + other.error};
    }
};
}  // namespace detail

/// For each element, a bound of |multi_ring_mean<E, Divide>(rows, orders) - exact mean|.
///
/// Every value on the way is followed as its exact value and a bound of its error so far. A
/// rounding adds half a unit in the last place of the largest magnitude that the value can have;
/// sums add their errors; factors multiply them:
///
///     onto the wire:   x = round_E(round_32(g * before))
///     each hop:        sum = round_E(round_32(x + sum))          fp32 on the wire: round_32 only
///     off the wire:    mean = round_32(sum * after)
///
/// and in the end |before * after - 1 / n| * |sum of g| is added, for factors that are no exact
/// parts of 1 / n. Subnormals have their own constant unit; where a magnitude may pass the largest
/// finite number of E or of float, the bound is +inf. The bound itself is computed in double: it
/// is widened by 2^-20 of itself, far more than its own roundings, and those of the exact mean.
template <Element E, class Divide>
[[nodiscard]] std::vector<double> ring_error_bound(const Rows& rows,
                                                   std::span<const RingOrder> orders) {
    using detail::Inexact;
    const int n = static_cast<int>(rows.size());
    const double before = double{Divide::before(n)}, after = double{Divide::after(n)};
    const auto rounded = [](Inexact x) {
        x = x.rounded(format_of<fp32>);
        return std::same_as<E, fp32> ? x : x.rounded(format_of<E>);
    };
    std::vector<double> bounds(rows.at(0).size());
    for_each_multi_ring_sum(
        std::int64_t(bounds.size()), orders, [&](std::size_t i, const RingOrder& ranks) {
            const auto on_the_wire = [&](int rank) {
                return rounded(Inexact{double{rows[std::size_t(rank)].at(i)}, 0}.times(before));
            };
            Inexact total = on_the_wire(ranks[0]);
            for (std::size_t j = 1; j < ranks.size(); ++j)
                total = rounded(on_the_wire(ranks[j]).plus(total));
            const double inexact_factor = std::fabs(before * after - 1.0 / n) / before;
            const double bound = total.times(after).rounded(format_of<fp32>).error +
                                 inexact_factor * std::fabs(total.exact);
            bounds[i] = bound * (1 + 0x1p-20);
        });
    return bounds;
}

}  // namespace gx::reference
