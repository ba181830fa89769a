// Graph: what a model lowers to, a constexpr value: operations, tensors, parameters, in order.
#pragma once

#include <array>        // shapes
#include <cstdint>      // int64_t
#include <string_view>  // names
#include <vector>       // flat lists

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/core/label.hpp>     // Label

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
    [[nodiscard]] static constexpr Window square(int size, int stride = 1, int pad = 0) {
        return {size, size, stride, pad, pad};
    }
    constexpr bool operator==(const Window&) const = default;
};

enum class OpKind : std::uint8_t {
    input, conv2d, batch_norm, relu, max_pool, avg_pool, linear, add, flatten, dropout,
    softmax_cross_entropy
};
[[nodiscard]] constexpr std::string_view to_string(OpKind kind) {
    constexpr std::array<std::string_view, 11> names{
        "input",  "conv2d", "batch_norm", "relu",    "max_pool", "avg_pool",
        "linear", "add",    "flatten",    "dropout", "softmax_cross_entropy"};
    return names[static_cast<std::size_t>(kind)];
}

/// One operation. Tensors and parameters are indices into the graph's lists; -1 is none.
struct Op {
    OpKind kind = OpKind::input;
    std::array<int, 2> inputs{-1, -1};
    int output = -1;
    int first_parameter = -1;  ///< weight then bias, or gamma then beta, in Graph::parameters
    int parameter_count = 0;
    int first_statistic = -1;  ///< batch_norm: running mean, then running variance
    Window window{};           ///< conv2d, max_pool, avg_pool (padding counts as data: no)
    int groups = 1;            ///< conv2d
    double rate = 0;           ///< dropout: share dropped; cross-entropy: label smoothing;
                               ///< batch_norm: epsilon
    double momentum = 0;       ///< batch_norm: running = (1 - momentum) running + momentum batch
    std::int64_t macs = 0;     ///< multiply-adds of one image, forward; conv2d and linear only
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

/// Appends operations; what layers are written with. Every call answers its output tensor.
/// Errors: a window larger than its padded input breaks the contract, so an image smaller than
///         the network's stride does not compile where the graph is a constant.
class GraphBuilder {
public:
    constexpr GraphBuilder(Label name, ImageShape input, int classes) {
        GX_EXPECT(input.channels > 0 && input.height > 0 && input.width > 0,
                  "an image needs at least one channel, row and column");
        GX_EXPECT(classes > 1, "a classifier needs at least two classes");
        graph_.name = name;
        graph_.input = input;
        graph_.classes = classes;
        Op op{.kind = OpKind::input, .name = "input"};
        op.output = tensor(input);
        graph_.ops.push_back(op);
    }

    [[nodiscard]] constexpr int input() const { return 0; }
    [[nodiscard]] constexpr int classes() const { return graph_.classes; }
    [[nodiscard]] constexpr ImageShape shape(int tensor) const {
        return graph_.tensors[static_cast<std::size_t>(tensor)];
    }

    struct Conv {
        int channels = 0;
        Window window{};
        int groups = 1;
        bool bias = false;
    };
    constexpr int conv2d(int x, Conv c, Label name) {
        const ImageShape in = shape(x);
        GX_EXPECT(c.groups > 0 && in.channels % c.groups == 0 && c.channels % c.groups == 0,
                  "convolution groups must divide the channels going in and coming out");
        const ImageShape out = windowed(in, c.window, c.channels);
        const int per_group = in.channels / c.groups;
        const int fan_in = per_group * c.window.height * c.window.width;
        Op op{.kind = OpKind::conv2d, .inputs = {x, -1}, .window = c.window, .groups = c.groups, .name = name};
        op.macs = out.elements() * fan_in;
        add_parameter(op, ParameterRole::weight,
                      {c.channels, per_group, c.window.height, c.window.width}, fan_in, name + ".weight");
        if (c.bias) add_parameter(op, ParameterRole::bias, {c.channels, 1, 1, 1}, fan_in, name + ".bias");
        return append(op, out);
    }

    struct BatchNorm {
        bool zero_gamma = false;  ///< start the branch at nothing: Goyal et al. 2017, section 5.1
        double epsilon = 1e-5;
        double momentum = 0.1;
    };
    constexpr int batch_norm(int x, BatchNorm b, Label name) {
        const int c = shape(x).channels;
        Op op{.kind = OpKind::batch_norm, .inputs = {x, -1}, .rate = b.epsilon, .momentum = b.momentum, .name = name};
        add_parameter(op, ParameterRole::gamma, {c, 1, 1, 1}, c, name + ".weight", b.zero_gamma);
        add_parameter(op, ParameterRole::beta, {c, 1, 1, 1}, c, name + ".bias");
        op.first_statistic = static_cast<int>(graph_.statistics.size());
        graph_.statistics.push_back({graph_.statistic_elements(), c, 0.0f, name + ".running_mean"});
        graph_.statistics.push_back({graph_.statistic_elements(), c, 1.0f, name + ".running_var"});
        return append(op, shape(x));
    }
    constexpr int relu(int x, Label name) {
        return append({.kind = OpKind::relu, .inputs = {x, -1}, .name = name}, shape(x));
    }
    constexpr int max_pool(int x, Window w, Label name) { return pool(OpKind::max_pool, x, w, name); }
    /// Mean over the part of the window that lies inside the image (padding is not counted).
    constexpr int avg_pool(int x, Window w, Label name) { return pool(OpKind::avg_pool, x, w, name); }
    constexpr int global_avg_pool(int x, Label name) {
        const ImageShape in = shape(x);
        return pool(OpKind::avg_pool, x, Window{in.height, in.width, 1, 0, 0}, name);
    }
    constexpr int linear(int x, int outputs, bool bias, Label name) {
        const ImageShape in = shape(x);
        GX_EXPECT(in.height == 1 && in.width == 1, "a linear layer takes a flat input: flatten first");
        Op op{.kind = OpKind::linear, .inputs = {x, -1}, .name = name};
        op.macs = std::int64_t{in.channels} * outputs;
        add_parameter(op, ParameterRole::weight, {outputs, in.channels, 1, 1}, in.channels, name + ".weight");
        if (bias) add_parameter(op, ParameterRole::bias, {outputs, 1, 1, 1}, in.channels, name + ".bias");
        return append(op, {outputs, 1, 1});
    }
    constexpr int add(int a, int b, Label name) {
        GX_EXPECT(shape(a) == shape(b), "a residual add needs two tensors of one shape");
        return append({.kind = OpKind::add, .inputs = {a, b}, .name = name}, shape(a));
    }
    constexpr int flatten(int x, Label name) {
        const auto n = shape(x).elements();
        return append({.kind = OpKind::flatten, .inputs = {x, -1}, .name = name}, {static_cast<int>(n), 1, 1});
    }
    constexpr int dropout(int x, double rate, Label name) {
        GX_EXPECT(rate >= 0 && rate < 1, "dropout drops a share of at least 0 and below 1");
        return append({.kind = OpKind::dropout, .inputs = {x, -1}, .rate = rate, .name = name}, shape(x));
    }
    /// The loss: mean over the batch, against labels softened by `smoothing`. Ends the graph.
    constexpr int softmax_cross_entropy(int logits, double smoothing, Label name) {
        GX_EXPECT(shape(logits).elements() == graph_.classes, "one logit for each class");
        GX_EXPECT(smoothing >= 0 && smoothing < 1, "label smoothing is at least 0 and below 1");
        return append({.kind = OpKind::softmax_cross_entropy, .inputs = {logits, -1}, .rate = smoothing, .name = name}, {1, 1, 1});
    }

    [[nodiscard]] constexpr Graph finish() && { return static_cast<Graph&&>(graph_); }

private:
    constexpr int tensor(ImageShape s) {
        graph_.tensors.push_back(s);
        return static_cast<int>(graph_.tensors.size()) - 1;
    }
    constexpr int append(Op op, ImageShape out) {
        op.output = tensor(out);
        graph_.ops.push_back(op);
        return op.output;
    }
    constexpr void add_parameter(Op& op, ParameterRole role, std::array<int, 4> shape, int fan_in,
                                 Label name, bool zero = false) {
        Parameter p{.role = role, .shape = shape, .fan_in = fan_in, .zero = zero, .name = name};
        p.offset = graph_.parameter_elements();
        p.count = std::int64_t{shape[0]} * shape[1] * shape[2] * shape[3];
        if (op.parameter_count++ == 0) op.first_parameter = static_cast<int>(graph_.parameters.size());
        graph_.parameters.push_back(p);
    }
    constexpr int pool(OpKind kind, int x, Window w, Label name) {
        return append({.kind = kind, .inputs = {x, -1}, .window = w, .name = name},
                      windowed(shape(x), w, shape(x).channels));
    }
    static constexpr ImageShape windowed(ImageShape in, Window w, int channels) {
        GX_EXPECT(w.height > 0 && w.width > 0 && w.stride > 0, "a window and its stride are at least 1");
        GX_EXPECT(in.height + 2 * w.pad_height >= w.height && in.width + 2 * w.pad_width >= w.width,
                  "the image is smaller than the network's stride: use a larger image or a "
                  "network with fewer stages");
        return {channels, (in.height + 2 * w.pad_height - w.height) / w.stride + 1,
                (in.width + 2 * w.pad_width - w.width) / w.stride + 1};
    }

    Graph graph_{};
};

}  // namespace gx
