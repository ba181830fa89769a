// Strong units: bytes, seconds, rates, dollars. GB is 10^9 bytes and Gb/s is 10^9 bits per second.
#pragma once

#include <chrono>   // nanoseconds: the unit of every clock, wall or virtual
#include <compare>  // <=>
#include <cstdint>  // int64_t

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

/// Nearest whole nanosecond to `s` seconds (s at least 0 and below 292 years).
[[nodiscard]] constexpr Nanoseconds nanoseconds(double s) {
    return Nanoseconds(static_cast<std::int64_t>(s * 1e9 + 0.5));
}
[[nodiscard]] constexpr Nanoseconds operator/(Bytes b, BytesPerSecond r) {
    return nanoseconds(static_cast<double>(b.count) / r.count);
}
[[nodiscard]] constexpr Nanoseconds operator/(Flops f, FlopsPerSecond r) {
    return nanoseconds(f.count / r.count);
}
[[nodiscard]] constexpr Dollars operator*(DollarsPerHour rate, Nanoseconds t) {
    return {rate.count * seconds(t) / 3600.0};
}

namespace detail {
using Whole = unsigned long long;  // what the language hands to literals
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
