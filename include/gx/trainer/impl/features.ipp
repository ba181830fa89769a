// Bodies of features.hpp.
#pragma once

#include <algorithm>  // copy, find
#include <numeric>    // iota

#include <fmt/format.h>  // sentences

#include <gx/core/contract.hpp>   // GX_EXPECT
#include <gx/core/error.hpp>      // Error
#include <gx/core/hash.hpp>       // mix64
#include <gx/core/hash_bits.hpp>  // hash_bits
#include <gx/trainer/features.hpp>
#include <gx/trainer/setup.hpp>  // data_hash

namespace gx {

namespace detail::features {

GX_DECL Plan plan(const SourceRef& source, const Graph& graph, const Weights& weights,
                  std::string_view from, const EvaluatorOptions& options) {
    GX_EXPECT(options.batch > 0, "features are computed for at least one image at once");
    GX_EXPECT(std::ssize(weights.parameters) == graph.parameter_elements() &&
                  std::ssize(weights.statistics) == graph.statistic_elements(),
              "weights have as many numbers as the graph");
    const SourceInfo images = source.info();
    if (const std::string sentence = source.flaw(); !sentence.empty())
        throw Error("gx: data set '" + images.name + "': " + sentence);
    if (images.shape != graph.input)
        throw Error(fmt::format(
            "gx: data set '{}' has images of {} x {} x {}, and network '{}' was built for {} x {} "
            "x {}. Build its graph with GraphOptions::input of the data's shape",
            images.name, images.shape.channels, images.shape.height, images.shape.width,
            graph.name.view(), graph.input.channels, graph.input.height, graph.input.width));
    Plan p{
        .source = source, .images = images, .prefix = prefix_of(graph, from), .options = options};
    p.weights.parameters.assign(weights.parameters.begin(),
                                weights.parameters.begin() + p.prefix.parameter_elements());
    p.weights.statistics.assign(weights.statistics.begin(),
                                weights.statistics.begin() + p.prefix.statistic_elements());
    p.values = loader::PixelValues(images);
    p.info = images;
    const GraphCut cut = cut_before(graph, from);
    p.prefix_hash = mix64(mix64(std::uint64_t(cut.first) ^ hash_bits(p.weights.parameters)) ^
                          hash_bits(p.weights.statistics));
    p.info.shape = graph.tensors[std::size_t(cut.tensor)];
    p.info.name = images.name + " before " + std::string(from);
    p.info.mean.assign(std::size_t(p.info.shape.channels), 0.0f);
    p.info.deviation.assign(std::size_t(p.info.shape.channels), 1.0f);
    expect_one_shape(p, 0);
    return p;
}

GX_COLD GX_DECL void expect_one_shape(const Plan& plan, int epoch) {
    if (plan.source.views(plan.images.shape, epoch, plan.options.batch).empty()) return;
    throw Error(fmt::format(
        "gx: data set '{}' has rectangular images in epoch {}, and features have one shape: make "
        "them of square images, by a recipe with 'rectangular' set to false",
        plan.images.name, epoch));
}

GX_DECL std::uint64_t content(const Plan& plan) {
    const std::uint64_t images = trainer::data_hash(plan.source);
    return images == 0 ? 0 : mix64(images ^ plan.prefix_hash);
}

GX_DECL BatchedReader::BatchedReader(const Plan& plan)
    : plan_(plan),
      reader_(plan.source.open()),
      images_(std::size_t(plan.options.batch) * std::size_t(plan.prefix.input.elements())),
      labels_(std::size_t(plan.options.batch)) {}

GX_DECL Batch BatchedReader::load(std::span<const std::uint32_t> indices, std::span<Sample> out) {
    reader_->read(indices, out);
    source::expect_samples(plan_.images, indices, out);
    const ImageShape shape = plan_.prefix.input;
    const auto elements = std::size_t(shape.elements());
    for (std::size_t i = 0; i < out.size(); ++i)
        if (out[i].values) std::copy_n(out[i].values, elements, &images_[i * elements]);
        else loader::decode(out[i].pixels, &images_[i * elements], shape, View{}, plan_.values);
    return {.images = std::span(images_).first(out.size() * elements),
            .labels = std::span(labels_).first(out.size()),  // the loss is of no interest
            .count = static_cast<int>(out.size())};
}

}  // namespace detail::features

class CachedFeatures::Reader final : public SampleReader {
public:
    explicit Reader(const CachedFeatures& of) : of_(of) {}
    void read(std::span<const std::uint32_t> indices, std::span<Sample> out) override {
        const auto elements = std::size_t(of_.info_.shape.elements());
        for (std::size_t i = 0; i < indices.size(); ++i)
            out[i] = {.label = of_.labels_[indices[i]],
                      .shape = of_.info_.shape,
                      .values = &of_.values_[indices[i] * elements]};
    }

private:
    const CachedFeatures& of_;
};

GX_DECL CachedFeatures::CachedFeatures(const SourceRef& features)
    : info_(features.info()), largest_class_(features.largest_class()) {
    if (features.mixes())
        throw Error("gx: data set '" + info_.name +
                    "' mixes images, anew in each epoch, and CachedFeatures keeps those of one: "
                    "cache features of the source itself.");
    const auto elements = std::size_t(info_.shape.elements());
    values_.reserve(std::size_t(info_.count) * elements);
    const auto reader = features.open();
    constexpr std::int64_t at_once = 256;
    for (std::int64_t done = 0; done < info_.count; done += at_once) {
        std::vector<std::uint32_t> indices(std::size_t(std::min(at_once, info_.count - done)));
        std::iota(indices.begin(), indices.end(), std::uint32_t(done));
        std::vector<Sample> samples(indices.size());
        reader->read(indices, samples);
        detail::source::expect_samples(info_, indices, samples);
        for (const Sample& s : samples) {
            if (!s.values)
                throw Error("gx: data set '" + info_.name +
                            "' holds pixels, and CachedFeatures keeps numbers: give it Features.");
            values_.insert(values_.end(), s.values, s.values + elements);
            labels_.push_back(s.label);
            content_ = mix64(content_ ^ std::uint64_t(s.label));
        }
    }
    content_ = mix64(content_ ^ hash_bits(values_));
}

GX_DECL std::unique_ptr<SampleReader> CachedFeatures::open() const {
    return std::make_unique<Reader>(*this);
}

GX_DECL Weights with_head(const Graph& graph, Weights weights, const Graph& head,
                          const Weights& trained) {
    const auto put = [&](const auto& wholes, const auto& parts, std::vector<float>& to,
                         const std::vector<float>& from) {
        for (const auto& part : parts) {
            const auto whole =
                std::ranges::find_if(wholes, [&](const auto& w) { return w.name == part.name; });
            if (whole == wholes.end() || whole->count != part.count)
                throw Error(
                    fmt::format("network '{}' has no tensor '{}' of {} numbers, as its head "
                                "'{}' has. Give the graph that the head was cut from, with "
                                "its number of classes",
                                graph.name.view(), part.name.view(), part.count, head.name.view()));
            std::copy_n(from.begin() + part.offset, part.count, to.begin() + whole->offset);
        }
    };
    put(graph.parameters, head.parameters, weights.parameters, trained.parameters);
    put(graph.statistics, head.statistics, weights.statistics, trained.statistics);
    return weights;
}

}  // namespace gx
