// Flaws and descriptions of sources.
#pragma once

#include <cmath>  // isfinite

#include <fmt/core.h>  // sentences

#include <gx/core/contract.hpp>   // GX_EXPECT
#include <gx/core/error.hpp>      // Error
#include <gx/core/hash.hpp>       // mix64
#include <gx/core/hash_bits.hpp>  // hash_bytes
#include <gx/loader/source.hpp>   // the declarations

namespace gx {

GX_DECL std::string flaw(const SourceInfo& info) {
    const auto& [channels, height, width] = info.shape;
    if (channels < 1 || height < 1 || width < 1)
        return fmt::format(
            "images of {} x {} x {}: an image needs at least one channel, row and column", channels,
            height, width);
    if (info.count < 0) return fmt::format("count is {}: it is 0 or more", info.count);
    if (std::ssize(info.mean) != channels || std::ssize(info.deviation) != channels)
        return fmt::format(
            "mean has {} values and deviation {}, and images have {} channels: set both by "
            "normalise_as",
            info.mean.size(), info.deviation.size(), channels);
    for (std::size_t c = 0; c < info.mean.size(); ++c) {
        if (!std::isfinite(info.mean[c]))
            return fmt::format("mean of channel {} is {}: it is finite", c, info.mean[c]);
        if (!(info.deviation[c] > 0) || !std::isfinite(info.deviation[c]))
            return fmt::format("deviation of channel {} is {}: it is above 0 and finite", c,
                               info.deviation[c]);
    }
    if (!info.class_names.empty() && std::ssize(info.class_names) != info.classes)
        return fmt::format("{} names of {} classes: name all of them or none",
                           info.class_names.size(), info.classes);
    return "";
}

GX_DECL void ContentHash::add(std::span<const std::uint8_t> record) {
    value_ = mix64(value_ ^ hash_bytes(std::as_bytes(record)));
}

GX_DECL std::string describe(const SourceInfo& info) {
    return fmt::format("'{}': {} images of {} x {} x {} in {} classes", info.name, info.count,
                       info.shape.channels, info.shape.height, info.shape.width, info.classes);
}

namespace detail::source {

GX_DECL void expect_samples(const SourceInfo& info, std::span<const std::uint32_t> indices,
                            std::span<const Sample> samples) {
    for (std::size_t i = 0; i < samples.size(); ++i) {
        const Sample& s = samples[i];
        if (s.pixels == nullptr && s.values == nullptr)
            throw Error(fmt::format(
                "gx: data set '{}': sample {} has neither pixels nor values: correct the source",
                info.name, indices[i]));
        if (s.pixels != nullptr && s.values != nullptr)
            throw Error(fmt::format(
                "gx: data set '{}': sample {} has both pixels and values: give one of them, and "
                "nullptr for the other",
                info.name, indices[i]));
        if (s.shape != info.shape)
            throw Error(fmt::format(
                "gx: data set '{}': sample {} is an image of {} x {} x {}, and the source has "
                "images of {} x {} x {}: give all samples the shape of SourceInfo::shape",
                info.name, indices[i], s.shape.channels, s.shape.height, s.shape.width,
                info.shape.channels, info.shape.height, info.shape.width));
        if (s.label < 0 || s.label >= info.classes)
            throw Error(fmt::format(
                "gx: data set '{}': sample {} has label {}, and labels of {} classes are 0 to {}: "
                "correct the label or the number of classes",
                info.name, indices[i], s.label, info.classes, info.classes - 1));
        if (s.second.label < 0 || s.second.label >= info.classes ||
            !(s.second.share >= 0 && s.second.share <= 1))
            throw Error(fmt::format(
                "gx: data set '{}': sample {} has a second label {} with a share of {}, and labels "
                "of {} classes are 0 to {}, with shares of 0 to 1: correct the source",
                info.name, indices[i], s.second.label, s.second.share, info.classes,
                info.classes - 1));
    }
}

inline std::unique_ptr<SampleReader> expect_reader(std::unique_ptr<SampleReader> reader,
                                                   const SourceRef& of) {
    if (reader) return reader;
    throw Error(fmt::format("gx: data set '{}': its open() has returned no reader (a null pointer)",
                            of.info().name));
}

}  // namespace detail::source

GX_DECL std::unique_ptr<SampleReader> SourceRef::open() const {
    const std::string sentence = flaw();
    if (!sentence.empty()) throw Error(fmt::format("gx: data set '{}': {}", info().name, sentence));
    return detail::source::expect_reader(functions_->open(source_), *this);
}
GX_DECL std::unique_ptr<SampleReader> SourceRef::open_at(ImageShape shape) const {
    std::string sentence = flaw();
    if (sentence.empty()) sentence = flaw_at(shape);
    if (!sentence.empty()) throw Error(fmt::format("gx: data set '{}': {}", info().name, sentence));
    GX_EXPECT(has_sizes(), "this source shows its samples in one shape: ask has_sizes() first");
    return detail::source::expect_reader(functions_->open_at(source_, shape), *this);
}

}  // namespace gx
