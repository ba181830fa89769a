// DeviceSpan: elements in the memory of a GPU, as kernels get them.
#pragma once

#include <cstdint>      // int64_t
#include <type_traits>  // is_const_v, is_same_v

#if !defined(__CUDACC__) && __has_include(<gx/cuda/emulation/grid.hpp>)
#include <gx/cuda/emulation/grid.hpp>  // Index
#define GX_CUDA_EMULATED
#endif

namespace gx::cuda {

/// DeviceSpan<const T> is read, DeviceSpan<T> read and written. The host passes it on and does not
/// index it. Emulated, it checks every index and every part, and a launch reports both to the race
/// detector.
template <class T>
struct DeviceSpan {
    using element_type = T;

    T* data = nullptr;
    std::int64_t size = 0;

#if defined(GX_CUDA_EMULATED)
    [[nodiscard]] DeviceSpan subspan(cuda::emulation::Index first, std::int64_t count) const {
        if (first.value < 0 || count < 0 || first.value > size || count > size - first.value)
            cuda::emulation::out_of_span(first, count, size);
        return {data + first.value, count};
    }
#else
    [[nodiscard]] constexpr DeviceSpan subspan(std::int64_t first, std::int64_t count) const {
        return {data + first, count};
    }
#endif
    template <class U>
        requires std::is_same_v<U, const T> && (!std::is_const_v<T>)
    constexpr operator DeviceSpan<U>() const {  // NOLINT(google-explicit-constructor)
        return {data, size};
    }

#if defined(__CUDACC__)
    __device__ __forceinline__ T& operator[](std::int64_t i) const { return data[i]; }
#elif defined(GX_CUDA_EMULATED)
    T& operator[](cuda::emulation::Index i) const {
        if (i.value < 0 || i.value >= size)
            cuda::emulation::out_of_range(
                i, size, std::is_const_v<T> ? "a span to read" : "a span to write");
        if (reinterpret_cast<std::uintptr_t>(data) % alignof(T) != 0)
            cuda::emulation::misaligned(i, alignof(T));
        cuda::emulation::count_traffic(sizeof(T), !std::is_const_v<T>);
        return data[i.value];
    }
#endif
};

}  // namespace gx::cuda
