// RecipeDecoder<Recipe>: a recipe as the decoder of an encoded source's samples.
#pragma once

#include <cstdint>  // uint8_t
#include <span>     // pixels
#include <string>   // places
#include <utility>  // move
#include <vector>   // one image

#include <gx/image/codec/crop_decoder.hpp>  // CropDecoder
#include <gx/image/codec/options.hpp>       // DecodeOptions
#include <gx/loader/decoded.hpp>            // Decoded, SampleKey
#include <gx/model/graph.hpp>               // ImageShape

namespace gx {

/// Decodes samples by an ImageRecipe; models SampleDecoder.
///
///     using Train = ImageRecipe<RandomResizedCrop, ColourJitter>;
///     const Decoded train(ImageFolder("train"), RecipeDecoder(Train({.seed = 7})),
///                         {.workers = 8});
///
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
        const ImageSize to = recipe_.options().to;
        return {3, to.height, to.width};
    }

    void decode(const EncodedSample& s, const SampleKey& key, std::span<std::uint8_t> out) {
        interleaved_.resize(out.size());
        recipe_(decoder_, s.bytes, to_string(s.where), key.epoch, key.sample, interleaved_.data());
        const std::size_t plane = out.size() / 3;
        for (std::size_t i = 0; i < plane; ++i)
            for (std::size_t c = 0; c < 3; ++c) out[c * plane + i] = interleaved_[3 * i + c];
    }

private:
    Recipe recipe_;
    DecodeOptions options_;
    CropDecoder decoder_;
    std::vector<std::uint8_t> interleaved_{};  // (H, W, 3)
};

}  // namespace gx
