// Conformance: what every reducer must keep, checked on any world; answers findings, not failures.
#pragma once

#include <bit>     // bit_cast
#include <cmath>   // isfinite
#include <string>  // sentences
#include <vector>  // findings

#include <gx/reducer/name.hpp>      // reducer_name
#include <gx/reducer/pipeline.hpp>  // Pipeline
#include <gx/testing/bounds.hpp>    // mean_bounds
#include <gx/testing/worlds.hpp>    // reduce_jobs

namespace gx::testing {

/// A promise that was not kept: which check, and a sentence with numbers.
struct Finding {
    std::string check;
    std::string sentence;
};
using Findings = std::vector<Finding>;

namespace detail {

inline std::string text(Placement p) {
    return std::to_string(p.machines) + " x " + std::to_string(p.ranks_per_machine) + " ranks";
}
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
        if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) return false;
    return true;
}
inline bool power_of_two(int n) { return (n & (n - 1)) == 0; }

/// Every rank of every job: complete, bitwise as rank 0.
inline void check_agreement(const Outcome& out, Placement p, Findings& findings) {
    for (std::size_t j = 0; j < out.rows.size(); ++j)
        for (std::size_t r = 0; r < out.rows[j].size(); ++r) {
            const std::string where = text(p) + ", length " +
                                      std::to_string(out.rows[j][r].size()) + ", rank " +
                                      std::to_string(r);
            if (!out.reports[j][r].complete())
                findings.push_back({"mean", "a reduction without a fault is incomplete: " + where});
            if (!same_bits(out.rows[j][r], out.rows[j][0]))
                findings.push_back({"agreement", "ranks end with different bits: " + where});
        }
}

/// Columns of job results against their exact means; at most the first deviation.
inline void check_means(const Rows& result, const std::vector<double>& mean,
                        const std::vector<double>& bound, const std::string& where,
                        Findings& findings) {
    for (std::size_t r = 0; r < result.size(); ++r)
        for (std::size_t i = 0; i < mean.size(); ++i) {
            if (std::abs(static_cast<double>(result[r][i]) - mean[i]) <= bound[i]) continue;
            return findings.push_back(
                {"mean", where + ", element " + std::to_string(i) + " of " +
                             std::to_string(mean.size()) + ", rank " + std::to_string(r) + ": " +
                             std::to_string(result[r][i]) + " instead of " +
                             std::to_string(mean[i]) + " within " + std::to_string(bound[i])});
        }
}

/// Lengths that a reducer's cuts may get wrong: all small ones, and around multiples of `parts`.
inline std::vector<std::int64_t> awkward_lengths(int parts, bool all_small) {
    std::vector<std::int64_t> lengths;
    for (std::int64_t n = 0; n <= (all_small ? 70 : 3); ++n) lengths.push_back(n);
    for (const std::int64_t around : {1, 2, 7})
        for (const std::int64_t off : {-1, 0, 1}) lengths.push_back(around * parts + off);
    lengths.push_back(1000);
    return lengths;
}

}  // namespace detail

/// Means of unequal rows, at every awkward length, one after the other: exact for small integers
/// where the rank count is a power of two, within mean_bounds for wide magnitudes; and the same
/// bits on every rank. Checks "mean" and "agreement".
template <Reducer R, class Worlds>
void check_means(const Worlds& on, std::uint64_t seed, Findings& findings) {
    for (const Placement p : {Placement{1, 1}, {1, 2}, {1, 3}, {2, 2}, {5, 1}, {2, 3}, {4, 2}}) {
        const int n = p.ranks();
        std::vector<Rows> jobs;
        for (const auto length : detail::awkward_lengths(n * R::channels, n == 3 || n == 4)) {
            jobs.push_back(small_integers(seed + jobs.size(), n, length));
            jobs.push_back(wide_magnitudes(seed + jobs.size(), n, length));
        }
        const Outcome out = reduce_jobs<R>(on, p, jobs);
        detail::check_agreement(out, p, findings);
        for (std::size_t j = 0; j < jobs.size(); ++j) {
            auto bound = mean_bounds<typename R::wire_type>(jobs[j]);
            if (j % 2 == 0 && detail::power_of_two(n)) bound.assign(bound.size(), 0.0);
            detail::check_means(out.rows[j], column_means(jobs[j]), bound, detail::text(p),
                                findings);
        }
    }
}

/// A reduction gives the same bits whatever was reduced before it, and when it is run again.
/// Check "sequence"; a reducer that keeps state on purpose is excused.
template <Reducer R, class Worlds>
void check_sequence(const Worlds& on, std::uint64_t seed, Findings& findings) {
    if (R probe; [&] {
            probe.reserve({1, 1}, 64);
            return !probe.state().empty();
        }())
        return;
    const Placement p{1, 3};
    std::vector<Rows> jobs;
    for (const std::int64_t length : {64, 5, 0, 33, 64, 64})
        jobs.push_back(wide_magnitudes(seed + jobs.size(), p.ranks(), length));
    const Outcome together = reduce_jobs<R>(on, p, jobs);
    for (std::size_t j = 0; j < jobs.size(); ++j) {
        const Outcome alone = reduce_jobs<R>(on, p, {jobs[j]});
        if (!detail::same_bits(together.rows[j][0], alone.rows[0][0]))
            findings.push_back({"sequence", "reduction " + std::to_string(j) +
                                                " depends on what was reduced before it"});
    }
}

/// The same bits on two worlds. Check "world".
template <Reducer R, class One, class Other>
void check_worlds(const One& one, const Other& other, std::uint64_t seed, Findings& findings) {
    for (const Placement p : {Placement{1, 3}, {2, 2}, {4, 2}}) {
        const std::vector<Rows> jobs{wide_magnitudes(seed, p.ranks(), 77)};
        const Outcome a = reduce_jobs<R>(one, p, jobs), b = reduce_jobs<R>(other, p, jobs);
        if (!detail::same_bits(a.rows[0][0], b.rows[0][0]))
            findings.push_back({"world", "two worlds give different bits: " + detail::text(p)});
    }
}

/// What is not finite on one rank, or overflows on the wire, ends not finite on all ranks alike and
/// leaves other elements alone. Check "overflow".
template <Reducer R, class Worlds>
void check_overflow(const Worlds& on, std::uint64_t seed, Findings& findings) {
    using E = typename R::wire_type;
    for (const Placement p : {Placement{1, 2}, {1, 3}, {2, 4}}) {
        Rows rows = wide_magnitudes(seed, p.ranks(), 12);
        for (auto& row : rows) row[0] = 0.9f * largest_finite<E>();
        rows.back()[3] = -std::numeric_limits<float>::infinity();
        rows.front()[7] = std::numeric_limits<float>::quiet_NaN();
        rows.back()[11] = std::numeric_limits<float>::infinity();
        const Outcome out = reduce_jobs<R>(on, p, {rows});
        const auto mean = column_means(rows), bound = mean_bounds<E>(rows);
        for (std::size_t r = 0; r < rows.size(); ++r)
            for (std::size_t i = 0; i < mean.size(); ++i) {
                const float x = out.rows[0][r][i];
                const bool near = std::abs(static_cast<double>(x) - mean[i]) <= bound[i];
                const bool right = i == 0                   ? !std::isfinite(x) || near
                                   : std::isfinite(mean[i]) ? near
                                                            : !std::isfinite(x);
                if (!right || !detail::same_bits(out.rows[0][r], out.rows[0][0]))
                    findings.push_back({"overflow", detail::text(p) + ", rank " +
                                                        std::to_string(r) + ", element " +
                                                        std::to_string(i) + ": " +
                                                        std::to_string(x) + ", the exact mean is " +
                                                        std::to_string(mean[i])});
            }
    }
}

/// Through a Pipeline, step t applies the mean of gradient t - staleness: none lost, none repeated,
/// the last ones at the end. Compared with the list made one by one. Check "staleness".
template <Reducer R, class Worlds>
void check_staleness(const Worlds& on, std::uint64_t seed, Findings& findings) {
    const Placement p{2, 2};
    constexpr std::int64_t elements = 37;
    constexpr std::uint64_t steps = 7;
    std::vector<std::string> wrong(static_cast<std::size_t>(p.ranks()));
    on(p, [&](auto& rank) {
        auto& sentence = wrong[static_cast<std::size_t>(rank.rank())];
        Pipeline<R> pipeline({.placement = p, .elements = elements, .bucket_elements = 10});
        std::uint64_t applied = 0;
        const auto apply = [&](const Reduced& got) {
            const auto mean = column_means(small_integers(seed + applied, p.ranks(), elements));
            if (got.index != applied || !got.report.complete() ||
                !std::equal(mean.begin(), mean.end(), got.values.begin(),
                            [](double a, float b) { return a == static_cast<double>(b); }))
                sentence = "update " + std::to_string(applied) + " is not the mean of gradient " +
                           std::to_string(applied);
            ++applied;
        };
        for (std::uint64_t t = 0; t < steps; ++t) {
            const auto rows = small_integers(seed + t, p.ranks(), elements);
            const auto& mine = rows[static_cast<std::size_t>(rank.rank())];
            std::copy(mine.begin(), mine.end(), pipeline.begin(t).begin());
            for (const std::size_t watermark : {30u, 12u, 0u})
                pipeline.ready(rank.stream(), rank.transport(), watermark);
            const auto got = pipeline.collect(t);
            if (got) apply(*got);
            if (got.has_value() != (t >= static_cast<std::uint64_t>(R::staleness)))
                sentence = "step " + std::to_string(t) + " is not " + std::to_string(R::staleness) +
                           " steps late";
        }
        while (const auto late = pipeline.drain()) apply(*late);
        if (applied != steps)
            sentence =
                std::to_string(steps) + " gradients gave " + std::to_string(applied) + " updates";
    });
    for (const auto& sentence : wrong)
        if (!sentence.empty()) return findings.push_back({"staleness", sentence});
}

/// A rank that takes no part is missed by all others, and named by at least one; nothing hangs.
/// Check "lost rank".
template <Reducer R, class Worlds>
void check_lost_rank(const Worlds& on, std::uint64_t seed, Findings& findings) {
    for (const int n : {2, 3, 5}) {
        const int dead = n / 2;
        const Outcome out = reduce_jobs<R>(on, {1, n}, {wide_magnitudes(seed, n, 64)}, dead);
        bool named = false;
        for (int r = 0; r < n; ++r) {
            const Delivery& d = out.reports[0][static_cast<std::size_t>(r)].delivery;
            named |= r != dead && d.outcome == Delivery::Outcome::timed_out && d.peer == dead;
            if (r != dead && d.complete())
                findings.push_back({"lost rank", "rank " + std::to_string(r) + " of " +
                                                     std::to_string(n) +
                                                     " calls a mean complete without rank " +
                                                     std::to_string(dead)});
        }
        if (!named)
            findings.push_back({"lost rank", "nobody names the lost rank " + std::to_string(dead)});
    }
}

/// decide(rank, own, reduced): skip this step? All ranks must answer alike, and skip exactly when
/// the mean is not finite. Check "decision".
template <Reducer R, class Worlds, class Decide>
void check_decision(const Worlds& on, std::uint64_t seed, Decide decide, Findings& findings) {
    const Placement p{2, 2};
    for (const int overflowing : {-1, 0, 2, 3}) {
        Rows rows = wide_magnitudes(seed, p.ranks(), 33);
        if (overflowing >= 0)
            rows[static_cast<std::size_t>(overflowing)][20] =
                std::numeric_limits<float>::infinity();
        const Outcome out = reduce_jobs<R>(on, p, {rows});
        for (int r = 0; r < p.ranks(); ++r) {
            const auto i = static_cast<std::size_t>(r);
            if (decide(r, std::span<const float>(rows[i]),
                       std::span<const float>(out.rows[0][i])) != (overflowing >= 0))
                findings.push_back(
                    {"decision", "rank " + std::to_string(r) + " decides against the others when " +
                                     (overflowing < 0 ? std::string("no rank")
                                                      : "rank " + std::to_string(overflowing)) +
                                     " overflows"});
        }
    }
}

/// All checks of a reducer on one world. Empty when it conforms.
///
///     EXPECT_EQ(gx::testing::check<MyReducer>(gx::testing::OnThreads{}), gx::testing::Findings{});
template <Reducer R, class Worlds>
[[nodiscard]] Findings check(const Worlds& on, std::uint64_t seed = 1) {
    Findings findings;
    check_means<R>(on, seed, findings);
    check_sequence<R>(on, seed, findings);
    check_overflow<R>(on, seed, findings);
    check_staleness<R>(on, seed, findings);
    check_lost_rank<R>(on, seed, findings);
    return findings;
}

}  // namespace gx::testing
