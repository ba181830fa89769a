// OpKind: the operations that a graph is made of, and their names.
#pragma once

#include <array>        // names
#include <cstddef>      // size_t
#include <cstdint>      // uint8_t
#include <string_view>  // names

namespace gx {

enum class OpKind : std::uint8_t {
    input,
    conv2d,
    batch_norm,
    relu,
    max_pool,
    avg_pool,
    linear,
    add,
    flatten,
    dropout,
    softmax_cross_entropy,
    concat,
    // Timed only: they have shapes, parameters and costs, and no device computes them yet.
    embedding,
    token_linear,
    layer_norm,
    gelu,
    tanh,
    attention_scores,
    softmax,
    attention_mix,
    select
};
[[nodiscard]] constexpr std::string_view to_string(OpKind kind) {
    constexpr std::array<std::string_view, 21> names{"input",
                                                     "conv2d",
                                                     "batch_norm",
                                                     "relu",
                                                     "max_pool",
                                                     "avg_pool",
                                                     "linear",
                                                     "add",
                                                     "flatten",
                                                     "dropout",
                                                     "softmax_cross_entropy",
                                                     "concat",
                                                     "embedding",
                                                     "token_linear",
                                                     "layer_norm",
                                                     "gelu",
                                                     "tanh",
                                                     "attention_scores",
                                                     "softmax",
                                                     "attention_mix",
                                                     "select"};
    return names[static_cast<std::size_t>(kind)];
}
/// Whether a kind can be timed and not computed; see gx/model/timed_only.hpp.
[[nodiscard]] constexpr bool is_timed_only(OpKind kind) { return kind > OpKind::concat; }

}  // namespace gx
