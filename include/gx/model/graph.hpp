// Graph: what a model lowers to, a constexpr value: operations, tensors, parameters, in order.
#pragma once

#include <array>        // shapes
#include <cstdint>      // int64_t
#include <string_view>  // names
#include <type_traits>  // is_constant_evaluated
#include <vector>       // flat lists

#include <gx/core/cold.hpp>          // GX_COLD
#include <gx/core/contract.hpp>      // GX_EXPECT
#include <gx/core/decl.hpp>          // GX_DECL
#include <gx/core/label.hpp>         // Label
#include <gx/model/graph_fault.hpp>  // GraphFault, GraphTrouble
#include <gx/model/op_kind.hpp>      // OpKind

namespace gx {

/// Channels, height and width of one image; activations of one image have the same three.
struct ImageShape {
    int channels = 0, height = 0, width = 0;
    [[nodiscard]] constexpr std::int64_t elements() const {
        return std::int64_t{channels} * height * width;
    }
    constexpr bool operator==(const ImageShape&) const = default;
};

/// The window of a convolution or a pooling: size, stride, and zero padding on each side.
struct Window {
    int height = 1, width = 1, stride = 1, pad_height = 0, pad_width = 0;
    bool counts_padding = false;  ///< avg_pool: divides by height * width, also at the borders
    [[nodiscard]] static constexpr Window square(int size, int stride = 1, int pad = 0) {
        return {size, size, stride, pad, pad};
    }
    constexpr bool operator==(const Window&) const = default;
};

/// One operation. Tensors and parameters are indices into the graph's lists; -1 is none.
struct Op {
    OpKind kind = OpKind::input;
    std::array<int, 2> inputs{-1, -1};
    int output = -1;
    int first_parameter = -1;  ///< weight then bias, or gamma then beta, in Graph::parameters
    int parameter_count = 0;
    int tied_parameter = -1;   ///< the weight, where an earlier operation owns it
    int first_statistic = -1;  ///< batch_norm: running mean, then running variance
    Window window{};           ///< conv2d, max_pool, avg_pool
    int groups = 1;            ///< conv2d; attention: heads
    double rate = 0;           ///< dropout: share dropped; cross-entropy: label smoothing;
                               ///< batch_norm: epsilon
    double momentum = 0;       ///< batch_norm: running = (1 - momentum) running + momentum batch
    std::int64_t macs = 0;     ///< multiply-adds of one image, forward; products only
    Label name{};
};

enum class ParameterRole : std::uint8_t { weight, bias, gamma, beta };

/// One parameter tensor. Canonical layout: weight of conv2d (out, in / groups, height, width),
/// of linear (out, in), everything else (channels); row-major, one after the other from `offset`.
struct Parameter {
    ParameterRole role = ParameterRole::weight;
    std::array<int, 4> shape{1, 1, 1, 1};
    std::int64_t offset = 0;  ///< elements, in the flat canonical parameter vector
    std::int64_t count = 0;   ///< elements
    int fan_in = 0;           ///< inputs of one output; for He initialisation
    bool zero = false;        ///< starts at zero although its role would not (last gamma)
    Label name{};
};

/// Running mean or variance of a batch norm; saved, reduced by averaging, not trained.
struct Statistic {
    std::int64_t offset = 0;
    std::int64_t count = 0;
    float initial = 0;
    Label name{};
};

/// A network as a value. Ops are in forward order and end with the loss; parameters are in the
/// order of their ops, so that backward finishes gradients from the end of the list to its start.
/// An operation may use a parameter that an earlier one owns (`tied_parameter`, or the earlier
/// one's `first_parameter`): its gradient is then complete after the backward of its owner.
/// A sequence of tokens is an image of one column: channels x tokens x 1.
struct Graph {
    Label name{};
    ImageShape input{};
    int classes = 0;
    std::vector<ImageShape> tensors{};
    std::vector<Op> ops{};
    std::vector<Parameter> parameters{};
    std::vector<Statistic> statistics{};

    [[nodiscard]] constexpr std::int64_t parameter_elements() const {
        return parameters.empty() ? 0 : parameters.back().offset + parameters.back().count;
    }
    [[nodiscard]] constexpr std::int64_t statistic_elements() const {
        return statistics.empty() ? 0 : statistics.back().offset + statistics.back().count;
    }
    /// Multiply-adds of one image, forward.
    [[nodiscard]] constexpr std::int64_t macs() const {
        std::int64_t sum = 0;
        for (const Op& op : ops) sum += op.macs;
        return sum;
    }
};

namespace detail::graph {
/// Breaks the contract of a builder at run time.
[[noreturn]] GX_DECL void stop(const GraphTrouble& trouble);
}  // namespace detail::graph

/// Builder of graphs: each call appends an operation and returns its output tensor.
/// Errors: with Checks::strict a fault breaks the contract, so an image smaller than the network's
///         stride does not compile where the graph is a constant. With Checks::trial the first
///         fault is kept for trouble() and shapes are guessed from there on.
class GraphBuilder {
public:
    enum class Checks : std::uint8_t { strict, trial };

    GX_COLD constexpr GraphBuilder(Label name, ImageShape input, int classes,
                                   Checks checks = Checks::strict)
        : checks_(checks) {
        require(input.channels > 0 && input.height > 0 && input.width > 0, GraphFault::empty_image,
                "input");
        require(classes > 1, GraphFault::too_few_classes, "input");
        graph_.name = name;
        graph_.input = input;
        graph_.classes = classes;
        append({.kind = OpKind::input, .name = "input"}, input);
    }

    [[nodiscard]] constexpr int input() const { return 0; }
    [[nodiscard]] constexpr int classes() const { return graph_.classes; }
    [[nodiscard]] constexpr ImageShape shape(int tensor) const {
        return graph_.tensors[static_cast<std::size_t>(tensor)];
    }
    [[nodiscard]] constexpr const GraphTrouble& trouble() const { return trouble_; }
    /// The first operation whose window the image is too small for, whatever else is wrong, or -1.
    [[nodiscard]] constexpr int too_small_for() const { return too_small_for_; }

    /// Checks a condition of the network; if it fails, records `fault` at operation `name`.
    constexpr bool require(bool holds, GraphFault fault, const Label& name) {
        if (!holds && fault == GraphFault::image_too_small && too_small_for_ < 0)
            too_small_for_ = static_cast<int>(graph_.ops.size());
        if (holds || trouble_.fault != GraphFault::none) return holds;
        trouble_ = site_;
        trouble_.fault = fault, trouble_.at = name;
        trouble_.operation = static_cast<int>(graph_.ops.size());
        if (checks_ == Checks::trial) return holds;
        if (std::is_constant_evaluated()) GX_EXPECT(holds, trouble_.text().view());
        else detail::graph::stop(trouble_);
        return holds;
    }

    struct Conv {
        int channels = 0;
        Window window{};
        int groups = 1;
        bool bias = false;
    };
    GX_COLD constexpr int conv2d(int x, Conv c, const Label& name) {
        const ImageShape in = shape(x);
        enter(OpKind::conv2d, x, c.window);
        if (!require(c.groups > 0 && c.channels > 0 && in.channels % c.groups == 0 &&
                         c.channels % c.groups == 0,
                     GraphFault::bad_groups, name))
            c.groups = 1;
        const ImageShape out = windowed(x, c.window, c.channels, name);
        const int per_group = in.channels / c.groups;
        const int fan_in = per_group * c.window.height * c.window.width;
        Op op{.kind = OpKind::conv2d, .inputs = {x, -1}, .window = c.window, .groups = c.groups};
        op.name = name;
        op.macs = out.elements() * fan_in;
        const std::array<int, 4> kernel{c.channels, per_group, c.window.height, c.window.width};
        add_parameter(op, {.shape = kernel, .fan_in = fan_in}, ".weight");
        if (c.bias) add_bias(op, c.channels, fan_in);
        return append(op, out);
    }

    struct BatchNorm {
        bool zero_gamma = false;  ///< start the branch at nothing: Goyal et al. 2017, section 5.1
        double epsilon = 1e-5;
        double momentum = 0.1;
    };
    GX_COLD constexpr int batch_norm(int x, BatchNorm b, const Label& name) {
        const int c = shape(x).channels;
        Op op{.kind = OpKind::batch_norm, .inputs = {x, -1}, .rate = b.epsilon};
        op.momentum = b.momentum;
        op.name = name;
        Parameter gamma{.role = ParameterRole::gamma, .shape = {c, 1, 1, 1}, .fan_in = c};
        gamma.zero = b.zero_gamma;
        add_parameter(op, gamma, ".weight");
        add_parameter(op, {.role = ParameterRole::beta, .shape = {c, 1, 1, 1}, .fan_in = c},
                      ".bias");
        op.first_statistic = static_cast<int>(graph_.statistics.size());
        add_statistic(c, 0.0f, name + ".running_mean");
        add_statistic(c, 1.0f, name + ".running_var");
        return append(op, shape(x));
    }
    constexpr int relu(int x, const Label& name) {
        return append({.kind = OpKind::relu, .inputs = {x, -1}, .name = name}, shape(x));
    }
    constexpr int max_pool(int x, Window w, const Label& name) {
        return pool(OpKind::max_pool, x, w, name);
    }
    /// Mean over the part of the window that lies inside the image; where the window counts its
    /// padding, the same sum divided by height * width (PyTorch's default).
    constexpr int avg_pool(int x, Window w, const Label& name) {
        return pool(OpKind::avg_pool, x, w, name);
    }
    constexpr int global_avg_pool(int x, const Label& name) {
        const ImageShape in = shape(x);
        return pool(OpKind::avg_pool, x, Window{in.height, in.width, 1, 0, 0}, name);
    }
    GX_COLD constexpr int linear(int x, int outputs, bool bias, const Label& name) {
        const ImageShape in = shape(x);
        enter(OpKind::linear, x);
        require(in.height == 1 && in.width == 1, GraphFault::input_not_flat, name);
        require(outputs > 0, GraphFault::bad_window, name);
        Op op{.kind = OpKind::linear, .inputs = {x, -1}, .name = name};
        op.macs = std::int64_t{in.channels} * outputs;
        const std::array<int, 4> matrix{outputs, in.channels, 1, 1};
        add_parameter(op, {.shape = matrix, .fan_in = in.channels}, ".weight");
        if (bias) add_bias(op, outputs, in.channels);
        return append(op, {outputs, 1, 1});
    }
    constexpr int add(int a, int b, const Label& name) {
        enter(OpKind::add, b);
        require(shape(a) == shape(b), GraphFault::shapes_differ, name);
        return append({.kind = OpKind::add, .inputs = {a, b}, .name = name}, shape(a));
    }
    constexpr int flatten(int x, const Label& name) {
        const auto n = static_cast<int>(shape(x).elements());
        return append({.kind = OpKind::flatten, .inputs = {x, -1}, .name = name}, {n, 1, 1});
    }
    GX_COLD constexpr int dropout(int x, double rate, const Label& name) {
        enter(OpKind::dropout, x);
        require(rate >= 0 && rate < 1, GraphFault::bad_rate, name);
        Op op{.kind = OpKind::dropout, .inputs = {x, -1}, .rate = rate, .name = name};
        return append(op, shape(x));
    }
    /// The loss: mean over the batch, against labels softened by `smoothing`. Ends the graph.
    GX_COLD constexpr int softmax_cross_entropy(int logits, double smoothing, const Label& name) {
        enter(OpKind::softmax_cross_entropy, logits);
        const bool tokens = op_of(logits).kind == OpKind::token_linear;  // a prediction for each
        const ImageShape one{graph_.classes, tokens ? shape(logits).height : 1, 1};
        require(shape(logits) == one, GraphFault::logits_not_classes, name);
        require(smoothing >= 0 && smoothing < 1, GraphFault::bad_rate, name);
        Op op{.kind = OpKind::softmax_cross_entropy, .inputs = {logits, -1}, .rate = smoothing};
        op.name = name;
        return append(op, {1, 1, 1});
    }

    [[nodiscard]] constexpr const Graph& peek() const { return graph_; }
    [[nodiscard]] constexpr Graph finish() && { return static_cast<Graph&&>(graph_); }

    // For layers of other headers.
    /// The operation that wrote a tensor.
    [[nodiscard]] constexpr const Op& op_of(int tensor) const {
        return graph_.ops[static_cast<std::size_t>(tensor)];  // each appends one tensor
    }
    GX_COLD constexpr int append(const Op& op, ImageShape out) {
        graph_.tensors.push_back(out);
        graph_.ops.push_back(op);
        site_ = {};
        return graph_.ops.back().output = static_cast<int>(graph_.tensors.size()) - 1;
    }
    /// A parameter of `op`, which is appended before the next operation is; named behind op.name.
    GX_COLD constexpr void add_parameter(Op& op, Parameter p, std::string_view suffix) {
        p.offset = graph_.parameter_elements();
        p.count = std::int64_t{p.shape[0]} * p.shape[1] * p.shape[2] * p.shape[3];
        p.name = op.name + suffix;
        if (op.parameter_count++ == 0)
            op.first_parameter = static_cast<int>(graph_.parameters.size());
        graph_.parameters.push_back(p);
    }

private:
    GX_COLD constexpr void add_bias(Op& op, int outputs, int fan_in) {
        const std::array<int, 4> shape{outputs, 1, 1, 1};
        add_parameter(op, {.role = ParameterRole::bias, .shape = shape, .fan_in = fan_in}, ".bias");
    }
    GX_COLD constexpr void add_statistic(int channels, float initial, const Label& name) {
        graph_.statistics.push_back({graph_.statistic_elements(), channels, initial, name});
    }
    GX_COLD constexpr int pool(OpKind kind, int x, Window w, const Label& name) {
        enter(kind, x, w);
        require(2 * w.pad_height <= w.height && 2 * w.pad_width <= w.width, GraphFault::bad_window,
                name);
        const ImageShape out = windowed(x, w, shape(x).channels, name);
        return append({.kind = kind, .inputs = {x, -1}, .window = w, .name = name}, out);
    }
    GX_COLD constexpr ImageShape windowed(int x, Window w, int channels, const Label& name) {
        const ImageShape in = shape(x);
        const bool sound = require(
            w.height > 0 && w.width > 0 && w.stride > 0 && w.pad_height >= 0 && w.pad_width >= 0,
            GraphFault::bad_window, name);
        const int rows = in.height + 2 * w.pad_height - w.height;
        const int columns = in.width + 2 * w.pad_width - w.width;
        const auto fault = flat(x) ? GraphFault::window_on_flat : GraphFault::image_too_small;
        if (!require(rows >= 0 && columns >= 0, fault, name) || !sound) return {channels, 1, 1};
        return {channels, rows / w.stride + 1, columns / w.stride + 1};
    }
    /// Whether a flatten or a linear layer made the image of `tensor` one pixel.
    [[nodiscard]] constexpr bool flat(int tensor) const {
        const Op& op = op_of(tensor);
        if (op.kind == OpKind::flatten || op.kind == OpKind::linear) return true;
        const bool keeps = op.kind == OpKind::relu || op.kind == OpKind::dropout ||
                           op.kind == OpKind::batch_norm || op.kind == OpKind::add;
        return keeps && flat(op.inputs[0]);
    }
    /// Faults up to the next append are of an operation of this kind.
    constexpr void enter(OpKind kind, int x, Window w = {.height = 0, .width = 0}) {
        const ImageShape in = shape(x);
        site_ = {.kind = kind, .input = {in.height, in.width}, .window = {w.height, w.width}};
    }

    Graph graph_{};
    GraphTrouble trouble_{}, site_{};
    int too_small_for_ = -1;
    Checks checks_;
};

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/model/impl/graph.ipp>
#else
extern template class std::vector<gx::ImageShape>;
extern template class std::vector<gx::Op>;
extern template class std::vector<gx::Parameter>;
extern template class std::vector<gx::Statistic>;
#endif
