// GpuMemory, Resource: the memory of a GPU, and buffers in it.
#pragma once

#include <cstddef>  // byte
#include <cstdint>  // int64_t

#include <gx/core/label.hpp>        // Label
#include <gx/cuda/device_span.hpp>  // DeviceSpan
#include <gx/cuda/handles.hpp>      // StreamHandle
#include <gx/memory/buffer.hpp>     // MemoryResource
#include <gx/memory/memory.hpp>     // DeviceView, DeviceScalar

namespace gx::cuda {

/// The memory of GPUs, as a tag.
struct GpuMemory {
    template <class T>
    using View = DeviceView<T, GpuMemory>;
    template <class T>
    using Scalar = DeviceScalar<T, GpuMemory>;

    template <class T>
    [[nodiscard]] static View<T> view(T* begin, std::size_t count) {
        return {begin, count};
    }
    template <class T>
    [[nodiscard]] static View<const std::byte> bytes(View<const T> v) {
        return {reinterpret_cast<const std::byte*>(v.begin_), v.size_bytes()};
    }
    template <class T>
    [[nodiscard]] static View<std::byte> writable_bytes(View<T> v) {
        return {reinterpret_cast<std::byte*>(v.begin_), v.size_bytes()};
    }
    /// What kernels and CUDA's libraries get.
    template <class T>
    [[nodiscard]] static DeviceSpan<T> open(View<T> v) {
        return {v.begin_, static_cast<std::int64_t>(v.size_)};
    }
    template <class T>
    [[nodiscard]] static DeviceSpan<const T> open(Scalar<T> s) {
        return open(s.at);
    }
    template <class T>
    [[nodiscard]] static T open(T value) {
        return value;
    }
};

/// Memory of one GPU by cudaMalloc, cleared.
/// Errors: gx::Error naming the GPU, the buffer, and the bytes that were asked for and are free.
/// Threads: of those whose current device is that GPU.
/// Cost:   allocations wait for the host: make buffers before the first step.
class Resource : public MemoryResource {
public:
    explicit Resource(int device);

    [[nodiscard]] std::byte* allocate(std::size_t bytes, const Label& name) override;
    void release(std::byte* memory, std::size_t bytes) noexcept override;
    [[nodiscard]] const void* memory() const override { return &memory_id<GpuMemory>; }

private:
    int device_;
    StreamHandle clearing_{};
};

}  // namespace gx::cuda
