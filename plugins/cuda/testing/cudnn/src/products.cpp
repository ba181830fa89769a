// Convolutions and matrix products, with TF32 engines.
#include <bit>      // bit_cast
#include <utility>  // move

#include <gx/core/element.hpp>        // fp16, bf16
#include <gx/cuda_testing/hooks.hpp>  // misuse

#include "compute.hpp"

namespace gx::cuda_testing {

namespace {

/// TF32: 10 bits behind the point, to nearest, ties away, as cvt.rna.tf32.f32.
float to_tf32(float x) {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    if ((bits & 0x7f800000u) == 0x7f800000u) return x;
    return std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu);
}

Values for_product(const CudnnPlan& plan, const Values& v) {
    if (plan.engine != CudnnEngine::tf32) return v;
    Values rounded = v;
    for (float& x : rounded) x = to_tf32(x);
    return rounded;
}

struct Convolution {
    Dims x, w, y;  ///< dimensions
    Dims pad, stride, dilation;
    bool flips = false;
    std::int64_t groups = 1;

    Convolution(const Contents& c, Dims x_dims, Dims w_dims, Dims y_dims)
        : x(std::move(x_dims)),
          w(std::move(w_dims)),
          y(std::move(y_dims)),
          pad(c.integers(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS)),
          stride(c.integers(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)),
          dilation(c.integers(CUDNN_ATTR_CONVOLUTION_DILATIONS)),
          flips(c.one(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_CONVOLUTION) == CUDNN_CONVOLUTION),
          groups(x[1] / w[1]) {}

    /// Calls visit(index in x, index in w, index in y) for each product of the convolution.
    /// Order: n, k, p, q of y; then c, r, s of w.
    template <class Visit>
    void for_each_product(Visit visit) const {
        for (std::int64_t n = 0, to = 0; n < y[0]; ++n)
            for (std::int64_t k = 0; k < y[1]; ++k)
                for (std::int64_t p = 0; p < y[2]; ++p)
                    for (std::int64_t q = 0; q < y[3]; ++q) one_output(n, k, p, q, to++, visit);
    }

private:
    template <class Visit>
    void one_output(std::int64_t n, std::int64_t k, std::int64_t p, std::int64_t q, std::int64_t to,
                    Visit visit) const {
        const std::int64_t first = k / (w[0] / groups) * w[1];
        for (std::int64_t c = 0; c < w[1]; ++c)
            for (std::int64_t r = 0; r < w[2]; ++r) {
                const std::int64_t i = p * stride[0] - pad[0] + r * dilation[0];
                if (i < 0 || i >= x[2]) continue;
                for (std::int64_t s = 0; s < w[3]; ++s) {
                    const std::int64_t j = q * stride[1] - pad[1] + s * dilation[1];
                    if (j < 0 || j >= x[3]) continue;
                    const std::int64_t at_r = flips ? w[2] - 1 - r : r;
                    const std::int64_t at_s = flips ? w[3] - 1 - s : s;
                    visit(static_cast<std::size_t>(((n * x[1] + first + c) * x[2] + i) * x[3] + j),
                          static_cast<std::size_t>(((k * w[1] + c) * w[2] + at_r) * w[3] + at_s),
                          static_cast<std::size_t>(to));
                }
            }
    }
};

/// result = alpha * sums + beta * what was there; beta of 0 reads nothing.
void finish_convolution(Tensors& t, const Contents& op, Attribute result, Values sums, float alpha,
                        float beta) {
    if (alpha != 1)
        for (float& v : sums) v *= alpha;
    if (beta != 0) {
        const Values& before = t.read(op, result);
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += beta * before[i];
    }
    t.write(op, result, std::move(sums));
}

/// Sums of the products, each added to the sum of its place in their order, or in the reverse.
template <class Visit>
Values sums_of(std::size_t count, const Tensors& t, cudnnDataType_t type, const Convolution& conv,
               Visit product) {
    Values sums(count);
    if (t.plan->engine == CudnnEngine::reduced) {
        conv.for_each_product([&](std::size_t x, std::size_t w, std::size_t y) {
            const auto [to, value] = product(x, w, y);
            const float sum = sums[to] + value;
            sums[to] = type == CUDNN_DATA_HALF ? fp16::decode(fp16::encode(sum))
                                               : bf16::decode(bf16::encode(sum));
        });
        return sums;
    }
    if (!t.reversed) {
        conv.for_each_product([&](std::size_t x, std::size_t w, std::size_t y) {
            const auto [to, value] = product(x, w, y);
            sums[to] += value;
        });
        return sums;
    }
    std::vector<std::pair<std::size_t, float>> all;
    conv.for_each_product(
        [&](std::size_t x, std::size_t w, std::size_t y) { all.push_back(product(x, w, y)); });
    for (std::size_t i = all.size(); i-- > 0;) sums[all[i].first] += all[i].second;
    return sums;
}

}  // namespace

void convolve(Tensors& t, const Contents& op) {
    const bool forward = op.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
    const bool data = op.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
    const auto at = [&](Attribute f, Attribute d, Attribute w) {
        return forward ? f : data ? d : w;
    };
    const Attribute x_at = at(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X),
                    w_at = at(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW),
                    y_at = at(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
                              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY);
    const Contents& d = *op.part(at(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC));
    const float alpha = op.number(at(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA),
                                  1);
    const float beta = op.number(at(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA),
                                 0);
    const cudnnDataType_t type = tensor_info(*op.part(forward || !data ? x_at : w_at)).type;
    const Convolution conv(d, dims_of(op, x_at), dims_of(op, w_at), dims_of(op, y_at));
    const Attribute result = forward ? y_at : data ? x_at : w_at;
    const auto count = static_cast<std::size_t>(tensor_info(*op.part(result)).elements());
    const auto in = [&](Attribute a) { return for_product(*t.plan, t.read(op, a)); };
    Values sums;
    if (forward) {
        const Values x = in(x_at), w = in(w_at);
        sums = sums_of(count, t, type, conv, [&](std::size_t i, std::size_t k, std::size_t o) {
            return std::pair(o, x[i] * w[k]);
        });
    } else if (data) {
        const Values w = in(w_at), dy = in(y_at);
        sums = sums_of(count, t, type, conv, [&](std::size_t i, std::size_t k, std::size_t o) {
            return std::pair(i, w[k] * dy[o]);
        });
    } else {
        const Values x = in(x_at), dy = in(y_at);
        sums = sums_of(count, t, type, conv, [&](std::size_t i, std::size_t k, std::size_t o) {
            return std::pair(k, x[i] * dy[o]);
        });
    }
    finish_convolution(t, op, result, std::move(sums), alpha, beta);
}

/// Order: k upwards. A batch of 1 serves all.
void multiply(Tensors& t, const Contents& op) {
    const Dims a = dims_of(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC),
               b = dims_of(op, CUDNN_ATTR_OPERATION_MATMUL_BDESC),
               y = dims_of(op, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    const Values left = for_product(*t.plan, t.read(op, CUDNN_ATTR_OPERATION_MATMUL_ADESC)),
                 right = for_product(*t.plan, t.read(op, CUDNN_ATTR_OPERATION_MATMUL_BDESC));
    const std::size_t rank = y.size();
    const std::int64_t rows = y[rank - 2], columns = y[rank - 1], inner = a[rank - 1];
    const auto batches = [rank](const Dims& d) {
        std::int64_t n = 1;
        for (std::size_t i = 0; i + 2 < rank; ++i) n *= d[i];
        return n;
    };
    if (batches(a) != 1 && batches(a) != batches(y))
        misuse("a broadcast of batches not in this double");
    if (batches(b) != 1 && batches(b) != batches(y))
        misuse("a broadcast of batches not in this double");
    Values sums(static_cast<std::size_t>(batches(y) * rows * columns));
    for (std::int64_t n = 0, to = 0; n < batches(y); ++n)
        for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = 0; j < columns; ++j, ++to)
                for (std::int64_t k = 0; k < inner; ++k) {
                    const std::int64_t l = (batches(a) == 1 ? 0 : n) * rows * inner + i * inner + k;
                    const std::int64_t r =
                        (batches(b) == 1 ? 0 : n) * inner * columns + k * columns + j;
                    sums[static_cast<std::size_t>(to)] +=
                        left[static_cast<std::size_t>(l)] * right[static_cast<std::size_t>(r)];
                }
    t.write(op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, std::move(sums));
}

}  // namespace gx::cuda_testing
