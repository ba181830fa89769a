// log, sqrt and normal_quantile whose bits depend on no library, compiler or option.
#pragma once

#include <array>        // coefficients
#include <bit>          // bit_cast
#include <cstdint>      // uint64_t
#include <type_traits>  // is_constant_evaluated

namespace gx::exact_math {

/// `x`, rounded here and now: no compiler fuses the product in it with a later sum.
[[nodiscard]] constexpr double rounded(double x) {
#if defined(__GNUC__)
    if (!std::is_constant_evaluated()) asm("" : "+m"(x));
#endif
    return x;
}

/// c[0] + c[1] x + c[2] x^2 + ..., each product and each sum rounded on its own.
template <std::size_t N>
[[nodiscard]] constexpr double polynomial(const std::array<double, N>& c, double x) {
    double sum = c[N - 1];
    for (std::size_t i = N - 1; i-- > 0;) sum = rounded(sum * x) + c[i];
    return sum;
}

/// Natural logarithm of a normal x, to about 1e-12; the same bits wherever it is compiled.
[[nodiscard]] constexpr double log(double x) {
    const auto bits = std::bit_cast<std::uint64_t>(x);
    auto exponent = static_cast<int>(bits >> 52) - 1023;
    double m = std::bit_cast<double>((bits & 0xfffffffffffffu) | 0x3ff0000000000000u);
    if (m > 1.4142135623730951) {  // keeps m near 1, where the series is short
        m *= 0.5;
        ++exponent;
    }
    constexpr std::array<double, 9> odd{2.0,      2.0 / 3,  2.0 / 5,  2.0 / 7, 2.0 / 9,
                                        2.0 / 11, 2.0 / 13, 2.0 / 15, 2.0 / 17};
    const double s = (m - 1.0) / (m + 1.0);  // log m = 2 (s + s^3 / 3 + s^5 / 5 + ...)
    return rounded(exponent * 0.6931471805599453) + rounded(s * polynomial(odd, rounded(s * s)));
}

/// Square root of x in [1, 64], by Newton's steps from above; the same bits everywhere.
[[nodiscard]] constexpr double sqrt(double x) {
    double root = (x + 1.0) * 0.5;
    for (int step = 0; step < 8; ++step) root = (root + x / root) * 0.5;
    return root;
}

/// The x below which a standard normal number falls with probability p, 0 < p < 1; to about 1e-7.
/// Source: Wichura 1988, "Algorithm AS 241", Applied Statistics 37(3), routine PPND7.
[[nodiscard]] constexpr double normal_quantile(double p) {
    const double q = p - 0.5;
    if (-0.425 <= q && q <= 0.425) {
        constexpr std::array a{3.3871327179, 50.434271938, 159.29113202, 59.109374720};
        constexpr std::array b{1.0, 17.895169469, 78.757757664, 67.187563600};
        const double r = 0.180625 - rounded(q * q);
        return rounded(q * polynomial(a, r)) / polynomial(b, r);
    }
    const double r = sqrt(-log(q < 0 ? p : 1.0 - p));
    double x = 0;
    if (r <= 5.0) {
        constexpr std::array c{1.4234372777, 2.7568153900, 1.3067284816, 0.17023821103};
        constexpr std::array d{1.0, 0.73700164250, 0.12021132975};
        x = polynomial(c, r - 1.6) / polynomial(d, r - 1.6);
    } else {
        constexpr std::array e{6.6579051150, 3.0812263860, 0.42868294337, 0.017337203997};
        constexpr std::array f{1.0, 0.24197894225, 0.012258202635};
        x = polynomial(e, r - 5.0) / polynomial(f, r - 5.0);
    }
    return q < 0 ? -x : x;
}

}  // namespace gx::exact_math
