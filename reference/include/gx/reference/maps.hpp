// Maps: activations of a batch seen as (images, channels, height, width).
#pragma once

#include <cstddef>  // size_t

#include <gx/model/graph.hpp>  // ImageShape

namespace gx::reference {

/// A view of `images` images of one shape, row-major. T is double, or const double to read only.
template <class T>
struct Maps {
    T* data = nullptr;
    int images = 0;
    ImageShape shape{};

    [[nodiscard]] std::size_t elements() const {
        return static_cast<std::size_t>(images) * static_cast<std::size_t>(shape.elements());
    }
    [[nodiscard]] std::size_t index(int n, int c, int y, int x) const {
        return ((std::size_t(n) * shape.channels + c) * shape.height + y) * shape.width + x;
    }
    [[nodiscard]] T& operator()(int n, int c, int y, int x) const {
        return data[index(n, c, y, x)];
    }
    [[nodiscard]] bool contains(int y, int x) const {
        return y >= 0 && y < shape.height && x >= 0 && x < shape.width;
    }
};

using ReadMaps = Maps<const double>;
using WriteMaps = Maps<double>;

}  // namespace gx::reference
