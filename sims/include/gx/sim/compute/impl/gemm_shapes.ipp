// GEMM shapes of an operation: the bodies.
#pragma once

#include <cstdint>  // int64_t

#include <gx/model/cost.hpp>               // OpCost
#include <gx/sim/compute/gemm_shapes.hpp>  // gemm_shapes

namespace gx::sim {

GX_DECL GemmShapes gemm_shapes(const Graph& graph, const Op& op, const OpCost& c) {
    using Grows = Gemm::Grows;
    GemmShapes p;
    if (op.macs == 0) return p;
    const auto shape = [&](int t) { return graph.tensors[static_cast<std::size_t>(t)]; };
    const ImageShape in = shape(op.inputs[0]), out = shape(op.output);
    if (op.kind == OpKind::attention_scores || op.kind == OpKind::attention_mix) {
        const bool scores = op.kind == OpKind::attention_scores;
        const std::int64_t tokens = out.height, heads = op.groups;
        const std::int64_t head = op.macs / (tokens * tokens * heads);  // its channels
        const Gemm square{tokens, tokens, head, heads, Grows::count};
        const Gemm narrow{tokens, head, tokens, heads, Grows::count};
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

GX_DECL bool suits_tensor_cores(const Graph& graph, const Op& op, int multiple) {
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

GX_DECL bool suits_winograd(const Op& op) {
    return op.kind == OpKind::conv2d && op.groups == 1 && op.window.stride == 1 &&
           op.window.height == 3 && op.window.width == 3;
}

}  // namespace gx::sim
