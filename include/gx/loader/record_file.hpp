// RecordFile: source of 8-bit images in one file; a rank reads its share.
#pragma once

#include <cstdint>     // int64_t
#include <filesystem>  // path
#include <memory>      // unique_ptr, shared_ptr
#include <vector>      // header

#include <gx/core/decl.hpp>              // GX_DECL
#include <gx/io/random_access_file.hpp>  // RandomAccessFile
#include <gx/loader/source.hpp>          // Source, SourceInfo

namespace gx {

/// Labelled images of one shape in a file of records of one length; models Source.
///
///     gx::write_records("train.gxr", gx::fashion_mnist().train);   // once
///     const gx::RecordFile train("train.gxr"), test("test.gxr");   // in each process
///     trainer.train(world, gx::Sources{train, test});
///
/// Format: numbers are little-endian.
///
///     offset   bytes
///          0       8   "gxrecord"
///          8       4   version, 2
///         12      16   channels C, height H, width W, classes: 4 bytes each
///         28       4   0
///         32       8   count of records
///         40       8   records of the most frequent class
///         48       8   ContentHash of the records
///         56     8 C   mean of each channel, then deviation of each: fp32, of pixels / 255
///    56 + 8C       8   checksum of the header: XXH3 (64 bits) of all bytes before
///    64 + 8C           records: label (2 bytes), then pixels (C, H, W) row-major, then 8 bytes of
///                      checksum: XXH3 of label and pixels, plus the record's index, from 0
///
/// One open file serves all readers: a path that later names another file changes nothing. The
/// ContentHash is of what was written, and is compared between ranks. Each read compares its
/// record's checksum.
/// Errors: gx::Error naming the file and the field or record, what was expected and found: for a
///         file that can't be read, another format, a header out of range or with another checksum,
///         and more or fewer bytes than the header says; a read's, where it meets the end, and for
///         a record with another checksum.
/// Cost:   an open file and the header; a reader has room for one batch, and reads each sample by a
///         system call of its own. From the page cache of a Zen 4, a sample of 3 x 224 x 224 takes
///         23 us, of which its checksum 8, and one of 3 x 32 x 32 1.3 us, of which 0.2.
class RecordFile {
public:
    explicit RecordFile(const std::filesystem::path& path);

    [[nodiscard]] SourceInfo info() const { return info_; }
    [[nodiscard]] std::unique_ptr<SampleReader> open() const;
    [[nodiscard]] std::int64_t largest_class() const { return largest_class_; }
    /// As its writer found it.
    [[nodiscard]] std::uint64_t content() const { return content_; }

private:
    std::shared_ptr<const RandomAccessFile> file_;  // all readers' own
    SourceInfo info_{};
    std::int64_t largest_class_ = 0;
    std::uint64_t content_ = 0;
};
static_assert(explain_source<RecordFile>());

/// Writes all samples of `source`, whole or not at all.
/// Errors: gx::Error as AtomicFile's, and of the source; for more than 65536 classes or 2^32 - 1
///         samples, for a source that mixes images, and for one of numbers in place of pixels.
///         Class names are not kept.
/// Cost:   two passes over the source, 256 samples at a time in memory.
GX_DECL void write_records(const std::filesystem::path& path, SourceRef source);

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/loader/impl/record_file.ipp>
#endif
