// Operations that join branches and read tokens: concat, embedding, attention and their like.
#pragma once

#include <array>        // shapes
#include <cstdint>      // int64_t
#include <span>         // tables
#include <string_view>  // suffixes

#include <gx/model/graph.hpp>  // GraphBuilder

namespace gx {

/// `b`'s channels behind `a`'s. Longer lists are joined one after another, at the cost of one join.
constexpr int concat(GraphBuilder& builder, int a, int b, const Label& scope) {
    const ImageShape x = builder.shape(a), y = builder.shape(b);
    builder.require(x.height == y.height && x.width == y.width, GraphFault::shapes_differ, scope);
    return builder.append({.kind = OpKind::concat, .inputs = {a, b}, .name = scope + ".concat"},
                          {x.channels + y.channels, x.height, x.width});
}

// A sequence is an image of one column: `channels` numbers for each of `height` tokens.

/// Rows of a table for each token, from all tables summed. Tokens are numbers: one channel.
struct Table {
    std::string_view suffix;
    int rows = 0;
};
constexpr int embedding(GraphBuilder& b, int tokens, int width, std::span<const Table> tables,
                        const Label& scope) {
    const ImageShape in = b.shape(tokens);
    b.require(in.channels == 1 && in.width == 1, GraphFault::shapes_differ, scope);
    Op op{.kind = OpKind::embedding, .inputs = {tokens, -1}, .name = scope};
    for (const Table& t : tables) {
        const std::array<int, 4> matrix{t.rows, width, 1, 1};
        b.add_parameter(op, {.shape = matrix, .fan_in = width}, t.suffix);
    }
    return b.append(op, {width, in.height, 1});
}

/// Weighted sums of each token's channels. `weight`: a parameter that an earlier operation owns,
/// of shape (outputs, channels), in place of one of its own.
struct TokenLinear {
    int outputs = 0;
    int weight = -1;
    bool bias = true;
};
constexpr int token_linear(GraphBuilder& b, int x, TokenLinear l, const Label& scope) {
    const ImageShape in = b.shape(x);
    b.require(l.outputs > 0, GraphFault::bad_window, scope);
    Op op{.kind = OpKind::token_linear, .inputs = {x, -1}, .tied_parameter = l.weight};
    op.name = scope;
    op.macs = in.elements() * l.outputs;
    const std::array<int, 4> matrix{l.outputs, in.channels, 1, 1}, row{l.outputs, 1, 1, 1};
    if (l.weight < 0) b.add_parameter(op, {.shape = matrix, .fan_in = in.channels}, ".weight");
    if (l.bias)
        b.add_parameter(op, {.role = ParameterRole::bias, .shape = row, .fan_in = in.channels},
                        ".bias");
    return b.append(op, {l.outputs, in.height, in.width});
}

constexpr int layer_norm(GraphBuilder& b, int x, const Label& scope) {
    const int channels = b.shape(x).channels;
    Op op{.kind = OpKind::layer_norm, .inputs = {x, -1}, .rate = 1e-12, .name = scope};
    const std::array<int, 4> row{channels, 1, 1, 1};
    b.add_parameter(op, {.role = ParameterRole::gamma, .shape = row, .fan_in = channels},
                    ".weight");
    b.add_parameter(op, {.role = ParameterRole::beta, .shape = row, .fan_in = channels}, ".bias");
    return b.append(op, b.shape(x));
}

constexpr int gelu(GraphBuilder& b, int x, const Label& name) {
    return b.append({.kind = OpKind::gelu, .inputs = {x, -1}, .name = name}, b.shape(x));
}
constexpr int tanh(GraphBuilder& b, int x, const Label& name) {
    return b.append({.kind = OpKind::tanh, .inputs = {x, -1}, .name = name}, b.shape(x));
}

/// The first `count` tokens, or those at given places: timing depends on their number alone.
constexpr int select(GraphBuilder& b, int x, int count, const Label& name) {
    const ImageShape in = b.shape(x);
    b.require(count > 0 && count <= in.height, GraphFault::image_too_small, name);
    return b.append({.kind = OpKind::select, .inputs = {x, -1}, .name = name},
                    {in.channels, count, 1});
}

/// Scaled dot-product attention: softmax of queries times keys, dropout, times values. The scores
/// are stored, as in frameworks before fused attention.
/// Shapes: queries, keys and values (width x tokens); three times the same tensor where one linear
///         layer makes all of them, 3 width channels long.
struct Attention {
    int width = 0, heads = 1;
    double dropout = 0.1;
};
constexpr int attention(GraphBuilder& b, int queries, int keys, int values, Attention a,
                        const Label& scope) {
    b.require(a.heads > 0 && a.width % a.heads == 0, GraphFault::bad_groups, scope);
    const int tokens = b.shape(queries).height;
    const std::int64_t macs = std::int64_t{tokens} * tokens * a.width;
    Op product{.kind = OpKind::attention_scores, .inputs = {queries, keys}, .groups = a.heads};
    product.macs = macs;
    product.name = scope + ".scores";
    int x = b.append(product, {a.heads, tokens, tokens});
    x = b.append({.kind = OpKind::softmax, .inputs = {x, -1}, .name = scope + ".softmax"},
                 b.shape(x));
    if (a.dropout > 0) x = b.dropout(x, a.dropout, scope + ".dropout");
    product.kind = OpKind::attention_mix;
    product.inputs = {x, values};
    product.name = scope + ".mix";
    return b.append(product, {a.width, tokens, 1});
}

}  // namespace gx
