// products_of: the matrix products that an operation is, forward and backward, and what suits them.
#pragma once

#include <cstdint>  // int64_t

#include <gx/model/cost.hpp>        // OpCost
#include <gx/model/graph.hpp>       // Graph, Op
#include <gx/sim/product_time.hpp>  // Product

namespace gx::sim {

/// Products of one image; those that an operation has not are empty.
struct ProductsOf {
    Product forward{.count = 0}, data{.count = 0}, weight{.count = 0};
    Product other{.count = 0};  ///< attention's second input
};

/// A convolution is a product over its windows: (pixels out) x (channels out) over a depth of
/// window times channels in, one for each group. The gradient of its data is as long as the pixels
/// in, that of its weight sums over all pixels of the batch. Attention is a product for each head.
[[nodiscard]] inline ProductsOf products_of(const Graph& graph, const Op& op, const OpCost& c) {
    using Grows = Product::Grows;
    ProductsOf p;
    if (op.macs == 0) return p;
    const auto shape = [&](int t) { return graph.tensors[static_cast<std::size_t>(t)]; };
    const ImageShape in = shape(op.inputs[0]), out = shape(op.output);
    if (op.kind == OpKind::attention_scores || op.kind == OpKind::attention_mix) {
        const bool scores = op.kind == OpKind::attention_scores;
        const std::int64_t tokens = out.height, heads = op.groups;
        const std::int64_t head = op.macs / (tokens * tokens * heads);  // its channels
        const Product square{tokens, tokens, head, heads, Grows::count};
        const Product narrow{tokens, head, tokens, heads, Grows::count};
        p.forward = scores ? square : narrow;
        p.data = scores ? narrow : square;
        p.other = narrow;
        return p;
    }
    const std::int64_t groups = op.groups, pixels_out = out.elements() / out.channels,
                       pixels_in = in.elements() / in.channels;
    const std::int64_t channels_in = in.channels / groups, channels_out = out.channels / groups;
    const std::int64_t window = std::int64_t{op.window.height} * op.window.width;
    const std::int64_t depth = op.kind == OpKind::conv2d ? channels_in * window : channels_in;
    p.forward = {pixels_out, channels_out, depth, groups, Grows::rows};
    if (c.backward_data_flops > 0) {
        const std::int64_t back = op.macs / (pixels_in * channels_in * groups);
        p.data = {pixels_in, channels_in, back > 0 ? back : 1, groups, Grows::rows};
    }
    p.weight = {channels_out, depth, pixels_out, groups, Grows::depth};
    return p;
}

/// Whether channels in and out of a group are multiples of `multiple`.
[[nodiscard]] inline bool suits_tensor_cores(const Graph& graph, const Op& op, int multiple) {
    if (op.macs == 0 || op.inputs[0] < 0) return true;
    const auto channels = [&](int t) {
        return graph.tensors[static_cast<std::size_t>(t)].channels;
    };
    if (op.kind == OpKind::attention_scores || op.kind == OpKind::attention_mix) {
        const ImageShape out = graph.tensors[static_cast<std::size_t>(op.output)];
        const std::int64_t tokens = out.height;
        return tokens % multiple == 0 && op.macs / (tokens * tokens * op.groups) % multiple == 0;
    }
    return channels(op.inputs[0]) / op.groups % multiple == 0 &&
           channels(op.output) / op.groups % multiple == 0;
}

/// Whether a library computes a convolution by Winograd's F(2x2, 3x3).
/// Source: Lavin, Gray 2015, arXiv:1509.09308: 2.25 times fewer products at best.
[[nodiscard]] inline bool suits_winograd(const Op& op) {
    return op.kind == OpKind::conv2d && op.groups == 1 && op.window.stride == 1 &&
           op.window.height == 3 && op.window.width == 3;
}

}  // namespace gx::sim
