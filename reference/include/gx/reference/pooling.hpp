// Pooling: the largest, or the mean, of each window's part that lies inside the image.
#pragma once

#include <gx/reference/maps.hpp>  // ReadMaps, WriteMaps

namespace gx::reference {

/// Calls visit(row, column) for the positions of window (i, j) inside the image.
/// Order: row by row, left to right.
template <class Visit>
void for_each_inside(Window w, ReadMaps x, int i, int j, Visit visit) {
    for (int u = 0; u < w.height; ++u)
        for (int v = 0; v < w.width; ++v) {
            const int row = i * w.stride - w.pad_height + u;
            const int column = j * w.stride - w.pad_width + v;
            if (x.contains(row, column)) visit(row, column);
        }
}

/// Calls visit(n, c, i, j) for every element of maps of this shape. Order: row-major.
template <class Visit>
void for_each_element(int images, ImageShape shape, Visit visit) {
    for (int n = 0; n < images; ++n)
        for (int c = 0; c < shape.channels; ++c)
            for (int i = 0; i < shape.height; ++i)
                for (int j = 0; j < shape.width; ++j) visit(n, c, i, j);
}

/// The largest element of window (i, j), and where it is. Of equal ones the first; a NaN wins.
struct Largest {
    double value = 0;
    int row = -1, column = -1;
};
[[nodiscard]] inline Largest largest(Window w, ReadMaps x, int n, int c, int i, int j) {
    Largest best;
    for_each_inside(w, x, i, j, [&](int row, int column) {
        const double value = x(n, c, row, column);
        if (best.row < 0 || value > best.value || value != value) best = {value, row, column};
    });
    return best;
}

inline void max_pool(Window w, ReadMaps x, WriteMaps y) {
    for_each_element(y.images, y.shape, [&](int n, int c, int i, int j) {
        y(n, c, i, j) = largest(w, x, n, c, i, j).value;
    });
}

/// Adds each dy to the dx of the element that won.
inline void max_pool_backward(Window w, ReadMaps x, ReadMaps dy, WriteMaps dx) {
    for_each_element(dy.images, dy.shape, [&](int n, int c, int i, int j) {
        const Largest best = largest(w, x, n, c, i, j);
        dx(n, c, best.row, best.column) += dy(n, c, i, j);
    });
}

/// What a sum over window (i, j) is divided by.
[[nodiscard]] inline int divisor(Window w, ReadMaps x, int i, int j) {
    if (w.counts_padding) return w.height * w.width;
    int count = 0;
    for_each_inside(w, x, i, j, [&](int, int) { ++count; });
    return count;
}

/// Average of the window's part inside the image. Its sum is divided by the number of elements
/// there, or by that of the whole window where it counts its padding.
inline void avg_pool(Window w, ReadMaps x, WriteMaps y) {
    for_each_element(y.images, y.shape, [&](int n, int c, int i, int j) {
        double sum = 0;
        for_each_inside(w, x, i, j, [&](int row, int column) { sum += x(n, c, row, column); });
        y(n, c, i, j) = sum / divisor(w, x, i, j);
    });
}

inline void avg_pool_backward(Window w, ReadMaps x, ReadMaps dy, WriteMaps dx) {
    for_each_element(dy.images, dy.shape, [&](int n, int c, int i, int j) {
        const double share = dy(n, c, i, j) / divisor(w, x, i, j);
        for_each_inside(w, x, i, j, [&](int row, int column) { dx(n, c, row, column) += share; });
    });
}

}  // namespace gx::reference
