// sim::Device<Inner>: the numbers of a real device, the time and the memory of a simulated GPU.
#pragma once

#include <algorithm>    // max
#include <array>        // two buffers
#include <cstddef>      // byte
#include <cstdint>      // int64_t
#include <type_traits>  // conditional
#include <vector>       // watermarks

#include <gx/core/cold.hpp>  // GX_COLD
#include <gx/core/device.hpp>   // Device, Batch
#include <gx/core/rng.hpp>      // Rng: jitter
#include <gx/model/graph.hpp>   // Graph
#include <gx/sim/cluster.hpp>   // Cluster, ClusterOptions
#include <gx/sim/copy_stream.hpp>  // CopyStream
#include <gx/sim/memory.hpp>    // expect_fits
#include <gx/sim/roofline.hpp>  // TimedGraph

namespace gx::sim {

/// When gradients become ready: after the backward of which operation, which watermark.
/// The trained graph: element by element, as its device lays them out.
GX_COLD [[nodiscard]] inline std::vector<std::size_t> ready_points(
    const Graph& graph, std::span<const ParameterSlice> slices) {
    std::vector<std::size_t> end_of(graph.parameters.size(), 0);
    for (const ParameterSlice& s : slices)
        end_of[static_cast<std::size_t>(s.parameter)] = s.offset + s.count;
    std::vector<std::size_t> after(graph.ops.size(), 0);  // ends of all parameters of earlier ops
    std::size_t end = 0;
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
        after[i] = end;
        for (int p = 0; p < graph.ops[i].parameter_count; ++p)
            end = std::max(end, end_of[static_cast<std::size_t>(graph.ops[i].first_parameter + p)]);
    }
    return after;
}
/// Another graph: the same share of `real` elements as of the timed graph's, rounded up, so that
/// no gradient is ready before its share of the timed ones is.
GX_COLD [[nodiscard]] inline std::vector<std::size_t> ready_points(
    const Graph& timed, std::size_t real) {
    const auto total = static_cast<std::uint64_t>(timed.parameter_elements());
    std::vector<std::size_t> after(timed.ops.size(), 0);
    std::uint64_t end = 0;
    for (std::size_t i = 0; i < timed.ops.size(); ++i) {
        after[i] = total == 0 ? 0 : static_cast<std::size_t>((real * end + total - 1) / total);
        for (int p = 0; p < timed.ops[i].parameter_count; ++p) {
            const auto& q =
                timed.parameters[static_cast<std::size_t>(timed.ops[i].first_parameter + p)];
            end = std::max(end, static_cast<std::uint64_t>(q.offset + q.count));
        }
    }
    return after;
}

/// A gx::Device. The numbers are `Inner`'s: a pass runs on it at once, then virtual time passes
/// operation by operation, on the GPU of the cluster. Backward calls `ready` when the operations
/// that finish those gradients have taken their time. Evaluating costs the time of a forward.
///
/// `ClusterOptions::timed_as` times another graph, and `timed_batch` another batch: a pass over
/// part of the trained batch costs the same part of the timed one, rounded up to whole images.
/// Messages of gradients are then stretched to the timed graph's size.
///
/// Errors: a timed batch that does not fit in the GPU throws gx::Error on construction.
/// Order:  the numbers are Inner's to the bit; times depend on the seed only where jitter is asked
///         for, by one draw for each pass and rank.
template <class Inner>
class Device {
    static_assert(explain_device<Inner>());

public:
    using Rank = typename Cluster<Inner>::Rank;

    GX_COLD Device(const Graph& graph, DeviceOptions options, Rank& rank)
        : inner_(graph, options), rank_(rank), batch_(options.batch),
          timed_graph_(rank.options().timed_as ? *rank.options().timed_as : graph),
          timed_batch_(rank.options().timed_batch > 0 ? rank.options().timed_batch : options.batch),
          times_(timed_graph_, gpu(), rank.options().compute, rank.options().framework),
          jitter_(Rng(rank.options().seed, "compute jitter").at(
              static_cast<std::uint64_t>(rank.rank()))),
          copies_(rank, {gpu().copy_engines, host_rate()}) {
        rank.expect_fits(timed_graph_, timed_batch_);
        for (int i = 0; i < 2; ++i) note_input(Access::begin, i, {Label("input buffer ") + i});
        note(Access::begin, inner_.parameters(), {"parameters"});
        const std::size_t real = inner_.parameters().size();
        if (!rank.options().timed_as) {
            ready_ = ready_points(graph, inner_.slices());
            return;
        }
        ready_ = ready_points(timed_graph_, real);
        if (real > 0)
            rank.stretch({timed_graph_.parameter_elements(), static_cast<std::int64_t>(real)});
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
        inner_.backward(scale, gradients, [](std::size_t) {});
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
    /// Images that a pass over `count` trained images is timed as.
    [[nodiscard]] int timed_count(int count) const {
        const std::int64_t images = std::int64_t{count} * timed_batch_;
        return static_cast<int>((images + batch_ - 1) / batch_);
    }
    [[nodiscard]] const TimedGraph& times() const { return times_; }
    /// Elements of a timed gradient for each element of a trained one.
    [[nodiscard]] double stretch() const {
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
    [[nodiscard]] BytesPerSecond host_rate() const {  // 16 GB/s, PCIe 3 x16, where none is told
        const BytesPerSecond told = rank_.spec().machine.host_bandwidth;
        return told.count > 0 ? told : BytesPerSecond{16e9};
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
        variation_ = rank_.options().variation.factor(rank_.options().seed, rank_.rank(), passes_);
        ++passes_;
    }
    void spend(std::size_t op, Nanoseconds time) {
        if (time.count() == 0) return;
        if (slowness_ != 1.0)
            time = Nanoseconds(static_cast<std::int64_t>(
                static_cast<double>(time.count()) * slowness_ + 0.5));
        time = rank_.options().overlap_slowdown.slowed(time * variation_, rank_.stream().working());
        rank_.charge(time, timed_graph_.ops[op].name, Activity::compute);
    }

    Inner inner_;
    Rank& rank_;
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
    Copy copied_{};                        ///< of the next batch
    std::array<std::byte, 2> inputs_{};    ///< stand for two buffers of the GPU, a batch in each
    int input_ = 0;                        ///< the one that is computed on
    std::int64_t batches_ = -1;            ///< number of the batch in it
    int count_ = 0;
};

}  // namespace gx::sim
