// Elements: values that a thread moves together, and conversions that a GPU has instructions for.
// A loop over a pack is a GX_UNROLL, or clang keeps arrays of it in memory.
#pragma once

#include <bit>          // bit_cast
#include <cstdint>      // uint32_t, uintptr_t
#include <type_traits>  // is_same_v, remove_const_t

#if defined(__CUDACC__)
#include <cuda_bf16.h>  // __float2bfloat16_rn
#include <cuda_fp16.h>  // __float2half_rn, __half2float
#define GX_UNROLL _Pragma("unroll")
#else
#define GX_UNROLL
#endif

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/core/element.hpp>   // fp32, fp16, bf16
#include <gx/cuda/kernel.hpp>    // GX_DEVICE, DeviceSpan

namespace gx::cuda {

/// V values, 1 or more in words of up to 16 bytes.
template <class T, int V>
struct alignas(V * sizeof(T) < 16 ? V * sizeof(T) : 16) Elements {
    T v[V];
};
/// A span's elements in packs, without those behind the last whole one.
template <int V, class T>
constexpr DeviceSpan<Elements<T, V>> elements(DeviceSpan<T> memory) {
    return {reinterpret_cast<Elements<T, V>*>(memory.data), memory.size / V};
}
template <int V, class T>
constexpr DeviceSpan<const Elements<T, V>> elements(DeviceSpan<const T> memory) {
    return {reinterpret_cast<const Elements<T, V>*>(memory.data), memory.size / V};
}
template <int V, class T>
bool is_aligned(DeviceSpan<T> memory) {
    return reinterpret_cast<std::uintptr_t>(memory.data) %
               alignof(Elements<std::remove_const_t<T>, V>) ==
           0;
}

template <class E, int V>
using Pack = Elements<typename E::storage, V>;
template <class E, int V>
DeviceSpan<Pack<E, V>> packs(DeviceSpan<typename E::storage> memory) {
    return elements<V>(memory);
}
template <class E, int V>
DeviceSpan<const Pack<E, V>> packs(DeviceSpan<const typename E::storage> memory) {
    return elements<V>(memory);
}

// E::decode and E::encode; NaNs stay such, and a GPU makes one of all of them.
template <class E>
GX_DEVICE float decoded(typename E::storage x) {
#if defined(__CUDACC__)
    if constexpr (std::is_same_v<E, fp16>) return __half2float(__ushort_as_half(x));
#endif
    return E::decode(x);
}
template <class E>
GX_DEVICE typename E::storage encoded(float x) {
#if defined(__CUDACC__)
    if constexpr (std::is_same_v<E, fp16>) return __half_as_ushort(__float2half_rn(x));
    if constexpr (std::is_same_v<E, bf16>) return __bfloat16_as_ushort(__float2bfloat16_rn(x));
#endif
    return E::encode(x);
}
/// The value of E nearest to x.
template <class E>
GX_DEVICE float rounded(float x) {
    return decoded<E>(encoded<E>(x));
}

/// x rounded once to E. Of the two floats around x it rounds the one that is odd, which is no tie:
/// see reference::round_to.
template <class E>
GX_DEVICE typename E::storage encoded_once(double x) {
    const auto near = static_cast<float>(x);
    if constexpr (std::is_same_v<E, fp32>) return near;
    const double less = near < 0 ? double{near} - x : x - double{near};  // > 0: |near| < |x|
    auto bits = std::bit_cast<std::uint32_t>(near);
    if (double{near} != x && x == x && bits % 2 == 0) bits += less > 0 || near == 0 ? 1u : ~0u;
    return encoded<E>(std::bit_cast<float>(bits));
}

}  // namespace gx::cuda
