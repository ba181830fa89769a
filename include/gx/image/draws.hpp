// SampleDraws: the random words of one sample's augmentation.
#pragma once

#include <array>        // words
#include <cmath>        // ldexp
#include <cstdint>      // uint32_t
#include <string_view>  // streams

#include <gx/core/exact_math.hpp>  // rounded, log, normal_quantile
#include <gx/core/rng.hpp>         // Rng

namespace gx {

/// Random words that depend on seed, epoch, sample and the augmentation's stream only: results do
/// not depend on ranks, workers or other augmentations. Draw 0 is what loader/augment.hpp draws.
class SampleDraws {
public:
    constexpr SampleDraws(std::uint64_t seed, std::string_view stream, int epoch,
                          std::uint64_t sample)
        : of_epoch_(Rng(seed, stream).at(static_cast<std::uint64_t>(epoch))), sample_(sample) {}

    /// Four independent words.
    [[nodiscard]] constexpr std::array<std::uint32_t, 4> words(int draw = 0) const {
        return draw == 0 ? of_epoch_.bits(sample_)
                         : of_epoch_.at(static_cast<std::uint64_t>(draw)).bits(sample_);
    }

private:
    Rng of_epoch_;
    std::uint64_t sample_;
};

namespace detail::image {

using exact_math::rounded;

/// In [0, 1).
[[nodiscard]] constexpr double unit(std::uint32_t word) { return word * 0x1p-32; }
[[nodiscard]] constexpr double uniform(std::uint32_t word, double least, double most) {
    return least + rounded((most - least) * unit(word));
}
/// 0 ... count - 1; the bias is below count / 2^32.
[[nodiscard]] constexpr int below(std::uint32_t word, int count) {
    return static_cast<int>(std::uint64_t{word} * static_cast<std::uint64_t>(count) >> 32);
}
[[nodiscard]] constexpr double normal(std::uint32_t word) {
    return exact_math::normal_quantile((word + 0.5) * 0x1p-32);
}
/// e^x for |x| < 700, to about 1e-13; the same bits wherever it is compiled.
[[nodiscard]] inline double exact_exp(double x) {
    const double halvings = std::nearbyint(x * 1.4426950408889634);
    const double rest = x - rounded(halvings * 0.6931471805599453);
    std::array<double, 16> terms{1};
    for (std::size_t i = 1; i < terms.size(); ++i) terms[i] = terms[i - 1] / static_cast<double>(i);
    return std::ldexp(exact_math::polynomial(terms, rest), static_cast<int>(halvings));
}

}  // namespace detail::image

}  // namespace gx
