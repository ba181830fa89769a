// FarDevice<Inner>: a device of the host's, behind queues and far memory.
#pragma once

#include <algorithm>  // copy, sort
#include <cstddef>    // ptrdiff_t
#include <cstdint>    // int32_t, int64_t
#include <memory>     // shared_ptr
#include <optional>   // a layer
#include <span>       // span
#include <string>     // its name
#include <utility>    // move
#include <vector>     // copies of batches

#include <gx/core/contract.hpp>          // GX_EXPECT
#include <gx/memory/buffer.hpp>          // Buffer
#include <gx/memory/kernels.hpp>         // Copy
#include <gx/memory/queued_device.hpp>   // QueuedDevice
#include <gx/testing/far/queue.hpp>      // FarQueue
#include <gx/testing/far/transport.hpp>  // FarTransport
#include <gx/testing/far/world.hpp>      // FarRank

namespace gx::testing {

/// Computes as Inner does, with its bits, when its queue gets there. Parameters, statistics and
/// gradients lie in far memory; a backward gives the gradients of each parameter an event of its
/// own, from the end down. An update is followed by a refresh of what passes compute with, as on a
/// GPU with a copy in another element.
template <Device Inner>
class FarDevice {
public:
    using Memory = FarMemory;
    template <class E>
    static constexpr bool computes = computes_in<Inner, E>;
    static constexpr bool takes_pixels = TakesPixels<Inner>;
    static constexpr bool takes_second_labels = TakesSecondLabels<Inner>;

    template <class Rank>  // a FarRank of this device, or of one derived from it
    FarDevice(Rank& rank, const Graph& graph, DeviceOptions options)
        : inner_(graph, options),
          queue_(rank.machine(), rank.rank(), "compute"),
          parameters_(&rank.memory(), count(inner_.parameters()), "parameters"),
          statistics_(&rank.memory(), count(inner_.statistics()), "statistics"),
          raw_(inner_.parameters().size()) {
        for (const ParameterSlice& s : inner_.slices()) slices_.push_back(s);
        std::ranges::sort(slices_, {}, &ParameterSlice::offset);
        queue_.copy_in(std::span<const float>(inner_.statistics()), statistics(), {"statistics"});
    }

    [[nodiscard]] FarQueue& queue() { return queue_; }

    void load(const Batch& batch) {
        const auto held = std::make_shared<Held>();
        held->images.assign(batch.images.begin(), batch.images.end());
        held->labels.assign(batch.labels.begin(), batch.labels.end());
        held->pixels.assign(batch.pixels.begin(), batch.pixels.end());
        held->values.assign(batch.values.begin(), batch.values.end());
        held->second_labels.assign(batch.second_labels.begin(), batch.second_labels.end());
        held->batch = {held->images, held->labels, batch.count,        batch.draw,
                       held->pixels, held->values, held->second_labels};
        held_ = held;
    }

    void forward(Mode mode, ViewIn<ForwardReport, FarMemory> report) {
        GX_EXPECT(held_ != nullptr, "forward follows a load");
        FarWork work{
            .operation = {"forward"},
            .uses = {{FarMemory::seen(statistics()), true}, {FarMemory::seen(report), true}}};
        work.run = [this, held = held_, mode, report] {
            const auto averages = FarMemory::open(statistics());
            std::ranges::copy(averages, inner_.statistics().begin());
            const ForwardReport done = inner_.forward(held->batch, mode);
            if (!done.finite && !bad_layer_) bad_layer_ = inner_.first_non_finite();
            FarMemory::open(report)[0] = done;
            std::ranges::copy(inner_.statistics(), averages.begin());
        };
        queue_.enqueue(std::move(work));
    }

    void backward(ScalarIn<float, FarMemory> scale, ViewIn<float, FarMemory> gradients,
                  GradientsQueued ready) {
        FarWork work{.operation = {"backward"}, .uses = {{FarMemory::seen(scale.at)}}};
        work.run = [this, scale] {
            inner_.backward(FarMemory::open(scale), raw_, [](std::size_t) {});
        };
        queue_.enqueue(std::move(work));
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

    [[nodiscard]] ViewIn<const float, FarMemory> parameters() const {
        return parameters_.template view<FarMemory>();
    }
    [[nodiscard]] std::span<const ParameterSlice> slices() const { return inner_.slices(); }
    void update(FunctionRef<void(ViewIn<float, FarMemory>)> change) {
        change(parameters_.template view<FarMemory>());
        FarWork work{.operation = {"refresh the copy to compute with"},
                     .uses = {{FarMemory::seen(parameters())}}};
        work.run = [this] {
            const auto mine = FarMemory::open(parameters());
            inner_.update([&](std::span<float> p) { std::ranges::copy(mine, p.begin()); });
        };
        queue_.enqueue(std::move(work));
    }
    [[nodiscard]] ViewIn<float, FarMemory> statistics() {
        return statistics_.template view<FarMemory>();
    }
    void to_canonical(ViewIn<const float, FarMemory> mine, std::span<float> canonical) {
        std::vector<float> here(mine.size());
        queue_.copy_out(mine, std::span(here), {"copy out"});
        expect(queue_.wait(queue_.record()));
        inner_.to_canonical(here, canonical);
    }
    void from_canonical(std::span<const float> canonical, ViewIn<float, FarMemory> mine) {
        std::vector<float> here(mine.size());
        inner_.from_canonical(canonical, here);
        queue_.copy_in(std::span<const float>(here), mine, {"copy in"});
        expect(queue_.wait(queue_.record()));
    }
    [[nodiscard]] std::optional<std::string> first_non_finite() {
        expect(queue_.wait(queue_.record()));
        return bad_layer_;
    }

private:
    struct Held {
        std::vector<float> images;
        std::vector<std::int32_t> labels;
        std::vector<std::uint8_t> pixels;
        std::vector<float> values;
        std::vector<SecondLabel> second_labels;
        Batch batch;
    };
    template <class V>
    static std::int64_t count(const V& v) {
        return static_cast<std::int64_t>(v.size());
    }
    static void expect(Delivery d) {
        if (!d.complete()) throw LostRank({.operation = "waiting for the device"}, d);
    }
    void gradient(ViewIn<float, FarMemory> part, std::size_t begin) {
        FarWork work{.operation = {"gradient"}, .uses = {{FarMemory::seen(part), true}}};
        work.run = [this, part, begin] {
            const auto to = FarMemory::open(part);
            std::copy_n(raw_.begin() + static_cast<std::ptrdiff_t>(begin), to.size(), to.begin());
        };
        queue_.enqueue(std::move(work));
    }

    Inner inner_;
    FarQueue queue_;
    mutable Buffer<float> parameters_;
    Buffer<float> statistics_;
    std::shared_ptr<const Held> held_{};  ///< of the last load
    std::vector<float> raw_;              ///< gradients of the present backward
    std::vector<ParameterSlice> slices_{};
    std::optional<std::string> bad_layer_{};  ///< of the first forward whose loss was not finite
};

}  // namespace gx::testing
