// Names of formats, and the types that they stand for.
#pragma once

#include <algorithm>     // find
#include <array>         // names
#include <string>        // sentences
#include <system_error>  // error_code

#include <gx/io/nearest.hpp>                     // unknown_name
#include <gx/loader/formats/detail/scanner.hpp>  // Scanner
#include <gx/loader/formats/image_folder.hpp>    // ImageFolder
#include <gx/loader/formats/open_encoded.hpp>    // the declarations
#include <gx/loader/formats/record_io.hpp>       // RecordIo
#include <gx/loader/formats/tf_record.hpp>       // TfRecord
#include <gx/loader/formats/web_dataset.hpp>     // WebDataset

namespace gx {

namespace detail::encoded {

inline constexpr std::array<std::string_view, 4> formats{"folder", "recordio", "tfrecord",
                                                         "webdataset"};

[[nodiscard]] inline EncodedFormat format_of(const std::filesystem::path& path) {
    std::error_code hidden;  // opening says what is wrong
    if (std::filesystem::is_directory(path, hidden)) return EncodedFormat::folder;
    if (path.extension() == ".rec") return EncodedFormat::recordio;
    if (path.extension() == ".tar") return EncodedFormat::webdataset;
    return EncodedFormat::tfrecord;
}

/// Of files whose names do not say it: an error tells what they were taken for, or look like.
[[nodiscard]] inline EncodedFiles open_as_tf_record(std::span<const std::filesystem::path> paths,
                                                    const EncodedOptions& options) {
    try {
        return TfRecord(paths, TfRecordOptions{options});
    } catch (const Error& e) {
        std::error_code hidden;
        if (!std::filesystem::is_regular_file(paths[0], hidden)) throw;
        Scanner scanner(paths[0]);
        const auto head = scanner.view(0, 4);
        if (head.size() == 4 && head[0] == 0 && head[1] == 0 && head[2] == 8)
            throw Error(std::string(e.what()) + " It begins as an IDX file of " +
                        std::to_string(head[3]) +
                        " sizes does, which holds no encoded images: IdxFiles reads pixels, of 3 "
                        "sizes, and labels, of 1.");
        const std::string ending = paths[0].extension().string();
        if (ending.empty() || ending.starts_with(".tfrecord")) throw;
        throw Error(std::string(e.what()) + " It was read as TFRecord, since '" + ending +
                    "' is the ending of no other format: .rec is RecordIO's, .tar a WebDataset's.");
    }
}

}  // namespace detail::encoded

GX_DECL std::string_view to_string(EncodedFormat format) {
    return detail::encoded::formats[static_cast<std::size_t>(format)];
}

GX_DECL EncodedFormat encoded_format(std::string_view name) {
    const auto& formats = detail::encoded::formats;
    const auto at = std::ranges::find(formats, name);
    if (at == formats.end()) throw Error("gx: " + unknown_name("format", name, formats));
    return static_cast<EncodedFormat>(at - formats.begin());
}

GX_DECL EncodedFiles open_encoded(std::span<const std::filesystem::path> paths,
                                  const EncodedOptions& options,
                                  std::optional<EncodedFormat> format) {
    if (paths.empty()) throw Error("gx: a source of 0 files: expected at least one.");
    if (!format && detail::encoded::format_of(paths[0]) == EncodedFormat::tfrecord)
        return detail::encoded::open_as_tf_record(paths, options);
    switch (format.value_or(detail::encoded::format_of(paths[0]))) {
        case EncodedFormat::recordio: return RecordIo(paths, RecordIoOptions{options, {}});
        case EncodedFormat::tfrecord: return TfRecord(paths, TfRecordOptions{options});
        case EncodedFormat::webdataset: return WebDataset(paths, WebDatasetOptions{options});
        case EncodedFormat::folder: break;
    }
    if (paths.size() > 1)
        throw Error("gx: image folder '" + paths[1].string() +
                    "' is one too many: expected one folder, which holds all classes.");
    return ImageFolder(paths[0], ImageFolderOptions{options});
}

}  // namespace gx
