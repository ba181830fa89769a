// Mlp<hidden...>: linear layers with ReLU between them, on 28x28 grey images by default.
#pragma once

#include <array>        // hidden sizes
#include <string_view>  // name

#include <gx/model/layers.hpp>  // append_linear

namespace gx {

namespace detail::mlp {

/// "Mlp<300, 100>", of any length.
template <int... Hidden>
struct Name {
    static constexpr std::size_t most = 10 + 2;  // digits of a size, and the separator
    std::array<char, sizeof("Mlp<>") + most * sizeof...(Hidden)> text{};
    std::size_t length = 0;

    constexpr Name() {
        append("Mlp<");
        ((append(Hidden), append(", ")), ...);
        if (sizeof...(Hidden) > 0) length -= 2;
        append(">");
    }
    constexpr void append(std::string_view part) {
        for (const char c : part) text[length++] = c;
    }
    constexpr void append(int size) {
        if (size >= 10) append(size / 10);
        text[length++] = static_cast<char>('0' + size % 10);
    }
};
template <int... Hidden>
inline constexpr Name<Hidden...> name{};

}  // namespace detail::mlp

/// Names: fc1, relu1, fc2, ..., the last fc giving the logits. Mlp<> is a linear classifier.
template <int... Hidden>
struct Mlp {
    static_assert(((Hidden > 0) && ...),
                  "gx: a hidden layer without units. Fix: give the sizes of the hidden layers, "
                  "each 1 or more, as in Mlp<300, 100>; Mlp<> has none.");
    static constexpr std::string_view name{detail::mlp::name<Hidden...>.text.data(),
                                           detail::mlp::name<Hidden...>.length};
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
