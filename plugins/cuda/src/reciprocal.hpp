// Reciprocal: quotients of floats and a count, at two products in double each.
#pragma once

namespace gx::cuda {

/// x / count, rounded as the division is, for every float x.
///
///     1 / count = high + low      high is a float below it, so that x * high is exact
///     x / count = x * high + x * low
///
/// Before it is rounded, the sum is within 2^-19 units in the last place of the quotient, which is
/// 1 / (2 count) units or more from a tie: count times a tie has more bits than the 24 of x. Both
/// parts are positive: zeros and infinities keep their signs.
/// Shapes: count is 1 to 2^18 - 1; a larger one may give the double beside.
struct Reciprocal {
    double high, low;
    constexpr explicit Reciprocal(int count)
        : high(static_cast<float>((1 - 0x1p-20) / count)), low((1 - high * count) / count) {}
    [[nodiscard]] constexpr double operator()(float x) const { return x * high + x * low; }
};

}  // namespace gx::cuda
