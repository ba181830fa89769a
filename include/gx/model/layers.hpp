// Layers as types, and Network, a model that is a list of them.
#pragma once

#include <array>        // characters of names
#include <concepts>     // same_as
#include <cstddef>      // size_t
#include <string_view>  // names

#include <gx/model/concept.hpp>  // Model
#include <gx/model/graph.hpp>    // GraphBuilder

namespace gx {

/// Appends operations behind tensor x and returns the output tensor. `scope` is the layer's name,
/// as "layer1.0"; its parameters are named below it, as "layer1.0.weight".
template <class L>
concept Layer = requires(GraphBuilder& b, int x, const Label& scope) {
    { L::describe(b, x, scope) } -> std::same_as<int>;
};

template <class L>
consteval bool explain_layer() {
    static_assert(Layer<L>,
                  "gx: not a Layer: no 'static constexpr int describe(GraphBuilder&, int x, const "
                  "Label& scope)'. A network asks each of its layers to append itself. "
                  "Fix: add it, or spell a layer of gx/model/layers.hpp.");
    return true;
}

/// `name` below `scope`, as "layer1" and "0" to "layer1.0"; the scope of a whole network is empty.
[[nodiscard]] constexpr Label below(const Label& scope, std::string_view name) {
    return scope.view().empty() ? Label(name) : scope + "." + name;
}
[[nodiscard]] constexpr Label below(const Label& scope, int index) {
    return scope.view().empty() ? Label() + index : scope + "." + index;
}

/// Whether a layer adds a trained constant to each output channel.
enum class Bias : bool { no, yes };

/// Square convolution. No bias by default, because a batch norm mostly follows.
template <int Out, int Kernel, int Stride = 1, int Pad = 0, Bias B = Bias::no, int Groups = 1>
struct Conv {
    static constexpr int describe(GraphBuilder& b, int x, const Label& scope) {
        return b.conv2d(x, {Out, Window::square(Kernel, Stride, Pad), Groups, B == Bias::yes},
                        scope);
    }
};

struct BatchNorm {
    static constexpr int describe(GraphBuilder& b, int x, const Label& scope) {
        return b.batch_norm(x, {}, scope);
    }
};

/// A batch norm whose gamma starts at 0, as the last of a residual branch: the network then starts
/// as if it had only its shortcuts. Source: Goyal et al. 2017, arXiv:1706.02677, section 5.1.
struct ZeroBatchNorm {
    static constexpr int describe(GraphBuilder& b, int x, const Label& scope) {
        return b.batch_norm(x, {.zero_gamma = true}, scope);
    }
};

struct ReLU {
    static constexpr int describe(GraphBuilder& b, int x, const Label& scope) {
        return b.relu(x, scope);
    }
};

template <int Kernel, int Stride = Kernel, int Pad = 0>
struct MaxPool {
    static constexpr int describe(GraphBuilder& b, int x, const Label& scope) {
        return b.max_pool(x, Window::square(Kernel, Stride, Pad), scope);
    }
};

template <int Kernel, int Stride = Kernel, int Pad = 0>
struct AvgPool {
    static constexpr int describe(GraphBuilder& b, int x, const Label& scope) {
        return b.avg_pool(x, Window::square(Kernel, Stride, Pad), scope);
    }
};

/// Means over a grid of Side x Side equal windows; nothing where the image has that size already.
/// Errors: sides that are no multiple of Side are GraphFault::uneven_pool.
template <int Side>
struct GridAvgPool {
    static constexpr int describe(GraphBuilder& b, int x, const Label& scope) {
        const ImageShape in = b.shape(x);
        if (in.height == Side && in.width == Side) return x;
        const bool even = in.height % Side == 0 && in.height == in.width;
        const int step = b.require(even, GraphFault::uneven_pool, scope) ? in.height / Side : 1;
        return b.avg_pool(x, Window::square(step, step), scope);
    }
};

struct GlobalAvgPool {
    static constexpr int describe(GraphBuilder& b, int x, const Label& scope) {
        return b.global_avg_pool(x, scope);
    }
};

struct Flatten {
    static constexpr int describe(GraphBuilder& b, int x, const Label& scope) {
        return b.flatten(x, scope);
    }
};

/// `outputs` weighted sums of everything in x; flattens x by itself where it is not flat.
[[nodiscard]] constexpr int append_linear(GraphBuilder& b, int x, int outputs, Bias bias,
                                          const Label& scope) {
    const ImageShape in = b.shape(x);
    if (in.height != 1 || in.width != 1) x = b.flatten(x, below(scope, "flatten"));
    return b.linear(x, outputs, bias == Bias::yes, scope);
}

/// Flattens its input by itself.
template <int Out, Bias B = Bias::yes>
struct Linear {
    static constexpr int describe(GraphBuilder& b, int x, const Label& scope) {
        return append_linear(b, x, Out, B, scope);
    }
};

/// Last layer: one logit for each class of the graph. Flattens its input by itself.
struct Classifier {
    static constexpr int describe(GraphBuilder& b, int x, const Label& scope) {
        return append_linear(b, x, b.classes(), Bias::yes, scope);
    }
};

/// Zeroes a share `Rate` of its input while training and scales the rest by 1 / (1 - Rate).
template <double Rate>
struct Dropout {
    static constexpr int describe(GraphBuilder& b, int x, const Label& scope) {
        return b.dropout(x, Rate, scope);
    }
};

/// Text as a template argument.
template <std::size_t N>
struct Text {
    std::array<char, N> characters{};
    constexpr Text(const char (&text)[N]) {  // NOLINT: spelt as text
        for (std::size_t i = 0; i < N; ++i) characters[i] = text[i];
    }
    [[nodiscard]] constexpr std::string_view view() const { return {characters.data(), N - 1}; }
};

/// A layer under a name in place of its index: Named<"conv1", Conv<64, 7, 2, 3>>.
template <Text Name, class L>
struct Named {
    static_assert(explain_layer<L>());
    static constexpr int describe(GraphBuilder& b, int x, const Label& scope) {
        return L::describe(b, x, below(scope, Name.view()));
    }
};

namespace detail::layers {
template <class L>
struct Place {
    static constexpr Label scope(const Label& parent, int index) { return below(parent, index); }
};
template <Text Name, class L>
struct Place<Named<Name, L>> {  // names itself
    static constexpr Label scope(const Label& parent, int) { return parent; }
};
}  // namespace detail::layers

/// One layer after another, named by their places: "0", "1", ... where not Named.
template <class... Layers>
struct Sequential {
    static_assert((explain_layer<Layers>() && ...));
    static constexpr int describe(GraphBuilder& b, int x, const Label& scope) {
        int index = 0;
        ((x = Layers::describe(b, x, detail::layers::Place<Layers>::scope(scope, index++))), ...);
        return x;
    }
};

/// `Count` copies of one layer, each with parameters of its own. Instantiated once.
template <int Count, class L>
struct Repeat {
    static_assert(explain_layer<L>());
    static constexpr int describe(GraphBuilder& b, int x, const Label& scope) {
        for (int i = 0; i < Count; ++i) x = L::describe(b, x, below(scope, i));
        return x;
    }
};

/// x as a tensor of shape `out`: itself, or a 1x1 convolution and a batch norm where the shape
/// differs, the projection of He et al. 2015, arXiv:1512.03385, section 3.3, option B.
[[nodiscard]] constexpr int append_shortcut(GraphBuilder& b, int x, ImageShape out,
                                            const Label& scope) {
    const ImageShape in = b.shape(x);
    if (in == out) return x;
    const int stride = (in.height + out.height - 1) / out.height;
    x = b.conv2d(x, {out.channels, Window::square(1, stride)}, below(scope, 0));
    return b.batch_norm(x, {}, below(scope, 1));
}

/// shortcut(x) + layers(x), without a ReLU behind. The shortcut is x, or its projection where the
/// layers change the shape.
template <class... Layers>
struct Residual {
    static constexpr int describe(GraphBuilder& b, int x, const Label& scope) {
        const int branch = Sequential<Layers...>::describe(b, x, scope);
        const int shortcut = append_shortcut(b, x, b.shape(branch), below(scope, "downsample"));
        return b.add(branch, shortcut, below(scope, "add"));
    }
};

/// A model that is a list of layers.
///
///     struct MyNet : Network<ImageShape{1, 28, 28}, 10, Conv<16, 3, 1, 1>, BatchNorm, ReLU,
///                            GlobalAvgPool, Classifier> {
///         static constexpr std::string_view name = "MyNet";
///     };
template <ImageShape Input, int Classes, class... Layers>
struct Network {
    static constexpr ImageShape input = Input;
    static constexpr int classes = Classes;
    static constexpr int describe(GraphBuilder& b, int x) {
        return Sequential<Layers...>::describe(b, x, Label{});
    }
};

}  // namespace gx
