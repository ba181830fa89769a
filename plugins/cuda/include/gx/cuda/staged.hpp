// Staged<D>: a GPU for worlds that send from host memory: threads, MPI, the simulator.
#pragma once

#include <cstddef>   // size_t
#include <cstdint>   // int64_t
#include <cstdlib>   // getenv
#include <memory>    // unique_ptr
#include <optional>  // first_non_finite
#include <span>      // the host's memory
#include <string>    // names of layers
#include <utility>   // move
#include <vector>    // copies of the host

#include <gx/coordination/launch.hpp>    // local_rank_from
#include <gx/core/device.hpp>            // Device, Batch, DeviceOptions
#include <gx/core/error.hpp>             // DeviceLost, LostRank
#include <gx/cuda/device.hpp>            // Device
#include <gx/cuda/error.hpp>             // device_count
#include <gx/cuda/memory.hpp>            // GpuMemory
#include <gx/cuda/queue.hpp>             // DeviceContext, Queue
#include <gx/memory/aligned_buffer.hpp>  // AlignedBuffer
#include <gx/memory/buffer.hpp>          // Buffer
#include <gx/memory/queued_device.hpp>   // QueuedDevice

namespace gx::cuda {

/// Models gx::Device: passes run on a GPU, by D, and gradients, parameters and statistics lie in
/// the host's memory, where reducers and optimizers of any world work on them.
///
///     mpi::World<cuda::Staged<>> world;      // where there is no NCCL
///     Threads<2, cuda::Staged<>> threads;
///
/// The gradient of each parameter is copied through pinned memory on a stream of its own, as soon
/// as it is final, so that buckets are reduced beside the rest of backward. update() copies all
/// parameters to the GPU.
///
/// GPU:    the one that is given; else that of the process's local rank, as its launcher tells it,
///         or that of the rank, modulo the machine's GPUs, so that ranks may share one. Ranks that
///         are threads of one process that a launcher has started all share its GPU. One that is
///         lost is passed over, as the ranks that survive it are numbered anew.
/// Order:  the bits are those of D, and of the same run on a world of GPUs.
/// Errors: as D's and Queue's; gx::Error where there is no GPU. Where queued work is given up,
///         LostRank.
/// Threads: one at a time, which is that of its rank. Its current GPU stays what it was.
/// Cost:   a step moves a gradient and all parameters over the bus, and waits for its loss; memory
///         of the host: the parameters, and pinned twice a gradient. On the GPU: D, a gradient, and
///         parameters once more in to_canonical() and from_canonical(). An optimizer runs on one
///         core of the host. nccl::World does none of this.
template <class D = Device>
class Staged {
    static_assert(QueuedDevice<D>);

public:
    template <class E>
    static constexpr bool computes = computes_in<D, E>;
    static constexpr bool takes_pixels = TakesPixels<D>;
    static constexpr bool takes_second_labels = TakesSecondLabels<D>;

    Staged(const Graph& graph, DeviceOptions options)
        : Staged(gpu_of(options.rank), graph, std::move(options)) {}
    /// On that GPU.
    Staged(int gpu, const Graph& graph, DeviceOptions options)
        : Staged(gpu, graph, std::move(options), Current(gpu)) {}
    Staged(const Staged&) = delete;
    Staged& operator=(const Staged&) = delete;
    ~Staged() {
        try {
            current_.emplace(gpu());
        } catch (const Error&) {  // of a lost GPU, whose memory is gone
        }
    }

    [[nodiscard]] int gpu() const { return gpu_.device(); }

    ForwardReport forward(const Batch& batch, Mode mode) {
        const Current current(gpu());
        Queue& queue = inner_->queue();
        inner_->load(batch);
        queue.copy_in(std::span<const float>(statistics_), inner_->statistics(), {"statistics"});
        inner_->forward(mode, report_.template view<GpuMemory>());
        ForwardReport report;
        queue.copy_out(as_const(report_.template view<GpuMemory>()), std::span(&report, 1),
                       {"report"});
        queue.copy_out(as_const(inner_->statistics()), std::span(statistics_), {"statistics"});
        wait(queue);
        return report;
    }
    void backward(float scale, std::span<float> gradients, GradientsReady ready) {
        try {
            {
                const Current current(gpu());
                queue_backward(scale, gradients);
            }
            for (const Final& f : finals_) {
                {
                    const Current current(gpu());
                    wait(*copies_, f.event);
                }
                ready(f.watermark);  // another rank of this thread may run meanwhile
            }
        } catch (...) {  // nothing is copied to gradients that the caller may end
            const Current current(gpu());
            wait(*copies_);
            throw;
        }
    }

    [[nodiscard]] std::span<const float> parameters() const { return parameters_.span(); }
    [[nodiscard]] std::span<const ParameterSlice> slices() const { return inner_->slices(); }
    void update(FunctionRef<void(std::span<float>)> change) {
        change(parameters_.span());
        const Current current(gpu());
        inner_->update([&](ViewIn<float, GpuMemory> there) {
            inner_->queue().copy_in(std::span<const float>(parameters_.span()), there,
                                    {"parameters"});
        });
        wait(inner_->queue());
    }
    [[nodiscard]] std::span<float> statistics() { return statistics_; }

    void to_canonical(std::span<const float> mine, std::span<float> canonical) const {
        const Current current(gpu());
        Buffer<float> there = on_gpu(mine);
        inner_->to_canonical(as_const(there.view<GpuMemory>()), canonical);
    }
    void from_canonical(std::span<const float> canonical, std::span<float> mine) const {
        const Current current(gpu());
        Buffer<float> there = on_gpu(mine);
        inner_->from_canonical(canonical, there.view<GpuMemory>());
        inner_->queue().copy_out(as_const(there.view<GpuMemory>()), mine, {"copy out"});
        wait(inner_->queue());
    }
    [[nodiscard]] std::optional<std::string> first_non_finite() const {
        const Current current(gpu());
        return inner_->first_non_finite();
    }
    /// Of the last forward, until backward. Shapes: (count, classes), row-major.
    [[nodiscard]] std::vector<float> logits() const
        requires requires(D& d) { d.logits(); }
    {
        const Current current(gpu());
        return inner_->logits();
    }
    [[nodiscard]] std::string warning() const {
        if constexpr (requires { std::string(inner_->warning()); }) return inner_->warning();
        else return {};
    }

private:
    using Current = DeviceContext::Current;

    /// From where on gradients are final, and when the host has them.
    struct Final {
        std::size_t watermark;
        Event event;
    };

    Staged(int gpu, const Graph& graph, DeviceOptions options, const Current&) : gpu_(gpu) {
        inner_ = std::make_unique<D>(gpu_, graph, on_host(options));
        elements_ = std::ssize(inner_->parameters());
        parameters_ = AlignedBuffer<float>(elements_);
        statistics_.resize(inner_->statistics().size());
        gradients_ = {&gpu_.memory(), elements_, "gradients"};
        scale_ = {&gpu_.memory(), 1, "scale"};
        report_ = {&gpu_.memory(), 1, "report"};
        copies_.emplace(
            gpu_, "gradients",
            // For each parameter one event of its copy and one of its end: both are waited for.
            QueueOptions{.events = 2 * static_cast<int>(inner_->slices().size()) + 8,
                         .staging_bytes = (8 * static_cast<std::size_t>(elements_) / 64 + 1) * 64});
        finals_.reserve(inner_->slices().size() + 1);
        inner_->queue().copy_out(as_const(inner_->parameters()), parameters_.span(),
                                 {"parameters"});
        inner_->queue().copy_out(as_const(inner_->statistics()), std::span(statistics_),
                                 {"statistics"});
        wait(inner_->queue());
    }
    void queue_backward(float scale, std::span<float> gradients) {
        const auto all = gradients_.template view<GpuMemory>();
        inner_->queue().copy_in(std::span<const float>(&scale, 1),
                                scale_.template view<GpuMemory>(), {"scale"});
        finals_.clear();
        std::size_t end = gradients.size();
        const auto is_final = [&](std::size_t watermark, Event event) {
            copies_->wait_for(event);
            if (watermark < end)
                copies_->copy_out(as_const(all).subspan(watermark, end - watermark),
                                  gradients.subspan(watermark, end - watermark), {"gradients"});
            end = watermark;
            finals_.push_back({watermark, copies_->record()});
        };
        inner_->backward({as_const(scale_.template view<GpuMemory>())}, all, is_final);
    }
    static int gpu_of(int rank) {
        const auto local = coordination::local_rank_from(
            [](const char* name) -> const char* { return getenv(name); });
        const int gpus = device_count();
        for (int tried = 1;; ++tried) {
            const int gpu = (local.value_or(rank) + tried - 1) % gpus;
            try {
                const Current current(gpu);
                return DeviceContext(gpu).device();
            } catch (const DeviceLost&) {
                if (tried == gpus) throw;
            }
        }
    }
    /// The optimizer's state, the sums of micro-batches and other gradients are the host's.
    static DeviceOptions on_host(DeviceOptions o) {
        o.update.state_vectors = 0, o.update.micro_batches = o.gradients = 1;
        return o;
    }
    template <class T>
    static ViewIn<const T, GpuMemory> as_const(ViewIn<T, GpuMemory> v) {
        return v;
    }
    Buffer<float> on_gpu(std::span<const float> values) const {
        Buffer<float> there(&gpu_.memory(), std::ssize(values), "copy");
        inner_->queue().copy_in(values, there.view<GpuMemory>(), {"copy in"});
        wait(inner_->queue());
        return there;
    }
    static void wait(Queue& queue) { wait(queue, queue.record()); }
    static void wait(Queue& queue, Event event) {
        if (const Delivery d = queue.wait(event); !d.complete())
            throw LostRank({.operation = "waiting for the device"}, d);
    }

    std::optional<Current> current_{};  ///< while what follows ends
    mutable DeviceContext gpu_;
    std::int64_t elements_ = 0;
    AlignedBuffer<float> parameters_{};
    std::vector<float> statistics_{};
    Buffer<float> gradients_{}, scale_{};
    Buffer<ForwardReport> report_{};
    std::unique_ptr<D> inner_{};  // behind what its queue writes to: it ends first
    std::optional<Queue> copies_{};
    std::vector<Final> finals_{};
};

}  // namespace gx::cuda
