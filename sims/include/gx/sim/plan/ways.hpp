// offers(job, menu): every way to run a job that a menu holds, each timed by a simulated step.
#pragma once

#include <functional>   // progress
#include <map>          // kernels that were timed
#include <string>       // names
#include <string_view>  // names
#include <utility>      // pair
#include <vector>       // the menu

#include <gx/core/error.hpp>       // Error
#include <gx/model/graph.hpp>      // Graph
#include <gx/sim/machine.hpp>      // ClusterSpec, MachineSpec
#include <gx/sim/machine_check.hpp>  // check
#include <gx/sim/memory.hpp>       // expect_fits
#include <gx/sim/plan/offer.hpp>   // Job, Offer
#include <gx/sim/step_time.hpp>    // step_time, StepWork

namespace gx::sim::plan {

/// A reducer type as a value: what the planner can choose.
struct ReducerOnOffer {
    std::string name{}, wire{};
    int staleness = 0;
    Algorithm algorithm = Algorithm::ring;  ///< whose latencies the profile charges
    StepTiming (*time)(const StepWork&, const ClusterSpec&, Bytes bucket) = nullptr;
};

/// R on the menu. Its step is that of step_time<R>, with kernels that are timed already.
template <class R>
[[nodiscard]] ReducerOnOffer on_offer(std::string_view wire, Algorithm algorithm) {
    const auto time = [](const StepWork& work, const ClusterSpec& spec, Bytes bucket) {
        return step_time<R>(work, spec, {.bucket_bytes = bucket.count, .worth_simulating = 0});
    };
    return {R::name(), std::string(wire), R::staleness, algorithm, time};
}

/// What may be chosen.
struct Menu {
    std::vector<ClusterSpec> clusters{};    ///< any count of machines; `name` is not used
    std::vector<ReducerOnOffer> reducers{};
    std::vector<Bytes> buckets{Bytes{0}};   ///< 0: the whole gradient at once
    Precision precision = Precision::mixed;
};

namespace detail {

/// Images of a step on one GPU; 0 with a sentence in `trouble` when the job does not divide.
[[nodiscard]] inline int batch_on(const Job& job, int gpus, std::string& trouble) {
    if (job.global_batch == 0) return job.batch_per_gpu;
    if (job.global_batch % gpus == 0) return job.global_batch / gpus;
    trouble = fmt::format("a batch of {} is not a multiple of {} GPUs", job.global_batch, gpus);
    return 0;
}

/// The time and the price of all steps of the job, where one step takes that long.
inline void take(Offer& o, const StepTiming& t, const Job& job, const ClusterSpec& spec) {
    const std::int64_t global = std::int64_t{o.way.batch_per_gpu} * spec.ranks();
    const std::int64_t epoch = job.examples / global + (job.examples % global != 0);
    if (seconds(t.step) * static_cast<double>(epoch) * job.epochs > 9e9) {
        o.trouble = "takes more than 9e9 s, which the clock does not count: train on less";
        return;
    }
    o.step = t.step;
    o.exposed = t.exposed;
    o.steps = epoch * job.epochs;
    o.total = o.step * o.steps;
    if (spec.machine.price.count > 0) o.on_demand = spec.dollars(o.total);
    if (spec.machine.spot_price.count > 0) o.spot = spec.spot_dollars(o.total);
}

}  // namespace detail

/// All ways of the menu, in its order: clusters, then reducers, then buckets. What can't run has
/// `trouble`: machines that nothing joins, a batch that does not divide or fit, centuries of steps.
/// `progress(done, of)` is told after each cluster.
/// Cost: a simulated step each, collapsed where machines do the same (chunks are then rounded up to
///       the largest of them); kernels are timed once for each machine and batch.
[[nodiscard]] inline std::vector<Offer> offers(
    const Job& job, const Graph& graph, const Menu& menu,
    const std::function<void(std::size_t, std::size_t)>& progress = {}) {
    std::vector<Offer> all;
    std::map<std::pair<std::string, int>, StepWork> timed;
    for (std::size_t c = 0; c < menu.clusters.size(); ++c) {
        ClusterSpec spec = menu.clusters[c];
        Offer base{.way = {.machine = std::string(spec.machine.name.view()),
                           .machines = spec.machines,
                           .gpus = spec.ranks()}};
        const int batch = base.way.batch_per_gpu =
            detail::batch_on(job, spec.ranks(), base.trouble);
        const std::pair key(base.way.machine, batch);
        try {
            check(spec);
            if (base.trouble.empty() && !timed.contains(key)) {
                expect_fits(graph, batch, spec.machine.gpu, menu.precision);
                timed[key] = step_work(
                    graph, TimedGraph(graph, spec.machine.gpu, menu.precision), batch);
            }
        } catch (const Error& e) {
            base.trouble = e.what();
        }
        for (const ReducerOnOffer& r : menu.reducers) {
            spec.algorithm = r.algorithm;
            for (const Bytes bucket : menu.buckets) {
                Offer o = base;
                o.way.reducer = r.name;
                o.way.wire = r.wire;
                o.way.staleness = r.staleness;
                o.way.bucket = bucket;
                if (o.trouble.empty())
                    detail::take(o, r.time(timed.at(key), spec, bucket), job, spec);
                all.push_back(o);
            }
        }
        if (progress) progress(c + 1, menu.clusters.size());
    }
    return all;
}

}  // namespace gx::sim::plan
