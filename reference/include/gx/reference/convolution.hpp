// Convolution: seven nested loops, forward and for its gradients.
#pragma once

#include <cstddef>  // size_t

#include <gx/reference/maps.hpp>  // ReadMaps, WriteMaps
#include <gx/reference/sums.hpp>  // AddExactly

namespace gx::reference {

/// The weights of one convolution. Shapes: weight (out, in / groups, height, width);
/// bias (out), or nullptr for none.
struct Kernel {
    const double* weight = nullptr;
    const double* bias = nullptr;
    Window window{};
    int groups = 1;
};

/// Calls visit(to, from, k) for every multiply-add of a convolution: output element `to` takes
/// input element `from` times weight k; all three are indices into row-major arrays.
/// Order: n, o, y, x of the output; then c, y, x of the window; padding is not visited.
template <class Visit>
void for_each_tap(const Kernel& kernel, ReadMaps x, int images, ImageShape out, Visit visit) {
    const Window w = kernel.window;
    const int in_group = x.shape.channels / kernel.groups;
    const int out_group = out.channels / kernel.groups;
    std::size_t to = 0;  // y[n, o, i, j]
    for (int n = 0; n < images; ++n)
        for (int o = 0; o < out.channels; ++o)
            for (int i = 0; i < out.height; ++i)
                for (int j = 0; j < out.width; ++j, ++to)
                    for (int g = 0; g < in_group; ++g) {
                        const int c = o / out_group * in_group + g;
                        for (int u = 0; u < w.height; ++u) {
                            const int row = i * w.stride - w.pad_height + u;
                            if (row < 0 || row >= x.shape.height) continue;
                            const int left = j * w.stride - w.pad_width;
                            const std::size_t from = x.index(n, c, row, 0);
                            const int k = ((o * in_group + g) * w.height + u) * w.width;
                            for (int v = 0; v < w.width; ++v) {
                                if (left + v < 0 || left + v >= x.shape.width) continue;
                                visit(to, from + std::size_t(left + v), std::size_t(k + v));
                            }
                        }
                    }
}

/// y[n, o, i, j] = bias[o] +
///     sum over c, u, v of weight[o, c, u, v] * x[n, c, i*s - p + u, j*s - p + v]
/// with x = 0 outside the image, and c only within the group of o.
/// Order: the bias first, then c, u, v in the order of for_each_tap.
template <class Add = AddExactly>
void convolve(const Kernel& kernel, ReadMaps x, WriteMaps y, Add add = {}) {
    for (int n = 0; n < y.images; ++n)
        for (int o = 0; o < y.shape.channels; ++o)
            for (int i = 0; i < y.shape.height; ++i)
                for (int j = 0; j < y.shape.width; ++j)
                    y(n, o, i, j) = kernel.bias ? kernel.bias[o] : 0.0;
    for_each_tap(kernel, x, y.images, y.shape,
                 [&](std::size_t to, std::size_t from, std::size_t k) {
                     add(y.data[to], kernel.weight[k] * x.data[from]);
                 });
}

/// Adds to dx and dweight what dy contributes.
/// Order: that of for_each_tap.
template <class Add = AddExactly>
void convolve_backward(const Kernel& kernel, ReadMaps x, ReadMaps dy, WriteMaps dx, double* dweight,
                       Add add = {}) {
    for_each_tap(kernel, x, dy.images, dy.shape,
                 [&](std::size_t to, std::size_t from, std::size_t k) {
                     add(dx.data[from], kernel.weight[k] * dy.data[to]);
                     add(dweight[k], x.data[from] * dy.data[to]);
                 });
}

/// Adds to dbias, of a convolution or a linear layer, what dy contributes.
/// Order: n, then i, then j.
template <class Add = AddExactly>
void bias_backward(ReadMaps dy, double* dbias, Add add = {}) {
    for (int n = 0; n < dy.images; ++n)
        for (int o = 0; o < dy.shape.channels; ++o)
            for (int i = 0; i < dy.shape.height; ++i)
                for (int j = 0; j < dy.shape.width; ++j) add(dbias[o], dy(n, o, i, j));
}

}  // namespace gx::reference
