// HostComputed<Inner>: a device of the host's that works in the memory and on a stream of a GPU.
#pragma once

#include <algorithm>   // copy, sort
#include <cstdint>     // int32_t
#include <functional>  // function
#include <optional>    // a layer
#include <span>        // memory
#include <string>      // its name
#include <utility>     // move
#include <vector>      // gradients

#include <gx/core/device.hpp>           // Device, Batch
#include <gx/core/error.hpp>            // LostRank
#include <gx/cuda/error.hpp>            // expect
#include <gx/cuda/launch.hpp>           // launch
#include <gx/cuda/queue.hpp>            // DeviceContext, Queue
#include <gx/cuda/queued_call.hpp>      // queued_call
#include <gx/cuda_testing/hooks.hpp>    // enqueue_kernel, report_access
#include <gx/memory/buffer.hpp>         // Buffer
#include <gx/memory/queued_device.hpp>  // QueuedDevice
#include <gx/model/graph.hpp>           // Graph

namespace gx::cuda_testing {

/// Computes as Inner does, with its bits, in kernels of the runtime's double. Batches, parameters,
/// statistics, gradients and reports lie in the memory of the GPU, where the double sees each
/// access; activations are Inner's. A backward gives the gradients of each parameter an event of
/// its own, from the end down, and an update is followed by a refresh of what passes compute with,
/// as on a GPU with a copy in another element.
template <Device Inner>
class HostComputed {
public:
    using Memory = cuda::GpuMemory;
    template <class T>
    using View = ViewIn<T, Memory>;
    template <class E>
    static constexpr bool computes = computes_in<Inner, E>;
    static constexpr bool takes_pixels = TakesPixels<Inner>;

    HostComputed(cuda::DeviceContext& gpu, const Graph& graph, DeviceOptions options)
        : inner_(graph, options),
          queue_(gpu, "compute"),
          parameters_(&gpu.memory(), std::ssize(inner_.parameters()), "parameters"),
          statistics_(&gpu.memory(), std::ssize(inner_.statistics()), "statistics"),
          images_(&gpu.memory(), elements(graph, options), "images"),
          labels_(&gpu.memory(), options.batch, "labels"),
          pixels_(&gpu.memory(), takes_pixels ? elements(graph, options) : 0, "pixels"),
          values_(&gpu.memory(), takes_pixels ? 256 * graph.input.channels : 0, "pixel values"),
          draw_(&gpu.memory(), 1, "draw"),
          raw_(inner_.parameters().size()) {
        slices_.assign(inner_.slices().begin(), inner_.slices().end());
        std::ranges::sort(slices_, {}, &ParameterSlice::offset);
        queue_.copy_in(std::span<const float>(inner_.statistics()), statistics(), {"statistics"});
    }

    [[nodiscard]] cuda::Queue& queue() { return queue_; }

    void load(const Batch& batch) {
        loaded_ = {copied(batch.images, images_),
                   copied(batch.values, values_),
                   copied(batch.labels, labels_),
                   copied(batch.pixels, pixels_),
                   copied(std::span(&batch.draw, 1), draw_),
                   batch.count};
    }
    [[nodiscard]] int batch_slot() const { return 0; }
    void forward(Mode mode, View<ForwardReport> report) {
        const auto averages = statistics();
        enqueue("forward", [=, this, batch = loaded_] {
            const std::span<float> a = written(averages, "forward");
            std::ranges::copy(a, inner_.statistics().begin());
            const ForwardReport done =
                inner_.forward({read(batch.images, "forward"), read(batch.labels, "forward"),
                                batch.count, read(batch.draw, "forward")[0],
                                read(batch.pixels, "forward"), read(batch.values, "forward")},
                               mode);
            if (!done.finite && !bad_layer_) bad_layer_ = inner_.first_non_finite();
            written(report, "forward")[0] = done;
            std::ranges::copy(inner_.statistics(), a.begin());
        });
    }

    void backward(ScalarIn<float, Memory> scale, View<float> gradients, GradientsQueued ready) {
        enqueue("backward", [=, this] {
            inner_.backward(read(scale.at, "backward")[0], raw_, [](std::size_t) {});
        });
        std::size_t end = gradients.size();
        for (std::size_t i = slices_.size(); i-- > 0;) {
            const std::size_t begin = i == 0 ? 0 : slices_[i].offset;
            gradient(gradients.subspan(begin, end - begin), begin);
            ready(begin, queue_.record());
            end = begin;
        }
        if (end > 0) gradient(gradients.first(end), 0);
        ready(0, queue_.record());
    }

    [[nodiscard]] View<const float> parameters() const { return parameters_.view<Memory>(); }
    [[nodiscard]] std::span<const ParameterSlice> slices() const { return inner_.slices(); }
    void update(FunctionRef<void(View<float>)> change) {
        change(parameters_.view<Memory>());
        enqueue("refresh", [this, mine = parameters()] {
            const std::span<const float> from = read(mine, "refresh");
            inner_.update([&](std::span<float> p) { std::ranges::copy(from, p.begin()); });
        });
    }
    [[nodiscard]] View<float> statistics() { return statistics_.view<Memory>(); }
    void to_canonical(View<const float> mine, std::span<float> canonical) {
        std::vector<float> here(mine.size());
        queue_.copy_out(mine, std::span(here), {"copy out"});
        wait();
        inner_.to_canonical(here, canonical);
    }
    void from_canonical(std::span<const float> canonical, View<float> mine) {
        std::vector<float> here(mine.size());
        inner_.from_canonical(canonical, here);
        queue_.copy_in(std::span<const float>(here), mine, {"copy in"});
        wait();
    }
    [[nodiscard]] std::optional<std::string> first_non_finite() {
        wait();
        return bad_layer_;
    }

private:
    struct Loaded {
        View<const float> images{}, values{};
        View<const std::int32_t> labels{};
        View<const std::uint8_t> pixels{};
        View<const std::uint64_t> draw{};
        int count = 0;
    };
    static std::int64_t elements(const Graph& graph, const DeviceOptions& o) {
        return std::int64_t{o.batch} * graph.input.channels * graph.input.height *
               graph.input.width;
    }
    /// A batch's part on the device.
    template <class T>
    [[nodiscard]] View<const T> copied(std::span<const T> from, Buffer<T>& to) {
        const auto part = to.template view<Memory>().first(from.size());
        queue_.copy_in(from, part, {"batch"});
        return part;
    }
    void enqueue(const char* name, std::function<void()> run) {
        const auto call = [&] { return enqueue_kernel(queue_.stream(), name, std::move(run)); };
        cuda::expect(cuda::queued_call(name, call), name + std::string(" of queue 'compute'"),
                     queue_.context().device());
    }
    /// What a kernel reads or writes: inside of it, as the host's memory.
    template <class T>
    static std::span<const T> read(View<const T> v, const char* kernel) {
        const auto memory = Memory::open(v);
        report_access(memory.data, v.size_bytes(), false, kernel);
        return {memory.data, v.size()};
    }
    template <class T>
    static std::span<T> written(View<T> v, const char* kernel) {
        const auto memory = Memory::open(v);
        report_access(memory.data, v.size_bytes(), true, kernel);
        return {memory.data, v.size()};
    }
    void wait() {
        if (const Delivery d = queue_.wait(queue_.record()); !d.complete())
            throw LostRank({.operation = "waiting for the device"}, d);
    }
    void gradient(View<float> part, std::size_t begin) {
        enqueue("gradient", [this, part, begin] {
            std::copy_n(raw_.begin() + static_cast<std::ptrdiff_t>(begin), part.size(),
                        written(part, "gradient").begin());
        });
    }

    Inner inner_;
    cuda::Queue queue_;
    mutable Buffer<float> parameters_;
    Buffer<float> statistics_, images_;
    Buffer<std::int32_t> labels_;
    Buffer<std::uint8_t> pixels_;
    Buffer<float> values_;
    Buffer<std::uint64_t> draw_;
    Loaded loaded_{};
    std::vector<float> raw_;  ///< gradients of the present backward
    std::vector<ParameterSlice> slices_{};
    std::optional<std::string> bad_layer_{};  ///< of the first forward whose loss was not finite
};

}  // namespace gx::cuda_testing
