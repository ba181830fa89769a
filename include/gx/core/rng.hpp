// Rng: random numbers by counter, in named streams; adding a consumer shifts nobody else's numbers.
#pragma once

#include <array>        // four words
#include <bit>          // bit_cast
#include <cstdint>      // uint32_t
#include <span>         // permutations
#include <string_view>  // stream names
#include <type_traits>  // is_constant_evaluated

#include <gx/core/contract.hpp>  // GX_EXPECT

namespace gx {

/// Philox4x32-10: four words that depend on a counter of four words and a key of two.
/// Source: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3", SC11.
[[nodiscard]] constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> c,
                                                                std::array<std::uint32_t, 2> key) {
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t a = std::uint64_t{0xd2511f53u} * c[0];
        const std::uint64_t b = std::uint64_t{0xcd9e8d57u} * c[2];
        c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<std::uint32_t>(b),
             static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<std::uint32_t>(a)};
        key[0] += 0x9e3779b9u;
        key[1] += 0xbb67ae85u;
    }
    return c;
}

namespace detail::rng {

/// A bijection of 64-bit words that spreads every bit over all of them.
/// Source: Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators", OOPSLA.
[[nodiscard]] constexpr std::uint64_t spread(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/// FNV-1a of a name. Source: Fowler, Noll and Vo, 1991.
[[nodiscard]] constexpr std::uint64_t hash(std::string_view name) {
    std::uint64_t h = 0xcbf29ce484222325u;
    for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    return h;
}

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

}  // namespace detail::rng

/// A stream of random numbers without state: a number depends on the seed, the stream's name, the
/// substream and the counter, and on nothing else.
///
///     Rng dropout(seed, "dropout");
///     dropout.at(rank).at(layer).uniform(element)
///
/// Order: equal arguments give equal bits on every compiler, at every optimisation level, and
///        during constant evaluation.
/// Cost:  one Philox block, about 10 ns, per number; bits() gives four words for it.
class Rng {
public:
    constexpr Rng(std::uint64_t seed, std::string_view name)
        : key_(detail::rng::spread(detail::rng::spread(seed) + detail::rng::hash(name))) {}

    /// Substream `index` of this stream. Substreams of one stream never share a block;
    /// substreams of substreams do with a chance of 2^-64.
    [[nodiscard]] constexpr Rng at(std::uint64_t index) const {
        Rng sub = *this;
        sub.substream_ = detail::rng::spread(substream_ * 0xd1342543de82ef95u + index + 1);
        return sub;
    }

    /// Four independent words, each uniform.
    [[nodiscard]] constexpr std::array<std::uint32_t, 4> bits(std::uint64_t counter) const {
        return philox4x32({low(counter), high(counter), low(substream_), high(substream_)},
                          {low(key_), high(key_)});
    }

    /// Uniform in [0, 1): a multiple of 2^-24.
    [[nodiscard]] constexpr float uniform(std::uint64_t counter) const {
        return static_cast<float>(bits(counter)[0] >> 8) * 0x1p-24f;
    }

    /// Standard normal; magnitudes reach 8.2.
    [[nodiscard]] constexpr float normal(std::uint64_t counter) const {
        const double u = (static_cast<double>(word(counter, 0) >> 12) + 0.5) * 0x1p-52;
        return static_cast<float>(detail::rng::normal_quantile(u));
    }

    /// Uniform in 0 ... n - 1, without bias. Errors: n == 0 breaks the contract.
    [[nodiscard]] constexpr std::uint64_t below(std::uint64_t counter, std::uint64_t n) const {
        GX_EXPECT(n > 0, "there is no number below 0: draw below at least 1");
        const std::uint64_t surplus = (~n + 1) % n;  // 2^64 mod n: the words that would favour some
        for (const int half : {0, 1}) {
            const std::uint64_t x = word(counter, half);
            if (x >= surplus) return x % n;
        }
        return at(~std::uint64_t{0}).below(counter, n);
    }

    /// Fills `order` with 0 ... size - 1 in random order, every order as likely as any other.
    /// Cost: one Philox block an element.
    constexpr void permutation_into(std::span<std::uint32_t> order) const {
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
        for (std::size_t left = order.size(); left > 1; --left) {
            const auto pick = static_cast<std::size_t>(below(left, left));
            const std::uint32_t last = order[left - 1];
            order[left - 1] = order[pick];
            order[pick] = last;
        }
    }

private:
    [[nodiscard]] static constexpr std::uint32_t low(std::uint64_t x) {
        return static_cast<std::uint32_t>(x);
    }
    [[nodiscard]] static constexpr std::uint32_t high(std::uint64_t x) {
        return static_cast<std::uint32_t>(x >> 32);
    }
    [[nodiscard]] constexpr std::uint64_t word(std::uint64_t counter, int half) const {
        const auto four = bits(counter);
        const auto first = static_cast<std::size_t>(2 * half);
        return four[first] | std::uint64_t{four[first + 1]} << 32;
    }

    std::uint64_t key_;
    std::uint64_t substream_ = 0;
};

}  // namespace gx
