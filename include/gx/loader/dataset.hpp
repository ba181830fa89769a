// Dataset: labelled 8-bit images in memory, with the mean and deviation for normalisation.
#pragma once

#include <cmath>    // sqrt
#include <cstdint>  // uint8_t
#include <string>   // name
#include <vector>   // pixels

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/core/decl.hpp>      // GX_DECL
#include <gx/model/graph.hpp>    // ImageShape

namespace gx {

/// Labelled images.
/// Shapes: pixels (count, C, H, W) row-major; labels (count), each below classes;
///         mean and deviation (C), of pixels scaled to 0 ... 1. A loader hands out
///         (pixel / 255 - mean) / deviation.
struct Dataset {
    std::string name{};
    ImageShape shape{};
    int classes = 0;
    std::vector<std::uint8_t> pixels{};
    std::vector<std::uint8_t> labels{};
    std::vector<float> mean{};
    std::vector<float> deviation{};

    [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(labels.size()); }
};

/// What is wrong with `data`, as a sentence without its period that names the image or the channel;
/// empty if it is whole: an image for each label, labels below classes, a finite mean and a
/// deviation above 0 for each channel.
[[nodiscard]] GX_DECL std::string flaw(const Dataset& data);

/// Returns `data` if it is whole. Errors: gx::Error with its name and its flaw.
GX_DECL const Dataset& validated(const Dataset& data);

/// Training set and test set.
struct Split {
    Dataset train{}, test{};
};

/// Sets mean and deviation of `data` to those of the pixels of `from`, channel by channel. Test
/// images are normalised as the training images were. A channel of one value gets deviation 1.
/// Order: sums are whole numbers, so the result is exact whatever the order.
inline void normalise_as(Dataset& data, const Dataset& from) {
    GX_EXPECT(data.shape.channels == from.shape.channels, "both sets have the same channels");
    const auto channels = static_cast<std::size_t>(from.shape.channels);
    const auto plane = static_cast<std::size_t>(from.shape.height) * from.shape.width;
    std::vector<std::uint64_t> sum(channels), squares(channels);
    for (std::size_t first = 0, c = 0; first < from.pixels.size(); first += plane, ++c) {
        std::uint64_t plane_sum = 0, plane_squares = 0;
        for (std::size_t i = first; i < first + plane; ++i) {
            plane_sum += from.pixels[i];
            plane_squares += std::uint64_t{from.pixels[i]} * from.pixels[i];
        }
        sum[c % channels] += plane_sum;
        squares[c % channels] += plane_squares;
    }
    const auto n = static_cast<double>(from.count()) * static_cast<double>(plane);
    data.mean.resize(channels);
    data.deviation.resize(channels);
    for (std::size_t c = 0; c < channels; ++c) {
        const double mean = static_cast<double>(sum[c]) / n;
        const double variance = static_cast<double>(squares[c]) / n - mean * mean;
        data.mean[c] = static_cast<float>(mean / 255);
        data.deviation[c] = variance > 1e-9 ? static_cast<float>(std::sqrt(variance) / 255) : 1.0f;
    }
}

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/loader/impl/dataset.ipp>
#endif
