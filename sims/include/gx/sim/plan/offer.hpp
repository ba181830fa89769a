// Offer: one way to run a training job, its time and price; judge() finds the frontier of many.
#pragma once

#include <algorithm>  // sort
#include <cstddef>    // size_t
#include <cstdint>    // int64_t
#include <limits>     // infinity
#include <numeric>    // iota
#include <optional>   // limits, prices
#include <string>     // sentences
#include <utility>    // move
#include <vector>     // offers

#include <fmt/core.h>  // sentences

#include <gx/core/units.hpp>  // Bytes, Dollars, Nanoseconds

namespace gx::sim::plan {

/// What is to be trained, and what it may cost.
struct Job {
    std::string model{};
    std::int64_t examples = 0;  ///< in the data set
    int epochs = 0;
    int global_batch = 0;   ///< examples a step on all GPUs; 0: `batch_per_gpu` on each
    int batch_per_gpu = 0;  ///< 0: `global_batch` shared
    std::optional<Dollars> budget{};        ///< on demand
    std::optional<Nanoseconds> deadline{};
};

/// The choices.
struct Way {
    std::string machine{};
    int machines = 0;
    int gpus = 0;  ///< of all machines
    int batch_per_gpu = 0;
    std::string reducer{};  ///< as gx spells it: wire, machine orders and overlap in one name
    std::string wire{};
    Bytes bucket{};  ///< 0: the whole gradient at once
    int staleness = 0;

    [[nodiscard]] std::string text() const {
        const std::string cut =
            bucket.count > 0 ? fmt::format(", buckets of {} MB", bucket.count / 1'000'000) : "";
        return fmt::format("{} x {}, {}{}", machines, machine, reducer, cut);
    }
};

struct Offer {
    Way way{};
    Nanoseconds step{}, exposed{};  ///< of a step; `exposed`: waiting for communication
    std::int64_t steps = 0;
    Nanoseconds total{};            ///< steps only: no start-up, evaluation or checkpoints
    std::optional<Dollars> on_demand{}, spot{};  ///< empty: no such price of it is known
    std::string trouble{};          ///< why it cannot run at all; empty: it can
    bool on_frontier = false;       ///< nothing else is both faster and cheaper (on demand);
                                    ///< an unknown price counts as the dearest
    bool allowed = false;           ///< runs, within budget and deadline
    std::string why{};              ///< why it loses; empty on the frontier

    [[nodiscard]] double exposed_pct() const {
        return step.count() > 0 ? 100.0 * static_cast<double>(exposed.count()) /
                                      static_cast<double>(step.count())
                                : 0.0;
    }
};

namespace detail {

[[nodiscard]] inline std::string hours(Nanoseconds t) {
    const double s = seconds(t);
    if (s < 120) return fmt::format("{:.0f} s", s);
    return s < 7200 ? fmt::format("{:.1f} min", s / 60) : fmt::format("{:.2f} h", s / 3600);
}

[[nodiscard]] inline bool same_machines(const Offer& a, const Offer& b) {
    return a.way.machine == b.way.machine && a.way.machines == b.way.machines;
}

[[nodiscard]] inline Dollars dollars_of(const Offer& o) {
    return o.on_demand.value_or(Dollars{std::numeric_limits<double>::infinity()});
}

// Of equal time and price the earlier one wins.
[[nodiscard]] inline bool faster_first(const Offer& a, const Offer& b) {
    if (a.allowed != b.allowed) return a.allowed;
    if (a.total != b.total) return a.total < b.total;
    return dollars_of(a) < dollars_of(b);
}

/// The fastest first; those that are equal stay in their order.
inline void sort_by_speed(std::vector<Offer>& offers) {
    std::vector<std::size_t> order(offers.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        const Offer &x = offers[a], &y = offers[b];
        return faster_first(x, y) || (!faster_first(y, x) && a < b);
    });
    std::vector<Offer> sorted;
    sorted.reserve(offers.size());
    for (const std::size_t i : order) sorted.push_back(std::move(offers[i]));
    offers = std::move(sorted);
}

[[nodiscard]] inline std::string beyond_limits(const Offer& o, const Job& job) {
    if (!o.trouble.empty()) return o.trouble;
    if (job.deadline && o.total > *job.deadline)
        return fmt::format("{} past the deadline", hours(o.total - *job.deadline));
    if (job.budget && !o.on_demand) return "no price of it is known, and there is a budget";
    if (job.budget && *o.on_demand > *job.budget)
        return fmt::format("{:.2f} dollars over the budget", (*o.on_demand - *job.budget).count);
    return {};
}

[[nodiscard]] inline std::string beaten_by(const Offer& loser, const Offer& winner) {
    if (same_machines(loser, winner) && winner.total == loser.total)
        return fmt::format("on the same machines {} takes the same time", winner.way.reducer);
    if (same_machines(loser, winner))
        return fmt::format(
            "on the same machines {} takes {:.1f} % less time: {:.1f} ms a step wait for "
            "communication here, {:.1f} ms there",
            winner.way.reducer, 100 * (1 - seconds(winner.total) / seconds(loser.total)),
            seconds(loser.exposed) * 1e3, seconds(winner.exposed) * 1e3);
    const std::string faster = fmt::format("{} takes {:.0f} % of the time", winner.way.text(),
                                           100 * seconds(winner.total) / seconds(loser.total));
    if (!loser.on_demand) return faster + ", and no price of this one is known";
    return fmt::format("{} for {:.0f} % of the dollars", faster,
                       100 * (*winner.on_demand / *loser.on_demand));
}

}  // namespace detail

/// Sorts offers by time, those that break a limit last; marks the frontier of time and dollars on
/// demand among the rest; tells each loser why it loses: what it lacks or breaks, else the better
/// one on the same machines, else the frontier's nearest that is no slower and no dearer.
/// Order: stable, so that equal offers stay in the order in which they were made.
/// Cost:  O(n log n + n * frontier).
inline void judge(std::vector<Offer>& offers, const Job& job) {
    for (Offer& o : offers) {
        o.why = detail::beyond_limits(o, job);
        o.allowed = o.why.empty();
        o.on_frontier = false;
    }
    detail::sort_by_speed(offers);
    std::vector<const Offer*> frontier;
    for (Offer& o : offers) {
        if (!o.allowed) break;
        o.on_frontier =
            frontier.empty() || detail::dollars_of(o) < detail::dollars_of(*frontier.back());
        if (o.on_frontier) frontier.push_back(&o);
    }
    for (Offer& o : offers) {
        if (!o.allowed || o.on_frontier) continue;
        const Offer* best = nullptr;
        for (const Offer& other : offers)  // sorted: the first on these machines is their fastest
            if (detail::same_machines(o, other)) {
                best = &other;
                break;
            }
        if (best == &o || best == nullptr || best->total >= o.total) {
            for (const Offer* f : frontier)
                if (f->total <= o.total && detail::dollars_of(*f) <= detail::dollars_of(o))
                    best = f;
        }
        o.why = detail::beaten_by(o, *best);
    }
}

}  // namespace gx::sim::plan
