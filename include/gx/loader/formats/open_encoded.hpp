// open_encoded: an encoded source of any format, chosen by file name.
#pragma once

#include <filesystem>   // path
#include <optional>     // format
#include <span>         // files
#include <string_view>  // names

#include <gx/core/decl.hpp>                     // GX_DECL
#include <gx/loader/formats/encoded_files.hpp>  // EncodedFiles

namespace gx {

enum class EncodedFormat : unsigned char { folder, recordio, tfrecord, webdataset };

/// "folder", "recordio", "tfrecord" or "webdataset".
[[nodiscard]] GX_DECL std::string_view to_string(EncodedFormat format);
/// Errors: gx::Error naming `name` and the nearest format.
[[nodiscard]] GX_DECL EncodedFormat encoded_format(std::string_view name);

/// The source of these files, or of one folder of images, as the format's own type opens it.
/// Without a format: a folder; "x.rec"; "x.tar"; other files are TFRecord, such as
/// "train-00000-of-01024".
/// Errors: as the type's; gx::Error for several folders.
[[nodiscard]] GX_DECL EncodedFiles open_encoded(std::span<const std::filesystem::path> paths,
                                                const EncodedOptions& options = {},
                                                std::optional<EncodedFormat> format = {});

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/loader/formats/impl/open_encoded.ipp>
#endif
