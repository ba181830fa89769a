// Headers, sizes and labels of IDX files, checked to the byte.
#pragma once

#include <system_error>  // error_code
#include <utility>       // move

#include <gx/core/error.hpp>                // Error
#include <gx/io/gzip.hpp>                   // read_whole_file
#include <gx/loader/detail/idx_header.hpp>  // idx_sizes, idx_volume
#include <gx/loader/idx.hpp>                // read_idx

namespace gx {

GX_DECL IdxArray read_idx(const std::filesystem::path& file, int dimensions) {
    using detail::loader::damaged;
    const std::size_t header = 4 + 4 * static_cast<std::size_t>(dimensions);
    FileBytes bytes = read_whole_file(file, header);
    IdxArray array;
    array.sizes = detail::loader::idx_sizes(file, bytes, static_cast<std::size_t>(dimensions));
    const std::uint64_t expected =
        detail::loader::idx_volume(file, array.sizes, std::uint64_t{1} << 31);
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
    detail::loader::expect_label_for_each(images, pixels.sizes[0], labels, label.sizes[0]);
    for (std::size_t i = 0; i < label.bytes.size(); ++i)
        if (label.bytes[i] >= classes)
            detail::loader::wrong_label(labels, static_cast<std::int64_t>(i), label.bytes[i],
                                        classes);
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
        const auto labels = find(prefix + "-labels-idx1-ubyte");
        try {
            return read_idx_dataset(images, labels, 10, "fashion-mnist");
        } catch (const Error& e) {
            if (directory != fashion_mnist_directory) throw;
            throw Error(std::string(e.what()) +
                        " These files are of a Debian package: apt-get "
                        "install --reinstall dataset-fashion-mnist.");
        }
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
