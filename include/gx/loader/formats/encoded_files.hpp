// EncodedFiles: what the sources of encoded images in files share: index, options, reader.
#pragma once

#include <cstdint>      // uint64_t
#include <filesystem>   // path
#include <functional>   // function
#include <memory>       // shared_ptr
#include <span>         // records
#include <stdexcept>    // runtime_error
#include <string>       // names
#include <string_view>  // string_view
#include <utility>      // move
#include <vector>       // records

#include <gx/core/decl.hpp>              // GX_DECL
#include <gx/core/error.hpp>             // Error
#include <gx/loader/encoded_source.hpp>  // EncodedSource

namespace gx {

/// Choices that the formats share.
struct EncodedOptions {
    std::string name{};   ///< of the source; empty: that of its folder or first file
    int classes = 0;      ///< labels are below; 0: as many as have names, else the largest + 1
    int first_label = 0;  ///< stored label of class 0, such as 1 in ImageNet's TFRecords
    OnCorrupt on_corrupt = OnCorrupt::stop;
    /// One a class, from class 0 on; a checkpoint keeps them, and predictions print them. Empty: of
    /// a folder the names of its class folders; of shards those in PREFIX.classes.txt beside them,
    /// a line each, where there is one: train.classes.txt of train-00000-of-00064.rec.
    std::vector<std::string> class_names{};
};

namespace detail::encoded {

/// One sample of an index.
struct Record {
    std::uint64_t offset;  ///< in its file
    std::uint32_t bytes;   ///< 0: a whole file
    std::uint32_t file;    ///< number of the file, or of the folder of a whole file
    std::int32_t label;
    std::uint32_t name;  ///< position in Index::names
};
static_assert(sizeof(Record) == 24, "stated as the cost of every index");

/// In sentences that advise it: Decoded has an option of the same name, which is of images.
inline constexpr std::string_view skip_option =
    "with on_corrupt = OnCorrupt::skip in the options of the source (EncodedOptions)";
/// A sentence with `words` in place of skip_option: a program has options of its own.
[[nodiscard]] GX_DECL std::string with_skip_option(std::string sentence, std::string_view words);

/// Corrupt data, which OnCorrupt::skip leaves out.
class CorruptRecord : public Error {
public:
    using Error::Error;
};

/// What is wrong with a record, without its place.
class Flaw : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// Text of a file between quotation marks, as a sentence shows it: what ends a text or moves a
/// terminal's cursor is written as JSON has it.
[[nodiscard]] GX_DECL std::string quoted_text(std::string_view text);

/// The encoded image in the bytes of a record, which may be moved. Throws Flaw.
using Extract = std::function<std::span<const std::uint8_t>(std::span<std::uint8_t> record)>;

/// All samples of a source, without their data.
struct Index {
    EncodedInfo info{};
    EncodedOptions options{};
    std::string named_by{};                   ///< the file of the class names
    std::vector<std::string> files{};         ///< or folders of whole files
    std::vector<std::uint64_t> file_bytes{};  ///< when it was made
    std::vector<Record> records{};
    std::string names = std::string(1, '\0');  ///< each ended by a 0
    SkippedRecords skipped{};
    Extract extract{};  ///< none: records are whole files, or images as they are

    [[nodiscard]] bool whole_files() const { return file_bytes.empty(); }
    [[nodiscard]] const char* name_of(const Record& r) const { return &names[r.name]; }
    /// Names the classes as the options do or, where those have no names, the files beside shards.
    /// Errors: gx::Error for names of another number of classes than the options have, or that
    ///         differ between shards.
    GX_DECL void name_classes(std::span<const std::filesystem::path> shards);
    /// Appends a record with its label as it is stored.
    /// Errors: CorruptRecord, for a label that is out of range.
    GX_DECL void add(Record record, double stored_label, std::string_view name);
    /// Counts `e`, or throws it again, as the options have it.
    GX_DECL void skip(const CorruptRecord& e);
    /// Sets the info, from the records. Errors: gx::Error if there are none.
    GX_DECL void finish();
    [[noreturn]] GX_DECL void corrupt(std::uint32_t file, std::uint64_t offset,
                                      const std::string& what) const;
    /// Returns f(). Errors: CorruptRecord with this place, for its Flaw.
    template <class F>
    auto at(std::uint32_t file, std::uint64_t offset, const F& f) const {
        try {
            return f();
        } catch (const Flaw& flaw) {
            corrupt(file, offset, flaw.what());
        }
    }
};

}  // namespace detail::encoded

/// Encoded images in files, known by an index in memory; the base of the formats beside it.
///
/// Errors: reading: gx::Error for a file that has gone or has another size than when its index was
///         made, whatever OnCorrupt says; corrupt records as OnCorrupt says.
/// Cost:   24 bytes a sample and process; beside them, the names of whole files, of the keys of a
///         tar and of lists (their lengths + 1). A reader keeps up to 32 files open, and as many
///         buffers as it was asked for samples at once, each as large as its largest sample.
class EncodedFiles {
public:
    [[nodiscard]] EncodedInfo info() const { return index_->info; }
    [[nodiscard]] GX_DECL EncodedEntry entry(std::uint32_t index) const;
    [[nodiscard]] GX_DECL std::unique_ptr<EncodedReader> open() const;
    /// Samples of the most frequent class.
    [[nodiscard]] GX_DECL std::int64_t largest_class() const;
    /// Records that were corrupt when the index was made, and are no samples.
    [[nodiscard]] const SkippedRecords& skipped() const { return index_->skipped; }

protected:
    explicit EncodedFiles(detail::encoded::Index index)
        : index_(std::make_shared<const detail::encoded::Index>(std::move(index))) {}

private:
    std::shared_ptr<const detail::encoded::Index> index_;  // all readers' own
};
static_assert(explain_encoded_source<EncodedFiles>());

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/loader/formats/impl/encoded_files.ipp>
#endif
