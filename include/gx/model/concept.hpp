// Model: a type that describes a network; graph<M>() lowers it to the value that devices run.
#pragma once

#include <concepts>     // same_as
#include <cstdint>      // int64_t
#include <string_view>  // names

#include <gx/model/graph.hpp>  // Graph, GraphBuilder

namespace gx {

namespace detail::model {
template <class M>
concept NamesItself = requires {
    { M::name } -> std::convertible_to<std::string_view>;
};
template <class M>
concept ShapesItsImage = requires {
    { M::input } -> std::convertible_to<ImageShape>;
};
template <class M>
concept CountsItsClasses = requires {
    { M::classes } -> std::convertible_to<int>;
};
template <class M>
concept DescribesItself = requires(GraphBuilder& b, int x) {
    { M::describe(b, x) } -> std::same_as<int>;
};
}  // namespace detail::model

/// A network as a type.
///
///     name                 text, unique among the models of a program
///     input                the image that the published network takes
///     classes              and how many classes it tells apart
///     describe(b, x)       appends the layers behind tensor x and answers the logits; asks
///                          b.classes() and b.shape(), because graph<M>() may override both
///
/// All four are static and constexpr.
template <class M>
concept Model = detail::model::NamesItself<M> && detail::model::ShapesItsImage<M> &&
                detail::model::CountsItsClasses<M> && detail::model::DescribesItself<M>;

/// What a graph may have other than its model says.
struct GraphOptions {
    ImageShape input{};          ///< {}: the model's own
    int classes = 0;             ///< 0: the model's own
    double label_smoothing = 0;  ///< Szegedy et al. 2015, arXiv:1512.00567, section 7
};

namespace detail::model {

template <class M>
constexpr GraphBuilder build(const GraphOptions& o, GraphBuilder::Checks checks) {
    const ImageShape input = o.input == ImageShape{} ? ImageShape{M::input} : o.input;
    GraphBuilder b(std::string_view(M::name), input, o.classes == 0 ? M::classes : o.classes,
                   checks);
    const int logits = M::describe(b, b.input());
    b.softmax_cross_entropy(logits, o.label_smoothing, "loss");
    return b;
}

struct Summary {
    GraphFault fault = GraphFault::none;
    std::int64_t parameters = 0, macs = 0;
};
template <class M>
consteval Summary summarize() {
    const GraphBuilder b = build<M>({}, GraphBuilder::Checks::trial);
    return {b.trouble().fault, b.peek().parameter_elements(), b.peek().macs()};
}
template <class M>
inline constexpr Summary summary = summarize<M>();  // once a program and model: compile time

/// Faults of the network itself, one sentence each; the image's size first.
template <GraphFault Fault>
consteval bool explain_fault() {
    static_assert(Fault != GraphFault::image_too_small && Fault != GraphFault::uneven_pool,
                  "gx: not a Model: an image smaller than the network's stride. A window of a "
                  "convolution or a pooling finds less than itself, or a grid of pooled windows "
                  "does not divide the image. Fix: give 'input' a larger image, or use a network "
                  "with fewer stages.");
    static_assert(Fault != GraphFault::input_not_flat,
                  "gx: not a Model: a linear layer takes a flat input. Its weights are a matrix. "
                  "Fix: put a Flatten or a GlobalAvgPool before it.");
    static_assert(Fault != GraphFault::shapes_differ,
                  "gx: not a Model: a residual add needs two tensors of one shape. "
                  "Fix: keep the branch's size, or project the shortcut by a 1x1 convolution.");
    static_assert(Fault != GraphFault::logits_not_classes,
                  "gx: not a Model: the network must end in one logit for each class. The loss "
                  "compares logits with labels. Fix: end it with Classifier.");
    static_assert(Fault != GraphFault::bad_groups,
                  "gx: not a Model: convolution groups must divide the channels going in and "
                  "coming out. Fix: change the groups or the channels.");
    static_assert(Fault != GraphFault::bad_window && Fault != GraphFault::bad_rate,
                  "gx: not a Model: a layer's numbers are out of range. Outputs, windows and "
                  "strides are at least 1, a pooling pads by half its window at most, a dropout "
                  "rate is at least 0 and below 1. Fix: change the layer's arguments.");
    static_assert(Fault != GraphFault::empty_image && Fault != GraphFault::too_few_classes,
                  "gx: not a Model: 'input' needs a channel, a row and a column, and 'classes' "
                  "at least 2. Fix: say what the network is shown.");
    return true;
}

}  // namespace detail::model

template <class M>
consteval bool explain_model() {
    static_assert(detail::model::NamesItself<M>,
                  "gx: not a Model: no text 'name'. Reports and checkpoints say which network "
                  "they are of. Fix: add 'static constexpr std::string_view name = \"MyNet\";'.");
    static_assert(detail::model::ShapesItsImage<M>,
                  "gx: not a Model: no 'input'. The graph's shapes start from one image. "
                  "Fix: add 'static constexpr gx::ImageShape input{3, 224, 224};'.");
    static_assert(detail::model::CountsItsClasses<M>,
                  "gx: not a Model: no 'classes'. The loss needs one logit for each. "
                  "Fix: add 'static constexpr int classes = 10;'.");
    static_assert(detail::model::DescribesItself<M>,
                  "gx: not a Model: no 'static constexpr int describe(GraphBuilder&, int x)'. "
                  "It appends the layers and answers the tensor of logits. Fix: add it, or "
                  "inherit from gx::Network<image, classes, layers...>.");
    if constexpr (Model<M>) {
        return detail::model::explain_fault<detail::model::summary<M>.fault>();
    }
    return true;
}

/// The graph of M, with softmax cross-entropy at its end.
/// Errors: an image too small for the network breaks the contract, or does not compile where the
///         graph is a constant; ask fits<M>() first where the size comes from outside.
template <class M>
[[nodiscard]] constexpr Graph graph(const GraphOptions& options = {}) {
    static_assert(explain_model<M>());
    return detail::model::build<M>(options, GraphBuilder::Checks::strict).finish();
}

/// What graph<M>(options) would stumble over, and at which layer; GraphFault::none: nothing.
template <class M>
[[nodiscard]] constexpr GraphTrouble trouble(const GraphOptions& options = {}) {
    return detail::model::build<M>(options, GraphBuilder::Checks::trial).trouble();
}

/// Whether M takes images of this shape.
template <class M>
[[nodiscard]] constexpr bool fits(ImageShape input) {
    return trouble<M>({.input = input}).fault == GraphFault::none;
}

/// Trained numbers of M at its own image and classes.
template <class M>
[[nodiscard]] consteval std::int64_t parameter_count() {
    static_assert(explain_model<M>());
    return detail::model::summary<M>.parameters;
}

/// Multiply-adds of one image of M, forward, in its convolutions and linear layers.
template <class M>
[[nodiscard]] consteval std::int64_t mac_count() {
    static_assert(explain_model<M>());
    return detail::model::summary<M>.macs;
}

/// M shown another image: a Model whose size is checked where it is spelt.
template <class M, ImageShape Input>
struct WithInput {
    static constexpr std::string_view name = M::name;
    static constexpr ImageShape input = Input;
    static constexpr int classes = M::classes;
    static constexpr int describe(GraphBuilder& b, int x) { return M::describe(b, x); }
};

namespace archetype {
/// The least model: every pixel weighs on every class.
struct Model {
    static constexpr std::string_view name = "archetype";
    static constexpr ImageShape input{1, 2, 2};
    static constexpr int classes = 2;
    static constexpr int describe(GraphBuilder& b, int x) {
        return b.linear(b.flatten(x, "flatten"), b.classes(), true, "fc");
    }
};
}  // namespace archetype
static_assert(explain_model<archetype::Model>());

}  // namespace gx
