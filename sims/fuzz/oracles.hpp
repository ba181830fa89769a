// Oracles: what a reducer's results must be, by its accuracy class or by how it owns the update.
#pragma once

#include <algorithm>  // equal
#include <bit>        // bit_cast
#include <cstddef>    // size_t
#include <cstdint>    // int64_t
#include <span>       // buckets
#include <string>     // sentences
#include <vector>     // rows

#include <fuzz/any_reducer.hpp>  // ReducerKind
#include <fuzz/rank_log.hpp>     // RankLog
#include <fuzz/world.hpp>        // WorldLog
#include <gx/testing/rows.hpp>   // Rows

namespace gx::sim::fuzz {

[[nodiscard]] inline std::string at(std::size_t world, std::size_t rank, std::size_t update) {
    return "world " + std::to_string(world) + ", rank " + std::to_string(rank) + ", gradient " +
           std::to_string(update);
}
[[nodiscard]] inline bool same_bits(std::span<const float> a, std::span<const float> b) {
    return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](float x, float y) {
               return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
           });
}
/// The elements of `parts`, one part behind the other.
[[nodiscard]] std::vector<float> in_parts(std::span<const float> all,
                                          std::span<const ChunkRange> parts);

/// What the ranks of a world put into one gradient, and what became of it.
struct Gradient {
    const ReducerKind& kind;
    std::int64_t bucket_elements = 0;
    testing::Rows rows{};                      ///< of all ranks
    const RankLog::Resolved* first = nullptr;  ///< on some rank; all have the same mean
    /// On the ranks that have one; and of the gradient before it with the same residual, nullptr
    /// if the world has none.
    std::vector<const RankLog::Resolved*> resolved{}, earlier{};
};

/// Sum of the errors of an unbiased reducer, and the sum of squares of their ranges.
struct Bias {
    double error = 0, squares = 0;
};

/// What is wrong with a mean, as the end of a sentence; "" if nothing is. A mean is applied if the
/// serial mean is finite; applied, with n ranks, it is
///
///     rounded         within mean_bounds of the serial mean
///     error feedback  within mean_bound of 1 / n * sum of rank's gradient + residual before -
///                     residual after; so all applied means and the residuals add up to the
///                     gradients. A skipped step leaves the residual as it was, bit for bit;
///                     between gradients none changes; and `sent_pct` of each bucket, the largest
///                     values, are sent
///     unbiased        within sum of s_r / n + S of it, where s_r and S are the steps of the blocks
///                     of 256 values, bounded by their largest magnitudes; and the sum of a world's
///                     errors is within what an unbiased rounding exceeds in one world of 10^15
///                     (Hoeffding; the second rounding is a martingale given the first)
[[nodiscard]] std::string check_mean(const Gradient& g, Bias& bias);

/// Updates apart: before an exchange each rank's parameters are, to the bit, those after the last
/// one plus its gradient, unless that is not finite; after every `period` updates of an epoch, and
/// after its last, they are the mean within mean_bounds, equal on all ranks; else unchanged.
/// `images`: of the world's first epoch that were done before it.
void check_apart(const ReducerKind& kind, const Scenario& s, std::size_t world, const WorldLog& log,
                 std::int64_t images, Verdict& v);

}  // namespace gx::sim::fuzz
