// EncodedSource: labelled JPEG and PNG images, known by an index, read as stored.
#pragma once

#include <concepts>     // same_as
#include <cstdint>      // int64_t
#include <memory>       // unique_ptr
#include <span>         // samples
#include <string>       // names
#include <string_view>  // files
#include <utility>      // move
#include <vector>       // class names

#include <gx/core/decl.hpp>  // GX_DECL

namespace gx {

/// What is known of an encoded source before its samples are read.
struct EncodedInfo {
    std::string name{};
    std::int64_t count = 0;                  ///< samples
    int classes = 0;                         ///< labels are below
    std::vector<std::string> class_names{};  ///< one a class, or none where the format has none
    bool operator==(const EncodedInfo&) const = default;
};

/// Where a sample is stored, for the sentences of errors.
struct SamplePlace {
    std::string_view file{};
    std::uint64_t offset = 0;  ///< of its record, in bytes
    bool whole_file = false;   ///< the file holds this sample alone
};
/// "'train.rec', record at byte 1024", or "'cat/1.jpg'" of a whole file.
[[nodiscard]] GX_DECL std::string to_string(const SamplePlace& place);

/// What the index knows of one sample.
struct EncodedEntry {
    std::string name{};        ///< path below the class, key or name of the file; may be empty
    std::string file{};        ///< that holds it
    std::uint64_t offset = 0;  ///< of its record in the file
    std::uint64_t bytes = 0;   ///< of its record; 0: a whole file
    int label = 0;
};

/// `hash` with an entry added, for Source's content(): its name, the file's without its folders,
/// the place and length of its record, and its label.
[[nodiscard]] GX_DECL std::uint64_t hash_entry(std::uint64_t hash, const EncodedEntry& entry);

/// One labelled image as it is stored.
struct EncodedSample {
    std::span<const std::uint8_t> bytes{};  ///< a JPEG or PNG file; empty: skipped
    int label = 0;
    SamplePlace where{};
};

/// What a corrupt record does: `stop` throws, `skip` leaves it out and counts it.
enum class OnCorrupt : unsigned char { stop, skip };

/// Corrupt records that were left out.
struct SkippedRecords {
    std::int64_t count = 0;
    std::vector<std::string> first{};  ///< the sentences of the first ten
    std::string latest{};
    void add(std::string sentence) {
        if (count++ < 10) first.push_back(sentence);
        latest = std::move(sentence);
    }
};

/// Reads the samples of one encoded source, for one thread.
class EncodedReader {
public:
    EncodedReader() = default;
    EncodedReader(const EncodedReader&) = delete;
    EncodedReader& operator=(const EncodedReader&) = delete;
    virtual ~EncodedReader() = default;

    /// Sets out[i] to sample indices[i]; its bytes and place stay valid until the next read.
    /// Errors: gx::Error naming the file and the record, what was expected and found. A corrupt
    ///         record, as OnCorrupt::skip has it, is one without bytes instead.
    virtual void read(std::span<const std::uint32_t> indices, std::span<EncodedSample> out) = 0;
    /// Those of its reads.
    [[nodiscard]] virtual const SkippedRecords& skipped() const = 0;
};

namespace detail::encoded_source {
template <class S>
concept Describes = requires(const S& s) {
    { s.info() } -> std::same_as<EncodedInfo>;
};
template <class S>
concept Lists = requires(const S& s) {
    { s.entry(std::uint32_t{}) } -> std::same_as<EncodedEntry>;
};
template <class S>
concept Opens = requires(const S& s) {
    { s.open() } -> std::same_as<std::unique_ptr<EncodedReader>>;
};
}  // namespace detail::encoded_source

/// Labelled encoded images with global indices 0 ... count - 1, equal in every process of a run.
///
///     info()     count, classes and their names: the same in every process
///     entry(i)   what the index knows of sample i; reads no sample
///     open()     a reader; those of several threads may read at the same time
///
/// Every process knows the index of all samples and reads those of its own batches only, so that a
/// run may have more ranks than the source has files.
template <class S>
concept EncodedSource = detail::encoded_source::Describes<S> && detail::encoded_source::Lists<S> &&
                        detail::encoded_source::Opens<S>;

template <class S>
consteval bool explain_encoded_source() {
    static_assert(detail::encoded_source::Describes<S>,
                  "gx: not an EncodedSource: no 'gx::EncodedInfo info() const'. Runs are planned "
                  "with the count and the classes of the data. Fix: add it.");
    static_assert(detail::encoded_source::Lists<S>,
                  "gx: not an EncodedSource: no 'gx::EncodedEntry entry(uint32_t) const'. "
                  "Samples are listed by it. Fix: add it.");
    static_assert(detail::encoded_source::Opens<S>,
                  "gx: not an EncodedSource: no 'unique_ptr<gx::EncodedReader> open() const'. "
                  "Each thread reads through a reader of its own. Fix: add it.");
    return true;
}

namespace archetype {
/// The least type that models EncodedSource.
struct EncodedSource {
    EncodedInfo info() const;
    EncodedEntry entry(std::uint32_t index) const;
    std::unique_ptr<EncodedReader> open() const;
};
}  // namespace archetype
static_assert(explain_encoded_source<archetype::EncodedSource>());

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/loader/impl/encoded_source.ipp>
#endif
