#include <tools/plan/search.hpp>

#include <algorithm>  // max, min, sort
#include <map>        // kernels that were timed
#include <numeric>    // iota
#include <optional>   // prices
#include <tuple>      // keys
#include <utility>    // pair

#include <fmt/core.h>  // sentences

#include <gx/core/error.hpp>              // Error
#include <gx/sim/hardware/validate.hpp>   // check
#include <gx/sim/compute/gpu_memory.hpp>  // expect_fits

namespace gx::tools::plan {

namespace {

/// Images of a step on one GPU; 0 with a sentence in `infeasible` when the job does not divide.
int batch_on(const Job& job, int gpus, std::string& infeasible) {
    if (job.global_batch == 0) return job.batch_per_gpu;
    if (job.global_batch % gpus == 0) return job.global_batch / gpus;
    infeasible = fmt::format("a batch of {} is not a multiple of {} GPUs", job.global_batch, gpus);
    return 0;
}

/// Sets time and price of all steps of the job, where one step takes that long.
void set_time(Candidate& c, const SteppedCosts& t, const Job& job, const sim::ClusterSpec& spec) {
    const std::int64_t global = std::int64_t{c.choice.batch_per_gpu} * spec.ranks();
    const std::int64_t epoch = job.examples / global + (job.examples % global != 0);
    if (seconds(t.step) * static_cast<double>(epoch) * job.epochs > 9e9) {
        c.infeasible = "takes more than 9e9 s, which the clock does not count: train on less";
        return;
    }
    c.step = t.step;
    c.exposed = t.exposed;
    c.framework = t.framework;
    c.steps = epoch * job.epochs;
    c.total = c.step * c.steps;
    if (spec.machine.price.count > 0) c.on_demand = spec.dollars(c.total);
    if (spec.machine.spot_price.count > 0) c.spot = spec.spot_dollars(c.total);
}

/// A candidate and what it is timed with.
struct Question {
    const sim::StepWork* work = nullptr;
    const ReducerChoice* reducer = nullptr;
    std::size_t cluster = 0;
    double messages = 0;
};

/// By machine, batch, and ranks that share an update.
using Timed = std::map<std::tuple<std::string, int, int>, sim::StepWork>;

/// What all candidates of a cluster share whose update is shared by so many ranks; its kernels are
/// timed unless they were before.
Candidate on_cluster(const Job& job, const Graph& graph, const SearchSpace& space,
                     const sim::ClusterSpec& spec, int shards, Timed& timed) {
    UpdateCost update = space.update;
    update.shards = shards;
    Candidate c{.choice = {.machine = std::string(spec.machine.name.view()),
                           .machines = spec.machines,
                           .gpus = spec.ranks()}};
    const int batch = c.choice.batch_per_gpu = batch_on(job, spec.ranks(), c.infeasible);
    const std::tuple key(c.choice.machine, batch, shards);
    try {
        check(spec);
        if (c.infeasible.empty() && !timed.contains(key)) {
            expect_fits(graph, batch, spec.machine.gpu, space.precision, update);
            timed[key] = step_work(graph,
                                   sim::TimedGraph(graph, spec.machine.gpu, space.precision,
                                                   sim::fused_kernels, update),
                                   batch);
        }
    } catch (const Error& e) {
        c.infeasible = e.what();
    }
    return c;
}

/// Drops the candidates with the most messages, once the space's are spent.
void limit_messages(std::vector<Candidate>& all, const std::vector<Question>& asked, double most) {
    std::vector<std::size_t> order(all.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return std::pair(asked[a].messages, a) < std::pair(asked[b].messages, b);
    });
    double spent = 0;
    for (const std::size_t i : order) {
        if (!all[i].infeasible.empty()) continue;
        spent += asked[i].messages;
        if (spent > most)
            all[i].infeasible = fmt::format(
                "not simulated: about {:.2g} messages, where all candidates together may have "
                "{:.2g}; name fewer machines, allow fewer GPUs, or raise --most-messages",
                asked[i].messages, most);
    }
}

}  // namespace

SteppedCosts with_stack(const sim::StepTiming& t, const predict::Stack& stack,
                        const sim::ClusterSpec& spec, std::int64_t elements) {
    if (spec.ranks() < 2) return {t.step, t.exposed, Nanoseconds(0)};
    const predict::GpuScale scale = predict::gpu_scale(spec.machine.gpu);
    const double megabytes = static_cast<double>(elements) * 4e-6;  // of fp32
    const Nanoseconds computation = t.forward + t.backward + t.update;
    const Nanoseconds hidden = std::max(Nanoseconds(0), t.communication - t.exposed);
    const auto ms = [](double x) { return nanoseconds(x * 1e-3); };
    SteppedCosts c;
    c.exposed = t.exposed + nanoseconds(stack.interference * seconds(hidden));
    if (spec.machines > 1) c.exposed = std::max(c.exposed, ms(scale.host * stack.machines_ms));
    c.framework =
        ms(scale.host * stack.step_ms + scale.memory * stack.mb_ms * megabytes / 100) +
        nanoseconds(stack.jitter * predict::expected_max(spec.machines) * seconds(computation));
    c.step = t.step + (c.exposed - t.exposed) + c.framework;
    return c;
}

std::vector<Candidate> search(const Job& job, const Graph& graph, const SearchSpace& space,
                              const std::function<void(std::size_t, std::size_t)>& progress) {
    std::vector<Candidate> all;
    std::vector<Question> asked;
    Timed timed;
    for (std::size_t cluster = 0; cluster < space.clusters.size(); ++cluster) {
        const sim::ClusterSpec& spec = space.clusters[cluster];
        for (const ReducerChoice& r : space.reducers) {
            const int shards = r.in_parts ? spec.ranks() : 1;
            const Candidate base = on_cluster(job, graph, space, spec, shards, timed);
            const auto work = timed.find({base.choice.machine, base.choice.batch_per_gpu, shards});
            for (const Bytes bucket : space.buckets) {
                Candidate& c = all.emplace_back(base);
                c.choice.reducer = r.name;
                c.choice.wire = r.wire;
                c.choice.staleness = r.staleness;
                c.choice.bucket = bucket;
                Question& q = asked.emplace_back(Question{nullptr, &r, cluster, 0});
                if (!c.infeasible.empty()) continue;
                q.work = &work->second;
                q.messages = r.messages(*q.work, spec, bucket);
            }
        }
    }
    limit_messages(all, asked, space.most_messages);
    for (std::size_t i = 0; i < all.size(); ++i) {
        const Question& q = asked[i];
        sim::ClusterSpec spec = space.clusters[q.cluster];
        spec.algorithm = q.reducer->algorithm;
        if (all[i].infeasible.empty())
            set_time(all[i],
                     with_stack(q.reducer->time(*q.work, spec, all[i].choice.bucket), space.stack,
                                spec, q.work->elements),
                     job, spec);
        if (progress && (i + 1 == all.size() || asked[i + 1].cluster != q.cluster))
            progress(q.cluster + 1, space.clusters.size());
    }
    return all;
}

namespace {

/// Adds a phase to what was found for those before.
void add_phase(Candidate& sum, const Candidate& phase, std::size_t number) {
    if (!sum.infeasible.empty()) return;
    if (!phase.infeasible.empty()) {
        sum.infeasible = fmt::format("phase {}: {}", number, phase.infeasible);
        return;
    }
    if (seconds(sum.total) + seconds(phase.total) > 9e9) {
        sum.infeasible = "takes more than 9e9 s, which the clock does not count: train on less";
        return;
    }
    const std::int64_t steps = sum.steps + phase.steps;
    const auto mean = [&](Nanoseconds Candidate::* member) {
        const double all = seconds(sum.*member) * static_cast<double>(sum.steps) +
                           seconds(phase.*member) * static_cast<double>(phase.steps);
        return steps > 0 ? nanoseconds(all / static_cast<double>(steps)) : Nanoseconds(0);
    };
    for (const auto member : {&Candidate::step, &Candidate::exposed, &Candidate::framework})
        sum.*member = mean(member);
    sum.steps = steps;
    sum.total += phase.total;
    sum.phase_steps.push_back(phase.step);
    const auto add = [](std::optional<Dollars>& to, const std::optional<Dollars>& more) {
        if (more) to = Dollars{to.value_or(Dollars{0}).count + more->count};
    };
    add(sum.on_demand, phase.on_demand);
    add(sum.spot, phase.spot);
}

}  // namespace

std::vector<Candidate> search_phases(
    const Job& job, const std::function<Graph(int)>& graph_at, const SearchSpace& space,
    const std::function<void(std::size_t, std::size_t)>& progress) {
    std::vector<Candidate> all;
    const std::size_t phases = job.phases.size(), clusters = space.clusters.size();
    for (std::size_t p = 0; p < phases; ++p) {
        const int end = p + 1 < phases ? job.phases[p + 1].first_epoch : job.epochs;
        Job part = job;
        part.phases.clear();
        part.epochs = std::min(end, job.epochs) - job.phases[p].first_epoch;
        if (part.epochs <= 0) break;
        part.global_batch = 0;
        part.batch_per_gpu = job.phases[p].batch_per_gpu;
        const auto show = [&](std::size_t done, std::size_t) {
            if (progress) progress(p * clusters + done, phases * clusters);
        };
        std::vector<Candidate> found =
            search(part, graph_at(job.phases[p].image_side), space, show);
        if (p == 0) {
            all = std::move(found);
            for (Candidate& c : all) {
                if (c.infeasible.empty()) c.phase_steps = {c.step};
                else c.infeasible = "phase 1: " + c.infeasible;
            }
            continue;
        }
        for (std::size_t i = 0; i < all.size(); ++i) add_phase(all[i], found[i], p + 1);
    }
    return all;
}

}  // namespace gx::tools::plan
