// HostComputed<Inner>: a host's device that works in a GPU's memory, on its stream.
#pragma once

#include <algorithm>   // copy, sort
#include <cstdint>     // int32_t
#include <functional>  // function
#include <optional>    // a layer
#include <span>        // memory
#include <string>      // its name
#include <utility>     // exchange, move
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
    using Context = cuda::DeviceContext;
    template <class T>
    using View = ViewIn<T, Memory>;
    template <class E>
    static constexpr bool computes = computes_in<Inner, E>;
    static constexpr bool takes_pixels = TakesPixels<Inner>;
    static constexpr bool takes_second_labels = TakesSecondLabels<Inner>;

    HostComputed(cuda::DeviceContext& gpu, const Graph& graph, DeviceOptions options)
        : inner_(graph, options),
          queue_(gpu, "compute"),
          parameters_(&gpu.memory(), std::ssize(inner_.parameters()), "parameters"),
          statistics_(&gpu.memory(), std::ssize(inner_.statistics()), "statistics"),
          block_(&gpu.memory(), block_bytes(graph, options), "batch"),
          raw_(inner_.parameters().size()) {
        slices_.assign(inner_.slices().begin(), inner_.slices().end());
        std::ranges::sort(slices_, {}, &ParameterSlice::offset);
        queue_.copy_in(std::span<const float>(inner_.statistics()), statistics(), {"statistics"});
    }

    [[nodiscard]] cuda::Queue& queue() { return queue_; }

    void load(const Batch& batch, float rate = 0) { load(std::span(&batch, 1), rate); }
    /// One copy.
    void load(std::span<const Batch> parts, float rate) {
        host_.clear();
        loaded_.assign(parts.size(), {});
        next_ = 0;
        const auto pack = [&](auto Loaded::* to, auto Batch::* from) {
            for (std::size_t i = 0; i < parts.size(); ++i) loaded_[i].*to = packed(parts[i].*from);
        };
        for (std::size_t i = 0; i < parts.size(); ++i) {
            loaded_[i].draw = packed(std::span(&parts[i].draw, 1));
            loaded_[i].count = parts[i].count;
        }
        rate_ = packed(std::span<const float>(&rate, 1));
        loaded_[0].values = packed(parts[0].values);
        for (Loaded& part : loaded_) part.values = loaded_[0].values;
        pack(&Loaded::images, &Batch::images);
        pack(&Loaded::labels, &Batch::labels);
        pack(&Loaded::second_labels, &Batch::second_labels);
        pack(&Loaded::pixels, &Batch::pixels);
        queue_.copy_in(std::span<const std::byte>(host_),
                       block_.template view<Memory>().first(host_.size()), {"batch"});
    }
    [[nodiscard]] ScalarIn<float, Memory> rate() const { return {rate_}; }
    [[nodiscard]] int batch_slot() const { return 0; }
    void forward(Mode mode, View<ForwardReport> report) {
        const auto averages = statistics();
        const Loaded part = loaded_[std::exchange(next_, (next_ + 1) % loaded_.size())];
        enqueue("forward", [=, this, batch = part] {
            const std::span<float> a = written(averages, "forward");
            std::ranges::copy(a, inner_.statistics().begin());
            const ForwardReport done = inner_.forward(
                {read(batch.images, "forward"), read(batch.labels, "forward"), batch.count,
                 read(batch.draw, "forward")[0], read(batch.pixels, "forward"),
                 read(batch.values, "forward"), read(batch.second_labels, "forward")},
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
    [[nodiscard]] std::vector<float> logits()
        requires GivesLogits<Inner>
    {
        wait();
        return inner_.logits();
    }

private:
    struct Loaded {
        View<const float> images{}, values{};
        View<const std::int32_t> labels{};
        View<const SecondLabel> second_labels{};
        View<const std::uint8_t> pixels{};
        View<const std::uint64_t> draw{};
        int count = 0;
    };
    /// Draws, rate, pixel values, images or pixels, labels and second ones.
    static std::int64_t block_bytes(const Graph& graph, const DeviceOptions& o) {
        const std::int64_t parts = o.update.micro_batches, images = parts * o.batch;
        return 8 * (parts + 1) +
               4 * (256 * graph.input.channels + images * (graph.input.elements() + 3));
    }
    /// Where data of the batch will lie on the device; the host's copy of it is there.
    template <class T>
    [[nodiscard]] View<const T> packed(std::span<const T> from) {
        const auto part = std::as_bytes(from);
        const std::byte* const at = Memory::open(block_.template view<Memory>()).data;
        const auto* const there = reinterpret_cast<const T*>(at + host_.size());
        host_.insert(host_.end(), part.begin(), part.end());
        return Memory::view(there, from.size());
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
    Buffer<float> statistics_;
    Buffer<std::byte> block_;        ///< of the batch
    std::vector<std::byte> host_{};  ///< what it holds
    std::vector<Loaded> loaded_{};   ///< its parts
    std::size_t next_ = 0;           ///< the one that the next forward is of
    View<const float> rate_{};
    std::vector<float> raw_;  ///< gradients of the present backward
    std::vector<ParameterSlice> slices_{};
    std::optional<std::string> bad_layer_{};  ///< of the first forward whose loss was not finite
};

}  // namespace gx::cuda_testing
