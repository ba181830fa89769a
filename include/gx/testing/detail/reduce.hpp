// reduce(): consecutive reductions on any world, and what each rank's messages were.
#pragma once

#include <cstddef>   // byte
#include <cstdint>   // seeds
#include <limits>    // all buckets
#include <optional>  // a fixed order
#include <span>      // span
#include <string>    // places
#include <vector>    // jobs

#include <gx/core/decl.hpp>           // GX_DECL
#include <gx/testing/report.hpp>      // ConformanceReport
#include <gx/testing/under_test.hpp>  // ReducerUnderTest

namespace gx::testing::detail {

struct ReduceOptions {
    int dead_rank = -1;                         ///< takes no part
    std::size_t dead_from_job = 0;              ///< but in so many jobs
    int dead_from_bucket = 0;                   ///< and in so many buckets of the next one
    std::optional<std::uint64_t> arrival{};     ///< seed of the order of arrival
    std::optional<std::byte> before_arrival{};  ///< of a strict transport
    bool keep_residuals = false;                ///< of each rank, before and after each job
    std::vector<std::vector<float>> states{};   ///< to start from, by rank; empty: a fresh one
    std::size_t bucket_elements = 0;            ///< cut each job from its end; 0: whole
    std::vector<std::uint64_t> gradients{};     ///< number of each job's; empty: from 0 on
    std::vector<float> loss_scales{};           ///< that each job was multiplied by; empty: 1
    int in_flight = 1;                          ///< gradients begun before the first is settled
    std::uint64_t plan_seed = 0x5eed;           ///< ReducePlan::seed
};

/// Each [job][rank], but `states` [rank]: those at the end.
struct Reductions {
    std::vector<Rows> rows;
    std::vector<std::vector<ReduceReport>> reports;
    std::vector<std::vector<MessageCounts>> traffic;
    std::vector<Rows> residuals;
    std::vector<std::vector<float>> states;
    std::vector<char> replicated;     ///< of each value in a state: whether it claims to be
    std::size_t bucket_elements = 0;  ///< that jobs were cut into; 0: whole
    bool state_fits = true;           ///< state() had the length of the saved one
    bool failed = false;              ///< a rank threw, and that is in the report
};

/// Reduces `values` as a Pipeline does: in buckets of `length` from their end, or whole (0); the
/// first `most` of them.
GX_DECL ReduceReport reduce_in_buckets(AnyReducer& reducer, CheckedTransport& link,
                                       std::span<float> values, std::size_t length,
                                       std::uint64_t gradient, float loss_scale = 1,
                                       int most = std::numeric_limits<int>::max());

/// Reduces jobs one after the other, by one reducer a rank. A value written beside a rank's row is
/// in the report, as "bucket".
GX_DECL Reductions reduce(const ReducerUnderTest& r, const AnyWorld& world, Placement placement,
                          std::vector<Rows> jobs, ConformanceReport& report,
                          const ReduceOptions& options = {});

/// Whether gradient-like vectors of state() are as long as a gradient in buckets. They are laid out
/// as a gradient, and compared with one that goes in buckets; where they are not as long, that is
/// in the report.
GX_DECL bool state_is_as_long(const ReducerUnderTest& r, ConformanceReport& report);

/// Complete, the same bits on all ranks, honest reports, own channels, no message left open.
GX_DECL void check_outcome(const ReducerUnderTest& r, const Reductions& out, Placement placement,
                           ConformanceReport& report);

/// A value that is not finite, and its place.
struct NotFinite {
    std::size_t rank = 0, element = 0;
    float value = 0;
};
/// Puts the k-th of a sequence of such values into `rows`. Nine in a row have +infinity, -infinity
/// and NaN each in the first, the middle and the last element; the rank changes every second time.
GX_DECL NotFinite spoil(Rows& rows, std::size_t k);

/// How 64 elements are given to checks of skipped and of scaled steps: whole or in three buckets.
struct WholeOrCut {
    Placement placement;
    std::size_t bucket_elements;  ///< 0: whole
};
inline constexpr WholeOrCut whole_or_cut[]{{{1, 1}, 24}, {{1, 2}, 0},  {{1, 2}, 24}, {{1, 3}, 0},
                                           {{1, 3}, 24}, {{2, 2}, 24}, {{2, 3}, 0}};

GX_DECL bool same_bits(std::span<const float> a, std::span<const float> b);
/// ", element 7: nan (bits 7fc00000), and 1 (bits 3f800000) on rank 0. Promise: ..." of the first
/// element with other bits, in rows of one length.
GX_DECL std::string other_bits(std::span<const float> row, std::span<const float> first);
GX_DECL std::string text(Placement placement);
/// Nine significant digits, with an exponent where these do not reach the unit.
GX_DECL std::string number(double x);
/// "nan at element 16 of rank 2"
GX_DECL std::string text(const NotFinite& bad);
/// "4 x 2 ranks, length 77, rank 3"
GX_DECL std::string place(Placement placement, std::size_t length, std::size_t rank);

}  // namespace gx::testing::detail

#if defined(GX_HEADER_ONLY)
#include <gx/testing/impl/reduce.ipp>
#endif
