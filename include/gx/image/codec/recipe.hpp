// ImageRecipe<Crop, Changes...>, CentreRecipe: a sample's image, from its file to its pixels.
#pragma once

#include <cstdint>      // uint8_t
#include <span>         // bytes
#include <string_view>  // names
#include <tuple>        // changes

#include <gx/core/contract.hpp>             // GX_EXPECT
#include <gx/image/codec/crop_decoder.hpp>  // CropDecoder
#include <gx/image/colour.hpp>              // PixelAugmentation
#include <gx/image/crop.hpp>                // ImageCrop, centre_box, mirrored

namespace gx {

/// Crop, mirror, resize, then the changes of pixels in their order.
///
///     const ImageRecipe<RandomResizedCrop, HslJitter, PcaNoise> mxnet({.seed = 7});
///     mxnet(decoder, bytes, where, epoch, sample, out);
///
/// Sizes and areas that change from phase to phase are those of a recipe for each phase.
///
/// Errors: as CropDecoder.
/// Order:  the pixels depend on file, options, epoch and sample alone: not on workers or ranks.
template <ImageCrop Crop, PixelAugmentation... Changes>
class ImageRecipe {
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

private:
    Options options_;
};

/// What validation shows: the centre of the image, the same in each epoch.
///
///     const CentreRecipe imagenet({.to = {224, 224}, .shorter = 256});
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

private:
    Options options_;
};

}  // namespace gx
