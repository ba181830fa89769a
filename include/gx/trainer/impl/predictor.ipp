// Bodies of predictor.hpp.
#pragma once

#include <algorithm>  // partial_sort, copy
#include <cmath>      // exp, isfinite
#include <numeric>    // iota

#include <fmt/format.h>  // sentences

#include <gx/core/contract.hpp>  // GX_EXPECT
#include <gx/core/error.hpp>     // Error
#include <gx/trainer/predictor.hpp>
#include <gx/trainer/safetensors.hpp>  // metadata
#include <gx/trainer/setup.hpp>        // misfit

namespace gx {

GX_DECL std::vector<Prediction> top_of(std::span<const float> logits, int k,
                                       const std::vector<std::string>& names) {
    GX_EXPECT(k > 0, "top_of: at least one class");
    std::vector<int> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    const auto end = order.begin() + std::min<std::ptrdiff_t>(k, std::ssize(order));
    const auto logit = [&](int label) { return logits[std::size_t(label)]; };
    std::partial_sort(order.begin(), end, order.end(), [&](int a, int b) {
        return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
    });
    double sum = 0;
    for (const float x : logits) sum += std::exp(double{x} - logit(order[0]));
    std::vector<Prediction> all;
    for (auto label = order.begin(); label != end; ++label)
        all.push_back({*label, names.empty() ? std::to_string(*label) : names[std::size_t(*label)],
                       std::exp(double{logit(*label)} - logit(order[0])) / sum});
    return all;
}

namespace detail::predictor {

/// The format that the file and the options give together.
GX_DECL InputFormat complete_format(const std::filesystem::path& file, const InputFormat& given) {
    InputFormat f = read_input_format(file);
    if (given.shape[0] > 0) f.shape = given.shape;
    if (!given.mean.empty()) f.mean = given.mean;
    if (!given.deviation.empty()) f.deviation = given.deviation;
    if (given.classes > 0) f.classes = given.classes;
    if (!given.class_names.empty()) f.class_names = given.class_names;
    if (f.classes == 0) f.classes = static_cast<int>(f.class_names.size());
    std::string lacking;
    const auto expect = [&](bool there, const char* what) {
        if (!there) lacking += (lacking.empty() ? "" : ", ") + std::string(what);
    };
    expect(f.shape[0] > 0, "the shape of an image");
    expect(!f.mean.empty() && !f.deviation.empty(), "mean and deviation of the channels");
    expect(f.classes > 0, "the number of classes");
    if (!lacking.empty())
        throw Error(fmt::format(
            "file '{}' lacks {}: it is older than these fields, or not a checkpoint of gx. Give "
            "them in PredictorOptions::format; gx_classify takes --imagenet and --classes",
            file.string(), lacking));
    if (!f.class_names.empty() && std::ssize(f.class_names) != f.classes)
        throw Error(fmt::format("file '{}': {} names of {} classes: name all of them or none",
                                file.string(), f.class_names.size(), f.classes));
    const auto channels = std::size_t(f.shape[0]);
    if (f.mean.size() != channels || f.deviation.size() != channels)
        throw Error(
            fmt::format("file '{}': {} means and {} deviations for {} channels: give one "
                        "for each",
                        file.string(), f.mean.size(), f.deviation.size(), channels));
    if (f.classes < 2)
        throw Error(fmt::format("file '{}': {} classes: a network names one of at least 2",
                                file.string(), f.classes));
    const std::string sentence = flaw(SourceInfo{.shape = {f.shape[0], f.shape[1], f.shape[2]},
                                                 .classes = f.classes,
                                                 .mean = f.mean,
                                                 .deviation = f.deviation});
    if (!sentence.empty()) throw Error(fmt::format("file '{}': {}", file.string(), sentence));
    return f;
}

GX_DECL Trained::Trained(const AnyModel& model, const std::filesystem::path& file,
                         PredictorOptions options)
    : format(complete_format(file, options.format)), batch(options.batch) {
    GX_EXPECT(batch > 0, "a predictor computes at least one image at once");
    if (const std::string written = read_model_name(file);
        !written.empty() && written != model.name)
        throw Error(
            fmt::format("file '{}' is of model '{}', and the Predictor's is '{}'. Use the "
                        "model that wrote it{}",
                        file.string(), written, model.name,
                        older_model_note(written, model.name, "predict with that gx")));
    const ImageShape input{format.shape[0], format.shape[1], format.shape[2]};
    if (const std::string sentence = trainer::misfit(model.name, model.trouble, input);
        !sentence.empty())
        throw Error(fmt::format("file '{}': {}", file.string(), sentence));
    graph = model.graph({.input = input, .classes = format.classes});
    weights = read_weights(file, graph);
    values_ = loader::PixelValues({.mean = format.mean, .deviation = format.deviation});
    images_.resize(std::size_t(batch) * image_bytes());
    labels_.resize(std::size_t(batch));
}

GX_DECL void Trained::expect_image(std::size_t pixels) const {
    if (pixels == image_bytes()) return;
    throw Error(
        fmt::format("{} pixels are no image of {} x {} x {}, on which network '{}' was "
                    "trained. Resize the image",
                    pixels, format.shape[0], format.shape[1], format.shape[2], graph.name.view()));
}
GX_DECL void Trained::expect_images(std::size_t pixels) const {
    if (pixels > 0 && pixels % image_bytes() == 0) return;
    throw Error(
        fmt::format("{} pixels are no number of images of {} x {} x {}, on which network "
                    "'{}' was trained. Resize the image",
                    pixels, format.shape[0], format.shape[1], format.shape[2], graph.name.view()));
}
GX_DECL void Trained::expect_shape(const SourceInfo& info) const {
    if (info.shape == graph.input) return;
    throw Error(
        fmt::format("data set '{}' has images of {} x {} x {}, and network '{}' was trained "
                    "on {} x {} x {}. Decode them to that size",
                    info.name, info.shape.channels, info.shape.height, info.shape.width,
                    graph.name.view(), format.shape[0], format.shape[1], format.shape[2]));
}

GX_DECL void Trained::expect_finite(std::span<const float> logits) const {
    for (std::size_t i = 0; i < logits.size(); ++i)
        if (!std::isfinite(logits[i]))
            throw Error(fmt::format(
                "network '{}': the logit of class {} is {}, and a finite number was expected. Its "
                "weights are of a run that diverged; take others",
                graph.name.view(), i % std::size_t(graph.classes), logits[i]));
}

GX_DECL Batch Trained::load(std::span<const std::uint8_t> pixels) {
    const std::size_t count = pixels.size() / image_bytes();
    for (std::size_t i = 0; i < count; ++i)
        loader::decode(&pixels[i * image_bytes()], &images_[i * image_bytes()], graph.input, View{},
                       values_);
    return {.images = std::span(images_).first(pixels.size()),
            .labels = std::span(labels_).first(count),
            .count = static_cast<int>(count)};
}
GX_DECL Batch Trained::load(SampleReader& reader, std::int64_t first, std::int64_t count) {
    std::vector<std::uint32_t> indices(static_cast<std::size_t>(count));
    std::iota(indices.begin(), indices.end(), std::uint32_t(first));
    std::vector<Sample> samples(indices.size());
    reader.read(indices, samples);
    std::vector<std::uint8_t> pixels;
    for (const Sample& s : samples) {
        if (s.shape != graph.input || !s.pixels)
            throw Error("a sample of the source is no image of its shape. Mend the source.");
        pixels.insert(pixels.end(), s.pixels, s.pixels + image_bytes());
    }
    return load(pixels);
}

}  // namespace detail::predictor

}  // namespace gx
