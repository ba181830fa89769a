// step_time<R>: time of a training step with reducer R on a cluster, without payload.
#pragma once

#include <algorithm>    // max
#include <concepts>     // same_as
#include <cstdint>      // int64_t
#include <span>         // collectives
#include <type_traits>  // remove_cvref_t
#include <utility>      // move
#include <vector>       // buckets

#include <gx/core/contract.hpp>                 // GX_EXPECT
#include <gx/core/decl.hpp>                     // GX_DECL
#include <gx/core/units.hpp>                    // Nanoseconds, Bytes
#include <gx/model/graph.hpp>                   // Graph
#include <gx/reducer/concept.hpp>               // Reducer
#include <gx/reducer/collective_reducer.hpp>    // plan_of
#include <gx/sim/compute/gpu_memory.hpp>        // expect_fits
#include <gx/sim/timing/collective_replay.hpp>  // ReductionPlan, can_collapse
#include <gx/sim/compute/roofline.hpp>          // TimedGraph
#include <gx/sim/compute/vector_kernels.hpp>    // VectorKernels
#include <gx/sim/timing/sharded_step_time.hpp>  // exchange_time_of
#include <gx/sim/timing/step_replay.hpp>        // StepReplay, StepWork
#include <gx/sim/topology/topology.hpp>         // ClusterSpec

namespace gx::sim {

struct StepTiming {
    Nanoseconds step{};  ///< of the last step simulated, from end to end of all ranks, or a mean
    Nanoseconds forward{}, backward{}, update{};
    Nanoseconds communication{};  ///< rank 0's stream reduces so long for one gradient
    Nanoseconds exposed{};        ///< rank 0 waits so long for the gradient of a step; of a mean
                                  ///< step what of it is not computation
    Nanoseconds floor{};          ///< undisturbed computation, or the bytes over the NICs: no step
                                  ///< is shorter, unless jitter or a factor speeds kernels up
    std::uint64_t messages = 0;   ///< of all ranks in a step
    Bytes wire{};                 ///< of these, between machines
    std::vector<Nanoseconds> ends{};  ///< of each step simulated, on the rank that is last
    std::uint64_t simulated = 0;      ///< messages that went through the network, in all steps
    bool settled = false;             ///< steady state: the last two steps took equally long
    bool collapsed = false, rounded = false;  ///< as in CollectiveTiming
    Dollars dollars{};                        ///< of a step, on demand
    double images_per_second = 0;
};

/// Kernel times from the roofline; gradients become ready as on sim::Device.
[[nodiscard]] GX_DECL StepWork step_work(const Graph& graph, const TimedGraph& times, int batch);

namespace detail {

/// Bandwidth bound: the least time that NICs, or in one machine GPU links, need for a gradient.
[[nodiscard]] GX_DECL Nanoseconds wire_floor(const ClusterSpec& spec, Bytes gradient);

/// Traffic of R's kernels, or of those of the reducer that it wraps.
template <class R>
[[nodiscard]] constexpr KernelTraffic kernel_traffic_of([[maybe_unused]] int ranks) {
    if constexpr (requires { R::kernel_traffic(ranks); }) return R::kernel_traffic(ranks);
    else if constexpr (requires { typename R::wrapped; })
        return kernel_traffic_of<typename R::wrapped>(ranks);
    else return {};
}

/// Adds the kernels' times to a plan. A chunk counts as the largest of its collective.
template <Collective C>
void add_kernels(ReductionPlan<C>& plan, const ReducerKernels& kernels, const GpuSpec& gpu) {
    if (!kernels.charged) return;
    const VectorKernels times(gpu);
    plan.fused_rate = times.fused_rate();
    for (std::size_t b = 0; b < plan.elements.size(); ++b) {
        plan.before.push_back(times.time({plan.elements[b] * kernels.traffic.before}));
        Nanoseconds after = times.time({plan.elements[b] * kernels.traffic.after});
        if (kernels.on_own_chunk_after) {
            after = Nanoseconds(0);
            for (std::size_t k = 0; k < plan.collectives.size(); ++k)
                after += times.time(
                    {chunk_range(plan.part(b, k), plan.collectives[k].chunks(), 0).size() *
                     kernels.traffic.after});
        }
        plan.after.push_back(after + kernels.more_launches * gpu.launch);
    }
}

/// The last of `steps` simulated steps: all of a StepTiming but floor and dollars.
template <Collective C>
[[nodiscard]] StepTiming replayed(const StepWork& work, const ReductionPlan<C>& plan,
                                  const ReduceShape& shape, const ClusterSpec& spec, int steps,
                                  bool collapsed, const Slowness& slowness) {
    StepReplay<C> training(work, plan, shape, spec, steps, collapsed, slowness);
    training.run();
    const auto& ends = training.ends();
    const auto last = ends.size() - 1;
    StepTiming t{.step = ends[last] - ends[last - 1],
                 .forward = work.forward,
                 .backward = work.backward,
                 .update = work.update,
                 .communication = training.communication(),
                 .exposed = training.exposed()};
    t.messages = training.reductions().messages() / static_cast<std::uint64_t>(steps);
    t.wire = training.reductions().wire() / steps;
    t.ends = ends;
    t.simulated = training.reductions().simulated();
    t.settled = last < 2 || t.step == ends[last - 1] - ends[last - 2];
    t.collapsed = collapsed;
    t.rounded = collapsed && !plan.has_equal_chunks();
    return t;
}

/// Whether the last two steps differ by more than a thousandth.
[[nodiscard]] inline bool differ(const std::vector<Nanoseconds>& ends) {
    const std::size_t last = ends.size() - 1;
    const Nanoseconds step = ends[last] - ends[last - 1], before = ends[last - 1] - ends[last - 2];
    return std::max(step, before) - std::min(step, before) > step / 1000;
}

/// Of steps that have not settled, as where ranks that share links drift apart: the mean of those
/// behind step `from`, and what of it is not computation.
inline void take_mean(StepTiming& t, std::size_t from, Nanoseconds computation, bool slowed) {
    const std::size_t last = t.ends.size() - 1;
    t.step = (t.ends[last] - t.ends[from]) / std::int64_t(last - from);
    const Nanoseconds rest = std::max(Nanoseconds(0), t.step - computation);
    t.exposed = slowed ? std::min(t.exposed, rest) : rest;  // slowed kernels are no waiting
}

}  // namespace detail

/// Time of steps of any work with any collectives. Every rank computes `work` repeatedly.
///
///     step t:  forward, backward; buckets, cut from the end of the gradient, are queued when they
///              are whole and reduced in order; then the mean of step t - staleness is waited for,
///              and the update is made
///
/// `steps` are simulated and the last is reported. 0: 4 + 2 staleness, which reach a steady state
/// in practice; and more where late gradients take the stream longer than the step, which then
/// falls behind by the difference until a step waits for it. Where that takes more than 128 steps,
/// or 2^24 messages, the step is the stream's time, and is not `settled`. Steps that differ by more
/// than a thousandth are simulated 32 times or more, if that is at most 2^21 messages, and the step
/// is the mean of their later half; of the 32 that follow, where steps have begun to wait for the
/// stream, if that is at most 2^24.
/// Detail: as all_reduce_time. Virtual times are, to the nanosecond, those of Pipeline over a
///         sim::Cluster with payload, where nothing is `rounded`.
template <Collective C>
[[nodiscard]] StepTiming step_time(const StepWork& work, std::span<const C> collectives,
                                   ReduceShape shape, const ClusterSpec& spec, int steps = 0,
                                   Detail detail = Detail::collapsed,
                                   std::int64_t worth_simulating = messages_worth_simulating,
                                   const Slowness& slowness = {}) {
    GX_EXPECT(work.elements > 0, "a step to time has parameters");
    GX_EXPECT(steps == 0 || steps > shape.staleness + 1,
              "two steps at least that apply a gradient, so that one follows the other");
    GX_EXPECT(!slowness.any() || !work.forward_kernels.empty() || work.forward.count() == 0,
              "kernels that something slows are listed one by one");
    if (shape.bucket_elements <= 0) shape.bucket_elements = work.elements;
    ReductionPlan<C> plan{collectives, {}, shape.element_bytes};
    for (std::int64_t end = work.elements; end > 0; end -= shape.bucket_elements)
        plan.elements.push_back(std::min(end, shape.bucket_elements));
    detail::add_kernels(plan, shape.kernels, spec.machine.gpu);
    const bool collapsed = detail == Detail::collapsed && !slowness.differs_by_rank() &&
                           can_collapse(plan, spec, worth_simulating);
    const auto of = [&](int count) {
        return detail::replayed(work, plan, shape, spec, count, collapsed, slowness);
    };
    const int few = 4 + 2 * shape.staleness;
    StepTiming t = of(steps > 0 ? steps : few);
    const bool is_sample = steps > 0 || slowness.differs_by_rank();  // and so is what it waits for
    if (!is_sample && shape.staleness > 0 && t.communication > t.step) {
        constexpr std::int64_t most_steps = 128, most_messages = 1 << 24, more = 32;
        // A step waits once the stream is behind by all that staleness hides, and its own step.
        const std::int64_t needed =
            (shape.staleness + 1) * (t.communication / (t.communication - t.step)) + few;
        const auto affords = [&, each = std::int64_t(t.simulated)](std::int64_t count) {
            return each * count <= most_messages * few;
        };
        const bool reached = needed <= most_steps && affords(needed);
        if (reached) t = of(int(needed));
        if (reached && detail::differ(t.ends) && affords(needed + more)) {
            t = of(int(needed + more));
            detail::take_mean(t, std::size_t(needed - 1), work.total(), slowness.any());
        } else if (const Nanoseconds lag = t.communication - t.step; lag.count() > 0) {
            t.step += lag;
            t.exposed += lag;
            t.settled = false;
        }
    } else if (!is_sample && detail::differ(t.ends)) {
        constexpr std::int64_t most_messages = 1 << 21;
        const std::int64_t many = std::max(32, 2 * few);
        if (std::int64_t(t.simulated) * many <= most_messages * few) t = of(int(many));
        if (!t.settled) detail::take_mean(t, (t.ends.size() - 1) / 2, work.total(), slowness.any());
    }
    t.floor =
        std::max(work.total(), detail::wire_floor(spec, {work.elements * shape.element_bytes}));
    t.dollars = spec.dollars(t.step);
    return t;
}

struct StepOptions {
    int batch = 0;  ///< images a GPU
    Precision precision = Precision::fp32;
    std::int64_t bucket_bytes = 0;  ///< on the wire; 0: what the reducer asks for, else all
    int steps = 0;                  ///< to simulate; 0: until they settle, or many
    Detail detail = Detail::collapsed;
    std::int64_t worth_simulating = messages_worth_simulating;  ///< as there; 0: round and collapse
    Slowness slowness{};
    UpdateCost update{};                 ///< of the optimizer: update_cost_of<O>()
    bool charge_reducer_kernels = true;  ///< as in ClusterOptions
};

namespace detail {

/// Of a reducer that runs halves: steps with its reduce-scatter, each followed by the exchange of
/// parameters, which begins on all ranks at once.
template <RunsHalves R>
[[nodiscard]] StepTiming step_time_of_halves(const StepWork& work, const ClusterSpec& spec,
                                             std::int64_t bucket_elements,
                                             const StepOptions& options) {
    using P = typename R::halves;
    using Scatter = std::remove_cvref_t<decltype(P::make(Placement{}, 0).reduce_scatter())>;
    constexpr int element_bytes = sizeof(typename R::wire_type::storage);
    std::vector<Scatter> scatters;
    for (int k = 0; k < P::count; ++k)
        scatters.push_back(P::make(spec.placement(), k).reduce_scatter());
    StepTiming t =
        step_time(work, std::span<const Scatter>(scatters),
                  {0,
                   bucket_elements,
                   element_bytes,
                   {options.charge_reducer_kernels, kernel_traffic_of<R>(spec.ranks()), true}},
                  spec, options.steps, options.detail, options.worth_simulating, options.slowness);
    const ExchangeTiming after =
        exchange_time_of<R>(work.elements, bucket_elements > 0 ? bucket_elements : work.elements,
                            spec, options.detail, options.worth_simulating);
    t.step += after.time;
    t.exposed += after.time;
    t.communication += after.time;
    t.messages += after.messages;
    t.simulated += after.simulated;
    t.wire = {t.wire.count + after.wire.count};
    for (std::size_t i = 0; i < t.ends.size(); ++i)
        t.ends[i] += after.time * static_cast<std::int64_t>(i + 1);
    t.dollars = spec.dollars(t.step);
    return t;
}

}  // namespace detail

/// Time of a step of reducer R over work that is already timed; ignores `batch` and `precision`.
/// Where R runs halves, the exchange of parameters is added to each step, as if the ranks began it
/// together.
template <class R>
[[nodiscard]] StepTiming step_time(const StepWork& work, const ClusterSpec& spec,
                                   const StepOptions& options) {
    static_assert(explain_reducer<R>());
    using Plan = typename decltype(gx::detail::reducer::plan_of<R>())::type;
    static_assert(RunsHalves<R> || !std::same_as<Plan, void>,
                  "gx: this reducer does not declare its collectives, so it can't be timed without "
                  "payload. Fix: add 'using plan = ...' with 'count' and 'make(Placement, k)', or "
                  "'using wrapped = ...' for the reducer it wraps.");
    static_assert(R::asynchronous, "gx: only asynchronous reducers are timed without payload.");

    constexpr int element_bytes = sizeof(typename R::wire_type::storage);
    std::int64_t own = 0;
    if constexpr (requires { R::bucket_elements; }) own = R::bucket_elements;
    const std::int64_t asked = options.bucket_bytes / element_bytes;
    GX_EXPECT(own == 0 || asked <= own, "buckets larger than the reducer's own are cut by it");
    const std::int64_t bucket = asked > 0 ? asked : own;
    if constexpr (RunsHalves<R>) return detail::step_time_of_halves<R>(work, spec, bucket, options);
    else {
        using Schedule = decltype(Plan::make(Placement{}, 0));
        std::vector<Schedule> collectives;
        for (int k = 0; k < Plan::count; ++k)
            collectives.push_back(Plan::make(spec.placement(), k));
        return step_time(
            work, std::span<const Schedule>(collectives),
            {R::staleness,
             bucket,
             element_bytes,
             {options.charge_reducer_kernels, detail::kernel_traffic_of<R>(spec.ranks())}},
            spec, options.steps, options.detail, options.worth_simulating, options.slowness);
    }
}

/// Time of a step of reducer R, as when it is executed with payload. Wire type, buckets, staleness
/// and collectives are those that R then has.
///
///     step_time<DoubleBuffered<MultiRing<4, fp16>>>(graph<ResNet50>(), plain_p3_16xlarge(2048),
///                                                   {.batch = 64, .precision = Precision::mixed})
///
/// Errors: a batch that does not fit in the GPU throws gx::Error with the one that does.
template <class R>
[[nodiscard]] StepTiming step_time(const Graph& graph, const ClusterSpec& spec,
                                   const StepOptions& options) {
    GX_EXPECT(options.batch > 0, "a step has a batch of at least 1 image a GPU");
    const UpdateCost update = update_cost_with<R>(spec.ranks(), options.update);
    expect_fits(graph, options.batch, spec.machine.gpu, options.precision, update);
    const TimedGraph times(graph, spec.machine.gpu, options.precision, fused_kernels, update);
    StepTiming t = step_time<R>(step_work(graph, times, options.batch), spec, options);
    t.images_per_second = options.batch * spec.ranks() / seconds(t.step);
    return t;
}

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/timing/impl/step_time.ipp>
#endif
