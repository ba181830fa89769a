// DeviceTiming's members.
#pragma once

#include <cmath>   // llround
#include <string>  // sentences

#include <gx/core/error.hpp>                  // Error
#include <gx/sim/compute/ready_points.hpp>    // ready_points
#include <gx/sim/compute/vector_kernels.hpp>  // VectorKernels
#include <gx/sim/world/device_timing.hpp>     // the declarations

namespace gx::sim::detail {

namespace timing {
[[nodiscard]] inline const GpuSpec& gpu(const cluster::RankBase& rank) {
    return rank.spec().machine.gpu;
}
[[nodiscard]] inline BytesPerSecond host_rate(const cluster::RankBase& rank) {
    const BytesPerSecond stated = rank.spec().machine.host_bandwidth;
    return stated.count > 0 ? stated : BytesPerSecond{16e9};  // default: 16 GB/s, PCIe 3 x16
}
inline void expect_timed_in(const DeviceOptions& device, Precision timed, const GpuSpec& gpu) {
    const auto wanted = device.tf32                           ? Precision::tf32
                        : device.compute == ElementType::fp32 ? timed
                                                              : Precision::mixed;
    const std::string name(device.tf32 ? tf32::name : to_string(device.compute));
    if (timed != wanted)
        throw Error("devices compute in " + name + ", and this cluster times kernels in " +
                    std::string(to_string(timed)) + ". Fix: ClusterOptions{.compute = " +
                    "sim::Precision::" + std::string(to_string(wanted)) + "}, or leave Compute<" +
                    name + "> out of the Trainer.");
    if (device.tf32 && gpu.tf32.count <= 0)
        throw Error("GPU " + std::string(gpu.name.view()) +
                    " has no tensor cores for tf32, which begins with Ampere. Fix: another GPU, "
                    "or leave Compute<tf32> out of the Trainer.");
}
}  // namespace timing

GX_DECL DeviceTiming::Shape DeviceTiming::shape_of(const Graph& trained,
                                                   const DeviceOptions& options, const Rank& rank) {
    const ClusterOptions& o = rank.options();
    const auto batch = [&](int timed) {  // of one pass
        const int parts = options.update.micro_batches;
        return timed > 0 ? (timed - 1) / parts + 1 : options.batch;
    };
    const auto refuse = [&](const std::string& why) {
        throw Error("phase " + std::to_string(options.phase + 1) + " of the run " + why +
                    ": list in ClusterOptions::timed_phases what each phase is timed as.");
    };
    if (!o.timed_phases.empty()) {
        if (std::size_t(options.phase) >= o.timed_phases.size())
            refuse("is none of the " + std::to_string(o.timed_phases.size()) +
                   " that the cluster times");
        const TimedPhase& timed = o.timed_phases[std::size_t(options.phase)];
        return {timed.graph, batch(timed.batch), true};
    }
    if (options.phase > 0 && o.timed_as)
        refuse("would be timed as " + std::string(o.timed_as->name.view()) + " with images of " +
               std::to_string(o.timed_as->input.height) + " x " +
               std::to_string(o.timed_as->input.width) + ", as the first phase is");
    if (options.phase > 0 && o.timed_batch > 0)
        refuse("would be timed with " + std::to_string(o.timed_batch) +
               " images, as the first phase is");
    return {o.timed_as ? *o.timed_as : trained, batch(o.timed_batch), o.timed_as.has_value()};
}
GX_DECL void DeviceTiming::expect_fits(const Graph& trained, const DeviceOptions& options,
                                       Rank& rank) {
    const Shape timed = shape_of(trained, options, rank);
    rank.expect_fits(timed.graph, timed.batch, options.update);
}

GX_DECL DeviceTiming::DeviceTiming(const Graph& graph, DeviceOptions options, Rank& rank)
    : DeviceTiming(graph, options, rank, shape_of(graph, options, rank)) {}
GX_DECL DeviceTiming::DeviceTiming(const Graph& graph, DeviceOptions options, Rank& rank,
                                   Shape timed)
    : rank_(rank),
      trained_graph_(graph),
      batch_(options.batch),
      timed_graph_(timed.graph),
      timed_batch_(timed.batch),
      timed_as_(timed.other),
      times_(timed_graph_, timing::gpu(rank), rank.options().compute, rank.options().framework,
             options.update),
      jitter_(
          Rng(rank.options().seed, "compute jitter").at(static_cast<std::uint64_t>(rank.rank()))),
      copies_(rank, {timing::gpu(rank).copy_engines, timing::host_rate(rank)}) {
    timing::expect_timed_in(options, rank.options().compute, timing::gpu(rank));
    rank.expect_fits(timed_graph_, timed_batch_, options.update);
    whole_update_ = times_.update();
    if (options.update.shards > 1) {
        options.update.shards = 1;
        whole_update_ = TimedGraph(timed_graph_, timing::gpu(rank), rank.options().compute,
                                   rank.options().framework, options.update)
                            .update();
    }
}

GX_DECL void DeviceTiming::begin(std::span<const float> parameters,
                                 std::span<const ParameterSlice> slices) {
    for (int i = 0; i < 2; ++i) note_input(Access::begin, i, {Label("input buffer ") + i});
    note(Access::begin, parameters, {"parameters"});
    rank_.begins(*this);
    parameters_ = parameters.size();
    if (!timed_as_) {
        ready_ = sim::ready_points(trained_graph_, slices);
        return;
    }
    ready_ = sim::ready_points(timed_graph_, parameters_);
    if (parameters_ > 0)
        rank_.wire_scale(
            {timed_graph_.parameter_elements(), static_cast<std::int64_t>(parameters_)});
}
GX_DECL void DeviceTiming::end(std::span<const float> parameters) {
    note(Access::end, parameters, {});
    rank_.ends(*this);
    for (int i = 0; i < 2; ++i) note_input(Access::end, i, {});
}

GX_DECL void DeviceTiming::reads(std::span<const float> parameters, const char* pass) {
    note(Access::read, parameters, {pass});
}
GX_DECL void DeviceTiming::receives(std::span<const float> parameters) {
    note(Access::write, parameters, {"parameters from other ranks"});
}
GX_DECL void DeviceTiming::await(int count, bool pixels) {
    count_ = timed_count(count);
    pixels_ = pixels;
    wait_for_input();
    arrived_ = true;
}
GX_DECL void DeviceTiming::forward(int count, bool pixels) {
    if (!arrived_) await(count, pixels);
    arrived_ = false;
    note_input(Access::read, input_, {"forward", batches_});
    begin_pass();
    for (std::size_t i = 0; i < times_.ops().size(); ++i) spend(i, times_.ops()[i].forward(count_));
}
GX_DECL void DeviceTiming::begin_backward(std::span<const float> gradients) {
    note_input(Access::read, input_, {"backward", batches_});
    watermarks_.begin(gradients);
}
GX_DECL void DeviceTiming::backward(Pass& pass, std::span<float> gradients,
                                    std::span<const ParameterSlice> slices, GradientsReady ready) {
    begin_pass();
    const auto finish = [&] {
        pass.finish();
        watermarks_.expect_final(trained_graph_, slices);
    };
    std::size_t watermark = gradients.size();
    for (std::size_t i = times_.ops().size(); i-- > 0;) {
        spend(i, times_.ops()[i].backward(count_));
        if (ready_[i] >= watermark) continue;
        if (watermark == gradients.size()) finish();
        if (rank_.options().detect_races)
            note(Access::write, gradients.subspan(ready_[i], watermark - ready_[i]),
                 {Label("backward ") + timed_graph_.ops[i].name.view().substr(0, 54)});
        watermark = ready_[i];
        ready(watermark);
    }
    if (watermark == gradients.size()) finish();  // nothing is trained
}
GX_DECL void DeviceTiming::begin_update(std::span<const float> parameters) {
    note(Access::write, parameters, {"update"});
}
GX_DECL void DeviceTiming::update() { rank_.charge(times_.update(), "update", Activity::compute); }

GX_DECL Nanoseconds DeviceTiming::add(std::size_t elements) {
    const auto timed = std::llround(static_cast<double>(elements) * rank_.wire_scale());
    const Bytes traffic{3 * 4 * std::int64_t{timed}};
    const Nanoseconds time = VectorKernels(timing::gpu(rank_)).time(traffic);
    rank_.charge(time, "add gradients", Activity::compute);
    return time;
}

GX_DECL Nanoseconds DeviceTiming::undisturbed_pass(int count) const {
    return times_.forward(timed_count(count)) + times_.backward(timed_count(count));
}

GX_DECL void DeviceTiming::note(Access access, std::span<const float> values,
                                const Operation& operation) {
    gx::note(rank_.stream(), access, values, operation);
}
GX_DECL void DeviceTiming::note_input(Access access, int buffer, const Operation& operation) {
    if (rank_.options().copy_inputs)
        rank_.stream().note(access, std::span(inputs_).subspan(std::size_t(buffer), 1), operation);
}

/// Waits until the batch has arrived, and begins to copy the next one into the other buffer.
GX_DECL void DeviceTiming::wait_for_input() {
    if (!rank_.options().copy_inputs || count_ == 0) return;
    ++batches_;
    if (batches_ == 0) copy_input();  // nothing was copied ahead
    copies_.wait(copied_, "batch to the GPU");
    input_ = 1 - input_;
    copy_input();
}
GX_DECL void DeviceTiming::copy_input() {
    const std::int64_t computed = rank_.options().compute == Precision::mixed ? 2 : 4;
    const std::int64_t element = pixels_ ? 1 : computed;
    const Bytes bytes{timed_graph_.input.elements() * count_ * element};
    const std::int64_t batch = copied_.event.sequence;
    copied_ = copies_.copy(std::span(inputs_).subspan(std::size_t(1 - input_), 1), bytes,
                           CopyTo::gpu, {"copy of batch", batch});
}

GX_DECL void DeviceTiming::begin_pass() {
    const double share = rank_.options().compute_jitter;
    const std::uint64_t pass = rank_.next_pass();
    slowness_ = share == 0 ? 1.0 : 1.0 + share * (2.0 * jitter_.uniform(pass) - 1.0);
    const ClusterOptions& o = rank_.options();
    GpuVariation variation = o.variation;
    if (!o.gpu_factors.empty()) variation.gpu = {};
    variation_ = factor_of_pass(variation, o.seed, rank_.rank(), pass);
    if (!o.gpu_factors.empty())
        variation_ = o.gpu_factors[static_cast<std::size_t>(rank_.rank())] * variation_;
}
GX_DECL void DeviceTiming::spend(std::size_t op, Nanoseconds time) {
    if (time.count() == 0) return;
    if (slowness_ != 1.0)
        time = Nanoseconds(
            static_cast<std::int64_t>(static_cast<double>(time.count()) * slowness_ + 0.5));
    time = rank_.options().overlap_slowdown.slowed(time * variation_, rank_.stream().working());
    rank_.charge(time, timed_graph_.ops[op].name, Activity::compute);
}

// ---- What the rank says of its device -----------------------------------------------------

namespace cluster {

GX_DECL const DeviceTiming& RankBase::timing() const {
    GX_EXPECT(!devices_.empty(), "the rank has a device");
    return *devices_.back();
}
GX_DECL int RankBase::timed_count(int count) const { return timing().timed_count(count); }
GX_DECL Nanoseconds RankBase::undisturbed_pass(int count) const {
    return timing().undisturbed_pass(count);
}
GX_DECL Nanoseconds RankBase::undisturbed_update() const { return timing().undisturbed_update(); }

}  // namespace cluster

}  // namespace gx::sim::detail
