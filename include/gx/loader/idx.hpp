// read_idx, fashion_mnist: IDX files, the format of MNIST and of Fashion-MNIST.
#pragma once

#include <cstdint>     // int64_t, uint8_t
#include <filesystem>  // paths
#include <string>      // sentences
#include <vector>      // sizes

#include <gx/core/decl.hpp>       // GX_DECL
#include <gx/loader/dataset.hpp>  // Dataset, Split

namespace gx {

/// An array of bytes. Shapes: bytes (sizes[0], sizes[1], ...), row-major.
struct IdxArray {
    std::vector<std::int64_t> sizes{};
    std::vector<std::uint8_t> bytes{};
};

/// Reads an IDX file of unsigned bytes with `dimensions` sizes, gzipped or plain.
/// Format: 0, 0, type (8: unsigned byte), number of sizes; the sizes, 32 bits each, most
///         significant byte first; the data.
/// Errors: gx::Error for a file that read_whole_file refuses, another magic number, or more or
///         fewer bytes than the sizes say; it names the file, what was expected and what was found.
/// Cost:   two passes over the file's start; unpacks one byte more than the sizes say at most.
/// Source: LeCun, Cortes, Burges, "The MNIST database of handwritten digits", file formats.
[[nodiscard]] GX_DECL IdxArray read_idx(const std::filesystem::path& file, int dimensions);

/// Reads a data set of one channel from a file each of images and labels. Its pixels are normalised
/// by their own mean and deviation.
/// Shapes: the files' images (count, H, W) and labels (count).
/// Errors: gx::Error as read_idx; for counts that differ; for the first label not below `classes`.
[[nodiscard]] GX_DECL Dataset read_idx_dataset(const std::filesystem::path& images,
                                               const std::filesystem::path& labels, int classes,
                                               std::string name);

/// Folder of Debian's package dataset-fashion-mnist.
inline constexpr const char* fashion_mnist_directory = "/usr/share/datasets/fashion-mnist";

/// Reads Fashion-MNIST: 60,000 training and 10,000 test images, 28 x 28, ten classes. Test images
/// are normalised by the mean and deviation of the training images.
/// Errors: gx::Error when a file is missing (with the package that has it), unreadable or damaged.
/// Source: Xiao, Rasul, Vollgraf 2017, arXiv:1708.07747.
[[nodiscard]] GX_DECL Split
fashion_mnist(const std::filesystem::path& directory = fashion_mnist_directory);

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/loader/impl/idx.ipp>
#endif
