// gx_plan: ranks machine x count x reducer x wire x bucket x overlap for a job, by time and price.
// Run:    build/release/gx_plan --model ResNet-50 --epochs 90 --global-batch 8192 --html plan.html
// Prints: the frontier of time and dollars, and why the others lose
#include <cstdio>      // stderr
#include <functional>  // less
#include <map>         // machines by name
#include <optional>    // prices
#include <set>         // clusters that were printed
#include <string>      // names
#include <tuple>       // clusters
#include <vector>      // offers

#include <CLI/CLI.hpp>            // App
#include <fmt/format.h>           // tables
#include <nlohmann/json.hpp>      // --json
#include <unistd.h>               // isatty

#include <gx/core/atomic_file.hpp>          // write_file
#include <gx/halving_doubling/reducer.hpp>  // HalvingDoubling
#include <gx/hierarchical/reducer.hpp>      // Hierarchical
#include <gx/reducer/double_buffered.hpp>   // DoubleBuffered
#include <gx/reducer/multi_ring.hpp>        // MultiRing
#include <gx/reducer/ring.hpp>              // Ring
#include <gx/sim/find_model.hpp>            // find_model
#include <gx/sim/machine_file.hpp>          // find_or_read_machine
#include <gx/sim/plan/page.hpp>             // page
#include <gx/sim/plan/ways.hpp>             // offers
#include <gx/sim/profiles.hpp>              // find_profile
#include <gx/trees/double_tree.hpp>         // DoubleTree
#include <gx/trees/tree.hpp>                // Tree

#include "../support/command_line.hpp"  // run_program

namespace {

using namespace gx;
using sim::plan::Offer;

struct Asked {
    std::string model = "ResNet-50", precision = "mixed", profile{}, json{}, html{};
    std::vector<std::string> machines{"p2.xlarge",  "p2.8xlarge", "p2.16xlarge", "p3.2xlarge",
                                      "p3.8xlarge", "p3.16xlarge", "p3dn.24xlarge"};
    std::int64_t examples = 1'281'167;
    int epochs = 90, global_batch = 0, batch_per_gpu = 0, most_gpus = 64, lines = 12;
    double budget_dollars = 0, deadline_hours = 0;
    bool synchronous = false;
};

void read_options(CLI::App& app, Asked& a) {
    app.add_option("--model", a.model, "the network; a wrong name lists them")
        ->capture_default_str();
    app.add_option("--examples", a.examples, "in the data set")
        ->check(count_in(1, 1'000'000'000'000))
        ->capture_default_str();
    app.add_option("--epochs", a.epochs, "passes over the data set")
        ->check(count_in(1, 1'000'000))
        ->capture_default_str();
    auto* global = app.add_option("--global-batch", a.global_batch,
                                  "examples a step on all GPUs together (default 2048)");
    auto* each = app.add_option("--batch-per-gpu", a.batch_per_gpu, "examples a step on each GPU");
    global->check(count_in(1, 1'000'000'000))->excludes(each);
    each->check(count_in(1, 1'000'000'000))->excludes(global);
    app.add_option("--budget-dollars", a.budget_dollars, "on demand")->check(above_zero());
    app.add_option("--deadline-hours", a.deadline_hours, "for all epochs")
        ->check(number_in(1e-6, 1e6, "from 1e-6 to 1e6"));
    app.add_option("--precision", a.precision, "of the computation")
        ->check(CLI::IsMember({"fp32", "mixed"}))
        ->capture_default_str();
    app.add_option("--machine", a.machines,
                   "machines to consider: names, files of gx (.json), dumps of NCCL's topology "
                   "(.xml); repeatable")
        ->capture_default_str();
    app.add_option("--most-gpus", a.most_gpus, "the largest cluster to consider")
        ->check(count_in(1, 1'000'000))
        ->capture_default_str();
    app.add_option("--profile", a.profile,
                   "communication stack, as nccl-2.10+tcp-aws (default: by the machine)");
    app.add_flag("--synchronous", a.synchronous, "leave out reducers that apply late gradients");
    app.add_option("--lines", a.lines, "losers to print; 0: all")
        ->check(count_in(0, 1'000'000'000))
        ->capture_default_str();
    app.add_option("--json", a.json, "write the whole ranking there");
    app.add_option("--html", a.html, "write it there as a page with a picture");
}

sim::plan::Job job_of(const Asked& a) {
    sim::plan::Job job{.model = a.model,
                       .examples = a.examples,
                       .epochs = a.epochs,
                       .global_batch = a.global_batch,
                       .batch_per_gpu = a.batch_per_gpu};
    if (job.global_batch == 0 && job.batch_per_gpu == 0) job.global_batch = 2048;
    if (a.budget_dollars > 0) job.budget = Dollars{a.budget_dollars};
    if (a.deadline_hours > 0) job.deadline = nanoseconds(a.deadline_hours * 3600);
    return job;
}

template <class E>
void add_reducers(std::vector<sim::plan::ReducerOnOffer>& all, std::string_view wire, bool late) {
    using enum sim::Algorithm;
    using sim::plan::on_offer;
    all.push_back(on_offer<Ring<E>>(wire, ring));
    all.push_back(on_offer<MultiRing<4, E>>(wire, ring));
    all.push_back(on_offer<Hierarchical<E>>(wire, ring));
    all.push_back(on_offer<HalvingDoubling<E>>(wire, tree));
    all.push_back(on_offer<Tree<E>>(wire, tree));
    all.push_back(on_offer<DoubleTree<8, E>>(wire, tree));
    if (!late) return;
    all.push_back(on_offer<DoubleBuffered<Ring<E>>>(wire, ring));
    all.push_back(on_offer<DoubleBuffered<MultiRing<4, E>>>(wire, ring));
    all.push_back(on_offer<DoubleBuffered<Hierarchical<E>>>(wire, ring));
}

sim::plan::Menu menu_of(const Asked& a) {
    sim::plan::Menu menu{.buckets = {Bytes{0}, Bytes{25'000'000}},
                         .precision = a.precision == "fp32" ? sim::Precision::fp32
                                                            : sim::Precision::mixed};
    std::map<std::string, std::string, std::less<>> chosen;  // by the machine's own name
    for (const std::string& name : a.machines) {
        const sim::MachineSpec machine = sim::find_or_read_machine(name);
        const auto [other, fresh] = chosen.emplace(machine.name.view(), name);
        if (!fresh && other->second == name) continue;
        if (!fresh)
            throw Error(fmt::format("--machine {} and {} are both named '{}': give one another "
                                    "'name'", other->second, name, machine.name.view()));
        const bool aws = name.starts_with("p2") || name.starts_with("p3");
        const std::string stack =
            a.profile.empty() ? aws ? "nccl-2.10+tcp-aws" : "nccl-2.10" : a.profile;
        for (int count = 1; count * machine.gpus <= a.most_gpus; count *= 2) {
            sim::ClusterSpec spec{.machine = machine, .machines = count};
            spec.profile = sim::find_profile(stack);
            menu.clusters.push_back(spec);
        }
    }
    if (menu.clusters.empty())
        throw Error(fmt::format("--most-gpus {}: each of these machines has more; allow as many as "
                                "one has, or name a smaller --machine", a.most_gpus));
    add_reducers<fp32>(menu.reducers, "fp32", !a.synchronous);
    add_reducers<fp16>(menu.reducers, "fp16", !a.synchronous);
    return menu;
}

std::string price(const std::optional<Dollars>& p) {
    return p ? fmt::format("{:.2f}", p->count) : "unknown";
}
std::string line_of(const Offer& o) {
    return fmt::format("{:>9}  {:>9}  {:>9}  {:>8.1f}  {:>6.1f} %   {}",
                       sim::plan::detail::hours(o.total), price(o.on_demand), price(o.spot),
                       seconds(o.step) * 1e3, o.exposed_pct(), o.way.text());
}

/// The machines on the menu by what is said of their prices.
std::map<std::string, std::string> price_dates(const sim::plan::Menu& menu) {
    std::map<std::string, std::string> dates;
    for (const sim::ClusterSpec& c : menu.clusters) {
        if (c.machines > 1) continue;
        const std::string_view date = c.machine.price_date.view();
        std::string& names = dates[date.empty() ? "not said when" : std::string(date)];
        names += (names.empty() ? "" : ", ") + std::string(c.machine.name.view());
    }
    return dates;
}

void print(const std::vector<Offer>& offers, const sim::plan::Job& job, const Asked& a,
           const std::map<std::string, std::string>& dates) {
    fmt::print("{}, {} examples x {} epochs, {}\n\n", job.model, job.examples, job.epochs,
               job.global_batch > 0 ? fmt::format("{} a step", job.global_batch)
                                    : fmt::format("{} a step and GPU", job.batch_per_gpu));
    fmt::print("The frontier: nothing else is both faster and cheaper.\n{:>9}  {:>9}  {:>9}  "
               "{:>8}  {:>8}\n",
               "time", "dollars", "spot", "step ms", "exposed");
    int winners = 0, losers = 0, printed = 0;
    for (const Offer& o : offers)
        if (o.on_frontier) fmt::print("{}\n", line_of(o)), ++winners;
    if (winners == 0) fmt::print("none: every way breaks a limit or cannot run; see below\n");
    fmt::print("\nWhy the others lose, the best of each cluster, synchronous and not{}:\n",
               a.lines > 0 ? "" : " and all the rest");
    std::set<std::tuple<std::string, int, int>> seen;
    for (const Offer& o : offers) {
        if (o.on_frontier) continue;
        ++losers;
        const bool first = seen.emplace(o.way.machine, o.way.machines, o.way.staleness).second;
        if (a.lines > 0 && (!first || printed >= a.lines)) continue;
        ++printed;
        fmt::print("{:>9}  {:>9}   {}: {}\n",
                   o.trouble.empty() ? sim::plan::detail::hours(o.total) : "-",
                   o.trouble.empty() ? price(o.on_demand) : "-",
                   o.way.text(), o.why);
    }
    if (losers > printed)
        fmt::print("and {} more: --lines 0 prints all, --json FILE and --html FILE hold them\n",
                   losers - printed);
    fmt::print("\nTimes are steps alone, simulated; prices may have changed:\n");
    for (const auto& [date, names] : dates) fmt::print("    {}: {}\n", names, date);
    fmt::print("A late gradient (DoubleBuffered) and a large batch cost accuracy: train before "
               "you trust.\n");
}

nlohmann::ordered_json json_of(const Offer& o) {
    nlohmann::ordered_json j{{"machine", o.way.machine},
                             {"machines", o.way.machines},
                             {"gpus", o.way.gpus},
                             {"batch_per_gpu", o.way.batch_per_gpu},
                             {"reducer", o.way.reducer},
                             {"wire", o.way.wire},
                             {"bucket_bytes", o.way.bucket.count},
                             {"staleness", o.way.staleness},
                             {"on_frontier", o.on_frontier},
                             {"why", o.why}};
    if (!o.trouble.empty()) return j;
    j["step_ms"] = seconds(o.step) * 1e3;
    j["exposed_ms"] = seconds(o.exposed) * 1e3;
    j["total_hours"] = seconds(o.total) / 3600;
    if (o.on_demand) j["on_demand_dollars"] = o.on_demand->count;
    if (o.spot) j["spot_dollars"] = o.spot->count;
    return j;
}

void plan(const Asked& a) {
    const sim::KnownModel& model = sim::find_model(a.model);
    expect_writable("--json", a.json);
    expect_writable("--html", a.html);
    sim::plan::Job job = job_of(a);
    job.model = model.name;
    const bool shows = isatty(STDERR_FILENO) == 1;
    const sim::plan::Menu menu = menu_of(a);
    std::vector<Offer> offers = sim::plan::offers(
        job, model.make({}), menu, [&](std::size_t done, std::size_t of) {
            if (shows) fmt::print(stderr, "\rsimulating {} of {} clusters\033[K", done, of);
        });
    if (shows) fmt::print(stderr, "\r\033[K");
    sim::plan::judge(offers, job);
    print(offers, job, a, price_dates(menu));
    if (!a.html.empty()) write_file(a.html, sim::plan::page(offers, job));
    if (a.json.empty()) return;
    nlohmann::ordered_json all = nlohmann::ordered_json::array();
    for (const Offer& o : offers) all.push_back(json_of(o));
    write_file(a.json,
               nlohmann::ordered_json{{"model", job.model}, {"offers", all}}.dump(1) + "\n");
}

}  // namespace

int main(int argc, char** argv) {
    Asked asked;
    CLI::App app("Ranks ways to train a network by time and dollars, on simulated clusters.",
                 "gx_plan");
    read_options(app, asked);
    return gx::run_program(app, argc, argv, [&] { plan(asked); });
}
