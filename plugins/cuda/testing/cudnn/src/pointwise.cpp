// Pointwise operations, their gradients, and reductions.
#include <algorithm>  // min
#include <cmath>      // exp, tanh
#include <limits>     // infinity
#include <numbers>    // sqrt2
#include <utility>    // move

#include <gx/cuda_testing/hooks.hpp>  // misuse

#include "compute.hpp"

namespace gx::cuda_testing {

namespace {

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

}  // namespace

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

}  // namespace gx::cuda_testing
