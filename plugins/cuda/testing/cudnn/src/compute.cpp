// What each operation computes: in fp32, in the order that is stated, rounded where a tensor is
// stored. Tensors are held dense, row-major in their dimensions.
#include <algorithm>  // max
#include <bit>        // bit_cast
#include <cmath>      // sqrt, tanh
#include <limits>     // infinity
#include <numbers>    // pi
#include <utility>    // pair

#include <gx/core/element.hpp>        // fp16, bf16
#include <gx/cuda_testing/hooks.hpp>  // report_access, misuse

#include "contents.hpp"

namespace gx::cuda_testing {

namespace {

using Dims = std::vector<std::int64_t>;
using Values = std::vector<float>;

// ---- Memory -----------------------------------------------------------------------------------

float load(const std::byte* at, cudnnDataType_t type) {
    const auto as = [at]<class T>(T value) {
        std::memcpy(&value, at, sizeof value);
        return value;
    };
    switch (type) {
        case CUDNN_DATA_HALF: return fp16::decode(as(fp16::storage{}));
        case CUDNN_DATA_BFLOAT16: return bf16::decode(as(bf16::storage{}));
        case CUDNN_DATA_INT8: return static_cast<float>(as(std::int8_t{}));
        case CUDNN_DATA_UINT8: return static_cast<float>(as(std::uint8_t{}));
        case CUDNN_DATA_INT32: return static_cast<float>(as(std::int32_t{}));
        case CUDNN_DATA_INT64: return static_cast<float>(as(std::int64_t{}));
        case CUDNN_DATA_DOUBLE: return static_cast<float>(as(double{}));
        default: return as(float{});
    }
}

void store(std::byte* at, cudnnDataType_t type, float value) {
    const auto as = [at](auto stored) { std::memcpy(at, &stored, sizeof stored); };
    switch (type) {
        case CUDNN_DATA_HALF: return as(fp16::encode(value));
        case CUDNN_DATA_BFLOAT16: return as(bf16::encode(value));
        case CUDNN_DATA_INT8: return as(static_cast<std::int8_t>(value));
        case CUDNN_DATA_UINT8: return as(static_cast<std::uint8_t>(value));
        case CUDNN_DATA_INT32: return as(static_cast<std::int32_t>(value));
        default: return as(value);
    }
}

/// Calls visit(dense index, offset in elements). Order: row-major.
template <class Visit>
void for_each_element(const TensorInfo& t, Visit visit) {
    Dims index(t.dims.size());
    std::int64_t offset = 0;
    for (std::int64_t i = 0, n = t.elements(); i < n; ++i) {
        visit(static_cast<std::size_t>(i), offset);
        for (std::size_t d = index.size(); d-- > 0;) {
            offset += t.strides[d];
            if (++index[d] < t.dims[d]) break;
            offset -= t.dims[d] * t.strides[d];
            index[d] = 0;
        }
    }
}

struct Tensors {
    const CudnnPlan* plan;
    const std::map<std::int64_t, void*>* pointers;
    const std::map<std::int64_t, float>* by_value;
    std::map<std::int64_t, Values> values{};
    bool reversed = false;  ///< the order of sums

    const Values& read(const Contents& operation, Attribute a) {
        const TensorInfo t = tensor_info(*operation.part(a));
        const auto [at, is_new] = values.try_emplace(t.uid);
        if (!is_new) return at->second;
        Values& v = at->second;
        v.resize(static_cast<std::size_t>(t.elements()));
        if (t.by_value) {
            v[0] = by_value->at(t.uid);
            return v;
        }
        const auto* const from = static_cast<const std::byte*>(pointers->at(t.uid));
        for_each_element(t, [&](std::size_t i, std::int64_t offset) {
            v[i] = load(from + offset * size_of(t.type), t.type);
        });
        return v;
    }
    /// A tensor in memory is stored, and read back as it was rounded; a virtual one stays fp32.
    void write(const Contents& operation, Attribute a, Values v) {
        if (!operation.has(a)) return;
        const TensorInfo t = tensor_info(*operation.part(a));
        if (!t.is_virtual) {
            auto* const to = static_cast<std::byte*>(pointers->at(t.uid));
            for_each_element(t, [&](std::size_t i, std::int64_t offset) {
                store(to + offset * size_of(t.type), t.type, v[i]);
                v[i] = load(to + offset * size_of(t.type), t.type);
            });
        }
        values[t.uid] = std::move(v);
    }
};

Dims dims_of(const Contents& operation, Attribute a) {
    return tensor_info(*operation.part(a)).dims;
}

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

// ---- Convolutions -----------------------------------------------------------------------------

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

// ---- Matrix products --------------------------------------------------------------------------

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

// ---- Pointwise --------------------------------------------------------------------------------

/// `from` spread over the dimensions of `to`.
Values broadcast(const Values& v, const Dims& from, const Dims& to) {
    if (from == to) return v;
    TensorInfo spread{.dims = to, .strides = Dims(to.size())};
    std::int64_t stride = 1;
    for (std::size_t d = to.size(); d-- > 0; stride *= from[d])
        spread.strides[d] = from[d] == 1 ? 0 : stride;
    Values all(static_cast<std::size_t>(spread.elements()));
    for_each_element(spread, [&](std::size_t i, std::int64_t offset) {
        all[i] = v[static_cast<std::size_t>(offset)];
    });
    return all;
}

struct Activation {
    float lower = 0, upper = std::numeric_limits<float>::infinity(), slope = 0;
    bool propagates_nan = false;
};
Activation activation_of(const Contents& pointwise) {
    Activation a;
    a.lower = pointwise.number(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, a.lower);
    a.upper = pointwise.number(CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, a.upper);
    a.slope = pointwise.number(CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, a.slope);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    a.propagates_nan = pointwise.one(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION,
                                     CUDNN_NOT_PROPAGATE_NAN) == CUDNN_PROPAGATE_NAN;
#pragma GCC diagnostic pop
    return a;
}

float sigmoid(float x) { return 1 / (1 + std::exp(-x)); }
float erf_half(float x) { return 0.5f * (1 + std::erf(x * std::numbers::sqrt2_v<float> / 2)); }

/// y = f(x, b).
float forward_of(cudnnPointwiseMode_t mode, const Activation& a, float x, float b) {
    switch (mode) {
        case CUDNN_POINTWISE_ADD: return x + b;
        case CUDNN_POINTWISE_ADD_SQUARE: return x + b * b;
        case CUDNN_POINTWISE_SUB: return x - b;
        case CUDNN_POINTWISE_MUL: return x * b;
        case CUDNN_POINTWISE_DIV: return x / b;
        case CUDNN_POINTWISE_MAX: return std::fmax(x, b);
        case CUDNN_POINTWISE_MIN: return std::fmin(x, b);
        case CUDNN_POINTWISE_POW: return std::pow(x, b);
        case CUDNN_POINTWISE_IDENTITY: return x;
        case CUDNN_POINTWISE_ABS: return std::abs(x);
        case CUDNN_POINTWISE_NEG: return -x;
        case CUDNN_POINTWISE_EXP: return std::exp(x);
        case CUDNN_POINTWISE_LOG: return std::log(x);
        case CUDNN_POINTWISE_SQRT: return std::sqrt(x);
        case CUDNN_POINTWISE_RSQRT: return 1 / std::sqrt(x);
        case CUDNN_POINTWISE_RECIPROCAL: return 1 / x;
        case CUDNN_POINTWISE_ERF: return std::erf(x);
        case CUDNN_POINTWISE_TANH_FWD: return std::tanh(x);
        case CUDNN_POINTWISE_SIGMOID_FWD: return sigmoid(x);
        case CUDNN_POINTWISE_GELU_FWD: return x * erf_half(x);
        case CUDNN_POINTWISE_RELU_FWD:
            if (x != x) return a.propagates_nan ? x : a.lower;
            return x > a.lower ? std::min(x, a.upper) : a.lower + a.slope * (x - a.lower);
        default: misuse("pointwise mode " + std::to_string(mode) + " is not in this double.");
    }
}

/// dx = dy f'(x).
float backward_of(cudnnPointwiseMode_t mode, const Activation& a, float dy, float x) {
    switch (mode) {
        case CUDNN_POINTWISE_RELU_BWD: return x > a.lower && x <= a.upper ? dy : dy * a.slope;
        case CUDNN_POINTWISE_TANH_BWD: return dy * (1 - std::tanh(x) * std::tanh(x));
        case CUDNN_POINTWISE_SIGMOID_BWD: return dy * (sigmoid(x) * (1 - sigmoid(x)));
        case CUDNN_POINTWISE_GELU_BWD: {
            const float density =
                std::exp(-0.5f * x * x) / std::sqrt(2 * std::numbers::pi_v<float>);
            return dy * (erf_half(x) + x * density);
        }
        default: misuse("pointwise mode " + std::to_string(mode) + " is not in this double.");
    }
}

void pointwise(Tensors& t, const Contents& op) {
    const Contents& d = *op.part(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    const auto mode = d.one(CUDNN_ATTR_POINTWISE_MODE, CUDNN_POINTWISE_ADD);
    const Activation a = activation_of(d);
    const bool backward = op.has(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC);
    const Attribute result =
        backward ? CUDNN_ATTR_OPERATION_POINTWISE_DXDESC : CUDNN_ATTR_OPERATION_POINTWISE_YDESC;
    const Dims to = dims_of(op, result);
    const auto in = [&](Attribute at) { return broadcast(t.read(op, at), dims_of(op, at), to); };
    Values x = in(CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    if (backward) {
        const Values dy = in(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC);
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = backward_of(mode, a, dy[i], x[i]);
        return t.write(op, result, std::move(x));
    }
    const float alpha1 = op.number(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, 1);
    const float alpha2 = op.number(CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, 1);
    Values b(x.size());
    if (op.has(CUDNN_ATTR_OPERATION_POINTWISE_BDESC)) b = in(CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = forward_of(mode, a, alpha1 == 1 ? x[i] : alpha1 * x[i],
                          alpha2 == 1 ? b[i] : alpha2 * b[i]);
    t.write(op, result, std::move(x));
}

// ---- Reductions -------------------------------------------------------------------------------

/// Order: x row-major.
void reduce(Tensors& t, const Contents& op) {
    const auto mode = op.part(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
                          ->one(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_REDUCE_TENSOR_ADD);
    const Dims from = dims_of(op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC),
               to = dims_of(op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    const Values& x = t.read(op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
    TensorInfo places{.dims = from, .strides = Dims(from.size())};  // in y, of each element of x
    std::int64_t stride = 1;
    for (std::size_t d = to.size(); d-- > 0; stride *= to[d])
        places.strides[d] = to[d] == 1 ? 0 : stride;
    Values y(static_cast<std::size_t>(stride));
    std::vector<bool> begun(y.size());
    for_each_element(places, [&](std::size_t i, std::int64_t offset) {
        const auto o = static_cast<std::size_t>(offset);
        const float v = x[i];
        if (!begun[o]) y[o] = v;
        else if (mode == CUDNN_REDUCE_TENSOR_ADD) y[o] += v;
        else if (mode == CUDNN_REDUCE_TENSOR_MUL) y[o] *= v;
        else if (mode == CUDNN_REDUCE_TENSOR_MAX) y[o] = std::fmax(y[o], v);
        else if (mode == CUDNN_REDUCE_TENSOR_MIN) y[o] = std::fmin(y[o], v);
        else misuse("reduction operator " + std::to_string(mode) + " is not in this double.");
        begun[o] = true;
    });
    t.write(op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, std::move(y));
}

// ---- Pooling ----------------------------------------------------------------------------------

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

// ---- Batch norm -------------------------------------------------------------------------------

/// Calls visit(channel, index) for x (N, C, ...). Order: n, then pixels.
template <class Visit>
void for_each_by_channel(const Dims& x, Visit visit) {
    std::int64_t pixels = 1;
    for (std::size_t d = 2; d < x.size(); ++d) pixels *= x[d];
    for (std::int64_t n = 0, i = 0; n < x[0]; ++n)
        for (std::int64_t c = 0; c < x[1]; ++c)
            for (std::int64_t p = 0; p < pixels; ++p, ++i)
                visit(static_cast<std::size_t>(c), static_cast<std::size_t>(i));
}

void generate_statistics(Tensors& t, const Contents& op) {
    const Dims dims = dims_of(op, CUDNN_ATTR_OPERATION_GENSTATS_XDESC);
    const Values& x = t.read(op, CUDNN_ATTR_OPERATION_GENSTATS_XDESC);
    Values sums(static_cast<std::size_t>(dims[1])), squares(sums.size());
    for_each_by_channel(dims, [&](std::size_t c, std::size_t i) {
        sums[c] += x[i];
        squares[c] += x[i] * x[i];
    });
    t.write(op, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, std::move(sums));
    t.write(op, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, std::move(squares));
}

/// running = (1 - factor) * running + factor * batch; of the variance the unbiased one.
struct Running {
    Attribute mean_in, variance_in, mean_out, variance_out, factor;
};
void update_running(Tensors& t, const Contents& op, const Running& at, const Values& mean,
                    const Values& variance, float count) {
    if (!op.has(at.mean_out)) return;
    const float factor = t.read(op, at.factor)[0];
    Values means = t.read(op, at.mean_in), variances = t.read(op, at.variance_in);
    for (std::size_t c = 0; c < mean.size(); ++c) {
        const float unbiased = count > 1 ? variance[c] * (count / (count - 1)) : variance[c];
        means[c] = (1 - factor) * means[c] + factor * mean[c];
        variances[c] = (1 - factor) * variances[c] + factor * unbiased;
    }
    t.write(op, at.mean_out, std::move(means));
    t.write(op, at.variance_out, std::move(variances));
}

/// eq_scale = scale / sqrt(variance + epsilon), eq_bias = bias - mean * eq_scale.
void finalize_statistics(Tensors& t, const Contents& op) {
    const Values sums = t.read(op, CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SUM_DESC),
                 squares = t.read(op, CUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC),
                 scale = t.read(op, CUDNN_ATTR_OPERATION_BN_FINALIZE_SCALE_DESC),
                 bias = t.read(op, CUDNN_ATTR_OPERATION_BN_FINALIZE_BIAS_DESC);
    const float count = t.read(op, CUDNN_ATTR_OPERATION_BN_FINALIZE_ACCUM_COUNT_DESC)[0],
                epsilon = t.read(op, CUDNN_ATTR_OPERATION_BN_FINALIZE_EPSILON_DESC)[0];
    Values mean(sums.size()), variance(sums.size()), inverse(sums.size()), eq_scale(sums.size()),
        eq_bias(sums.size());
    for (std::size_t c = 0; c < sums.size(); ++c) {
        mean[c] = sums[c] / count;
        variance[c] = squares[c] / count - mean[c] * mean[c];
        inverse[c] = 1 / std::sqrt(variance[c] + epsilon);
        eq_scale[c] = scale[c] * inverse[c];
        eq_bias[c] = bias[c] - mean[c] * eq_scale[c];
    }
    update_running(t, op,
                   {CUDNN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_MEAN_DESC,
                    CUDNN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_VAR_DESC,
                    CUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC,
                    CUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_VAR_DESC,
                    CUDNN_ATTR_OPERATION_BN_FINALIZE_EXP_AVERATE_FACTOR_DESC},
                   mean, variance, count);
    t.write(op, CUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_MEAN_DESC, std::move(mean));
    t.write(op, CUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_INV_STD_DESC, std::move(inverse));
    t.write(op, CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_SCALE_DESC, std::move(eq_scale));
    t.write(op, CUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_BIAS_DESC, std::move(eq_bias));
}

/// Training: by the batch's mean and biased variance, in two passes; else by those given.
void normalize(Tensors& t, const Contents& op) {
    const Dims dims = dims_of(op, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC);
    Values x = t.read(op, CUDNN_ATTR_OPERATION_NORM_FWD_XDESC);
    const Values scale = t.read(op, CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC),
                 bias = t.read(op, CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC);
    Values mean(scale.size()), inverse(scale.size());
    if (op.one(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE, CUDNN_NORM_FWD_TRAINING) ==
        CUDNN_NORM_FWD_INFERENCE) {
        mean = t.read(op, CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC);
        inverse = t.read(op, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC);
    } else {
        const float count = static_cast<float>(x.size() / scale.size());
        const float epsilon = t.read(op, CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC)[0];
        Values variance(scale.size());
        for_each_by_channel(dims, [&](std::size_t c, std::size_t i) { mean[c] += x[i]; });
        for (float& m : mean) m /= count;
        for_each_by_channel(dims, [&](std::size_t c, std::size_t i) {
            variance[c] += (x[i] - mean[c]) * (x[i] - mean[c]);
        });
        for (std::size_t c = 0; c < scale.size(); ++c) {
            variance[c] /= count;
            inverse[c] = 1 / std::sqrt(variance[c] + epsilon);
        }
        update_running(t, op,
                       {CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC,
                        CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC,
                        CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC,
                        CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC,
                        CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC},
                       mean, variance, count);
        t.write(op, CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, mean);
        t.write(op, CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, inverse);
    }
    for_each_by_channel(dims, [&](std::size_t c, std::size_t i) {
        x[i] = (x[i] - mean[c]) * inverse[c] * scale[c] + bias[c];
    });
    t.write(op, CUDNN_ATTR_OPERATION_NORM_FWD_YDESC, std::move(x));
}

void normalize_backward(Tensors& t, const Contents& op) {
    const Dims dims = dims_of(op, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC);
    const Values x = t.read(op, CUDNN_ATTR_OPERATION_NORM_BWD_XDESC),
                 dy = t.read(op, CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC),
                 mean = t.read(op, CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC),
                 inverse = t.read(op, CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC),
                 scale = t.read(op, CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC);
    Values dscale(scale.size()), dbias(scale.size()), dx(x.size());
    const float count = static_cast<float>(x.size() / scale.size());
    for_each_by_channel(dims, [&](std::size_t c, std::size_t i) {
        dscale[c] += dy[i] * ((x[i] - mean[c]) * inverse[c]);
        dbias[c] += dy[i];
    });
    for_each_by_channel(dims, [&](std::size_t c, std::size_t i) {
        const float h = (x[i] - mean[c]) * inverse[c];
        dx[i] = scale[c] * inverse[c] * (dy[i] - dbias[c] / count - h * (dscale[c] / count));
    });
    t.write(op, CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, std::move(dscale));
    t.write(op, CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, std::move(dbias));
    t.write(op, CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, std::move(dx));
}

void run(Tensors& t, const Contents& op) {
    switch (op.type) {
        case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: return pointwise(t, op);
        case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: return multiply(t, op);
        case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: return reduce(t, op);
        case CUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR: return pool(t, op);
        case CUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR: return pool_backward(t, op);
        case CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR: return generate_statistics(t, op);
        case CUDNN_BACKEND_OPERATION_BN_FINALIZE_STATISTICS_DESCRIPTOR:
            return finalize_statistics(t, op);
        case CUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR: return normalize(t, op);
        case CUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR: return normalize_backward(t, op);
        default: return convolve(t, op);
    }
}

/// Engines write their workspace before they read it: what was there does not matter.
void use_workspace(void* workspace, std::int64_t bytes) {
    if (bytes == 0) return;
    report_access(workspace, static_cast<std::size_t>(bytes), true, "workspace");
    std::memset(workspace, 0xff, static_cast<std::size_t>(bytes));
}

}  // namespace

void compute(const CudnnPlan& plan, const std::map<std::int64_t, void*>& pointers,
             const std::map<std::int64_t, float>& by_value, void* workspace, bool reversed) {
    const CudnnGraph& graph = *plan.graph;
    for (const bool writes : {false, true})
        for (const std::int64_t uid : writes ? graph.outputs : graph.inputs) {
            const TensorInfo& t = graph.tensors.at(uid);
            if (!t.by_value)
                report_access(pointers.at(uid), static_cast<std::size_t>(t.bytes()), writes,
                              "cuDNN");
        }
    use_workspace(workspace, plan.workspace_bytes);
    Tensors tensors{
        .plan = &plan, .pointers = &pointers, .by_value = &by_value, .reversed = reversed};
    for (const auto& operation : graph.operations) run(tensors, *operation);
}

}  // namespace gx::cuda_testing
