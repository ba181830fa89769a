// Headers, sizes and labels of IDX files, checked to the byte.
#pragma once

#include <cstdint>       // uint32_t
#include <span>          // a header
#include <system_error>  // error_code
#include <utility>       // move

#include <gx/core/error.hpp>  // Error
#include <gx/io/gzip.hpp>     // read_whole_file
#include <gx/loader/idx.hpp>  // read_idx

namespace gx {

namespace detail::loader {

[[nodiscard]] inline std::uint32_t big_endian(std::span<const std::uint8_t, 4> b) {
    return std::uint32_t{b[0]} << 24 | std::uint32_t{b[1]} << 16 | std::uint32_t{b[2]} << 8 | b[3];
}

/// The product of `sizes`, as many bytes as the data must have.
[[nodiscard]] inline std::uint64_t volume(const std::filesystem::path& file,
                                          const std::vector<std::int64_t>& sizes) {
    constexpr std::uint64_t most = std::uint64_t{1} << 31;  // times a size of 32 bits: no overflow
    std::uint64_t product = 1;
    for (const std::int64_t size : sizes) {
        if (size < 1) damaged(file, "its header has a size of 0: expected at least 1");
        product *= static_cast<std::uint64_t>(size);
        if (product > most) damaged(file, "its header asks for more than 2 GiB of data");
    }
    return product;
}

}  // namespace detail::loader

GX_DECL IdxArray read_idx(const std::filesystem::path& file, int dimensions) {
    using detail::loader::damaged;
    const std::size_t header = 4 + 4 * static_cast<std::size_t>(dimensions);
    FileBytes bytes = read_whole_file(file, header);
    const auto word = [&](std::size_t i) {
        return detail::loader::big_endian(std::span(bytes).subspan(4 * i).first<4>());
    };
    const std::uint32_t magic = 0x800u + static_cast<std::uint32_t>(dimensions);
    if (bytes.size() >= 4 && word(0) != magic)
        damaged(file, "expected the magic number " + std::to_string(magic) +
                          " (IDX, unsigned bytes, sizes: " + std::to_string(dimensions) +
                          "), found " + std::to_string(word(0)));
    if (bytes.size() < header)
        damaged(file, "expected an IDX header of " + std::to_string(header) + " bytes, found " +
                          std::to_string(bytes.size()) + " bytes");
    IdxArray array;
    for (std::size_t i = 1; i <= static_cast<std::size_t>(dimensions); ++i)
        array.sizes.push_back(word(i));
    const std::uint64_t expected = detail::loader::volume(file, array.sizes);
    bytes = read_whole_file(file, header + expected + 1);
    const std::size_t found = bytes.size() - header;
    if (found != expected)
        damaged(file, "its header says " + std::to_string(expected) + " bytes of data, found " +
                          (found > expected ? "more" : std::to_string(found)));
    bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header));
    array.bytes = std::move(bytes);
    return array;
}

GX_DECL Dataset read_idx_dataset(const std::filesystem::path& images,
                                 const std::filesystem::path& labels, int classes,
                                 std::string name) {
    IdxArray pixels = read_idx(images, 3);
    IdxArray label = read_idx(labels, 1);
    if (pixels.sizes[0] != label.sizes[0])
        detail::loader::damaged(labels, "expected one label for each of the " +
                                            std::to_string(pixels.sizes[0]) + " images of " +
                                            images.string() + ", found " +
                                            std::to_string(label.sizes[0]) + " labels");
    for (std::size_t i = 0; i < label.bytes.size(); ++i)
        if (label.bytes[i] >= classes)
            detail::loader::damaged(labels, "label " + std::to_string(i) + " is " +
                                                std::to_string(label.bytes[i]) +
                                                ": expected 0 to " + std::to_string(classes - 1));
    Dataset data{.name = std::move(name),
                 .shape = {1, static_cast<int>(pixels.sizes[1]), static_cast<int>(pixels.sizes[2])},
                 .classes = classes,
                 .pixels = std::move(pixels.bytes),
                 .labels = std::move(label.bytes)};
    normalise_as(data, data);
    return data;
}

GX_DECL Split fashion_mnist(const std::filesystem::path& directory) {
    const auto find = [&](const std::string& name) {
        for (const char* ending : {".gz", ""}) {
            const auto file = directory / (name + ending);
            std::error_code hidden;  // a folder that may not be entered: reading says so
            if (std::filesystem::exists(file, hidden) || hidden) return file;
        }
        throw Error("gx: " + (directory / name).string() +
                    ": there is no such file, gzipped (.gz) or plain. Install the Debian package "
                    "dataset-fashion-mnist (apt-get install dataset-fashion-mnist), or give the "
                    "folder that has it.");
    };
    const auto part = [&](const std::string& prefix) {
        const auto images = find(prefix + "-images-idx3-ubyte");
        return read_idx_dataset(images, find(prefix + "-labels-idx1-ubyte"), 10, "fashion-mnist");
    };
    Split split{part("train"), part("t10k")};
    if (split.train.shape != split.test.shape)
        throw Error("gx: " + directory.string() +
                    ": training and test images differ in size. They are not of one data set: "
                    "install dataset-fashion-mnist again.");
    normalise_as(split.test, split.train);
    return split;
}

}  // namespace gx
