// BatchBuffers: batches on their way to the GPU: two in flight, copied on a stream of their own.
#pragma once

#include <cstddef>  // byte
#include <cstdint>  // int64_t
#include <span>     // parts
#include <vector>   // parts

#include <gx/core/device.hpp>       // Batch
#include <gx/core/stream.hpp>       // Event
#include <gx/cuda/device_span.hpp>  // DeviceSpan
#include <gx/cuda/handles.hpp>      // PinnedBytes
#include <gx/cuda/queue.hpp>        // Queue
#include <gx/memory/buffer.hpp>     // Buffer
#include <gx/model/graph.hpp>       // Graph

namespace gx::cuda::detail {

/// Where the micro-batches of a step lie in a block of memory, as bytes from its begin. What has a
/// fixed size comes first: offsets are the same for every batch of a device, and one copy takes all
/// that lies in front of the images' end.
struct BatchLayout {
    /// Of `all` images, in so many micro-batches.
    BatchLayout(const Graph& graph, std::int64_t all, int micro_batches);

    std::int64_t draws = 0;      ///< (micro_batches)
    std::int64_t rate;           ///< (1)
    std::int64_t labels;         ///< (all images)
    std::int64_t second_labels;  ///< (all images)
    std::int64_t values;         ///< (C, 256)
    std::int64_t images;         ///< floats, or pixels
    std::int64_t bytes;          ///< of all images as floats
};

/// A batch in the memory of the GPU. Shapes: as of Batch; second_labels (count), of share 0 where
/// an image has one label, so that all batches of a size are the same work.
struct LoadedBatch {
    int count = 0;
    DeviceSpan<const std::uint64_t> draw{};
    DeviceSpan<const float> rate{};
    DeviceSpan<const float> images{};
    DeviceSpan<const std::int32_t> labels{};
    DeviceSpan<const SecondLabel> second_labels{};
    DeviceSpan<const std::uint8_t> pixels{};
    DeviceSpan<const float> values{};
};

/// Two blocks of pinned memory, and two of the GPU's, which take turns.
/// Cost:   a load is one copy, beside the work of the last load. The host waits until that of the
///         load before begins, and so has been copied.
/// Errors: LostRank where the host waits and DeviceContext::watch() gives up; as of Queue.
class BatchBuffers {
public:
    BatchBuffers(Queue& compute, const Graph& graph, int batch, int micro_batches);

    /// What is queued on `compute` from here on to the next load may read the parts of a batch. The
    /// batch's memory is free. `rate`: a number that comes with them.
    [[nodiscard]] std::span<const LoadedBatch> load(std::span<const Batch> parts, float rate);
    /// Which block has the last batch: 0 or 1.
    [[nodiscard]] int slot() const { return static_cast<int>((loads_ + 1) % 2); }

private:
    struct Half {
        PinnedBytes pinned;
        Buffer<std::byte> block;
        Event read{};    ///< of `compute`: behind all that reads the block
        Event copied{};  ///< of `compute`: behind its wait for the last copy
    };
    [[nodiscard]] Half make_half();
    [[nodiscard]] std::int64_t fill(std::span<const Batch> parts, float rate, Half& half);

    Queue& compute_;
    BatchLayout layout_;
    Half halves_[2];
    std::vector<LoadedBatch> loaded_{};
    std::size_t loads_ = 0;
    Queue copies_;
};

}  // namespace gx::cuda::detail
