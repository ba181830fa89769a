// sum, mean: exact results that reducers are compared with.
#pragma once

#include <cstddef>  // size_t
#include <span>     // rows
#include <vector>   // rows

#include <gx/core/contract.hpp>  // GX_EXPECT

namespace gx::reference {

/// One row of equally many numbers for each rank. Shapes: (ranks, elements).
using Rows = std::vector<std::vector<float>>;

namespace detail {
[[nodiscard]] inline std::vector<long double> wide_sum(std::span<const std::vector<float>> rows) {
    GX_EXPECT(!rows.empty(), "a sum needs at least one rank");
    std::vector<long double> total(rows[0].size(), 0.0L);
    for (const auto& row : rows) {
        GX_EXPECT(row.size() == total.size(), "every rank has equally many numbers");
        for (std::size_t i = 0; i < row.size(); ++i) total[i] += row[i];
    }
    return total;
}
}  // namespace detail

/// The sum over the ranks, of each element.
/// Order: ranks upwards in long double, rounded to double once. Where long double has 64 digits, as
///        on x86, an addition is off by at most 2^-64 of the partial sum, and by nothing where all
///        numbers are multiples of one power of two and the sums stay below its 2^64-fold.
[[nodiscard]] inline std::vector<double> sum(std::span<const std::vector<float>> rows) {
    const auto total = detail::wide_sum(rows);
    return {total.begin(), total.end()};
}

/// sum / ranks; divided in long double, rounded to double once.
[[nodiscard]] inline std::vector<double> mean(std::span<const std::vector<float>> rows) {
    std::vector<double> result;
    for (const long double total : detail::wide_sum(rows))
        result.push_back(static_cast<double>(total / static_cast<long double>(rows.size())));
    return result;
}

}  // namespace gx::reference
