// step_time<R>: one training step of a reducer type on a cluster of any size, without payload.
#pragma once

#include <algorithm>  // max
#include <concepts>   // same_as
#include <cstdint>    // int64_t
#include <span>       // collectives
#include <utility>    // move
#include <vector>     // ranks

#include <gx/core/contract.hpp>    // GX_EXPECT
#include <gx/core/units.hpp>       // Nanoseconds, Bytes
#include <gx/model/graph.hpp>      // Graph
#include <gx/reducer/concept.hpp>  // Reducer
#include <gx/reducer/mean.hpp>     // plan_of
#include <gx/sim/engine.hpp>       // Engine
#include <gx/sim/memory.hpp>       // expect_fits
#include <gx/sim/reductions.hpp>   // Reductions
#include <gx/sim/roofline.hpp>     // TimedGraph
#include <gx/sim/topology.hpp>     // ClusterSpec

namespace gx::sim {

/// What one GPU computes in a step, and when which gradients are final: those of the flat vector
/// from `watermark` up are, `after` so much of backward.
struct StepWork {
    struct Ready {
        Nanoseconds after{};
        std::int64_t watermark = 0;
    };
    Nanoseconds forward{}, backward{}, update{};
    std::int64_t elements = 0;
    std::vector<Ready> ready{};

    [[nodiscard]] Nanoseconds total() const { return forward + backward + update; }
};

/// How gradients go out: the same words as a reducer's.
struct ReduceShape {
    int staleness = 0;
    std::int64_t bucket_elements = 0;  ///< 0: the whole gradient
    int element_bytes = 4;             ///< on the wire
};

struct StepTiming {
    Nanoseconds step{};           ///< of the last step simulated, from end to end of all ranks
    Nanoseconds forward{}, backward{}, update{};
    Nanoseconds communication{};  ///< rank 0's stream reduces so long for one gradient
    Nanoseconds exposed{};        ///< rank 0 waits so long for the gradient of a step
    Nanoseconds floor{};          ///< no step is shorter: computation, or the bytes over the NICs
    std::uint64_t messages = 0;   ///< of all ranks in a step
    Bytes wire{};                 ///< of these, between machines
    std::vector<Nanoseconds> ends{};  ///< of each step simulated, on the rank that is last
    std::uint64_t simulated = 0;  ///< messages that went through the network, in all steps
    bool settled = false;         ///< the last two steps took equally long
    bool collapsed = false, rounded = false;  ///< as in CollectiveTiming
    Dollars dollars{};            ///< of a step, on demand
    double images_per_second = 0;
};

/// Kernels from the roofline, gradients as sim::Device tells them.
[[nodiscard]] inline StepWork step_work(const Graph& graph, const TimedGraph& times, int batch) {
    StepWork work{times.forward(batch), times.backward(batch), times.update(),
                  graph.parameter_elements(), {}};
    std::vector<std::int64_t> before(graph.ops.size(), 0);  // ends of parameters of earlier ops
    std::int64_t end = 0;
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
        before[i] = end;
        for (int p = 0; p < graph.ops[i].parameter_count; ++p) {
            const auto at = static_cast<std::size_t>(graph.ops[i].first_parameter + p);
            end = std::max(end, graph.parameters[at].offset + graph.parameters[at].count);
        }
    }
    Nanoseconds after{};
    std::int64_t watermark = work.elements;
    for (std::size_t i = graph.ops.size(); i-- > 0;) {
        after += times.ops()[i].backward(batch);
        if (before[i] < watermark) work.ready.push_back({after, watermark = before[i]});
    }
    return work;
}

namespace detail {

/// Every actor computes step after step, queues buckets as they become whole, and waits at the end
/// of a step for the gradient that it applies: what Pipeline and sim::Device do on fibers.
template <Collective C>
class TimedTraining {
public:
    TimedTraining(const StepWork& work, ReductionPlan<C> plan, const ReduceShape& shape,
                  const ClusterSpec& spec, int steps, bool collapsed)
        : work_(work), staleness_(shape.staleness), steps_(steps),
          buckets_(static_cast<std::int64_t>(plan.elements.size())),
          reductions_(std::move(plan), spec, engine_, collapsed, {reduced_event, this, 0}),
          ranks_(static_cast<std::size_t>(reductions_.actors())),
          ends_(static_cast<std::size_t>(steps)) {
        std::int64_t whole = 0, begin = work.elements;
        const std::int64_t size = shape.bucket_elements;
        for (const auto& r : work.ready) {
            while (whole < buckets_ && std::max<std::int64_t>(0, begin - size) >= r.watermark)
                ++whole, begin -= size;
            if (gates_.empty() ? whole > 0 : whole > gates_.back().buckets)
                gates_.push_back({r.after, whole});
        }
        GX_EXPECT(whole == buckets_, "backward ends with all gradients ready");
    }

    void run() {
        for (std::size_t rank = 0; rank < ranks_.size(); ++rank) begin(rank);
        engine_.drain();
    }
    [[nodiscard]] const Reductions<C>& reductions() const { return reductions_; }
    [[nodiscard]] const std::vector<Nanoseconds>& ends() const { return ends_; }
    [[nodiscard]] Nanoseconds exposed() const { return ranks_[0].exposed; }
    [[nodiscard]] Nanoseconds communication() const { return ranks_[0].communication; }

private:
    struct Gate {
        Nanoseconds after{};
        std::int64_t buckets = 0;
    };
    struct Rank {
        int step = 0;
        bool waits = false;
        Nanoseconds computed{}, stream_free{};
        Nanoseconds exposed{};        // in the last step
        Nanoseconds communication{};  // for the last gradient that is collected
        std::vector<Nanoseconds> queued{};  // of each bucket of the gradients in flight
    };
    static TimedTraining& self(void* me) { return *static_cast<TimedTraining*>(me); }
    static void reduced_event(void* me, std::uint64_t rank) { self(me).reduced(rank); }
    static void gate_event(void* me, std::uint64_t gate) {
        self(me).pass(gate >> 32, gate & 0xffffffffu);
    }
    static void computed_event(void* me, std::uint64_t rank) { self(me).computed(rank); }
    static void updated_event(void* me, std::uint64_t rank) { self(me).end(rank); }
    void at(Nanoseconds time, std::size_t rank, void (*f)(void*, std::uint64_t), std::uint64_t a) {
        engine_.at(time, static_cast<int>(rank), {f, this, a});
    }

    void begin(std::size_t rank) {
        const Nanoseconds backward = engine_.now() + work_.forward;
        for (std::size_t g = 0; g < gates_.size(); ++g)
            at(backward + gates_[g].after, rank, gate_event, std::uint64_t{rank} << 32 | g);
        at(backward + work_.backward, rank, computed_event, rank);
    }
    void pass(std::size_t rank, std::size_t gate) {
        Rank& r = ranks_[rank];
        const std::int64_t before = gate == 0 ? 0 : gates_[gate - 1].buckets;
        for (std::int64_t b = before; b < gates_[gate].buckets; ++b)
            queued_at(r, r.step * buckets_ + b) = engine_.now();
        reductions_.queue(static_cast<int>(rank), r.step * buckets_ + gates_[gate].buckets);
    }
    Nanoseconds& queued_at(Rank& r, std::int64_t bucket) {
        const auto in_flight = static_cast<std::size_t>(buckets_ * (staleness_ + 1));
        r.queued.resize(in_flight);
        return r.queued[static_cast<std::size_t>(bucket) % in_flight];
    }
    void reduced(std::size_t rank) {
        Rank& r = ranks_[rank];
        const std::int64_t bucket = reductions_.reduced(static_cast<int>(rank)) - 1;
        if (bucket / buckets_ == steps_ - 1 - staleness_)
            r.communication += engine_.now() - std::max(r.stream_free, queued_at(r, bucket));
        r.stream_free = engine_.now();
        if (r.waits) collect(rank);
    }
    void computed(std::size_t rank) {
        ranks_[rank].computed = engine_.now();
        ranks_[rank].waits = true;
        collect(rank);
    }
    void collect(std::size_t rank) {
        Rank& r = ranks_[rank];
        const std::int64_t needed = (r.step - staleness_ + 1) * buckets_;
        if (needed > 0 && reductions_.reduced(static_cast<int>(rank)) < needed) return;
        r.waits = false;
        r.exposed = engine_.now() - r.computed;
        const Nanoseconds update = needed > 0 ? work_.update : Nanoseconds(0);
        at(engine_.now() + update, rank, updated_event, rank);
    }
    void end(std::size_t rank) {
        Rank& r = ranks_[rank];
        ends_[static_cast<std::size_t>(r.step)] = engine_.now();
        if (++r.step < steps_) begin(rank);
    }

    StepWork work_;
    int staleness_, steps_;
    std::int64_t buckets_;
    Engine engine_{};
    Reductions<C> reductions_;
    std::vector<Rank> ranks_;
    std::vector<Nanoseconds> ends_;
    std::vector<Gate> gates_{};
};

/// What a cluster's NICs, or in one machine its GPUs' links, need for a gradient at least.
[[nodiscard]] inline Nanoseconds wire_floor(const ClusterSpec& spec, Bytes gradient) {
    const bool far = spec.machines > 1;
    const int n = far ? spec.machines : spec.machine.gpus;
    BytesPerSecond rate = spec.machine.peer_bandwidth;
    if (far) rate = spec.machine.nic_line_rate * spec.goodput;
    if constexpr (requires { spec.nic_rate(); })
        if (far) rate = spec.nic_rate() * double(spec.machine.nics);
    if (n == 1 || rate.count <= 0) return {};
    return nanoseconds(2.0 * (n - 1) / n * static_cast<double>(gradient.count) / rate.count);
}

}  // namespace detail

/// Steps of any work with any collectives on a cluster. Every rank computes `work`, over and over.
///
///     step t:  forward, backward; buckets, cut from the end of the gradient, are queued when they
///              are whole and reduced in order; then the mean of step t - staleness is waited for,
///              and the update is made
///
/// `steps` are simulated; the last is answered. 0: 4 + 2 staleness, which settle in practice.
/// Detail: as all_reduce_time. Virtual times are, to the nanosecond, those of Pipeline over a
///         sim::Cluster with payload, where nothing is `rounded`.
template <Collective C>
[[nodiscard]] StepTiming step_time(const StepWork& work, std::span<const C> collectives,
                                   ReduceShape shape, const ClusterSpec& spec, int steps = 0,
                                   Detail detail = Detail::collapsed) {
    GX_EXPECT(work.elements > 0, "a step to time has parameters");
    GX_EXPECT(steps == 0 || steps > shape.staleness + 1,
              "two steps at least that apply a gradient, so that one follows the other");
    if (steps == 0) steps = 4 + 2 * shape.staleness;
    if (shape.bucket_elements <= 0) shape.bucket_elements = work.elements;
    ReductionPlan<C> plan{collectives, {}, shape.element_bytes};
    for (std::int64_t end = work.elements; end > 0; end -= shape.bucket_elements)
        plan.elements.push_back(std::min(end, shape.bucket_elements));
    const bool collapsed = detail == Detail::collapsed && can_collapse(plan, spec);
    const bool rounded = collapsed && !plan.has_equal_chunks();

    detail::TimedTraining<C> training(work, std::move(plan), shape, spec, steps, collapsed);
    training.run();
    const auto& ends = training.ends();
    const auto last = ends.size() - 1;
    StepTiming t{.step = ends[last] - ends[last - 1],
                 .forward = work.forward, .backward = work.backward, .update = work.update,
                 .communication = training.communication(), .exposed = training.exposed()};
    t.floor = std::max(work.total(),
                       detail::wire_floor(spec, {work.elements * shape.element_bytes}));
    t.messages = training.reductions().messages() / static_cast<std::uint64_t>(steps);
    t.wire = training.reductions().wire() / steps;
    t.ends = ends;
    t.simulated = training.reductions().simulated();
    t.settled = last < 2 || t.step == ends[last - 1] - ends[last - 2];
    t.collapsed = collapsed;
    t.rounded = rounded;
    t.dollars = spec.dollars(t.step);
    return t;
}

struct StepOptions {
    int batch = 0;  ///< images a GPU
    Precision precision = Precision::fp32;
    std::int64_t bucket_bytes = 0;  ///< on the wire; 0: what the reducer asks for, else all
    int steps = 0;                  ///< to simulate; 0: until they settle
    Detail detail = Detail::collapsed;
};

/// A step of reducer type R over work that is timed already; `batch` and `precision` are not read.
template <class R>
[[nodiscard]] StepTiming step_time(const StepWork& work, const ClusterSpec& spec,
                                   const StepOptions& options) {
    static_assert(explain_reducer<R>());
    using Plan = typename decltype(gx::detail::reducer::plan_of<R>())::type;
    static_assert(!std::same_as<Plan, void>,
                  "gx: this reducer does not say what it executes, so it cannot be timed without "
                  "payload. Fix: add 'using plan = ...' with 'count' and 'make(Placement, k)', or "
                  "'using wrapped = ...' for the reducer it wraps.");
    static_assert(R::asynchronous, "gx: only asynchronous reducers are timed without payload.");

    constexpr int element_bytes = sizeof(typename R::wire_type::storage);
    std::int64_t own = 0;
    if constexpr (requires { R::bucket_elements; }) own = R::bucket_elements;
    const std::int64_t asked = options.bucket_bytes / element_bytes;
    GX_EXPECT(own == 0 || asked <= own, "buckets larger than the reducer's own are cut by it");
    std::vector<decltype(Plan::make(Placement{}, 0))> collectives;
    for (int k = 0; k < Plan::count; ++k) collectives.push_back(Plan::make(spec.placement(), k));
    return step_time(work, std::span<const decltype(Plan::make(Placement{}, 0))>(collectives),
                     {R::staleness, asked > 0 ? asked : own, element_bytes}, spec, options.steps,
                     options.detail);
}

/// A step of reducer type R: its wire, buckets, staleness and collectives are those that R has when
/// it is executed with payload.
///
///     step_time<DoubleBuffered<MultiRing<4, fp16>>>(graph<ResNet50>(), p3_16xlarge(2048),
///                                                   {.batch = 64, .precision = Precision::mixed})
///
/// Errors: a batch that does not fit in the GPU throws gx::Error with the one that does.
template <class R>
[[nodiscard]] StepTiming step_time(const Graph& graph, const ClusterSpec& spec,
                                   const StepOptions& options) {
    GX_EXPECT(options.batch > 0, "a step has a batch of at least 1 image a GPU");
    expect_fits(graph, options.batch, spec.machine.gpu, options.precision);
    const TimedGraph times(graph, spec.machine.gpu, options.precision);
    StepTiming t = step_time<R>(step_work(graph, times, options.batch), spec, options);
    t.images_per_second = options.batch * spec.ranks() / seconds(t.step);
    return t;
}

}  // namespace gx::sim
