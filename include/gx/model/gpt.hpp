// Gpt<Layers, Width, Heads, Context>, gpt(size): decoders that predict each next token. Timed only.
#pragma once

#include <array>        // tables
#include <string_view>  // name
#include <utility>      // move

#include <gx/model/concept.hpp>   // Model
#include <gx/model/layers.hpp>    // below
#include <gx/model/sequence.hpp>  // embedding, attention, token_linear

namespace gx {

struct GptSize {
    int layers = 12, width = 768, heads = 12;
    int context = 1024, vocabulary = 50'257;
};

namespace detail::gpt {

constexpr Label name(const GptSize& s) { return Label("GPT-") + s.layers + "x" + s.width; }

constexpr int append_layer(GraphBuilder& b, int x, const GptSize& s, const Label& scope) {
    const Label attn = scope + ".attn", mlp = scope + ".mlp";
    const int normed = layer_norm(b, x, scope + ".ln_1");
    const int qkv = token_linear(b, normed, {3 * s.width}, attn + ".c_attn");
    int y = attention(b, qkv, qkv, qkv, {.width = s.width, .heads = s.heads}, attn);
    y = b.dropout(token_linear(b, y, {s.width}, attn + ".c_proj"), 0.1, attn + ".drop");
    x = b.add(y, x, attn + ".add");
    y = token_linear(b, layer_norm(b, x, scope + ".ln_2"), {4 * s.width}, mlp + ".c_fc");
    y = gelu(b, y, mlp + ".gelu");
    y = b.dropout(token_linear(b, y, {s.width}, mlp + ".c_proj"), 0.1, mlp + ".drop");
    return b.add(y, x, mlp + ".add");
}

constexpr int describe(GraphBuilder& b, int x, const GptSize& s) {
    b.require(b.shape(x).height <= s.context, GraphFault::sequence_too_long, "transformer");
    const std::array<Table, 2> tables{{{".wte.weight", s.vocabulary}, {".wpe.weight", s.context}}};
    x = b.dropout(embedding(b, x, s.width, tables, "transformer"), 0.1, "transformer.drop");
    for (int i = 0; i < s.layers; ++i) x = append_layer(b, x, s, Label("transformer.h.") + i);
    x = layer_norm(b, x, "transformer.ln_f");
    const int words = 0;  // the first parameter of all
    return token_linear(b, x, {s.vocabulary, words, false}, "lm_head");
}

}  // namespace detail::gpt

/// GPT-2 of any size, trained on all of its context. Parameters are named, and come, as in Hugging
/// Face's GPT2LMHeadModel; the last layer's weight is the word table, whose gradient is ready last.
/// Attention is timed in full, as kernels of its time computed it, though half of it is masked.
/// No device computes it yet; see expect_numbers().
/// Source: Radford et al. 2019, "Language models are unsupervised multitask learners";
///         transformers/models/gpt2/modeling_gpt2.py.
template <int Layers, int Width, int Heads, int Context, int Vocabulary>
struct Gpt {
    static constexpr GptSize size{Layers, Width, Heads, Context, Vocabulary};
    static constexpr Label label = detail::gpt::name(size);
    static constexpr std::string_view name = label.view();
    static constexpr ImageShape input{1, Context, 1};
    static constexpr int classes = Vocabulary;

    static constexpr int describe(GraphBuilder& b, int x) {
        return detail::gpt::describe(b, x, size);
    }
};

/// Graph of a GPT whose size is known at run time only.
/// Errors: a size of 0, or heads that do not divide the width, break the contract.
[[nodiscard]] constexpr Graph gpt(const GptSize& size) {
    GX_EXPECT(size.layers > 0 && size.width > 0 && size.context > 0 && size.vocabulary > 1,
              "a GPT has at least one layer, one number a token, one token and two words");
    GraphBuilder b(detail::gpt::name(size), {1, size.context, 1}, size.vocabulary);
    b.softmax_cross_entropy(detail::gpt::describe(b, b.input(), size), 0, "loss");
    return std::move(b).finish();
}

}  // namespace gx
