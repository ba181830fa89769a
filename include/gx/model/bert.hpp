// Bert<Layers, Width, Heads>: an encoder of tokens. Timed only.
#pragma once

#include <array>        // tables
#include <string_view>  // name

#include <gx/model/layers.hpp>    // below
#include <gx/model/sequence.hpp>  // embedding, attention, token_linear

namespace gx {

namespace detail::bert {

struct Size {
    int layers = 0, width = 0, heads = 0, vocabulary = 30'522, positions = 512;
};

constexpr int append_embeddings(GraphBuilder& b, int tokens, int width, const Size& s) {
    b.require(b.shape(tokens).height <= s.positions, GraphFault::sequence_too_long, "embeddings");
    const std::array<Table, 3> tables{{{".word_embeddings.weight", s.vocabulary},
                                       {".position_embeddings.weight", s.positions},
                                       {".token_type_embeddings.weight", 2}}};
    const int x = embedding(b, tokens, width, tables, "embeddings");
    return b.dropout(layer_norm(b, x, "embeddings.LayerNorm"), 0.1, "embeddings.dropout");
}

/// attention, add, norm; intermediate, gelu, output, add, norm.
constexpr int append_layer(GraphBuilder& b, int x, const Size& s, const Label& scope) {
    const Label self = scope + ".attention.self", out = scope + ".attention.output";
    const int q = token_linear(b, x, {s.width}, self + ".query");
    const int k = token_linear(b, x, {s.width}, self + ".key");
    const int v = token_linear(b, x, {s.width}, self + ".value");
    int y = attention(b, q, k, v, {.width = s.width, .heads = s.heads}, self);
    y = b.dropout(token_linear(b, y, {s.width}, out + ".dense"), 0.1, out + ".dropout");
    x = layer_norm(b, b.add(y, x, out + ".add"), out + ".LayerNorm");
    y = token_linear(b, x, {4 * s.width}, scope + ".intermediate.dense");
    y = gelu(b, y, scope + ".intermediate.gelu");
    y = b.dropout(token_linear(b, y, {s.width}, scope + ".output.dense"), 0.1,
                  scope + ".output.dropout");
    return layer_norm(b, b.add(y, x, scope + ".output.add"), scope + ".output.LayerNorm");
}

constexpr int append_pooler(GraphBuilder& b, int x, int width) {
    x = b.flatten(select(b, x, 1, "pooler.first"), "pooler.flatten");
    return tanh(b, b.linear(x, width, true, "pooler.dense"), "pooler.tanh");
}

/// Appends both heads; returns the logits of the masked words, 15 % of the tokens, rounded up.
/// Those of the next sentence are computed, and their loss is not part of the graph.
constexpr int append_heads(GraphBuilder& b, int x, int pooled, const Size& s) {
    (void)b.linear(pooled, 2, true, "cls.seq_relationship");
    const int masked = (15 * b.shape(x).height + 99) / 100;
    x = select(b, x, masked, "cls.predictions.masked");
    x = token_linear(b, x, {s.width}, "cls.predictions.transform.dense");
    x = gelu(b, x, "cls.predictions.transform.gelu");
    x = layer_norm(b, x, "cls.predictions.transform.LayerNorm");
    const int words = 0;  // the first parameter of all
    return token_linear(b, x, {s.vocabulary, words}, "cls.predictions.decoder");
}

}  // namespace detail::bert

/// BERT, on 128 tokens by default; on 512 with graph<BertBase>({.input = {1, 512, 1}}).
/// Parameters are named, and come, as in Hugging Face's BertModel. Word table and decoder share
/// their weight, whose gradient is ready last. No device computes it yet; see expect_numbers().
/// Source: Devlin et al. 2018, arXiv:1810.04805; transformers/models/bert/modeling_bert.py.
template <int Layers, int Width, int Heads, BertHead Head>
struct Bert {
    static constexpr detail::bert::Size size{Layers, Width, Heads};
    static constexpr Label label = (Label("BERT-") + Layers + "x" + Width) +
                                   (Head == BertHead::pretraining ? "-pretraining" : "");
    static constexpr std::string_view name = label.view();
    static constexpr ImageShape input{1, 128, 1};
    static constexpr int classes = Head == BertHead::none ? Width : size.vocabulary;

    static constexpr int describe(GraphBuilder& b, int x) {
        x = detail::bert::append_embeddings(b, x, Width, size);
        for (int i = 0; i < Layers; ++i)
            x = detail::bert::append_layer(b, x, size, Label("encoder.layer.") + i);
        const int pooled = detail::bert::append_pooler(b, x, Width);
        return Head == BertHead::none ? pooled : detail::bert::append_heads(b, x, pooled, size);
    }
};

}  // namespace gx
