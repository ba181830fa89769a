#include <tools/plan/candidate.hpp>

#include <algorithm>  // find_if
#include <limits>     // infinity
#include <set>        // stalenesses

#include <fmt/core.h>  // sentences

#include <gx/trainer/table.hpp>          // time
#include <tools/common/stable_sort.hpp>  // stable_sort

namespace gx::tools::plan {

std::string parameters_text(std::int64_t parameters) {
    if (parameters < 1'000'000) return fmt::format("{} parameters", parameters);
    const double n = static_cast<double>(parameters);
    if (parameters < 1'000'000'000) return fmt::format("{:.4g} million parameters", n * 1e-6);
    return fmt::format("{:.4g} billion parameters", n * 1e-9);
}

std::string Job::network() const {
    if (parameters > 0) return "A network of " + parameters_text(parameters);
    if (sequence_length == 0) return model;
    return fmt::format("{} on sequences of {} tokens", model, sequence_length);
}

std::string Configuration::method() const {
    const std::string cut =
        bucket.count > 0 ? fmt::format(", buckets of {} MB", bucket.count / 1'000'000) : "";
    const std::string parts =
        micro_batches > 1 ? fmt::format(", {} micro-batches", micro_batches) : "";
    return reducer + cut + parts;
}
std::string Configuration::text() const {
    return fmt::format("{} x {}, {}", machines, machine, method());
}

double Candidate::exposed_pct() const {
    return step.count() > 0
               ? 100.0 * static_cast<double>(exposed.count()) / static_cast<double>(step.count())
               : 0.0;
}

std::string hours(Nanoseconds t) {
    const double s = seconds(t);
    if (s < 1) return detail::table::time(s);
    if (s < 10) return fmt::format("{:.3g} s", s);
    if (s < 120) return fmt::format("{:.0f} s", s);
    return s < 7200 ? fmt::format("{:.1f} min", s / 60) : fmt::format("{:.2f} h", s / 3600);
}

std::string price(Dollars p) {
    return fmt::format(fmt::runtime(p.count == 0 || p.count >= 0.01 ? "{:.2f}" : "{:.2g}"),
                       p.count);
}

std::string step_bounds(const Candidate& c) {
    if (!c.step_80) return "-";
    return fmt::format("{:.1f} to {:.1f}", seconds(c.step_80->low) * 1e3,
                       seconds(c.step_80->high) * 1e3);
}

namespace {

bool same_machines(const Candidate& a, const Candidate& b) {
    return a.choice.machine == b.choice.machine && a.choice.machines == b.choice.machines;
}

Dollars dollars_of(const Candidate& o) {
    return o.on_demand.value_or(Dollars{std::numeric_limits<double>::infinity()});
}

// Of equal time and price fresh gradients win over stale ones, then the earlier one.
bool faster_first(const Candidate& a, const Candidate& b) {
    if (a.allowed != b.allowed) return a.allowed;
    if (a.infeasible.empty() != b.infeasible.empty()) return a.infeasible.empty();
    if (a.total != b.total) return a.total < b.total;
    if (dollars_of(a) != dollars_of(b)) return dollars_of(a) < dollars_of(b);
    return a.choice.staleness < b.choice.staleness;
}

void sort_by_speed(std::vector<Candidate>& candidates) { stable_sort(candidates, faster_first); }

std::string beyond_limits(const Candidate& o, const Job& job) {
    if (!o.infeasible.empty()) return o.infeasible;
    if (job.deadline && o.total > *job.deadline)
        return fmt::format("{} past the deadline", hours(o.total - *job.deadline));
    if (job.budget && !o.on_demand) return "no price of it is known, and there is a budget";
    if (job.budget && *o.on_demand > *job.budget)
        return price(*o.on_demand - *job.budget) + " dollars over the budget";
    return {};
}

std::string why_dominated(const Candidate& loser, const Candidate& winner) {
    if (same_machines(loser, winner) && winner.total == loser.total)
        return fmt::format("on the same machines {} takes the same time", winner.choice.method());
    if (same_machines(loser, winner))
        return fmt::format(
            "on the same machines {} takes {:.1f} % less time: {:.1f} ms a step go to "
            "communication here, {:.1f} ms there",
            winner.choice.method(), 100 * (1 - seconds(winner.total) / seconds(loser.total)),
            seconds(loser.exposed) * 1e3, seconds(winner.exposed) * 1e3);
    const std::string faster = fmt::format("{} takes {:.0f} % of the time", winner.choice.text(),
                                           100 * seconds(winner.total) / seconds(loser.total));
    if (!loser.on_demand) return faster + ", and no price of this one is known";
    return fmt::format("{} for {:.0f} % of the dollars", faster,
                       100 * (*winner.on_demand / *loser.on_demand));
}

constexpr double worth_staleness = 1.01;  // less is within what a simulated step is off by

/// Whether `stale` is neither 1 % faster nor 1 % cheaper than `fresher`.
bool gains_little(const Candidate& stale, const Candidate& fresher) {
    return seconds(fresher.total) <= worth_staleness * seconds(stale.total) &&
           dollars_of(fresher).count <= worth_staleness * dollars_of(stale).count;
}

std::string why_not_stale(const Candidate& stale, const Candidate& fresher) {
    const std::string where = same_machines(stale, fresher)
                                  ? "on the same machines " + fresher.choice.method()
                                  : fresher.choice.text();
    return fmt::format("stale gradients gain less than 1 %: {} takes {:.1f} % of the time{}", where,
                       100 * seconds(fresher.total) / seconds(stale.total),
                       stale.on_demand && fresher.on_demand
                           ? fmt::format(" for {:.1f} % of the dollars",
                                         100 * (*fresher.on_demand / *stale.on_demand))
                           : "");
}

/// What stands for a stale candidate that gains little; null for all others. As sorted.
using Fresher = std::vector<const Candidate*>;

/// Pareto front of the allowed candidates with at most `staleness` for which nothing stands.
std::vector<Candidate*> front_of(std::vector<Candidate>& sorted, const Fresher& fresher,
                                 int staleness) {
    std::vector<Candidate*> front;
    for (std::size_t i = 0; i < sorted.size() && sorted[i].allowed; ++i) {
        Candidate& o = sorted[i];
        if (o.choice.staleness > staleness || fresher[i] != nullptr) continue;
        if (front.empty() || dollars_of(o) < dollars_of(*front.back())) front.push_back(&o);
    }
    return front;
}

/// By staleness from the least: each is compared with the front of less.
std::vector<Candidate*> mark_little_gains(std::vector<Candidate>& sorted, Fresher& fresher) {
    std::set<int> stalenesses;
    for (const Candidate& o : sorted) stalenesses.insert(o.choice.staleness);
    std::vector<Candidate*> front;
    for (const int staleness : stalenesses) {
        for (std::size_t i = 0; i < sorted.size() && sorted[i].allowed; ++i) {
            if (sorted[i].choice.staleness != staleness) continue;
            const auto better = std::ranges::find_if(
                front, [&](const Candidate* f) { return gains_little(sorted[i], *f); });
            if (better != front.end()) fresher[i] = *better;
        }
        front = front_of(sorted, fresher, staleness);
    }
    return front;
}

}  // namespace

void pareto_front(std::vector<Candidate>& candidates, const Job& job) {
    for (Candidate& o : candidates) {
        o.why = beyond_limits(o, job);
        o.allowed = o.why.empty();
        o.on_front = false;
    }
    sort_by_speed(candidates);
    Fresher fresher(candidates.size());
    const std::vector<Candidate*> front = mark_little_gains(candidates, fresher);
    for (Candidate* o : front) o->on_front = true;
    for (std::size_t i = 0; i < candidates.size() && candidates[i].allowed; ++i) {
        Candidate& o = candidates[i];
        if (o.on_front) continue;
        const Candidate* best = nullptr;
        for (std::size_t k = 0; k < i && best == nullptr; ++k)  // sorted: the first is best
            if (fresher[k] == nullptr && same_machines(o, candidates[k])) best = &candidates[k];
        if (best == nullptr || best->total >= o.total)
            for (const Candidate* f : front)
                if (f->total <= o.total && dollars_of(*f) <= dollars_of(o)) best = f;
        o.why = best != nullptr ? why_dominated(o, *best) : why_not_stale(o, *fresher[i]);
    }
}

std::vector<const Candidate*> nearest(const std::vector<Candidate>& candidates) {
    std::vector<Candidate> unlimited = candidates;
    for (Candidate& o : unlimited) {
        if (o.allowed) return {};
        o.allowed = o.infeasible.empty();
    }
    Fresher fresher(unlimited.size());
    const std::vector<Candidate*> front = mark_little_gains(unlimited, fresher);
    if (front.empty()) return {};
    const auto original = [&](const Candidate* o) {
        return candidates.data() + (o - unlimited.data());
    };
    if (front.size() == 1) return {original(front[0])};
    return {original(front.front()), original(front.back())};
}

}  // namespace gx::tools::plan
