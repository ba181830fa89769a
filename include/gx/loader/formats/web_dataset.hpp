// WebDataset: encoded images and their labels as neighbouring members of tar files.
#pragma once

#include <filesystem>        // path
#include <initializer_list>  // shards
#include <span>              // shards
#include <string>            // endings
#include <vector>            // endings

#include <gx/core/decl.hpp>                     // GX_DECL
#include <gx/loader/formats/encoded_files.hpp>  // EncodedFiles

namespace gx {

struct WebDatasetOptions : EncodedOptions {
    std::vector<std::string> image_endings{"jpg", "jpeg", "png"};  ///< in lower case
    std::string label_ending = "cls";                              ///< holds a whole number
};

/// Images in shards "key.jpg", "key.cls" of tar; models EncodedSource.
///
///     const gx::WebDataset train({"train-000.tar", "train-001.tar"});
///
/// Format: ustar, with GNU's and pax's long names and pax's sizes. The key of a member is its path
///         up to the first dot behind the last slash, the rest its ending. Neighbours of one key
///         are a sample: one image, one label, in any order, and other members, which are ignored,
///         as are folders, members "__...__" and links, but for those in place of an image or a
///         label of a sample.
/// Errors: corrupt records: a sample without an image or a label, with two, or with an empty image;
///         with a link in place of its image, its label or both, as tar has it for a file that it
///         has packed before, or with a sparse file; a label that is no whole number; a key that
///         the shard has had. A header of another checksum, a member that the file ends within, a
///         file without its end of zeros: the rest of that file is left out. gx::Error for a file
///         that is compressed.
/// Cost:   a read of 16 KiB or less for each member to make the index, and the keys of one shard;
///         the index has 24 bytes a sample and its key's length + 1.
/// Source: POSIX.1-2017, pax, "ustar Interchange Format"; GNU tar manual, "Basic Tar Format";
///         github.com/webdataset/webdataset, tariterators.py.
class WebDataset : public EncodedFiles {
public:
    GX_DECL explicit WebDataset(std::span<const std::filesystem::path> shards,
                                const WebDatasetOptions& options = {});
    explicit WebDataset(const std::filesystem::path& shard, const WebDatasetOptions& options = {})
        : WebDataset(std::span(&shard, 1), options) {}
    /// Braces around two names of files would else be one path, of two iterators.
    explicit WebDataset(std::initializer_list<std::filesystem::path> shards,
                        const WebDatasetOptions& options = {})
        : WebDataset(std::span(shards.begin(), shards.size()), options) {}
};
static_assert(explain_encoded_source<WebDataset>());

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/loader/formats/impl/web_dataset.ipp>
#endif
