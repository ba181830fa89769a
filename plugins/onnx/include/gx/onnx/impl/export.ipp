// Body of to_onnx.
#pragma once

#include <algorithm>         // min
#include <cstdint>           // int64_t
#include <initializer_list>  // attributes
#include <set>               // names of nodes put between
#include <span>              // values
#include <string>            // names
#include <vector>            // names of tensors

#if !defined(ONNX_NAMESPACE)
#define ONNX_NAMESPACE onnx
#endif
#if !defined(ONNX_ML)
#define ONNX_ML 1
#endif
#include <onnx/onnx_pb.h>  // ModelProto

#include <gx/core/contract.hpp>     // GX_EXPECT
#include <gx/core/error.hpp>        // Error
#include <gx/model/timed_only.hpp>  // expect_numbers
#include <gx/onnx/export.hpp>

namespace gx::onnx {

namespace detail {

/// Appends the operations of a graph to a model's. (N, C) and (N, C, 1, 1) are one shape in gx and
/// two in ONNX: where an operation reads the other, a node is put between.
class Writer {
public:
    Writer(const Graph& graph, std::span<const float> parameters, std::span<const float> statistics,
           ::onnx::GraphProto& to)
        : graph_(graph),
          parameters_(parameters),
          statistics_(statistics),
          to_(to),
          tensors_(graph.tensors.size()) {
        to_.set_name(std::string(graph.name.view()));
        tensors_[0] = {"images", rank_image};
        const ImageShape& in = graph.input;
        describe(*to_.add_input(), "images", {in.channels, in.height, in.width});
        for (const Op& op : graph.ops) append(op);
        describe(*to_.add_output(), "logits", {graph.classes});
    }

private:
    static constexpr int rank_flat = 2, rank_image = 4;  // (N, C), (N, C, H, W)
    struct Tensor {
        std::string name;
        int rank = 0;
    };

    static std::size_t at(int i) { return static_cast<std::size_t>(i); }

    static void describe(::onnx::ValueInfoProto& value, const char* name,
                         std::initializer_list<int> sides) {
        value.set_name(name);
        auto& tensor = *value.mutable_type()->mutable_tensor_type();
        tensor.set_elem_type(::onnx::TensorProto::FLOAT);
        tensor.mutable_shape()->add_dim()->set_dim_param("N");
        for (const int side : sides) tensor.mutable_shape()->add_dim()->set_dim_value(side);
    }

    void append(const Op& op) {
        switch (op.kind) {
            case OpKind::input: return;
            case OpKind::conv2d: {
                auto& n = node(op, "Conv");
                set_window(n, op.window);
                set(n, "group", std::int64_t{op.groups});
                return add_parameters(n, op);
            }
            case OpKind::linear: {
                auto& n = node(op, "Gemm");
                set(n, "transB", std::int64_t{1});
                return add_parameters(n, op);
            }
            case OpKind::batch_norm: {
                auto& n = node(op, "BatchNormalization");
                auto& epsilon = attribute(n, "epsilon", ::onnx::AttributeProto::FLOAT);
                epsilon.set_f(static_cast<float>(op.rate));
                add_parameters(n, op);
                for (int k = 0; k < 2; ++k) add_statistic(n, op.first_statistic + k);
                return;
            }
            case OpKind::relu: node(op, "Relu"); return;
            case OpKind::max_pool: return set_window(node(op, "MaxPool"), op.window);
            case OpKind::avg_pool: {
                auto& n = node(op, "AveragePool");
                set_window(n, op.window);
                set(n, "count_include_pad", std::int64_t{op.window.counts_padding ? 1 : 0});
                return;
            }
            case OpKind::add: node(op, "Add"); return;
            case OpKind::concat: return set(node(op, "Concat"), "axis", std::int64_t{1});
            case OpKind::flatten: return set(node(op, "Flatten"), "axis", std::int64_t{1});
            case OpKind::dropout: tensors_[at(op.output)] = tensors_[at(op.inputs[0])]; return;
            case OpKind::softmax_cross_entropy: {
                const std::string logits = name_at(op.inputs[0], rank_flat);
                auto& n = *to_.add_node();  // the logits under their name
                n.set_op_type("Identity");
                n.add_input(logits);
                n.add_output("logits");
                return;
            }
            default: return;  // timed only: refused before
        }
    }
    /// The rank at which an operation reads its inputs.
    int rank_read(const Op& op) const {
        switch (op.kind) {
            case OpKind::conv2d:
            case OpKind::max_pool:
            case OpKind::avg_pool: return rank_image;
            case OpKind::linear: return rank_flat;
            case OpKind::add:
            case OpKind::concat:
                return std::min(tensors_[at(op.inputs[0])].rank, tensors_[at(op.inputs[1])].rank);
            default: return tensors_[at(op.inputs[0])].rank;
        }
    }
    /// The name of a tensor at a rank: its own, or that of a node put between, once for all that
    /// read it.
    std::string name_at(int tensor, int rank) {
        const Tensor& x = tensors_[at(tensor)];
        if (x.rank == rank) return x.name;
        const bool flat = rank == rank_flat;
        std::string name = x.name + (flat ? "/flat" : "/image");
        if (!between_.insert(name).second) return name;
        auto& n = *to_.add_node();
        n.set_op_type(flat ? "Flatten" : "Unsqueeze");
        n.set_name(name);
        n.add_input(x.name);
        n.add_output(name);
        if (flat) set(n, "axis", std::int64_t{1});
        else add_axes(n);
        return name;
    }
    /// Of Unsqueeze: height and width.
    void add_axes(::onnx::NodeProto& n) {
        constexpr const char* name = "axes:image";  // parameters have no colon
        n.add_input(name);
        if (!between_.insert(name).second) return;
        auto& t = *to_.add_initializer();
        t.set_name(name);
        t.set_data_type(::onnx::TensorProto::INT64);
        t.add_dims(2);
        for (const int axis : {2, 3}) t.add_int64_data(axis);
    }
    ::onnx::NodeProto& node(const Op& op, const char* type) {
        const int rank = rank_read(op);
        std::vector<std::string> inputs;  // first: a node comes behind those that it reads
        for (const int t : op.inputs)
            if (t >= 0) inputs.push_back(name_at(t, rank));
        auto& n = *to_.add_node();
        n.set_op_type(type);
        for (const std::string& name : inputs) n.add_input(name);
        // concats of one module share a name, and neither nodes nor tensors may
        const std::string name = std::string(op.name.view()) + ":" + std::to_string(op.output);
        tensors_[at(op.output)] = {name, op.kind == OpKind::flatten ? rank_flat : rank};
        n.set_name(name);
        n.add_output(name);
        return n;
    }
    static ::onnx::AttributeProto& attribute(::onnx::NodeProto& n, const char* name,
                                             ::onnx::AttributeProto::AttributeType type) {
        auto& a = *n.add_attribute();
        a.set_name(name);
        a.set_type(type);
        return a;
    }
    static void set(::onnx::NodeProto& n, const char* name, std::int64_t value) {
        attribute(n, name, ::onnx::AttributeProto::INT).set_i(value);
    }
    static void set(::onnx::NodeProto& n, const char* name, std::initializer_list<int> values) {
        auto& a = attribute(n, name, ::onnx::AttributeProto::INTS);
        for (const int v : values) a.add_ints(v);
    }
    static void set_window(::onnx::NodeProto& n, const Window& w) {
        set(n, "kernel_shape", {w.height, w.width});
        set(n, "strides", {w.stride, w.stride});
        set(n, "pads", {w.pad_height, w.pad_width, w.pad_height, w.pad_width});
    }
    /// Weights of a convolution have four sides, of a linear layer two, all others one.
    void add_parameters(::onnx::NodeProto& n, const Op& op) {
        for (int k = 0; k < op.parameter_count; ++k) {
            const Parameter& p = graph_.parameters[at(op.first_parameter + k)];
            const bool weight = p.role == ParameterRole::weight;
            const int sides = !weight ? 1 : op.kind == OpKind::conv2d ? 4 : 2;
            add_tensor(n, p.name.view(), {p.shape.begin(), p.shape.begin() + sides},
                       parameters_.subspan(at64(p.offset), at64(p.count)));
        }
    }
    void add_statistic(::onnx::NodeProto& n, int index) {
        const Statistic& s = graph_.statistics[at(index)];
        add_tensor(n, s.name.view(), {s.count}, statistics_.subspan(at64(s.offset), at64(s.count)));
    }
    static std::size_t at64(std::int64_t i) { return static_cast<std::size_t>(i); }
    void add_tensor(::onnx::NodeProto& n, std::string_view name,
                    const std::vector<std::int64_t>& shape, std::span<const float> values) {
        n.add_input(std::string(name));
        auto& t = *to_.add_initializer();
        t.set_name(std::string(name));
        t.set_data_type(::onnx::TensorProto::FLOAT);
        for (const std::int64_t side : shape) t.add_dims(side);
        t.set_raw_data(values.data(), values.size_bytes());  // little-endian, as here
    }

    const Graph& graph_;
    std::span<const float> parameters_, statistics_;
    ::onnx::GraphProto& to_;
    std::vector<Tensor> tensors_;
    std::set<std::string> between_;  // names of the nodes put between, and of their constant
};

}  // namespace detail

GX_DECL std::string to_onnx(const Graph& graph, std::span<const float> parameters,
                            std::span<const float> statistics,
                            const std::map<std::string, std::string>& metadata) {
    expect_numbers(graph);
    GX_EXPECT(std::ssize(parameters) == graph.parameter_elements() &&
                  std::ssize(statistics) == graph.statistic_elements(),
              "weights have as many numbers as the graph");
    constexpr std::int64_t floats_most = (std::int64_t{1} << 31) / 4 - (1 << 20);
    if (graph.parameter_elements() + graph.statistic_elements() > floats_most)
        throw Error("network '" + std::string(graph.name.view()) +
                    "' has 2 GiB of weights and more, and a file of ONNX holds less. Keep it as "
                    "safetensors.");
    ::onnx::ModelProto model;
    model.set_ir_version(7);  // of opset 13
    model.set_producer_name("gx");
    auto& opset = *model.add_opset_import();
    opset.set_domain("");
    opset.set_version(13);
    detail::Writer(graph, parameters, statistics, *model.mutable_graph());
    for (const auto& [key, value] : metadata) {
        auto& property = *model.add_metadata_props();
        property.set_key(key);
        property.set_value(value);
    }
    std::string bytes;
    if (!model.SerializeToString(&bytes))
        throw Error("network '" + std::string(graph.name.view()) +
                    "' can't be written as ONNX: Protobuf refuses its size.");
    return bytes;
}

}  // namespace gx::onnx
