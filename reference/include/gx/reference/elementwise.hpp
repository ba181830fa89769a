// Elementwise operations: relu, residual add, flatten, concat, dropout.
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

/// Calls visit() for each element of b's channels behind a's. As visit(index in y, index in a or b,
/// whether in b).
/// Order: that of y, row-major.
template <class Visit>
void for_each_joined(ReadMaps a, ReadMaps b, ReadMaps y, Visit visit) {
    const auto first = std::size_t(a.shape.elements()), second = std::size_t(b.shape.elements());
    for (std::size_t n = 0; n < std::size_t(y.images); ++n) {
        const std::size_t to = n * (first + second);
        for (std::size_t i = 0; i < first; ++i) visit(to + i, n * first + i, false);
        for (std::size_t i = 0; i < second; ++i) visit(to + first + i, n * second + i, true);
    }
}

/// y[n, c] = a[n, c] for the channels of a, then b[n, c - channels of a].
inline void concat(ReadMaps a, ReadMaps b, WriteMaps y) {
    for_each_joined(a, b, {y.data, y.images, y.shape},
                    [&](std::size_t to, std::size_t from, bool second) {
                        y.data[to] = (second ? b : a).data[from];
                    });
}

/// Adds to da and db the gradient of their channels of y.
inline void concat_backward(ReadMaps dy, WriteMaps da, WriteMaps db) {
    for_each_joined({da.data, da.images, da.shape}, {db.data, db.images, db.shape}, dy,
                    [&](std::size_t from, std::size_t to, bool second) {
                        (second ? db : da).data[to] += dy.data[from];
                    });
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
