// What backward needs: which tensors have a gradient, and what each operation keeps for it.
#pragma once

#include <cstdint>  // int64_t, uint8_t
#include <vector>   // one value a tensor

#include <gx/model/graph.hpp>  // Graph, Op

namespace gx {

/// For each tensor, 1 if backward computes its gradient, else 0. Inputs and activations before the
/// first trained layer need none, nor does the loss, whose gradient is the given scale.
/// Bytes, because vector<bool> is not constexpr on Clang.
[[nodiscard]] constexpr std::vector<std::uint8_t> gradient_tensors(const Graph& graph) {
    std::vector<std::uint8_t> needed(graph.tensors.size(), 0);
    const auto depends = [&](int t) { return t >= 0 && needed[static_cast<std::size_t>(t)] != 0; };
    for (const Op& op : graph.ops)
        needed[static_cast<std::size_t>(op.output)] =
            op.kind != OpKind::softmax_cross_entropy &&
                    (op.parameter_count > 0 || depends(op.inputs[0]) || depends(op.inputs[1]))
                ? 1
                : 0;
    return needed;
}

/// What an operation reads again in backward, besides the gradient of its output.
struct Kept {
    bool input = false;                ///< the tensor it read, whole
    bool output = false;               ///< the tensor it wrote, whole
    std::int64_t bytes_per_image = 0;  ///< notes of its own, for each image of a batch
    std::int64_t bytes_per_batch = 0;  ///< and for a batch of any count
};

/// One table for all devices:
///
///     conv2d, linear         the input: the weight's gradient is a product with it
///     batch_norm             the input, and each channel's mean and inverse deviation in float
///     relu                   the output: its zeros say where the gradient stops
///     max_pool               the place of each maximum, an int32 an output
///     dropout                which elements were dropped, a byte each
///     softmax_cross_entropy  the probabilities, a float a class
///     avg_pool, add, flatten nothing; nor concat, select
///     embedding, token_linear, gelu and attention's products   the inputs
///     layer_norm             the input, and each token's mean and inverse deviation in float
///     tanh, softmax          the output
[[nodiscard]] constexpr Kept kept(const Graph& graph, const Op& op) {
    const auto elements = [&](int t) {
        return graph.tensors[static_cast<std::size_t>(t)].elements();
    };
    switch (op.kind) {
        case OpKind::conv2d:
        case OpKind::embedding:
        case OpKind::token_linear:
        case OpKind::gelu:
        case OpKind::attention_scores:
        case OpKind::attention_mix:
        case OpKind::linear: return {.input = true};
        case OpKind::layer_norm: {
            const int tokens = graph.tensors[static_cast<std::size_t>(op.output)].height;
            return {.input = true, .bytes_per_image = std::int64_t{8} * tokens};
        }
        case OpKind::batch_norm: {
            const int channels = graph.tensors[static_cast<std::size_t>(op.output)].channels;
            return {.input = true, .bytes_per_batch = std::int64_t{8} * channels};
        }
        case OpKind::tanh:
        case OpKind::softmax:
        case OpKind::relu: return {.output = true};
        case OpKind::max_pool: return {.bytes_per_image = 4 * elements(op.output)};
        case OpKind::dropout: return {.bytes_per_image = elements(op.output)};
        case OpKind::softmax_cross_entropy: return {.bytes_per_image = 4 * elements(op.inputs[0])};
        case OpKind::input:
        case OpKind::avg_pool:
        case OpKind::add:
        case OpKind::concat:
        case OpKind::select:
        case OpKind::flatten: break;
    }
    return {};
}

}  // namespace gx
