// search(job, space): every candidate of a search space, each timed by a simulated step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gx/model/graph.hpp>           // Graph
#include <gx/sim/hardware/machine.hpp>  // ClusterSpec
#include <gx/sim/timing/step_time.hpp>  // step_time, StepWork
#include <tools/plan/candidate.hpp>     // Job, Candidate
#include <tools/plan/measured.hpp>      // MeasuredWork
#include <tools/plan/network.hpp>       // Network
#include <tools/predict/stack.hpp>      // Stack

namespace gx::tools::plan {

/// A reducer type as a value: what the planner can choose.
struct ReducerChoice {
    std::string name{}, wire{};
    int staleness = 0;
    bool in_parts = false;  ///< each rank updates a part of the parameters, and keeps its state
    sim::Algorithm algorithm = sim::Algorithm::ring;  ///< whose latencies the profile charges
    sim::StepTiming (*time)(const sim::StepWork&, const sim::ClusterSpec&, Bytes bucket) = nullptr;
    /// Messages that `time` simulates, at most; routes between GPUs are counted with them.
    double (*messages)(const sim::StepWork&, const sim::ClusterSpec&, Bytes bucket) = nullptr;
};

/// Plan of R, or that whose halves it runs.
template <class R>
[[nodiscard]] consteval auto plan_of() {
    if constexpr (sim::RunsHalves<R>) return typename R::halves{};
    else return typename decltype(gx::detail::reducer::plan_of<R>())::type{};
}

/// R as a choice. Its step is that of step_time<R>, with kernels that are timed already. Those of R
/// are not charged: casts and copies are part of a stack's costs, where it has any.
template <class R>
[[nodiscard]] ReducerChoice reducer_choice(std::string_view wire, sim::Algorithm algorithm) {
    const auto time = [](const sim::StepWork& work, const sim::ClusterSpec& spec, Bytes bucket) {
        return sim::step_time<R>(
            work, spec,
            {.bucket_bytes = bucket.count, .worth_simulating = 0, .charge_reducer_kernels = false});
    };
    const auto messages = [](const sim::StepWork& work, const sim::ClusterSpec& spec,
                             Bytes bucket) {
        using Plan = decltype(plan_of<R>());
        using Schedule = decltype(Plan::make(Placement{}, 0));
        const Schedule s = Plan::make(spec.placement(), 0);
        const bool collapsed = sim::detail::machines_see_the_same(spec) &&
                               sim::detail::machines_do_the_same(s, spec) && spec.machines > 1;
        const double bytes = double(work.elements) * sizeof(typename R::wire_type::storage);
        const double buckets = bucket.count > 0 ? std::max(1.0, bytes / double(bucket.count)) : 1.0;
        const double gpus = spec.machine.gpus, actors = collapsed ? gpus : s.ranks();
        const double routes = gpus * gpus * gpus / 20;  // found once, between all pairs
        return routes + actors * s.steps() * Plan::count * buckets * (4 + 2 * R::staleness);
    };
    const bool in_parts = sim::update_cost_with<R>(2, {}).shards > 1;
    return {R::name(), std::string(wire), R::staleness, in_parts, algorithm, time, messages};
}

/// What may be chosen, and what is assumed of the software.
struct SearchSpace {
    std::vector<sim::ClusterSpec> clusters{};  ///< any count of machines; `name` is not used
    std::vector<ReducerChoice> reducers{};
    std::vector<Bytes> buckets{Bytes{0}};  ///< 0: the whole gradient at once
    sim::Precision precision = sim::Precision::mixed;
    /// What the roofline's kernels are. Nothing: as frameworks had them in the GPU's time:
    /// channels_first_kernels on GPUs without TF32, of before 2020, and fused_kernels since.
    std::optional<sim::Framework> kernels = sim::fused_kernels;
    UpdateCost update{};  ///< of the optimizer: time of an update, memory of its state
    /// In place of the roofline of a known network, on the clusters' one GPU.
    std::optional<MeasuredWork> measured{};
    int micro_batches = 1;       ///< of a GPU's batch; 0: the fewest that fit
    predict::Stack stack{};      ///< costs of the framework; all 0: computation and wire alone
    double most_messages = 5e7;  ///< of all candidates; those with the most are dropped

    [[nodiscard]] sim::Framework kernels_on(const sim::GpuSpec& gpu) const {
        if (kernels) return *kernels;
        return gpu.tf32.count > 0 ? sim::fused_kernels : sim::channels_first_kernels;
    }
};

/// The time of a step with a stack's costs: as StepModel has them, beside simulated communication.
///
///     exposed   = max(machines_ms, exposed + interference * hidden communication)
///     framework = step_ms + mb_ms * gradient / 100 MB + jitter * E[max] * computation
struct SteppedCosts {
    Nanoseconds step{}, exposed{}, framework{};
};
[[nodiscard]] SteppedCosts with_stack(const sim::StepTiming& t, const predict::Stack& stack,
                                      const sim::ClusterSpec& spec, std::int64_t elements);

/// 80 % interval of a step: that of its efficiency (predict/interval.hpp), where one GPU alone has
/// 100 %. Empty on one GPU, and where the stack has no costs.
/// Its quality was measured on published results, of all-reduces by rings and trees over several
/// machines; other reducers' errors are unknown.
[[nodiscard]] std::optional<StepInterval> interval_of(const sim::StepTiming& t,
                                                      const predict::Stack& stack,
                                                      const sim::ClusterSpec& spec,
                                                      std::int64_t elements);

/// All candidates of the space, in its order: clusters, then reducers, then buckets. What can't run
/// is `infeasible`: machines that nothing joins, a batch that does not divide or fit, centuries of
/// steps, more messages than are simulated. `progress(done, of)` is called after each cluster.
/// Cost: a simulated step each, collapsed where machines do the same (chunks are then rounded up to
///       the largest of them), about `most_messages` messages in all; kernels are timed once for
///       each machine and batch.
[[nodiscard]] std::vector<Candidate> search(
    const Job& job, const Network& network, const SearchSpace& space,
    const std::function<void(std::size_t, std::size_t)>& progress = {});

/// Candidates of a job with phases, each phase timed with its own batch and graph; times, dollars
/// and steps are sums over the phases. `graph_at(side)`: the network at an image size. All phases
/// have one number of micro-batches, as in a Trainer: 0 takes the fewest that fit in each of them.
/// Errors: what can't run in a phase is infeasible, and names it.
/// Cost:   that of search() for each phase; `most_messages` are those of one.
[[nodiscard]] std::vector<Candidate> search_phases(
    const Job& job, const std::function<Graph(int side)>& graph_at, const SearchSpace& space,
    const std::function<void(std::size_t, std::size_t)>& progress = {});

}  // namespace gx::tools::plan
