// Mlp<hidden...>: linear layers with ReLU between them, on 28x28 grey images by default.
#pragma once

#include <array>        // hidden sizes
#include <string_view>  // name

#include <gx/model/layers.hpp>  // append_linear

namespace gx {

/// Names: fc1, relu1, fc2, ..., the last fc giving the logits. Mlp<> is a linear classifier.
template <int... Hidden>
struct Mlp {
    static constexpr std::string_view name = "Mlp";
    static constexpr ImageShape input{1, 28, 28};
    static constexpr int classes = 10;

    static constexpr int describe(GraphBuilder& b, int x) {
        constexpr std::array<int, sizeof...(Hidden)> hidden{Hidden...};
        int layer = 1;
        x = b.flatten(x, "flatten");
        for (const int outputs : hidden) {
            x = b.linear(x, outputs, true, Label("fc") + layer);
            x = b.relu(x, Label("relu") + layer++);
        }
        return b.linear(x, b.classes(), true, Label("fc") + layer);
    }
};

}  // namespace gx
