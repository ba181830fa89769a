// Head<M, Layer>: a network's last layers as a network; prefix_of(): the layers before them.
#pragma once

#include <array>        // two inputs
#include <cstddef>      // size_t
#include <string_view>  // names
#include <utility>      // move
#include <vector>       // tensors

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/core/decl.hpp>      // GX_DECL
#include <gx/model/concept.hpp>  // graph
#include <gx/model/graph.hpp>    // Graph
#include <gx/model/layers.hpp>   // Text

namespace gx {

/// Where a network can be cut in two: the first operation behind the cut, and the tensor that
/// operations before and behind share.
struct GraphCut {
    int first = -1;   ///< -1: no layer has that name
    int tensor = -1;  ///< -1: more than one crosses the cut
};

/// The cut before layer `name`: before the first operation that is named so, or below it.
[[nodiscard]] constexpr GraphCut cut_before(const Graph& graph, std::string_view name) {
    GraphCut cut;
    for (std::size_t i = 0; i < graph.ops.size() && cut.first < 0; ++i) {
        const std::string_view op = graph.ops[i].name.view();
        if (op.starts_with(name) && (op.size() == name.size() || op[name.size()] == '.'))
            cut.first = static_cast<int>(i);
    }
    for (std::size_t i = cut.first < 0 ? graph.ops.size() : std::size_t(cut.first);
         i < graph.ops.size(); ++i)
        for (const int t : graph.ops[i].inputs) {
            if (t < 0 || t >= cut.first) continue;  // each operation writes the tensor of its index
            if (cut.tensor >= 0 && cut.tensor != t) return {cut.first, -1};
            cut.tensor = t;
        }
    return cut;
}

/// The operations before layer `name`, as a graph whose logits are the numbers at the cut: it is
/// run forward alone. Its parameters and statistics are the first ones of `graph`.
/// Errors: gx::Error naming the layer, unless the network can be cut there.
[[nodiscard]] GX_DECL Graph prefix_of(const Graph& graph, std::string_view name);

namespace detail::head {
template <class M>
[[nodiscard]] constexpr GraphBuilder whole(ImageShape image = {}, int classes = 0) {
    return model::build<M>({.input = image, .classes = classes}, GraphBuilder::Checks::trial);
}
/// What M's layers before `layer` make of an image; {}: it is too small for one of them.
template <class M>
[[nodiscard]] constexpr ImageShape shape_before(std::string_view layer, ImageShape image) {
    GraphBuilder built = whole<M>(image);
    const int too_small_for = built.too_small_for();
    const Graph g = std::move(built).finish();
    const GraphCut cut = cut_before(g, layer);
    const bool fits = too_small_for < 0 || too_small_for >= cut.first;
    return fits ? g.tensors[std::size_t(cut.tensor)] : ImageShape{};
}
/// The least that is known of a cut: constants are no lists. Of an image, {1, 1, 1}: more than one
/// tensor crosses it.
struct Summary {
    GraphCut cut{};
    ImageShape input{};
    bool is_timed_only = false;  ///< whether an operation behind the cut is
};
template <class M, Text Layer>
consteval Summary summarize() {
    const Graph g = whole<M>().finish();
    const GraphCut cut = cut_before(g, Layer.view());
    if (cut.tensor < 0) return {cut, {1, 1, 1}};
    Summary summary{cut, g.tensors[std::size_t(cut.tensor)]};
    for (std::size_t i = std::size_t(cut.first); i < g.ops.size(); ++i)
        summary.is_timed_only = summary.is_timed_only || gx::is_timed_only(g.ops[i].kind);
    return summary;
}
template <class M, Text Layer>
inline constexpr Summary summary = summarize<M, Layer>();
template <class M, Text Layer>
consteval bool explain() {
    static_assert(summary<M, Layer>.cut.first > 0,
                  "gx: no such Head: the network has no layer of this name behind its input. Fix: "
                  "name a layer as its parameters are, without '.weight'.");
    static_assert(summary<M, Layer>.cut.first < 0 || summary<M, Layer>.cut.tensor >= 0,
                  "gx: no such Head: more than one tensor crosses the cut before this layer. Fix: "
                  "cut before a whole block, such as 'layer4' of a ResNet.");
    static_assert(
        !summary<M, Layer>.is_timed_only,
        "gx: no such Head: no device computes the layers behind the cut, and this network "
        "is timed only. Fix: train a part of another network.");
    return true;
}

/// The least side for which f(side) >= wanted; f does not fall. `like` is a side to begin at.
template <class F>
[[nodiscard]] constexpr int least(int wanted, int like, const F& f) {
    int low = 1, high = like;
    while (f(high) < wanted && high < (1 << 20)) low = high, high *= 2;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (f(middle) >= wanted) high = middle;
        else low = middle + 1;
    }
    return low;
}

/// An image of M of which its layers before `layer` make `wanted`. What is behind a cut depends on
/// its shape alone, so any such image will do, and behind a flattened image the own one: layers
/// there take any number of features. {}: there is none.
template <class M>
[[nodiscard]] constexpr ImageShape image_behind(std::string_view layer, const Summary& at,
                                                ImageShape wanted) {
    const ImageShape own = M::input, cut = at.input;
    if (wanted == cut) return own;
    if (at.cut.tensor == 0) return wanted;  // the image itself
    const auto is_flat = [](ImageShape s) { return s.height == 1 && s.width == 1; };
    if (is_flat(cut) && is_flat(wanted)) {
        const ImageShape larger{own.channels, 2 * own.height, 2 * own.width};
        return shape_before<M>(layer, larger).channels != cut.channels ? own : ImageShape{};
    }
    ImageShape image = own;
    if (wanted.height != cut.height)
        image.height = least(wanted.height, own.height, [&](int side) {
            return shape_before<M>(layer, {own.channels, side, own.width}).height;
        });
    if (wanted.width != cut.width)
        image.width = least(wanted.width, own.width, [&](int side) {
            return shape_before<M>(layer, {own.channels, own.height, side}).width;
        });
    return shape_before<M>(layer, image) == wanted ? image : ImageShape{};
}

/// Appends `op` of `from` to `b`, its inputs given.
constexpr int append(GraphBuilder& b, const Graph& from, const Op& op, std::array<int, 2> in) {
    const auto parameter = [&](int k) {
        return from.parameters[std::size_t(op.first_parameter + k)];
    };
    const ImageShape out = from.tensors[std::size_t(op.output)];
    switch (op.kind) {
        case OpKind::conv2d:
            return b.conv2d(in[0], {out.channels, op.window, op.groups, op.parameter_count == 2},
                            op.name);
        case OpKind::batch_norm:
            return b.batch_norm(in[0], {parameter(0).zero, op.rate, op.momentum}, op.name);
        case OpKind::relu: return b.relu(in[0], op.name);
        case OpKind::max_pool: return b.max_pool(in[0], op.window, op.name);
        case OpKind::avg_pool: return b.avg_pool(in[0], op.window, op.name);
        case OpKind::linear: return b.linear(in[0], out.channels, op.parameter_count == 2, op.name);
        case OpKind::add: return b.add(in[0], in[1], op.name);
        case OpKind::flatten: return b.flatten(in[0], op.name);
        case OpKind::dropout: return b.dropout(in[0], op.rate, op.name);
        case OpKind::concat: {
            const ImageShape x = b.shape(in[0]), y = b.shape(in[1]);
            return b.append({.kind = OpKind::concat, .inputs = in, .name = op.name},
                            {x.channels + y.channels, x.height, x.width});
        }
        default: break;
    }
    GX_EXPECT(false, "a Head holds operations that devices compute");
    return in[0];
}
}  // namespace detail::head

/// The layers of M from `Layer` on, as a network. Its images are what the layers before it make of
/// an image: train it on Features, and the layers before it are neither updated, nor have they
/// gradients, nor are any communicated.
///
///     Trainer<Head<ResNet152, "fc">, Ring<fp32>> trainer({.batch = 32, .epochs = 30});
///
/// Parameters are named as in M. On features of another shape than `input` it is what M is on the
/// images that have such features.
/// Errors: does not compile unless M has the layer, one tensor alone crosses the cut before it, and
///         devices compute what is behind it.
///         GraphFault::not_its_features where no image has such features, and as M for that image.
template <class M, Text Layer>
struct Head {
    static_assert(explain_model<M>());
    static_assert(detail::head::explain<M, Layer>());
    static constexpr Label label = Label(std::string_view(M::name)) + " from " + Layer.view();
    static constexpr std::string_view name = label.view();
    static constexpr std::string_view layer = Layer.view();
    static constexpr ImageShape input = detail::head::summary<M, Layer>.input;
    static constexpr int classes = M::classes;

    static constexpr int describe(GraphBuilder& b, int x) {
        const ImageShape image = detail::head::image_behind<M>(
            Layer.view(), detail::head::summary<M, Layer>, b.shape(x));
        b.require(image != ImageShape{}, GraphFault::not_its_features, "input");
        GraphBuilder built = detail::head::whole<M>(image, b.classes());
        b.require(built.trouble().fault == GraphFault::none, built.trouble().fault,
                  built.trouble().at);
        const Graph whole = std::move(built).finish();
        const GraphCut cut = cut_before(whole, Layer.view());
        std::vector<int> at(whole.tensors.size(), x);  // tensors of `b`
        for (std::size_t i = std::size_t(cut.first); i + 1 < whole.ops.size(); ++i) {
            const Op& op = whole.ops[i];
            std::array<int, 2> in = op.inputs;
            for (int& t : in)
                if (t >= 0) t = at[std::size_t(t)];
            x = at[i] = detail::head::append(b, whole, op, in);
        }
        return x;
    }
};

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/model/impl/head.ipp>
#endif
