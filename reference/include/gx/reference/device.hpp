// reference::Device: runs a graph by serial loops in double; what fast devices are compared with.
#pragma once

#include <cstdint>   // int32_t
#include <optional>  // optional
#include <span>      // views
#include <string>    // sentences
#include <vector>    // memory

#include <gx/core/decl.hpp>              // GX_DECL
#include <gx/core/device.hpp>            // Device, Batch
#include <gx/core/rng.hpp>               // Rng
#include <gx/model/compute.hpp>          // ComputeElement
#include <gx/model/graph.hpp>            // Graph, Op
#include <gx/reference/convolution.hpp>  // Kernel
#include <gx/reference/maps.hpp>         // ReadMaps, WriteMaps
#include <gx/reference/sums.hpp>         // Sums

namespace gx::reference {

/// Models gx::Device. Parameters, gradients and running statistics are float at the interface, in
/// the canonical layout; activations, their gradients and all sums are double inside. Parameters
/// start at 0 and statistics at their initial values.
///
/// DeviceOptions::compute = fp32 rounds nothing inside: the exact oracle. In fp16 and bf16 each
/// operation still computes in double, and what it stores is rounded once, where
/// gx/model/compute.hpp says so: activations (the loss is none), their gradients, the weights and
/// biases that are read, and the gradients of these. Batch norms read the parameters themselves.
/// With DeviceOptions::tf32 nothing that is stored is rounded, and each operand of a product is:
/// to float, then by tf32::round().
///
/// Errors: a graph that can only be timed throws gx::Error; a batch that does not fit, a label
///         outside the classes, or a backward that follows no forward in Mode::train breaks the
///         contract.
/// Order:  operations as listed; within one, as its header says; a tensor that several operations
///         read gets its gradient from the last of them first. Gradients sum over the whole batch
///         in double, are multiplied by scale, and are rounded to float once. In fp16 and bf16 the
///         gradient of the logits is multiplied by scale, and all that follows from it is scaled.
/// Cost:   allocates in the constructor only; a few ns per multiply-add, on one core.
class Device {
public:
    template <class E>
    static constexpr bool computes = ComputeElement<E>;
    static constexpr bool takes_pixels = true;
    static constexpr bool takes_second_labels = true;

    /// `sums` of convolutions and linear layers: exact ones by default, or as a GPU rounds them.
    GX_DECL Device(const Graph& graph, DeviceOptions options, Sums sums = Sums::exact);

    /// Statistics move towards the batch's in Mode::train; a batch of no images leaves them.
    GX_DECL ForwardReport forward(const Batch& batch, Mode mode);

    GX_DECL void backward(float scale, std::span<float> gradients, GradientsReady ready);

    [[nodiscard]] std::span<const float> parameters() const { return parameters_; }
    [[nodiscard]] std::span<const ParameterSlice> slices() const { return slices_; }

    GX_DECL void update(FunctionRef<void(std::span<float>)> change);

    [[nodiscard]] std::span<float> statistics() { return statistics_; }

    /// The layout is the canonical one: both copy.
    void to_canonical(std::span<const float> mine, std::span<float> canonical) const {
        copy_all(mine, canonical);
    }
    void from_canonical(std::span<const float> canonical, std::span<float> mine) const {
        copy_all(canonical, mine);
    }

    /// As in "conv2d 'stem'".
    [[nodiscard]] GX_DECL std::optional<std::string> first_non_finite() const;

    /// The logits of the last forward, rounded to float. Shapes: (count, classes), row-major.
    [[nodiscard]] std::vector<float> logits() const {
        const auto all = activation(graph_.ops.back().inputs[0]);
        return {all.begin(), all.end()};
    }

    /// Values of a tensor after the last forward. Shapes: (count, channels, height, width);
    /// row-major; the loss is (count), in nats.
    [[nodiscard]] std::span<const double> activation(int tensor) const {
        return {activations_.at(std::size_t(tensor)).data(), elements(tensor)};
    }
    /// d(sum of losses)/d(tensor) of the last backward, without its scale; of tensor 0, the images.
    /// In fp16 and bf16: with its scale, as it is stored.
    [[nodiscard]] std::span<const double> activation_gradient(int tensor) const {
        return {activation_gradients_.at(std::size_t(tensor)).data(), elements(tensor)};
    }
    /// d(sum of losses)/d(parameters) of the last backward, without its scale, before rounding.
    /// In fp16 and bf16: with its scale, as it is stored.
    [[nodiscard]] std::span<const double> parameter_gradient() const { return weight_gradients_; }
    /// What operations read as parameters: in fp16 and bf16, the working copy.
    [[nodiscard]] std::span<const double> working_copy() const { return weights_; }

private:
    GX_DECL void accept(const Batch& batch, Mode mode);

    GX_DECL void run(const Op& op, ForwardReport& report);

    GX_DECL void run_batch_norm(const Op& op, ReadMaps x, WriteMaps y);

    GX_DECL void run_loss(const Op& op, ReadMaps logits, WriteMaps losses, ForwardReport& report);

    /// `scale` of the gradient of the logits.
    GX_DECL void run_backward(const Op& op, double scale);

    using Tensors = std::vector<std::vector<double>>;
    [[nodiscard]] WriteMaps maps(Tensors& of, int tensor) const {
        const auto t = static_cast<std::size_t>(tensor);
        return {of[t].data(), count_, graph_.tensors[t]};
    }
    [[nodiscard]] ReadMaps read(const Tensors& of, int tensor) const {
        const auto t = static_cast<std::size_t>(tensor);
        return {of[t].data(), count_, graph_.tensors[t]};
    }
    [[nodiscard]] std::size_t elements(int tensor) const {
        return std::size_t(count_) * std::size_t(graph_.tensors[std::size_t(tensor)].elements());
    }

    [[nodiscard]] static std::size_t first_index(const Op& op) {
        return static_cast<std::size_t>(op.first_parameter);
    }
    /// Parameter k of an operation, or its gradient: weight then bias, gamma then beta.
    [[nodiscard]] const double* weight(const Op& op, int k) const {
        return k < op.parameter_count ? &weights_[slices_[first_index(op) + k].offset] : nullptr;
    }
    [[nodiscard]] double* gradient(const Op& op, int k) {
        return k < op.parameter_count ? &weight_gradients_[slices_[first_index(op) + k].offset]
                                      : nullptr;
    }
    [[nodiscard]] float* statistic(const Op& op, int k) {
        const auto index = static_cast<std::size_t>(op.first_statistic + k);
        return &statistics_[std::size_t(graph_.statistics[index].offset)];
    }
    /// The operand `k` of a product as tensor cores read it; what it was but for tf32.
    [[nodiscard]] GX_DECL const double* operand(int k, const double* values, std::size_t count);
    /// A tensor as one.
    [[nodiscard]] ReadMaps operand(int k, ReadMaps m) {
        return {operand(k, m.data, m.elements()), m.images, m.shape};
    }
    /// The weight of an operation as one.
    [[nodiscard]] GX_DECL const double* operand_weight(const Op& op);
    /// Rounds a tensor that an operation has just stored.
    GX_DECL void round(Tensors& of, int tensor) const;
    /// Rounds the parameters of an operation, or their gradients, but those that stay fp32.
    GX_DECL void round_parameters(std::vector<double>& flat, const Op& op) const;
    [[nodiscard]] GX_DECL Kernel kernel(const Op& op);
    [[nodiscard]] GX_DECL Rng stream(const Op& op) const;
    static GX_DECL void copy_all(std::span<const float> from, std::span<float> to);

    Graph graph_;
    DeviceOptions options_;
    Sums sums_;
    double (*round_)(double);  ///< to the element that it computes in; nullptr: fp32
    Tensors activations_, activation_gradients_;
    std::vector<double> operands_[3];  // of a product in tf32: weight, input, gradient
    std::vector<float> parameters_, statistics_;
    std::vector<double> weights_, weight_gradients_;  ///< the working copy; gradients
    std::vector<ParameterSlice> slices_;
    std::vector<std::int32_t> labels_;
    std::vector<SecondLabel> second_labels_;  // of share 0 where an image has one
    int count_ = 0;
    std::uint64_t draw_ = 0;
    Mode mode_ = Mode::evaluate;
};

/// The device with other sums, for worlds, which build it from a graph and options.
template <Sums sums>
struct SummingDevice : Device {
    SummingDevice(const Graph& graph, DeviceOptions options) : Device(graph, options, sums) {}
};

static_assert(explain_device<Device>());
static_assert(gx::Device<Device>);

}  // namespace gx::reference

#if defined(GX_HEADER_ONLY)
#include <gx/reference/impl/device.ipp>
#endif
