// sim::Device<Inner>: computes on another device and adds simulated time and memory.
#pragma once

#include <algorithm>    // max
#include <array>        // two buffers
#include <cstddef>      // byte
#include <cstdint>      // int64_t
#include <type_traits>  // conditional
#include <vector>       // watermarks

#include <gx/core/cold.hpp>                  // GX_COLD
#include <gx/core/device.hpp>                // Device, Batch
#include <gx/core/rng.hpp>                   // Rng: jitter
#include <gx/model/graph.hpp>                // Graph
#include <gx/sim/world/cluster.hpp>          // Cluster, ClusterOptions
#include <gx/sim/compute/ready_points.hpp>   // ready_points
#include <gx/sim/world/copy_stream.hpp>      // CopyStream
#include <gx/sim/compute/jitter.hpp>         // Factor
#include <gx/sim/compute/roofline.hpp>       // TimedGraph
#include <gx/sim/world/watermark_check.hpp>  // WatermarkCheck

namespace gx::sim {

/// A gx::Device that computes on `Inner` and adds the time of the cluster's GPU. A pass runs on
/// Inner at once, then virtual time passes operation by operation. Backward calls `ready` when the
/// operations that finish those gradients have taken their time. Evaluation costs a forward.
///
/// `ClusterOptions::timed_as` times another graph, and `timed_batch` another batch: a pass over
/// part of the trained batch costs the same part of the timed one, rounded up to whole images.
/// Gradient messages are then scaled to the timed graph's size (wire scale).
///
/// Errors: a timed batch that does not fit in the GPU throws gx::Error on construction, and so does
///         a backward of Inner that changes gradients after it has reported them as ready.
/// Order:  the numbers are Inner's to the bit; times depend on the seed only where jitter is asked
///         for, by one draw for each pass and rank.
template <class Inner>
class Device {
    static_assert(explain_device<Inner>());

public:
    using Rank = typename Cluster<Inner>::Rank;

    GX_COLD Device(const Graph& graph, DeviceOptions options, Rank& rank)
        : inner_(graph, options),
          rank_(rank),
          trained_graph_(graph),
          batch_(options.batch),
          timed_graph_(rank.options().timed_as ? *rank.options().timed_as : graph),
          timed_batch_(rank.options().timed_batch > 0 ? rank.options().timed_batch : options.batch),
          times_(timed_graph_, gpu(), rank.options().compute, rank.options().framework,
                 options.update),
          jitter_(Rng(rank.options().seed, "compute jitter")
                      .at(static_cast<std::uint64_t>(rank.rank()))),
          copies_(rank, {gpu().copy_engines, host_rate()}) {
        rank.expect_fits(timed_graph_, timed_batch_, options.update);
        for (int i = 0; i < 2; ++i) note_input(Access::begin, i, {Label("input buffer ") + i});
        note(Access::begin, inner_.parameters(), {"parameters"});
        const std::size_t real = inner_.parameters().size();
        if (!rank.options().timed_as) {
            ready_ = ready_points(graph, inner_.slices());
            return;
        }
        ready_ = ready_points(timed_graph_, real);
        if (real > 0)
            rank.wire_scale({timed_graph_.parameter_elements(), static_cast<std::int64_t>(real)});
    }

    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;
    ~Device() {
        note(Access::end, inner_.parameters(), {});
        for (int i = 0; i < 2; ++i) note_input(Access::end, i, {});
    }

    ForwardReport forward(const Batch& batch, Mode mode) {
        note(Access::read, inner_.parameters(), {"forward"});
        const ForwardReport report = inner_.forward(batch, mode);
        count_ = timed_count(batch.count);
        wait_for_input();
        note_input(Access::read, input_, {"forward", batches_});
        begin_pass();
        for (std::size_t i = 0; i < times_.ops().size(); ++i)
            spend(i, times_.ops()[i].forward(count_));
        return report;
    }
    void backward(float scale, std::span<float> gradients, GradientsReady ready) {
        note(Access::read, inner_.parameters(), {"backward"});
        note_input(Access::read, input_, {"backward", batches_});
        watermarks_.begin(gradients);
        inner_.backward(scale, gradients, [this](std::size_t w) { watermarks_.reported(w); });
        watermarks_.expect_final(trained_graph_, inner_.slices());
        begin_pass();
        std::size_t watermark = gradients.size();
        for (std::size_t i = times_.ops().size(); i-- > 0;) {
            spend(i, times_.ops()[i].backward(count_));
            if (ready_[i] >= watermark) continue;
            if (rank_.options().detect_races)
                note(Access::write, gradients.subspan(ready_[i], watermark - ready_[i]),
                     {Label("backward ") + timed_graph_.ops[i].name.view().substr(0, 54)});
            watermark = ready_[i];
            ready(watermark);
        }
    }
    void update(FunctionRef<void(std::span<float>)> change) {
        note(Access::write, inner_.parameters(), {"update"});
        inner_.update(change);
        rank_.charge(times_.update(), "update", Activity::compute);
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

    [[nodiscard]] Inner& inner() { return inner_; }
    [[nodiscard]] const Graph& timed_graph() const { return timed_graph_; }
    /// Timed images of a pass over `count` trained images.
    [[nodiscard]] int timed_count(int count) const {
        const std::int64_t images = std::int64_t{count} * timed_batch_;
        return static_cast<int>((images + batch_ - 1) / batch_);
    }
    [[nodiscard]] const TimedGraph& times() const { return times_; }
    /// Nominal time of a forward and a backward pass, and of an update: without jitter, slowdown or
    /// faults.
    [[nodiscard]] Nanoseconds undisturbed_pass(int count) const {
        return times_.forward(timed_count(count)) + times_.backward(timed_count(count));
    }
    [[nodiscard]] Nanoseconds undisturbed_update() const { return times_.update(); }
    /// Wire scale: elements of the timed gradient per element of the trained one.
    [[nodiscard]] double wire_scale() const {
        const auto timed = static_cast<double>(timed_graph_.parameter_elements());
        return ready_.empty() || !rank_.options().timed_as
                   ? 1.0
                   : timed / static_cast<double>(inner_.parameters().size());
    }

private:
    void note(Access access, std::span<const float> values, const Operation& operation) {
        gx::note(rank_.stream(), access, values, operation);
    }
    [[nodiscard]] const GpuSpec& gpu() const { return rank_.spec().machine.gpu; }
    [[nodiscard]] BytesPerSecond host_rate() const {  // default: 16 GB/s, PCIe 3 x16
        const BytesPerSecond stated = rank_.spec().machine.host_bandwidth;
        return stated.count > 0 ? stated : BytesPerSecond{16e9};
    }
    void note_input(Access access, int buffer, const Operation& operation) {
        if (rank_.options().copy_inputs)
            rank_.stream().note(access, std::span(inputs_).subspan(std::size_t(buffer), 1),
                                operation);
    }
    /// Waits until the batch has arrived, and begins to copy the next one into the other buffer.
    void wait_for_input() {
        if (!rank_.options().copy_inputs || count_ == 0) return;
        ++batches_;
        if (batches_ == 0) copy_input();  // nothing was copied ahead
        copies_.wait(copied_, "batch to the GPU");
        input_ = 1 - input_;
        copy_input();
    }
    void copy_input() {
        const std::int64_t element = rank_.options().compute == Precision::mixed ? 2 : 4;
        const Bytes bytes{timed_graph_.input.elements() * count_ * element};
        const std::int64_t batch = copied_.event.sequence;
        copied_ = copies_.copy(std::span(inputs_).subspan(std::size_t(1 - input_), 1), bytes,
                               CopyTo::gpu, {"copy of batch", batch});
    }
    void begin_pass() {
        const double share = rank_.options().compute_jitter;
        slowness_ = share == 0 ? 1.0 : 1.0 + share * (2.0 * jitter_.uniform(passes_) - 1.0);
        variation_ =
            factor_of_pass(rank_.options().variation, rank_.options().seed, rank_.rank(), passes_);
        ++passes_;
    }
    void spend(std::size_t op, Nanoseconds time) {
        if (time.count() == 0) return;
        if (slowness_ != 1.0)
            time = Nanoseconds(
                static_cast<std::int64_t>(static_cast<double>(time.count()) * slowness_ + 0.5));
        time = rank_.options().overlap_slowdown.slowed(time * variation_, rank_.stream().working());
        rank_.charge(time, timed_graph_.ops[op].name, Activity::compute);
    }

    Inner inner_;
    Rank& rank_;
    Graph trained_graph_;
    WatermarkCheck watermarks_{};
    int batch_;
    Graph timed_graph_;
    int timed_batch_;
    TimedGraph times_;
    Rng jitter_;
    std::vector<std::size_t> ready_{};
    std::uint64_t passes_ = 0;
    double slowness_ = 1.0;
    Factor variation_{};
    CopyStream<Rank> copies_;
    Copy copied_{};                      ///< of the next batch
    std::array<std::byte, 2> inputs_{};  ///< stand for two buffers of the GPU, a batch in each
    int input_ = 0;                      ///< the one that is computed on
    std::int64_t batches_ = -1;          ///< number of the batch in it
    int count_ = 0;
};

}  // namespace gx::sim
