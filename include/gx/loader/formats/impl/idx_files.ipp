// Images and labels of IDX files, where they lie.
#pragma once

#include <algorithm>  // max_element
#include <span>       // records
#include <utility>    // move
#include <vector>     // records

#include <fmt/core.h>  // sentences

#include <gx/core/error.hpp>                // Error
#include <gx/loader/detail/idx_header.hpp>  // idx_sizes, idx_volume
#include <gx/loader/detail/pixel_sums.hpp>  // PixelSums
#include <gx/loader/formats/idx_files.hpp>  // the declarations

namespace gx {

namespace detail::idx {

using File = std::shared_ptr<const RandomAccessFile>;

inline constexpr std::int64_t pixels_most = std::int64_t{1} << 28;  // of an image

/// Bytes before the data.
[[nodiscard]] constexpr std::uint64_t header_bytes(std::size_t dimensions) {
    return 4 + 4 * std::uint64_t{dimensions};
}
/// The sizes of a file, and that it has as many bytes.
[[nodiscard]] inline std::vector<std::int64_t> sizes_of(const RandomAccessFile& file,
                                                        std::size_t dimensions) {
    std::vector<std::uint8_t> header(header_bytes(dimensions));
    header.resize(file.read(0, header));
    if (header.size() >= 2 && header[0] == 0x1f && header[1] == 0x8b)
        throw Error("gx: " + file.path().string() +
                    ": it is packed by gzip, and images are read where they lie. Unpack it "
                    "(gunzip -k), or read it whole by read_idx_dataset.");
    std::vector<std::int64_t> sizes = loader::idx_sizes(file.path(), header, dimensions);
    const std::uint64_t expected = loader::idx_volume(file.path(), sizes, std::uint64_t{1} << 62),
                        found = file.bytes() - header.size();
    if (found != expected)
        loader::damaged(file.path(),
                        fmt::format("its header says {} bytes of data, found {}", expected, found));
    return sizes;
}
inline void read(const RandomAccessFile& file, std::uint64_t at, std::span<std::uint8_t> to) {
    if (const std::size_t found = file.read(at, to); found < to.size())
        loader::damaged(file.path(),
                        fmt::format("it ends within the {} bytes from byte {} on: it has become "
                                    "shorter since it was opened",
                                    to.size(), at));
}

class Reader final : public SampleReader {
public:
    Reader(File images, File labels, const ImageShape& shape)
        : images_(std::move(images)),
          labels_(std::move(labels)),
          shape_(shape),
          pixels_(static_cast<std::size_t>(shape.elements())) {}

    void read(std::span<const std::uint32_t> indices, std::span<Sample> out) override {
        records_.resize(indices.size() * pixels_);
        for (std::size_t i = 0; i < indices.size(); ++i) {
            const auto image = std::span(records_).subspan(i * pixels_, pixels_);
            std::uint8_t label = 0;
            idx::read(*images_, header_bytes(3) + std::uint64_t{indices[i]} * pixels_, image);
            idx::read(*labels_, header_bytes(1) + indices[i], std::span(&label, 1));
            out[i] = {image.data(), label, shape_};
        }
    }

private:
    File images_, labels_;
    ImageShape shape_;
    std::size_t pixels_;
    std::vector<std::uint8_t> records_{};  // of the last read
};

}  // namespace detail::idx

GX_DECL IdxFiles::IdxFiles(const std::filesystem::path& images, const std::filesystem::path& labels,
                           int classes, std::string name)
    : images_(std::make_shared<const RandomAccessFile>(images)),
      labels_(std::make_shared<const RandomAccessFile>(labels)) {
    using detail::loader::damaged;
    if (classes < 0)
        throw Error(
            fmt::format("gx: {}: classes is {}: expected how many there are, or 0 to count "
                        "them.",
                        labels.string(), classes));
    const auto sizes = detail::idx::sizes_of(*images_, 3),
               label = detail::idx::sizes_of(*labels_, 1);
    if (sizes[1] * sizes[2] > detail::idx::pixels_most)
        damaged(images, fmt::format("its header says images of {} x {}: expected at most {} pixels",
                                    sizes[1], sizes[2], detail::idx::pixels_most));
    detail::loader::expect_label_for_each(images, sizes[0], labels, label[0]);
    info_ = {.name = std::move(name),
             .count = sizes[0],
             .shape = {1, static_cast<int>(sizes[1]), static_cast<int>(sizes[2])}};
    const std::unique_ptr<SampleReader> reader = open();
    detail::loader::PixelSums sums(info_.shape);
    ContentHash content;
    std::vector<std::int64_t> counts(256);
    std::vector<Sample> sample(1);
    std::vector<std::uint8_t> hashed(2 + static_cast<std::size_t>(info_.shape.elements()));
    int largest = 0;
    for (std::int64_t i = 0; i < info_.count; ++i) {
        reader->read(std::vector{static_cast<std::uint32_t>(i)}, sample);
        const int of = sample[0].label;
        if (classes > 0 && of >= classes) detail::loader::wrong_label(labels, i, of, classes);
        hashed[0] = static_cast<std::uint8_t>(of);
        std::copy_n(sample[0].pixels, hashed.size() - 2, &hashed[2]);
        sums.add(&hashed[2]);
        content.add(hashed);
        ++counts[static_cast<std::size_t>(of)];
        largest = std::max(largest, of);
    }
    info_.classes = classes > 0 ? classes : std::max(2, largest + 1);
    sums.set(info_.mean, info_.deviation);
    content_ = content.value();
    largest_class_ = *std::ranges::max_element(counts);
}

GX_DECL void IdxFiles::name_classes(std::vector<std::string> names) {
    if (std::ssize(names) != info_.classes)
        throw Error(
            fmt::format("gx: {}: {} names for {} classes: give one for each of them, or "
                        "another number of classes",
                        info_.name, names.size(), info_.classes));
    info_.class_names = std::move(names);
}

GX_DECL std::unique_ptr<SampleReader> IdxFiles::open() const {
    return std::make_unique<detail::idx::Reader>(images_, labels_, info_.shape);
}

}  // namespace gx
