// round_to<E>: a double rounded once to an element.
#pragma once

#include <bit>      // bit_cast
#include <cmath>    // nextafter
#include <cstdint>  // uint32_t
#include <limits>   // infinity

#include <gx/core/element.hpp>  // Element

namespace gx::reference {

/// The value of E nearest to x; ties to even, with E's subnormals and infinities.
///
/// Rounding to the nearest float first would round twice: 1 + 2^-8 + 2^-40 would become the tie
/// 1 + 2^-8, and then 1, where bf16 has 1 + 2^-7. So of the two floats around x the one whose last
/// bit is 1 is taken (round to odd). In a format of at least two bits fewer it is no tie, and lies
/// on the same side of each tie as x.
/// Source: Boldo and Melquiond 2008, IEEE Transactions on Computers 57(4), rounding to odd.
template <Element E>
[[nodiscard]] inline double round_to(double x) {
    auto odd = static_cast<float>(x);
    const double near = odd;
    if (near != x && x == x && (std::bit_cast<std::uint32_t>(odd) & 1u) == 0)
        odd = std::nextafter(odd, near < x ? std::numeric_limits<float>::infinity()
                                           : -std::numeric_limits<float>::infinity());
    return double{E::decode(E::encode(odd))};
}

}  // namespace gx::reference
