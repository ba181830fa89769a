// RecipeDecoder<Recipe>: a recipe as the decoder of an encoded source's samples.
#pragma once

#include <concepts>  // same_as
#include <cstddef>   // size_t
#include <cstdint>   // uint8_t
#include <span>      // pixels
#include <string>    // places
#include <utility>   // move
#include <vector>    // one image

#include <gx/core/error.hpp>                // Error
#include <gx/image/codec/crop_decoder.hpp>  // CropDecoder
#include <gx/image/codec/options.hpp>       // DecodeOptions
#include <gx/image/rectangular.hpp>         // rectangular_batches
#include <gx/loader/decoded.hpp>            // Decoded, SampleKey
#include <gx/model/graph.hpp>               // ImageShape
#include <gx/reflect/hash_fields.hpp>       // hash_fields

namespace gx {

/// A recipe of validation that says whether its images are tested in rectangles from an epoch on.
template <class Recipe>
concept MayBeRectangular = requires(const Recipe& r) {
    { r.rectangular(int{}) } -> std::same_as<bool>;
};

/// Decodes samples by a recipe, ImageRecipe, CentreRecipe or ByEpoch; models ResizesImages, and
/// VariesShapes with a recipe that may be rectangular.
///
///     using Train = ImageRecipe<RandomResizedCrop, ColourJitter>;
///     const Decoded train(ImageFolder("train"), RecipeDecoder(Train({.seed = 7})),
///                         {.workers = 8});
///
/// Shapes: a recipe works on (H, W, 3), as the decoders and their vector loops have it; decode()
///         writes planes (3, H, W), which is what a Source and the loaders hand on.
/// Errors: as CropDecoder.
/// Order:  pixels depend on file, recipe, epoch and sample alone.
/// Cost:   the recipe, one pass from (H, W, 3) to planes, and memory for one image.
template <class Recipe>
class RecipeDecoder {
public:
    explicit RecipeDecoder(Recipe recipe, const DecodeOptions& options = {})
        : recipe_(std::move(recipe)), options_(options), decoder_(options) {}
    RecipeDecoder(const RecipeDecoder& d) : RecipeDecoder(d.recipe_, d.options_) {}
    RecipeDecoder(RecipeDecoder&&) noexcept = default;

    [[nodiscard]] ImageShape shape() const {
        const ImageSize to = recipe_.to();
        return {3, to.height, to.width};
    }
    /// Of the recipe, and of those options of decoding that change pixels.
    [[nodiscard]] std::uint64_t hash() const
        requires requires(const Recipe& r) { r.hash(); }
    {
        return hash_fields(hash_fields(recipe_.hash(), options_.orient), options_.damage);
    }
    [[nodiscard]] RecipeDecoder resized(ImageShape shape) const {
        return RecipeDecoder(recipe_.resized({shape.width, shape.height}), options_);
    }
    [[nodiscard]] std::string flaw_at(ImageShape shape) const {
        const ImageSize to = recipe_.to();
        if (shape.width != shape.height || to.width == to.height) return "";
        return "its recipe shows images of " + std::to_string(to.width) + " x " +
               std::to_string(to.height) +
               " (width x height), and a phase has square ones: give the recipe's `to` two equal "
               "sides, or train without phases";
    }

    // ---- Rectangular validation ------------------------------------------------------------
    [[nodiscard]] bool varies(int epoch) const
        requires MayBeRectangular<Recipe>
    {
        return recipe_.rectangular(epoch);
    }
    [[nodiscard]] ImageShape size_of(const EncodedSample& s) {
        const ImageSize size = decoder_.open(s.bytes, to_string(s.where));
        return {3, size.height, size.width};
    }
    /// Errors: gx::Error for a shape that is not square, or below 8 pixels, and for a sample of
    ///         which one side is more than 100 times the other: so would a whole batch be.
    [[nodiscard]] std::vector<SampleView> views(std::span<const ImageShape> sizes, ImageShape shape,
                                                int batch) const {
        if (shape.width != shape.height || shape.height < 8)
            throw Error("gx: rectangular validation about images of " +
                        std::to_string(shape.width) + " x " + std::to_string(shape.height) +
                        ": expected a square of at least 8 x 8. Set the recipe's `to`, or the "
                        "phase's image_side.");
        std::vector<ImageSize> flat;
        for (const ImageShape& s : sizes) {
            expect_aspect(s, flat.size());
            flat.push_back({s.width, s.height});
        }
        std::vector<SampleView> out;
        for (RectangularBatch& b : rectangular_batches(flat, batch, shape.height))
            out.push_back({std::move(b.samples), {3, b.to.height, b.to.width}});
        return out;
    }

    void decode(const EncodedSample& s, const SampleKey& key, std::span<std::uint8_t> out) {
        interleaved_.resize(out.size());
        recipe_(decoder_, s.bytes, to_string(s.where), key.epoch, key.sample, interleaved_.data());
        const std::size_t plane = out.size() / 3;
        for (std::size_t i = 0; i < plane; ++i)
            for (std::size_t c = 0; c < 3; ++c) out[c * plane + i] = interleaved_[3 * i + c];
    }

private:
    static void expect_aspect(const ImageShape& s, std::size_t sample) {
        constexpr std::int64_t most = 100;
        if (s.width <= most * s.height && s.height <= most * s.width) return;
        throw Error("gx: rectangular validation: sample " + std::to_string(sample) +
                    " is an image of " + std::to_string(s.width) + " x " +
                    std::to_string(s.height) +
                    " (width x height), and its batch would have its aspect: remove the image, or "
                    "test square ones");
    }

    Recipe recipe_;
    DecodeOptions options_;
    CropDecoder decoder_;
    std::vector<std::uint8_t> interleaved_{};  // (H, W, 3)
};

}  // namespace gx
