// Evaluation: one rank's part of a test, on the device that trains or another.
#pragma once

#include <concepts>  // same_as
#include <cstdint>   // int64_t
#include <limits>    // NaN
#include <memory>    // unique_ptr
#include <optional>  // layers
#include <span>      // sums
#include <string>    // layers
#include <vector>    // weights

#include <gx/core/cold.hpp>                // GX_COLD
#include <gx/core/device.hpp>              // DeviceOptions, ForwardReport
#include <gx/core/function_ref.hpp>        // FunctionRef
#include <gx/core/hash.hpp>                // mix64
#include <gx/core/hash_bits.hpp>           // hash_bits
#include <gx/loader/in_memory.hpp>         // InMemory
#include <gx/loader/source_part.hpp>       // SourcePart
#include <gx/memory/buffer.hpp>            // Buffer
#include <gx/memory/memory.hpp>            // ViewIn
#include <gx/trainer/rank/step_slots.hpp>  // get, put, queue_of
#include <gx/trainer/run.hpp>              // Run

namespace gx::detail::trainer {

/// The part of one rank in the tests at the end of an epoch: the same for all policies.
template <class Rank>
struct Evaluation {
    using Device = typename Rank::Device;
    using M = memory_of<Device>;
    static constexpr bool on_host = std::same_as<M, HostMemory>;
    /// Is told of each batch whose loss is not finite, since the operation that is named, if any.
    using BadLoss = FunctionRef<void(std::optional<std::string>)>;

    Rank& rank;
    const Run& run;
    const RunPhase& phase;
    int epoch;                        ///< that ends
    ViewIn<ForwardReport, M> report;  ///< of a batch; on the host, unused
    BadLoss bad_loss;

    /// Adds to loss, hits, hits among five and images, those of an epoch of `loader`.
    void add(Device& device, InMemory<>& loader, std::span<double> sums) const {
        for (std::int64_t s = 0; s < loader.steps_per_epoch(); ++s) {
            const RankBatch next = loader.next();
            ForwardReport done;
            if constexpr (on_host) {
                done = device.forward(next.batch, Mode::evaluate);
            } else {
                device.load(next.batch);
                device.forward(Mode::evaluate, report);
                done = get<ForwardReport>(device.queue(), report)[0];
            }
            if (!done.finite) bad_loss(device.first_non_finite());
            sums[0] += done.finite ? done.loss_sum : std::numeric_limits<double>::quiet_NaN();
            sums[1] += double(done.correct);
            sums[2] += double(done.top5);
            sums[3] += next.batch.count;
        }
    }

    /// The same of this rank's views, each in its own shape. A rank has consecutive ones, which are
    /// alike. `device` has the weights; others are made with `options`.
    /// Cost: beside `device` another one for each shape but its own, one at a time.
    GX_COLD void add(Device& device, const std::vector<float>& parameters,
                     std::span<const SampleView> views, const DeviceOptions& options,
                     std::span<double> sums) const {
        const std::vector<float> statistics = get(queue_of(device), device.statistics());
        std::unique_ptr<Device> other;
        ImageShape shape = phase.graph.input;
        const auto share = [&](int r) {
            return views.size() * std::size_t(r) / std::size_t(rank.ranks());
        };
        const std::size_t first = share(rank.rank()), end = share(rank.rank() + 1);
        for (const SampleView& view : views.subspan(first, end - first)) {
            if (view.shape != shape) {
                shape = view.shape;
                other.reset();
                if (shape != phase.graph.input) {
                    other = rank.make_device(run.graph_at(shape), options);
                    auto load = [&](ViewIn<float, M> mine) {
                        other->from_canonical(parameters, mine);
                    };
                    other->update(load);
                    put(queue_of(*other), statistics, other->statistics());
                }
            }
            const SourcePart part(run.data.test, view);
            InMemory<> loader(
                part, {.batch = phase.micro_batch, .shuffle = false, .pixels = run.options.pixels});
            loader.begin_epoch(epoch);
            add(other ? *other : device, loader, sums);
        }
    }
};

/// A hash of where each parameter lies in a device's flat vector.
template <class Device>
GX_COLD [[nodiscard]] std::uint64_t layout_hash(Device& device, const Graph& graph,
                                                MemoryResource* memory) {
    using M = memory_of<Device>;
    std::vector<float> canonical(std::size_t(graph.parameter_elements()));
    constexpr std::size_t exact = (1 << 24) - 3;  // a prime: blocks of a layout do not divide it
    for (std::size_t i = 0; i < canonical.size(); ++i) canonical[i] = float(1 + i % exact);
    Buffer<float> mine(memory, std::int64_t(device.parameters().size()),
                       "layout of the parameters");
    device.from_canonical(canonical, mine.template view<M>());
    std::uint64_t hash = hash_bits(get(queue_of(device), mine.template view<M>()));
    for (const ParameterSlice& s : device.slices())
        hash = mix64(hash ^ s.offset) + mix64(s.count + golden64) + std::uint64_t(s.parameter);
    return hash;
}

}  // namespace gx::detail::trainer
