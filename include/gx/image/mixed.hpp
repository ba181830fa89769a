// Mixed<Source, Mix>: each sample of a source mixed with another one, MixUp or CutMix.
#pragma once

#include <algorithm>    // copy_n
#include <bit>          // bit_cast
#include <concepts>     // same_as
#include <cstdint>      // uint64_t
#include <memory>       // unique_ptr
#include <span>         // samples
#include <string>       // sentences
#include <string_view>  // streams
#include <utility>      // move
#include <vector>       // pixels

#include <gx/core/error.hpp>     // Error
#include <gx/core/hash.hpp>      // mix64, hash_name
#include <gx/image/mix.hpp>      // MixUp, CutMix, partner
#include <gx/loader/source.hpp>  // Source

namespace gx {

/// Mixes the second of two images of one shape into the first.
template <class M>
concept ImageMix = requires(const M& m, std::uint8_t* pixels, const std::uint8_t* second,
                            ImageShape shape, const SampleDraws& draws) {
    { M::stream } -> std::convertible_to<std::string_view>;
    { m(pixels, second, shape, draws) } -> std::same_as<float>;
};

/// Training samples of `S`, each mixed with a partner of the whole source; models Source.
///
///     const gx::Decoded images(gx::ImageFolder("train"), decoder);
///     const gx::Mixed train(images, gx::MixUp{.alpha = 0.2}, seed);
///
/// Samples are mixed as `S` reads them: a decoder's augmentation comes before, a loader's behind,
/// the same for both parts. Their loss is that of Batch::second_labels.
/// Errors: as `S`, and gx::Error for a source that mixes and for samples that are no pixels; the
///         Trainer refuses devices that take one label an image.
/// Order:  depends on seed, epoch and sample alone: not on ranks, workers or batches.
/// Cost:   reads each sample twice an epoch, on average; memory for the pixels of a read.
template <Source S, ImageMix Mix>
class Mixed {
public:
    Mixed(S source, Mix mix, std::uint64_t seed)
        : source_(std::move(source)), mix_(mix), seed_(seed) {}

    [[nodiscard]] SourceInfo info() const { return source_.info(); }
    [[nodiscard]] std::unique_ptr<SampleReader> open() const {
        return std::make_unique<Reader>(*this, source_.open(), info());
    }
    [[nodiscard]] static bool mixes() { return true; }
    [[nodiscard]] std::int64_t largest_class() const { return SourceRef(source_).largest_class(); }
    /// Of the source's samples, the mix, its `alpha` and the seed.
    [[nodiscard]] std::uint64_t content() const {
        const std::uint64_t of_source = SourceRef(source_).content();
        if (of_source == 0) return 0;
        std::uint64_t hash = mix64(of_source ^ hash_name(Mix::stream));
        if constexpr (requires { double{mix_.alpha}; })
            hash = mix64(hash ^ std::bit_cast<std::uint64_t>(double{mix_.alpha}));
        return mix64(hash ^ seed_);
    }
    [[nodiscard]] auto skipped() const
        requires requires(const S& s) { s.skipped(); }
    {
        return source_.skipped();
    }
    [[nodiscard]] auto left_out() const
        requires requires(const S& s) { s.left_out(); }
    {
        return source_.left_out();
    }
    [[nodiscard]] std::string flaw() const {
        if (SourceRef(source_).mixes())
            return "its images are mixed already, and a loss takes two labels an image: mix the "
                   "source that it mixes, once";
        return SourceRef(source_).flaw();
    }
    [[nodiscard]] std::unique_ptr<SampleReader> open_at(ImageShape shape) const
        requires requires(const S& s) { s.open_at(ImageShape{}); }
    {
        SourceInfo at = info();
        at.shape = shape;
        return std::make_unique<Reader>(*this, source_.open_at(shape), std::move(at));
    }
    [[nodiscard]] std::string flaw_at(ImageShape shape) const {
        return SourceRef(source_).flaw_at(shape);
    }

private:
    class Reader final : public SampleReader {
    public:
        Reader(const Mixed& of, std::unique_ptr<SampleReader> reader, SourceInfo info)
            : reader_(std::move(reader)), info_(std::move(info)), mix_(of.mix_), seed_(of.seed_) {}

        void begin_epoch(int epoch) override {
            epoch_ = epoch;
            reader_->begin_epoch(epoch);
        }
        void read(std::span<const std::uint32_t> indices, std::span<Sample> out) override {
            const auto count = static_cast<std::uint64_t>(info_.count);
            indices_.assign(indices.begin(), indices.end());
            for (const std::uint32_t i : indices)
                indices_.push_back(static_cast<std::uint32_t>(partner(draws(i), count)));
            samples_.resize(indices_.size());
            reader_->read(indices_, samples_);
            detail::source::expect_samples(info_, indices_, samples_);
            const auto elements = static_cast<std::size_t>(info_.shape.elements());
            pixels_.resize(indices.size() * elements);
            for (std::size_t i = 0; i < indices.size(); ++i)
                out[i] = mixed(samples_[i], samples_[indices.size() + i], &pixels_[i * elements],
                               draws(indices[i]));
        }

    private:
        [[nodiscard]] SampleDraws draws(std::uint32_t sample) const {
            return {seed_, Mix::stream, epoch_, sample};
        }
        [[nodiscard]] Sample mixed(const Sample& first, const Sample& second, std::uint8_t* to,
                                   const SampleDraws& draws) const {
            if (first.pixels == nullptr)
                throw Error("gx: data set '" + info_.name +
                            "' holds numbers, not pixels, and can't be mixed: mix its images.");
            std::copy_n(first.pixels, first.shape.elements(), to);
            const float weight = mix_(to, second.pixels, first.shape, draws);
            return {to, first.label, first.shape, {second.label, 1 - weight}};
        }

        std::unique_ptr<SampleReader> reader_;
        SourceInfo info_;
        Mix mix_;
        std::uint64_t seed_;
        int epoch_ = 0;
        std::vector<std::uint32_t> indices_{};  // of a read, then their partners
        std::vector<Sample> samples_{};
        std::vector<std::uint8_t> pixels_{};  // mixed
    };

    S source_;
    Mix mix_;
    std::uint64_t seed_;
};

}  // namespace gx
