// Linear: a matrix times the flat features of each image.
#pragma once

#include <cstddef>  // size_t

#include <gx/reference/maps.hpp>  // ReadMaps, WriteMaps
#include <gx/reference/sums.hpp>  // AddExactly

namespace gx::reference {

/// y[n, o] = bias[o] + sum over i of weight[o, i] * x[n, i]
/// Shapes: x (N, in, 1, 1); weight (out, in); bias (out), or nullptr for none; y (N, out, 1, 1).
/// Order:  the bias first, then i upwards.
template <class Add = AddExactly>
void multiply(const double* weight, const double* bias, ReadMaps x, WriteMaps y, Add add = {}) {
    const int in = x.shape.channels;
    for (int n = 0; n < y.images; ++n)
        for (int o = 0; o < y.shape.channels; ++o) {
            double sum = bias ? bias[o] : 0.0;
            for (int i = 0; i < in; ++i) add(sum, weight[std::size_t(o) * in + i] * x(n, i, 0, 0));
            y(n, o, 0, 0) = sum;
        }
}

/// Adds to dx and dweight what dy contributes.
/// Order: n, then o, then i upwards.
template <class Add = AddExactly>
void multiply_backward(const double* weight, ReadMaps x, ReadMaps dy, WriteMaps dx, double* dweight,
                       Add add = {}) {
    const int in = x.shape.channels;
    for (int n = 0; n < dy.images; ++n)
        for (int o = 0; o < dy.shape.channels; ++o) {
            const double d = dy(n, o, 0, 0);
            for (int i = 0; i < in; ++i) {
                add(dx(n, i, 0, 0), weight[std::size_t(o) * in + i] * d);
                add(dweight[std::size_t(o) * in + i], x(n, i, 0, 0) * d);
            }
        }
}

}  // namespace gx::reference
