// reference::Device: forward and backward passes, operation by operation.
#pragma once

#include <algorithm>    // fill, copy, all_of, max, transform
#include <cmath>        // isfinite
#include <optional>     // optional
#include <span>         // views
#include <string>       // sentences
#include <string_view>  // sentences
#include <vector>       // memory

#include <gx/core/contract.hpp>          // GX_EXPECT
#include <gx/core/element.hpp>           // ElementType
#include <gx/model/compute.hpp>          // in_compute_type
#include <gx/model/timed_only.hpp>       // expect_numbers
#include <gx/reference/batch_norm.hpp>   // normalise
#include <gx/reference/convolution.hpp>  // convolve
#include <gx/reference/device.hpp>
#include <gx/reference/elementwise.hpp>  // relu, concat, dropout
#include <gx/reference/linear.hpp>       // multiply
#include <gx/reference/loss.hpp>         // cross_entropy
#include <gx/reference/pooling.hpp>      // max_pool, avg_pool
#include <gx/reference/round_to.hpp>     // round_to

namespace gx::reference {

GX_DECL Device::Device(const Graph& graph, DeviceOptions options, Sums sums)
    : graph_(expect_numbers(graph)),
      options_(options),
      sums_(sums),
      round_(options.compute == ElementType::fp16   ? round_to<fp16>
             : options.compute == ElementType::bf16 ? round_to<bf16>
                                                    : nullptr) {
    GX_EXPECT(options.batch > 0, "a device is built for a batch of at least one image");
    GX_EXPECT(!graph.ops.empty() && graph.ops.back().kind == OpKind::softmax_cross_entropy,
              "a graph ends with its loss: call softmax_cross_entropy last");
    for (const ImageShape& shape : graph.tensors) {
        const auto elements = std::size_t(options.batch) * std::size_t(shape.elements());
        activations_.emplace_back(elements);
        activation_gradients_.emplace_back(elements);
    }
    const auto count = static_cast<std::size_t>(graph.parameter_elements());
    parameters_.resize(count);
    weights_.resize(count);
    weight_gradients_.resize(count);
    for (int p = 0; const Parameter& parameter : graph.parameters)
        slices_.push_back({std::size_t(parameter.offset), std::size_t(parameter.count), p++});
    for (const Statistic& s : graph.statistics)
        statistics_.insert(statistics_.end(), std::size_t(s.count), s.initial);
    if (options.tf32) {
        std::size_t most = 0, weights = 0;
        for (const auto& values : activations_) most = std::max(most, values.size());
        for (const ParameterSlice& s : slices_) weights = std::max(weights, s.count);
        operands_[0].reserve(weights);
        for (auto* of : {&operands_[1], &operands_[2]}) of->reserve(most);
    }
    labels_.resize(std::size_t(options.batch));
    second_labels_.resize(std::size_t(options.batch));
}

GX_DECL ForwardReport Device::forward(const Batch& batch, Mode mode) {
    accept(batch, mode);
    ForwardReport report;
    for (const Op& op : graph_.ops) {
        run(op, report);
        if (op.kind != OpKind::softmax_cross_entropy) round(activations_, op.output);
    }
    report.finite = std::isfinite(report.loss_sum);
    return report;
}

GX_DECL void Device::backward(float scale, std::span<float> gradients, GradientsReady ready) {
    GX_EXPECT(mode_ == Mode::train, "backward follows a forward in Mode::train");
    GX_EXPECT(gradients.size() == parameters_.size(), "one gradient for each parameter");
    for (auto& gradient : activation_gradients_) std::ranges::fill(gradient, 0.0);
    std::ranges::fill(weight_gradients_, 0.0);
    const bool rounds = round_ || options_.tf32;
    const double before = rounds ? double{scale} : 1.0, after = rounds ? 1.0 : double{scale};
    for (std::size_t i = graph_.ops.size(); i-- > 0;) {
        const Op& op = graph_.ops[i];
        run_backward(op, before);
        for (const int input : op.inputs)
            if (input >= 0) round(activation_gradients_, input);
        if (op.parameter_count == 0) continue;
        const ParameterSlice& first = slices_[std::size_t(op.first_parameter)];
        const ParameterSlice& last = slices_[first_index(op) + op.parameter_count - 1];
        round_parameters(weight_gradients_, op);
        for (std::size_t k = first.offset; k < last.offset + last.count; ++k)
            gradients[k] = static_cast<float>(after * weight_gradients_[k]);
        ready(first.offset);
    }
    if (slices_.empty()) ready(0);
}

GX_DECL void Device::update(FunctionRef<void(std::span<float>)> change) {
    change(parameters_);
    std::ranges::copy(parameters_, weights_.begin());
    for (const Op& op : graph_.ops) round_parameters(weights_, op);
}

GX_DECL std::optional<std::string> Device::first_non_finite() const {
    const auto finite = [](double v) { return std::isfinite(v); };
    for (const Op& op : graph_.ops)
        if (!std::ranges::all_of(activation(op.output), finite))
            return std::string(to_string(op.kind)) + " '" + std::string(op.name.view()) + "'";
    return std::nullopt;
}

GX_DECL void Device::accept(const Batch& batch, Mode mode) {
    GX_EXPECT(batch.count >= 0 && batch.count <= options_.batch,
              "a batch of " + std::to_string(batch.count) + " images: expected 0 to " +
                  std::to_string(options_.batch) + ", which the device was built for");
    const auto count = static_cast<std::size_t>(batch.count);
    GX_EXPECT(batch.elements() == count * std::size_t(graph_.input.elements()),
              "a batch holds count images of the graph's input shape");
    GX_EXPECT(batch.labels.size() == count, "a batch holds one label for each image");
    for (std::size_t n = 0; n < count; ++n)
        GX_EXPECT(batch.labels[n] >= 0 && batch.labels[n] < graph_.classes,
                  "label " + std::to_string(batch.labels[n]) + " of image " + std::to_string(n) +
                      ": expected 0 to " + std::to_string(graph_.classes - 1));
    expect_second_labels(batch, graph_.classes);
    normalise_into(batch, activations_[0].data());
    std::ranges::copy(batch.labels, labels_.begin());
    std::ranges::fill(second_labels_, SecondLabel{});
    std::ranges::copy(batch.second_labels, second_labels_.begin());
    count_ = batch.count;
    draw_ = batch.draw;
    mode_ = mode;
}

GX_DECL void Device::run(const Op& op, ForwardReport& report) {
    const WriteMaps y = maps(activations_, op.output);
    if (op.kind == OpKind::input) return;
    const ReadMaps x = read(activations_, op.inputs[0]);
    switch (op.kind) {
        case OpKind::input: break;
        case OpKind::conv2d:
            return with_sums(sums_, [&](auto add) { convolve(kernel(op), operand(1, x), y, add); });
        case OpKind::batch_norm: return run_batch_norm(op, x, y);
        case OpKind::relu: return relu(x, y);
        case OpKind::max_pool: return max_pool(op.window, x, y);
        case OpKind::avg_pool: return avg_pool(op.window, x, y);
        case OpKind::linear:
            return with_sums(sums_, [&](auto add) {
                multiply(operand_weight(op), weight(op, 1), operand(1, x), y, add);
            });
        case OpKind::add: return add(x, read(activations_, op.inputs[1]), y);
        case OpKind::flatten: return copy(x, y);
        case OpKind::concat: return concat(x, read(activations_, op.inputs[1]), y);
        case OpKind::dropout:
            return mode_ == Mode::train ? dropout(stream(op), op.rate, x, y) : copy(x, y);
        case OpKind::softmax_cross_entropy: return run_loss(op, x, y, report);
        default: break;  // timed only: refused on construction
    }
}

GX_DECL void Device::run_batch_norm(const Op& op, ReadMaps x, WriteMaps y) {
    float* means = statistic(op, 0);
    float* variances = statistic(op, 1);
    for (int c = 0; c < x.shape.channels; ++c) {
        Moments moments{.mean = means[c], .variance = variances[c]};
        if (mode_ == Mode::train) {
            moments = channel_moments(x, c);
            if (count_ > 0) update_running(moments, op.momentum, means[c], variances[c]);
        }
        normalise(x, c, moments, op.rate, weight(op, 0)[c], weight(op, 1)[c], y);
    }
}

GX_DECL void Device::run_loss(const Op& op, ReadMaps logits, WriteMaps losses,
                              ForwardReport& report) {
    for (int n = 0; n < count_; ++n) {
        const SecondLabel second = second_labels_[std::size_t(n)];
        const int label = counted_label(labels_[std::size_t(n)], second);
        const double loss = cross_entropy(logits, n, {labels_[std::size_t(n)], second}, op.rate);
        losses(n, 0, 0, 0) = loss;
        report.loss_sum += loss;
        report.correct += predicted(logits, n) == label ? 1 : 0;
        report.top5 += place_of(logits, n, label) < 5 ? 1 : 0;
    }
}

GX_DECL void Device::run_backward(const Op& op, double scale) {
    if (op.kind == OpKind::input) return;
    const ReadMaps x = read(activations_, op.inputs[0]);
    const ReadMaps dy = read(activation_gradients_, op.output);
    const WriteMaps dx = maps(activation_gradients_, op.inputs[0]);
    switch (op.kind) {
        case OpKind::input: break;
        case OpKind::conv2d:
            return with_sums(sums_, [&](auto add) {
                convolve_backward(kernel(op), operand(1, x), operand(2, dy), dx, gradient(op, 0),
                                  add);
                if (double* dbias = gradient(op, 1)) bias_backward(dy, dbias, add);
            });
        case OpKind::batch_norm:
            for (int c = 0; c < x.shape.channels; ++c)
                normalise_backward(x, c, op.rate, weight(op, 0)[c], dy, dx, gradient(op, 0)[c],
                                   gradient(op, 1)[c]);
            return;
        case OpKind::relu: return relu_backward(x, dy, dx);
        case OpKind::max_pool: return max_pool_backward(op.window, x, dy, dx);
        case OpKind::avg_pool: return avg_pool_backward(op.window, x, dy, dx);
        case OpKind::linear:
            return with_sums(sums_, [&](auto add) {
                multiply_backward(operand_weight(op), operand(1, x), operand(2, dy), dx,
                                  gradient(op, 0), add);
                if (double* dbias = gradient(op, 1)) bias_backward(dy, dbias, add);
            });
        case OpKind::add:
            pass_back(dy, dx);
            return pass_back(dy, maps(activation_gradients_, op.inputs[1]));
        case OpKind::flatten: return pass_back(dy, dx);
        case OpKind::concat:
            return concat_backward(dy, dx, maps(activation_gradients_, op.inputs[1]));
        case OpKind::dropout: return dropout_backward(stream(op), op.rate, dy, dx);
        case OpKind::softmax_cross_entropy:
            for (int n = 0; n < count_; ++n)
                cross_entropy_backward(
                    x, n, {labels_[std::size_t(n)], second_labels_[std::size_t(n)]}, op.rate, dx);
            for (std::size_t i = 0; i < dx.elements(); ++i) dx.data[i] *= scale;
            return;
        default: break;  // timed only: refused on construction
    }
}

GX_DECL void Device::round(Tensors& of, int tensor) const {
    if (!round_) return;
    for (double& x : std::span(of[std::size_t(tensor)]).first(elements(tensor))) x = round_(x);
}

GX_DECL void Device::round_parameters(std::vector<double>& flat, const Op& op) const {
    for (int k = 0; round_ && k < op.parameter_count; ++k) {
        const Parameter& p = graph_.parameters[first_index(op) + std::size_t(k)];
        if (!in_compute_type(p.role)) continue;
        for (double& x : std::span(flat).subspan(std::size_t(p.offset), std::size_t(p.count)))
            x = round_(x);
    }
}

GX_DECL const double* Device::operand(int k, const double* values, std::size_t count) {
    if (!options_.tf32) return values;
    operands_[k].resize(count);
    std::transform(values, values + count, operands_[k].begin(),
                   [](double x) { return double{tf32::round(static_cast<float>(x))}; });
    return operands_[k].data();
}
GX_DECL const double* Device::operand_weight(const Op& op) {
    return operand(0, weight(op, 0), slices_[first_index(op)].count);
}
GX_DECL Kernel Device::kernel(const Op& op) {
    return {operand_weight(op), weight(op, 1), op.window, op.groups};
}

GX_DECL Rng Device::stream(const Op& op) const {
    return dropout_stream(options_.seed, op.name, options_.rank, draw_);
}

GX_DECL void Device::copy_all(std::span<const float> from, std::span<float> to) {
    GX_EXPECT(from.size() == to.size(), "both layouts hold as many elements");
    std::ranges::copy(from, to.begin());
}

}  // namespace gx::reference
