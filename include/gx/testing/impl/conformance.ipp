// Checks of values, order, overflow, staleness, lost ranks and decisions.
#pragma once

#include <cmath>             // abs, isfinite, pow
#include <initializer_list>  // lengths
#include <limits>            // infinity
#include <utility>           // move

#include <gx/core/contract.hpp>     // GX_EXPECT
#include <gx/optimizer/finite.hpp>  // all_finite
#include <gx/testing/conformance.hpp>
#include <gx/testing/detail/reduce.hpp>  // reduce, check_outcome

namespace gx::testing {
namespace detail {

inline constexpr Placement placements[]{{1, 1}, {1, 2}, {1, 3}, {2, 2},  {5, 1}, {2, 3},
                                        {4, 2}, {7, 1}, {3, 3}, {16, 1}, {5, 4}};

/// Lengths around multiples of a reducer's cuts; for 3 and 4 ranks also all small ones, for the
/// fewest ranks long ones, and for many ranks few.
inline std::vector<std::int64_t> awkward_lengths(const ReducerUnderTest& r, int ranks) {
    const std::int64_t cuts = std::int64_t{ranks} * r.channels;
    if (ranks > 8) return {1, cuts - 1, cuts + 1, 97};
    std::vector<std::int64_t> lengths;
    for (std::int64_t n = 0; n <= (ranks == 3 || ranks == 4 ? 70 : 3); ++n) lengths.push_back(n);
    for (const std::int64_t around : {1, 2, 7})
        for (const std::int64_t off : {-1, 0, 1}) lengths.push_back(around * cuts + off);
    lengths.push_back(1000);
    if (ranks == 2 || ranks == 3)
        for (const std::int64_t length : {1025, 4097}) lengths.push_back(length);
    return lengths;
}

/// Lengths above 2 000, up to 100 000 for 2 and 3 ranks, one up to 10 000 for others: log-uniform
/// by seed, and of all residues modulo 8 over 2 and 3 ranks, as kernels go wrong in the tails of
/// their vectors; and 65 537.
inline std::vector<std::int64_t> drawn_lengths(std::uint64_t seed, int ranks) {
    if (ranks > 8) return {};
    const Rng rng = Rng(seed, "gx::testing lengths").at(static_cast<std::uint64_t>(ranks));
    const bool few = ranks == 2 || ranks == 3;
    std::vector<std::int64_t> lengths;
    for (std::uint64_t i = 0; i < (few ? 4 : 1); ++i) {
        const double longest = few ? 100'000 / 2'048.0 : 10'000 / 2'048.0;
        const auto length =
            static_cast<std::int64_t>(2'048 * std::pow(longest, double{rng.uniform(i)}));
        const auto residue =
            few ? 4 * (ranks % 2) + static_cast<int>(i) : static_cast<int>(rng.below(100 + i, 8));
        lengths.push_back(length / 8 * 8 + residue + (residue == 0 ? 8 : 0));
    }
    if (few) lengths.push_back(65'537);
    return lengths;
}

/// The first value of each rank that lies further from its mean than the bound.
inline void check_columns(const Rows& result, const std::vector<double>& mean,
                          const std::vector<double>& bound, Placement p,
                          ConformanceReport& report) {
    for (std::size_t r = 0; r < result.size(); ++r)
        for (std::size_t i = 0; i < mean.size(); ++i) {
            if (std::abs(static_cast<double>(result[r][i]) - mean[i]) <= bound[i]) continue;
            report.add("mean", place(p, mean.size(), r) + ", element " + std::to_string(i) + ": " +
                                   number(result[r][i]) + " instead of " + number(mean[i]) +
                                   " within " + number(bound[i]) +
                                   ". Fix: return the mean, or name what is promised in its place "
                                   "as 'accuracy'.");
            break;
        }
}

struct Job {
    Rows rows;
    bool integers = false;
};
inline std::vector<Job> jobs_of(const ReducerUnderTest& r, Placement p, std::uint64_t seed) {
    std::vector<Job> jobs;
    const int n = p.ranks();
    for (const auto length : awkward_lengths(r, n)) {
        jobs.push_back({small_integers(seed + jobs.size(), n, length), true});
        jobs.push_back({wide_magnitudes(seed + jobs.size(), n, length)});
        if (length >= 64) jobs.push_back({every_scale(r.wire, seed + jobs.size(), n, length)});
    }
    for (const auto length : drawn_lengths(seed, n))  // long, so of one kind
        if (r.bucket_elements == 0 || length < 300 * r.bucket_elements) {
            const bool exact = n == 2 || n == 4 || n == 8;
            jobs.push_back({exact ? small_integers(seed + jobs.size(), n, length)
                                  : wide_magnitudes(seed + jobs.size(), n, length),
                            exact});
        }
    return jobs;
}

/// Reduces awkward jobs at every placement; compares with the means where `values`.
inline void check_placements(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                             bool values, ConformanceReport& report) {
    for (const Placement p : placements) {
        if (report.hangs) return;
        const std::vector<Job> jobs = jobs_of(r, p, seed);
        std::vector<Rows> rows;
        for (const Job& job : jobs) rows.push_back(job.rows);
        const Reductions out = reduce(r, world, p, std::move(rows), report);
        check_outcome(r, out, p, report);
        for (std::size_t j = 0; values && !report.hangs && j < jobs.size(); ++j) {
            auto bound = mean_bounds(r.wire, jobs[j].rows);
            if (jobs[j].integers && (p.ranks() & (p.ranks() - 1)) == 0)
                bound.assign(bound.size(), 0.0);
            check_columns(out.rows[j], column_means(jobs[j].rows), bound, p, report);
        }
    }
}

/// The same of gradients that go in buckets, as a Pipeline cuts them.
inline void check_buckets(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                          bool values, ConformanceReport& report) {
    for (const Placement p : {Placement{1, 1}, {1, 2}, {1, 3}, {2, 2}, {7, 1}}) {
        if (report.hangs) return;
        std::vector<Rows> rows;
        for (const std::int64_t length : {1, 29, 30, 58, 97, 200})
            rows.push_back(wide_magnitudes(seed + rows.size(), p.ranks(), length));
        const Reductions out = reduce(r, world, p, rows, report, {.bucket_elements = 29});
        check_outcome(r, out, p, report);
        for (std::size_t j = 0; values && !report.hangs && j < rows.size(); ++j)
            check_columns(out.rows[j], column_means(rows[j]), mean_bounds(r.wire, rows[j]), p,
                          report);
    }
}

}  // namespace detail

GX_DECL void check_agreement(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                             ConformanceReport& report) {
    detail::check_placements(r, world, seed, false, report);
    detail::check_buckets(r, world, seed, false, report);
}

GX_DECL void check_means(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                         ConformanceReport& report) {
    detail::check_placements(r, world, seed, true, report);
    detail::check_buckets(r, world, seed, true, report);
}

GX_DECL void check_arrival(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                           ConformanceReport& report) {
    if (!world.run_reordered)
        return report.skip("arrival",
                           "the world has no reordered(seed), so its messages arrive in "
                           "one order");
    for (const Placement p : {Placement{1, 2}, {1, 3}, {2, 2}, {5, 1}}) {
        const std::vector<Rows> jobs{wide_magnitudes(seed, p.ranks(), 41),
                                     wide_magnitudes(seed + 1, p.ranks(), 97)};
        const auto plain =
            detail::reduce(r, world, p, jobs, report, {.before_arrival = std::byte{0}});
        for (std::uint64_t order = 0; order < 6 && !report.hangs; ++order) {
            const auto out =
                detail::reduce(r, world, p, jobs, report,
                               {.arrival = seed + order, .before_arrival = std::byte{0xFF}});
            detail::check_outcome(r, out, p, report);
            for (std::size_t j = 0; j < jobs.size(); ++j)
                if (!detail::same_bits(out.rows[j][0], plain.rows[j][0]))
                    report.add("arrival", detail::place(p, jobs[j][0].size(), 0) +
                                              ": the bits depend on the order in which messages "
                                              "arrive, or on memory read before its wait (order " +
                                              std::to_string(seed + order) + ")");
        }
    }
}

namespace detail {

/// Reports where the reduced gradients of `rows`, which hold what is not finite, hide it, move it,
/// or differ from rank to rank.
GX_DECL void expect_overflow(const ReducerUnderTest& r, const Placement& p, const Rows& rows,
                             const Rows& reduced, ConformanceReport& report) {
    const auto mean = column_means(rows), bound = mean_bounds(r.wire, rows);
    const auto may_overflow = [&](std::size_t i) {  // on the wire, wherever a reducer divides
        double sum = 0;
        for (const auto& row : rows) sum += std::abs(static_cast<double>(row[i]));
        return sum > static_cast<double>(r.wire.largest_finite);
    };
    for (std::size_t rank = 0; rank < reduced.size(); ++rank) {
        const auto& row = reduced[rank];
        const std::string where = place(p, row.size(), rank);
        report.values += std::ssize(row);
        if (!same_bits(row, reduced[0]))
            report.add("overflow", where + other_bits(row, reduced[0]));
        if (r.accuracy != Accuracy::rounded) {
            if (all_finite(row))
                report.add("overflow", where +
                                           ": all values are finite, and those of a rank were "
                                           "not. Fix: let NaN and infinities through.");
            continue;
        }
        for (std::size_t i = 0; i < mean.size(); ++i) {
            const float x = row[i];
            const bool near = std::abs(static_cast<double>(x) - mean[i]) <= bound[i];
            if (std::isfinite(mean[i]) ? near || (may_overflow(i) && !std::isfinite(x))
                                       : !std::isfinite(x))
                continue;
            report.add("overflow", where + ", element " + std::to_string(i) + ": " + number(x) +
                                       ", and the exact mean is " + number(mean[i]));
        }
    }
}

}  // namespace detail

GX_DECL void check_overflow(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                            ConformanceReport& report) {
    const auto check = [&](const Placement& p, const Rows& rows, std::size_t bucket_elements) {
        const auto out =
            detail::reduce(r, world, p, {rows}, report, {.bucket_elements = bucket_elements});
        detail::expect_overflow(r, p, rows, out.rows[0], report);
    };
    constexpr float nan = std::numeric_limits<float>::quiet_NaN();
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (const Placement p : {Placement{1, 2}, {1, 3}, {2, 4}}) {
        Rows rows = wide_magnitudes(seed, p.ranks(), 12);
        for (auto& row : rows) row[0] = 0.9f * r.wire.largest_finite;
        rows.back()[3] = -infinity;
        rows.front()[7] = nan;
        rows.back()[7] = -nan;  // all ranks end with the same one
        rows.back()[11] = infinity;
        for (const std::size_t bucket : {std::size_t{0}, std::size_t{5}}) check(p, rows, bucket);
    }
    // one bucket of three alone
    for (std::size_t k = 0; k < 6; ++k) {
        const Placement p{1, k < 3 ? 2 : 3};
        Rows rows = wide_magnitudes(seed + k, p.ranks(), 12);
        detail::spoil(rows, k);
        check(p, rows, 5);
    }
    // no finite value anywhere: what remains of a loss that has diverged
    for (const Placement p : {Placement{1, 1}, {1, 2}, {2, 2}})
        for (const float bad : {nan, infinity})
            check(p, rows_of(p.ranks(), 12, [&](int, std::uint64_t) { return bad; }), 0);
    // one value at an end or in the middle of what kernels cut into vectors and a tail
    const auto spoiled = [&](const Placement& p, std::initializer_list<std::int64_t> lengths) {
        std::vector<Rows> jobs;
        for (const std::int64_t length : lengths)
            for (int place = 0; place < 3; ++place) {
                jobs.push_back(wide_magnitudes(seed + jobs.size(), p.ranks(), length));
                detail::spoil(jobs.back(), jobs.size() - 1);
            }
        const auto out = detail::reduce(r, world, p, jobs, report);
        for (std::size_t j = 0; j < jobs.size(); ++j)
            detail::expect_overflow(r, p, jobs[j], out.rows[j], report);
    };
    for (const Placement p : {Placement{1, 1}, {1, 4}, {5, 1}, {2, 3}, {7, 1}}) spoiled(p, {64});
    spoiled({1, 2}, {64, 257, 4097});
    spoiled({1, 3}, {64, 257});
}

GX_DECL void check_staleness(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                             ConformanceReport& report) {
    GX_EXPECT(r.pipeline, "check_staleness needs under_test<R>() with its Pipeline");
    const Placement p{2, 2};
    constexpr std::int64_t elements = 37;
    constexpr std::uint64_t steps = 7;
    constexpr std::size_t bucket = 10;
    std::vector<std::string> wrong(static_cast<std::size_t>(p.ranks()));
    const auto train = [&](AnyRank& rank) {
        auto& sentence = wrong[static_cast<std::size_t>(rank.rank())];
        CheckedTransport link(rank.transport);
        const auto alone = r.make();  // reduces the same buckets, one after the other
        alone->reserve({.placement = p,
                        .elements = elements,
                        .bucket_elements = bucket,
                        .in_flight = r.staleness + 1,
                        .seed = seed});
        const auto gradient = [&](std::uint64_t t) {
            return r.accuracy == Accuracy::rounded ? small_integers(seed + t, p.ranks(), elements)
                                                   : wide_magnitudes(seed + t, p.ranks(), elements);
        };
        std::vector<std::vector<float>> expected;
        for (std::uint64_t t = 0; t < steps; ++t) {
            auto values = gradient(t)[static_cast<std::size_t>(rank.rank())];
            if (!detail::reduce_in_buckets(*alone, link, values, bucket, t).complete())
                sentence = "a reduction without a fault is incomplete";
            alone->settle(t, true);
            expected.push_back(std::move(values));
        }
        std::uint64_t applied = 0;
        const auto apply = [&](const Reduced& got) {
            const auto mean = column_means(gradient(applied));
            bool right = got.index == applied && got.report.complete() && applied < steps &&
                         detail::same_bits(got.values, expected[applied]);
            for (std::size_t i = 0; r.accuracy == Accuracy::rounded && i < mean.size(); ++i)
                right = right && static_cast<double>(got.values[i]) == mean[i];
            if (!right)
                sentence = "update " + std::to_string(applied) + " is not the mean of gradient " +
                           std::to_string(applied);
            ++applied;
        };
        const auto write = [&](std::uint64_t t, std::span<float> values) {
            const auto rows = gradient(t);
            const auto& mine = rows[static_cast<std::size_t>(rank.rank())];
            std::copy(mine.begin(), mine.end(), values.begin());
        };
        const auto collected = [&](std::uint64_t t, const std::optional<Reduced>& got) {
            if (got) apply(*got);
            if (got.has_value() != (t >= static_cast<std::uint64_t>(r.staleness)))
                sentence = "step " + std::to_string(t) + " is not " + std::to_string(r.staleness) +
                           " steps late";
        };
        r.pipeline(link, rank.stream,
                   {.options = {.elements = elements, .bucket_elements = bucket, .seed = seed},
                    .steps = steps,
                    .write = write,
                    .collected = collected,
                    .drained = apply});
        if (applied != steps)
            sentence =
                std::to_string(steps) + " gradients gave " + std::to_string(applied) + " updates";
    };
    try {
        world.run(p, train);
    } catch (const std::exception& e) {
        return report.add("exception", detail::text(p) + ": " + e.what());
    }
    report.reductions += 2 * std::int64_t{steps};
    report.values += p.ranks() * elements * std::int64_t{steps};
    for (const auto& sentence : wrong)
        if (!sentence.empty()) return report.add("staleness", sentence);
}

GX_DECL void check_lost_rank(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                             ConformanceReport& report) {
    const auto check = [&](Placement p, int dead, int from_bucket, std::size_t from_job = 0) {
        const int n = p.ranks();
        std::vector<Rows> jobs;
        for (std::size_t j = 0; j <= from_job; ++j)
            jobs.push_back(wide_magnitudes(seed + j, n, 64));
        const auto out = detail::reduce(r, world, p, std::move(jobs), report,
                                        {.dead_rank = dead,
                                         .dead_from_job = from_job,
                                         .dead_from_bucket = from_bucket,
                                         .bucket_elements = from_bucket > 0 ? std::size_t{24} : 0});
        bool named = false;
        for (int rank = 0; rank < n; ++rank) {
            if (rank == dead) continue;
            const auto me = static_cast<std::size_t>(rank);
            for (const auto& reports : out.reports) {  // the loss may cancel waits of a job before
                const Delivery& d = reports[me].delivery;
                named |= d.peer == dead && (d.outcome == Delivery::Outcome::timed_out ||
                                            d.outcome == Delivery::Outcome::lost);
            }
            if (out.reports[from_job][me].complete())
                report.add("lost rank", detail::text(p) + ": rank " + std::to_string(rank) +
                                            " reports a complete reduction without rank " +
                                            std::to_string(dead) +
                                            ". Fix: return the delivery of a wait that is "
                                            "incomplete, at every placement.");
        }
        if (!named)
            report.add("lost rank", detail::text(p) + ": no rank reports that rank " +
                                        std::to_string(dead) +
                                        " is missing. Fix: return the delivery of the first wait "
                                        "that is incomplete: waits behind it are cancelled.");
    };
    check({1, 2}, 1, 0);
    check({1, 3}, 1, 0);
    check({1, 5}, 2, 0);
    check({2, 2}, 2, 0);  // the first rank of its machine, and others
    if (!world.gather) {
        check({3, 1}, 1, 0);
        check({2, 2}, 1, 0);
        check({2, 3}, 5, 0);
    }
    check({1, 3}, 1, 1);
    check({1, 2}, 1, 2);
    // the second gradient, after one that is whole and that a reducer may have kept
    check({1, 2}, 1, 0, 1);
    if (!world.gather) {
        check({1, 3}, 1, 0, 1);
        check({2, 2}, 2, 0, 1);
    }
}

GX_DECL void check_law(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                       const Law& law, ConformanceReport& report) {
    for (const Placement p : {Placement{1, 1}, {1, 2}, {1, 3}, {2, 2}, {7, 1}}) {
        std::vector<Rows> jobs;
        for (std::uint64_t t = 0; t < 20; ++t)
            jobs.push_back(wide_magnitudes(seed + t, p.ranks(), 50));
        const auto out = detail::reduce(r, world, p, jobs, report);
        detail::check_outcome(r, out, p, report);
        if (const std::string sentence = law(jobs, out.rows); !sentence.empty())
            report.add("law", detail::text(p) + ": " + sentence);
    }
}

GX_DECL void check_decision(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                            const Decision& decide, ConformanceReport& report) {
    const Placement p{2, 2};
    std::vector<Rows> jobs;
    std::vector<detail::NotFinite> bad;
    for (std::uint64_t t = 0; t < 11; ++t) {
        jobs.push_back(wide_magnitudes(seed + t, p.ranks(), 33));
        if (t > 0 && t < 10) bad.push_back(detail::spoil(jobs[t], t - 1));
    }
    for (auto& row : jobs.back()) {  // finite again, and large
        row.front() = r.wire.largest_finite / static_cast<float>(2 * p.ranks());
        row.back() = -row.front();
    }
    const auto out = detail::reduce(r, world, p, jobs, report);
    for (std::size_t t = 0; t < jobs.size(); ++t)
        for (std::size_t rank = 0; rank < jobs[t].size(); ++rank) {
            const bool skip = t > 0 && t < 10;
            if (decide(static_cast<int>(rank), jobs[t][rank], out.rows[t][rank]) == skip) continue;
            const std::string who = detail::place(p, jobs[t][rank].size(), rank);
            report.add("decision",
                       skip ? who + ": does not skip a step whose mean is not finite, after " +
                                  detail::text(bad[t - 1]) +
                                  ". Promise: all ranks skip it. Fix: decide from every element of "
                                  "the averaged gradient, as gx::all_finite does."
                            : who + ": skips a step whose mean is finite" +
                                  (t > 0 ? ", and large" : "") +
                                  ". Promise: all ranks apply it. Fix: skip only where an element "
                                  "of the averaged gradient is infinite or NaN.");
        }
}

GX_DECL void check_worlds(const ReducerUnderTest& r, const AnyWorld& one, const AnyWorld& other,
                          std::uint64_t seed, ConformanceReport& report) {
    for (const Placement p : {Placement{1, 3}, {2, 2}, {4, 2}, {7, 1}}) {
        const std::vector<Rows> jobs{wide_magnitudes(seed, p.ranks(), 77),
                                     every_scale(r.wire, seed, p.ranks(), 1025)};
        const auto a = detail::reduce(r, one, p, jobs, report),
                   b = detail::reduce(r, other, p, jobs, report);
        for (std::size_t j = 0; j < jobs.size(); ++j) {
            report.values += std::ssize(a.rows[j][0]);
            if (!detail::same_bits(a.rows[j][0], b.rows[j][0]))
                report.add("world", detail::place(p, jobs[j][0].size(), 0) +
                                        ": two worlds give different bits");
        }
    }
}

GX_DECL void check_all(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                       ConformanceReport& report) {
    if (!detail::state_is_as_long(r, report)) return;  // it would write beyond its vectors
    if (r.accuracy == Accuracy::rounded) check_means(r, world, seed, report);
    else check_agreement(r, world, seed, report);
    if (report.hangs) return;
    if (r.accuracy == Accuracy::error_feedback) {
        check_telescoping(r, world, seed, report);
        check_progress(r, world, seed, report);
    }
    if (r.accuracy == Accuracy::unbiased) check_unbiased(r, world, seed, report);
    check_sequence(r, world, seed, report);
    check_arrival(r, world, seed, report);
    if (report.hangs) return;
    check_overflow(r, world, seed, report);
    check_lost_rank(r, world, seed, report);
    if (report.rejected_by("sequence") || report.rejected_by("arrival"))
        return;  // the others compare two runs
    check_state(r, world, seed, keep_every_state, report);
    check_skipped(r, world, seed, report);
    check_loss_scale(r, world, seed, report);
    check_staleness(r, world, seed, report);
}

}  // namespace gx::testing
