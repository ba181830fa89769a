// Gpt<Layers, Width, Heads, Context>: a decoder that predicts each next token. Timed only.
#pragma once

#include <array>        // tables
#include <string_view>  // name

#include <gx/model/layers.hpp>    // below
#include <gx/model/sequence.hpp>  // embedding, attention, token_linear

namespace gx {

/// GPT-2 of any size, trained on all of its context. Parameters are named, and come, as in Hugging
/// Face's GPT2LMHeadModel; the last layer's weight is the word table, whose gradient is ready last.
/// Attention is timed in full, as kernels of its time computed it, though half of it is masked.
/// No device computes it yet; see expect_numbers().
/// Source: Radford et al. 2019, "Language models are unsupervised multitask learners";
///         transformers/models/gpt2/modeling_gpt2.py.
template <int Layers, int Width, int Heads, int Context = 1024, int Vocabulary = 50'257>
struct Gpt {
    static constexpr Label label = Label("GPT-") + Layers + "x" + Width;
    static constexpr std::string_view name = label.view();
    static constexpr ImageShape input{1, Context, 1};
    static constexpr int classes = Vocabulary;

    static constexpr int describe(GraphBuilder& b, int x) {
        b.require(b.shape(x).height <= Context, GraphFault::bad_window, "transformer");
        constexpr std::array<Table, 2> tables{{{".wte.weight", Vocabulary},
                                               {".wpe.weight", Context}}};
        x = b.dropout(embedding(b, x, Width, tables, "transformer"), 0.1, "transformer.drop");
        for (int i = 0; i < Layers; ++i) x = append_layer(b, x, Label("transformer.h.") + i);
        x = layer_norm(b, x, "transformer.ln_f");
        const int words = 0;  // the first parameter of all
        return token_linear(b, x, {Vocabulary, words, false}, "lm_head");
    }

private:
    static constexpr int append_layer(GraphBuilder& b, int x, const Label& scope) {
        const Label attn = scope + ".attn", mlp = scope + ".mlp";
        const int normed = layer_norm(b, x, scope + ".ln_1");
        const int qkv = token_linear(b, normed, {3 * Width}, attn + ".c_attn");
        int y = attention(b, qkv, qkv, qkv, {.width = Width, .heads = Heads}, attn);
        y = b.dropout(token_linear(b, y, {Width}, attn + ".c_proj"), 0.1, attn + ".drop");
        x = b.add(y, x, attn + ".add");
        y = token_linear(b, layer_norm(b, x, scope + ".ln_2"), {4 * Width}, mlp + ".c_fc");
        y = gelu(b, y, mlp + ".gelu");
        y = b.dropout(token_linear(b, y, {Width}, mlp + ".c_proj"), 0.1, mlp + ".drop");
        return b.add(y, x, mlp + ".add");
    }
};

using Gpt2Small = Gpt<12, 768, 12>;
using Gpt2Medium = Gpt<24, 1024, 16>;
using Gpt2Large = Gpt<36, 1280, 20>;
using Gpt2Xl = Gpt<48, 1600, 25>;

}  // namespace gx
