// Rng: counter-based random numbers in named streams; a new stream changes no other's numbers.
#pragma once

#include <array>        // four words
#include <cstdint>      // uint32_t
#include <span>         // permutations
#include <string_view>  // stream names

#include <gx/core/contract.hpp>    // GX_EXPECT
#include <gx/core/exact_math.hpp>  // normal_quantile
#include <gx/core/hash.hpp>        // mix64, hash_name

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

using exact_math::log;
using exact_math::normal_quantile;
using exact_math::polynomial;
using exact_math::rounded;

[[nodiscard]] constexpr std::uint64_t spread(std::uint64_t x) { return mix64(x + golden64); }

}  // namespace detail::rng

/// Counter-based random stream: a number depends on seed, name, substream and counter only.
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
        : key_(detail::rng::spread(detail::rng::spread(seed) + hash_name(name))) {}

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
