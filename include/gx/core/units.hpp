// Strong units: bytes, seconds, rates, dollars; GB is 10^9 bytes, Gb/s 10^9 bits/s.
#pragma once

#include <chrono>    // nanoseconds: the unit of every clock, wall or virtual
#include <compare>   // <=>
#include <concepts>  // integral
#include <cstdint>   // int64_t
#include <limits>    // greatest integers

#include <gx/core/decl.hpp>  // GX_DECL

namespace gx {

/// A number with a unit: adds to its own kind, scales by plain numbers, divides to a plain ratio.
template <class Unit, class Number>
struct Quantity {
    using number = Number;
    Number count{};

    [[nodiscard]] constexpr auto operator<=>(const Quantity&) const = default;
    constexpr Quantity& operator+=(Quantity o) {
        count += o.count;
        return *this;
    }
    constexpr Quantity& operator-=(Quantity o) {
        count -= o.count;
        return *this;
    }
    [[nodiscard]] friend constexpr Quantity operator+(Quantity a, Quantity b) {
        return {a.count + b.count};
    }
    [[nodiscard]] friend constexpr Quantity operator-(Quantity a, Quantity b) {
        return {a.count - b.count};
    }
    [[nodiscard]] friend constexpr Quantity operator*(Quantity a, Number b) {
        return {a.count * b};
    }
    [[nodiscard]] friend constexpr Quantity operator*(Number a, Quantity b) {
        return {a * b.count};
    }
    [[nodiscard]] friend constexpr Quantity operator/(Quantity a, Number b) {
        return {a.count / b};
    }
    [[nodiscard]] friend constexpr double operator/(Quantity a, Quantity b) {
        return static_cast<double>(a.count) / static_cast<double>(b.count);
    }
};

using Bytes = Quantity<struct BytesUnit, std::int64_t>;
using BytesPerSecond = Quantity<struct BytesPerSecondUnit, double>;
using Flops = Quantity<struct FlopsUnit, double>;  ///< floating-point operations
using FlopsPerSecond = Quantity<struct FlopsPerSecondUnit, double>;
using Dollars = Quantity<struct DollarsUnit, double>;
using DollarsPerHour = Quantity<struct DollarsPerHourUnit, double>;

/// Time on every clock: integer nanoseconds, so that sums do not depend on their order.
using Nanoseconds = std::chrono::nanoseconds;
using Seconds = std::chrono::duration<double>;

[[nodiscard]] constexpr double seconds(Nanoseconds t) { return Seconds(t).count(); }

namespace detail::units {

/// Throws gx::Error: "QUANTITY is X UNIT: expected KIND from LEAST to MOST UNIT."
[[noreturn]] GX_DECL void refuse(double x, double least, double most, const char* quantity,
                                 const char* unit, const char* kind);

/// 2^digits: the first double above every I, exact where the greatest I is not.
template <std::integral I>
inline constexpr double beyond = 2.0 * static_cast<double>(std::numeric_limits<I>::max() / 2 + 1);

}  // namespace detail::units

/// Return `x` if it lies in [least, most].
/// Errors: gx::Error naming the quantity, the value and both bounds; NaN is refused.
constexpr double expect_in(double x, double least, double most, const char* quantity,
                           const char* unit = "") {
    if (!(x >= least && x <= most))
        detail::units::refuse(x, least, most, quantity, unit, "a number");
    return x;
}

/// Round to the nearest integer, halves away from 0.
/// Errors: gx::Error as expect_in's; a conversion never leaves the range of I.
template <std::integral I = std::int64_t>
[[nodiscard]] constexpr I nearest_integer(double x, const char* quantity, I least = 0,
                                          I most = std::numeric_limits<I>::max()) {
    const auto low = static_cast<double>(least), high = static_cast<double>(most);
    if (!(x >= low && x <= high && x < detail::units::beyond<I>))
        detail::units::refuse(x, low, high, quantity, "", "a number");
    const I whole = static_cast<I>(x);  // toward 0; adding 0.5 to x first would round twice
    const double rest = x - static_cast<double>(whole);
    return static_cast<I>(whole + (rest >= 0.5 ? 1 : 0) - (rest <= -0.5 ? 1 : 0));
}

/// Convert an integer that is stored as a double.
/// Errors: gx::Error as expect_in's, also for a fraction.
template <std::integral I = std::int64_t>
[[nodiscard]] constexpr I exact_integer(double x, const char* quantity, I least = 0,
                                        I most = std::numeric_limits<I>::max()) {
    const auto low = static_cast<double>(least), high = static_cast<double>(most);
    if (x >= low && x <= high && x < detail::units::beyond<I>)
        if (const I whole = static_cast<I>(x); static_cast<double>(whole) == x) return whole;
    detail::units::refuse(x, low, high, quantity, "", "a whole number");
}

/// Round to the nearest nanosecond.
/// Errors: gx::Error for NaN, a negative time and one of 2^63 ns (292 years) or more.
[[nodiscard]] constexpr Nanoseconds nanoseconds(double s, const char* quantity = "time") {
    const double ns = s * 1e9 + 0.5;
    if (!(s >= 0 && ns < 0x1p63))
        detail::units::refuse(s, 0, 9223372036.0, quantity, "s", "a number");
    return Nanoseconds(static_cast<std::int64_t>(ns));
}
/// Round to the nearest byte.
/// Errors: gx::Error for NaN, a negative size and one of 2^63 bytes or more.
[[nodiscard]] constexpr Bytes bytes(double count, const char* quantity = "size in bytes") {
    return {nearest_integer(count, quantity)};
}

/// Transfer time. Errors: those of nanoseconds(); a rate of 0 gives no time.
[[nodiscard]] constexpr Nanoseconds operator/(Bytes b, BytesPerSecond r) {
    return nanoseconds(static_cast<double>(b.count) / r.count, "transfer time");
}
/// Compute time. Errors: those of nanoseconds().
[[nodiscard]] constexpr Nanoseconds operator/(Flops f, FlopsPerSecond r) {
    return nanoseconds(f.count / r.count, "compute time");
}
[[nodiscard]] constexpr Dollars operator*(DollarsPerHour rate, Nanoseconds t) {
    return {rate.count * seconds(t) / 3600.0};
}

namespace detail {
using Whole = unsigned long long;  // the types that the language gives to literals
using Real = long double;
[[nodiscard]] constexpr Bytes bytes(Whole n, std::int64_t unit) {
    return {static_cast<std::int64_t>(n) * unit};
}
}  // namespace detail

namespace literals {

[[nodiscard]] constexpr Bytes operator""_B(detail::Whole n) { return detail::bytes(n, 1); }
[[nodiscard]] constexpr Bytes operator""_KiB(detail::Whole n) { return detail::bytes(n, 1 << 10); }
[[nodiscard]] constexpr Bytes operator""_MiB(detail::Whole n) { return detail::bytes(n, 1 << 20); }
[[nodiscard]] constexpr Bytes operator""_GiB(detail::Whole n) { return detail::bytes(n, 1 << 30); }
[[nodiscard]] constexpr Bytes operator""_MB(detail::Whole n) { return detail::bytes(n, 1'000'000); }
[[nodiscard]] constexpr Bytes operator""_GB(detail::Whole n) {
    return detail::bytes(n, 1'000'000'000);
}
[[nodiscard]] constexpr BytesPerSecond operator""_Gbps(detail::Real n) {
    return {double(n) * 1e9 / 8};
}
[[nodiscard]] constexpr BytesPerSecond operator""_Gbps(detail::Whole n) {
    return {double(n) * 1e9 / 8};
}
[[nodiscard]] constexpr BytesPerSecond operator""_GBps(detail::Real n) { return {double(n) * 1e9}; }
[[nodiscard]] constexpr BytesPerSecond operator""_GBps(detail::Whole n) {
    return {double(n) * 1e9};
}
[[nodiscard]] constexpr FlopsPerSecond operator""_TFLOPS(detail::Real n) {
    return {double(n) * 1e12};
}
[[nodiscard]] constexpr Nanoseconds operator""_us(detail::Whole n) {
    return Nanoseconds(static_cast<std::int64_t>(n) * 1000);
}

}  // namespace literals
}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/core/impl/units.ipp>
#endif
