// Tensor: numbers with the shape that reference's loops see, for cases worked by hand.
#pragma once

#include <cstdint>  // uint64_t
#include <utility>  // move
#include <vector>   // values

#include <gx/core/rng.hpp>        // Rng
#include <gx/reference/maps.hpp>  // ReadMaps, WriteMaps

namespace gx::reference::testing {

struct Tensor {
    int images = 1;
    ImageShape shape{};
    std::vector<double> values{};

    Tensor(int count, ImageShape s)
        : images(count), shape(s), values(std::size_t(count) * std::size_t(s.elements())) {}
    Tensor(int count, ImageShape s, std::vector<double> v)
        : images(count), shape(s), values(std::move(v)) {}

    [[nodiscard]] ReadMaps read() const { return {values.data(), images, shape}; }
    [[nodiscard]] WriteMaps write() { return {values.data(), images, shape}; }
};

/// Integers from -9 to 9: their sums and products are exact in double, in any order.
[[nodiscard]] inline std::vector<double> small_integers(std::size_t count, std::uint64_t seed) {
    std::vector<double> values(count);
    for (std::size_t i = 0; i < count; ++i)
        values[i] = static_cast<double>(Rng(seed, "small integers").below(i, 19)) - 9;
    return values;
}

[[nodiscard]] inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
    return sum;
}

}  // namespace gx::reference::testing
