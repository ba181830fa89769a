// Source: labelled 8-bit images that each process opens and reads for its share.
#pragma once

#include <concepts>  // same_as
#include <cstdint>   // int64_t
#include <memory>    // unique_ptr
#include <span>      // samples
#include <string>    // names
#include <vector>    // mean, deviation

#include <gx/core/cold.hpp>    // GX_COLD
#include <gx/core/decl.hpp>    // GX_DECL
#include <gx/core/device.hpp>  // SecondLabel
#include <gx/core/hash.hpp>    // golden64
#include <gx/model/graph.hpp>  // ImageShape

namespace gx {

/// What is known of a source before its samples are read.
/// Shapes: mean and deviation (C), of pixels scaled to 0 ... 1. A loader hands out
///         (pixel / 255 - mean) / deviation.
struct SourceInfo {
    std::string name{};
    std::int64_t count = 0;  ///< samples
    ImageShape shape{};      ///< of every sample
    int classes = 0;         ///< labels are below
    std::vector<float> mean{}, deviation{};
    std::vector<std::string> class_names{};  ///< one a class, or none where they are not known
    bool operator==(const SourceInfo&) const = default;
};

/// One labelled image. Shapes: pixels or values (C, H, W) row-major, the other null. Values are
/// handed out as they are: neither normalised nor augmented.
struct Sample {
    const std::uint8_t* pixels = nullptr;
    int label = 0;
    ImageShape shape{};
    SecondLabel second{};  ///< of a source that mixes
    const float* values = nullptr;
};

/// Samples that are shown in one shape.
struct SampleView {
    std::vector<std::uint32_t> samples{};
    ImageShape shape{};
    bool operator==(const SampleView&) const = default;
};

/// Reads the samples of one source, for one rank.
class SampleReader {
public:
    SampleReader() = default;
    SampleReader(const SampleReader&) = delete;
    SampleReader& operator=(const SampleReader&) = delete;
    virtual ~SampleReader() = default;

    /// Sets out[i] to sample indices[i]; pixels stay valid until the next read.
    /// Errors: gx::Error naming the source or its file, the sample, what was expected and found.
    virtual void read(std::span<const std::uint32_t> indices, std::span<Sample> out) = 0;
    /// Reads the samples of `epoch` from now on, where they differ from epoch to epoch; 0 at first.
    virtual void begin_epoch([[maybe_unused]] int epoch) {}
};

namespace detail::source {
template <class S>
concept Describes = requires(const S& s) {
    { s.info() } -> std::same_as<SourceInfo>;
};
template <class S>
concept Opens = requires(const S& s) {
    { s.open() } -> std::same_as<std::unique_ptr<SampleReader>>;
};
}  // namespace detail::source

/// Labelled samples with global indices 0 ... count - 1, equal in every process of a run.
///
///     info()   count, shape, classes, normalisation: the same in every process
///     open()   a reader of one rank; ranks of one process may read at the same time
///
/// Optional: int64_t largest_class() const, samples of the most frequent class (0: unknown), for
/// the warning of a test accuracy at chance; uint64_t content() const, the samples' ContentHash (0:
/// unknown), which ranks and resumed runs compare; string flaw() const, what is wrong with the data
/// as a sentence without its period, or empty.
///
/// Optional, of a source that shows its samples in the size that a phase of the run has:
///
///     open_at(shape)             as open(), for samples of `shape`; without it the loader resizes
///     flaw_at(shape)             why there are none of this shape, as flaw()
///     views(shape, epoch, batch) shapes that vary about `shape` in a test, at most `batch` samples
///                                each: one SampleView a batch, with every sample once; none: all
///                                have `shape`. Equal in every process
///
/// Optional: bool mixes() const, whether samples have second labels, as Mixed's.
///
/// A source need not be in memory: a rank asks for the samples of its own batches only.
template <class S>
concept Source = detail::source::Describes<S> && detail::source::Opens<S>;

template <class S>
consteval bool explain_source() {
    static_assert(detail::source::Describes<S>,
                  "gx: not a Source: no 'gx::SourceInfo info() const'. Runs are planned with the "
                  "count, the shape and the classes of the data. Fix: add it.");
    static_assert(detail::source::Opens<S>,
                  "gx: not a Source: no 'unique_ptr<gx::SampleReader> open() const'. Each rank "
                  "reads its share through a reader of its own. Fix: add it.");
    return true;
}

/// What is wrong with `info`, as a sentence without its period; empty if nothing is.
GX_COLD [[nodiscard]] GX_DECL std::string flaw(const SourceInfo& info);

/// Hash of samples in their order, equal wherever they are stored.
/// Order: folded by mix64 over the XXH3 of each sample: its label (2 bytes, little-endian), then
///        its pixels (C, H, W) row-major.
class ContentHash {
public:
    /// Shapes: `record` is a sample as above.
    GX_DECL void add(std::span<const std::uint8_t> record);
    [[nodiscard]] std::uint64_t value() const { return value_; }

private:
    std::uint64_t value_ = golden64;
};

/// One line that tells sources apart: "'fashion-mnist': 60000 images of 1 x 28 x 28 in 10 classes".
[[nodiscard]] GX_DECL std::string describe(const SourceInfo& info);

namespace detail::source {
/// Errors: gx::Error naming the source, the sample and both shapes, unless all have that of `info`
///         and a label below its classes.
GX_DECL void expect_samples(const SourceInfo& info, std::span<const std::uint32_t> indices,
                            std::span<const Sample> samples);
}  // namespace detail::source

struct Dataset;

/// Samples or records that a source has left out.
struct LeftOut {
    std::int64_t count = 0;
    std::string first{};  ///< why the first of them was; "": not kept
};

/// Refers to a Source of any type, which it does not own; as cheap to copy as a pointer.
/// Default constructed, it refers to a source without samples.
class SourceRef {
public:
    SourceRef() = default;
    template <class S>
        requires(!std::same_as<S, SourceRef> && Source<S>)
    SourceRef(const S& source)  // implicit: a loader is built from the source itself
        : source_(&source), functions_(&functions_of<S>) {}

    [[nodiscard]] SourceInfo info() const {
        return source_ ? functions_->info(source_) : SourceInfo{};
    }
    [[nodiscard]] std::int64_t count() const { return info().count; }
    /// Errors: gx::Error with the source's name and its flaw.
    [[nodiscard]] GX_DECL std::unique_ptr<SampleReader> open() const;
    /// Whether samples have second labels.
    [[nodiscard]] bool mixes() const { return source_ && functions_->mixes(source_); }
    /// Whether open_at() gives samples of other shapes than that of info().
    [[nodiscard]] bool has_sizes() const { return source_ && functions_->open_at; }
    /// Errors: as open(), and where flaw_at(shape) is a sentence.
    [[nodiscard]] GX_DECL std::unique_ptr<SampleReader> open_at(ImageShape shape) const;
    [[nodiscard]] std::string flaw_at(ImageShape shape) const {
        return source_ && functions_->flaw_at ? functions_->flaw_at(source_, shape) : "";
    }
    [[nodiscard]] std::vector<SampleView> views(ImageShape shape, int epoch, int batch) const {
        if (!source_ || !functions_->views) return {};
        return functions_->views(source_, shape, epoch, batch);
    }
    [[nodiscard]] std::string flaw() const {
        return source_ ? functions_->flaw(source_) : gx::flaw(SourceInfo{});
    }
    [[nodiscard]] std::int64_t largest_class() const {
        return source_ ? functions_->largest_class(source_) : 0;
    }
    /// Cost: a data set in memory is read whole.
    [[nodiscard]] std::uint64_t content() const {
        return source_ ? functions_->content(source_) : 0;
    }
    /// Times that another sample took the place of one that could not be decoded. Counted since the
    /// source was made, but the first `before`; 0 where the source does not count them.
    [[nodiscard]] LeftOut skipped(std::int64_t before = 0) const {
        return source_ ? functions_->skipped(source_, before) : LeftOut();
    }
    /// Records and files that its index has left out; they are not in info().count.
    [[nodiscard]] LeftOut left_out() const {
        return source_ ? functions_->left_out(source_) : LeftOut();
    }
    /// Whether both refer to one object.
    [[nodiscard]] bool is_same(const SourceRef& other) const { return source_ == other.source_; }
    /// The data set in memory that it refers to; nullptr: a source of another type.
    [[nodiscard]] const Dataset* dataset() const {
        return source_ && functions_->is_dataset ? static_cast<const Dataset*>(source_) : nullptr;
    }

private:
    struct Functions {
        SourceInfo (*info)(const void*);
        std::unique_ptr<SampleReader> (*open)(const void*);
        std::string (*flaw)(const void*);
        std::int64_t (*largest_class)(const void*);
        std::uint64_t (*content)(const void*);
        bool (*mixes)(const void*);
        LeftOut (*skipped)(const void*, std::int64_t before);
        LeftOut (*left_out)(const void*);
        bool is_dataset;
        std::unique_ptr<SampleReader> (*open_at)(const void*, ImageShape);  // nullptr: not offered
        std::string (*flaw_at)(const void*, ImageShape);
        std::vector<SampleView> (*views)(const void*, ImageShape, int, int);
    };
    template <class S>
    static constexpr auto open_at_of() -> decltype(Functions::open_at) {
        if constexpr (requires(const S& s) { s.open_at(ImageShape{}); })
            return
                [](const void* s, ImageShape to) { return static_cast<const S*>(s)->open_at(to); };
        else return nullptr;
    }
    template <class S>
    static constexpr auto flaw_at_of() -> decltype(Functions::flaw_at) {
        if constexpr (requires(const S& s) { s.flaw_at(ImageShape{}); })
            return
                [](const void* s, ImageShape to) { return static_cast<const S*>(s)->flaw_at(to); };
        else return nullptr;
    }
    template <class S>
    static constexpr auto views_of() -> decltype(Functions::views) {
        if constexpr (requires(const S& s) { s.views(ImageShape{}, int{}, int{}); })
            return [](const void* s, ImageShape to, int epoch, int batch) {
                return static_cast<const S*>(s)->views(to, epoch, batch);
            };
        else return nullptr;
    }
    template <class S>
    static std::string flaw_of(const S& s) {
        if constexpr (requires { s.flaw(); }) return s.flaw();
        else return gx::flaw(s.info());
    }
    template <class Records>
    static LeftOut behind(const Records& all, std::int64_t before) {
        if (all.count <= before) return {};
        const bool kept = before < std::ssize(all.first);
        return {all.count - before, kept ? all.first[std::size_t(before)] : std::string()};
    }
    template <class S>
    static LeftOut skipped_of(const S& s, std::int64_t before) {
        if constexpr (requires { s.skipped().first.at(0); }) return behind(s.skipped(), before);
        else return {};
    }
    template <class S>
    static LeftOut left_out_of(const S& s) {
        if constexpr (requires { s.left_out().first.at(0); }) return behind(s.left_out(), 0);
        else return {};
    }
    template <class S>
    static constexpr Functions functions_of{
        [](const void* s) { return static_cast<const S*>(s)->info(); },
        [](const void* s) { return static_cast<const S*>(s)->open(); },
        [](const void* s) { return flaw_of(*static_cast<const S*>(s)); },
        [](const void* s) -> std::int64_t {
            if constexpr (requires(const S& x) { x.largest_class(); })
                return static_cast<const S*>(s)->largest_class();
            else return 0;
        },
        [](const void* s) -> std::uint64_t {
            if constexpr (requires(const S& x) { x.content(); })
                return static_cast<const S*>(s)->content();
            else return 0;
        },
        [](const void* s) -> bool {
            if constexpr (requires(const S& x) { x.mixes(); })
                return static_cast<const S*>(s)->mixes();
            else return false;
        },
        [](const void* s, std::int64_t before) {
            return skipped_of(*static_cast<const S*>(s), before);
        },
        [](const void* s) { return left_out_of(*static_cast<const S*>(s)); },
        std::same_as<S, Dataset>,
        open_at_of<S>(),
        flaw_at_of<S>(),
        views_of<S>()};

    const void* source_ = nullptr;
    const Functions* functions_ = nullptr;
};

/// Training set and test set of a run, of any types; both outlive it. A test set is needed where
/// the run evaluates.
///
///     const gx::RecordFile train("train.gxr"), test("test.gxr");
///     trainer.train(world, gx::Sources{train, test});
struct Sources {
    SourceRef train{}, test{};
};

namespace archetype {
/// The least type that models Source.
struct Source {
    SourceInfo info() const;
    std::unique_ptr<SampleReader> open() const;
};
}  // namespace archetype
static_assert(explain_source<archetype::Source>());

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/loader/impl/source.ipp>
#endif
