// Albert<Layers, Width, Heads>: BERT with one layer's weights shared by all layers. Timed only.
#pragma once

#include <string_view>  // name

#include <gx/model/bert.hpp>  // append_layer, append_pooler

namespace gx {

namespace detail::albert {

/// Layers `begin` .. end repeat `count` times with the parameters of the first: their gradients are
/// complete after the backward of the first.
constexpr int repeat_layer(GraphBuilder& b, int x, const bert::Size& s, int begin) {
    const int length = static_cast<int>(b.peek().ops.size()) - begin;
    for (int i = 1; i < s.layers; ++i) {
        const int shift = i * length;
        for (int k = 0; k < length; ++k) {
            Op op = b.op_of(begin + k);
            for (int& input : op.inputs)
                if (input >= 0) input += shift;  // the layer's own input is just before it
            op.name = op.name + "." + i;
            x = b.append(op, b.shape(begin + k));
        }
    }
    return x;
}

}  // namespace detail::albert

/// ALBERT version 2, on 128 tokens by default: words of 128 numbers, widened once,
/// and a single layer. Far fewer parameters to reduce than BERT for as much computation, and all of
/// them ready at the very end of backward.
/// Source: Lan et al. 2019, arXiv:1909.11942; transformers/models/albert/modeling_albert.py.
template <int Layers, int Width, int Heads>
struct Albert {
    static constexpr detail::bert::Size size{Layers, Width, Heads, 30'000};
    static constexpr Label label = Label("ALBERT-") + Layers + "x" + Width;
    static constexpr std::string_view name = label.view();
    static constexpr ImageShape input{1, 128, 1};
    static constexpr int classes = Width;

    static constexpr int describe(GraphBuilder& b, int x) {
        x = detail::bert::append_embeddings(b, x, 128, size);
        x = token_linear(b, x, {Width}, "encoder.embedding_hidden_mapping_in");
        const int begin = x + 1;  // a tensor has the number of its operation
        x = detail::bert::append_layer(b, x, size, "encoder.layer");
        x = detail::albert::repeat_layer(b, x, size, begin);
        return detail::bert::append_pooler(b, x, Width);
    }
};

}  // namespace gx
