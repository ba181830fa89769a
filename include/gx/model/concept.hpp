// Model: a network as a type; graph<M>() lowers it to the value that devices run.
#pragma once

#include <concepts>     // same_as
#include <cstddef>      // size_t
#include <cstdint>      // int64_t
#include <string_view>  // names
#include <type_traits>  // remove_pointer_t
#include <utility>      // index_sequence

#include <gx/core/role.hpp>    // role::may_be
#include <gx/model/fwd.hpp>    // declarations
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
///     input                shape of the image that the published network takes
///     classes              number of classes
///     describe(b, x)       appends the layers behind tensor x and returns the tensor of logits;
///                          reads b.classes() and b.shape(), because graph<M>() may override both
///
/// All four are static and constexpr.
template <class M>
concept Model = detail::model::NamesItself<M> && detail::model::ShapesItsImage<M> &&
                detail::model::CountsItsClasses<M> && detail::model::DescribesItself<M>;

/// Overrides of a model's input, classes and loss for one graph.
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
    GraphTrouble trouble{};
    std::int64_t parameters = 0, macs = 0;
};
template <class M>
consteval Summary summarize() {
    const GraphBuilder b = build<M>({}, GraphBuilder::Checks::trial);
    return {b.trouble(), b.peek().parameter_elements(), b.peek().macs()};
}
template <class M>
inline constexpr Summary summary = summarize<M>();  // once a program and model: compile time

// The place of a fault as a type, which compilers print. Clang prints the characters of an array as
// numbers, so there it is spelled member by member.
#if defined(__clang__)
template <char... Name>
struct Layer;
template <int Height, int Width>
struct Input;
template <int Height, int Width>
struct Window;
template <class Layer, OpKind Kind, int Operation, class Input, class Window>
struct At;
template <class M, std::size_t... I>
auto place(std::index_sequence<I...>) {
    constexpr GraphTrouble t = summary<M>.trouble;
    using Place = At<Layer<t.at.view()[I]...>, t.kind, t.operation, Input<t.input[0], t.input[1]>,
                     Window<t.window[0], t.window[1]>>;
    return static_cast<Place*>(nullptr);
}
template <class M>
constexpr std::size_t place_length = summary<M>.trouble.at.view().size();
#else
template <std::size_t Length>
struct Characters {
    char text[Length]{};
};
template <Characters Where>
struct At;
template <class M, std::size_t... I>
auto place(std::index_sequence<I...>) {
    constexpr FaultText where = summary<M>.trouble.where();
    return static_cast<At<Characters<sizeof...(I) + 1>{{where.view()[I]..., 0}}>*>(nullptr);
}
template <class M>
constexpr std::size_t place_length = summary<M>.trouble.where().view().size();
#endif
template <class M>
using PlaceOf =
    std::remove_pointer_t<decltype(place<M>(std::make_index_sequence<place_length<M>>()))>;

template <GraphFault Fault, class At>
inline constexpr GraphFault found = Fault;

/// Faults of the network itself, one sentence each. The note behind the error prints the place.
template <GraphFault Fault, class At>
consteval bool explain_fault() {
    static_assert(found<Fault, At> != GraphFault::image_too_small,
                  "gx: not a Model: an image too small for a window of the network. A convolution "
                  "or a pooling, behind the strides before it, finds less than its window. Fix: "
                  "give 'input' a larger image, or use a network with fewer stages.");
    static_assert(found<Fault, At> != GraphFault::window_on_flat,
                  "gx: not a Model: a convolution or a pooling behind a Linear or a Flatten. "
                  "Its input is one pixel. Fix: put it before the first of these.");
    static_assert(found<Fault, At> != GraphFault::uneven_pool,
                  "gx: not a Model: the grid of a pooling does not divide the image. Fix: give "
                  "'input' a size whose stages divide into the grid.");
    static_assert(found<Fault, At> != GraphFault::input_not_flat,
                  "gx: not a Model: a linear layer takes a flat input. Its weights are a "
                  "matrix. Fix: put a Flatten or a GlobalAvgPool before it.");
    static_assert(found<Fault, At> != GraphFault::shapes_differ,
                  "gx: not a Model: a residual add needs two tensors of one shape. Fix: keep "
                  "the branch's size, or project the shortcut by a 1x1 convolution.");
    static_assert(found<Fault, At> != GraphFault::logits_not_classes,
                  "gx: not a Model: the network must end in one logit for each class. The loss "
                  "compares logits with labels. Fix: end it with Classifier.");
    static_assert(found<Fault, At> != GraphFault::bad_groups,
                  "gx: not a Model: convolution groups must divide the channels going in and "
                  "coming out. Fix: change the groups or the channels.");
    static_assert(found<Fault, At> != GraphFault::bad_window,
                  "gx: not a Model: a layer's numbers are out of range. Outputs, windows and "
                  "strides are at least 1, and a pooling pads by half its window at most. Fix: "
                  "change the layer's arguments.");
    static_assert(found<Fault, At> != GraphFault::sequence_too_long,
                  "gx: not a Model: a sequence of more tokens than the network has positions. Its "
                  "table of positions has a row for each. Fix: give 'input' fewer rows.");
    static_assert(found<Fault, At> != GraphFault::not_its_features,
                  "gx: not a Model: features that the network's first layers make of no image. A "
                  "Head is what its network is behind them. Fix: leave the Head's 'input' as it "
                  "is.");
    static_assert(found<Fault, At> != GraphFault::bad_rate,
                  "gx: not a Model: a dropout rate is at least 0 and below 1. Fix: change the "
                  "layer's argument.");
    static_assert(found<Fault, At> != GraphFault::empty_image,
                  "gx: not a Model: 'input' needs a channel, a row and a column. Fix: give the "
                  "shape of one image, as in '{3, 224, 224}'.");
    static_assert(found<Fault, At> != GraphFault::too_few_classes,
                  "gx: not a Model: 'classes' is at least 2. A classifier chooses among them. "
                  "Fix: give the number of labels.");
    return true;
}

}  // namespace detail::model

template <class M>
consteval bool explain_model_members() {
    static_assert(detail::model::NamesItself<M>,
                  "gx: not a Model: no text 'name'. Reports and checkpoints are "
                  "identified by it. "
                  "Fix: add 'static constexpr std::string_view name = \"MyNet\";'.");
    static_assert(detail::model::ShapesItsImage<M>,
                  "gx: not a Model: no 'input'. The graph's shapes start from one image. "
                  "Fix: add 'static constexpr gx::ImageShape input{3, 224, 224};'.");
    static_assert(detail::model::CountsItsClasses<M>,
                  "gx: not a Model: no 'classes'. The loss needs one logit for each. "
                  "Fix: add 'static constexpr int classes = 10;'.");
    static_assert(detail::model::DescribesItself<M>,
                  "gx: not a Model: no 'static constexpr int describe(GraphBuilder&, int x)'. "
                  "It appends the layers and returns the tensor of logits. Fix: add it, or "
                  "inherit from gx::Network<image, classes, layers...>.");
    if constexpr (Model<M>) {
        constexpr GraphFault fault = detail::model::summary<M>.trouble.fault;
        if constexpr (fault != GraphFault::none)
            return detail::model::explain_fault<fault, detail::model::PlaceOf<M>>();
    }
    return true;
}

/// Stops at the first of: a header that is missing, a policy of another role, a missing member.
template <class M>
consteval bool explain_model() {
    using detail::role::Role;
    if constexpr (detail::role::may_be<M, Role::model>()) return explain_model_members<M>();
    else return detail::role::reject<M, Role::model>();
}

/// The graph of M, with softmax cross-entropy at its end.
/// Errors: an image too small for the network breaks the contract, or does not compile where the
///         graph is a constant; ask fits<M>() first where the size comes from outside.
template <class M>
[[nodiscard]] constexpr Graph graph(const GraphOptions& options = {}) {
    static_assert(explain_model<M>());
    return detail::model::build<M>(options, GraphBuilder::Checks::strict).finish();
}

/// The first fault of graph<M>(options) and its layer; GraphFault::none if it has none.
template <class M>
[[nodiscard]] constexpr GraphTrouble trouble(const GraphOptions& options = {}) {
    return detail::model::build<M>(options, GraphBuilder::Checks::trial).trouble();
}

/// Returns whether M accepts images of this shape.
template <class M>
[[nodiscard]] constexpr bool fits(ImageShape input) {
    return trouble<M>({.input = input}).fault == GraphFault::none;
}

/// Number of trained parameters of M at its own image and classes.
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

/// M with another input shape; checked where it is spelt.
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
