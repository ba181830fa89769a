#include <tools/plan/search.hpp>

#include <algorithm>  // all_of, any_of, max, sort
#include <map>        // kernels that were timed
#include <numeric>    // gcd, iota
#include <optional>   // prices
#include <tuple>      // keys
#include <utility>    // pair

#include <fmt/core.h>  // sentences

#include <gx/core/error.hpp>                  // Error
#include <gx/sim/hardware/validate.hpp>       // check
#include <gx/sim/compute/vector_kernels.hpp>  // VectorKernels
#include <tools/predict/interval.hpp>         // intervals_in_force

namespace gx::tools::plan {

namespace {

constexpr const char* too_long =
    "takes more than 9e9 s, which the clock does not count: train on less";
constexpr double step_seconds_most = 1e8;  // its communication comes on top

/// Images of a step on one GPU, 0 when the job does not divide; with a sentence in `infeasible`
/// then, and when a step takes more than the data set has.
int batch_on(const Job& job, int gpus, std::string& infeasible) {
    if (job.global_batch == 0) {
        if (const std::int64_t global = std::int64_t{job.batch_per_gpu} * gpus;
            global > job.examples)
            infeasible = fmt::format(
                "a step of {} on each of {} GPUs takes more than the {} examples of "
                "the data set",
                job.batch_per_gpu, gpus, job.examples);
        return job.batch_per_gpu;
    }
    if (job.global_batch % gpus == 0) return job.global_batch / gpus;
    infeasible = fmt::format("a batch of {} is not a multiple of {} GPUs", job.global_batch, gpus);
    return 0;
}

/// Sets time and price of all steps of the job, where one step takes that long.
void set_time(Candidate& c, const SteppedCosts& t, const Job& job, const sim::ClusterSpec& spec) {
    const std::int64_t global = std::int64_t{c.choice.batch_per_gpu} * spec.ranks();
    const std::int64_t epoch = job.examples / global + (job.examples % global != 0);
    if (seconds(t.step) * static_cast<double>(epoch) * job.epochs > 9e9) {
        c.infeasible = too_long;
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

/// By machine, batch, micro-batches, and ranks that share an update.
using Key = std::tuple<std::string, int, int, int>;
using Timed = std::map<Key, sim::StepWork>;
[[nodiscard]] Key key_of(const Configuration& c, int shards) {
    return {c.machine, c.batch_per_gpu, c.micro_batches, shards};
}

/// A GPU's batch of a network.
struct Load {
    Network network;
    int batch = 0;
};
/// The fewest micro-batches in which each of the loads fits, as a Trainer has one number for all
/// its phases; 1 where none does.
int fewest_micro_batches(const sim::GpuSpec& gpu, const std::vector<Load>& loads,
                         sim::Precision precision, UpdateCost update) {
    const auto largest = [&](const Load& l) {
        return l.network.largest_batch(l.batch, gpu, precision, update);
    };
    if (std::ranges::all_of(loads, [&](const Load& l) { return largest(l) == l.batch; })) return 1;
    update.micro_batches = 2;
    int common = 0, least = 1;  // divisor of the batches, and parts that fit
    for (const Load& l : loads) {
        const int each = largest(l);
        if (each == 0) return 1;
        common = std::gcd(common, l.batch);
        least = std::max(least, (l.batch + each - 1) / each);
    }
    for (int each = common / least; each > 0; --each)
        if (common % each == 0) return common / each;
    return 1;
}

/// "; with --sharded this batch fits ..." if it does where ranks share the optimizer's state.
std::string sharded_hint(const sim::GpuSpec& gpu, const Network& network, const Configuration& c,
                         const SearchSpace& space, UpdateCost update) {
    if (network.graph() == nullptr) return {};
    if (c.gpus < 2 || std::ranges::any_of(space.reducers, &ReducerChoice::in_parts)) return {};
    update.shards = c.gpus;
    const int batch = c.batch_per_gpu / c.micro_batches;
    if (network.largest_batch(batch, gpu, space.precision, update) < batch) return {};
    return fmt::format(
        "; with --sharded this batch fits, as a GPU keeps 1/{} of the optimizer's state", c.gpus);
}

/// As sim::expect_fits, for the batch of `c` in its micro-batches.
/// Errors: gx::Error that names, beside what fits, the micro-batches or the option that do.
void expect_micro_batch_fits(const sim::GpuSpec& gpu, const Network& network,
                             const Configuration& c, const SearchSpace& space, UpdateCost update) {
    try {
        network.expect_fits(c.batch_per_gpu / c.micro_batches, gpu, space.precision, update);
    } catch (const Error& e) {
        std::string sentence = e.what() + sharded_hint(gpu, network, c, space, update);
        update.micro_batches = 1;
        const int parts =
            fewest_micro_batches(gpu, {{network, c.batch_per_gpu}}, space.precision, update);
        if (parts > 1)
            sentence += fmt::format("; {} micro-batches fit{}", parts,
                                    space.micro_batches > 0
                                        ? ": --micro-batches 0 takes the fewest"
                                        : " here, but no number fits and divides every phase");
        throw Error(sentence);
    }
}

/// The step of a GPU: a pass of the network, or of what was measured, for each micro-batch.
/// Errors: gx::Error for a batch that does not fit or divide, and for a step of centuries.
sim::StepWork work_on(const sim::GpuSpec& gpu, const Network& network, const Configuration& c,
                      const SearchSpace& space, UpdateCost update) {
    const int parts = update.micro_batches = c.micro_batches;
    if (c.batch_per_gpu % parts != 0)
        throw Error(fmt::format("a batch of {} has no {} micro-batches of one size",
                                c.batch_per_gpu, parts));
    expect_micro_batch_fits(gpu, network, c, space, update);
    const auto pass_over = [&](int batch, UpdateCost cost) {
        return network.pass(batch, gpu, space.precision, space.kernels_on(gpu), cost);
    };
    sim::StepWork pass = pass_over(c.batch_per_gpu / parts, update);
    if (space.measured)
        pass = scaled(*space.measured, pass, pass_over(space.measured->batch, space.update));
    if (seconds(pass.total()) * parts > step_seconds_most)
        throw Error(
            fmt::format("a step computes for more than {:.0e} s: measure it anew, or give "
                        "a GPU less",
                        step_seconds_most));
    const Bytes sum_traffic{pass.elements * 12};  // two floats read and one written
    return in_micro_batches(std::move(pass), parts, sim::VectorKernels(gpu).time(sum_traffic));
}

/// What all candidates of a cluster share whose update is shared by so many ranks; its kernels are
/// timed unless they were before. `phases`: those of the whole job; none: it has no others.
Candidate on_cluster(const Job& job, const Network& network, const std::vector<Load>& phases,
                     const SearchSpace& space, const sim::ClusterSpec& spec, int shards,
                     Timed& timed) {
    UpdateCost update = space.update;
    update.shards = shards;
    Candidate c{.choice = {.machine = std::string(spec.machine.name.view()),
                           .machines = spec.machines,
                           .gpus = spec.ranks()}};
    const int batch = c.choice.batch_per_gpu = batch_on(job, spec.ranks(), c.infeasible);
    const sim::GpuSpec& gpu = spec.machine.gpu;
    try {
        check(spec);
        if (!c.infeasible.empty()) return c;
        c.choice.micro_batches =
            space.micro_batches > 0
                ? space.micro_batches
                : fewest_micro_batches(gpu,
                                       phases.empty() ? std::vector{Load{network, batch}} : phases,
                                       space.precision, update);
        const Key key = key_of(c.choice, shards);
        if (!timed.contains(key)) timed[key] = work_on(gpu, network, c.choice, space, update);
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
        if (spent <= most) continue;
        all[i].simulated = false;
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

std::optional<StepInterval> interval_of(const sim::StepTiming& t, const predict::Stack& stack,
                                        const sim::ClusterSpec& spec, std::int64_t elements) {
    if (spec.ranks() < 2 || stack.name == "none" || stack.name.empty()) return {};
    const double computation = seconds(t.forward + t.backward + t.update);
    const double step = seconds(with_stack(t, stack, spec, elements).step);
    const predict::Interval i =
        predict::intervals_in_force()[predict::between(spec)].around(100 * computation / step);
    return StepInterval{nanoseconds(100 * computation / i.high),
                        nanoseconds(100 * computation / i.low)};
}

namespace {

/// search(), of a phase of a job that has `phases`.
std::vector<Candidate> search_among(const Job& job, const Network& network,
                                    const std::vector<Load>& phases, const SearchSpace& space,
                                    const std::function<void(std::size_t, std::size_t)>& progress) {
    std::vector<Candidate> all;
    std::vector<Question> asked;
    Timed timed;
    for (std::size_t cluster = 0; cluster < space.clusters.size(); ++cluster) {
        const sim::ClusterSpec& spec = space.clusters[cluster];
        std::map<int, Candidate> bases;  // by how many ranks share the update
        for (const ReducerChoice& r : space.reducers) {
            const int shards = r.in_parts ? spec.ranks() : 1;
            if (!bases.contains(shards))
                bases[shards] = on_cluster(job, network, phases, space, spec, shards, timed);
            const Candidate& base = bases[shards];
            const auto work = timed.find(key_of(base.choice, shards));
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
        if (all[i].infeasible.empty()) {
            try {
                const sim::StepTiming t = q.reducer->time(*q.work, spec, all[i].choice.bucket);
                set_time(all[i], with_stack(t, space.stack, spec, q.work->elements), job, spec);
                all[i].step_80 = interval_of(t, space.stack, spec, q.work->elements);
            } catch (const Error& e) {  // of a time that no clock counts
                all[i].infeasible = fmt::format("its step cannot be timed: {}", e.what());
            }
        }
        if (progress && (i + 1 == all.size() || asked[i + 1].cluster != q.cluster))
            progress(q.cluster + 1, space.clusters.size());
    }
    return all;
}

/// Adds a phase to what was found for those before.
void add_phase(Candidate& sum, const Candidate& phase, std::size_t number) {
    if (!sum.infeasible.empty()) return;
    if (!phase.infeasible.empty()) {
        sum.infeasible = fmt::format("phase {}: {}", number, phase.infeasible);
        sum.simulated = phase.simulated;
        return;
    }
    if (seconds(sum.total) + seconds(phase.total) > 9e9) {
        sum.infeasible = too_long;
        return;
    }
    const std::int64_t steps = sum.steps + phase.steps;
    const auto mean = [&](Nanoseconds before, Nanoseconds now) {
        const double all = seconds(before) * static_cast<double>(sum.steps) +
                           seconds(now) * static_cast<double>(phase.steps);
        return steps > 0 ? nanoseconds(all / static_cast<double>(steps)) : Nanoseconds(0);
    };
    for (const auto member : {&Candidate::step, &Candidate::exposed, &Candidate::framework})
        sum.*member = mean(sum.*member, phase.*member);
    if (sum.step_80 && phase.step_80)
        sum.step_80 = {mean(sum.step_80->low, phase.step_80->low),
                       mean(sum.step_80->high, phase.step_80->high)};
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

std::vector<Candidate> search(const Job& job, const Network& network, const SearchSpace& space,
                              const std::function<void(std::size_t, std::size_t)>& progress) {
    return search_among(job, network, {}, space, progress);
}

std::vector<Candidate> search_phases(
    const Job& job, const std::function<Graph(int)>& graph_at, const SearchSpace& space,
    const std::function<void(std::size_t, std::size_t)>& progress) {
    std::vector<Candidate> all;
    std::vector<Graph> graphs;
    for (const JobPhase& p : job.phases)
        if (p.first_epoch < job.epochs) graphs.push_back(graph_at(p.image_side));
    std::vector<Load> loads;
    for (std::size_t p = 0; p < graphs.size(); ++p)
        loads.push_back({graphs[p], job.phases[p].batch_per_gpu});
    const std::size_t phases = loads.size(), clusters = space.clusters.size();
    for (std::size_t p = 0; p < phases; ++p) {
        Job part = job;
        part.phases.clear();
        part.epochs = (p + 1 < phases ? job.phases[p + 1].first_epoch : job.epochs) -
                      job.phases[p].first_epoch;
        part.global_batch = 0;
        part.batch_per_gpu = job.phases[p].batch_per_gpu;
        const auto show = [&](std::size_t done, std::size_t) {
            if (progress) progress(p * clusters + done, phases * clusters);
        };
        std::vector<Candidate> found = search_among(part, loads[p].network, loads, space, show);
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
