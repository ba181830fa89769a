#include "network_plan.hpp"

#include <algorithm>  // find, max, sort
#include <numeric>    // iota

#include <gx/cuda/layer_kernels.hpp>    // ChannelNorm, batch_norm_scratch
#include <gx/model/backward_needs.hpp>  // gradient_tensors
#include <gx/model/compute.hpp>         // in_compute_type

namespace gx::cuda::detail {

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

BatchNormShape batch_norm_shape(const ImageShape& s, int batch) {
    return {std::int64_t{batch} * s.height * s.width, s.channels};
}

/// Places blocks at multiples of NetworkPlan::alignment_bytes: each is taken as a multiple of it.
std::int64_t place(std::vector<MemoryBlock>& blocks) {
    constexpr std::int64_t a = NetworkPlan::alignment_bytes;
    std::vector<MemoryBlock> rounded = blocks;
    for (MemoryBlock& b : rounded) b.bytes = (b.bytes + a - 1) / a * a;
    const std::int64_t bytes = place_blocks(rounded);
    for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i].offset = rounded[i].offset;
    return bytes;
}

std::int64_t workspace_of(const DnnPlan* plan) {
    return plan == nullptr ? 0 : plan->workspace_bytes();
}

}  // namespace

NetworkPlan::NetworkPlan(const Graph& graph, Dnn& dnn, int batch, ElementType compute)
    : graph_(&graph),
      batch_(batch),
      element_bytes_(compute == ElementType::fp32 ? 4 : 2),
      has_gradient_(gradient_tensors(graph)),
      readers_(graph.tensors.size()),
      joined_(graph.tensors.size()),
      first_channel_(graph.tensors.size()),
      activations_(graph.tensors.size(), Block::none),
      gradients_(graph.tensors.size(), Block::none) {
    for (const Op& op : graph.ops)
        for (const int input : op.inputs)
            if (input >= 0) ++readers_[at(input)];
    std::iota(joined_.begin(), joined_.end(), 0);
    join();
    if (compute != ElementType::fp32) take_blocks(dnn);
    for (Unit& unit : units_) plan_forward(unit, dnn);
    for (std::size_t i = units_.size(); i-- > 0;) plan_backward(units_[i]);
    set_final_parameters();
    bytes_ = place(blocks_);
}

// ---- Units -------------------------------------------------------------------------------------

/// Units in the order of their last operations. Of two batch norms that are added, the second takes
/// the addition, and applies the first, whose norms are there by then.
void NetworkPlan::join() {
    std::vector<const Op*> reader(graph_->tensors.size(), nullptr);
    for (const Op& op : graph_->ops)
        for (const int input : op.inputs)
            if (input >= 0) reader[at(input)] = readers(input) == 1 ? &op : nullptr;
    std::vector<bool> joined(graph_->ops.size(), false), applied = joined;
    const auto index = [&](const Op* op) { return op - graph_->ops.data(); };
    for (std::size_t i = graph_->ops.size(); i-- > 0;) {
        const Op& op = graph_->ops[i];
        Unit unit{.op = &op, .last = static_cast<int>(i), .inputs = op.inputs, .output = op.output};
        if (op.kind == OpKind::batch_norm) {
            const Op* behind = reader[at(op.output)];
            const Op* relu = behind;
            if (behind != nullptr && behind->kind == OpKind::add && !joined[at(int(index(behind)))])
                relu = reader[at(behind->output)];
            if (relu != nullptr && relu->kind == OpKind::relu) {
                unit.adds = relu != behind;
                unit.relu = true;
                if (unit.adds) {
                    unit.inputs[1] =
                        behind->inputs[0] == op.output ? behind->inputs[1] : behind->inputs[0];
                    const auto added = std::ranges::find(graph_->ops, unit.inputs[1], &Op::output);
                    if (added->kind == OpKind::batch_norm && reader[at(added->output)] == behind) {
                        unit.residual_norm = &*added;
                        applied[at(int(index(&*added)))] = true;
                    }
                }
                unit.last = static_cast<int>(index(relu));
                unit.output = relu->output;
                joined[at(int(index(relu)))] = joined[at(int(index(behind)))] = true;
                std::erase_if(units_,
                              [&](const Unit& u) { return u.op == relu || u.op == behind; });
            }
        }
        if (op.kind == OpKind::concat) join_channels(unit, reader[at(op.output)]);
        unit.norms_only = applied[i];
        units_.push_back(unit);
    }
    std::ranges::sort(units_, {}, &Unit::last);
}

/// Of a concat, which `reader` alone reads, or several operations: nullptr.
void NetworkPlan::join_channels(Unit& unit, const Op* reader) {
    if (reader != nullptr && reader->kind == OpKind::concat) {
        const bool second = reader->inputs[1] == unit.output;
        const auto first = at(reader->inputs[0]), whole = at(reader->output);
        joined_[at(unit.output)] = joined_[whole];
        first_channel_[at(unit.output)] =
            first_channel_[whole] + (second ? graph_->tensors[first].channels : 0);
    }
    unit.joined = joined_[at(unit.output)];
    unit.first_channels[0] = first_channel_[at(unit.output)];
    unit.first_channels[1] = unit.first_channels[0] + graph_->tensors[at(unit.inputs[0])].channels;
}

/// Products of halves pay for channels that are 0; those of fp32 would take longer.
void NetworkPlan::take_blocks(Dnn& dnn) {
    for (Unit& unit : units_) {
        const auto blocks = space_to_depth(*graph_, *unit.op);
        if (!blocks) continue;
        unit.dnn = dnn.convolution_of_blocks(*graph_, *unit.op, batch_, *blocks);
        if (unit.dnn.forward != nullptr && unit.dnn.weight_gradient != nullptr)
            input_blocks_ = units_.front().blocks = unit.blocks = blocks;
        return;
    }
}

void NetworkPlan::plan_forward(Unit& unit, Dnn& dnn) {
    const Op& op = *unit.op;
    const int time = unit.last;
    for (const int input : unit.inputs)
        if (input >= 0) use(activation(input), time);
    if (op.kind == OpKind::flatten && keeps_order(op)) {
        activations_[at(op.output)] = activation(op.inputs[0]);
        return;
    }
    if (op.kind == OpKind::softmax_cross_entropy) {
        unit.notes = add(batch_ * std::int64_t{sizeof(ImageLoss)}, time);
        return;
    }
    if (op.kind == OpKind::concat) {
        Block& whole = activations_[at(unit.joined)];
        if (whole == Block::none) whole = add(tensor_bytes(unit.joined), time);
        return use(whole, time);
    }
    if (!unit.norms_only) activations_[at(unit.output)] = add(tensor_bytes(unit.output), time);
    if (op.kind == OpKind::batch_norm) {
        const ImageShape& shape = graph_->tensors[at(op.output)];
        const BatchNormShape rows = batch_norm_shape(shape, batch_);
        unit.notes = add(shape.channels * std::int64_t{sizeof(ChannelNorm)}, time);
        if (unit.adds) unit.mask = add(batch_norm_mask_bytes(rows), time);
        if (unit.residual_norm != nullptr) {
            unit.residual_norms = std::ranges::find(units_, unit.residual_norm, &Unit::op)->notes;
            use(unit.residual_norms, time);
            use(activation(unit.residual_norm->inputs[0]), time);
        }
        unit.workspace = add(batch_norm_scratch(rows) * std::int64_t{sizeof(double)}, time);
        const auto conv = std::ranges::find(units_, op.inputs[0], &Unit::output);
        if (conv != units_.end() && conv->op->kind == OpKind::conv2d) unit.sums = conv->sums;
        use(unit.sums, time);
        return;
    }
    if (unit.blocks && op.kind == OpKind::conv2d) {
        unit.block_weight = add(unit.blocks->weights() * element_bytes_, time);
    } else {
        unit.dnn = dnn.layer(
            *graph_, op, batch_,
            {.input_gradient = has_gradient(op.inputs[0]), .sums = is_normalised(op.output)});
    }
    unit.workspace = add(
        std::max(workspace_of(unit.dnn.forward), workspace_of(unit.dnn.forward_with_sums)), time);
    if (unit.dnn.forward_with_sums != nullptr)
        unit.sums =
            add(2 * graph_->tensors[at(op.output)].channels * std::int64_t{sizeof(float)}, time);
    if (op.kind == OpKind::max_pool)
        unit.notes = add(batch_ * graph_->tensors[at(op.output)].elements(), time);
}

bool NetworkPlan::is_normalised(int tensor) const {
    return std::ranges::any_of(graph_->ops, [&](const Op& op) {
        return op.kind == OpKind::batch_norm && op.inputs[0] == tensor;
    });
}

// ---- Backward ----------------------------------------------------------------------------------

void NetworkPlan::plan_backward(Unit& unit) {
    const Op& op = *unit.op;
    const int time = 2 * static_cast<int>(graph_->ops.size()) - 1 - unit.last;
    const bool is_loss = op.kind == OpKind::softmax_cross_entropy;
    unit.output_gradient = gradients_[at(unit.output)];
    if (unit.output_gradient == Block::none && !is_loss) return;  // nothing behind reads it
    if (!is_loss) use(unit.output_gradient, time);
    for (const Block b : {unit.notes, unit.mask}) use(b, time);
    GradientRoute* const added = last_added(unit.output);
    if (op.kind == OpKind::batch_norm && added != nullptr) {
        added->kind = GradientRoute::Kind::keep;
        unit.addend = added->addend;
        use(unit.addend, time);
    }
    for (std::size_t k = 0; k < unit.inputs.size(); ++k) unit.gradients[k] = route(unit, k, time);
    switch (op.kind) {
        case OpKind::softmax_cross_entropy:
        case OpKind::conv2d:
        case OpKind::linear: use(activation(op.inputs[0]), time); break;
        case OpKind::relu: use(activation(op.output), time); break;
        case OpKind::batch_norm:
            use(activation(op.inputs[0]), time);
            unit.backward_workspace = add(memory(unit.workspace).bytes, time);
            // its kernel stores the gradient of the images, too
            if (unit.gradients[0].kind == GradientRoute::Kind::none)
                unit.gradients[0].to = add(tensor_bytes(op.inputs[0]), time);
            break;
        default: break;
    }
    if (op.kind == OpKind::batch_norm) return;
    unit.backward_workspace =
        add(std::max({workspace_of(unit.dnn.input_gradient), workspace_of(unit.dnn.weight_gradient),
                      workspace_of(unit.dnn.bias_gradient)}),
            time);
    if (op.parameter_count == 0 || element_bytes_ == 4) return;
    std::int64_t largest = unit.blocks ? unit.blocks->weights() : 0;
    for (int k = 0; k < op.parameter_count; ++k)
        largest = std::max(largest, graph_->parameters[at(op.first_parameter + k)].count);
    unit.weight_gradient = add(largest * element_bytes_, time);
}

bool NetworkPlan::keeps_order(const Op& flatten) const {
    const ImageShape& from = graph_->tensors[at(flatten.inputs[0])];
    return from.channels == 1 || from.height * from.width == 1;
}

bool NetworkPlan::passes_gradient(const Unit& unit) const {
    const Op& op = *unit.op;
    return op.kind == OpKind::add || (op.kind == OpKind::flatten && keeps_order(op));
}

GradientRoute NetworkPlan::route(const Unit& unit, std::size_t input, int time) {
    using Kind = GradientRoute::Kind;
    const int tensor = unit.inputs[input];
    if (!has_gradient(tensor)) return {};
    Block& gradient = gradients_[at(tensor)];
    const bool passes = passes_gradient(unit);
    if (gradient == Block::none) {
        if ((passes && readers(tensor) == 1) || is_part(tensor)) {  // nothing is ever added to it
            gradient = unit.output_gradient;
            return {.kind = Kind::shared, .to = gradient};
        }
        gradient = add(tensor_bytes(tensor), time);
        return {.kind = Kind::store, .to = gradient};
    }
    return {.kind = Kind::add,
            .to = gradient,
            .addend = passes ? unit.output_gradient : add(tensor_bytes(tensor), time)};
}

/// The last addition to the gradient of a tensor, by the first unit that reads it.
GradientRoute* NetworkPlan::last_added(int tensor) {
    for (Unit& unit : units_)
        for (std::size_t k = unit.inputs.size(); k-- > 0;)
            if (unit.inputs[k] == tensor && unit.gradients[k].kind == GradientRoute::Kind::add)
                return &unit.gradients[k];
    return nullptr;
}

/// Units end in another order than their parameters where one with an addition runs late.
void NetworkPlan::set_final_parameters() {
    std::vector<char> done(graph_->parameters.size(), false);
    std::size_t from = done.size();
    for (std::size_t i = units_.size(); i-- > 0;) {
        const Op& op = *units_[i].op;
        for (int k = 0; k < op.parameter_count; ++k) done[at(op.first_parameter + k)] = true;
        while (from > 0 && done[from - 1]) --from;
        units_[i].final_from = from;
    }
}

// ---- Checks ------------------------------------------------------------------------------------

std::vector<NetworkPlan::Check> NetworkPlan::checks() const {
    std::vector<Check> all;
    for (const Unit& unit : units_) {
        const bool repeatable = is_repeatable(unit);
        if (repeatable) all.push_back({unit.op->inputs[0], unit.notes, unit.op});
        if (survives(unit.output) && (unit.adds || !repeatable))
            all.push_back({unit.output, Block::none, &blamed(unit)});
    }
    return all;
}

CheckedActivation NetworkPlan::checked(const Check& check) const {
    const ImageShape& shape = graph_->tensors[at(check.tensor)];
    CheckedActivation at_tensor{memory(activation(check.tensor)).offset / element_bytes_,
                                elements(check.tensor)};
    if (check.norms == Block::none) return at_tensor;
    at_tensor.first_norm = memory(check.norms).offset / std::int64_t{sizeof(ChannelNorm)};
    at_tensor.channels = shape.channels;
    return at_tensor;
}

/// The first operation of those behind what is checked, up to the unit.
const Op& NetworkPlan::blamed(const Unit& unit) const {
    const Op* first = unit.op;
    if (unit.adds && is_repeatable(unit))  // the addition
        first = &*std::ranges::find_if(graph_->ops, [&](const Op& op) {
            return std::ranges::find(op.inputs, unit.op->output) != op.inputs.end();
        });
    for (const int input : unit.inputs)
        if (input >= 0 && !is_checked(input)) first = std::min(first, &blamed(writer(input)));
    return *first;
}

bool NetworkPlan::is_repeatable(const Unit& unit) const {
    return unit.op->kind == OpKind::batch_norm && survives(unit.op->inputs[0]) &&
           survives(unit.notes);
}
bool NetworkPlan::is_checked(int tensor) const {
    if (survives(tensor)) return true;
    const Unit& unit = writer(tensor);
    return !unit.adds && is_repeatable(unit);
}
const Unit& NetworkPlan::writer(int tensor) const {
    return *std::ranges::find(units_, tensor, &Unit::output);
}

// ---- Blocks ------------------------------------------------------------------------------------

Block NetworkPlan::add(std::int64_t bytes, int time) {
    if (bytes == 0) return Block::none;
    blocks_.push_back({.bytes = bytes, .first = time, .last = time});
    return static_cast<Block>(blocks_.size() - 1);
}

void NetworkPlan::use(Block block, int time) {
    if (block == Block::none) return;
    MemoryBlock& b = blocks_[static_cast<std::size_t>(block)];
    b.last = std::max(b.last, time);
}

std::int64_t NetworkPlan::elements(int tensor) const {
    if (tensor == 0 && input_blocks_) return input_blocks_->elements();
    return graph_->tensors[at(tensor)].elements();
}

std::int64_t NetworkPlan::tensor_bytes(int tensor) const {
    return elements(tensor) * batch_ * element_bytes_;
}

}  // namespace gx::cuda::detail
