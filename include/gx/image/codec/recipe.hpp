// ImageRecipe<Crop, Changes...>, CentreRecipe, ByEpoch: a sample's image, from its file to pixels.
#pragma once

#include <algorithm>    // min
#include <concepts>     // default_initializable
#include <cstddef>      // size_t
#include <cstdint>      // uint8_t
#include <span>         // bytes
#include <string>       // sentences
#include <string_view>  // names
#include <tuple>        // changes
#include <vector>       // recipes

#include <gx/core/contract.hpp>             // GX_EXPECT
#include <gx/core/error.hpp>                // Error
#include <gx/core/hash.hpp>                 // golden64, hash_name
#include <gx/image/codec/crop_decoder.hpp>  // CropDecoder
#include <gx/image/colour.hpp>              // PixelAugmentation
#include <gx/image/crop.hpp>                // ImageCrop, centre_box, mirrored
#include <gx/reflect/hash_fields.hpp>       // hash_fields

namespace gx {

/// Crop, mirror, resize, then the changes of pixels in their order.
///
///     const ImageRecipe<RandomResizedCrop, HslJitter, PcaNoise> mxnet({.seed = 7});
///     mxnet(decoder, bytes, where, epoch, sample, out);
///
/// In a run with phases the size is the phase's, in place of `to`; areas and changes that differ
/// from epoch to epoch are those of ByEpoch.
///
/// Errors: as CropDecoder.
/// Order:  the pixels depend on file, options, epoch and sample alone: not on workers or ranks.
template <ImageCrop Crop, PixelAugmentation... Changes>
class ImageRecipe {
    // Asked here, since g++ 12 fails internally where braces in a ByEpoch ask it first.
    static_assert(std::default_initializable<std::tuple<Changes...>>,
                  "gx: a change of an ImageRecipe has no default, which Options::changes needs. "
                  "Fix: give each of its members a default, as ColourJitter does.");

public:
    struct Options {
        ImageSize to{224, 224};
        Crop crop{};
        std::tuple<Changes...> changes{};
        bool flip = true;
        ResizeMode mode = ResizeMode::antialiased;
        double reducing_gap = 0;  ///< see CropOptions
        std::uint64_t seed = 0;
    };

    explicit ImageRecipe(const Options& options = {}) : options_(options) {}

    /// Shapes: out (to.height, to.width, 3).
    void operator()(CropDecoder& decoder, std::span<const std::uint8_t> bytes,
                    std::string_view where, int epoch, std::uint64_t sample,
                    std::uint8_t* out) const {
        const auto draws = [&](std::string_view stream) {
            return SampleDraws(options_.seed, stream, epoch, sample);
        };
        const ImageSize size = decoder.open(bytes, where);
        decoder.resize(options_.crop(size, draws(Crop::stream)), options_.to,
                       {.mode = options_.mode,
                        .mirrored = options_.flip && mirrored(options_.seed, epoch, sample),
                        .reducing_gap = options_.reducing_gap},
                       out);
        std::apply(
            [&](const auto&... change) { (change(out, options_.to, draws(change.stream)), ...); },
            options_.changes);
    }
    [[nodiscard]] const Options& options() const { return options_; }
    /// Of all options, the crop's and the changes' among them.
    [[nodiscard]] std::uint64_t hash() const { return hash_fields(golden64, options_); }
    [[nodiscard]] ImageSize to() const { return options_.to; }
    [[nodiscard]] ImageRecipe resized(ImageSize to) const {
        Options o = options_;
        o.to = to;
        if constexpr (requires { o.crop.to = to; }) o.crop.to = to;
        return ImageRecipe(o);
    }

private:
    Options options_;
};

/// What validation shows: the centre of the image, the same in each epoch.
///
///     const CentreRecipe imagenet({.to = {224, 224}, .shorter = 256});
///
/// In a run with phases the size is the phase's, and `shorter` changes in proportion, rounded down:
/// {.to = {100, 100}, .shorter = 114} is fast.ai's int(1.14 * side).
///
/// With `rectangular`, images keep more of what is beside the centre: they are tested in batches of
/// like aspect, each in the size of its mean (rectangular_batches); the network ends its
/// convolutions in a global pooling.
///
/// Errors: as CropDecoder.
/// Order:  the pixels of torchvision's Resize(shorter) and CenterCrop(to), within the rounding that
///         CropResize states; see centre_box.
class CentreRecipe {
public:
    struct Options {
        ImageSize to{224, 224};
        int shorter = 256;  ///< side that the image would be resized to, in pixels
        ResizeMode mode = ResizeMode::antialiased;
        bool rectangular = false;
    };

    CentreRecipe() : CentreRecipe(Options()) {}
    explicit CentreRecipe(const Options& options) : options_(options) {
        GX_EXPECT(options.shorter > 0, "CentreRecipe: the shorter side has a pixel at least");
    }

    /// Shapes: out (to.height, to.width, 3).
    void operator()(CropDecoder& decoder, std::span<const std::uint8_t> bytes,
                    std::string_view where, int, std::uint64_t, std::uint8_t* out) const {
        const ImageSize size = decoder.open(bytes, where);
        decoder.resize_box(centre_box(size, options_.shorter, options_.to), options_.to,
                           {.mode = options_.mode}, out);
    }
    [[nodiscard]] const Options& options() const { return options_; }
    [[nodiscard]] std::uint64_t hash() const {
        return hash_fields(hash_name("CentreRecipe"), options_);
    }
    [[nodiscard]] ImageSize to() const { return options_.to; }
    [[nodiscard]] CentreRecipe resized(ImageSize to) const {
        Options o = options_;
        const std::int64_t shorter = options_.shorter;
        o.shorter = static_cast<int>(std::max<std::int64_t>(
            1, shorter * std::min(to.width, to.height) / std::min(o.to.width, o.to.height)));
        o.to = to;
        return CentreRecipe(o);
    }
    [[nodiscard]] bool rectangular(int) const { return options_.rectangular; }

private:
    Options options_;
};

/// A recipe whose options change at given epochs: areas of crops, changes of pixels, rectangles.
///
///     const ByEpoch<ImageRecipe<RandomResizedCrop>> train(
///         {{0, {.crop = {.area_min = 0.35}}}, {25, {.crop = {.area_min = 0.5}}}});
///
/// Sizes are those of the run's phases, so that all parts have the same `to`.
/// Errors: gx::Error for no parts, a first one that does not begin at epoch 0, one that does not
///         begin later than the one before, and another `to`.
/// Source: min_scale and rect_val of the phases of imagenet-fast, fast.ai 2018.
template <class Recipe>
class ByEpoch {
public:
    struct From {
        int first_epoch = 0;
        typename Recipe::Options options{};
    };

    explicit ByEpoch(std::vector<From> parts) {
        if (parts.empty() || parts[0].first_epoch != 0)
            throw Error("gx: ByEpoch: the first recipe begins at epoch 0: give one that does");
        for (const From& p : parts) {
            const std::string name =
                "gx: ByEpoch: the recipe from epoch " + std::to_string(p.first_epoch);
            if (!parts_.empty() && p.first_epoch <= parts_.back().first_epoch)
                throw Error(name + " follows that from epoch " +
                            std::to_string(parts_.back().first_epoch) +
                            ": sort recipes by first_epoch");
            if (p.options.to != parts[0].options.to)
                throw Error(name + " has images of " + text(p.options.to) +
                            ", and the first one of " + text(parts[0].options.to) +
                            ": give all the same `to`; sizes are those of the Trainer's phases");
            parts_.push_back({p.first_epoch, Recipe(p.options)});
        }
    }

    /// As the recipe in force.
    void operator()(CropDecoder& decoder, std::span<const std::uint8_t> bytes,
                    std::string_view where, int epoch, std::uint64_t sample,
                    std::uint8_t* out) const {
        at(epoch)(decoder, bytes, where, epoch, sample, out);
    }
    [[nodiscard]] const Recipe& at(int epoch) const {
        std::size_t i = parts_.size() - 1;
        while (i > 0 && parts_[i].first_epoch > epoch) --i;
        return parts_[i].recipe;
    }
    /// Of all parts and their epochs; one part alone has the hash of its recipe.
    [[nodiscard]] std::uint64_t hash() const {
        std::uint64_t hash = parts_[0].recipe.hash();
        for (std::size_t i = 1; i < parts_.size(); ++i)
            hash = hash_fields(hash_fields(hash, parts_[i].first_epoch), parts_[i].recipe.hash());
        return hash;
    }
    [[nodiscard]] ImageSize to() const { return parts_[0].recipe.to(); }
    [[nodiscard]] ByEpoch resized(ImageSize to) const {
        ByEpoch out = *this;
        for (Part& p : out.parts_) p.recipe = p.recipe.resized(to);
        return out;
    }
    [[nodiscard]] bool rectangular(int epoch) const
        requires requires(const Recipe& r) { r.rectangular(int{}); }
    {
        return at(epoch).rectangular(epoch);
    }

private:
    struct Part {
        int first_epoch;
        Recipe recipe;
    };
    [[nodiscard]] static std::string text(ImageSize size) {
        return std::to_string(size.width) + " x " + std::to_string(size.height);
    }
    std::vector<Part> parts_{};
};

}  // namespace gx
