// Rows: generated inputs of a reduction, different on every rank, from a seed.
#pragma once

#include <cmath>    // ldexp
#include <cstdint>  // uint64_t
#include <vector>   // rows

#include <gx/core/rng.hpp>  // Rng

namespace gx::testing {

/// rows[rank][element].
using Rows = std::vector<std::vector<float>>;

[[nodiscard]] inline Rows rows_of(int ranks, std::int64_t count, auto value) {
    Rows rows(static_cast<std::size_t>(ranks));
    for (int r = 0; r < ranks; ++r)
        for (std::int64_t i = 0; i < count; ++i)
            rows[static_cast<std::size_t>(r)].push_back(value(r, static_cast<std::uint64_t>(i)));
    return rows;
}

/// Integers from -8 to 8. Over 1, 2, 4 or 8 ranks every sum, partial sum and mean of them is exact
/// in any element with 8 bits of significand, wherever one divides.
[[nodiscard]] inline Rows small_integers(std::uint64_t seed, int ranks, std::int64_t count) {
    const Rng rng(seed, "gx::testing small integers");
    return rows_of(ranks, count, [&](int r, std::uint64_t i) {
        return static_cast<float>(rng.at(static_cast<std::uint64_t>(r)).below(i, 17)) - 8.0f;
    });
}

/// Either sign, magnitudes from 2^-6 to 2^6: sums of them depend on their order.
[[nodiscard]] inline Rows wide_magnitudes(std::uint64_t seed, int ranks, std::int64_t count) {
    const Rng rng(seed, "gx::testing wide magnitudes");
    return rows_of(ranks, count, [&](int r, std::uint64_t i) {
        const Rng mine = rng.at(static_cast<std::uint64_t>(r));
        const float significand = 1.0f + mine.uniform(3 * i);
        const int exponent = static_cast<int>(mine.below(3 * i + 1, 12)) - 6;
        return std::ldexp(mine.below(3 * i + 2, 2) == 0 ? significand : -significand, exponent);
    });
}

/// The limits of a wire's element, of which the error bounds are made.
struct WireLimits {
    double unit_roundoff = 0, smallest_positive = 0;
    float largest_finite = 0;
};

/// Magnitudes from the smallest subnormal of the wire to `largest_finite / n`. Each column has one
/// scale, so that an error at that scale is not hidden below a larger value of another rank; and
/// no sum of a column overflows, wherever a reducer divides.
[[nodiscard]] inline Rows every_scale(const WireLimits& wire, std::uint64_t seed, int ranks,
                                      std::int64_t count) {
    const Rng rng(seed, "gx::testing every scale");
    const Rng scales = rng.at(static_cast<std::uint64_t>(ranks));
    const int lowest = std::ilogb(wire.smallest_positive),
              highest = std::ilogb(static_cast<double>(wire.largest_finite) / (2.0 * ranks));
    return rows_of(ranks, count, [&](int r, std::uint64_t i) {
        const Rng mine = rng.at(static_cast<std::uint64_t>(r));
        const float significand = 1.0f + mine.uniform(2 * i);
        const int exponent = lowest + static_cast<int>(scales.below(
                                          i, static_cast<std::uint64_t>(highest - lowest + 1)));
        return std::ldexp(mine.below(2 * i + 1, 2) == 0 ? significand : -significand, exponent);
    });
}

/// The exact mean of each column, in double (exact enough: at most 2^10 rows).
[[nodiscard]] inline std::vector<double> column_means(const Rows& rows) {
    std::vector<double> mean(rows.empty() ? 0 : rows[0].size());
    for (const auto& row : rows)
        for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += row[i];
    for (double& m : mean) m /= static_cast<double>(rows.size());
    return mean;
}

}  // namespace gx::testing
