// Evaluator<Device>: a network with fixed weights, run forward alone, on any device.
#pragma once

#include <algorithm>    // copy
#include <concepts>     // same_as, constructible_from
#include <optional>     // the current GPU
#include <span>         // parameters
#include <type_traits>  // remove_cvref_t
#include <utility>      // declval
#include <vector>       // logits

#include <gx/core/device.hpp>           // Device, GivesLogits
#include <gx/core/error.hpp>            // Error
#include <gx/memory/buffer.hpp>         // Buffer
#include <gx/memory/queued_device.hpp>  // QueuedDevice
#include <gx/model/graph.hpp>           // Graph
#include <gx/trainer/weights.hpp>       // Weights

namespace gx {

struct EvaluatorOptions {
    int batch = 16;  ///< images that the device computes at once
    int gpu = 0;     ///< number of the GPU, where the device computes on one
};

/// Whether an Evaluator runs D; stops at the first thing that is missing.
template <class D>
consteval bool explain_evaluated() {
    if constexpr (QueuedDevice<D>) {
        static_assert(
            requires {
                requires std::constructible_from<typename D::Context, int>;
                requires std::constructible_from<typename D::Context::Current, int>;
            },
            "gx: this QueuedDevice names no 'Context' that is made from the number of a GPU, with "
            "a 'Current' that makes that GPU a thread's. Outside of a World nothing says where the "
            "device is. Fix: use gx::cuda::Device, or add them to yours.");
        static_assert(
            requires(D& d) {
                { d.logits() } -> std::same_as<std::vector<float>>;
            },
            "gx: this Device gives no logits: no 'vector<float> logits()'. Classes are predicted "
            "from them. Fix: use gx::cuda::Device, or add it to your own.");
        return true;
    } else {
        return explain_device<D>() && explain_logits<D>();
    }
}

/// The logits of batches, in Mode::evaluate. A device in the host's memory that computes on a GPU,
/// as gx::cuda::Staged, is constructed with its number before graph and options.
/// Threads: one at a time, and any.
/// Cost:    the weights and a batch of activations, in the device's memory.
template <class D>
class Evaluator {
    static_assert(explain_evaluated<D>());

public:
    Evaluator(const Graph& graph, const Weights& weights, const EvaluatorOptions& o)
        : device_(made(graph, o)) {
        device_.update(
            [&](std::span<float> mine) { device_.from_canonical(weights.parameters, mine); });
        std::copy(weights.statistics.begin(), weights.statistics.end(),
                  device_.statistics().begin());
    }

    /// Shapes: (count, classes), row-major.
    [[nodiscard]] std::vector<float> logits(const Batch& batch) {
        (void)device_.forward(batch, Mode::evaluate);
        return device_.logits();
    }

private:
    static D made(const Graph& graph, const EvaluatorOptions& o) {
        const DeviceOptions options{.batch = o.batch};
        if constexpr (std::constructible_from<D, int, const Graph&, DeviceOptions>)
            return D(o.gpu, graph, options);
        else return D(graph, options);
    }

    D device_;
};

/// Of a device that queues. Its `Context`, made from the number of a GPU, is what the device is
/// constructed with, before graph and options, and context.memory() is the GPU's. While a
/// `Context::Current` lives, its GPU is the thread's, and then the one before: a rank of another
/// GPU may read features.
template <QueuedDevice D>
class Evaluator<D> {
    static_assert(explain_evaluated<D>());
    using M = memory_of<std::remove_cvref_t<decltype(std::declval<D&>().queue())>>;

public:
    Evaluator(const Graph& graph, const Weights& weights, const EvaluatorOptions& o)
        : Evaluator(graph, weights, o, Current(o.gpu)) {}
    Evaluator(const Evaluator&) = delete;
    Evaluator& operator=(const Evaluator&) = delete;
    ~Evaluator() {
        try {
            current_.emplace(gpu_);
        } catch (const Error&) {  // of a lost GPU, whose memory is gone
        }
    }

    [[nodiscard]] std::vector<float> logits(const Batch& batch) {
        const Current current(gpu_);
        device_.load(batch);
        device_.forward(Mode::evaluate, report_.template view<M>());
        return device_.logits();
    }

private:
    using Current = typename D::Context::Current;
    Evaluator(const Graph& graph, const Weights& weights, const EvaluatorOptions& o, const Current&)
        : gpu_(o.gpu),
          context_(o.gpu),
          device_(context_, graph, DeviceOptions{.batch = o.batch}),
          report_(&context_.memory(), 1, "report") {
        device_.update([&](auto mine) { device_.from_canonical(weights.parameters, mine); });
        device_.queue().copy_in(std::span<const float>(weights.statistics), device_.statistics(),
                                {"statistics"});
    }

    std::optional<Current> current_{};  ///< while what follows ends
    int gpu_;
    typename D::Context context_;
    D device_;
    Buffer<ForwardReport> report_;
};

}  // namespace gx
