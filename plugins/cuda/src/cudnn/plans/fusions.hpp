// fusion_graph: the operation graphs of cuDNN's fusions around a convolution.
#pragma once

#include <gx/model/graph.hpp>  // Graph, Op

#include "../../../testing/cudnn/contract/backend.hpp"  // descriptors
#include "questions.hpp"                                // DnnFusion

namespace gx::cuda {

namespace detail {

/// Tensors and operations of one fusion, with the channels last; statistics and the parameters of
/// batch norms are (1, C, 1, 1).
class FusionGraph {
public:
    FusionGraph(const Graph& graph, const Op& op, int batch, cudnnDataType_t type) : type_(type) {
        const auto dims = [&](int tensor) {
            const ImageShape& s = graph.tensors[static_cast<std::size_t>(tensor)];
            return backend::Dims{batch, s.channels, s.height, s.width};
        };
        x_ = dims(op.inputs[0]), y_ = dims(op.output);
        const Window& w = op.window;
        weight_ = {y_[1], x_[1] / op.groups, w.height, w.width};
        conv_ = {.pad = {w.pad_height, w.pad_width}, .stride = {w.stride, w.stride}};
    }

    backend::Graph make(DnnFusion fusion) {
        switch (fusion) {
            case DnnFusion::statistics: convolve(g_.tensor(x_, type_)); break;
            case DnnFusion::normalized_input: convolve(normalized(false)); break;
            case DnnFusion::residual_input: convolve(normalized(true)); break;
            case DnnFusion::normalized_weight_gradient:
                weight_gradient(normalized(false), g_.tensor(y_, type_));
                break;
            case DnnFusion::weight_gradient_of_norm:
                weight_gradient(g_.tensor(x_, type_), norm_gradient());
                break;
            case DnnFusion::input_gradient_of_norm: {
                const Tensor &dy = norm_gradient(), &w = g_.tensor(weight_, type_);
                g_.conv(backend::Conv::data, g_.tensor(x_, type_), w, dy, conv_);
                break;
            }
            default: batch_norm_gradient(fusion == DnnFusion::residual_gradient); break;
        }
        return std::move(g_);
    }

private:
    using Tensor = backend::Descriptor;

    Tensor& channels(std::int64_t n, cudnnDataType_t type) {
        return g_.tensor(backend::Dims{1, n, 1, 1}, type);
    }
    Tensor& between(const backend::Dims& dims, cudnnDataType_t type) {
        return g_.tensor(dims, type, true);
    }
    Tensor& apply(cudnnPointwiseMode_t mode, const Tensor& a, const Tensor* b, cudnnDataType_t type,
                  const backend::Dims& dims) {
        Tensor& result = between(dims, type);
        g_.pointwise(mode, a, b, result);
        return result;
    }
    Tensor& apply(cudnnPointwiseMode_t mode, const Tensor& a, const Tensor* b,
                  cudnnDataType_t type) {
        return apply(mode, a, b, type, x_);
    }

    /// relu(scale * x + bias), or relu(scale * x + bias + z), which is stored.
    Tensor& normalized(bool adds) {
        const Tensor &x = g_.tensor(x_, type_), &scale = channels(x_[1], type_),
                     &bias = channels(x_[1], type_);
        const Tensor& scaled = apply(CUDNN_POINTWISE_MUL, x, &scale, backend::fp32);
        const Tensor& moved = apply(CUDNN_POINTWISE_ADD, scaled, &bias, backend::fp32);
        if (!adds) return apply(CUDNN_POINTWISE_RELU_FWD, moved, nullptr, type_);
        const Tensor& sum = apply(CUDNN_POINTWISE_ADD, moved, &g_.tensor(x_, type_), backend::fp32);
        Tensor& stored = g_.tensor(x_, type_);
        g_.pointwise(CUDNN_POINTWISE_RELU_FWD, sum, nullptr, stored);
        return stored;
    }
    void convolve(const Tensor& x) {
        const Tensor &w = g_.tensor(weight_, type_), &y = g_.tensor(y_, type_);
        g_.conv(backend::Conv::forward, x, w, y, conv_);
        const Tensor &sum = channels(y_[1], backend::fp32),
                     &squares = channels(y_[1], backend::fp32);
        g_.statistics(y, sum, squares);
    }
    /// a * dz + b * y + c.
    Tensor& norm_gradient() {
        const auto f32 = backend::fp32;
        const auto scaled = [&]() -> const Tensor& {
            const Tensor &map = g_.tensor(y_, type_), &scale = channels(y_[1], f32);
            return apply(CUDNN_POINTWISE_MUL, map, &scale, f32, y_);
        };
        const Tensor &dz = scaled(), &y = scaled();
        const Tensor& sum = apply(CUDNN_POINTWISE_ADD, dz, &y, f32, y_);
        return apply(CUDNN_POINTWISE_ADD, sum, &channels(y_[1], f32), type_, y_);
    }
    void weight_gradient(const Tensor& x, const Tensor& dy) {
        const Tensor& dw = g_.tensor(weight_, type_);
        g_.conv(backend::Conv::filter, x, dw, dy, conv_);
    }
    void batch_norm_gradient(bool adds) {
        const auto f32 = backend::fp32;
        const Tensor &dy = g_.tensor(y_, type_), &w = g_.tensor(weight_, type_);
        const Tensor& dx = between(x_, type_);
        g_.conv(backend::Conv::data, dx, w, dy, conv_);
        const Tensor &x = g_.tensor(x_, type_), &mean = channels(x_[1], f32),
                     &inverse = channels(x_[1], f32), &scale = channels(x_[1], f32),
                     &bias = channels(x_[1], f32);
        const Tensor& centred = apply(CUDNN_POINTWISE_SUB, x, &mean, f32);
        const Tensor& unit = apply(CUDNN_POINTWISE_MUL, centred, &inverse, f32);
        const Tensor& scaled = apply(CUDNN_POINTWISE_MUL, unit, &scale, f32);
        const Tensor& output = apply(CUDNN_POINTWISE_ADD, scaled, &bias, f32);
        const Tensor* dy_of_relu = &dx;
        const Tensor* relu_input = &output;
        if (adds) {
            dy_of_relu = &apply(CUDNN_POINTWISE_ADD, dx, &g_.tensor(x_, type_), type_);
            relu_input = &apply(CUDNN_POINTWISE_ADD, output, &g_.tensor(x_, type_), f32);
        }
        const Tensor& gradient = g_.tensor(x_, type_);  // in memory: the next kernel's input
        g_.pointwise_backward(CUDNN_POINTWISE_RELU_BWD, *dy_of_relu, *relu_input, gradient);
        weights(gradient, x, mean, inverse, scale);
    }
    void weights(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& inverse,
                 const Tensor& scale) {
        backend::Descriptor o(CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR);
        o.data_type(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC, backend::fp32)
            .part(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC, x)
            .part(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC, mean)
            .part(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC, inverse)
            .part(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC, scale)
            .part(CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC, dy);
        for (const auto result : {CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC,
                                  CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC,
                                  CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC,
                                  CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC,
                                  CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS})
            o.part(result, channels(x_[1], backend::fp32));
        g_.operation(std::move(o));
    }

    backend::Graph g_{};
    backend::Dims x_{}, y_{}, weight_{};
    backend::ConvolutionSpec conv_{};
    cudnnDataType_t type_;
};

}  // namespace detail

/// The graph of `fusion` around the convolution `op`, whose activations are of `type`.
[[nodiscard]] inline backend::Graph fusion_graph(const Graph& graph, const Op& op, int batch,
                                                 DnnFusion fusion, cudnnDataType_t type) {
    return detail::FusionGraph(graph, op, batch, type).make(fusion);
}

}  // namespace gx::cuda
