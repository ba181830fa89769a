// Checks over many reductions: history, saved state, telescoping law, bias.
#pragma once

#include <algorithm>    // max, min
#include <cmath>        // abs, frexp, isfinite, isnan, ldexp, sqrt
#include <numeric>      // iota
#include <string_view>  // plan

#include <gx/core/rng.hpp>  // Rng
#include <gx/testing/conformance.hpp>
#include <gx/testing/detail/reduce.hpp>  // reduce, check_outcome

namespace gx::testing {

GX_DECL void check_sequence(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                            ConformanceReport& report) {
    const auto probe = r.make();
    probe->reserve(ReducePlan::whole({1, 1}, 64));
    if (!probe->state().empty()) return;
    {
        const Placement p{1, 3};
        std::vector<Rows> jobs;
        for (const std::int64_t length : {64, 5, 0, 33, 64, 64})
            jobs.push_back(wide_magnitudes(seed + jobs.size(), p.ranks(), length));
        const auto together = detail::reduce(r, world, p, jobs, report);
        for (std::size_t j = 0; j < jobs.size(); ++j) {
            const auto alone = detail::reduce(r, world, p, {jobs[j]}, report, {.gradients = {j}});
            report.values += std::ssize(jobs[j][0]);
            if (!detail::same_bits(together.rows[j][0], alone.rows[0][0]))
                report.add("sequence", "reduction " + std::to_string(j) +
                                           " depends on earlier reductions, and state() is empty");
        }
    }
    if (r.accuracy != Accuracy::rounded) return;  // others may draw by the gradient's number
    const Placement p{1, 2};
    constexpr std::size_t calls = 1000;
    const std::vector<Rows> jobs(calls, wide_magnitudes(seed, p.ranks(), 5));
    const auto out = detail::reduce(r, world, p, jobs, report);
    for (std::size_t j = 1; j < calls; ++j)
        for (const auto& row : out.rows[j]) {
            report.values += std::ssize(row);
            if (!detail::same_bits(row, out.rows[0][0]))
                report.add("sequence", "call " + std::to_string(j) +
                                           " gives other bits than call 0 with equal gradients");
        }
}

GX_DECL void check_state(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                         const Checkpointing& checkpoint, ConformanceReport& report) {
    const auto probe = r.make();
    probe->reserve(ReducePlan::whole({1, 1}, 64));
    const bool stateful = !probe->state().empty();  // check_sequence makes many calls of the others
    for (const Placement p : {Placement{1, 3}, {2, 2}}) {
        const std::size_t before = stateful && p.machines == 2 ? 250 : 4, after = before;
        std::vector<Rows> jobs;
        for (std::size_t t = 0; t < before + after; ++t)
            jobs.push_back(wide_magnitudes(seed + t, p.ranks(), 64));
        const std::vector<Rows> early(jobs.begin(), jobs.begin() + std::ptrdiff_t(before)),
            late(jobs.begin() + std::ptrdiff_t(before), jobs.end());
        std::vector<std::uint64_t> numbers(after);
        std::iota(numbers.begin(), numbers.end(), before);
        const std::size_t bucket = p.machines == 2 ? 24 : 0;
        const auto whole = detail::reduce(r, world, p, jobs, report, {.bucket_elements = bucket});
        const auto first = detail::reduce(r, world, p, early, report, {.bucket_elements = bucket});
        const auto second = detail::reduce(
            r, world, p, late, report,
            {.states = checkpoint(first.states), .bucket_elements = bucket, .gradients = numbers});
        if (!second.state_fits) {
            report.add("state", detail::text(p) +
                                    ": state() of a fresh reducer has another length "
                                    "than the saved one. Fix: size it in reserve().");
            continue;
        }
        for (std::size_t j = 0; j < after; ++j)
            for (std::size_t rank = 0; rank < late[j].size(); ++rank) {
                report.values += std::ssize(late[j][rank]);
                if (detail::same_bits(second.rows[j][rank], whole.rows[before + j][rank])) continue;
                report.add("state", detail::place(p, late[j][rank].size(), rank) + ": reduction " +
                                        std::to_string(j) +
                                        " after a save and restore has other bits than without. "
                                        "Fix: keep everything that outlives a reduction in "
                                        "state(), and give each rank its own.");
            }
        for (std::size_t rank = 0; rank < whole.states.size(); ++rank) {
            const std::string where = detail::text(p) + ", rank " + std::to_string(rank);
            if (!detail::same_bits(second.states[rank], whole.states[rank]))
                report.add("state", where + ": state() differs after a save and restore");
            bool equal = true;
            for (std::size_t i = 0; i < whole.states[rank].size(); ++i)
                equal = equal &&
                        (!whole.replicated[i] ||
                         detail::same_bits({&whole.states[rank][i], 1}, {&whole.states[0][i], 1}));
            if (!equal)
                report.add("state", where +
                                        ": state() differs from rank 0's, and its scope is "
                                        "replicated. Fix: per_rank, or the same on all ranks.");
        }
    }
}

GX_DECL void check_skipped(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                           ConformanceReport& report) {
    const auto probe = r.make();
    probe->reserve(ReducePlan::whole({1, 1}, 64));
    if (probe->state().empty()) return;
    // '-': skipped, once to three times in a row, and often enough for each of 6 ranks to be why
    const std::string_view plan = ".-.--.---.--.---.";
    for (const auto& how : detail::whole_or_cut) {
        const Placement p = how.placement;
        const std::size_t bucket = how.bucket_elements;
        std::vector<Rows> with, without;
        std::vector<std::uint64_t> numbers;
        for (std::uint64_t t = 0, skips = 0; t < plan.size(); ++t) {
            with.push_back(wide_magnitudes(seed + t, p.ranks(), 64));
            if (plan[t] == '-') {
                detail::spoil(with[t], skips++);
                continue;
            }
            without.push_back(with[t]);
            numbers.push_back(t);
        }
        const auto a = detail::reduce(r, world, p, with, report, {.bucket_elements = bucket});
        const auto b = detail::reduce(r, world, p, without, report,
                                      {.bucket_elements = bucket, .gradients = numbers});
        detail::check_outcome(r, a, p, report);
        detail::check_outcome(r, b, p, report);
        const auto differs = [&](std::size_t j) {  // on the first rank that does, or none
            std::size_t rank = 0;
            for (; rank < b.rows[j].size(); ++rank) {
                report.values += std::ssize(b.rows[j][rank]);
                if (!detail::same_bits(a.rows[numbers[j]][rank], b.rows[j][rank])) return rank;
            }
            return rank;
        };
        for (std::size_t j = 0; j < without.size(); ++j) {
            const std::size_t rank = differs(j);
            if (rank == b.rows[j].size()) continue;
            report.add("skipped", detail::place(p, b.rows[j][rank].size(), rank) + ": gradient " +
                                      std::to_string(numbers[j]) +
                                      " has other bits after a skipped step. Fix: undo in "
                                      "settle(gradient, false) what all_reduce left in state().");
            break;
        }
        for (std::size_t rank = 0; rank < a.states.size(); ++rank)
            if (!detail::same_bits(a.states[rank], b.states[rank]))
                report.add("skipped", detail::text(p) + ", rank " + std::to_string(rank) +
                                          ": state() keeps a trace of the gradient of a skipped "
                                          "step. Fix: undo it in settle(gradient, false).");
    }
}

GX_DECL void check_loss_scale(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                              ConformanceReport& report) {
    const std::vector<float> scales{1, 8, 8, 0.5f, 2048, 1, 65536, 65536, 16, 16};
    std::size_t skips = 0;
    for (const auto& how : detail::whole_or_cut) {
        const Placement p = how.placement;
        const std::size_t bucket = how.bucket_elements;
        std::vector<Rows> plain, scaled;
        for (std::size_t t = 0; t < scales.size(); ++t) {
            plain.push_back(wide_magnitudes(seed + t, p.ranks(), 64));
            for (auto& row : plain[t])
                for (std::size_t i = 0; i < row.size(); ++i) {
                    int exponent = 0;  // 1/4 to 2 and one sign a column: no 16-bit subnormal
                    const float significand = std::frexp(std::abs(row[i]), &exponent);
                    // as small as keeps 65536 times the sum within 16 bits
                    const int e = exponent % 2 - (scales[t] > 2048 ? 8 : 0);
                    row[i] = std::ldexp(i % 2 == 0 ? significand : -significand, e);
                }
            if (t == 3 || t == 4 || t == 7) detail::spoil(plain[t], skips++);
            scaled.push_back(plain[t]);
            for (auto& row : scaled[t])
                for (float& x : row) x *= scales[t];
        }
        const auto expected =
            detail::reduce(r, world, p, plain, report, {.bucket_elements = bucket});
        const auto got = detail::reduce(r, world, p, scaled, report,
                                        {.bucket_elements = bucket, .loss_scales = scales});
        detail::check_outcome(r, got, p, report);
        const auto check = [&](std::size_t t) {
            for (std::size_t rank = 0; rank < got.rows[t].size(); ++rank)
                for (std::size_t i = 0; i < got.rows[t][rank].size(); ++i) {
                    const float x = expected.rows[t][rank][i] * scales[t], y = got.rows[t][rank][i];
                    ++report.values;
                    if (detail::same_bits({&x, 1}, {&y, 1}) || (std::isnan(x) && std::isnan(y)))
                        continue;
                    const std::string where = detail::place(p, got.rows[t][rank].size(), rank);
                    report.add(
                        "loss scale",
                        where + ", element " + std::to_string(i) + ": " + detail::number(y) +
                            " of gradient " + std::to_string(t) + ", of loss scale " +
                            detail::number(scales[t]) + ", instead of " + detail::number(x) +
                            ", the mean without a scale, times the scale. Fix: " +
                            (std::isfinite(x)
                                 ? "keep state in unscaled units: divide what the bucket holds by "
                                   "bucket.loss_scale, and multiply what you give back."
                                 : "let NaN and infinities through in every bucket."));
                    return false;
                }
            return true;
        };
        std::size_t t = 0;
        while (t < scales.size() && check(t)) ++t;
        for (std::size_t rank = 0; rank < got.states.size(); ++rank)
            if (!detail::same_bits(got.states[rank], expected.states[rank]))
                report.add("loss scale", detail::text(p) + ", rank " + std::to_string(rank) +
                                             ": state() has other bits than without loss scales. "
                                             "Fix: keep it in unscaled units, and undo in "
                                             "settle(gradient, false) what a skipped step left.");
    }
}

GX_DECL void check_telescoping(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                               ConformanceReport& report) {
    struct Run {
        Placement placement;
        std::size_t elements, steps, bucket_elements;
    };
    const Rng rng(seed, "gx::testing::check_telescoping");
    const std::size_t drawn = 1 + rng.bits(0)[0] % 5'000;
    for (const auto& [p, elements, steps, bucket] : {Run{{1, 2}, 24, 450, 10},
                                                     {{1, 3}, 24, 60, 10},
                                                     {{7, 1}, 24, 60, 10},
                                                     {{1, 2}, 65, 4, 0},
                                                     {{1, 3}, 1'000, 4, 0},
                                                     {{1, 2}, 4'097, 3, 1'000},
                                                     {{1, 3}, 4'097, 3, 0},
                                                     {{1, 2}, drawn, 3, 0},
                                                     {{1, 2}, 65'600, 2, 0}}) {
        const double n = p.ranks();
        std::vector<Rows> jobs;
        for (std::size_t t = 0; t < steps; ++t)
            jobs.push_back(wide_magnitudes(seed + t, p.ranks(), elements));
        const auto out = detail::reduce(r, world, p, jobs, report,
                                        {.keep_residuals = true, .bucket_elements = bucket});
        detail::check_outcome(r, out, p, report);
        bool whole = true;
        for (const Rows& residuals : out.residuals)
            for (const auto& row : residuals) whole = whole && row.size() >= elements;
        if (!whole) {
            report.add("telescoping",
                       "the residual is shorter than the gradient. Fix: one value "
                       "for each element in state() or residual().");
            return;
        }
        for (std::size_t i = 0; i < elements; ++i) {
            double given = 0, applied = 0, bound = 0;
            for (std::size_t t = 0; t < steps; ++t) {
                double residual = 0, magnitudes = 0;
                for (std::size_t rank = 0; rank < jobs[t].size(); ++rank) {
                    const double g = jobs[t][rank][i], old = out.residuals[t][rank][i],
                                 now = out.residuals[t + 1][rank][i];
                    given += g / n;
                    residual += now / n;
                    magnitudes += std::abs(g) + std::abs(old) + std::abs(now);
                }
                applied += static_cast<double>(out.rows[t][0][i]);
                // what is sent, at most `magnitudes`; one rounding each to add and take away
                bound += mean_bound(r.wire, p.ranks(), magnitudes) + 2 * 0x1p-24 * magnitudes / n;
                ++report.values;
                if (std::abs(applied + residual - given) <= bound) continue;
                report.add("telescoping",
                           detail::text(p) + ", element " + std::to_string(i) + " of " +
                               std::to_string(elements) + ", after step " + std::to_string(t) +
                               ": applied " + detail::number(applied) + " plus residual " +
                               detail::number(residual) + " is not the sum of the gradients, " +
                               detail::number(given) + ", within " + detail::number(bound) +
                               (residual == 0 ? ". Fix: let settle(gradient, true) take over what "
                                                "all_reduce left, and name it in state()."
                                              : ""));
                i = elements;  // one is enough
                break;
            }
        }
    }
}

GX_DECL void check_progress(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                            ConformanceReport& report) {
    const std::pair<Placement, bool> cases[]{{{1, 2}, false}, {{1, 2}, true},  {{1, 3}, false},
                                             {{1, 3}, true},  {{7, 1}, false}, {{7, 1}, true}};
    for (const auto& [p, falls] : cases) {
        constexpr std::size_t elements = 24, steps = 200;
        Rng rng(seed, "gx::testing::check_progress");
        Rows rows(static_cast<std::size_t>(p.ranks()), std::vector<float>(elements));
        for (std::size_t i = 0; i < elements; ++i) {
            const float least = (i % 3 == 0 ? -1.0f : 1.0f) * (1 + rng.uniform(i));
            for (std::size_t rank = 0; rank < rows.size(); ++rank) {
                const std::size_t root = falls ? rows.size() - rank : rank + 1;
                rows[rank][i] = least * static_cast<float>(root * root);
            }
        }
        const auto out = detail::reduce(r, world, p, std::vector<Rows>(steps, rows), report,
                                        {.bucket_elements = 10});
        detail::check_outcome(r, out, p, report);
        const std::vector<double> mean = column_means(rows);
        double off = 0, length = 0;
        for (std::size_t i = 0; i < elements; ++i) {
            double applied = 0;
            for (std::size_t t = 0; t < steps; ++t)
                applied += static_cast<double>(out.rows[t][0][i]) / steps;
            off += (applied - mean[i]) * (applied - mean[i]);
            length += mean[i] * mean[i];
        }
        report.values += static_cast<std::int64_t>(steps * elements);
        if (std::sqrt(off) <= 0.5 * std::sqrt(length)) continue;
        report.add("progress",
                   detail::text(p) + ": of gradients that stay the same, the average of " +
                       std::to_string(steps) + " reductions is off by " +
                       detail::number(std::sqrt(off)) + " where their mean has a length of " +
                       detail::number(std::sqrt(length)) +
                       ": what is kept is not applied later, or not of all ranks. Fix: send more "
                       "of gradient + residual, of each rank.");
    }
}

namespace detail {

/// A window of a bucket whose average is off.
struct BiasedWindow {
    std::size_t begin = 0, end = 0;
    double average = 0, error = 0;
};
/// Of long buckets: each 64 elements, of magnitudes from 1 to 2, as one. What a reducer gives is
/// projected on their mean; the windows where the average of the projections is not within 6
/// standard errors and a tenth of 1: rounding up may be rare.
inline std::vector<BiasedWindow> biased_windows(const ReducerUnderTest& r, const AnyWorld& world,
                                                std::uint64_t seed, std::size_t elements,
                                                std::size_t calls, ConformanceReport& report) {
    constexpr std::size_t window = 64;
    const Placement p{1, 2};
    const Rng rng(seed, "gx::testing::biased_windows");
    Rows rows(static_cast<std::size_t>(p.ranks()), std::vector<float>(elements));
    for (std::size_t i = 0; i < elements; ++i)
        for (std::size_t rank = 0; rank < rows.size(); ++rank)
            rows[rank][i] = (i % 3 == 0 ? -1.0f : 1.0f) * (1 + rng.uniform(i * rows.size() + rank));
    const auto out = reduce(r, world, p, std::vector<Rows>(calls, rows), report);
    check_outcome(r, out, p, report);
    const auto mean = column_means(rows);
    std::vector<BiasedWindow> biased;
    for (std::size_t begin = 0, end = 0; begin < elements; begin = end) {
        end = elements - begin < 2 * window ? elements : begin + window;
        double length = 0, sum = 0, squares = 0;
        for (std::size_t i = begin; i < end; ++i) length += mean[i] * mean[i];
        for (std::size_t t = 0; t < calls; ++t) {
            double given = 0;
            for (std::size_t i = begin; i < end; ++i)
                given += static_cast<double>(out.rows[t][0][i]) * mean[i];
            sum += given / length;
            squares += given * given / (length * length);
        }
        report.values += static_cast<std::int64_t>(calls * (end - begin));
        const auto n = static_cast<double>(calls);
        const double average = sum / n;
        const double error = std::sqrt(std::max(0.0, squares / n - average * average) / (n - 1));
        if (!(std::abs(average - 1) <= 6 * error + 0.1))
            biased.push_back({begin, end, average, error});
    }
    return biased;
}

/// What 20 calls show is asked of 200: one that sends a random thousandth sends nothing of some
/// windows in 20.
inline void check_windows(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                          std::size_t elements, ConformanceReport& report) {
    if (biased_windows(r, world, seed, elements, 20, report).empty()) return;
    constexpr std::size_t calls = 200;
    for (const BiasedWindow& w : biased_windows(r, world, seed + 1, elements, calls, report)) {
        report.add("bias", "elements " + std::to_string(w.begin) + " to " +
                               std::to_string(w.end - 1) + " of " + std::to_string(elements) +
                               ": the average of " + std::to_string(calls) + " reductions is " +
                               number(w.average) + " times their mean, and 6 standard errors are " +
                               number(6 * w.error));
        return;
    }
}

}  // namespace detail

GX_DECL void check_unbiased(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                            ConformanceReport& report) {
    const Placement p{1, 2};
    constexpr std::size_t calls = 1000, elements = 16;
    const Rows rows = wide_magnitudes(seed, p.ranks(), elements);
    const auto out = detail::reduce(r, world, p, std::vector<Rows>(calls, rows), report);
    detail::check_outcome(r, out, p, report);
    const auto mean = column_means(rows), bound = mean_bounds(r.wire, rows);
    for (std::size_t i = 0; i < elements; ++i) {
        double sum = 0, squares = 0;
        for (std::size_t t = 0; t < calls; ++t) {
            const double off = static_cast<double>(out.rows[t][0][i]) - mean[i];
            sum += off;
            squares += off * off;
        }
        const double average = sum / calls, error = std::sqrt(squares / calls / (calls - 1.0));
        report.values += static_cast<std::int64_t>(calls);
        if (std::abs(average) <= 6 * error + bound[i]) continue;
        report.add("bias", "element " + std::to_string(i) + ": the average of " +
                               std::to_string(calls) + " reductions is off by " +
                               std::to_string(average) + ", and 6 standard errors are " +
                               std::to_string(6 * error));
    }
    for (const std::size_t length : {65, 4'097, 65'600})
        detail::check_windows(r, world, seed, length, report);
}

}  // namespace gx::testing
