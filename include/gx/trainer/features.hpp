// Features<Device>: outputs of a trained network's first layers on a source, as a source.
#pragma once

#include <algorithm>    // min
#include <cstdint>      // int64_t, uint64_t
#include <memory>       // unique_ptr
#include <span>         // samples
#include <string>       // names
#include <string_view>  // names
#include <utility>      // move
#include <vector>       // values

#include <gx/core/cold.hpp>                   // GX_COLD
#include <gx/core/decl.hpp>                   // GX_DECL
#include <gx/core/device.hpp>                 // Batch
#include <gx/loader/detail/pixel_values.hpp>  // PixelValues, decode
#include <gx/loader/source.hpp>               // SourceRef
#include <gx/model/graph.hpp>                 // Graph
#include <gx/model/head.hpp>                  // prefix_of
#include <gx/trainer/evaluator.hpp>           // Evaluator
#include <gx/trainer/weights.hpp>             // Weights

namespace gx {

namespace detail::features {

/// What features are made from: checked once, shared by all readers.
struct Plan {
    SourceRef source{};
    SourceInfo images{}, info{};  ///< of the source, and of the features
    Graph prefix{};
    Weights weights{};             ///< of the prefix
    loader::PixelValues values{};  ///< normalised pixels of the source
    EvaluatorOptions options{};
    std::uint64_t prefix_hash = 0;  ///< of the weights and of the place of the cut
};
[[nodiscard]] GX_DECL Plan plan(const SourceRef& source, const Graph& graph, const Weights& weights,
                                std::string_view from, const EvaluatorOptions& options);

/// Throws if a test of the source in `epoch` has rectangular images.
GX_COLD GX_DECL void expect_one_shape(const Plan& plan, int epoch);

/// Of the source's samples, their normalisation and the prefix; 0 where that of the source is.
[[nodiscard]] GX_DECL std::uint64_t content(const Plan& plan);

/// Calls `run` for batches of the pixels of samples `indices`, which `reader` reads; then `out`
/// refers to `values`, where run() has put the features.
class BatchedReader {
public:
    GX_DECL explicit BatchedReader(const Plan& plan);
    template <class Run>  // run(const Batch&) returns features (count, ...)
    void read(std::span<const std::uint32_t> indices, std::span<Sample> out, Run run) {
        const auto elements = std::size_t(plan_.info.shape.elements());
        values_.resize(indices.size() * elements);
        for (std::size_t done = 0; done < indices.size();) {
            const std::size_t count =
                std::min(indices.size() - done, std::size_t(plan_.options.batch));
            const std::vector<float> features =
                run(load(indices.subspan(done, count), out.subspan(done, count)));
            std::copy(features.begin(), features.end(), values_.begin() + done * elements);
            done += count;
        }
        for (std::size_t i = 0; i < out.size(); ++i)
            out[i] = {.label = out[i].label,
                      .shape = plan_.info.shape,
                      .second = out[i].second,
                      .values = &values_[i * elements]};
    }
    void begin_epoch(int epoch) { reader_->begin_epoch(epoch); }

private:
    GX_DECL Batch load(std::span<const std::uint32_t> indices, std::span<Sample> out);

    const Plan& plan_;
    std::unique_ptr<SampleReader> reader_;
    std::vector<float> images_{}, values_{};
    std::vector<std::int32_t> labels_{};
};

}  // namespace detail::features

/// The features of a source's images: what the layers of a network before layer `from` make of
/// them, with fixed weights, in Mode::evaluate. Models Source, whose samples are numbers: train
/// Head<M, from> on it. The layers before it are a frozen prefix: they are run forward alone, and
/// their batch norms keep the running statistics of the weights.
///
///     const Features<onednn::Device> features(images, graph<ResNet152>(), weights, "fc");
///     const CachedFeatures train(features);    // once; without it, anew in each epoch
///
/// The source's images may change from epoch to epoch (crops, colours); cached features are those
/// of epoch 0. The source must outlive it.
///
/// Errors: gx::Error for a layer at which the network can't be cut, and images of another shape, or
///         of several: rectangular validation.
/// Order:  features do not depend on ranks; on the batch as the device's bits do.
/// Cost:   a reader has a device of its own, on the GPU of the options where it is one, and the
///         layers' weights; a forward pass an image.
template <class D>
class Features {
    static_assert(explain_evaluated<D>());

public:
    Features(const SourceRef& source, const Graph& graph, const Weights& weights,
             std::string_view from, int batch = 16)
        : Features(source, graph, weights, from, EvaluatorOptions{.batch = batch}) {}
    Features(const SourceRef& source, const Graph& graph, const Weights& weights,
             std::string_view from, const EvaluatorOptions& options)
        : plan_(std::make_shared<detail::features::Plan>(
              detail::features::plan(source, graph, weights, from, options))) {}

    [[nodiscard]] SourceInfo info() const { return plan_->info; }
    [[nodiscard]] std::unique_ptr<SampleReader> open() const {
        return std::make_unique<Reader>(plan_);
    }
    /// None; throws where a test of the source has rectangles in `epoch`.
    [[nodiscard]] std::vector<SampleView> views(ImageShape, int epoch, int) const {
        detail::features::expect_one_shape(*plan_, epoch);
        return {};
    }
    [[nodiscard]] std::int64_t largest_class() const { return plan_->source.largest_class(); }
    [[nodiscard]] bool mixes() const { return plan_->source.mixes(); }
    /// Of the source's images and the prefix: a run does not go on over features of other weights.
    [[nodiscard]] std::uint64_t content() const { return detail::features::content(*plan_); }

private:
    class Reader final : public SampleReader {
    public:
        explicit Reader(std::shared_ptr<const detail::features::Plan> plan)
            : plan_(std::move(plan)),
              reader_(*plan_),
              prefix_(plan_->prefix, plan_->weights, plan_->options) {}
        void read(std::span<const std::uint32_t> indices, std::span<Sample> out) override {
            reader_.read(indices, out, [&](const Batch& batch) { return prefix_.logits(batch); });
        }
        void begin_epoch(int epoch) override { reader_.begin_epoch(epoch); }

    private:
        std::shared_ptr<const detail::features::Plan> plan_;
        detail::features::BatchedReader reader_;
        Evaluator<D> prefix_;
    };

    std::shared_ptr<const detail::features::Plan> plan_;
};

/// All samples of a source of features, read once and kept; models Source.
/// Errors: as the source; gx::Error for a source that mixes, whose images differ in each epoch.
/// Cost:   4 bytes a number, in one pass.
class CachedFeatures {
public:
    GX_DECL explicit CachedFeatures(const SourceRef& features);

    [[nodiscard]] SourceInfo info() const { return info_; }
    [[nodiscard]] GX_DECL std::unique_ptr<SampleReader> open() const;
    [[nodiscard]] std::int64_t largest_class() const { return largest_class_; }
    /// Of the numbers: a run that began on Features does not go on over cached ones, nor the other
    /// way round, as their images may differ from the second epoch on.
    [[nodiscard]] std::uint64_t content() const { return content_; }
    /// Shapes: (count, C, H, W).
    [[nodiscard]] std::span<const float> values() const { return values_; }

private:
    class Reader;
    SourceInfo info_;
    std::int64_t largest_class_;
    std::vector<float> values_{};
    std::vector<std::int32_t> labels_{};
    std::uint64_t content_ = 0;
};

/// The weights of `graph` with those of a head of it in their place, by name.
/// Errors: gx::Error naming a tensor of the head that the network has not, or has in another shape.
[[nodiscard]] GX_DECL Weights with_head(const Graph& graph, Weights weights, const Graph& head,
                                        const Weights& trained);

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/impl/features.ipp>
#endif
