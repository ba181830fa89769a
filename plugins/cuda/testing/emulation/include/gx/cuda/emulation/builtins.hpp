// What CUDA C++ has built in, for g++: threadIdx, __syncthreads, shuffles, votes, atomics.
#pragma once

#include <bit>              // bit_cast
#include <cmath>            // sqrt
#include <concepts>         // same_as
#include <cstdint>          // uint32_t
#include <cstring>          // memcpy
#include <source_location>  // lines of kernels
#include <type_traits>      // is_trivially_copyable_v

#include <gx/cuda/emulation/grid.hpp>          // place
#include <gx/cuda/emulation/shared_array.hpp>  // SharedPointer

#define threadIdx (::gx::cuda::emulation::place().thread)
#define blockIdx (::gx::cuda::emulation::place().block)
#define blockDim (::gx::cuda::emulation::place().threads)
#define gridDim (::gx::cuda::emulation::place().blocks)

namespace gx::cuda::emulation {

/// A lane that a shuffle of this width reads: `lane`, or its own where that is outside.
template <class T>
T shuffle(std::uint32_t mask, T value, unsigned from, const std::source_location& at) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    bits = exchange(mask, bits, from, at);
    std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
    return value;
}

/// Types that atomicAdd takes on every GPU since sm_60.
template <class T>
concept AtomicallyAdded =
    std::same_as<T, int> || std::same_as<T, unsigned> || std::same_as<T, unsigned long long> ||
    std::same_as<T, float> || std::same_as<T, double>;

/// Adds without an order between threads, as on a GPU; returns the value before.
template <AtomicallyAdded T>
T add_atomically(T* to, T value) {
    T before = __atomic_load_n(to, __ATOMIC_RELAXED), sum{};
    do sum = before + value;
    while (
        !__atomic_compare_exchange_n(to, &before, sum, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return before;
}
/// The smaller of both takes its place; returns the value before.
inline int keep_smaller_atomically(int* to, int value) {
    int before = __atomic_load_n(to, __ATOMIC_RELAXED);
    while (value < before && !__atomic_compare_exchange_n(to, &before, value, false,
                                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return before;
}
/// The same as add_atomically for floating-point numbers, as words of their size.
template <class Word, class T>
T add_as_word(T* to, T value) {
    auto* const word = reinterpret_cast<Word*>(to);
    Word before = __atomic_load_n(word, __ATOMIC_RELAXED), after{};
    do after = std::bit_cast<Word>(std::bit_cast<T>(before) + value);
    while (!__atomic_compare_exchange_n(word, &before, after, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED));
    return std::bit_cast<T>(before);
}
template <>
inline float add_atomically(float* to, float value) {
    return add_as_word<std::uint32_t>(to, value);
}
template <>
inline double add_atomically(double* to, double value) {
    return add_as_word<std::uint64_t>(to, value);
}

}  // namespace gx::cuda::emulation

inline void __syncthreads(std::source_location at = std::source_location::current()) {
    gx::cuda::emulation::sync_block(at);
}
inline void __syncwarp(unsigned mask = 0xffffffffu,
                       std::source_location at = std::source_location::current()) {
    gx::cuda::emulation::sync_warp(mask, at);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int from,
              std::source_location at = std::source_location::current()) {
    return gx::cuda::emulation::shuffle(mask, value, static_cast<unsigned>(from) % 32, at);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by,
                   std::source_location at = std::source_location::current()) {
    const unsigned mine = gx::cuda::emulation::lane_index(), from = mine + by;
    return gx::cuda::emulation::shuffle(mask, value, from < 32 ? from : mine, at);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by,
                 std::source_location at = std::source_location::current()) {
    const unsigned mine = gx::cuda::emulation::lane_index();
    return gx::cuda::emulation::shuffle(mask, value, by <= mine ? mine - by : mine, at);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int with,
                  std::source_location at = std::source_location::current()) {
    const unsigned from = gx::cuda::emulation::lane_index() ^ static_cast<unsigned>(with);
    return gx::cuda::emulation::shuffle(mask, value, from, at);
}
inline unsigned __ballot_sync(unsigned mask, int predicate,
                              std::source_location at = std::source_location::current()) {
    return gx::cuda::emulation::ballot(mask, predicate != 0, at);
}
inline int __any_sync(unsigned mask, int predicate,
                      std::source_location at = std::source_location::current()) {
    return gx::cuda::emulation::ballot(mask, predicate != 0, at) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      std::source_location at = std::source_location::current()) {
    return gx::cuda::emulation::ballot(mask, predicate != 0, at) == mask;
}

template <class T>
T atomicAdd(T* to, std::type_identity_t<T> value,
            std::source_location at = std::source_location::current()) {
    static_assert(gx::cuda::emulation::AtomicallyAdded<T>, "no GPU adds this type atomically");
    if (reinterpret_cast<std::uintptr_t>(to) % sizeof(T) != 0)
        gx::cuda::emulation::misused(at, "atomicAdd to an address that is not aligned");
    return gx::cuda::emulation::add_atomically(to, value);
}
template <class T>
T atomicAdd(gx::cuda::emulation::SharedPointer<T> to, std::type_identity_t<T> value) {
    static_assert(gx::cuda::emulation::AtomicallyAdded<T>, "no GPU adds this type atomically");
    gx::cuda::emulation::use_shared(to.to, gx::cuda::emulation::SharedUse::atomic, to.index);
    return gx::cuda::emulation::add_atomically(to.to, value);
}
inline int atomicMin(int* to, int value,
                     std::source_location at = std::source_location::current()) {
    if (reinterpret_cast<std::uintptr_t>(to) % sizeof(int) != 0)
        gx::cuda::emulation::misused(at, "atomicMin of an address that is not aligned");
    return gx::cuda::emulation::keep_smaller_atomically(to, value);
}
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
