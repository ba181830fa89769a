// ImageFolder: encoded images in one folder a class.
#pragma once

#include <filesystem>  // path
#include <string>      // endings
#include <vector>      // endings

#include <gx/core/decl.hpp>                     // GX_DECL
#include <gx/loader/formats/encoded_files.hpp>  // EncodedFiles

namespace gx {

struct ImageFolderOptions : EncodedOptions {
    /// Files that end otherwise are no samples. In lower case; file names match in any.
    std::vector<std::string> endings{".jpg", ".jpeg", ".png"};
};

/// The images FOLDER/class/.../name.jpg; models EncodedSource.
///
///     const gx::ImageFolder train("imagenet/train");
///
/// Order:  classes are the folders in FOLDER, sorted by the bytes of their names; in each, its
///         folders sorted by their paths, then the files of each by name: torchvision's ImageFolder
///         gives the same index, apart from endings that it takes besides (.ppm, .bmp, ...).
///         Symbolic links are followed.
/// Errors: gx::Error for a folder without classes, classes without images (all are named), a folder
///         that contains itself by a symbolic link, a number of class folders other than `classes`,
///         a link to nothing among the class folders, with OnCorrupt::skip, too: without its class
///         labels would shift. Within classes, a link to nothing of any name and a pipe or a device
///         under an image's name are corrupt records, as an empty file is when it is read.
/// Cost:   lists every folder, opens no image. 24 bytes a sample, and the name's length + 1.
class ImageFolder : public EncodedFiles {
public:
    GX_DECL explicit ImageFolder(const std::filesystem::path& folder);
    GX_DECL ImageFolder(const std::filesystem::path& folder, const ImageFolderOptions& options);
};
static_assert(explain_encoded_source<ImageFolder>());

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/loader/formats/impl/image_folder.ipp>
#endif
