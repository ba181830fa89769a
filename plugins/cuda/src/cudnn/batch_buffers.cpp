#include "batch_buffers.hpp"

#include <cstring>  // memcpy
#include <span>     // parts

#include <gx/core/error.hpp>  // LostRank
#include <gx/cuda/error.hpp>  // expect

namespace gx::cuda::detail {

namespace {

constexpr std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

template <class T>
void put(std::span<const T> from, std::byte* to) {
    if (!from.empty()) std::memcpy(to, from.data(), from.size_bytes());
}
template <class T>
DeviceSpan<const T> part(std::byte* block, std::int64_t offset, std::span<const T> like) {
    return {reinterpret_cast<const T*>(block + offset), std::ssize(like)};
}

}  // namespace

BatchLayout::BatchLayout(const Graph& graph, int batch)
    : second_labels(labels + 4 * std::int64_t{batch}),
      values(aligned(second_labels + std::int64_t{sizeof(SecondLabel)} * batch)),
      images(aligned(values + std::int64_t{1024} * graph.input.channels)),
      bytes(images + 4 * batch * graph.input.elements()) {}

BatchBuffers::BatchBuffers(Queue& compute, const Graph& graph, int batch)
    : compute_(compute),
      layout_(graph, batch),
      halves_{make_half(), make_half()},
      copies_(compute.context(), "batches", {.events = 4, .staging_bytes = 64}) {}

BatchBuffers::Half BatchBuffers::make_half() {
    Half half{make_pinned(static_cast<std::size_t>(layout_.bytes)),
              Buffer<std::byte>(&compute_.context().memory(), layout_.bytes, "batch")};
    std::memset(half.pinned.get(), 0, static_cast<std::size_t>(layout_.images));
    return half;
}

LoadedBatch BatchBuffers::load(const Batch& batch, float rate) {
    Half& half = halves_[loads_ % 2];
    halves_[++loads_ % 2].read = compute_.record();
    if (const Delivery d = compute_.wait(half.copied); !d.complete())
        throw LostRank({.operation = "copying a batch"}, d);
    const auto bytes = static_cast<std::size_t>(fill(batch, rate, half.pinned.get()));
    copies_.wait_for(half.read);
    std::byte* const block = GpuMemory::open(half.block.view<GpuMemory>()).data;
    expect(
        cudaMemcpyAsync(block, half.pinned.get(), bytes, cudaMemcpyHostToDevice, copies_.stream()),
        "cudaMemcpyAsync of a batch", compute_.context().device());
    compute_.wait_for(copies_.record());
    half.copied = compute_.record();
    return in(half, batch);
}

/// Returns the bytes that hold it.
std::int64_t BatchBuffers::fill(const Batch& batch, float rate, std::byte* block) const {
    put(std::span(&batch.draw, 1), block + layout_.draw);
    put(std::span<const float>(&rate, 1), block + layout_.rate);
    put(batch.labels, block + layout_.labels);
    std::memset(block + layout_.second_labels, 0,
                sizeof(SecondLabel) * static_cast<std::size_t>(batch.count));
    put(batch.second_labels, block + layout_.second_labels);
    put(batch.values, block + layout_.values);
    put(batch.images, block + layout_.images);
    put(batch.pixels, block + layout_.images);
    return layout_.images +
           static_cast<std::int64_t>(batch.images.size_bytes() + batch.pixels.size_bytes());
}

LoadedBatch BatchBuffers::in(Half& half, const Batch& batch) const {
    std::byte* const block = GpuMemory::open(half.block.view<GpuMemory>()).data;
    return {.count = batch.count,
            .draw = part(block, layout_.draw, std::span(&batch.draw, 1)),
            .rate = {reinterpret_cast<const float*>(block + layout_.rate), 1},
            .images = part(block, layout_.images, batch.images),
            .labels = part(block, layout_.labels, batch.labels),
            .second_labels = {reinterpret_cast<const SecondLabel*>(block + layout_.second_labels),
                              batch.count},
            .pixels = part(block, layout_.images, batch.pixels),
            .values = part(block, layout_.values, batch.values)};
}

}  // namespace gx::cuda::detail
