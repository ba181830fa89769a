#include <tools/plan/text.hpp>

#include <algorithm>    // count
#include <map>          // machines by date
#include <optional>     // prices
#include <set>          // clusters that were printed
#include <string_view>  // dates
#include <tuple>        // clusters
#include <utility>      // move

#include <fmt/format.h>  // tables

#include <support/printable.hpp>  // printable

namespace gx::tools::plan {

namespace {

std::string known_price(const std::optional<Dollars>& p) { return p ? price(*p) : "unknown"; }
std::string line_of(const Candidate& o) {
    return fmt::format("{:>9}  {:>9}  {:>9}  {:>8.1f}  {:>17}  {:>6.1f} %   {}", hours(o.total),
                       known_price(o.on_demand), known_price(o.spot), seconds(o.step) * 1e3,
                       step_bounds(o), o.exposed_pct(), printable(o.choice.text()));
}

/// The machines of the space by what is said of their prices.
std::map<std::string, std::string> price_dates(const SearchSpace& space) {
    std::map<std::string, std::string> dates;
    for (const sim::ClusterSpec& c : space.clusters) {
        if (c.machines > 1) continue;
        const std::string_view date = c.machine.price_date.view();
        std::string& names = dates[date.empty() ? "not said when" : std::string(date)];
        names += (names.empty() ? "" : ", ") + std::string(c.machine.name.view());
    }
    return dates;
}

void print_dominated(const std::vector<Candidate>& candidates, int lines) {
    fmt::print("\nDominated and infeasible, the best of each cluster, synchronous and not{}:\n",
               lines > 0 ? "" : ", and all the rest");
    int all = 0, printed = 0;
    std::set<std::tuple<std::string, int, int>> seen;
    for (const Candidate& o : candidates) {
        if (o.on_front) continue;
        ++all;
        const bool first =
            seen.emplace(o.choice.machine, o.choice.machines, o.choice.staleness).second;
        if (lines > 0 && (!first || printed >= lines)) continue;
        ++printed;
        fmt::print("{:>9}  {:>9}   {}: {}\n", o.infeasible.empty() ? hours(o.total) : "-",
                   o.infeasible.empty() ? known_price(o.on_demand) : "-",
                   printable(o.choice.text()), printable(o.why));
    }
    if (all > printed)
        fmt::print("and {} more: --lines 0 prints all, --json FILE and --html FILE hold them\n",
                   all - printed);
}

std::string phases_text(const Job& job) {
    std::string text = "by phase (step ms is the mean):";
    for (const JobPhase& p : job.phases)
        text += fmt::format("\n    from epoch {}: {} a step and GPU, images of {} x {}",
                            p.first_epoch, p.batch_per_gpu, p.image_side, p.image_side);
    return text;
}

}  // namespace

std::vector<std::string> assumptions(const tools::predict::Stack& s, const Inputs& inputs) {
    std::vector<std::string> all;
    for (const Input& i : inputs) {
        all.push_back(
            fmt::format("{}: {}: {}.", i.measured ? "Measured" : "Assumed", i.of, i.text));
        if (!i.doubt.empty()) all.push_back("Doubtful: " + i.doubt);
    }
    if (s.name == "none") {
        all.push_back(
            "Assumed: no framework. Hidden communication slows nothing down, and hooks, "
            "packing and stragglers cost nothing: times are lower bounds.");
        return all;
    }
    for (std::string& sentence : std::vector<std::string>{
             fmt::format(
                 "Assumed: the costs of {}, as any framework's are expected (--stack none: none).",
                 s.name),
             fmt::format("Communication that runs beside computation costs {:.0f} % of its time; a "
                         "step of several GPUs pays {:.1f} ms of hooks and {:.1f} ms a 100 MB of "
                         "gradient, of several machines at least {:.1f} ms of waiting, and "
                         "stragglers that deviate by {:.1f} % (V100; others by memory bandwidth).",
                         100 * s.interference, s.step_ms, s.mb_ms, s.machines_ms, 100 * s.jitter),
             "Intervals are of what many GPUs add to a step of one, as wide as errors on published "
             "results were; gx predict --score prints their coverage."})
        all.push_back(std::move(sentence));
    return all;
}

void print(const Planned& planned, const Arguments& o) {
    const auto& [job, space, inputs, candidates] = planned;
    fmt::print("{}, {} examples x {} epochs, {}\n\n", job.network(), job.examples, job.epochs,
               !job.phases.empty()    ? phases_text(job)
               : job.global_batch > 0 ? fmt::format("{} a step", job.global_batch)
                                      : fmt::format("{} a step and GPU", job.batch_per_gpu));
    fmt::print(
        "Pareto front: nothing else is both faster and cheaper, and stale gradients gain over 1 "
        "%.\n"
        "{:>9}  {:>9}  {:>9}  "
        "{:>8}  {:>17}  {:>8}\n",
        "time", "dollars", "spot", "step ms", "80 % interval", "exposed");
    bool any = false;
    for (const Candidate& c : candidates)
        if (c.on_front) fmt::print("{}\n", line_of(c)), any = true;
    const auto near = nearest(candidates);
    if (!any && near.empty()) fmt::print("none: no candidate can run; see below\n");
    if (!near.empty()) {
        fmt::print("none: every candidate breaks a limit or cannot run. Nearest {}:\n",
                   near.size() > 1                  ? "are the fastest and the cheapest"
                   : near[0]->on_demand.has_value() ? "is the fastest, which is the cheapest"
                                                    : "is the fastest; no price is known");
        for (const Candidate* c : near) fmt::print("{}: {}\n", line_of(*c), printable(c->why));
    }
    const auto left_out = std::ranges::count(candidates, false, &Candidate::simulated);
    if (left_out > 0)
        fmt::print(
            "{} of {} candidates were not simulated, as they send the most messages, and may be "
            "faster: name fewer machines, or raise --most-messages.\n",
            left_out, candidates.size());
    for (const std::string& sentence : assumptions(space.stack, inputs))
        fmt::print("{}\n", printable(sentence));
    print_dominated(candidates, o.lines);
    fmt::print("\nTimes are steps alone, simulated; prices may have changed:\n");
    for (const auto& [date, names] : price_dates(space))
        fmt::print("    {}: {}\n", printable(names), printable(date));
    fmt::print(
        "A stale gradient (DoubleBuffered){} and a large batch cost accuracy: train before "
        "you trust.\n",
        o.lossy ? ", a compressed one (TopK, Quantized), local steps (LocalSgd)" : "");
}

}  // namespace gx::tools::plan
