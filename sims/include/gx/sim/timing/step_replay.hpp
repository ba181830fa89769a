// StepReplay: replay of training steps: compute, queue buckets, wait for the mean.
#pragma once

#include <algorithm>  // max
#include <cstdint>    // int64_t
#include <utility>    // move
#include <vector>     // ranks

#include <gx/core/contract.hpp>                 // GX_EXPECT
#include <gx/core/rng.hpp>                      // Rng: jitter
#include <gx/core/units.hpp>                    // Nanoseconds
#include <gx/reducer/collective_reducer.hpp>    // KernelTraffic
#include <gx/sim/des/engine.hpp>                // Engine
#include <gx/sim/compute/jitter.hpp>            // GpuVariation, OverlapSlowdown
#include <gx/sim/timing/collective_replay.hpp>  // CollectiveReplay

namespace gx::sim {

/// Compute times of one GPU in a step, and when gradients are final: those of the flat vector from
/// `watermark` up, `after` that much of backward.
struct StepWork {
    struct Ready {
        Nanoseconds after{};
        std::int64_t watermark = 0;
    };
    Nanoseconds forward{}, backward{}, update{};
    std::int64_t elements = 0;
    std::vector<Ready> ready{};
    /// Kernel by kernel, required if something slows them; else they may be empty.
    std::vector<Nanoseconds> forward_kernels{}, backward_kernels{};

    [[nodiscard]] Nanoseconds total() const { return forward + backward + update; }
};

/// Slowdowns of kernels, as in ClusterOptions.
struct Slowness {
    std::uint64_t seed = 0;
    double compute_jitter = 0;
    GpuVariation variation{};
    OverlapSlowdown overlap{};

    [[nodiscard]] constexpr bool differs_by_rank() const {
        return compute_jitter != 0 || variation.gpu.kind != Jitter::Kind::none ||
               variation.pass.kind != Jitter::Kind::none;
    }
    [[nodiscard]] constexpr bool any() const { return differs_by_rank() || overlap.share != 0; }
};

/// A rank's kernels beside the collectives, as VectorKernels, and their traffic.
struct ReducerKernels {
    bool charged = false;             ///< false: they take no time
    KernelTraffic traffic{};          ///< bytes an element, before the collectives and after
    bool on_own_chunk_after = false;  ///< the latter on one chunk of each collective's part
    int more_launches = 0;            ///< after, beyond one before and one after
};

/// Shape of the reduction, in a reducer's terms.
struct ReduceShape {
    int staleness = 0;
    std::int64_t bucket_elements = 0;  ///< 0: the whole gradient
    int element_bytes = 4;             ///< on the wire
    ReducerKernels kernels{};
};

namespace detail {

/// Replays steps of all actors, as Pipeline and sim::Device do on fibers. Every actor computes step
/// after step, queues buckets as they become complete, and waits at the end of a step for the
/// gradient that it applies.
template <Collective C>
class StepReplay {
public:
    StepReplay(const StepWork& work, ReductionPlan<C> plan, const ReduceShape& shape,
               const ClusterSpec& spec, int steps, bool collapsed, const Slowness& slowness)
        : work_(work),
          slowness_(slowness),
          staleness_(shape.staleness),
          steps_(steps),
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
    [[nodiscard]] const CollectiveReplay<C>& reductions() const { return reductions_; }
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
        Nanoseconds exposed{};              // in the last step
        Nanoseconds communication{};        // for the last gradient that is collected
        std::vector<Nanoseconds> queued{};  // of each bucket of the gradients in flight
        bool backward = false;              // where kernels run one by one: in which pass,
        std::size_t kernel = 0, gate = 0;   // before which of them,
        Nanoseconds nominal{};              // how far the pass would be undisturbed,
        double jitter = 1;                  // and how slow it is
        Factor variation{};
    };
    static StepReplay& self(void* me) { return *static_cast<StepReplay*>(me); }
    static void reduced_event(void* me, std::uint64_t rank) { self(me).reduced(rank); }
    static void gate_event(void* me, std::uint64_t gate) {
        self(me).pass(gate >> 32, gate & 0xffffffffu);
    }
    static void kernel_event(void* me, std::uint64_t rank) {
        self(me).end_kernel(rank);
        self(me).run_kernels(rank);
    }
    static void computed_event(void* me, std::uint64_t rank) { self(me).computed(rank); }
    static void updated_event(void* me, std::uint64_t rank) { self(me).end(rank); }
    void at(Nanoseconds time, std::size_t rank, void (*f)(void*, std::uint64_t), std::uint64_t a) {
        engine_.at(time, static_cast<int>(rank), {f, this, a});
    }

    void begin(std::size_t rank) {
        if (slowness_.any()) {
            begin_pass(rank, false);
            return run_kernels(rank);
        }
        const Nanoseconds backward = engine_.now() + work_.forward;
        for (std::size_t g = 0; g < gates_.size(); ++g)
            at(backward + gates_[g].after, rank, gate_event, std::uint64_t{rank} << 32 | g);
        at(backward + work_.backward, rank, computed_event, rank);
    }
    void begin_pass(std::size_t rank, bool backward) {
        Rank& r = ranks_[rank];
        const auto number = 2 * static_cast<std::uint64_t>(r.step) + (backward ? 1 : 0);
        r.backward = backward;
        r.kernel = r.gate = 0;
        r.nominal = Nanoseconds(0);
        if (const double share = slowness_.compute_jitter; share != 0) {
            const Rng draws = Rng(slowness_.seed, "compute jitter").at(rank);
            r.jitter = 1.0 + share * (2.0 * draws.uniform(number) - 1.0);
        }
        r.variation = slowness_.variation.factor(slowness_.seed, static_cast<int>(rank), number);
    }
    [[nodiscard]] const std::vector<Nanoseconds>& kernels(const Rank& r) const {
        return r.backward ? work_.backward_kernels : work_.forward_kernels;
    }
    void run_kernels(std::size_t rank) {  // up to the next that takes time
        Rank& r = ranks_[rank];
        for (;;) {
            if (r.kernel == kernels(r).size()) {
                if (r.backward) return computed(rank);
                begin_pass(rank, true);
                continue;
            }
            Nanoseconds time = kernels(r)[r.kernel];
            if (time.count() > 0) {
                if (r.jitter != 1.0) time = scaled(time, r.jitter);
                time = slowness_.overlap.slowed(time * r.variation,
                                                reductions_.working(static_cast<int>(rank)));
                return at(engine_.now() + time, rank, kernel_event, rank);
            }
            end_kernel(rank);
        }
    }
    static Nanoseconds scaled(Nanoseconds time, double factor) {
        return Nanoseconds(
            static_cast<std::int64_t>(static_cast<double>(time.count()) * factor + 0.5));
    }
    void end_kernel(std::size_t rank) {
        Rank& r = ranks_[rank];
        r.nominal += kernels(r)[r.kernel++];
        while (r.backward && r.gate < gates_.size() && gates_[r.gate].after <= r.nominal)
            pass(rank, r.gate++);
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
    Slowness slowness_;
    int staleness_, steps_;
    std::int64_t buckets_;
    Engine engine_{};
    CollectiveReplay<C> reductions_;
    std::vector<Rank> ranks_;
    std::vector<Nanoseconds> ends_;
    std::vector<Gate> gates_{};
};

}  // namespace detail
}  // namespace gx::sim
