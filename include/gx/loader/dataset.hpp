// Dataset: labelled 8-bit images in memory, with the mean and deviation for normalisation.
#pragma once

#include <cstdint>  // uint8_t
#include <memory>   // unique_ptr
#include <string>   // name
#include <vector>   // pixels

#include <gx/core/cold.hpp>      // GX_COLD
#include <gx/core/decl.hpp>      // GX_DECL
#include <gx/loader/source.hpp>  // Source, SourceInfo, SampleReader
#include <gx/model/graph.hpp>    // ImageShape

namespace gx {

/// Labelled images in memory; models Source.
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
    std::vector<std::string> class_names{};  ///< one a class, or none where they are not known

    [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(labels.size()); }
    [[nodiscard]] SourceInfo info() const;
    /// A reader whose samples lie in this data set.
    [[nodiscard]] GX_DECL std::unique_ptr<SampleReader> open() const;
    GX_COLD [[nodiscard]] GX_DECL std::string flaw() const;
    [[nodiscard]] GX_DECL std::int64_t largest_class() const;
    /// That of a RecordFile of these images.
    [[nodiscard]] GX_DECL std::uint64_t content() const;
};
static_assert(explain_source<Dataset>());

/// What is wrong with `data`, as a sentence without its period that names the image or the channel;
/// empty if it is whole: an image for each label, labels below classes, a finite mean and a
/// deviation above 0 for each channel.
GX_COLD [[nodiscard]] GX_DECL std::string flaw(const Dataset& data);

/// Returns `data` if it is whole. Errors: gx::Error with its name and its flaw.
GX_DECL const Dataset& validated(const Dataset& data);

/// Training set and test set.
struct Split {
    Dataset train{}, test{};
};

/// Sets mean and deviation of `data` to those of the pixels of `from`, channel by channel. Test
/// images are normalised as the training images were. A channel of one value gets deviation 1.
/// Order: sums are whole numbers, so the result is exact whatever the order.
GX_DECL void normalise_as(Dataset& data, const Dataset& from);

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/loader/impl/dataset.ipp>
#endif
