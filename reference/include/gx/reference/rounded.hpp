// Rounded: running error analysis: a number in double, and a bound of float's error.
#pragma once

#include <algorithm>  // max, min
#include <cmath>      // abs, sqrt
#include <limits>     // infinity

#include <gx/core/contract.hpp>  // GX_EXPECT

namespace gx::reference {

/// Running error analysis: `value` is computed in double; a program that makes the same operations
/// in float, each rounded on its own, has a result within `error` of it.
///
///     Rounded w = 0.1f;           // a float: exact
///     w = w - Rounded(rate) * g;  // two roundings more
///     EXPECT_NEAR(computed, w.value, w.error);
///
/// With x = a + da and y = b + db for |da| <= ea and |db| <= eb, the operations carry over
///
///     x + y    ea + eb              x * y    |a| eb + |b| ea + ea eb
///     x / y    (ea + |a / b| eb) / (|b| - eb)
///     sqrt(x)  ea / sqrt(a), as |sqrt(x) - sqrt(a)| = |x - a| / (sqrt(x) + sqrt(a)); sqrt(ea) if
///              that is less
///
/// and each adds the rounding of its result r: half a unit in the last place, 2^-24 |r|, or 2^-150
/// where r is subnormal. The roundings of double, below 2^-52 of each of a few terms, are covered
/// by taking 2^-24 (1 + 2^-20).
/// Errors: a divisor that may be 0 has an infinite bound.
/// Source: Higham 2002, Accuracy and Stability of Numerical Algorithms, section 3.3.
struct Rounded {
    double value = 0, error = 0;

    Rounded() = default;
    Rounded(float exact) : value(exact) {}  // NOLINT: numbers are written as floats
    Rounded(double v, double e) : value(v), error(e) {}

    /// One more rounding to float.
    [[nodiscard]] Rounded rounded() const {
        constexpr double unit = 0x1p-24 * (1 + 0x1p-20);
        return {value, error + std::max(unit * (std::abs(value) + error), 0x1p-150)};
    }
    friend Rounded operator+(const Rounded& a, const Rounded& b) {
        return Rounded(a.value + b.value, a.error + b.error).rounded();
    }
    friend Rounded operator-(const Rounded& a, const Rounded& b) {
        return Rounded(a.value - b.value, a.error + b.error).rounded();
    }
    friend Rounded operator*(const Rounded& a, const Rounded& b) {
        return Rounded(a.value * b.value, std::abs(a.value) * b.error +
                                              std::abs(b.value) * a.error + a.error * b.error)
            .rounded();
    }
    friend Rounded operator/(const Rounded& a, const Rounded& b) {
        const double least = std::abs(b.value) - b.error;
        const double quotient = a.value / b.value;
        if (!(least > 0)) return {quotient, std::numeric_limits<double>::infinity()};
        return Rounded(quotient, (a.error + std::abs(quotient) * b.error) / least).rounded();
    }
    friend Rounded sqrt(const Rounded& a) {
        GX_EXPECT(a.value >= 0, "a square root of a number that is not negative");
        const double root = std::sqrt(a.value);
        const double carried = root > 0 ? a.error / root : std::numeric_limits<double>::infinity();
        return Rounded(root, std::min(carried, std::sqrt(a.error))).rounded();
    }
};

}  // namespace gx::reference
