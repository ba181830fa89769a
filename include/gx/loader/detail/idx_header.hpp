// idx_sizes, idx_volume: the header of an IDX file, and what labels have to be.
#pragma once

#include <cstdint>     // uint32_t
#include <filesystem>  // path
#include <span>        // a header
#include <string>      // sentences
#include <vector>      // sizes

#include <gx/core/error.hpp>  // Error
#include <gx/io/gzip.hpp>     // damaged

namespace gx::detail::loader {

[[nodiscard]] inline std::uint32_t big_endian(std::span<const std::uint8_t, 4> b) {
    return std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 | std::uint32_t{b[2]} << 8 | b[3];
}

/// The product of `sizes`, as many bytes as the data must have; not above `most`.
[[nodiscard]] inline std::uint64_t idx_volume(const std::filesystem::path& file,
                                              const std::vector<std::int64_t>& sizes,
                                              std::uint64_t most) {
    std::uint64_t product = 1;
    for (const std::int64_t size : sizes) {
        if (size < 1) damaged(file, "its header has a size of 0: expected at least 1");
        const auto factor = static_cast<std::uint64_t>(size);
        if (product > most / factor)
            damaged(file,
                    "its header asks for more than " + std::to_string(most >> 30) + " GiB of data");
        product *= factor;
    }
    return product;
}

/// The dimensions of the array, from the header of its file.
[[nodiscard]] inline std::vector<std::int64_t> idx_sizes(const std::filesystem::path& file,
                                                         std::span<const std::uint8_t> header,
                                                         std::size_t dimensions) {
    const auto word = [&](std::size_t i) { return big_endian(header.subspan(4 * i).first<4>()); };
    const std::uint32_t magic = 0x800u + static_cast<std::uint32_t>(dimensions);
    const std::string expected = "expected the magic number " + std::to_string(magic) +
                                 " (IDX, unsigned bytes, sizes: " + std::to_string(dimensions) +
                                 "), found ";
    if (header.size() >= 4 && word(0) >> 8 == 8 && word(0) != magic)
        throw Error("gx: " + file.string() + ": " + expected + std::to_string(word(0)) +
                    ", an array of other dimensions. Are the files of images (3 sizes) and of "
                    "labels (1 size) in each other's place?");
    if (header.size() >= 4 && word(0) != magic) damaged(file, expected + std::to_string(word(0)));
    if (const std::size_t bytes = 4 + 4 * dimensions; header.size() < bytes)
        damaged(file, "expected an IDX header of " + std::to_string(bytes) + " bytes, found " +
                          std::to_string(header.size()) + " bytes");
    std::vector<std::int64_t> sizes;
    for (std::size_t i = 1; i <= dimensions; ++i) sizes.push_back(word(i));
    return sizes;
}

inline void expect_label_for_each(const std::filesystem::path& images, std::int64_t image_count,
                                  const std::filesystem::path& labels, std::int64_t label_count) {
    if (image_count != label_count)
        throw Error("gx: " + labels.string() + ": expected one label for each of the " +
                    std::to_string(image_count) + " images of " + images.string() + ", found " +
                    std::to_string(label_count) +
                    " labels. Take both files of one part, train or t10k.");
}
[[noreturn]] inline void wrong_label(const std::filesystem::path& labels, std::int64_t index,
                                     int label, int classes) {
    throw Error("gx: " + labels.string() + ": label " + std::to_string(index) + " is " +
                std::to_string(label) + ": expected 0 to " + std::to_string(classes - 1) +
                ", as there are " + std::to_string(classes) +
                " classes. Give as many as the data set has, or get the file again.");
}

}  // namespace gx::detail::loader
