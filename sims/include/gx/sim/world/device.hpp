// sim::Device<Inner>: computes on another device and adds simulated time and memory.
#pragma once

#include <cstddef>   // size_t
#include <optional>  // first_non_finite
#include <span>      // flat vectors
#include <string>    // names of layers
#include <vector>    // logits

#include <gx/core/cold.hpp>                // GX_COLD
#include <gx/core/device.hpp>              // Device, Batch
#include <gx/memory/kernels.hpp>           // DecodeAdd
#include <gx/memory/queue.hpp>             // launch
#include <gx/model/graph.hpp>              // Graph
#include <gx/sim/compute/roofline.hpp>     // TimedGraph
#include <gx/sim/world/cluster.hpp>        // Cluster, ClusterOptions
#include <gx/sim/world/device_timing.hpp>  // DeviceTiming
#include <gx/sim/world/pass_workers.hpp>   // Pass

namespace gx::sim {

/// A gx::Device that computes on `Inner` and adds the time of the cluster's GPU. A pass begins on
/// Inner, virtual time passes operation by operation, and Inner's pass has ended when its first
/// number is needed: passes of several ranks are computed beside each other by
/// ClusterOptions::threads of the host, where Inner has ConcurrentPasses. Backward calls `ready`
/// when the operations that finish those gradients have taken their time. Evaluation costs a
/// forward.
///
/// `ClusterOptions::timed_as` times another graph, and `timed_batch` another batch: a pass over
/// part of the trained batch costs the same part of the timed one, rounded up to whole images, and
/// so does each of a step's micro-batches.
/// Gradient messages are then scaled to the timed graph's size (wire scale). A run of several
/// phases needs `timed_phases` in their place: a graph, and so an image size, and a batch for each
/// phase. Without any of them, each phase is timed as it is trained.
///
/// Inner computes in the element of the Trainer's Compute<E>; time and memory are those of
/// `ClusterOptions::compute`. With fp32 that may be any precision, of kernels that only the clock
/// knows; with fp16 or bf16 it is Precision::mixed, and bf16 takes the time of fp16; with tf32 it
/// is Precision::tf32.
///
/// Errors: a timed batch that does not fit in the GPU throws gx::Error on construction, and so do
///         Compute<fp16> and Compute<bf16> on a cluster that times another precision than mixed,
///         and a backward of Inner that changes gradients after it has reported them as ready.
/// Order:  the numbers are Inner's to the bit; times depend on the seed only where jitter is asked
///         for, by one draw for each pass and rank.
template <class Inner>
class Device {
    static_assert(explain_device<Inner>());

public:
    using Rank = typename Cluster<Inner>::Rank;
    template <class E>
    static constexpr bool computes = computes_in<Inner, E>;
    static constexpr bool takes_pixels = TakesPixels<Inner>;
    static constexpr bool takes_second_labels = TakesSecondLabels<Inner>;

    GX_COLD Device(const Graph& graph, DeviceOptions options, Rank& rank)
        : workers_(ConcurrentPasses<Inner> ? rank.pass_workers() : nullptr),
          inner_(graph, shared(options, workers_)),
          timing_(graph, options, rank) {
        timing_.begin(inner_.parameters(), inner_.slices());
    }
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;
    GX_COLD ~Device() { timing_.end(inner_.parameters()); }

    /// Errors: gx::Error where such a device could not be built, as it does not fit in the GPU or
    ///         ClusterOptions does not say how its phase is timed.
    GX_COLD static void expect_fits(const Graph& graph, const DeviceOptions& options, Rank& rank) {
        detail::DeviceTiming::expect_fits(graph, options, rank);
    }

    /// Waits until the batch of the next forward() has arrived, which else waits for it itself.
    void await(const Batch& batch) { timing_.await(batch.count, !batch.pixels.empty()); }
    ForwardReport forward(const Batch& batch, Mode mode) {
        timing_.reads(inner_.parameters(), "forward");
        ForwardReport report;
        const auto compute = [&] { report = inner_.forward(batch, mode); };
        detail::Pass pass(workers_, compute);
        timing_.forward(batch.count, !batch.pixels.empty());
        pass.finish();
        return report;
    }
    void backward(float scale, std::span<float> gradients, GradientsReady ready) {
        timing_.reads(inner_.parameters(), "backward");
        timing_.begin_backward(gradients);
        const auto compute = [&] {
            inner_.backward(scale, gradients, [this](std::size_t w) { timing_.reported(w); });
        };
        detail::Pass pass(workers_, compute);
        timing_.backward(pass, gradients, inner_.slices(), ready);
    }
    void update(FunctionRef<void(std::span<float>)> change) {
        timing_.begin_update(inner_.parameters());
        inner_.update(change);
        timing_.update();
    }

    /// to += from, in the time of a kernel, which it returns without faults.
    Nanoseconds add(std::span<const float> from, std::span<float> to) {
        launch(HostQueue{}, kernels::DecodeAdd<fp32>{}, from, to);
        return timing_.add(from.size());
    }

    /// As update(), but for its time: only messages and a reducer's kernels take any.
    void receive(FunctionRef<void(std::span<float>)> change) {
        timing_.receives(inner_.parameters());
        inner_.update(change);
    }

    [[nodiscard]] std::span<const float> parameters() const { return inner_.parameters(); }
    [[nodiscard]] std::span<const ParameterSlice> slices() const { return inner_.slices(); }
    [[nodiscard]] std::span<float> statistics() { return inner_.statistics(); }
    void to_canonical(std::span<const float> mine, std::span<float> canonical) const {
        inner_.to_canonical(mine, canonical);
    }
    void from_canonical(std::span<const float> canonical, std::span<float> mine) const {
        inner_.from_canonical(canonical, mine);
    }
    [[nodiscard]] std::optional<std::string> first_non_finite() const {
        return inner_.first_non_finite();
    }

    /// Of the last forward, where the device below gives them.
    [[nodiscard]] std::vector<float> logits() const
        requires requires(const Inner& d) { d.logits(); }
    {
        return inner_.logits();
    }

    [[nodiscard]] Inner& inner() { return inner_; }
    [[nodiscard]] const Graph& timed_graph() const { return timing_.graph(); }
    [[nodiscard]] const TimedGraph& times() const { return timing_.times(); }

private:
    static DeviceOptions shared(DeviceOptions options, const detail::PassWorkers* workers) {
        if (workers) options.at_once = workers->threads();
        return options;
    }

    detail::PassWorkers* workers_;
    Inner inner_;
    detail::DeviceTiming timing_;
};

}  // namespace gx::sim
