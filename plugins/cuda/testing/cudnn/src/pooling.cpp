// Pooling and its gradient.
#include <limits>   // infinity
#include <utility>  // move

#include "compute.hpp"

namespace gx::cuda_testing {

namespace {

struct Windows {
    Dims x, y;
    Dims window, stride, pad;
    cudnnResampleMode_t mode;
    bool propagates_nan = false;

    Windows(const Contents& d, Dims x_dims, Dims y_dims)
        : x(std::move(x_dims)),
          y(std::move(y_dims)),
          window(d.whole_numbers(CUDNN_ATTR_RESAMPLE_WINDOW_DIMS)),
          stride(d.whole_numbers(CUDNN_ATTR_RESAMPLE_STRIDES)),
          pad(d.whole_numbers(CUDNN_ATTR_RESAMPLE_PRE_PADDINGS)),
          mode(d.one(CUDNN_ATTR_RESAMPLE_MODE, CUDNN_RESAMPLE_MAXPOOL)) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
        propagates_nan = d.one(CUDNN_ATTR_RESAMPLE_NAN_PROPAGATION, CUDNN_NOT_PROPAGATE_NAN) ==
                         CUDNN_PROPAGATE_NAN;
#pragma GCC diagnostic pop
    }

    /// Calls visit(output, first element of its plane in x, p, q). Order: row-major.
    template <class Visit>
    void for_each_output(Visit visit) const {
        for (std::int64_t plane = 0, o = 0; plane < y[0] * y[1]; ++plane)
            for (std::int64_t p = 0; p < y[2]; ++p)
                for (std::int64_t q = 0; q < y[3]; ++q, ++o)
                    visit(static_cast<std::size_t>(o), plane * x[2] * x[3], p, q);
    }
    /// Calls visit(index in x, index in the window) for the window's part inside of the image.
    template <class Visit>
    void for_each_inside(std::int64_t plane, std::int64_t p, std::int64_t q, Visit visit) const {
        for (std::int64_t r = 0; r < window[0]; ++r)
            for (std::int64_t s = 0; s < window[1]; ++s) {
                const std::int64_t i = p * stride[0] - pad[0] + r, j = q * stride[1] - pad[1] + s;
                if (i >= 0 && i < x[2] && j >= 0 && j < x[3])
                    visit(static_cast<std::size_t>(plane + i * x[3] + j), r * window[1] + s);
            }
    }
    [[nodiscard]] float divisor(std::int64_t plane, std::int64_t p, std::int64_t q) const {
        if (mode == CUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING)
            return static_cast<float>(window[0] * window[1]);
        int inside = 0;
        for_each_inside(plane, p, q, [&](std::size_t, std::int64_t) { ++inside; });
        return static_cast<float>(inside);
    }
};

}  // namespace

/// Of equal elements the first is the largest. The index counts the window's elements row by row.
void pool(Tensors& t, const Contents& op) {
    const Windows w(*op.part(CUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC),
                    dims_of(op, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC),
                    dims_of(op, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC));
    const Values& x = t.read(op, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC);
    Values y(static_cast<std::size_t>(w.y[0] * w.y[1] * w.y[2] * w.y[3])), index(y.size());
    w.for_each_output([&](std::size_t o, std::int64_t plane, std::int64_t p, std::int64_t q) {
        if (w.mode != CUDNN_RESAMPLE_MAXPOOL) {
            w.for_each_inside(plane, p, q, [&](std::size_t i, std::int64_t) { y[o] += x[i]; });
            y[o] /= w.divisor(plane, p, q);
            return;
        }
        bool begun = false;
        y[o] = -std::numeric_limits<float>::infinity();
        w.for_each_inside(plane, p, q, [&](std::size_t i, std::int64_t k) {
            const bool wins = x[i] > y[o] || (w.propagates_nan && x[i] != x[i] && y[o] == y[o]);
            if (begun && !wins) return;
            begun = begun || x[i] == x[i] || w.propagates_nan;
            if (wins || begun) y[o] = x[i], index[o] = static_cast<float>(k);
        });
    });
    t.write(op, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, std::move(y));
    t.write(op, CUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC, std::move(index));
}

/// Order: dy row-major, each window row by row.
void pool_backward(Tensors& t, const Contents& op) {
    const Windows w(*op.part(CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC),
                    dims_of(op, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC),
                    dims_of(op, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC));
    const Values dy = t.read(op, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC);
    Values dx(static_cast<std::size_t>(w.x[0] * w.x[1] * w.x[2] * w.x[3]));
    const bool is_max = w.mode == CUDNN_RESAMPLE_MAXPOOL;
    const Values index = is_max ? t.read(op, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC) : Values{};
    w.for_each_output([&](std::size_t o, std::int64_t plane, std::int64_t p, std::int64_t q) {
        const float share = is_max ? dy[o] : dy[o] / w.divisor(plane, p, q);
        w.for_each_inside(plane, p, q, [&](std::size_t i, std::int64_t k) {
            if (!is_max || static_cast<float>(k) == index[o]) dx[i] += share;
        });
    });
    t.write(op, CUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, std::move(dx));
}

}  // namespace gx::cuda_testing
