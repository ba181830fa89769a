// Headers and records of record files.
#pragma once

#include <algorithm>  // min, max_element, copy
#include <bit>        // bit_cast
#include <limits>     // largest sizes
#include <numeric>    // iota
#include <string>     // sentences
#include <utility>    // move

#include <fmt/core.h>  // sentences

#include <gx/core/cold.hpp>                    // GX_COLD
#include <gx/core/error.hpp>                   // Error
#include <gx/core/hash_bits.hpp>               // hash_bytes
#include <gx/io/atomic_file.hpp>               // AtomicFile
#include <gx/loader/detail/little_endian.hpp>  // number_at, put
#include <gx/loader/record_file.hpp>           // the declarations

namespace gx {

namespace detail::record_file {

inline constexpr std::string_view magic = "gxrecord";
inline constexpr std::size_t fixed_bytes = 56, checksum_bytes = 8;
inline constexpr std::uint64_t count_max = std::numeric_limits<std::uint32_t>::max();
inline constexpr std::uint64_t channels_max = 1024, side_max = 1 << 16;  // side_max classes, too

[[noreturn]] GX_COLD GX_DECL void wrong(const std::filesystem::path& path,
                                        const std::string& what) {
    throw Error(fmt::format("gx: record file '{}': {}", path.string(), what));
}

using loader::number_at, loader::put;

struct Layout {
    std::uint64_t first, record;  ///< bytes
};
[[nodiscard]] inline Layout layout_of(const SourceInfo& info) {
    return {fixed_bytes + 8 * std::uint64_t(info.shape.channels) + checksum_bytes,
            2 + std::uint64_t(info.shape.elements()) + checksum_bytes};
}

/// Of a record with `index`; of the header, as with 0.
[[nodiscard]] inline std::uint64_t checksum_of(std::span<const std::uint8_t> bytes,
                                               std::uint64_t index = 0) {
    return hash_bytes(std::as_bytes(bytes)) + index;
}

class Reader final : public SampleReader {
public:
    Reader(std::shared_ptr<const RandomAccessFile> file, const SourceInfo& info)
        : file_(std::move(file)), info_(info), layout_(layout_of(info)) {}

    void read(std::span<const std::uint32_t> indices, std::span<Sample> out) override {
        records_.resize(indices.size() * layout_.record);
        for (std::size_t i = 0; i < indices.size(); ++i) {
            const auto record = std::span(records_).subspan(i * layout_.record, layout_.record);
            const std::uint64_t at = layout_.first + indices[i] * layout_.record;
            if (const std::size_t found = file_->read(at, record); found < record.size())
                wrong(file_->path(),
                      fmt::format("ends within record {} of {}: expected {} bytes at {}, found {}. "
                                  "It has become shorter since it was opened: copy it again.",
                                  indices[i], info_.count, record.size(), at, found));
            const auto sample = record.first(record.size() - checksum_bytes);
            const std::uint64_t stored = number_at(record, sample.size(), checksum_bytes);
            if (const auto computed = checksum_of(sample, indices[i]); computed != stored)
                wrong(file_->path(),
                      fmt::format("record {} of {}, at byte {}, is damaged: expected checksum "
                                  "{:016x}, found {:016x}. Copy the file again, or write it by "
                                  "gx::write_records.",
                                  indices[i], info_.count, at, stored, computed));
            out[i] = {&record[2], static_cast<int>(number_at(record, 0, 2)), info_.shape};
        }
    }

private:
    std::shared_ptr<const RandomAccessFile> file_;
    SourceInfo info_;
    Layout layout_;
    std::vector<std::uint8_t> records_;  // of the last read
};

}  // namespace detail::record_file

GX_DECL RecordFile::RecordFile(const std::filesystem::path& path)
    : file_(std::make_shared<const RandomAccessFile>(path)) {
    using namespace detail::record_file;
    const RandomAccessFile& file = *file_;
    std::vector<std::uint8_t> head(fixed_bytes);
    const std::size_t found = file.read(0, head);
    if (found < magic.size() || !std::equal(magic.begin(), magic.end(), head.begin()))
        wrong(path, "does not begin with 'gxrecord'. Write it by gx::write_records.");
    if (found < head.size())
        wrong(path, fmt::format("has {} bytes, and a header has at least {}. Copy it again.", found,
                                head.size()));
    if (const auto written = number_at(head, 8, 4); written != 2)
        wrong(path, fmt::format("has version {}, and this version of gx reads version 2. Write it "
                                "again by gx::write_records.",
                                written));
    const auto field = [&](const char* name, std::size_t at, int width, std::uint64_t least,
                           std::uint64_t most) {
        const std::uint64_t x = number_at(head, at, width);
        if (x < least || x > most)
            wrong(path, fmt::format("field '{}' is {}: expected {} to {}. The file is damaged: "
                                    "copy or write it again.",
                                    name, x, least, most));
        return x;
    };
    info_.shape = {static_cast<int>(field("channels", 12, 4, 1, channels_max)),
                   static_cast<int>(field("height", 16, 4, 1, side_max)),
                   static_cast<int>(field("width", 20, 4, 1, side_max))};
    info_.classes = static_cast<int>(field("classes", 24, 4, 1, side_max));
    info_.count = static_cast<std::int64_t>(field("count", 32, 8, 0, count_max));
    largest_class_ = static_cast<std::int64_t>(
        field("largest_class", 40, 8, 0, static_cast<std::uint64_t>(info_.count)));
    content_ = number_at(head, 48, 8);
    info_.name = path.filename().string();
    const auto [first, record] = layout_of(info_);
    constexpr std::uint64_t no_file = std::numeric_limits<std::uint64_t>::max();
    const auto records = std::uint64_t(info_.count);
    const std::uint64_t expected =
        records > (no_file - first) / record ? no_file : first + records * record;
    if (file.bytes() != expected)
        wrong(path, fmt::format("has {} bytes, and its header says {} records of {} bytes, which "
                                "end at byte {}. It was not copied whole, or other data follow: "
                                "copy it again.",
                                file.bytes(), info_.count, record, expected));
    head.resize(first);
    (void)file.read(fixed_bytes, std::span(head).subspan(fixed_bytes));
    const auto floats = std::span(head).subspan(fixed_bytes, 8 * std::size_t(info_.shape.channels));
    for (std::size_t i = 0; i < floats.size(); i += 4)
        (i < floats.size() / 2 ? info_.mean : info_.deviation)
            .push_back(std::bit_cast<float>(static_cast<std::uint32_t>(number_at(floats, i, 4))));
    if (const std::string sentence = flaw(info_); !sentence.empty()) wrong(path, sentence + ".");
    const auto fields = std::span(head).first(head.size() - checksum_bytes);
    const std::uint64_t stored = number_at(head, fields.size(), checksum_bytes);
    if (const auto computed = checksum_of(fields); computed != stored)
        wrong(path, fmt::format("its header is damaged: expected checksum {:016x}, found {:016x}. "
                                "Copy the file again, or write it by gx::write_records.",
                                stored, computed));
}

GX_DECL std::unique_ptr<SampleReader> RecordFile::open() const {
    return std::make_unique<detail::record_file::Reader>(file_, info_);
}

GX_DECL void write_records(const std::filesystem::path& path, SourceRef source) {
    namespace d = detail::record_file;
    const auto reader = source.open();
    const SourceInfo info = source.info();
    if (source.mixes())
        d::wrong(path,
                 fmt::format("'{}' mixes images, and a record has one label: write the source "
                             "that it mixes.",
                             info.name));
    if (info.classes > 1 << 16)
        d::wrong(path,
                 fmt::format("{} classes: a label has 2 bytes, for at most 65536.", info.classes));
    if (std::uint64_t(info.count) > d::count_max)
        d::wrong(path, fmt::format("'{}' has {} samples, and a record file holds at most {}: write "
                                   "fewer to it.",
                                   info.name, info.count, d::count_max));
    const ImageShape shape = info.shape;
    if (std::uint64_t(shape.channels) > d::channels_max ||
        std::uint64_t(std::max(shape.height, shape.width)) > d::side_max)
        d::wrong(path, fmt::format("images of {} x {} x {}: a record has at most {} channels, and "
                                   "{} rows and columns.",
                                   shape.channels, shape.height, shape.width, d::channels_max,
                                   d::side_max));
    constexpr std::int64_t at_once = 256;
    std::vector<std::uint8_t> bytes;  // of one record
    const auto for_each_record = [&](auto f) {
        std::vector<std::uint32_t> indices;
        std::vector<Sample> samples;
        for (std::int64_t i = 0; i < info.count; i += at_once) {
            indices.resize(std::size_t(std::min(at_once, info.count - i)));
            samples.resize(indices.size());
            std::iota(indices.begin(), indices.end(), static_cast<std::uint32_t>(i));
            reader->read(indices, samples);
            detail::source::expect_samples(info, indices, samples);
            for (const Sample& s : samples) {
                if (s.pixels == nullptr)
                    d::wrong(path, fmt::format("'{}' has numbers, and a record has pixels of 8 "
                                               "bits: write the images that they are of.",
                                               info.name));
                bytes.clear();
                d::put(bytes, static_cast<std::uint64_t>(s.label), 2);
                bytes.insert(bytes.end(), s.pixels, s.pixels + info.shape.elements());
                f(s.label);
            }
        }
    };
    ContentHash content;
    std::vector<std::int64_t> counts(std::size_t(std::max(1, info.classes)));
    for_each_record([&](int label) {
        content.add(bytes);
        ++counts[std::size_t(label)];
    });
    std::vector<std::uint8_t> head(d::magic.begin(), d::magic.end());
    d::put(head, 2, 4);
    for (const int n : {info.shape.channels, info.shape.height, info.shape.width, info.classes, 0})
        d::put(head, static_cast<std::uint64_t>(n), 4);
    d::put(head, static_cast<std::uint64_t>(info.count), 8);
    d::put(head, static_cast<std::uint64_t>(*std::ranges::max_element(counts)), 8);
    d::put(head, content.value(), 8);
    for (const auto* values : {&info.mean, &info.deviation})
        for (const float x : *values) d::put(head, std::bit_cast<std::uint32_t>(x), 4);
    d::put(head, d::checksum_of(head), d::checksum_bytes);
    detail::AtomicFile out(path);
    out.write(head.data(), head.size());
    std::uint64_t written = 0;
    ContentHash again;
    for_each_record([&](int) {
        again.add(bytes);
        d::put(bytes, d::checksum_of(bytes, written++), d::checksum_bytes);
        out.write(bytes.data(), bytes.size());
    });
    if (again.value() != content.value())
        d::wrong(path, fmt::format("'{}' has changed while it was written: nothing was kept. Write "
                                   "it again once nothing changes its samples.",
                                   info.name));
    out.commit();
}

}  // namespace gx
