// step_traffic: device memory that each operation of a training step reads and writes.
#pragma once

#include <algorithm>   // max
#include <functional>  // fusions that are taken
#include <string>      // names
#include <vector>      // one row an operation

#include <gx/model/backward_needs.hpp>  // gradient_tensors
#include <gx/model/graph.hpp>           // Graph, Op

#include "../space_to_depth.hpp"  // space_to_depth
#include "plans/questions.hpp"    // DnnFusion, may_fuse

namespace gx::cuda {

/// An operation that is queued, with its kernels taken together.
struct OperationTraffic {
    std::string name{};
    double read = 0, written = 0;  ///< bytes of activations and their gradients, of one image
    double parameter_bytes = 0;    ///< weights, their gradients and the optimizer's, of a step
    double flops = 0;              ///< of matrix products, of one image
};

/// How a step is cut into operations.
struct StepShape {
    int element_bytes = 2;
    /// As cuda::Device joins operations: a batch norm with the addition and the ReLU behind it, and
    /// with the batch norm that is added; its backward adds the last gradient of its output to the
    /// others' sum. Else every operation apart.
    bool joined = true;
    /// Whether a fusion around the convolution `op` is taken, where may_fuse() allows it.
    std::function<bool(DnnFusion, const Op&)> takes{};
    /// Bytes of an image in the graph's input, where the first convolution reads blocks of pixels
    /// (space_to_depth.hpp); 0: as the graph says.
    double input_bytes = 0;
    double optimizer_bytes = 26;  ///< of a parameter: SGD's momentum, master and working copy
};

/// The fusions that cuda::Device takes in fp16 from Ampere on: statistics of convolutions
/// of channels in eights and 32 or more read (Dnn::Wants). `graph` outlives what is returned.
[[nodiscard]] inline std::function<bool(DnnFusion, const Op&)> device_fusions(const Graph& graph) {
    return [&graph](DnnFusion f, const Op& conv) {
        const auto in_eights = [&](int t) {
            return graph.tensors[static_cast<std::size_t>(t)].channels % 8 == 0;
        };
        return f == DnnFusion::statistics && in_eights(conv.inputs[0]) && in_eights(conv.output) &&
               graph.tensors[static_cast<std::size_t>(conv.inputs[0])].channels >= 32;
    };
}

/// A step as cuda::Device cuts it on a GPU from Ampere on, in fp16; in bf16 and before Ampere
/// without the fusions. `graph` outlives what is returned.
[[nodiscard]] inline StepShape device_shape(const Graph& graph) {
    StepShape shape{.takes = device_fusions(graph)};
    for (const Op& op : graph.ops)
        if (const auto s = space_to_depth(graph, op))
            shape.input_bytes = shape.element_bytes * double(s->elements());
    return shape;
}

namespace detail {

/// Rows in the order of the graph's operations, each with its backward's behind it.
///
/// What an operation reads twice with nothing between is counted twice: activations of a batch do
/// not fit in a cache. Sums of channels, moments and losses are left out.
class StepTraffic {
public:
    StepTraffic(const Graph& graph, StepShape shape)
        : g_(graph), s_(std::move(shape)), gradient_(gradient_tensors(graph)) {
        readers_.resize(graph.tensors.size());
        for (const Op& op : graph.ops)
            for (const int t : op.inputs)
                if (t >= 0) readers_[at(t)].push_back(&op);
    }

    std::vector<OperationTraffic> rows() {
        for (const Op& op : g_.ops) switch (op.kind) {
                case OpKind::input:  // pixels of a byte
                    row("input, pack", double(g_.input.elements()), bytes(op.output));
                    break;
                case OpKind::conv2d:
                case OpKind::linear: product(op); break;
                case OpKind::batch_norm: batch_norm(op); break;
                case OpKind::add:
                case OpKind::relu:
                    if (!is_joined(op)) elementwise(op);
                    break;
                case OpKind::max_pool: max_pool(op); break;
                case OpKind::flatten: break;  // of one pixel: the same memory
                case OpKind::concat: concat(op); break;
                default: other(op); break;
            }
        for (std::size_t t = 0; t < readers_.size(); ++t) add_gradients(static_cast<int>(t));
        row("optimizer", 0, 0).parameter_bytes =
            s_.optimizer_bytes * double(g_.parameter_elements());
        return std::move(rows_);
    }

private:
    static std::size_t at(int t) { return static_cast<std::size_t>(t); }
    [[nodiscard]] double elements(int t) const { return double(g_.tensors[at(t)].elements()); }
    [[nodiscard]] double bytes(int t) const {
        return t == 0 && s_.input_bytes > 0 ? s_.input_bytes : s_.element_bytes * elements(t);
    }
    [[nodiscard]] bool has_gradient(int t) const { return gradient_[at(t)] != 0; }
    [[nodiscard]] bool takes(DnnFusion f, const Op& conv) const {
        return may_fuse(g_, conv, f) && s_.takes && s_.takes(f, conv);
    }
    OperationTraffic& row(std::string name, double read, double written) {
        return rows_.emplace_back(
            OperationTraffic{.name = std::move(name), .read = read, .written = written});
    }

    /// The operation that alone reads a tensor, if it is of this kind.
    [[nodiscard]] const Op* behind(int t, OpKind kind) const {
        const auto& all = readers_[at(t)];
        return all.size() == 1 && all[0]->kind == kind ? all[0] : nullptr;
    }

    // ---- Batch norms and what is joined with them ----

    struct Joined {
        const Op *add = nullptr, *relu = nullptr;
    };
    /// Of two batch norms that are added, the second takes the addition.
    [[nodiscard]] Joined joined(const Op& norm) const {
        if (!s_.joined) return {};
        if (const Op* relu = behind(norm.output, OpKind::relu)) return {nullptr, relu};
        const Op* add = behind(norm.output, OpKind::add);
        if (add == nullptr) return {};
        for (const int t : add->inputs) {
            const Op& other = producer_of(g_, t);
            if (other.kind == OpKind::batch_norm && &other > &norm) return {};
        }
        const Op* relu = behind(add->output, OpKind::relu);
        return relu == nullptr ? Joined{} : Joined{add, relu};
    }
    [[nodiscard]] bool is_joined(const Op& op) const {
        for (const Op& norm : g_.ops)
            if (norm.kind == OpKind::batch_norm)
                if (const Joined j = joined(norm); j.add == &op || j.relu == &op) return true;
        return false;
    }
    /// The convolution that computes with this batch norm, what is added, and the ReLU, by one of
    /// two fusions; or nullptr.
    [[nodiscard]] const Op* fused_with(const Op& norm, DnnFusion plain, DnnFusion residual) const {
        const Joined j = joined(norm);
        if (j.relu == nullptr) return nullptr;
        const Op& conv = reader_of(g_, j.relu->output);
        if (j.add == nullptr && readers_[at(j.relu->output)].size() != 1) return nullptr;
        return takes(j.add == nullptr ? plain : residual, conv) ? &conv : nullptr;
    }
    [[nodiscard]] const Op* applied_by(const Op& norm) const {
        const Op* conv = fused_with(norm, DnnFusion::normalized_input, DnnFusion::residual_input);
        const bool stores = joined(norm).add != nullptr;  // or backward normalises once more
        if (conv == nullptr || stores) return conv;
        return takes(DnnFusion::normalized_weight_gradient, *conv) ? conv : nullptr;
    }
    [[nodiscard]] const Op* summed_by(const Op& norm) const {
        return fused_with(norm, DnnFusion::batch_norm_gradient, DnnFusion::residual_gradient);
    }
    /// Whether the batch norm behind the same addition applies this one, too.
    [[nodiscard]] bool is_applied_by_next(const Op& norm) const {
        const Op* add = behind(norm.output, OpKind::add);
        if (!s_.joined || add == nullptr) return false;
        for (const int t : add->inputs) {
            const Op& other = producer_of(g_, t);
            if (other.kind == OpKind::batch_norm && &other > &norm && joined(other).add == add)
                return applied_by(other) == nullptr && summed_by(other) == nullptr;
        }
        return false;
    }
    /// The batch norm whose ReLU's output a convolution reads, with or without an addition.
    [[nodiscard]] const Op* norm_before(const Op& conv) const {
        for (const Op& norm : g_.ops)
            if (norm.kind == OpKind::batch_norm)
                if (const Joined j = joined(norm);
                    j.relu != nullptr && j.relu->output == conv.inputs[0])
                    return &norm;
        return nullptr;
    }

    void batch_norm(const Op& op) {
        const Joined j = joined(op);
        const double x = bytes(op.inputs[0]);
        const Op& conv = producer_of(g_, op.inputs[0]);
        const bool has_sums = conv.output == op.inputs[0] && takes(DnnFusion::statistics, conv);
        const bool summed = summed_by(op) != nullptr;
        const bool in_gradients = applied_in_gradients(op);
        const double mask = j.add == nullptr || summed ? 0 : elements(op.output) / 8;
        const std::string name(op.name.view());
        const int output = j.relu == nullptr ? op.output : j.relu->output;
        if (applied_by(op) == nullptr && !is_applied_by_next(op))
            row(name +
                    (j.add    ? " + add + relu"
                     : j.relu ? " + relu"
                              : "") +
                    ", forward",
                (has_sums ? x : 2 * x) + (j.add ? x : 0), x + mask);
        else if (!has_sums) row(name + ", statistics", x, 0);
        const double dy = left_gradients(output) * x;
        if (in_gradients) return;
        if (summed) row(name + ", backward without sums", 2 * x, x);
        else if (j.add != nullptr)  // x, dy; the gradient of what is added; x and this one; dx
            row(name + ", backward", 3 * x + dy + mask, 2 * x);
        else row(name + ", backward", 2 * (x + dy), x);
    }
    /// Whether both gradients of the convolution before a batch norm compute with its backward, the
    /// sums of which are there.
    [[nodiscard]] bool applied_in_gradients(const Op& norm) const {
        const Op& conv = producer_of(g_, norm.inputs[0]);
        return summed_by(norm) != nullptr && takes(DnnFusion::weight_gradient_of_norm, conv) &&
               (!has_gradient(conv.inputs[0]) || takes(DnnFusion::input_gradient_of_norm, conv));
    }
    /// Gradients that a batch norm's backward reads for its output, as it is joined.
    [[nodiscard]] double left_gradients(int t) const {
        return s_.joined && readers_[at(t)].size() > 1 ? 2 : 1;
    }

    // ---- Other operations ----

    void product(const Op& op) {
        const double x = bytes(op.inputs[0]), y = bytes(op.output), flops = 2.0 * double(op.macs);
        const std::string name(op.name.view());
        double weights = 0;
        for (int k = 0; k < op.parameter_count; ++k)
            weights += double(g_.parameters[at(op.first_parameter + k)].count);
        const double copy = weights * s_.element_bytes;
        const auto of_product = [&](OperationTraffic& r, double parameter_bytes) {
            r.flops = flops;
            r.parameter_bytes = parameter_bytes;
        };
        const Op* norm = norm_before(op);
        const bool applies = norm != nullptr && applied_by(*norm) == &op;
        const bool sums = norm != nullptr && summed_by(*norm) == &op;
        const bool adds = norm != nullptr && joined(*norm).add != nullptr;
        const std::string before = applies ? std::string(norm->name.view()) + " + " : "";
        // of an addition: both terms are read, and the ReLU's output stored, which others read
        of_product(row(before + name + ", forward", x + (applies && adds ? x : 0),
                       y + (applies && adds ? x : 0)),
                   copy);
        const Op& next = reader_of(g_, op.output);
        const double dy =  // of a batch norm: its output's gradient and its input
            next.kind == OpKind::batch_norm && applied_in_gradients(next) ? 2 * y : y;
        of_product(row(name + ", weight gradient", x + dy, 0), 2 * copy + 4 * weights);  // and cast
        if (op.parameter_count > 1) row(name + ", bias gradient", y, 0);
        if (!has_gradient(op.inputs[0])) return;
        // the batch norm's input, and of an addition the other term and the other gradient
        of_product(row(name + ", input gradient" +
                           (sums ? " + " + std::string(norm->name.view()) + "'s sums" : ""),
                       dy + (sums ? x : 0) + (sums && adds ? 2 * x : 0), x),
                   copy);
    }
    void elementwise(const Op& op) {
        const std::string name(op.name.view());
        const double x = bytes(op.output);
        if (op.kind == OpKind::relu) {
            row(name + ", forward", x, x);
            row(name + ", backward", 2 * x, x);
        } else {  // both gradients are dy as it is
            row(name + ", forward", 2 * x, x);
        }
    }
    void max_pool(const Op& op) {
        const std::string name(op.name.view());
        const double x = bytes(op.inputs[0]), y = bytes(op.output), places = elements(op.output);
        row(name + ", forward", x, y + places);
        row(name + ", backward", y + places, x);
    }
    /// What another concat joined lies in its place already.
    void concat(const Op& op) {
        double copied = 0, cut = 0;
        for (const int t : op.inputs) {
            const bool again =
                producer_of(g_, t).kind == OpKind::concat && behind(t, OpKind::concat) == &op;
            if (s_.joined && again) continue;
            copied += bytes(t);
            cut += has_gradient(t) ? bytes(t) : 0;
        }
        const std::string name(op.name.view());
        row(name + ", forward", copied, copied);
        row(name + ", backward", cut, cut);
    }
    void other(const Op& op) {
        const std::string name(op.name.view());
        const double x = bytes(op.inputs[0]), y = bytes(op.output);
        row(name + ", forward", x, y);
        row(name + ", backward", op.kind == OpKind::softmax_cross_entropy ? x : y, x);
    }
    /// Of a tensor that several operations read, by operations of their own.
    void add_gradients(int t) {
        const Op& producer = producer_of(g_, t);
        auto n = double(readers_[at(t)].size()) - 1;
        if (n < 1 || !has_gradient(t)) return;
        if (s_.joined && (producer.kind == OpKind::batch_norm || is_joined(producer))) --n;
        if (n > 0)
            row(std::string(producer.name.view()) + ", sum of gradients", 2 * n * bytes(t),
                n * bytes(t));
    }

    const Graph& g_;
    StepShape s_;
    std::vector<std::uint8_t> gradient_;
    std::vector<std::vector<const Op*>> readers_{};
    std::vector<OperationTraffic> rows_{};
};

}  // namespace detail

/// Traffic of a step of SGD with momentum, cut as `shape` says.
[[nodiscard]] inline std::vector<OperationTraffic> step_traffic(const Graph& graph,
                                                                StepShape shape) {
    return detail::StepTraffic(graph, std::move(shape)).rows();
}

/// Bytes of activations of one image, over all operations.
[[nodiscard]] inline double activation_bytes(const std::vector<OperationTraffic>& rows) {
    double sum = 0;
    for (const OperationTraffic& r : rows) sum += r.read + r.written;
    return sum;
}
/// Bytes of parameters of a step.
[[nodiscard]] inline double parameter_bytes(const std::vector<OperationTraffic>& rows) {
    double sum = 0;
    for (const OperationTraffic& r : rows) sum += r.parameter_bytes;
    return sum;
}

/// Peaks of a data sheet: bytes and flops (fp16 on tensor cores) a second.
struct GpuPeaks {
    const char* name;
    double bandwidth, flops;
};
inline constexpr GpuPeaks v100_peaks{"V100", 0.90e12, 125e12}, h100_peaks{"H100", 3.35e12, 989e12},
    h200_peaks{"H200", 4.8e12, 989e12};

/// Images a second, where each operation takes the longer of its traffic's time and its flops'.
[[nodiscard]] inline double roofline_images_per_second(const std::vector<OperationTraffic>& rows,
                                                       int batch, const GpuPeaks& gpu) {
    double seconds = 0;
    for (const OperationTraffic& r : rows)
        seconds += std::max((batch * (r.read + r.written) + r.parameter_bytes) / gpu.bandwidth,
                            batch * r.flops / gpu.flops);
    return batch / seconds;
}

}  // namespace gx::cuda
