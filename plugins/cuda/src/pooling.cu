// Average pooling: a thread has a pack of channels of one pixel that it writes.
#include <gx/cuda/layer_kernels.hpp>

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/cuda/kernel.hpp>    // GX_KERNEL, launch

#include "elementwise.hpp"
#include "packs.hpp"
#include "reciprocal.hpp"

namespace gx::cuda {
namespace {

/// Windows on rows or on columns.
struct Side {
    int size, count;  ///< pixels of the image; windows
    int window, stride, pad;
};
/// From begin to end.
struct Range {
    int begin, end;
    GX_DEVICE int count() const { return end - begin; }
};
/// Pixels of window i inside the image.
GX_DEVICE Range inside(const Side& s, int i) {
    const int begin = i * s.stride - s.pad, end = begin + s.window;
    return {begin > 0 ? begin : 0, end < s.size ? end : s.size};
}
/// Windows that cover a pixel.
GX_DEVICE Range covering(const Side& s, int pixel) {
    const int before = pixel + s.pad - s.window, end = (pixel + s.pad) / s.stride + 1;
    return {before < 0 ? 0 : before / s.stride + 1, end < s.count ? end : s.count};
}

/// Maps of `groups` packs a pixel.
struct Pooling {
    std::int64_t images;  ///< of the batch
    int groups;
    Side rows, columns;
    bool counts_padding;
};
template <int V>
Pooling pooling_of(const PoolShape& s) {
    const Window& w = s.window;
    return {s.images,
            s.input.channels / V,
            {s.input.height, s.output.height, w.height, w.stride, w.pad_height},
            {s.input.width, s.output.width, w.width, w.stride, w.pad_width},
            w.counts_padding};
}
/// What the sum of a window is divided by.
GX_DEVICE int divisor(const Pooling& p, Range rows, Range columns) {
    return p.counts_padding ? p.rows.window * p.columns.window : rows.count() * columns.count();
}

/// Where pack i of maps of so many rows and columns is.
struct Place {
    std::int64_t image;
    int row, column, group;
};
GX_DEVICE Place place_of(std::int64_t i, int rows, int columns, int groups) {
    const std::int64_t in_image = std::int64_t{rows} * columns * groups, image = i / in_image;
    const auto rest = static_cast<int>(i - image * in_image), pixel = rest / groups;
    return {image, pixel / columns, pixel % columns, rest % groups};
}

/// Calls take(pack) of each column of a row, from left to right: 64 bytes or 4 elements of them are
/// in flight at a time.
template <class P, class Take>
GX_DEVICE void for_each_column(DeviceSpan<const P> maps, std::int64_t row_begin, int groups,
                               Range columns, Take take) {
    constexpr int in_flight = sizeof(P) > 16 ? 2 : 4;
    for (int column = columns.begin; column < columns.end; column += in_flight) {
        P packs[in_flight] = {};
        GX_UNROLL for (int k = 0; k < in_flight; ++k) {
            if (column + k < columns.end) packs[k] = maps[row_begin + (column + k) * groups];
        }
        GX_UNROLL for (int k = 0; k < in_flight; ++k) {
            if (column + k < columns.end) take(packs[k]);
        }
    }
}
/// Of row `row` of the image of `at`, where a row has so many columns.
GX_DEVICE std::int64_t row_begin(const Place& at, int row, int rows, int columns, int groups) {
    return (at.image * rows + row) * columns * groups + at.group;
}

/// As reference::avg_pool: sums and quotient in double, rounded once.
template <class E, int V>
GX_KERNEL average_pool_kernel(Pooling p, DeviceSpan<const Pack<E, V>> x, DeviceSpan<Pack<E, V>> y) {
    for (std::int64_t i = global_thread(); i < y.size; i += all_threads()) {
        const Place at = place_of(i, p.rows.count, p.columns.count, p.groups);
        Pack<E, V> mean{};
        if (at.image < p.images) {
            const Range rows = inside(p.rows, at.row), columns = inside(p.columns, at.column);
            double sums[V] = {};
            for (int row = rows.begin; row < rows.end; ++row)
                for_each_column(x, row_begin(at, row, p.rows.size, p.columns.size, p.groups),
                                p.groups, columns, [&](const Pack<E, V>& pack) {
                                    GX_UNROLL for (int k = 0; k < V; ++k) sums[k] +=
                                        double{decoded<E>(pack.v[k])};
                                });
            const double count = divisor(p, rows, columns);
            GX_UNROLL for (int k = 0; k < V; ++k) mean.v[k] = encoded_once<E>(sums[k] / count);
        }
        y[i] = mean;
    }
}

/// As reference::avg_pool_backward: quotients in double, and their sum, rounded once.
template <class E, int V>
GX_KERNEL average_pool_gradient_kernel(Pooling p, DeviceSpan<const Pack<E, V>> dy,
                                       DeviceSpan<Pack<E, V>> dx) {
    for (std::int64_t i = global_thread(); i < dx.size; i += all_threads()) {
        const Place at = place_of(i, p.rows.size, p.columns.size, p.groups);
        Pack<E, V> gradient{};
        if (at.image < p.images) {
            const Range rows = covering(p.rows, at.row), columns = covering(p.columns, at.column);
            double sums[V] = {};
            int count = 1;  // most windows of a pixel have one divisor
            Reciprocal share(count);
            for (int row = rows.begin; row < rows.end; ++row) {
                const Range window_rows = inside(p.rows, row);
                const std::int64_t begin =
                    row_begin(at, row, p.rows.count, p.columns.count, p.groups);
                for (int column = columns.begin; column < columns.end; ++column) {
                    const Pack<E, V> pack = dy[begin + column * p.groups];
                    const int by = divisor(p, window_rows, inside(p.columns, column));
                    if (by != count) share = Reciprocal(count = by);
                    GX_UNROLL for (int k = 0; k < V; ++k) sums[k] += share(decoded<E>(pack.v[k]));
                }
            }
            GX_UNROLL for (int k = 0; k < V; ++k) gradient.v[k] = encoded_once<E>(sums[k]);
        }
        dx[i] = gradient;
    }
}

// ---- The host's part ---------------------------------------------------------------------------

/// Errors: what does not fit breaks the contract.
void expect_pooled(const PoolShape& s, std::int64_t input, std::int64_t output) {
    const Window& w = s.window;
    const auto fits = [&](int size, int count, int window, int pad) {
        return pad >= 0 && 2 * pad <= window && window <= size + 2 * pad &&
               count == (size + 2 * pad - window) / w.stride + 1;
    };
    GX_EXPECT(w.stride > 0 && s.input.channels > 0 && s.input.channels == s.output.channels &&
                  fits(s.input.height, s.output.height, w.height, w.pad_height) &&
                  fits(s.input.width, s.output.width, w.width, w.pad_width),
              "the windows of a pooling are on its input, as many as its output has pixels");
    GX_EXPECT(input % s.input.elements() == 0 && output % s.output.elements() == 0 &&
                  input / s.input.elements() == output / s.output.elements() &&
                  input / s.input.elements() >= s.images,
              "input and output of a pooling have whole images, those of the batch or more");
}

/// Calls body.operator()<V>() with the elements of a pack.
template <class Body>
void with_packs(const PoolShape& shape, Body body) {
    if (shape.input.channels % 8 == 0) body.template operator()<8>();
    else body.template operator()<1>();
}

}  // namespace

template <class E>
void average_pool(cudaStream_t stream, const PoolShape& shape,
                  DeviceSpan<const typename E::storage> x, DeviceSpan<typename E::storage> y) {
    expect_pooled(shape, x.size, y.size);
    with_packs(shape, [&]<int V> {
        launch("average pool", grid_for(stream, y.size / V), average_pool_kernel<E, V>,
               pooling_of<V>(shape), packs<E, V>(x), packs<E, V>(y));
    });
}
template <class E>
void average_pool_backward(cudaStream_t stream, const PoolShape& shape,
                           DeviceSpan<const typename E::storage> dy,
                           DeviceSpan<typename E::storage> dx) {
    expect_pooled(shape, dx.size, dy.size);
    with_packs(shape, [&]<int V> {
        launch("gradient of an average pool", grid_for(stream, dx.size / V),
               average_pool_gradient_kernel<E, V>, pooling_of<V>(shape), packs<E, V>(dy),
               packs<E, V>(dx));
    });
}

#define GX_POOLING(E)                                                                           \
    template void average_pool<E>(cudaStream_t, const PoolShape&, DeviceSpan<const E::storage>, \
                                  DeviceSpan<E::storage>);                                      \
    template void average_pool_backward<E>(cudaStream_t, const PoolShape&,                      \
                                           DeviceSpan<const E::storage>, DeviceSpan<E::storage>);
GX_POOLING(fp32)
GX_POOLING(fp16)
GX_POOLING(bf16)

}  // namespace gx::cuda
