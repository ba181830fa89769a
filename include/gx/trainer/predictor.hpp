// Predictor<Model, Device>: a trained network from its file, which names the classes of images.
#pragma once

#include <algorithm>    // min
#include <array>        // shape
#include <cstdint>      // uint8_t
#include <filesystem>   // path
#include <span>         // pixels
#include <string>       // names
#include <string_view>  // names
#include <vector>       // logits

#include <gx/core/decl.hpp>                   // GX_DECL
#include <gx/core/device.hpp>                 // Batch
#include <gx/loader/detail/pixel_values.hpp>  // PixelValues, decode
#include <gx/loader/source.hpp>               // SourceRef
#include <gx/model/concept.hpp>               // graph
#include <gx/trainer/checkpoint.hpp>          // InputFormat
#include <gx/trainer/evaluator.hpp>           // Evaluator
#include <gx/trainer/weights.hpp>             // Weights

namespace gx {

struct PredictorOptions {
    int batch = 16;        ///< images that the device computes at once
    int gpu = 0;           ///< number of the GPU, where the device computes on one
    InputFormat format{};  ///< in place of the file's; parts that are empty are the file's
};

/// One class of an image.
struct Prediction {
    int label = 0;
    std::string name{};      ///< of the class; its number where classes have no names
    double probability = 0;  ///< softmax of the logits
    bool operator==(const Prediction&) const = default;
};

/// The `k` classes with the largest logits, the largest first; all of them if there are fewer.
/// Order: of equal logits the smaller label first.
[[nodiscard]] GX_DECL std::vector<Prediction> top_of(std::span<const float> logits, int k,
                                                     const std::vector<std::string>& names);

/// A model as a value, for programs that choose one while they run: any_model<ResNet50>.
struct AnyModel {
    std::string_view name;
    Graph (*graph)(const GraphOptions&);
    GraphTrouble (*trouble)(const GraphOptions&);
};
template <class M>
inline constexpr AnyModel any_model{M::name, &graph<M>, &trouble<M>};

namespace detail::predictor {

/// A network, its weights and its images, from a file; the part that knows no device.
class Trained {
public:
    GX_DECL Trained(const AnyModel& model, const std::filesystem::path& file,
                    PredictorOptions options);

    Graph graph{};
    Weights weights{};
    InputFormat format{};
    int batch = 0;

    /// Normalises up to `batch` images. Shapes: pixels (count, C, H, W). Errors: gx::Error for a
    /// number of pixels that is no number of images.
    GX_DECL Batch load(std::span<const std::uint8_t> pixels);
    GX_DECL Batch load(SampleReader& reader, std::int64_t first, std::int64_t count);
    [[nodiscard]] std::size_t image_bytes() const { return std::size_t(graph.input.elements()); }
    GX_DECL void expect_images(std::size_t pixels) const;
    GX_DECL void expect_image(std::size_t pixels) const;
    GX_DECL void expect_shape(const SourceInfo& info) const;
    GX_DECL void expect_finite(std::span<const float> logits) const;

private:
    detail::loader::PixelValues values_{};
    std::vector<float> images_{};
    std::vector<std::int32_t> labels_{};
};

}  // namespace detail::predictor

/// Computes the logits of images with the weights of a file: a checkpoint of a Trainer, or weights
/// of torchvision (read_weights). The file says which images the network was trained on, how they
/// were normalised and what its classes are called; what it lacks, `options.format` gives.
///
///     Predictor<ResNet50, onednn::Device> predictor("out/epoch-0090.safetensors");
///     for (const Prediction& p : predictor.top(pixels, 5)) ...
///     Predictor<ResNet50, cuda::Device> on_gpu(file, {.batch = 256, .gpu = 1});
///
/// Shapes: images are 8-bit (C, H, W) row-major, of format().shape, one behind another.
/// Errors: gx::Error naming the file and what it lacks; weights of another network (read_weights);
///         a format that the network does not take, or by which nothing can be normalised; images
///         of another shape, and more than one for top(); logits that are not finite.
/// Order:  logits do not depend on the other images of a batch, on their number as the device's
///         bits do: onednn::Device chooses kernels by it. Equal files, images and batches, equal
///         bits on one device.
/// Cost:   the network's weights and one batch of activations. Allocates what it returns.
template <class M, class D>
class Predictor {
    static_assert(explain_model<M>());

public:
    explicit Predictor(const std::filesystem::path& file, const PredictorOptions& options = {})
        : Predictor(any_model<M>, file, options) {}
    /// Of a network that is chosen while the program runs; M is then any.
    Predictor(const AnyModel& model, const std::filesystem::path& file,
              const PredictorOptions& options)
        : trained_(model, file, options),
          network_(trained_.graph, trained_.weights,
                   {.batch = trained_.batch, .gpu = options.gpu}) {
        trained_.weights = {};
    }

    [[nodiscard]] const InputFormat& format() const { return trained_.format; }

    /// Shapes: returns (count, classes), row-major, for one image or more.
    [[nodiscard]] std::vector<float> logits(std::span<const std::uint8_t> images) {
        trained_.expect_images(images.size());
        std::vector<float> all;
        const std::size_t bytes = trained_.image_bytes() * std::size_t(trained_.batch);
        for (std::size_t done = 0; done < images.size(); done += bytes)
            append(all, trained_.load(images.subspan(done, std::min(bytes, images.size() - done))));
        return all;
    }
    /// Of every sample of a source, such as a folder of images, in its order.
    [[nodiscard]] std::vector<float> logits_of(const SourceRef& source) {
        const SourceInfo info = source.info();
        trained_.expect_shape(info);
        const auto reader = source.open();
        std::vector<float> all;
        for (std::int64_t done = 0; done < info.count; done += trained_.batch)
            append(all, trained_.load(*reader, done,
                                      std::min<std::int64_t>(trained_.batch, info.count - done)));
        return all;
    }
    /// The most likely classes of one image.
    [[nodiscard]] std::vector<Prediction> top(std::span<const std::uint8_t> image, int k) {
        trained_.expect_image(image.size());
        return top_of(logits(image), k, format().class_names);
    }

private:
    void append(std::vector<float>& all, const Batch& batch) {
        const std::vector<float> some = network_.logits(batch);
        trained_.expect_finite(some);
        all.insert(all.end(), some.begin(), some.end());
    }

    detail::predictor::Trained trained_;
    Evaluator<D> network_;
};

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/trainer/impl/predictor.ipp>
#endif
