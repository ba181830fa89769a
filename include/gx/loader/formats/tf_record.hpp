// TfRecord: encoded images in TFRecord files of tf.train.Example; TfRecordWriter writes them.
#pragma once

#include <cstdint>           // uint8_t
#include <filesystem>        // path
#include <initializer_list>  // shards
#include <span>              // images
#include <string>            // keys
#include <string_view>       // names
#include <vector>            // bytes

#include <gx/core/decl.hpp>                     // GX_DECL
#include <gx/io/atomic_file.hpp>                // AtomicFile
#include <gx/loader/formats/encoded_files.hpp>  // EncodedFiles

namespace gx {

struct TfRecordOptions : EncodedOptions {
    std::string image_key = "image/encoded", label_key = "image/class/label";
};

/// Images in shards of tf.train.Example; models EncodedSource.
///
///     // ImageNet's labels are 1 to 1000.
///     const gx::TfRecord train(shards, {{.classes = 1000, .first_label = 1}});
///
/// Format: numbers are little-endian.
///
///     offset   bytes
///          0       8   length n
///          8       4   masked CRC-32C of the length: (crc >> 15 | crc << 17) + 0xa282ead8
///         12       n   a tf.train.Example: in its map of features, one bytes value under the
///                      image's key, and one int64 under the label's
///     12 + n       4   masked CRC-32C of these n bytes
///
/// The CRC of a length is checked when the index is made, that of the data whenever it is read.
/// Errors: gx::Error for a compressed file. Corrupt records: another CRC, a record that the file
///         ends within, a message that is none, other than one image and one label. Behind a
///         corrupt length nothing tells where the next record begins: the rest of that file is
///         left out.
/// Cost:   one read of 16 KiB a record and more to make the index; see EncodedFiles.
/// Source: tensorflow.org/tutorials/load_data/tfrecord; example.proto and feature.proto in
///         tensorflow/core/example.
class TfRecord : public EncodedFiles {
public:
    GX_DECL explicit TfRecord(std::span<const std::filesystem::path> shards,
                              const TfRecordOptions& options = {});
    explicit TfRecord(const std::filesystem::path& shard, const TfRecordOptions& options = {})
        : TfRecord(std::span(&shard, 1), options) {}
    /// Braces around two names of files would else be one path, of two iterators.
    explicit TfRecord(std::initializer_list<std::filesystem::path> shards,
                      const TfRecordOptions& options = {})
        : TfRecord(std::span(shards.begin(), shards.size()), options) {}
};
static_assert(explain_encoded_source<TfRecord>());

/// Writes a shard of examples with ImageNet's keys image/encoded, image/class/label and
/// image/filename.
/// Errors: gx::Error as AtomicFile's; for an empty image, or one of 2 GiB or more.
class TfRecordWriter {
public:
    explicit TfRecordWriter(const std::filesystem::path& path) : file_(path) {}

    GX_DECL void add(std::span<const std::uint8_t> image, int label, std::string_view name);
    void commit() { file_.commit(); }

private:
    detail::AtomicFile file_;
};

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/loader/formats/impl/tf_record.ipp>
#endif
