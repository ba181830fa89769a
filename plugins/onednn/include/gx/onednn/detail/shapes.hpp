// shapes: layout and readers of each tensor, and the offset of each parameter.
#pragma once

#include <algorithm>  // find, copy
#include <cstdint>    // int64_t
#include <span>       // flat vectors
#include <string>     // errors

#include <gx/core/cold.hpp>                  // GX_COLD
#include <gx/core/device.hpp>                // ParameterSlice
#include <gx/core/error.hpp>                 // Error
#include <gx/core/trivial_vector.hpp>        // lists
#include <gx/model/graph.hpp>                // Graph
#include <gx/onednn/detail/convolution.hpp>  // Convolution
#include <gx/onednn/tuning.hpp>              // Tuning

namespace gx::onednn::detail {

[[nodiscard]] inline std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// Layouts of the tensors of a graph, their readers, and whether they need a gradient.
struct Shapes {
    /// The operations that read a tensor: how many, and the first.
    struct Readers {
        int count = 0, first = -1;
    };
    TrivialVector<Layout> layouts{};
    TrivialVector<Readers> readers{};
    TrivialVector<int> writer{};
    TrivialVector<bool> needs_gradient{};
    bool packs_input = false;              ///< the images are brought into blocks first
    bool channels_last = false;            ///< in place of blocks
    ElementType type = ElementType::fp32;  ///< of activations and their gradients, in memory
    bool in_fp16 = false;                  ///< which is emulated in fp32

    GX_COLD Shapes(const Graph& graph, ElementType compute, bool last)
        : layouts(graph.tensors.size()),
          readers(graph.tensors.size()),
          writer(graph.tensors.size(), -1),
          needs_gradient(graph.tensors.size(), false),
          channels_last(last),
          type(compute == ElementType::bf16 ? compute : ElementType::fp32),
          in_fp16(compute == ElementType::fp16) {
        for (std::size_t i = 0; i < graph.ops.size(); ++i) {
            const Op& op = graph.ops[i];
            for (const int t : op.inputs)
                if (t >= 0 && readers[at(t)].count++ == 0)
                    readers[at(t)].first = static_cast<int>(i);
            writer[at(op.output)] = static_cast<int>(i);
        }
        packs_input = !input_may_stay_plain(graph, 0);
        for (const Op& op : graph.ops) place(graph, op);
    }
    [[nodiscard]] bool read_once(int tensor) const { return readers[at(tensor)].count == 1; }

private:
    /// Of a first layer's convolutions. For AVX2 oneDNN has no gradient of the weights of one plain
    /// channel, or of two, but its reference: 115 ms in place of 0.3 for 8 images of 28 x 28.
    [[nodiscard]] static bool kernels_read_plain(int channels) {
        return cpu_block() == 16 ? channels <= 3 : channels == 3;
    }
    /// oneDNN's first-layer kernels read plain images of few channels; a linear layer reads
    /// anything.
    GX_COLD [[nodiscard]] bool input_may_stay_plain(const Graph& graph, int tensor) const {
        for (const Op& op : graph.ops) {
            if (std::find(op.inputs.begin(), op.inputs.end(), tensor) == op.inputs.end()) continue;
            const bool conv = op.kind == OpKind::conv2d && tensor == 0 && op.groups == 1 &&
                              kernels_read_plain(graph.input.channels);
            const bool flat = op.kind == OpKind::flatten && input_may_stay_plain(graph, op.output);
            if (!conv && !flat && op.kind != OpKind::linear) return false;
        }
        return true;
    }
    GX_COLD void place(const Graph& graph, const Op& op) {
        Layout& out = layouts[at(op.output)];
        out = {graph.tensors[at(op.output)], cpu_block(), channels_last};
        needs_gradient[at(op.output)] = op.parameter_count > 0;
        for (const int t : op.inputs)
            if (t >= 0 && needs_gradient[at(t)]) needs_gradient[at(op.output)] = true;
        if (op.kind == OpKind::input && !packs_input) out.block = 1;
        if (op.kind == OpKind::flatten) out = layouts[at(op.inputs[0])];  // the same memory
        const bool keeps =
            op.kind == OpKind::relu || op.kind == OpKind::dropout || op.kind == OpKind::add;
        if (keeps) out = layouts[at(op.inputs[0])];
        const bool by_channel = op.kind == OpKind::conv2d || op.kind == OpKind::batch_norm ||
                                op.kind == OpKind::max_pool || op.kind == OpKind::avg_pool ||
                                op.kind == OpKind::concat;
        for (const int t : op.inputs)
            if (by_channel && t >= 0 && layouts[at(t)].shape != graph.tensors[at(t)])
                refuse(op, "reads a flattened image by its channels");
        if (op.kind == OpKind::add &&
            layouts[at(op.inputs[0])].shape != layouts[at(op.inputs[1])].shape)
            refuse(op, "adds a flattened image to one that is not");
    }
    GX_COLD [[noreturn]] static void refuse(const Op& op, const std::string& what) {
        throw Error("gx::onednn: " + std::string(to_string(op.kind)) + " '" +
                    std::string(op.name.view()) + "' " + what +
                    ", which this device does not do: flatten once, before the linear layers");
    }
};

/// The flat parameter vector: every parameter in the layout its kernel reads, padded to blocks. In
/// fp16 products read a copy of it that is rounded.
class Parameters {
public:
    GX_COLD Parameters(const Graph& graph, const Shapes& shapes, const Tuning& tuning, int images,
                       Lanes& lanes)
        : graph_(graph), shapes_(shapes), owner_(graph.parameters.size()) {
        convolutions_.widen(static_cast<int>(graph.ops.size()));
        for (std::size_t o = 0; o < graph.ops.size(); ++o) {
            const Op& op = graph.ops[o];
            if (op.kind == OpKind::conv2d)
                convolutions_.put(static_cast<int>(o),
                                  new Convolution(shape_of(op, tuning), images, lanes));
            for (int k = 0; k < op.parameter_count; ++k) {
                const int p = op.first_parameter + k;
                owner_[at(p)] = static_cast<int>(o);
                const auto block = static_cast<std::size_t>(cpu_block());
                const std::size_t count =
                    (floats(op, static_cast<int>(o), p) + block - 1) / block * block;
                slices_.push_back({total_, count, p});
                total_ += count;
            }
        }
        values_ = Memory(static_cast<std::int64_t>(total_));
        if (shapes.in_fp16) rounded_ = Memory(static_cast<std::int64_t>(total_));
    }

    Parameters(const Parameters&) = delete;
    Parameters& operator=(const Parameters&) = delete;
    GX_COLD ~Parameters() = default;

    [[nodiscard]] std::span<const ParameterSlice> slices() const {
        return {slices_.data(), slices_.size()};
    }
    [[nodiscard]] std::span<float> values() const { return values_.span(); }
    [[nodiscard]] std::size_t total() const { return total_; }
    [[nodiscard]] std::size_t offset(int parameter) const { return slices_[at(parameter)].offset; }
    [[nodiscard]] const float* data(int parameter) const {
        return values_.data() + offset(parameter);
    }
    [[nodiscard]] std::int64_t rounded_floats() const { return rounded_.size(); }
    /// What products read.
    [[nodiscard]] const float* working(int parameter) const {
        return rounded_.size() > 0 ? rounded_.data() + offset(parameter) : data(parameter);
    }
    /// Makes the copy anew.
    void round() {
        if (rounded_.size() == 0) return;
        std::copy(values_.data(), values_.data() + values_.size(), rounded_.data());
        round_to_fp16(rounded_.span(), nullptr);
    }
    [[nodiscard]] Convolution& convolution(int op) const { return convolutions_[op]; }
    /// By operation; null where it is no convolution.
    [[nodiscard]] const OwnedList<Convolution>& convolutions() const { return convolutions_; }

    /// Calls f(canonical index, index in the flat vector) for every element of the graph's
    /// parameters.
    template <class F>
    void for_each_element(F f) const {
        for (std::size_t p = 0; p < graph_.parameters.size(); ++p) {
            const Parameter& q = graph_.parameters[p];
            const auto base = static_cast<std::size_t>(q.offset);
            for (std::int64_t i = 0; i < q.count; ++i)
                f(base + static_cast<std::size_t>(i),
                  slices_[p].offset + static_cast<std::size_t>(index(p, i)));
        }
    }

private:
    GX_COLD [[nodiscard]] Convolution::Shape shape_of(const Op& op, const Tuning& tuning) const {
        Convolution::Shape s{.in = shapes_.layouts[at(op.inputs[0])],
                             .out = shapes_.layouts[at(op.output)],
                             .window = op.window,
                             .groups = op.groups,
                             .bias = op.parameter_count == 2,
                             .type = shapes_.type};
        s.winograd = tuning.winograd && s.type == ElementType::fp32 && !shapes_.in_fp16 &&
                     op.groups == 1 && !s.in.plain() && op.window == Window::square(3, 1, 1);
        return s;
    }
    GX_COLD [[nodiscard]] std::size_t floats(const Op& op, int o, int p) const {
        const Parameter& q = graph_.parameters[at(p)];
        if (q.role != ParameterRole::weight) return at(round_up(q.shape[0], cpu_block()));
        if (op.kind == OpKind::conv2d)
            return static_cast<std::size_t>(convolutions_[o].weight_floats());
        const auto inputs = static_cast<std::size_t>(shapes_.layouts[at(op.inputs[0])].floats());
        return inputs * at(round_up(q.shape[0], cpu_block()));
    }
    [[nodiscard]] std::int64_t index(std::size_t p, std::int64_t i) const {
        const Parameter& q = graph_.parameters[p];
        if (q.role != ParameterRole::weight) return i;
        const int o = owner_[p];
        const Op& op = graph_.ops[at(o)];
        if (op.kind == OpKind::linear) {
            const std::int64_t inputs = q.shape[1], row = i / inputs, k = i % inputs;
            return shapes_.layouts[at(op.inputs[0])].index(k) * round_up(q.shape[0], cpu_block()) +
                   row;
        }
        const int w = static_cast<int>(i % q.shape[3]),
                  h = static_cast<int>(i / q.shape[3] % q.shape[2]);
        const std::int64_t filters = i / q.shape[3] / q.shape[2];
        return convolutions_[o].weight_index(static_cast<int>(filters / q.shape[1]),
                                             static_cast<int>(filters % q.shape[1]), h, w);
    }

    const Graph& graph_;
    const Shapes& shapes_;
    OwnedList<Convolution> convolutions_{};
    TrivialVector<int> owner_;  // op of a parameter
    TrivialVector<ParameterSlice> slices_{};
    std::size_t total_ = 0;
    Memory values_{}, rounded_{};
};

}  // namespace gx::onednn::detail
