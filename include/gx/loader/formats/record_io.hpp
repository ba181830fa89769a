// RecordIo: encoded images in MXNet's RecordIO files; RecordIoWriter writes them.
#pragma once

#include <cstdint>           // uint64_t, uint8_t
#include <filesystem>        // path
#include <initializer_list>  // shards
#include <span>              // images
#include <string>            // texts
#include <string_view>       // names
#include <vector>            // shards

#include <gx/core/decl.hpp>                     // GX_DECL
#include <gx/io/atomic_file.hpp>                // AtomicFile
#include <gx/loader/formats/encoded_files.hpp>  // EncodedFiles

namespace gx {

struct RecordIoOptions : EncodedOptions {
    /// Files of lines "id <tab> label <tab> path", as MXNet's path_imglist. Their labels replace
    /// those of the records that have the same id, and their paths are the samples' names.
    std::vector<std::filesystem::path> lists{};
};

/// Images in shards that MXNet's im2rec or RecordIoWriter wrote; models EncodedSource.
///
///     const gx::RecordIo train({"train-0.rec", "train-1.rec"}, {{.classes = 1000}, {}});
///
/// Format: numbers are little-endian. A record is one part, or several of one whole: the magic
///         number in a record's data, at a multiple of 4 bytes, is left out and ends a part.
///
///     offset   bytes
///          0       4   magic number, 0xced7230a
///          4       4   upper 3 bits: 0 whole, 1 first part, 2 middle, 3 last; lower 29: length n
///          8       n   data, then 0 to 3 bytes up to a multiple of 4
///
///     data:        4   flag: 0, or how many labels follow the header
///                  4   label, fp32
///                 16   id, and a second id
///              4 flag  labels, fp32
///                      the encoded image
///
/// "x.idx" beside "x.rec" is used where it is there: its lines "key <tab> offset" are the records,
/// in their order; those between them are left out. Without it, records follow each other.
/// Errors: gx::Error for a compressed file, an index without a line or that points past the file,
///         twice the same key or offset, a record that no list has. Corrupt records: another magic
///         number, parts out of order, a record that the file ends within or that reaches into the
///         next of its index, other than one label, no image; together as one, those behind the
///         last that the index lists, as it is then cut. Behind a corrupt one, the next magic
///         number that begins a record is searched.
/// Cost:   one read of 16 KiB a record to make the index; see EncodedFiles.
/// Source: dmlc-core, include/dmlc/recordio.h; MXNet, python/mxnet/recordio.py.
class RecordIo : public EncodedFiles {
public:
    GX_DECL explicit RecordIo(std::span<const std::filesystem::path> shards,
                              const RecordIoOptions& options = {});
    explicit RecordIo(const std::filesystem::path& shard, const RecordIoOptions& options = {})
        : RecordIo(std::span(&shard, 1), options) {}
    /// Braces around two names of files would else be one path, of two iterators.
    explicit RecordIo(std::initializer_list<std::filesystem::path> shards,
                      const RecordIoOptions& options = {})
        : RecordIo(std::span(shards.begin(), shards.size()), options) {}
};
static_assert(explain_encoded_source<RecordIo>());

/// Writes "x.rec", and beside it "x.idx" and "x.lst"; ids count from 0, or from `first_id`.
/// Errors: gx::Error as AtomicFile's; for a record of 2^29 bytes or more, an empty image, a name
///         with a tab or a line's end.
class RecordIoWriter {
public:
    GX_DECL explicit RecordIoWriter(const std::filesystem::path& rec, std::uint64_t first_id = 0);

    GX_DECL void add(std::span<const std::uint8_t> image, int label, std::string_view name);
    GX_DECL void commit();

private:
    std::filesystem::path rec_path_;
    detail::AtomicFile rec_, idx_, lst_;
    std::uint64_t id_, at_ = 0;
    std::vector<std::uint8_t> data_{}, record_{};  // of the latest image
};

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/loader/formats/impl/record_io.ipp>
#endif
