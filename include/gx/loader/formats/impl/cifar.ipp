// Records of CIFAR-10 and CIFAR-100.
#pragma once

#include <algorithm>     // max_element, upper_bound, copy
#include <array>         // batches
#include <filesystem>    // equivalent
#include <string>        // names
#include <system_error>  // error_code
#include <utility>       // move
#include <vector>        // class names

#include <fmt/core.h>  // sentences

#include <gx/core/error.hpp>                // Error
#include <gx/loader/class_names.hpp>        // read_class_names
#include <gx/loader/detail/pixel_sums.hpp>  // PixelSums
#include <gx/loader/formats/cifar.hpp>      // the declarations

namespace gx {

namespace detail::cifar {

inline constexpr std::size_t pixels = 3 * 32 * 32;

/// Bytes before the pixels, and which of them is the label.
struct Layout {
    std::size_t labels, label;
    int classes;
    [[nodiscard]] constexpr std::size_t record() const { return labels + pixels; }
};
[[nodiscard]] constexpr Layout layout_of(CifarLabels labels) {
    if (labels == CifarLabels::coarse20) return {2, 0, 20};
    if (labels == CifarLabels::fine100) return {2, 1, 100};
    return {1, 0, 10};
}

using File = std::shared_ptr<const RandomAccessFile>;

[[noreturn]] inline void wrong(const RandomAccessFile& file, const std::string& what) {
    throw Error(fmt::format("gx: CIFAR file '{}' {}", file.path().string(), what));
}
/// Records of a file, by its size.
[[nodiscard]] inline std::uint64_t records_of(const RandomAccessFile& file, const Layout& layout) {
    if (file.bytes() == 0 || file.bytes() % layout.record() != 0)
        wrong(file, fmt::format("has {} bytes: expected records of {} bytes. It was not copied "
                                "whole, or holds the other of CIFAR-10 and CIFAR-100.",
                                file.bytes(), layout.record()));
    return file.bytes() / layout.record();
}
inline void read_record(const RandomAccessFile& file, std::uint64_t number, const Layout& layout,
                        std::span<std::uint8_t> to) {
    const std::uint64_t at = number * layout.record();
    if (const std::size_t found = file.read(at, to); found < to.size())
        wrong(file, fmt::format("ends within record {} at byte {}: expected {} bytes, found {}. "
                                "It has become shorter since it was opened: copy it again.",
                                number, at, to.size(), found));
    if (to[layout.label] >= layout.classes)
        wrong(file, fmt::format("has label {} in record {} at byte {}: expected 0 to {}. Copy it "
                                "again.",
                                to[layout.label], number, at, layout.classes - 1));
}

class Reader final : public SampleReader {
public:
    Reader(std::vector<File> files, CifarLabels labels, const SourceInfo& info)
        : files_(std::move(files)), layout_(layout_of(labels)), shape_(info.shape) {
        std::uint64_t end = 0;
        for (const File& file : files_) ends_.push_back(end += records_of(*file, layout_));
    }

    void read(std::span<const std::uint32_t> indices, std::span<Sample> out) override {
        records_.resize(indices.size() * layout_.record());
        for (std::size_t i = 0; i < indices.size(); ++i) {
            const auto at = std::ranges::upper_bound(ends_, std::uint64_t{indices[i]});
            const auto file = static_cast<std::size_t>(at - ends_.begin());
            const std::uint64_t first = file == 0 ? 0 : ends_[file - 1];
            const auto record = std::span(records_).subspan(i * layout_.record(), layout_.record());
            read_record(*files_.at(file), indices[i] - first, layout_, record);
            out[i] = {&record[layout_.labels], record[layout_.label], shape_};
        }
    }

private:
    std::vector<File> files_;
    Layout layout_;
    ImageShape shape_;
    std::vector<std::uint64_t> ends_{};    // records up to the end of each file
    std::vector<std::uint8_t> records_{};  // of the last read
};

[[nodiscard]] inline CifarSplit split(std::span<const std::filesystem::path> train,
                                      const std::filesystem::path& test, CifarLabels labels,
                                      const std::filesystem::path& list) {
    std::vector<std::string> names;
    std::error_code hidden;
    if (std::filesystem::exists(list, hidden)) names = read_class_names(list);
    if (const int classes = layout_of(labels).classes;
        !names.empty() && std::ssize(names) != classes)
        throw Error(
            fmt::format("gx: CIFAR file '{}' names {} classes: expected {}. Copy it again, "
                        "or remove it.",
                        list.string(), names.size(), classes));
    CifarSplit both{Cifar(train, labels, names), Cifar(std::span(&test, 1), labels, names)};
    both.test.normalise_as(both.train);
    return both;
}

}  // namespace detail::cifar

GX_DECL Cifar::Cifar(std::span<const std::filesystem::path> files, CifarLabels labels,
                     std::vector<std::string> class_names)
    : labels_(labels) {
    using namespace detail::cifar;
    if (files.empty()) throw Error("gx: CIFAR: a source of 0 files: expected at least one.");
    const Layout layout = layout_of(labels);
    if (!class_names.empty() && std::ssize(class_names) != layout.classes)
        throw Error(fmt::format("gx: CIFAR: {} names for {} classes: give one for each of them.",
                                class_names.size(), layout.classes));
    info_ = {.name = labels == CifarLabels::ten ? "cifar-10" : "cifar-100",
             .shape = {3, 32, 32},
             .classes = layout.classes,
             .class_names = std::move(class_names)};
    detail::loader::PixelSums sums(info_.shape);
    ContentHash content;
    std::vector<std::int64_t> counts(std::size_t(layout.classes));
    std::vector<std::uint8_t> record(layout.record()), hashed(2 + pixels);
    for (const auto& path : files) {
        std::error_code none;
        for (const File& other : files_)
            if (std::filesystem::equivalent(path, other->path(), none))
                wrong(*other, "is given twice: name each file once.");
        files_.push_back(std::make_shared<const RandomAccessFile>(path));
        const std::uint64_t count = records_of(*files_.back(), layout);
        for (std::uint64_t i = 0; i < count; ++i) {
            read_record(*files_.back(), i, layout, record);
            hashed[0] = record[layout.label];
            std::ranges::copy(std::span(record).subspan(layout.labels), &hashed[2]);
            sums.add(&hashed[2]);
            content.add(hashed);
            ++counts[hashed[0]];
        }
        info_.count += static_cast<std::int64_t>(count);
    }
    sums.set(info_.mean, info_.deviation);
    content_ = content.value();
    largest_class_ = *std::ranges::max_element(counts);
}

GX_DECL std::unique_ptr<SampleReader> Cifar::open() const {
    return std::make_unique<detail::cifar::Reader>(files_, labels_, info_);
}

GX_DECL CifarSplit cifar10(const std::filesystem::path& folder) {
    std::array<std::filesystem::path, 5> train;
    for (std::size_t i = 0; i < train.size(); ++i)
        train[i] = folder / fmt::format("data_batch_{}.bin", i + 1);
    return detail::cifar::split(train, folder / "test_batch.bin", CifarLabels::ten,
                                folder / "batches.meta.txt");
}

GX_DECL CifarSplit cifar100(const std::filesystem::path& folder, CifarLabels labels) {
    const std::filesystem::path train = folder / "train.bin";
    const bool coarse = labels == CifarLabels::coarse20;
    return detail::cifar::split(
        std::span(&train, 1), folder / "test.bin", labels,
        folder / (coarse ? "coarse_label_names.txt" : "fine_label_names.txt"));
}

}  // namespace gx
