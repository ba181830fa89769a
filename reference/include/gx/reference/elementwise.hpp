// Elementwise operations: relu, residual add, flatten, dropout.
#pragma once

#include <cstddef>  // size_t
#include <cstdint>  // uint64_t

#include <gx/core/rng.hpp>        // Rng
#include <gx/reference/maps.hpp>  // ReadMaps, WriteMaps

namespace gx::reference {

/// y = max(x, 0); a NaN stays.
inline void relu(ReadMaps x, WriteMaps y) {
    for (std::size_t i = 0; i < y.elements(); ++i) y.data[i] = x.data[i] <= 0 ? 0 : x.data[i];
}

/// The gradient at x = 0 is 0.
inline void relu_backward(ReadMaps x, ReadMaps dy, WriteMaps dx) {
    for (std::size_t i = 0; i < dy.elements(); ++i)
        if (x.data[i] > 0) dx.data[i] += dy.data[i];
}

inline void add(ReadMaps a, ReadMaps b, WriteMaps y) {
    for (std::size_t i = 0; i < y.elements(); ++i) y.data[i] = a.data[i] + b.data[i];
}

/// y = x: flatten, and dropout while evaluating.
inline void copy(ReadMaps x, WriteMaps y) {
    for (std::size_t i = 0; i < y.elements(); ++i) y.data[i] = x.data[i];
}

/// dx += dy: for each input of add, and for flatten.
inline void pass_back(ReadMaps dy, WriteMaps dx) {
    for (std::size_t i = 0; i < dy.elements(); ++i) dx.data[i] += dy.data[i];
}

/// Random stream of dropout: a substream for each rank and batch.
[[nodiscard]] constexpr Rng dropout_stream(std::uint64_t seed, const Label& op, int rank,
                                           std::uint64_t draw) {
    return Rng(seed, op).at(static_cast<std::uint64_t>(rank)).at(draw);
}

/// 0 where element i is dropped, else 1 / (1 - rate). i counts elements of (images, channels,
/// height, width) row-major, from the first image of the batch.
[[nodiscard]] constexpr double dropout_factor(const Rng& stream, std::uint64_t i, double rate) {
    return double{stream.uniform(i)} < rate ? 0.0 : 1 / (1 - rate);
}

/// y = x * factor.
inline void dropout(const Rng& stream, double rate, ReadMaps x, WriteMaps y) {
    for (std::size_t i = 0; i < y.elements(); ++i)
        y.data[i] = x.data[i] * dropout_factor(stream, i, rate);
}

inline void dropout_backward(const Rng& stream, double rate, ReadMaps dy, WriteMaps dx) {
    for (std::size_t i = 0; i < dy.elements(); ++i)
        dx.data[i] += dy.data[i] * dropout_factor(stream, i, rate);
}

}  // namespace gx::reference
