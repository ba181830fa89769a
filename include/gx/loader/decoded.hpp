// Decoded<Source, Decoder>: an encoded source as one of pixels, decoded by a pool of threads.
#pragma once

#include <bit>       // has_single_bit
#include <concepts>  // same_as
#include <cstdint>   // uint64_t
#include <memory>    // shared_ptr
#include <mutex>     // guards the count
#include <optional>  // what is decoded
#include <span>      // pixels
#include <string>    // sentences
#include <utility>   // move
#include <vector>    // mean, deviation

#include <gx/core/error.hpp>                 // Error
#include <gx/core/hash.hpp>                  // golden64, mix64
#include <gx/loader/detail/worker_pool.hpp>  // WorkerPool
#include <gx/loader/encoded_source.hpp>      // EncodedSource
#include <gx/loader/source.hpp>              // Source

namespace gx {

/// What the pixels of a sample may depend on, beside its bytes.
struct SampleKey {
    int epoch = 0;
    std::uint32_t sample = 0;  ///< its number in the source
};

/// Decodes samples, of any sizes, to images of one shape. Each thread has a copy.
///
///     shape()               of every image
///     decode(s, key, to)    writes pixels (C, H, W) of `s`; a gx::Error stands for a corrupt image
///
/// Optional: uint64_t hash() const, of all that its pixels depend on beside sample and key, so that
/// ranks and resumed runs with another recipe are refused.
template <class D>
concept SampleDecoder =
    std::copy_constructible<D> && requires(D d, const D& c, const EncodedSample& s,
                                           const SampleKey& key, std::span<std::uint8_t> to) {
        { c.shape() } -> std::same_as<ImageShape>;
        { d.decode(s, key, to) } -> std::same_as<void>;
    };

/// A decoder whose images take the size of a run's phases.
///
///     resized(shape)   the same decoder for images of `shape`
///     flaw_at(shape)   why there are none, as a sentence without its period, or empty
template <class D>
concept ResizesImages = SampleDecoder<D> && requires(const D& d, ImageShape shape) {
    { d.resized(shape) } -> std::same_as<D>;
    { d.flaw_at(shape) } -> std::same_as<std::string>;
};

/// A decoder whose images vary in shape in a test.
///
///     varies(epoch)                 whether they do so in the phase that begins at `epoch`
///     size_of(s)                    of an image as it is stored, from its header
///     views(sizes, shape, batch)    as Source's, from the sizes of all samples
template <class D>
concept VariesShapes = ResizesImages<D> && requires(D& d, const D& c, const EncodedSample& s,
                                                    std::span<const ImageShape> sizes) {
    { c.varies(int{}) } -> std::same_as<bool>;
    { d.size_of(s) } -> std::same_as<ImageShape>;
    { c.views(sizes, ImageShape{}, int{}) } -> std::same_as<std::vector<SampleView>>;
};

struct DecodedOptions {
    int workers = 1;  ///< threads of each reader that read and decode; 1: the caller's own
    OnCorrupt on_corrupt = OnCorrupt::stop;  ///< of images; the source has its own, of records
    /// Of pixels scaled to 0 ... 1, one a channel.
    std::vector<float> mean{0.485f, 0.456f, 0.406f}, deviation{0.229f, 0.224f, 0.225f};
};

/// The images of `S`, decoded when they are read; models Source, so that every loader takes it.
///
///     const gx::Decoded train(gx::ImageFolder("train"), decoder, {.workers = 8});
///     Prefetched<InMemory<Flip>> loader(train, {.batch = 64, .pixels = true});
///
/// Errors: gx::Error of the source, or of the decoder, for the first such sample of a read. With
///         OnCorrupt::skip, a sample that can't be decoded is replaced by the first that can of
///         those 1, 2, 4, 8, ... and then 3, 5, 6, 7, 9, ... behind it, so that all ranks keep
///         their counts; gx::Error where none of 100, or of all samples, can be decoded.
/// Order:  samples, replacements too, depend on seed, epoch and their numbers: not on workers,
///         ranks or batches.
/// Cost:   a reader has `workers` threads, as many readers of `S` and decoders, and the pixels of
///         its largest read. Images of a phase's size are decoded straight to it. views() of a
///         decoder that varies shapes reads the headers of all samples, once for all readers.
template <EncodedSource S, SampleDecoder D>
class Decoded {
public:
    Decoded(S source, D decoder, DecodedOptions options = {})
        : source_(std::move(source)),
          decoder_(std::move(decoder)),
          options_(std::move(options)),
          skipped_(std::make_shared<Skipped>()) {
        if (options_.workers < 1 || options_.workers > 1024)
            throw Error("gx: source '" + source_.info().name +
                        "': " + std::to_string(options_.workers) +
                        " workers: expected 1 to 1024. Set one for each core.");
    }

    [[nodiscard]] SourceInfo info() const {
        const EncodedInfo encoded = source_.info();
        return {.name = encoded.name,
                .count = encoded.count,
                .shape = decoder_.shape(),
                .classes = encoded.classes,
                .mean = options_.mean,
                .deviation = options_.deviation,
                .class_names = encoded.class_names};
    }
    [[nodiscard]] std::unique_ptr<SampleReader> open() const {
        return std::make_unique<Reader>(*this, decoder_);
    }
    [[nodiscard]] std::unique_ptr<SampleReader> open_at(ImageShape shape) const
        requires ResizesImages<D>
    {
        return std::make_unique<Reader>(*this, decoder_.resized(shape));
    }
    [[nodiscard]] std::string flaw_at(ImageShape shape) const
        requires ResizesImages<D>
    {
        return decoder_.flaw_at(shape);
    }
    [[nodiscard]] std::vector<SampleView> views(ImageShape shape, int epoch, int batch) const
        requires VariesShapes<D>
    {
        if (!decoder_.varies(epoch)) return {};
        return decoder_.views(sizes(), shape, batch);
    }
    [[nodiscard]] std::int64_t largest_class() const {
        if constexpr (requires { source_.largest_class(); }) return source_.largest_class();
        else return 0;
    }
    /// Of what the index knows of the samples: names, places and lengths of records, labels; and
    /// the decoder's hash where it has one. Other pixels under the same names are not seen.
    /// Cost: entry() of every sample, once.
    [[nodiscard]] std::uint64_t content() const {
        const std::scoped_lock lock(known_->mutex);
        if (known_->content == 0) {
            known_->content = golden64;
            const auto count = static_cast<std::uint32_t>(source_.info().count);
            for (std::uint32_t i = 0; i < count; ++i)
                known_->content = hash_entry(known_->content, source_.entry(i));
            if constexpr (requires { std::uint64_t{decoder_.hash()}; })
                known_->content = mix64(known_->content ^ decoder_.hash());
        }
        return known_->content;
    }
    /// Samples that were replaced, by all readers so far.
    [[nodiscard]] SkippedRecords skipped() const {
        const std::scoped_lock lock(skipped_->mutex);
        return skipped_->records;
    }

    /// Records that the index of `S` has left out; they are not in info().count.
    [[nodiscard]] SkippedRecords left_out() const {
        if constexpr (requires { SkippedRecords(source_.skipped()); }) return source_.skipped();
        else return {};
    }

private:
    /// What was read of all samples, once for all readers.
    struct Known {
        std::mutex mutex{};
        std::vector<ImageShape> sizes{};  // empty: not yet
        std::uint64_t content = 0;        // 0: not yet
    };
    /// Of all samples as they are stored; of one that is skipped, a square's.
    [[nodiscard]] std::span<const ImageShape> sizes() const {
        const std::scoped_lock lock(known_->mutex);
        std::vector<ImageShape>& all = known_->sizes;
        if (!all.empty()) return all;
        std::vector<ImageShape> read(static_cast<std::size_t>(source_.info().count));
        const auto workers = static_cast<std::size_t>(options_.workers);
        std::vector<std::unique_ptr<EncodedReader>> readers;
        for (std::size_t i = 0; i < workers; ++i) readers.push_back(source_.open());
        std::vector<D> decoders(workers, decoder_);
        detail::loader::WorkerPool(options_.workers)
            .run(read.size(), [&](std::size_t i, std::size_t worker) {
                const auto index = static_cast<std::uint32_t>(i);
                EncodedSample s;
                readers[worker]->read({&index, 1}, {&s, 1});
                try {
                    read[i] = s.bytes.empty() ? ImageShape{3, 1, 1} : decoders[worker].size_of(s);
                } catch (const Error&) {
                    if (options_.on_corrupt == OnCorrupt::stop) throw;
                    read[i] = {3, 1, 1};
                }
            });
        return all = std::move(read);
    }

    struct Skipped {
        std::mutex mutex{};
        SkippedRecords records{};
        void add(const std::string& sentence) {
            const std::scoped_lock lock(mutex);
            records.add(sentence);
        }
    };

    class Reader final : public SampleReader {
    public:
        Reader(const Decoded& of, const D& decoder)
            : options_(of.options_),
              shape_(decoder.shape()),
              count_(static_cast<std::uint64_t>(of.source_.info().count)),
              skipped_(of.skipped_),
              pool_(of.options_.workers) {
            for (int i = 0; i < of.options_.workers; ++i)
                workers_.push_back({of.source_.open(), decoder});
        }

        void begin_epoch(int epoch) override { epoch_ = epoch; }

        void read(std::span<const std::uint32_t> indices, std::span<Sample> out) override {
            const auto elements = static_cast<std::size_t>(shape_.elements());
            if (pixels_.size() < indices.size() * elements)
                pixels_.resize(indices.size() * elements);
            pool_.run(indices.size(), [&](std::size_t i, std::size_t worker) {
                out[i] = decoded(indices[i], workers_[worker],
                                 std::span(pixels_).subspan(i * elements, elements));
            });
        }

    private:
        struct Worker {
            std::unique_ptr<EncodedReader> reader;
            D decoder;
        };
        static constexpr int tries_most = 100;  // of a sample and those in its place

        /// Sample `index` or, where it is left out, one behind it: the doubled distances leave a
        /// long row of corrupt samples with few tries, the others find a good one among many.
        [[nodiscard]] Sample decoded(std::uint32_t index, Worker& worker,
                                     std::span<std::uint8_t> to) const {
            if (const auto label = decode(index, worker, to, true))
                return {to.data(), *label, shape_};
            int tried = 1;
            const auto decode_behind = [&](std::uint64_t ahead) {
                ++tried;
                const auto other = static_cast<std::uint32_t>((index + ahead) % count_);
                return decode(other, worker, to, false);
            };
            for (std::uint64_t ahead = 1; ahead < count_; ahead *= 2)
                if (const auto label = decode_behind(ahead)) return {to.data(), *label, shape_};
            for (std::uint64_t ahead = 3; ahead < count_ && tried < tries_most; ++ahead) {
                if (std::has_single_bit(ahead)) continue;
                if (const auto label = decode_behind(ahead)) return {to.data(), *label, shape_};
            }
            throw Error("gx: none of " + std::to_string(tried) +
                        " samples could be decoded: number " + std::to_string(index) +
                        ", and those in its place. " + first_sentence());
        }
        /// Returns its label; none: it is left out, and counted if `counts`.
        [[nodiscard]] std::optional<int> decode(std::uint32_t index, Worker& worker,
                                                std::span<std::uint8_t> to, bool counts) const {
            EncodedSample s;
            const SkippedRecords& corrupt = worker.reader->skipped();
            const std::int64_t before = corrupt.count;
            worker.reader->read({&index, 1}, {&s, 1});
            if (s.bytes.empty()) {
                if (counts)
                    skipped_->add(corrupt.count > before
                                      ? corrupt.latest
                                      : "gx: " + to_string(s.where) + " holds no image");
                return std::nullopt;
            }
            try {
                worker.decoder.decode(s, {epoch_, index}, to);
            } catch (const Error& e) {
                if (options_.on_corrupt == OnCorrupt::stop) throw;
                if (counts) skipped_->add(e.what());
                return std::nullopt;
            }
            return s.label;
        }
        [[nodiscard]] std::string first_sentence() const {
            const std::scoped_lock lock(skipped_->mutex);
            return "The first: " + skipped_->records.first.at(0);
        }

        DecodedOptions options_;
        ImageShape shape_;
        std::uint64_t count_;
        std::shared_ptr<Skipped> skipped_;
        int epoch_ = 0;
        std::vector<std::uint8_t> pixels_{};  // of the last read
        std::vector<Worker> workers_{};
        detail::loader::WorkerPool pool_;  // last: its threads end before what they use
    };

    S source_;
    D decoder_;
    DecodedOptions options_;
    std::shared_ptr<Skipped> skipped_;
    std::shared_ptr<Known> known_ = std::make_shared<Known>();
};

}  // namespace gx
