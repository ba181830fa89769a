// PlanQuestion: what cuDNN is asked for a network: plans of its layers, and fusions of them.
#pragma once

#include <array>        // the fusions
#include <cstdint>      // uint64_t
#include <string>       // questions as text
#include <string_view>  // fusions as text
#include <vector>       // questions

#include <gx/core/element.hpp>        // ElementType
#include <gx/core/hash.hpp>           // hash_name
#include <gx/model/cifar_resnet.hpp>  // CifarResNet
#include <gx/model/concept.hpp>       // graph
#include <gx/model/graph.hpp>         // Graph, Op
#include <gx/model/resnet.hpp>        // ResNet50

namespace gx::cuda {

/// What one plan computes: a layer's operation alone, or with those around a convolution.
enum class DnnFusion : unsigned char {
    none,
    statistics,                  ///< y = conv(x), with the sums of y and of y * y by channel
    normalized_input,            ///< y = conv(relu(scale * x + bias)), with the same sums
    normalized_weight_gradient,  ///< dweight of x = relu(scale * x + bias)
    batch_norm_gradient,         ///< dx, relu's gradient, and gradients of the batch norm's scale
                                 ///< and bias, whose output was x
    residual_input,           ///< normalized_input of relu(scale * x + bias + z), and that stored
    residual_gradient,        ///< batch_norm_gradient of relu(norm + z), with another gradient
                              ///< of the same tensor added
    input_gradient_of_norm,   ///< dx of y = conv(x), dy = a * dz + b * y + c: the gradient of the
                              ///< batch norm behind it, whose output's is dz
    weight_gradient_of_norm,  ///< dweight of the same dy
};
inline constexpr std::array dnn_fusions{DnnFusion::statistics,
                                        DnnFusion::normalized_input,
                                        DnnFusion::batch_norm_gradient,
                                        DnnFusion::normalized_weight_gradient,
                                        DnnFusion::residual_input,
                                        DnnFusion::residual_gradient,
                                        DnnFusion::input_gradient_of_norm,
                                        DnnFusion::weight_gradient_of_norm};

[[nodiscard]] constexpr std::string_view to_string(DnnFusion f) {
    switch (f) {
        case DnnFusion::statistics: return "convolution + statistics";
        case DnnFusion::normalized_input: return "scale, bias, relu + convolution + statistics";
        case DnnFusion::normalized_weight_gradient: return "scale, bias, relu + weight gradient";
        case DnnFusion::batch_norm_gradient:
            return "input gradient + relu gradient + batch norm weight gradients";
        case DnnFusion::residual_input:
            return "scale, bias, add, relu, stored + convolution + statistics";
        case DnnFusion::residual_gradient:
            return "input gradient + add + relu gradient + batch norm weight gradients";
        case DnnFusion::input_gradient_of_norm: return "batch norm gradient + input gradient";
        case DnnFusion::weight_gradient_of_norm: return "batch norm gradient + weight gradient";
        default: return "layer";
    }
}

/// The operation whose output `tensor` is. The graph's input has none: ops[0] is returned.
[[nodiscard]] constexpr const Op& producer_of(const Graph& graph, int tensor) {
    for (const Op& op : graph.ops)
        if (op.output == tensor) return op;
    return graph.ops.front();
}

/// The first operation that reads `tensor`.
[[nodiscard]] constexpr const Op& reader_of(const Graph& graph, int tensor) {
    for (const Op& op : graph.ops)
        if (op.inputs[0] == tensor || op.inputs[1] == tensor) return op;
    return graph.ops.front();
}

/// Whether operations around the convolution `op` are those of `fusion`. A bias excludes fusions.
[[nodiscard]] constexpr bool may_fuse(const Graph& graph, const Op& op, DnnFusion fusion) {
    const auto is_norm = [&](int tensor) {
        return producer_of(graph, tensor).kind == OpKind::batch_norm;
    };
    if (op.kind != OpKind::conv2d || op.parameter_count != 1) return false;
    const bool has_norm = reader_of(graph, op.output).kind == OpKind::batch_norm;
    if (fusion == DnnFusion::statistics || fusion == DnnFusion::weight_gradient_of_norm)
        return has_norm;
    if (fusion == DnnFusion::input_gradient_of_norm) return has_norm && op.inputs[0] != 0;
    const Op& relu = producer_of(graph, op.inputs[0]);
    if (relu.kind != OpKind::relu) return false;
    if (fusion != DnnFusion::residual_input && fusion != DnnFusion::residual_gradient)
        return is_norm(relu.inputs[0]);
    const Op& add = producer_of(graph, relu.inputs[0]);
    return add.kind == OpKind::add && (is_norm(add.inputs[0]) || is_norm(add.inputs[1])) &&
           &reader_of(graph, relu.output) == &op;
}

/// A plan that is asked for, and all layers that share it.
struct PlanQuestion {
    DnnFusion fusion = DnnFusion::none;
    std::size_t op = 0;  ///< the first of the layers, in Graph::ops
    std::vector<std::string> layers{};
    std::string text{};  ///< kind, shapes and window; equal for equal plans
};

namespace detail {
inline std::string shape_text(const ImageShape& s, int batch) {
    return "(" + std::to_string(batch) + ", " + std::to_string(s.channels) + ", " +
           std::to_string(s.height) + ", " + std::to_string(s.width) + ")";
}
inline std::string question_text(const Graph& graph, const Op& op, int batch) {
    const auto shape = [&](int t) {
        return shape_text(graph.tensors[static_cast<std::size_t>(t)], batch);
    };
    std::string text =
        std::string(to_string(op.kind)) + " " + shape(op.inputs[0]) + " to " + shape(op.output);
    const Window& w = op.window;
    if (w != Window{})
        text += " by " + std::to_string(w.height) + "x" + std::to_string(w.width) + "/" +
                std::to_string(w.stride) + " pad " + std::to_string(w.pad_height) + "," +
                std::to_string(w.pad_width) + (w.counts_padding ? " counted" : "");
    if (op.groups != 1) text += " groups " + std::to_string(op.groups);
    if (op.parameter_count > 1) text += " + bias";
    if (op.inputs[0] == 0) text += ", of the graph's input";
    return text;
}
}  // namespace detail

/// Questions of a network for batches of `batch` images, in the order of its operations; the
/// fusions' where `fusions` is set. Batch norms, average pools, ReLUs, additions, losses and
/// flatten are gx's own kernels.
[[nodiscard]] inline std::vector<PlanQuestion> plan_questions(const Graph& graph, int batch,
                                                              bool fusions) {
    std::vector<PlanQuestion> all;
    const auto ask = [&](DnnFusion fusion, std::size_t i) {
        const Op& op = graph.ops[i];
        const std::string layer(op.name.view());
        std::string text = detail::question_text(graph, op, batch);
        for (PlanQuestion& q : all)
            if (q.fusion == fusion && q.text == text) return q.layers.push_back(layer);
        all.push_back({fusion, i, {layer}, std::move(text)});
    };
    for (std::size_t i = 0; i < graph.ops.size(); ++i) switch (graph.ops[i].kind) {
            case OpKind::conv2d:
            case OpKind::linear:
            case OpKind::max_pool: ask(DnnFusion::none, i); break;
            default: break;
        }
    if (!fusions) return all;
    for (const DnnFusion fusion : dnn_fusions)
        for (std::size_t i = 0; i < graph.ops.size(); ++i)
            if (may_fuse(graph, graph.ops[i], fusion)) ask(fusion, i);
    return all;
}

/// A network that reference/cudnn/<gpu>.json has the plans of.
struct PlannedNetwork {
    Graph graph;
    int batch;
    ElementType compute;

    [[nodiscard]] std::vector<PlanQuestion> questions() const {
        return plan_questions(graph, batch, compute != ElementType::fp32);
    }
};
[[nodiscard]] inline std::vector<PlannedNetwork> planned_networks() {
    return {{graph<ResNet50>(), 256, ElementType::fp16},
            {graph<CifarResNet<20>>(), 128, ElementType::fp16},
            {graph<CifarResNet<20>>(), 128, ElementType::fp32}};
}

/// Changes where a question of `networks` does.
[[nodiscard]] inline std::uint64_t hash_of_questions(const std::vector<PlannedNetwork>& networks) {
    std::string text;
    for (const PlannedNetwork& n : networks) {
        text += std::string(n.graph.name.view()) + " " + std::string(to_string(n.compute)) + "\n";
        for (const PlanQuestion& q : n.questions()) {
            text += std::string(to_string(q.fusion)) + ": " + q.text;
            for (const std::string& layer : q.layers) text += "; " + layer;
            text += "\n";
        }
    }
    return hash_name(text);
}
/// As files have it: 16 hexadecimal digits.
[[nodiscard]] inline std::string hash_text(std::uint64_t hash) {
    std::string text(16, '0');
    for (std::size_t i = 16; i-- > 0; hash >>= 4) text[i] = "0123456789abcdef"[hash & 15];
    return text;
}

}  // namespace gx::cuda
