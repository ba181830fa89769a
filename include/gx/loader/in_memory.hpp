// InMemory<Augmentations...>: batches of a source, shuffled, augmented and normalised.
#pragma once

#include <algorithm>  // fill
#include <array>      // one stream an augmentation
#include <cstddef>    // size_t
#include <cstdint>    // int32_t, int64_t
#include <memory>     // unique_ptr
#include <optional>   // resizing
#include <span>       // span
#include <vector>     // buffers

#include <gx/core/decl.hpp>                   // GX_DECL
#include <gx/core/rng.hpp>                    // Rng
#include <gx/loader/augment.hpp>              // View
#include <gx/loader/concept.hpp>              // explain_loader, LoaderOptions
#include <gx/loader/dataset.hpp>              // Dataset
#include <gx/loader/detail/pixel_values.hpp>  // PixelValues, decode
#include <gx/loader/order.hpp>                // EpochOrder
#include <gx/loader/resize.hpp>               // Resize
#include <gx/loader/source.hpp>               // SourceRef, Sample

namespace gx {

namespace detail::loader {

/// What a loader reads: the source, in the size asked for where it has sizes.
[[nodiscard]] GX_DECL SourceInfo info_at(const SourceRef& source, int image_side);

/// Copies the values of a sample of floats.
/// Errors: gx::Error unless `plain`: they can't be resized, augmented or handed out as pixels.
GX_DECL void take_values(const SourceInfo& info, const Sample& sample, bool plain, float* to);

}  // namespace detail::loader

/// Loader of a source, by default a data set in memory, which outlives the loader. It keeps the
/// order of an epoch in memory, and of the samples those of the present batch. Images are resized
/// first, where the source does not show them in LoaderOptions::image_side itself, then augmented,
/// then normalised, or left to the device to normalise.
///
///     InMemory<PadCrop<4>, Flip> train(data.train, {.batch = 128, .ranks = 8, .rank = r});
///     InMemory<> test(data.test, {.batch = 250, .ranks = 8, .rank = r, .shuffle = false});
///
/// Errors: gx::Error as EpochOrder says, for a source with a flaw, and from next() for a sample
///         that can't be read or has another shape than the source's.
/// Order:  samples as EpochOrder says; augmentation as augment.hpp says.
/// Cost:   one pass over the pixels; allocates when built and in keep() only.
template <class... Augmentations>
class InMemory {
    static_assert((explain_augmentation<Augmentations>() && ...));

public:
    InMemory(SourceRef source, const LoaderOptions& o)
        : info_(detail::loader::info_at(source, o.image_side)),
          reader_(info_ == source.info() ? source.open() : source.open_at(info_.shape)),
          options_(o),
          order_(info_.count, o),
          shape_(info_.shape),
          values_(info_),
          mixes_(source.mixes()),
          streams_{Rng(o.seed, Augmentations::stream)...},
          epoch_streams_{streams_} {
        if (o.image_side > 0) shape_.height = shape_.width = o.image_side;
        if (shape_ != info_.shape) {
            resize_.emplace(info_.shape, shape_);
            resized_.resize(static_cast<std::size_t>(shape_.elements()));
        }
        keep(2);
    }

    [[nodiscard]] ImageShape shape() const { return shape_; }
    [[nodiscard]] int classes() const { return info_.classes; }
    [[nodiscard]] std::int64_t images_per_epoch() const { return order_.samples(); }
    [[nodiscard]] std::int64_t steps_per_epoch() const { return order_.steps(); }

    [[nodiscard]] std::int64_t steps_after(std::int64_t done) const {
        return order_.steps_after(done);
    }

    void keep(int batches) {
        GX_EXPECT(batches >= 1, "at least one batch is kept");
        const auto images = static_cast<std::size_t>(options_.batch);
        const auto elements = static_cast<std::size_t>(shape().elements());
        samples_.resize(images);
        slots_.resize(static_cast<std::size_t>(batches));
        for (Slot& slot : slots_) {
            if (options_.pixels) slot.pixels.resize(images * elements);
            else slot.images.resize(images * elements);
            slot.labels.resize(images);
            slot.second_labels.resize(mixes_ ? images : 0);
        }
    }

    void begin_epoch(int epoch, std::int64_t done = 0) {
        order_.begin_epoch(epoch, done);
        reader_->begin_epoch(epoch);
        const auto index = static_cast<std::uint64_t>(epoch);
        for (std::size_t i = 0; i < streams_.size(); ++i) epoch_streams_[i] = streams_[i].at(index);
        first_draw_ = index * static_cast<std::uint64_t>(steps_per_epoch()) +
                      static_cast<std::uint64_t>(done / order_.global_batch());
        step_ = 0;
    }

    [[nodiscard]] RankBatch next() {
        GX_EXPECT(step_ >= 0, "begin_epoch() comes before next()");
        const auto indices = order_.share(step_);
        const auto samples = std::span(samples_).first(indices.size());
        std::ranges::fill(samples, Sample{});  // what the reader leaves out is no earlier sample
        reader_->read(indices, samples);
        detail::source::expect_samples(info_, indices, samples);
        const auto elements = static_cast<std::size_t>(shape().elements());
        const std::uint64_t draw =
            options_.draw_offset + first_draw_ + static_cast<std::uint64_t>(step_);
        Slot& slot = slots_[static_cast<std::size_t>(draw % slots_.size())];
        for (std::size_t i = 0; i < samples.size(); ++i) {
            slot.labels[i] = samples[i].label;
            if (mixes_) slot.second_labels[i] = samples[i].second;
            if (samples[i].values != nullptr) {
                const bool plain = !resize_ && !options_.pixels && sizeof...(Augmentations) == 0;
                detail::loader::take_values(info_, samples[i], plain,
                                            slot.images.data() + i * elements);
                continue;
            }
            const std::uint8_t* pixels = samples[i].pixels;
            if (resize_) {
                (*resize_)(pixels, resized_.data());
                pixels = resized_.data();
            }
            const View v = view(indices[i]);
            if (options_.pixels)
                detail::loader::decode(pixels, &slot.pixels[i * elements], shape(), v);
            else detail::loader::decode(pixels, &slot.images[i * elements], shape(), v, values_);
        }
        const std::int64_t global_count = std::ssize(order_.step(step_++));
        Batch batch{.labels = std::span(slot.labels).first(samples.size()),
                    .count = static_cast<int>(samples.size()),
                    .draw = draw};
        if (mixes_) batch.second_labels = std::span(slot.second_labels).first(samples.size());
        if (options_.pixels) {
            batch.pixels = std::span(slot.pixels).first(samples.size() * elements);
            batch.values = values_.table();
        } else {
            batch.images = std::span(slot.images).first(samples.size() * elements);
        }
        return {batch, global_count};
    }

private:
    struct Slot {
        std::vector<float> images;
        std::vector<std::uint8_t> pixels;
        std::vector<std::int32_t> labels;
        std::vector<SecondLabel> second_labels;
    };

    [[nodiscard]] View view([[maybe_unused]] std::uint64_t sample) const {
        View v;
        [[maybe_unused]] std::size_t stream = 0;
        (Augmentations::move(v, epoch_streams_[stream++].bits(sample)), ...);
        return v;
    }

    SourceInfo info_;  // its shape: of the samples read
    std::unique_ptr<SampleReader> reader_;
    LoaderOptions options_;
    EpochOrder order_;
    ImageShape shape_;  // of the images handed out
    std::optional<Resize> resize_{};
    std::vector<std::uint8_t> resized_{};  // one image
    detail::loader::PixelValues values_;
    bool mixes_;
    std::array<Rng, sizeof...(Augmentations)> streams_, epoch_streams_;
    std::vector<Sample> samples_;  // of one batch
    std::vector<Slot> slots_;
    std::uint64_t first_draw_ = 0;
    std::int64_t step_ = -1;
};
static_assert(explain_loader<InMemory<>>());

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/loader/impl/in_memory.ipp>
#else
extern template class gx::InMemory<>;
#endif
