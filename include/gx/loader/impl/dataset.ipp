// flaw, validated: checks of data sets; normalise_as.
#pragma once

#include <algorithm>  // find_if, max_element
#include <cstddef>    // size_t
#include <string>     // sentences
#include <vector>     // sums

#include <fmt/core.h>  // sentences

#include <gx/core/contract.hpp>             // GX_EXPECT
#include <gx/core/error.hpp>                // Error
#include <gx/loader/dataset.hpp>            // Dataset
#include <gx/loader/detail/pixel_sums.hpp>  // PixelSums

namespace gx {

GX_DECL std::string flaw(const Dataset& data) {
    const auto& [channels, height, width] = data.shape;
    if (channels < 1 || height < 1 || width < 1)
        return fmt::format(
            "images of {} x {} x {}: an image needs at least one channel, row and column", channels,
            height, width);
    // In double, because a shape given by hand may overflow.
    const double expected = double(data.labels.size()) * channels * height * width;
    if (double(data.pixels.size()) != expected)
        return fmt::format(
            "{} labels of images of {} x {} x {} need {:.0f} pixels, and there are {}: give one "
            "image for each label",
            data.labels.size(), channels, height, width, expected, data.pixels.size());
    const auto bad = std::ranges::find_if(data.labels, [&](int l) { return l >= data.classes; });
    if (bad != data.labels.end())
        return fmt::format(
            "the label of image {} is {}, and labels of {} classes are 0 to {}: correct the label "
            "or the number of classes",
            bad - data.labels.begin(), *bad, data.classes, data.classes - 1);
    return flaw(data.info());
}

GX_DECL const Dataset& validated(const Dataset& data) {
    const std::string sentence = flaw(data);
    if (!sentence.empty()) throw Error(fmt::format("gx: data set '{}': {}", data.name, sentence));
    return data;
}

namespace detail::loader {

class DatasetReader final : public SampleReader {
public:
    explicit DatasetReader(const Dataset& data) : data_(data) {}
    void read(std::span<const std::uint32_t> indices, std::span<Sample> out) override {
        const auto elements = static_cast<std::size_t>(data_.shape.elements());
        for (std::size_t i = 0; i < indices.size(); ++i)
            out[i] = {&data_.pixels[indices[i] * elements], data_.labels[indices[i]], data_.shape};
    }

private:
    const Dataset& data_;
};

}  // namespace detail::loader

GX_DECL std::unique_ptr<SampleReader> Dataset::open() const {
    return std::make_unique<detail::loader::DatasetReader>(*this);
}
GX_DECL std::string Dataset::flaw() const { return gx::flaw(*this); }
GX_DECL std::int64_t Dataset::largest_class() const {
    if (labels.empty()) return 0;
    std::vector<std::int64_t> counts(256, 0);
    for (const std::uint8_t label : labels) ++counts[label];
    return *std::ranges::max_element(counts);
}

GX_DECL std::uint64_t Dataset::content() const {
    const auto elements = static_cast<std::size_t>(shape.elements());
    std::vector<std::uint8_t> record(2 + elements);
    ContentHash hash;
    for (std::size_t i = 0; i < labels.size(); ++i) {
        record[0] = labels[i];
        std::copy_n(&pixels[i * elements], elements, &record[2]);
        hash.add(record);
    }
    return hash.value();
}

GX_DECL void normalise_as(Dataset& data, const Dataset& from) {
    GX_EXPECT(data.shape.channels == from.shape.channels, "both sets have the same channels");
    detail::loader::PixelSums sums(from.shape);
    const auto elements = static_cast<std::size_t>(from.shape.elements());
    for (std::size_t first = 0; first < from.pixels.size(); first += elements)
        sums.add(&from.pixels[first]);
    sums.set(data.mean, data.deviation);
}

GX_DECL SourceInfo Dataset::info() const {
    return {.name = name,
            .count = count(),
            .shape = shape,
            .classes = classes,
            .mean = mean,
            .deviation = deviation,
            .class_names = class_names};
}

}  // namespace gx
