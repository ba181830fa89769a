#include "network.hpp"

#include <utility>  // move

#include <gx/core/contract.hpp>       // GX_EXPECT
#include <gx/core/rng.hpp>            // Rng
#include <gx/cuda/error.hpp>          // expect
#include <gx/cuda/kernels.hpp>        // encode, decode, accumulate, copy_bytes
#include <gx/cuda/queued_call.hpp>    // queued_call
#include <gx/cuda/layer_kernels.hpp>  // batch norm, average pool, relu, loss

namespace gx::cuda::detail {

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

template <class E>
class NetworkOf final : public Network {
    using Storage = typename E::storage;
    using Maps = DeviceSpan<Storage>;
    using ReadMaps = DeviceSpan<const Storage>;
    static constexpr bool is_fp32 = std::same_as<E, fp32>;

public:
    explicit NetworkOf(const NetworkParts& parts)
        : parts_(parts),
          graph_(*parts.graph),
          plan_(*parts.plan),
          memory_(parts.memory),
          stream_(parts.stream) {}

    void forward(const NetworkPass& pass, DeviceSpan<ForwardReport> report) override {
        pass_ = pass;
        for (const Unit& unit : plan_.units()) {
            run(unit, report);
            clear_tail(unit);
        }
    }

    void check(DeviceSpan<const ForwardReport> report,
               DeviceSpan<const CheckedActivation> activations,
               DeviceSpan<std::uint32_t> counts) override {
        check_activations<E>(stream_, report, pass_.count, activations, arena<const Storage>(),
                             arena<const ChannelNorm>(), counts.subspan(0, activations.size),
                             counts.subspan(activations.size, 1));
    }

    void backward(DeviceSpan<const float> scale, DeviceSpan<float> gradients,
                  FunctionRef<void(std::size_t)> ready) override {
        const auto slices = parts_.layout->slices();
        std::size_t final_from = slices.size();
        const auto units = plan_.units();
        for (std::size_t i = units.size(); i-- > 0;) {
            run_backward(units[i], scale, gradients);
            if (units[i].final_from == final_from) continue;
            final_from = units[i].final_from;
            ready(slices[final_from].offset);
        }
        if (slices.empty()) ready(0);
    }

    void refresh() override {
        if constexpr (!is_fp32)
            encode<E>(stream_, memory_.parameters,
                      {reinterpret_cast<Storage*>(memory_.working), memory_.parameters.size});
    }

private:
    // ---- Memory ----
    template <class T>
    [[nodiscard]] DeviceSpan<T> arena() const {
        return {reinterpret_cast<T*>(memory_.arena.data),
                memory_.arena.size / std::int64_t{sizeof(T)}};
    }
    template <class T>
    [[nodiscard]] DeviceSpan<T> span(Block b) const {
        if (b == Block::none) return {};
        const MemoryBlock& m = plan_.memory(b);
        return {reinterpret_cast<T*>(memory_.arena.data + m.offset),
                m.bytes / std::int64_t{sizeof(T)}};
    }
    [[nodiscard]] Maps activation(int tensor) const {
        return span<Storage>(plan_.activation(tensor));
    }
    [[nodiscard]] void* workspace(Block b) const { return span<std::byte>(b).data; }
    [[nodiscard]] const ImageShape& shape(int tensor) const { return graph_.tensors[at(tensor)]; }
    [[nodiscard]] PixelShape pixels(int tensor, int images) const {
        const ImageShape& s = shape(tensor);
        return {images, s.channels, s.height * s.width};
    }
    [[nodiscard]] BatchNormShape rows(int tensor) const {
        const ImageShape& s = shape(tensor);
        return {std::int64_t{pass_.count} * s.height * s.width, s.channels};
    }
    [[nodiscard]] PoolShape pool(const Op& op) const {
        return {pass_.count, shape(op.inputs[0]), shape(op.output), op.window};
    }
    [[nodiscard]] const Parameter& parameter(const Op& op, int k) const {
        return graph_.parameters[at(op.first_parameter + k)];
    }
    [[nodiscard]] std::int64_t offset(const Op& op, int k) const {
        return static_cast<std::int64_t>(
            parts_.layout->slices()[at(op.first_parameter + k)].offset);
    }
    /// Of the flat gradient, without padding.
    [[nodiscard]] DeviceSpan<float> gradient(DeviceSpan<float> all, const Op& op, int k) const {
        return all.subspan(offset(op, k), parameter(op, k).count);
    }
    /// In E.
    [[nodiscard]] const void* weight(const Op& op, int k) const {
        return reinterpret_cast<const Storage*>(memory_.working) + offset(op, k);
    }
    /// The filters of a convolution, as its plans read them.
    [[nodiscard]] const void* filters(const Unit& unit) const {
        return unit.blocks ? span<Storage>(unit.block_weight).data : weight(*unit.op, 0);
    }
    [[nodiscard]] BatchNormParameters batch_norm(const Op& op) const {
        const auto statistic = [&](int k) {
            const Statistic& s = graph_.statistics[at(op.first_statistic + k)];
            return memory_.statistics.subspan(s.offset, s.count);
        };
        const auto affine = [&](int k) {
            return memory_.parameters.subspan(offset(op, k), parameter(op, k).count);
        };
        return {affine(0), affine(1), statistic(0), statistic(1), op.rate, op.momentum};
    }
    [[nodiscard]] Rng draws(const Op& op) const {
        return Rng(parts_.seed, op.name.view()).at(static_cast<std::uint64_t>(parts_.rank));
    }
    void copy(ReadMaps from, Maps to) {
        const auto bytes = [](auto s) { return s.size * std::int64_t{sizeof(Storage)}; };
        copy_bytes(stream_, from.data, bytes(from), to.data, bytes(to));
    }
    void clear(void* from, std::int64_t bytes) {
        const auto set = [&] {
            return cudaMemsetAsync(from, 0, static_cast<std::size_t>(bytes), stream_);
        };
        expect(queued_call("cudaMemsetAsync", set, from, bytes), "cudaMemsetAsync");
    }

    // ---- Forward ----
    void run(const Unit& unit, DeviceSpan<ForwardReport> report) {
        const Op& op = *unit.op;
        const ReadMaps x = op.inputs[0] >= 0 ? activation(op.inputs[0]) : Maps{};
        switch (op.kind) {
            case OpKind::input: return pack(unit);
            case OpKind::conv2d:
            case OpKind::linear:
                if (op.parameter_count > 1)
                    return plan(unit, unit.dnn.forward,
                                {x.data, weight(op, 0), weight(op, 1), y(unit)});
                if constexpr (!is_fp32)
                    if (unit.blocks)
                        weights_to_blocks<E>(
                            stream_, *unit.blocks,
                            {reinterpret_cast<const Storage*>(weight(op, 0)),
                             parameter(op, 0).count},
                            span<Storage>(unit.block_weight).subspan(0, unit.blocks->weights()));
                if (unit.sums != Block::none && pass_.mode == Mode::train) {
                    const auto sums = span<float>(unit.sums);
                    return plan(unit, unit.dnn.forward_with_sums,
                                {x.data, filters(unit), y(unit), sums.data,
                                 sums.data + shape(unit.output).channels});
                }
                return plan(unit, unit.dnn.forward, {x.data, filters(unit), y(unit)});
            case OpKind::max_pool:
                return plan(unit, unit.dnn.forward,
                            {x.data, y(unit), span<std::byte>(unit.notes).data});
            case OpKind::avg_pool:
                return average_pool<E>(stream_, pool(op), x, activation(op.output));
            case OpKind::relu: return relu<E>(stream_, x, activation(op.output));
            case OpKind::add:
                return add_maps<E>(stream_, x, activation(op.inputs[1]), activation(op.output));
            case OpKind::flatten:
                if (plan_.keeps_order(op)) return;
                return channels_to_front(stream_, pixels(op.inputs[0], parts_.batch), x,
                                         activation(op.output));
            case OpKind::dropout:
                if (pass_.mode == Mode::evaluate) return copy(x, activation(op.output));
                return dropout<E>(stream_, pixels(op.output, pass_.count), draws(op), pass_.draw,
                                  op.rate, x, activation(op.output));
            case OpKind::concat: return join(unit);
            case OpKind::batch_norm: return run_batch_norm(unit);
            case OpKind::softmax_cross_entropy:
                return softmax_cross_entropy<E>(stream_, loss_shape(op), x, labels(),
                                                span<ImageLoss>(unit.notes), report);
            default: return;  // timed only: refused on construction
        }
    }
    [[nodiscard]] const void* y(const Unit& unit) const { return activation(unit.output).data; }
    void plan(const Unit& unit, const DnnPlan* plan, std::initializer_list<const void*> pointers) {
        plan->run(parts_.dnn->handle(), pointers, workspace(unit.workspace));
    }
    void pack(const Unit& unit) {
        const PixelShape s = pixels(unit.output, pass_.count);
        const Maps to = activation(unit.output);
        if constexpr (!is_fp32)
            if (unit.blocks) {
                if (pass_.pixels.size > 0)
                    return pack_blocks_of_pixels<E>(stream_, *unit.blocks, pass_.count,
                                                    pass_.pixels, pass_.values, to);
                return pack_blocks<E>(stream_, *unit.blocks, pass_.count, pass_.images, to);
            }
        if (pass_.pixels.size > 0)
            pack_pixels<E>(stream_, s, s.channels, pass_.pixels, pass_.values, to);
        else pack_images<E>(stream_, s, s.channels, pass_.images, to);
    }
    /// The inputs that are not yet where they belong.
    void join(const Unit& unit) {
        const Maps y = activation(unit.joined);
        for (const std::size_t k : {0u, 1u}) {
            const int input = unit.inputs[k], channels = shape(input).channels;
            if (plan_.activation(input) == Block::none) continue;
            copy_channels<Storage>(stream_, channels, {activation(input), channels},
                                   {y, shape(unit.joined).channels, unit.first_channels[k]});
        }
    }
    void run_batch_norm(const Unit& unit) {
        const Op& op = *unit.op;
        BatchNormMaps<E> maps{
            .x = activation(op.inputs[0]), .y = activation(unit.output), .relu = unit.relu};
        if (unit.adds) maps.residual = activation(unit.inputs[1]);
        if (unit.residual_norm != nullptr) {
            maps.residual = activation(unit.residual_norm->inputs[0]);
            maps.residual_norms = span<ChannelNorm>(unit.residual_norms);
        }
        const auto norms = span<ChannelNorm>(unit.notes);
        if (pass_.mode == Mode::evaluate)
            return batch_norm_evaluate<E>(stream_, rows(op.output), batch_norm(op), maps, norms);
        maps.mask = span<std::uint8_t>(unit.mask);
        if (unit.sums != Block::none) {
            const DeviceSpan<const float> sums = span<float>(unit.sums);
            return batch_norm_train<E>(stream_, rows(op.output), batch_norm(op), maps, norms, sums);
        }
        batch_norm_train<E>(stream_, rows(op.output), batch_norm(op), maps, norms,
                            span<double>(unit.workspace));
    }
    [[nodiscard]] BatchLabels labels() const { return {pass_.labels, pass_.second_labels}; }
    [[nodiscard]] LossShape loss_shape(const Op& op) const {
        return {pass_.count, graph_.classes, op.rate};
    }
    /// What a bias adds to images that a batch does not have must not meet an infinite weight.
    void clear_tail(const Unit& unit) {
        const Op& op = *unit.op;
        const bool product = op.kind == OpKind::conv2d || op.kind == OpKind::linear;
        if (!product || op.parameter_count < 2 || pass_.count == parts_.batch) return;
        const std::int64_t from = pass_.count * shape(unit.output).elements();
        const Maps all = activation(unit.output);
        clear(all.data + from, (all.size - from) * std::int64_t{sizeof(Storage)});
    }

    // ---- Backward ----
    void run_backward(const Unit& unit, DeviceSpan<const float> scale,
                      DeviceSpan<float> gradients) {
        const Op& op = *unit.op;
        if (op.kind == OpKind::softmax_cross_entropy) {
            softmax_cross_entropy_backward<E>(stream_, loss_shape(op), activation(op.inputs[0]),
                                              labels(), span<ImageLoss>(unit.notes), scale,
                                              span<Storage>(unit.gradients[0].stored()));
            return add_up(unit);
        }
        if (unit.output_gradient == Block::none) return clear_gradients(op, gradients);
        const ReadMaps dy = span<Storage>(unit.output_gradient);
        const Maps dx = span<Storage>(unit.gradients[0].stored());
        const bool needs_dx = unit.gradients[0].kind != GradientRoute::Kind::none;
        switch (op.kind) {
            case OpKind::conv2d:
            case OpKind::linear: run_product_backward(unit, dy, dx, needs_dx, gradients); break;
            case OpKind::batch_norm: run_batch_norm_backward(unit, dy, dx, gradients); break;
            case OpKind::add: break;
            case OpKind::concat: cut(unit, dy); break;
            case OpKind::flatten:
                if (needs_dx && !plan_.keeps_order(op))
                    channels_to_back(stream_, pixels(op.inputs[0], parts_.batch), dy, dx);
                break;
            case OpKind::dropout:
                if (needs_dx)
                    dropout<E>(stream_, pixels(op.output, pass_.count), draws(op), pass_.draw,
                               op.rate, dy, dx);
                break;
            case OpKind::relu:
                if (needs_dx) relu_backward<E>(stream_, dy, activation(op.output), dx);
                break;
            case OpKind::max_pool:
                backward_plan(unit, unit.dnn.input_gradient,
                              {dy.data, span<std::byte>(unit.notes).data, dx.data});
                break;
            case OpKind::avg_pool:
                if (needs_dx) average_pool_backward<E>(stream_, pool(op), dy, dx);
                break;
            default: return;
        }
        add_up(unit);
    }
    /// The gradient of a concat, which is that of all it joins.
    void cut(const Unit& unit, ReadMaps dy) {
        using Kind = GradientRoute::Kind;
        for (const std::size_t k : {0u, 1u}) {
            const GradientRoute& route = unit.gradients[k];
            if (route.kind == Kind::none || route.kind == Kind::shared) continue;
            const int channels = shape(unit.inputs[k]).channels;
            copy_channels<Storage>(stream_, channels,
                                   {dy, shape(unit.joined).channels, unit.first_channels[k]},
                                   {span<Storage>(route.stored()), channels});
        }
    }
    /// No-op without a plan: nothing needs the gradient.
    void backward_plan(const Unit& unit, const DnnPlan* plan,
                       std::initializer_list<const void*> pointers) {
        if (plan != nullptr)
            plan->run(parts_.dnn->handle(), pointers, workspace(unit.backward_workspace));
    }
    void run_product_backward(const Unit& unit, ReadMaps dy, Maps dx, bool needs_dx,
                              DeviceSpan<float> gradients) {
        const Op& op = *unit.op;
        if (needs_dx)
            backward_plan(unit, unit.dnn.input_gradient, {dy.data, weight(op, 0), dx.data});
        const auto dw = gradient(gradients, op, 0);
        const void* const x = activation(op.inputs[0]).data;
        if constexpr (is_fp32) {
            backward_plan(unit, unit.dnn.weight_gradient, {x, dy.data, dw.data});
        } else {
            const auto in_e = span<Storage>(unit.weight_gradient);
            backward_plan(unit, unit.dnn.weight_gradient, {x, dy.data, in_e.data});
            if (unit.blocks)
                gradient_from_blocks<E>(stream_, *unit.blocks,
                                        in_e.subspan(0, unit.blocks->weights()), dw);
            else decode<E>(stream_, in_e.subspan(0, dw.size), dw);
        }
        clear_padding(op, 0, gradients);
        if (op.parameter_count < 2) return;
        const auto db = gradient(gradients, op, 1);
        backward_plan(unit, unit.dnn.bias_gradient, {dy.data, db.data});
        if constexpr (!is_fp32) round_to<E>(stream_, db);
        clear_padding(op, 1, gradients);
    }
    void run_batch_norm_backward(const Unit& unit, ReadMaps dy, Maps dx,
                                 DeviceSpan<float> gradients) {
        const Op& op = *unit.op;
        batch_norm_backward<E>(stream_, rows(op.output), span<ChannelNorm>(unit.notes),
                               {.x = activation(op.inputs[0]),
                                .dy = dy,
                                .addend = span<Storage>(unit.addend),
                                .mask = span<std::uint8_t>(unit.mask),
                                .dx = dx,
                                .residual_gradient = span<Storage>(unit.gradients[1].stored()),
                                .dgamma = gradient(gradients, op, 0),
                                .dbeta = gradient(gradients, op, 1),
                                .relu = unit.relu},
                               span<double>(unit.backward_workspace));
        clear_padding(op, 0, gradients);
        clear_padding(op, 1, gradients);
    }
    /// Hands the gradients of the inputs on, as the unit's routes say.
    void add_up(const Unit& unit) {
        using Kind = GradientRoute::Kind;
        const ReadMaps dy = span<Storage>(unit.output_gradient);
        const bool passes = plan_.passes_gradient(unit);
        for (const GradientRoute& route : unit.gradients) {
            const Maps to = span<Storage>(route.to);
            if (route.kind == Kind::store && passes) copy(dy, to);
            if (route.kind != Kind::add) continue;
            accumulate<E>(stream_, ReadMaps(span<Storage>(route.addend)), to);
        }
    }
    void clear_padding(const Op& op, int k, DeviceSpan<float> gradients) {
        const ParameterSlice& s = parts_.layout->slices()[at(op.first_parameter + k)];
        const auto padding = static_cast<std::int64_t>(s.count) - parameter(op, k).count;
        if (padding == 0) return;
        clear(gradients.data + s.offset + parameter(op, k).count,
              padding * std::int64_t{sizeof(float)});
    }
    /// Of an operation that the loss does not depend on.
    void clear_gradients(const Op& op, DeviceSpan<float> gradients) {
        for (int k = 0; k < op.parameter_count; ++k) {
            const ParameterSlice& s = parts_.layout->slices()[at(op.first_parameter + k)];
            clear(gradients.data + s.offset, static_cast<std::int64_t>(s.count * sizeof(float)));
        }
    }

    NetworkParts parts_;
    const Graph& graph_;
    const NetworkPlan& plan_;
    NetworkMemory memory_;
    cudaStream_t stream_;
    NetworkPass pass_{};
};

}  // namespace

std::unique_ptr<Network> make_network(ElementType compute, const NetworkParts& parts) {
    switch (compute) {
        case ElementType::fp16: return std::make_unique<NetworkOf<fp16>>(parts);
        case ElementType::bf16: return std::make_unique<NetworkOf<bf16>>(parts);
        default: return std::make_unique<NetworkOf<fp32>>(parts);
    }
}

}  // namespace gx::cuda::detail
