#include "batch_buffers.hpp"

#include <cstring>  // memcpy
#include <span>     // parts

#include <gx/core/error.hpp>  // LostRank
#include <gx/cuda/error.hpp>  // expect

namespace gx::cuda::detail {

namespace {

constexpr std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

BatchLayout::BatchLayout(const Graph& graph, std::int64_t all, int micro_batches)
    : rate(8 * std::int64_t{micro_batches}),
      labels(rate + 4),
      second_labels(labels + 4 * all),
      values(aligned(second_labels + std::int64_t{sizeof(SecondLabel)} * all)),
      images(aligned(values + std::int64_t{1024} * graph.input.channels)),
      bytes(images + 4 * all * graph.input.elements()) {}

BatchBuffers::BatchBuffers(Queue& compute, const Graph& graph, int batch, int micro_batches)
    : compute_(compute),
      layout_(graph, std::int64_t{batch} * micro_batches, micro_batches),
      halves_{make_half(), make_half()},
      copies_(compute.context(), "batches", {.events = 4, .staging_bytes = 64}) {}

BatchBuffers::Half BatchBuffers::make_half() {
    Half half{make_pinned(static_cast<std::size_t>(layout_.bytes)),
              Buffer<std::byte>(&compute_.context().memory(), layout_.bytes, "batch")};
    std::memset(half.pinned.get(), 0, static_cast<std::size_t>(layout_.images));
    return half;
}

std::span<const LoadedBatch> BatchBuffers::load(std::span<const Batch> parts, float rate) {
    Half& half = halves_[loads_ % 2];
    halves_[++loads_ % 2].read = compute_.record();
    if (const Delivery d = compute_.wait(half.copied); !d.complete())
        throw LostRank({.operation = "copying a batch"}, d);
    const auto bytes = static_cast<std::size_t>(fill(parts, rate, half));
    copies_.wait_for(half.read);
    std::byte* const block = GpuMemory::open(half.block.view<GpuMemory>()).data;
    expect(
        cudaMemcpyAsync(block, half.pinned.get(), bytes, cudaMemcpyHostToDevice, copies_.stream()),
        "cudaMemcpyAsync of a batch", compute_.context().device());
    compute_.wait_for(copies_.record());
    half.copied = compute_.record();
    return loaded_;
}

/// Fills the pinned memory, and loaded_ with where each part will lie. Returns the bytes that hold
/// all.
std::int64_t BatchBuffers::fill(std::span<const Batch> parts, float rate, Half& half) {
    std::byte* const pinned = half.pinned.get();
    std::byte* const block = GpuMemory::open(half.block.view<GpuMemory>()).data;
    const auto put = [&]<class T>(std::span<const T> from, std::int64_t offset) {
        if (!from.empty()) std::memcpy(pinned + offset, from.data(), from.size_bytes());
        return DeviceSpan<const T>{reinterpret_cast<const T*>(block + offset), std::ssize(from)};
    };
    const auto with = put(std::span<const float>(&rate, 1), layout_.rate);
    const auto values = put(parts[0].values, layout_.values);
    std::int64_t draw = layout_.draws, first = 0, images = layout_.images;
    loaded_.clear();
    for (const Batch& p : parts) {
        const std::int64_t second =
            layout_.second_labels + std::int64_t{sizeof(SecondLabel)} * first;
        std::memset(pinned + second, 0, sizeof(SecondLabel) * static_cast<std::size_t>(p.count));
        (void)put(p.second_labels, second);
        loaded_.push_back(
            {.count = p.count,
             .draw = put(std::span(&p.draw, 1), draw),
             .rate = with,
             .images = put(p.images, images),
             .labels = put(p.labels, layout_.labels + 4 * first),
             .second_labels = {reinterpret_cast<const SecondLabel*>(block + second), p.count},
             .pixels = put(p.pixels, images),
             .values = values});
        draw += 8;
        first += p.count;
        images += static_cast<std::int64_t>(p.images.size_bytes() + p.pixels.size_bytes());
    }
    return images;
}

}  // namespace gx::cuda::detail
