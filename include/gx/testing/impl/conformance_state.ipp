// Checks over many reductions: history, saved state, telescoping law, bias.
#pragma once

#include <algorithm>         // find, max, min
#include <cmath>             // abs, copysign, frexp, isfinite, isnan, ldexp, sqrt
#include <initializer_list>  // cases
#include <numeric>           // iota
#include <string>            // plan
#include <tuple>             // cases

#include <gx/core/rng.hpp>  // Rng
#include <gx/testing/conformance.hpp>
#include <gx/testing/detail/reduce.hpp>  // reduce, check_outcome

namespace gx::testing {

namespace detail {

/// Whether two equal runs have equal bits; where not, that is in the report.
inline bool repeats(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                    ConformanceReport& report) {
    const Placement p{1, 3};
    const std::vector<Rows> jobs{wide_magnitudes(seed, p.ranks(), 64),
                                 wide_magnitudes(seed + 1, p.ranks(), 64)};
    const auto one = reduce(r, world, p, jobs, report), two = reduce(r, world, p, jobs, report);
    for (std::size_t j = 0; j < jobs.size(); ++j) {
        report.values += std::ssize(jobs[j][0]);
        if (same_bits(one.rows[j][0], two.rows[j][0])) continue;
        report.add("sequence", text(p) +
                                   ": two equal runs have different bits: it draws by a "
                                   "clock or std::random_device, or adds in the order of arrival. "
                                   "Fix: draw by plan.seed, bucket.gradient and what else is equal "
                                   "in both, as with gx::Rng.");
        return false;
    }
    return true;
}

}  // namespace detail

GX_DECL void check_sequence(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                            ConformanceReport& report) {
    if (!detail::repeats(r, world, seed, report)) return;
    const auto probe = r.make();
    probe->reserve(ReducePlan::whole({1, 1}, 64));
    if (!probe->state().empty()) return;
    {
        const Placement p{1, 3};
        std::vector<Rows> jobs;
        for (const std::int64_t length : {64, 5, 0, 33, 64, 64, 63})
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
    const auto check = [&](const detail::WholeOrCut& how, int in_flight) {
        // '-': skipped, once to three times in a row, and often enough for each of 6 ranks to be
        // why; at the end as many are applied as state() may hold in flight
        const std::string plan = ".-.--.---.--.---" + std::string(std::size_t(in_flight), '.');
        const Placement p = how.placement;
        detail::ReduceOptions options{.bucket_elements = how.bucket_elements,
                                      .in_flight = in_flight};
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
        const auto a = detail::reduce(r, world, p, with, report, options);
        options.gradients = numbers;
        const auto b = detail::reduce(r, world, p, without, report, options);
        detail::check_outcome(r, a, p, report);
        detail::check_outcome(r, b, p, report);
        const std::string later = in_flight > 1 ? ", settled when the next gradient has begun" : "";
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
                                      " has other bits after a skipped step" + later +
                                      ". Fix: undo in settle(gradient, false) what all_reduce left "
                                      "in state() for that gradient alone.");
            break;
        }
        for (std::size_t rank = 0; rank < a.states.size(); ++rank)
            if (!detail::same_bits(a.states[rank], b.states[rank]))
                report.add("skipped", detail::text(p) + ", rank " + std::to_string(rank) +
                                          ": state() keeps a trace of the gradient of a skipped "
                                          "step" +
                                          later +
                                          ". Fix: undo it in settle(gradient, false), and nothing "
                                          "else.");
    };
    for (const auto& how : detail::whole_or_cut) check(how, 1);
    if (!r.overlaps) return;
    for (const auto& how : {detail::WholeOrCut{{1, 2}, 24}, {{2, 2}, 0}})
        check(how, std::max(2, r.staleness + 1));
}

GX_DECL void check_loss_scale(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                              ConformanceReport& report) {
    const std::vector<float> scales{1, 8, 8, 0.5f, 2048, 1, 65536, 65536, 16, 16};
    const auto spoiled = [](std::size_t t) { return t == 3 || t == 4 || t == 7; };
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
            if (spoiled(t)) detail::spoil(plain[t], skips++);
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
                            (spoiled(t) ? "let NaN and infinities through in every bucket."
                                        : std::string(got.states[rank].empty()
                                                          ? "let nothing depend on the scale"
                                                          : "keep state in unscaled units") +
                                              ": divide what the bucket holds by "
                                              "bucket.loss_scale, and multiply what you give "
                                              "back."));
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
                                                     {{1, 1}, 24, 20, 10},
                                                     {{1, 4}, 24, 20, 10},
                                                     {{2, 2}, 24, 20, 0},
                                                     {{1, 5}, 24, 20, 10},
                                                     {{2, 3}, 24, 20, 0},
                                                     {{2, 4}, 24, 20, 10},
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
                       "the residual is shorter than the gradient. Fix: one value for each of "
                       "plan.elements, which may be more than plan.bucket_elements, in state() or "
                       "residual().");
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

namespace detail {

/// Elements of a bucket.
struct Window {
    std::size_t begin = 0, end = 0;
    friend bool operator==(const Window&, const Window&) = default;
};
/// Eight of a bucket, one in each eighth of it, drawn by the seed; the last is its end.
inline std::vector<Window> drawn_windows(std::uint64_t seed, std::size_t elements) {
    constexpr std::size_t count = 8, width = 8;
    const Rng rng(seed, "gx::testing::drawn_windows");
    const std::size_t each = elements / count;
    std::vector<Window> windows;
    for (std::size_t w = 0; w < count; ++w) {
        const std::size_t drawn = rng.bits(w)[0] % (each - width);
        const std::size_t begin = w + 1 < count ? w * each + drawn : elements - width;
        windows.push_back({begin, begin + width});
    }
    return windows;
}

/// Gradients that stay the same, where ranks have 1, 4, 9 ... times the first one's, or the last
/// one's; `at`: 0 elsewhere, or everywhere where it is empty.
inline Rows lasting_rows(std::uint64_t seed, int ranks, std::size_t elements, bool falls,
                         const std::vector<Window>& at = {}) {
    const Rng rng(seed, "gx::testing::check_progress");
    Rows rows(static_cast<std::size_t>(ranks), std::vector<float>(elements));
    for (const Window& w : at.empty() ? std::vector<Window>{{0, elements}} : at)
        for (std::size_t i = w.begin; i < w.end; ++i) {
            const float least = (i % 3 == 0 ? -1.0f : 1.0f) * (1 + rng.uniform(i));
            for (std::size_t rank = 0; rank < rows.size(); ++rank) {
                const std::size_t root = falls ? rows.size() - rank : rank + 1;
                rows[rank][i] = least * static_cast<float>(root * root);
            }
        }
    return rows;
}

/// A case of kept_windows(): a bucket's windows, alone in it or beside what is everywhere.
struct ProgressCase {
    Placement placement;
    std::size_t elements, bucket_elements;
    std::vector<Window> windows{};
    bool alone = false, falls = false;
};
/// How far the average of `steps` reductions is off the mean in a window, and the mean's length.
struct Kept {
    Window window{};
    std::size_t steps = 0;
    double off = 0, length = 0;
};
/// The windows in which it is off by more than half of its length, however often it was looked at,
/// after each `at_once` steps and `most` in all.
inline std::vector<Kept> kept_windows(const ReducerUnderTest& r, const AnyWorld& world,
                                      std::uint64_t seed, const ProgressCase& c,
                                      std::size_t at_once, std::size_t most,
                                      ConformanceReport& report) {
    const Rows rows = lasting_rows(seed, c.placement.ranks(), c.elements, c.falls,
                                   c.alone ? c.windows : std::vector<Window>{});
    const std::vector<double> mean = column_means(rows);
    std::vector<double> applied(c.elements);
    std::vector<std::vector<float>> states;
    std::vector<Kept> kept;
    for (std::size_t steps = 0; steps < most;) {
        std::vector<std::uint64_t> numbers(at_once);
        std::iota(numbers.begin(), numbers.end(), steps);
        auto out =
            reduce(r, world, c.placement, std::vector<Rows>(at_once, rows), report,
                   {.states = states, .bucket_elements = c.bucket_elements, .gradients = numbers});
        check_outcome(r, out, c.placement, report);
        if (out.failed || !out.state_fits) return {};  // which is in the report
        states = std::move(out.states);
        steps += at_once;
        report.values += static_cast<std::int64_t>(at_once * c.elements);
        kept.clear();
        for (const Window& w : c.windows) {
            double off = 0, length = 0;
            for (std::size_t i = w.begin; i < w.end; ++i) {
                for (const Rows& job : out.rows) applied[i] += static_cast<double>(job[0][i]);
                const double error = applied[i] / static_cast<double>(steps) - mean[i];
                off += error * error;
                length += mean[i] * mean[i];
            }
            if (!(std::sqrt(off) <= 0.5 * std::sqrt(length)))
                kept.push_back({w, steps, std::sqrt(off), std::sqrt(length)});
        }
        if (kept.empty()) return {};
    }
    return kept;
}

inline void add_kept(const ProgressCase& c, const Kept& k, ConformanceReport& report) {
    const bool whole = k.window == Window{0, c.elements};
    report.add(
        "progress",
        text(c.placement) +
            (whole ? std::string()
                   : ", elements " + std::to_string(k.window.begin) + " to " +
                         std::to_string(k.window.end - 1) + " of " + std::to_string(c.elements)) +
            ": of gradients that stay the same, the average of " + std::to_string(k.steps) +
            " reductions is off by " + number(k.off) + " where their mean has a length of " +
            number(k.length) +
            ": what is kept is not applied later, or not of all ranks. Fix: send more "
            "of gradient + residual, of each rank.");
}

/// Windows of long buckets. What sends the largest values sends those of windows that are alone;
/// what cuts all values alike has its way with those that are not; and what sends values by chance
/// has sent each of them often after 2,000 steps, if it sends one in 200.
inline void check_long_progress(const ReducerUnderTest& r, const AnyWorld& world,
                                std::uint64_t seed, ProgressCase c, ConformanceReport& report) {
    c.windows = drawn_windows(seed, c.elements);
    for (const auto& [alone, steps] : {std::pair{true, 40}, {false, 40}, {true, 2'000}}) {
        c.alone = alone;
        const auto kept = kept_windows(r, world, seed, c, 40, std::size_t(steps), report);
        std::erase_if(c.windows, [&](const Window& w) {
            return std::ranges::find(kept, w, &Kept::window) == kept.end();
        });
        if (c.windows.empty()) return;
        if (steps > 40) add_kept(c, kept.front(), report);
    }
}

}  // namespace detail

GX_DECL void check_progress(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                            ConformanceReport& report) {
    constexpr std::size_t elements = 24, steps = 200;
    const auto before = report.found;
    for (const Placement p : {Placement{1, 2}, {1, 3}, {7, 1}})
        for (const bool falls : {false, true}) {
            const detail::ProgressCase c{.placement = p,
                                         .elements = elements,
                                         .bucket_elements = 10,
                                         .windows = {{0, elements}},
                                         .falls = falls};
            if (detail::kept_windows(r, world, seed, c, steps, steps, report).empty()) continue;
            for (const auto& kept :
                 detail::kept_windows(r, world, seed, c, 10 * steps, 10 * steps, report))
                detail::add_kept(c, kept, report);
        }
    if (report.found > before) return;  // long buckets say no more
    for (const auto& [p, length, bucket] :
         {std::tuple{Placement{1, 2}, 4'097, 1'000}, {Placement{1, 3}, 65'600, 0}})
        detail::check_long_progress(r, world, seed,
                                    {.placement = p,
                                     .elements = std::size_t(length),
                                     .bucket_elements = std::size_t(bucket)},
                                    report);
}

namespace detail {

/// What calls have shown of a value whose mean is known.
struct Draws {
    double average = 0, variance = 0;
    double farthest = 0;  ///< of a call from the average
};
template <class Value>
Draws draws_of(std::size_t calls, Value value) {
    Draws d;
    for (std::size_t t = 0; t < calls; ++t) d.average += value(t) / static_cast<double>(calls);
    for (std::size_t t = 0; t < calls; ++t) {
        const double off = std::abs(value(t) - d.average);
        d.variance += off * off / (static_cast<double>(calls) - 1);
        d.farthest = std::max(d.farthest, off);
    }
    return d;
}
/// What the average of so many calls is off by chance at most, but for one value in 10^11:
/// Bernstein's inequality, 2 exp(-calls t^2 / (2 (variance + farthest t / 3))) = 10^-11.
/// Source: Boucheron, Lugosi and Massart 2013, Concentration Inequalities, corollary 2.11.
inline double chance(const Draws& d, std::size_t calls) {
    constexpr double log = 26;
    const double n = static_cast<double>(calls), far = d.farthest * log / 3;
    return (far + std::sqrt(far * far + 2 * n * d.variance * log)) / n;
}

/// Elements of a bucket whose average is off: one of them, or 64 as one, projected on their mean.
struct Biased {
    Window window{};
    double average = 0, expected = 0, chance = 0;
};
/// The windows whose average over the calls is off by more than `rounding` and chance. Values are
/// drawn alike: each one's variance is at least that of all together, since one that is seldom sent
/// may not have been seen.
inline std::vector<Biased> off_by_more_than_chance(const std::vector<Window>& windows,
                                                   std::size_t calls, auto value, auto expected,
                                                   auto rounding) {
    std::vector<Biased> off;
    std::vector<Draws> all;
    Draws pooled;
    for (const Window& w : windows) {
        all.push_back(draws_of(calls, [&](std::size_t t) { return value(t, w); }));
        pooled.variance += all.back().variance / static_cast<double>(windows.size());
        pooled.farthest = std::max(pooled.farthest, all.back().farthest);
    }
    for (std::size_t w = 0; w < windows.size(); ++w) {
        const double average = all[w].average, mine = expected(windows[w]);
        const double by_chance =
            chance({0, std::max(pooled.variance, all[w].variance), pooled.farthest}, calls);
        if (!(std::abs(average - mine) <= by_chance + rounding(windows[w])))
            off.push_back({windows[w], average, mine, by_chance});
    }
    return off;
}

/// A case of biased(): lengths in which each element has a magnitude from 1 to 2.
struct BiasCase {
    Placement placement;
    std::size_t elements, bucket_elements;
};
inline std::vector<Biased> biased(const ReducerUnderTest& r, const AnyWorld& world,
                                  std::uint64_t seed, const BiasCase& c, std::size_t calls,
                                  ConformanceReport& report) {
    constexpr std::size_t width = 64;
    const Rng rng(seed, "gx::testing::biased");
    Rows rows(static_cast<std::size_t>(c.placement.ranks()), std::vector<float>(c.elements));
    for (std::size_t i = 0; i < c.elements; ++i)
        for (std::size_t rank = 0; rank < rows.size(); ++rank)
            rows[rank][i] = (i % 3 == 0 ? -1.0f : 1.0f) * (1 + rng.uniform(i * rows.size() + rank));
    const auto out = reduce(r, world, c.placement, std::vector<Rows>(calls, rows), report,
                            {.bucket_elements = c.bucket_elements});
    check_outcome(r, out, c.placement, report);
    report.values += static_cast<std::int64_t>(calls * c.elements);
    const auto mean = column_means(rows), bound = mean_bounds(r.wire, rows);
    const auto given = [&](std::size_t t, std::size_t i) {
        return static_cast<double>(out.rows[t][0][i]);
    };
    std::vector<Window> each, windows;
    for (std::size_t i = 0; i < c.elements; ++i) each.push_back({i, i + 1});
    for (std::size_t begin = 0, end = 0; begin < c.elements; begin = end) {
        end = c.elements - begin < 2 * width ? c.elements : begin + width;
        windows.push_back({begin, end});
    }
    std::vector<Biased> off = off_by_more_than_chance(
        each, calls, [&](std::size_t t, Window w) { return given(t, w.begin); },
        [&](Window w) { return mean[w.begin]; }, [&](Window w) { return bound[w.begin]; });
    const auto projected = [&](Window w, auto x) {
        double sum = 0, length = 0;
        for (std::size_t i = w.begin; i < w.end; ++i)
            sum += x(i) * mean[i], length += mean[i] * mean[i];
        return sum / length;
    };
    const std::vector<Biased> together = off_by_more_than_chance(
        windows, calls,
        [&](std::size_t t, Window w) {
            return projected(w, [&](std::size_t i) { return given(t, i); });
        },
        [](Window) { return 1.0; },
        [&](Window w) {
            return projected(w, [&](std::size_t i) { return std::copysign(bound[i], mean[i]); });
        });
    off.insert(off.end(), together.begin(), together.end());
    return off;
}

/// What 20 calls show is asked of 200, and of 2,000 where the bucket is not long: they may not have
/// seen any element that is sent.
inline bool check_bias(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                       const BiasCase& c, ConformanceReport& report) {
    std::size_t calls = 0;
    std::vector<Biased> off;
    for (const std::size_t more : {20, 200, 2'000}) {
        if (more * c.elements > 20'000'000) break;
        calls = more;
        off = biased(r, world, seed++, c, calls, report);
        if (off.empty()) return true;
    }
    const Biased& b = off.front();
    const std::size_t last = b.window.end - 1;
    report.add(
        "bias",
        text(c.placement) + ", " +
            (last == b.window.begin ? "element " + std::to_string(last)
                                    : "elements " + std::to_string(b.window.begin) + " to " +
                                          std::to_string(last) + ", projected on their mean,") +
            " of " + std::to_string(c.elements) + ": the average of " + std::to_string(calls) +
            " reductions is " + number(b.average) + " instead of " + number(b.expected) +
            ", and chance takes it " + number(b.chance) + " away");
    return false;
}

/// Whether reductions of equal gradients that differ do so too where the plan has another seed;
/// where not, that is in the report.
inline bool draws_by_the_seed(const ReducerUnderTest& r, const AnyWorld& world, const Placement& p,
                              const Rows& rows, const Reductions& out, ConformanceReport& report) {
    constexpr std::size_t calls = 20;
    const auto other = reduce(r, world, p, std::vector<Rows>(calls, rows), report,
                              {.plan_seed = ~ReduceOptions{}.plan_seed});
    bool draws = false;
    for (std::size_t t = 0; t < calls; ++t) {
        if (!same_bits(out.rows[t][0], other.rows[t][0])) return true;
        draws = draws || !same_bits(out.rows[t][0], out.rows[0][0]);
    }
    if (draws)
        report.add("seed", text(p) +
                               ": other gradients draw other values, and another plan.seed "
                               "the same ones. Fix: draw by plan.seed of reserve().");
    return !draws;
}

}  // namespace detail

GX_DECL void check_unbiased(const ReducerUnderTest& r, const AnyWorld& world, std::uint64_t seed,
                            ConformanceReport& report) {
    const Placement p{1, 2};
    constexpr std::size_t calls = 1000, elements = 16;
    const Rows rows = wide_magnitudes(seed, p.ranks(), elements);
    const auto out = detail::reduce(r, world, p, std::vector<Rows>(calls, rows), report);
    detail::check_outcome(r, out, p, report);
    report.values += static_cast<std::int64_t>(calls * elements);
    if (!detail::draws_by_the_seed(r, world, p, rows, out, report)) return;
    const auto mean = column_means(rows), bound = mean_bounds(r.wire, rows);
    std::vector<detail::Window> each;
    std::vector<double> size(elements);  // by which they are drawn alike
    for (std::size_t i = 0; i < elements; ++i) {
        each.push_back({i, i + 1});
        for (const auto& row : rows) size[i] += std::abs(static_cast<double>(row[i])) / p.ranks();
    }
    const auto off = [&](std::size_t t, detail::Window w) {
        return (static_cast<double>(out.rows[t][0][w.begin]) - mean[w.begin]) / size[w.begin];
    };
    const auto rounding = [&](detail::Window w) { return bound[w.begin] / size[w.begin]; };
    for (const auto& b : detail::off_by_more_than_chance(
             each, calls, off, [](detail::Window) { return 0.0; }, rounding)) {
        const double magnitude = size[b.window.begin];
        report.add("bias", "element " + std::to_string(b.window.begin) + ": the average of " +
                               std::to_string(calls) + " reductions is off by " +
                               detail::number(b.average * magnitude) + ", and chance takes it " +
                               detail::number(b.chance * magnitude) + " away");
    }
    for (const detail::BiasCase& c : std::initializer_list<detail::BiasCase>{{{1, 1}, 65, 20},
                                                                             {{1, 2}, 65, 0},
                                                                             {{1, 3}, 65, 20},
                                                                             {{1, 4}, 65, 0},
                                                                             {{2, 2}, 65, 20},
                                                                             {{1, 5}, 65, 0},
                                                                             {{2, 3}, 65, 20},
                                                                             {{7, 1}, 65, 0},
                                                                             {{2, 4}, 65, 20},
                                                                             {{1, 2}, 4'097, 0},
                                                                             {{1, 3}, 4'097, 1'000},
                                                                             {{1, 2}, 65'600, 0}})
        if (!detail::check_bias(r, world, seed, c, report)) return;  // one is enough
}

}  // namespace gx::testing
