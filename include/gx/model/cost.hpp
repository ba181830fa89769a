// OpCost: flops and memory traffic of each operation, for one image.
#pragma once

#include <cstdint>  // int64_t
#include <vector>   // one cost an operation

#include <gx/model/backward_needs.hpp>  // gradient_tensors
#include <gx/model/graph.hpp>           // Graph, Op

namespace gx {

/// Costs of one image. Flops are two a multiply-add of convolutions, linear layers and attention's
/// products (GEMMs); all other arithmetic is below 2 % of a network, is memory-bound and therefore
/// counted as traffic. A parameter that several operations share is counted with each of them.
/// Units: forward_traffic and backward_traffic are elements read or written in memory when each
///        operation runs on its own, from memory to memory; parameters are not in them, because a
///        batch reads them once. Multiply by the bytes of an element.
struct OpCost {
    double forward_flops = 0;
    double backward_data_flops = 0;  ///< 0 where the input needs no gradient, as the image
    double backward_weight_flops = 0;
    std::int64_t elements_in = 0;  ///< of all inputs
    std::int64_t elements_out = 0;
    std::int64_t parameters = 0;
    std::int64_t forward_traffic = 0;  ///< while training
    std::int64_t backward_traffic = 0;

    constexpr OpCost& operator+=(const OpCost& o) {
        forward_flops += o.forward_flops;
        backward_data_flops += o.backward_data_flops;
        backward_weight_flops += o.backward_weight_flops;
        elements_in += o.elements_in;
        elements_out += o.elements_out;
        parameters += o.parameters;
        forward_traffic += o.forward_traffic;
        backward_traffic += o.backward_traffic;
        return *this;
    }
    [[nodiscard]] constexpr double flops() const {
        return forward_flops + backward_data_flops + backward_weight_flops;
    }
};

namespace detail::cost {

struct Traffic {
    std::int64_t forward = 0, backward = 0;
};

/// `in` counts the first input; `data`: its gradient is computed.
///
///     conv2d, linear  x, y                    | x, dy for the weights; dy, dx for the data
///     batch_norm      x to sum, x, y          | x, dy to sum; x, dy, dx
///     relu            x, y                    | y, dy, dx
///     max_pool        x, y, places            | dy, places, dx
///     avg_pool        x, y                    | dy, dx
///     add             a, b, y                 | dy, da, db
///     dropout         x, y, mask              | dy, mask, dx
///     softmax         logits, probabilities   | probabilities, dx
///     flatten, input  nothing: the same memory under another shape
///     embedding       rows, y                 | dy to add, rows to add to
///     token_linear    as linear
///     layer_norm      x, y: a row fits in a multiprocessor | x, dy, dx
///     gelu, tanh, softmax  x, y               | x or y, dy, dx
///     attention       both inputs, y          | both inputs and dy twice, both gradients
///     concat          each input once and y   | dy, each gradient; what is joined already stays
///     select          y read and written      | dy, dx
constexpr Traffic traffic(OpKind kind, std::int64_t in, std::int64_t out, bool data) {
    switch (kind) {
        case OpKind::conv2d:
        case OpKind::linear: return {in + out, in + out + (data ? in + out : 0)};
        case OpKind::batch_norm: return {3 * in, 2 * in + (data ? 3 * in : 0)};
        case OpKind::max_pool: return {in + 2 * out, data ? in + 2 * out : 0};
        case OpKind::avg_pool: return {in + out, data ? in + out : 0};
        case OpKind::relu: return {2 * in, data ? 3 * in : 0};
        case OpKind::add:
        case OpKind::dropout: return {3 * in, data ? 3 * in : 0};
        case OpKind::softmax_cross_entropy: return {2 * in, data ? 2 * in : 0};
        case OpKind::token_linear: return {in + out, in + out + (data ? in + out : 0)};
        case OpKind::embedding: return {2 * out, 3 * out};
        case OpKind::layer_norm: return {2 * in, in + out + (data ? in : 0)};
        case OpKind::gelu:
        case OpKind::tanh:
        case OpKind::softmax: return {2 * in, data ? 3 * in : 0};
        case OpKind::select: return {2 * out, data ? in + out : 0};
        case OpKind::concat:  // these two have more inputs than one: joined_traffic
        case OpKind::attention_scores:
        case OpKind::attention_mix:
        case OpKind::input:
        case OpKind::flatten: break;
    }
    return {};
}

/// Cost of operations with two inputs of different sizes. `again`: a concat of a concat copies only
/// what it adds, as a framework that joins the whole list at once does.
constexpr Traffic joined_traffic(OpKind kind, std::int64_t a, std::int64_t b, std::int64_t out,
                                 bool again) {
    if (kind == OpKind::concat) {
        const std::int64_t copied = 2 * (again ? b : a + b);
        return {copied, copied};
    }
    return {a + b + out, 2 * (a + b + out)};
}

constexpr OpCost cost(const Graph& graph, const Op& op, const std::vector<std::uint8_t>& gradient) {
    const auto elements = [&](int t) {
        return t < 0 ? 0 : graph.tensors[static_cast<std::size_t>(t)].elements();
    };
    const auto has_gradient = [&](int t) {
        return t >= 0 && gradient[static_cast<std::size_t>(t)] != 0;
    };
    const bool data = has_gradient(op.inputs[0]) || has_gradient(op.inputs[1]);
    const double flops = 2.0 * static_cast<double>(op.macs);
    OpCost c{.forward_flops = flops,
             .backward_data_flops = data ? flops : 0.0,
             .backward_weight_flops = flops,
             .elements_in = elements(op.inputs[0]) + elements(op.inputs[1]),
             .elements_out = op.kind == OpKind::input ? 0 : elements(op.output)};
    for (int i = 0; i < op.parameter_count; ++i)
        c.parameters += graph.parameters[static_cast<std::size_t>(op.first_parameter + i)].count;
    if (op.tied_parameter >= 0)
        c.parameters += graph.parameters[static_cast<std::size_t>(op.tied_parameter)].count;
    const bool attends = op.kind == OpKind::attention_scores || op.kind == OpKind::attention_mix;
    if (attends) {  // a gradient for each of two inputs, and no weight
        c.backward_data_flops = 2 * flops;
        c.backward_weight_flops = 0;
    }
    Traffic t = traffic(op.kind, elements(op.inputs[0]), c.elements_out, data);
    if (attends || op.kind == OpKind::concat)
        t = joined_traffic(op.kind, elements(op.inputs[0]), elements(op.inputs[1]), c.elements_out,
                           graph.ops[static_cast<std::size_t>(op.inputs[0])].kind == op.kind);
    c.forward_traffic = t.forward;
    c.backward_traffic = t.backward;
    return c;
}

}  // namespace detail::cost

/// The costs of all operations, in the order of Graph::ops.
[[nodiscard]] constexpr std::vector<OpCost> costs(const Graph& graph) {
    const std::vector<std::uint8_t> gradient = gradient_tensors(graph);
    std::vector<OpCost> all;
    all.reserve(graph.ops.size());
    for (const Op& op : graph.ops) all.push_back(detail::cost::cost(graph, op, gradient));
    return all;
}

/// The cost of one operation of `graph`. Cost: walks the graph; use costs() for all of them.
[[nodiscard]] constexpr OpCost cost(const Graph& graph, const Op& op) {
    return detail::cost::cost(graph, op, gradient_tensors(graph));
}

/// One image through forward and backward.
[[nodiscard]] constexpr OpCost total_cost(const Graph& graph) {
    OpCost sum;
    for (const OpCost& c : costs(graph)) sum += c;
    return sum;
}

}  // namespace gx
