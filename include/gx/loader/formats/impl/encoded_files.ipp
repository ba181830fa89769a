// Indices of encoded files, and their reader.
#pragma once

#include <algorithm>     // max, min_element, find_if
#include <cmath>         // floor
#include <set>           // files of class names
#include <system_error>  // error_code
#include <utility>       // move

#include <fmt/core.h>  // sentences

#include <gx/io/json_text.hpp>                  // json_quoted
#include <gx/io/random_access_file.hpp>         // RandomAccessFile
#include <gx/loader/class_names.hpp>            // read_class_names
#include <gx/loader/formats/encoded_files.hpp>  // the declarations

namespace gx {

namespace detail::encoded {

inline constexpr int classes_most = 1 << 20;

GX_DECL std::string quoted_text(std::string_view text) {
    std::string out = json_quoted(text);
    out.front() = out.back() = '\'';
    return out;
}

GX_DECL std::string with_skip_option(std::string sentence, std::string_view words) {
    if (const auto at = sentence.find(skip_option); at != sentence.npos)
        sentence.replace(at, skip_option.size(), words);
    return sentence;
}

GX_DECL void Index::corrupt(std::uint32_t file, std::uint64_t offset,
                            const std::string& what) const {
    const SamplePlace place{files[file], offset, false};
    throw CorruptRecord(
        fmt::format("gx: {}: {}. Copy the file again, or leave corrupt records out {}.",
                    to_string(place), what, skip_option));
}

/// PREFIX.classes.txt of PREFIX.rec or PREFIX-00000-of-00064.rec, of any ending.
[[nodiscard]] inline std::filesystem::path class_list_of(const std::filesystem::path& shard) {
    const auto without_number = [](std::string_view name) {
        const auto end = name.find_last_not_of("0123456789");
        return end == name.npos ? std::string_view() : name.substr(0, end + 1);
    };
    const std::string stem = shard.stem().string();
    std::string_view prefix = without_number(stem);
    if (prefix.size() < stem.size() && prefix.ends_with("-of-")) {
        const std::string_view numbered = prefix.substr(0, prefix.size() - 4);
        prefix = without_number(numbered);
        if (prefix.size() < numbered.size() && prefix.ends_with('-'))
            return shard.parent_path() /
                   (std::string(prefix.substr(0, prefix.size() - 1)) + ".classes.txt");
    }
    return shard.parent_path() / (stem + ".classes.txt");
}

GX_DECL void Index::name_classes(std::span<const std::filesystem::path> shards) {
    info.class_names = options.class_names;
    std::set<std::filesystem::path> lists;
    for (const auto& shard : shards) {
        const std::filesystem::path list = class_list_of(shard);
        std::error_code hidden;
        if (!options.class_names.empty() || !lists.insert(list).second ||
            !std::filesystem::exists(list, hidden))
            continue;
        std::vector<std::string> listed = read_class_names(list);
        if (!named_by.empty() && listed != info.class_names)
            throw Error(
                fmt::format("gx: '{}' names other classes than '{}': expected shards with the same "
                            "classes. Pack them as one set, or give the names in the options.",
                            list.string(), named_by));
        info.class_names = std::move(listed);
        named_by = list.string();
    }
    const auto count = static_cast<int>(info.class_names.size());
    if (count > 0 && options.classes > 0 && options.classes != count)
        throw Error(fmt::format(
            "gx: {} {} classes: expected the {} of the options. Correct one of the two.",
            named_by.empty() ? "the options name" : "'" + named_by + "' names", count,
            options.classes));
    if (count > 0) options.classes = count;
}

GX_DECL void Index::add(Record r, double stored_label, std::string_view name) {
    const int classes = options.classes > 0 ? options.classes : classes_most;
    const double label = stored_label - options.first_label;
    if (!(label >= 0 && label < classes && label == std::floor(label)))
        corrupt(r.file, r.offset,
                fmt::format("its label is {}: expected a whole number from {} to {}{}",
                            stored_label, options.first_label, options.first_label + classes - 1,
                            named_by.empty()
                                ? ""
                                : fmt::format(", as '{}' names {} classes, the first of label {} "
                                              "(first_label)",
                                              named_by, classes, options.first_label)));
    if (records.size() == UINT32_MAX || names.size() + name.size() > UINT32_MAX)
        throw Error(
            fmt::format("gx: '{}': at most 4294967295 samples, with 4 GiB of names, are "
                        "supported. Open fewer files as one source.",
                        files[r.file]));
    r.label = static_cast<std::int32_t>(label);
    r.name = 0;
    if (!name.empty()) {
        r.name = static_cast<std::uint32_t>(names.size());
        names.append(name).push_back('\0');
    }
    records.push_back(r);
}

GX_DECL void Index::skip(const CorruptRecord& e) {
    if (options.on_corrupt == OnCorrupt::stop) throw e;
    skipped.add(e.what());
}

GX_DECL void Index::finish() {
    info.name = options.name;
    if (info.name.empty()) info.name = std::filesystem::path(files.at(0)).filename().string();
    if (records.empty())
        throw Error(fmt::format(
            "gx: '{}' holds no sample: expected at least one.{} Give files that hold images.",
            files.at(0),
            skipped.count > 0 ? " The first corrupt record: " + skipped.first[0] : ""));
    info.count = std::ssize(records);
    info.classes = options.classes;
    if (info.classes == 0)
        for (const Record& r : records) info.classes = std::max(info.classes, r.label + 1);
    names.shrink_to_fit();
    records.shrink_to_fit();
}

class Reader final : public EncodedReader {
public:
    explicit Reader(std::shared_ptr<const Index> index) : index_(std::move(index)) {}

    void read(std::span<const std::uint32_t> indices, std::span<EncodedSample> out) override {
        if (slots_.size() < indices.size()) slots_.resize(indices.size());
        for (std::size_t i = 0; i < indices.size(); ++i) {
            const Record& r = index_->records.at(indices[i]);
            out[i] = {.label = r.label};
            try {
                out[i].bytes = index_->whole_files() ? read_file(r, slots_[i], out[i].where)
                                                     : read_record(r, slots_[i], out[i].where);
            } catch (const CorruptRecord& e) {
                if (index_->options.on_corrupt == OnCorrupt::stop) throw;
                skipped_.add(e.what());
            }
        }
    }
    [[nodiscard]] const SkippedRecords& skipped() const override { return skipped_; }

private:
    struct Slot {
        std::vector<std::uint8_t> bytes{};
        std::string path{};
        std::span<std::uint8_t> room_for(std::uint64_t count) {
            if (bytes.size() < count) bytes.resize(count);
            return std::span(bytes).first(count);
        }
    };
    struct Opened {
        std::uint32_t number;
        std::uint64_t last_use;
        std::unique_ptr<RandomAccessFile> file;
    };
    static constexpr std::size_t opened_most = 32;
    static constexpr std::uint64_t file_bytes_most = 1 << 30;

    [[nodiscard]] static std::unique_ptr<RandomAccessFile> opened(const std::string& path) {
        try {
            return std::make_unique<RandomAccessFile>(path);
        } catch (const Error& e) {
            throw Error(fmt::format("{} It was there when the source was opened.", e.what()));
        }
    }
    static void expect_whole(const RandomAccessFile& file, std::uint64_t at, std::size_t found,
                             std::size_t expected) {
        if (found < expected)
            throw Error(
                fmt::format("gx: '{}' ends within the record at byte {}: expected {} "
                            "bytes, found {}. It has become shorter since it was opened: "
                            "restore it and start again.",
                            file.path().string(), at, expected, found));
    }

    std::span<const std::uint8_t> read_file(const Record& r, Slot& slot, SamplePlace& where) const {
        slot.path.assign(index_->files[r.file]).append("/").append(index_->name_of(r));
        where = {slot.path, 0, true};
        const auto file = opened(slot.path);
        if (file->bytes() == 0)
            throw CorruptRecord(
                fmt::format("gx: {} is empty: expected an encoded image. Copy it "
                            "again, or leave it out {}.",
                            to_string(where), skip_option));
        if (file->bytes() > file_bytes_most)
            throw CorruptRecord(
                fmt::format("gx: {} has {} bytes: expected an encoded image of at most {}. Remove "
                            "it, or leave it out {}.",
                            to_string(where), file->bytes(), file_bytes_most, skip_option));
        const auto bytes = slot.room_for(file->bytes());
        expect_whole(*file, 0, file->read(0, bytes), bytes.size());
        return bytes;
    }

    std::span<const std::uint8_t> read_record(const Record& r, Slot& slot, SamplePlace& where) {
        where = {index_->files[r.file], r.offset, false};
        const RandomAccessFile& file = file_of(r.file);
        const auto bytes = slot.room_for(r.bytes);
        expect_whole(file, r.offset, file.read(r.offset, bytes), bytes.size());
        if (!index_->extract) return bytes;
        return index_->at(r.file, r.offset, [&] { return index_->extract(bytes); });
    }

    /// The least recently used file gives way to another.
    const RandomAccessFile& file_of(std::uint32_t number) {
        auto at = std::ranges::find(opened_, number, &Opened::number);
        if (at == opened_.end()) {
            auto file = opened(index_->files[number]);
            const std::uint64_t expected = index_->file_bytes[number];
            if (file->bytes() != expected)
                throw Error(
                    fmt::format("gx: '{}' has {} bytes, and had {} when its index was "
                                "made. Restore it, or start again.",
                                index_->files[number], file->bytes(), expected));
            if (opened_.size() == opened_most)
                opened_.erase(std::ranges::min_element(opened_, {}, &Opened::last_use));
            opened_.push_back({number, 0, std::move(file)});
            at = std::prev(opened_.end());
        }
        at->last_use = ++uses_;
        return *at->file;
    }

    std::shared_ptr<const Index> index_;
    std::vector<Slot> slots_{};  // of the last read
    std::vector<Opened> opened_{};
    std::uint64_t uses_ = 0;
    SkippedRecords skipped_{};
};

}  // namespace detail::encoded

GX_DECL EncodedEntry EncodedFiles::entry(std::uint32_t index) const {
    const detail::encoded::Record& r = index_->records.at(index);
    return {.name = index_->name_of(r),
            .file = index_->files[r.file],
            .offset = r.offset,
            .bytes = r.bytes,
            .label = r.label};
}

GX_DECL std::unique_ptr<EncodedReader> EncodedFiles::open() const {
    return std::make_unique<detail::encoded::Reader>(index_);
}

GX_DECL std::int64_t EncodedFiles::largest_class() const {
    std::vector<std::int64_t> counts(std::size_t(index_->info.classes));
    for (const auto& r : index_->records) ++counts[std::size_t(r.label)];
    return *std::ranges::max_element(counts);
}

}  // namespace gx
