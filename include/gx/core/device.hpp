// Device: runs a graph forward and backward, and hands out its parameters to be updated.
#pragma once

#include <concepts>  // same_as
#include <cstddef>   // size_t
#include <cstdint>   // int32_t
#include <optional>  // optional
#include <span>      // views of flat memory
#include <string>    // names of layers
#include <vector>    // logits

#include <gx/core/contract.hpp>      // GX_EXPECT
#include <gx/core/element.hpp>       // ElementType
#include <gx/core/function_ref.hpp>  // FunctionRef

namespace gx {

enum class Mode : unsigned char { train, evaluate };

/// The second label of an image that was mixed of two, and its share of the target.
struct SecondLabel {
    std::int32_t label = 0;
    float share = 0;  ///< 0 ... 1; the first label has the rest
    bool operator==(const SecondLabel&) const = default;
};

/// Images of one rank and step: normalised floats, or 8-bit pixels that the device normalises.
/// Shapes: images or pixels (count, C, H, W) row-major, the other empty; labels (count);
///         values (C, 256), with pixels: the normalised value of each pixel value of a channel;
///         second_labels (count), or empty where each image has one label.
struct Batch {
    std::span<const float> images{};
    std::span<const std::int32_t> labels{};
    int count = 0;           ///< at most the device's batch; fewer in an epoch's tail, even 0
    std::uint64_t draw = 0;  ///< numbers this batch among all of its rank: dropout draws with it
    std::span<const std::uint8_t> pixels{};
    std::span<const float> values{};
    /// Of mixed images: the loss is (1 - share) * loss(label) + share * loss(second label), of
    /// which label smoothing is linear. Hits are of the label with the larger share, the first of
    /// equal.
    std::span<const SecondLabel> second_labels{};

    /// Of all images.
    [[nodiscard]] std::size_t elements() const { return images.size() + pixels.size(); }
};

/// Writes the normalised images of a batch to `to`, elements() numbers of any floating-point type.
/// Order: a pixel's value is read from a table that was rounded once, so that the bits are those of
///        a loader that normalises.
template <class T>
void normalise_into(const Batch& batch, T* to) {
    for (const float x : batch.images) *to++ = T{x};
    if (batch.pixels.empty()) return;
    const std::size_t channels = batch.values.size() / 256;
    const std::size_t plane = batch.pixels.size() / (channels * std::size_t(batch.count));
    for (std::size_t first = 0, c = 0; first < batch.pixels.size(); first += plane, ++c) {
        const float* of_channel = &batch.values[c % channels * 256];
        for (std::size_t i = first; i < first + plane; ++i) *to++ = T{of_channel[batch.pixels[i]]};
    }
}

/// Stops unless second labels are none or one an image, of classes, with shares of 0 ... 1.
inline void expect_second_labels(const Batch& batch, int classes) {
    GX_EXPECT(batch.second_labels.empty() ||
                  batch.second_labels.size() == static_cast<std::size_t>(batch.count),
              "a batch holds one second label for each image, or none");
    for (const SecondLabel& s : batch.second_labels)
        GX_EXPECT(s.label >= 0 && s.label < classes && s.share >= 0 && s.share <= 1,
                  "a second label is that of a class, with a share of 0 to 1");
}

/// A device that takes batches of 8-bit pixels: 'static constexpr bool takes_pixels = true'.
template <class D>
concept TakesPixels = bool(D::takes_pixels);

/// A device whose loss takes Batch::second_labels: 'static constexpr bool takes_second_labels =
/// true'.
template <class D>
concept TakesSecondLabels = bool(D::takes_second_labels);

/// A device whose forward and backward may run on any thread. They run one at a time, beside those
/// of other devices: 'static constexpr bool concurrent_passes = true'.
template <class D>
concept ConcurrentPasses = bool(D::concurrent_passes);

/// A device that batches have to reach first: 'await(batch)' waits for that of the next forward(),
/// which else does so itself. The Trainer counts this time as input.
template <class D>
concept AwaitsBatches = requires(D& d, const Batch& batch) { d.await(batch); };

/// The label that a hit is counted for.
[[nodiscard]] constexpr std::int32_t counted_label(std::int32_t label, const SecondLabel& second) {
    return second.share > 0.5f ? second.label : label;
}

/// Sums over the images of a batch, so that ranks with unequal counts add up rightly.
struct ForwardReport {
    double loss_sum = 0;       ///< nats
    std::int64_t correct = 0;  ///< images whose largest logit is at the label
    bool finite = true;        ///< the loss is a number
    /// Images whose label is among the five largest logits; of equal logits the first classes count
    /// as larger, here and in `correct`. With five classes or fewer: all images.
    std::int64_t top5 = 0;

    constexpr ForwardReport& operator+=(const ForwardReport& other) {
        loss_sum += other.loss_sum;
        correct += other.correct;
        finite = finite && other.finite;
        top5 += other.top5;
        return *this;
    }
};

/// Cost of one update per parameter, in fp32: an optimizer's `update_cost`.
struct UpdateCost {
    int bytes_per_parameter = 20;  ///< read and written; SGD: w, g, v read, w and v written
    int state_vectors = 1;         ///< floats kept for each parameter; SGD: the momentum
    int shards = 1;                ///< ranks that share it: each updates one part of so many
    int micro_batches = 1;         ///< whose gradients it sums: of 2 or more, one vector more
    constexpr bool operator==(const UpdateCost&) const = default;
};

/// What a device is built for.
struct DeviceOptions {
    int batch = 0;           ///< most images in one batch
    std::uint64_t seed = 0;  ///< of dropout
    int rank = 0;            ///< dropout differs between ranks
    UpdateCost update{};     ///< of the optimizer; simulated devices time and fit it
    ElementType compute = ElementType::fp32;  ///< of Trainer's Compute<E>; see computes_in
    bool tf32 = false;          ///< Compute<tf32>: products read numbers of fp32 as tf32 has them
    int phase = 0;              ///< of the run; simulated devices may time another graph for each
    bool deterministic = true;  ///< equal inputs give equal bits; false: need not, where quicker
    int at_once = 1;    ///< devices that this process computes on at once: they share its cores
    int gradients = 1;  ///< vectors of gradients that a run keeps in flight, for what fits
};

/// Where a parameter lies in the device's flat vector. Blocked layouts may pad, with zeros.
struct ParameterSlice {
    std::size_t offset = 0;  ///< elements
    std::size_t count = 0;   ///< elements, padding included
    int parameter = 0;       ///< index in Graph::parameters
};

/// Called during backward: all gradients from element `watermark` to the end are final.
using GradientsReady = FunctionRef<void(std::size_t watermark)>;

namespace detail::device {
template <class D>
concept RunsForward = requires(D& d, const Batch& batch) {
    { d.forward(batch, Mode::train) } -> std::same_as<ForwardReport>;
};
template <class D>
concept RunsBackward = requires(D& d, std::span<float> gradients, GradientsReady ready) {
    { d.backward(float{}, gradients, ready) } -> std::same_as<void>;
};
template <class D>
concept ListsParameters = requires(const D& d) {
    { d.parameters() } -> std::same_as<std::span<const float>>;
    { d.slices() } -> std::same_as<std::span<const ParameterSlice>>;
};
template <class D>
concept UpdatesParameters = requires(D& d, FunctionRef<void(std::span<float>)> change) {
    { d.update(change) } -> std::same_as<void>;
};
template <class D>
concept KeepsStatistics = requires(D& d) {
    { d.statistics() } -> std::same_as<std::span<float>>;
};
template <class D>
concept ConvertsLayouts = requires(const D& d, std::span<const float> from, std::span<float> to) {
    { d.to_canonical(from, to) } -> std::same_as<void>;
    { d.from_canonical(from, to) } -> std::same_as<void>;
};
template <class D>
concept NamesTheFirstBadLayer = requires(const D& d) {
    { d.first_non_finite() } -> std::same_as<std::optional<std::string>>;
};
}  // namespace detail::device

/// Runs one graph for one rank; built as Device(graph, DeviceOptions).
///
///     forward(batch, mode)              losses and hits; keeps what backward needs
///     backward(scale, gradients, ready) gradients = scale * d(sum of losses)/d(parameters), in the
///                                       device's own flat layout; calls ready from the end down
///     parameters(), slices()            the flat parameters, and where each one lies
///     update(change)                    change(parameters) edits them in place; then the device
///                                       refreshes what it derives from them
///     statistics()                      running means and variances, in the order of
///                                       Graph::statistics
///     to_canonical(mine, canonical)     from the device's flat layout to the graph's, and
///     from_canonical(canonical, mine)   back; for parameters, gradients and optimizer state alike
///     first_non_finite()                the first operation whose output is not a number, after a
///                                       forward whose report was not finite
///
/// Optional: takes_pixels, that forward() takes Batch::pixels; takes_second_labels, that its loss
/// is that of Batch::second_labels; receive(change), as update(change),
/// for parameters that come from other ranks: it is not timed as an update.
///
/// Optional: add(from, to), to += from of gradients, of a device that takes time for it and returns
/// the undisturbed time; else the Trainer adds micro-batches by a kernel.
///
/// Optional: template <class E> static constexpr bool computes, whether DeviceOptions::compute may
/// be E; absent means fp32 only. In fp16 or bf16 the tensors that gx/model/compute.hpp lists hold
/// values of E, parameters() stay fp32, update() and receive() refresh the copy in E, and backward
/// multiplies by `scale` before the gradient of the logits is rounded, so that a loss scale reaches
/// every gradient in E. Of tf32, DeviceOptions::tf32 tells it.
///
/// Optional: vector<float> logits() const, those of the last forward, before the next backward, of
/// shape (count, classes); Predictor and Features read them.
///
/// Optional: in_shares(f), which calls f(share, shares) for each share at once, by as many threads
/// as the device computes with; the Trainer's passes over all parameters are divided so.
///
/// Optional: warning() const, text that a user should know of this device on this machine, or
/// empty; the Trainer puts it into the record's warnings when it has made the device.
///
/// Order: equal inputs give equal bits, whatever ran before, unless DeviceOptions::deterministic is
///        false.
/// Cost:  a step allocates nothing once a batch of each count has been seen.
template <class D>
concept Device = detail::device::RunsForward<D> && detail::device::RunsBackward<D> &&
                 detail::device::ListsParameters<D> && detail::device::UpdatesParameters<D> &&
                 detail::device::KeepsStatistics<D> && detail::device::ConvertsLayouts<D> &&
                 detail::device::NamesTheFirstBadLayer<D>;

/// A device whose threads take shares of other work between its passes.
template <class D>
concept HasShares = requires(D& d, FunctionRef<void(int, int)> f) {
    { d.in_shares(f) } -> std::same_as<void>;
};

template <class D>
consteval bool explain_device() {
    static_assert(detail::device::RunsForward<D>,
                  "gx: not a Device: no 'ForwardReport forward(const Batch&, Mode)'. "
                  "A device runs the graph it was built for. Fix: add it.");
    static_assert(detail::device::RunsBackward<D>,
                  "gx: not a Device: no 'void backward(float scale, span<float> gradients, "
                  "GradientsReady)'. It writes the gradients and calls ready as they become "
                  "final. Fix: add it.");
    static_assert(detail::device::ListsParameters<D>,
                  "gx: not a Device: no 'span<const float> parameters() const' or "
                  "'span<const ParameterSlice> slices() const'. Optimizers and reports read "
                  "them. Fix: add both.");
    static_assert(detail::device::UpdatesParameters<D>,
                  "gx: not a Device: no 'void update(FunctionRef<void(span<float>)> change)'. "
                  "An optimizer changes the parameters through it. Fix: add it; call "
                  "change(parameters), then refresh what is derived from them.");
    static_assert(detail::device::KeepsStatistics<D>,
                  "gx: not a Device: no 'span<float> statistics()'. Running means and variances "
                  "are averaged over the ranks and saved. Fix: add it; return an empty span if "
                  "there are none.");
    static_assert(detail::device::ConvertsLayouts<D>,
                  "gx: not a Device: no 'void to_canonical(span<const float> mine, span<float> "
                  "canonical) const' or 'void from_canonical(span<const float> canonical, "
                  "span<float> mine) const'. Checkpoints keep the graph's layout. Fix: add both.");
    static_assert(detail::device::NamesTheFirstBadLayer<D>,
                  "gx: not a Device: no 'optional<string> first_non_finite() const'. A loss that "
                  "is not a number is traced to a layer. Fix: add it.");
    return true;
}

/// A device that hands out the logits of its last forward.
template <class D>
concept GivesLogits = requires(const D& d) {
    { d.logits() } -> std::same_as<std::vector<float>>;
};
template <class D>
consteval bool explain_logits() {
    static_assert(GivesLogits<D>,
                  "gx: this Device gives no logits: no 'vector<float> logits() const'. Classes are "
                  "predicted from them. Fix: use gx::onednn::Device or gx::reference::Device, or "
                  "add it to your own.");
    return true;
}

/// Whether D computes in E, as its `computes` declares; D without one computes in fp32 only.
template <class D, class E>
inline constexpr bool computes_in = [] {
    if constexpr (requires { D::template computes<E>; }) return bool{D::template computes<E>};
    else return std::same_as<E, fp32>;
}();

template <class D, class E>
consteval bool explain_computes() {
    static_assert(computes_in<D, E>,
                  "gx: this Device does not compute in the element of the Trainer's Compute<E>. "
                  "Fix: leave Compute<E> out, or train on a device that does, as "
                  "gx::reference::Device; your own device declares it by "
                  "'template <class E> static constexpr bool computes = ...'.");
    return true;
}

namespace archetype {
/// The least type that models Device.
struct Device {
    ForwardReport forward(const Batch&, Mode);
    void backward(float scale, std::span<float> gradients, GradientsReady);
    std::span<const float> parameters() const;
    std::span<const ParameterSlice> slices() const;
    void update(FunctionRef<void(std::span<float>)> change);
    std::span<float> statistics();
    void to_canonical(std::span<const float> mine, std::span<float> canonical) const;
    void from_canonical(std::span<const float> canonical, std::span<float> mine) const;
    std::optional<std::string> first_non_finite() const;
};
}  // namespace archetype
static_assert(explain_device<archetype::Device>());

}  // namespace gx
