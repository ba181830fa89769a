// Records, indices and lists of RecordIO.
#pragma once

#include <algorithm>      // sort, upper_bound
#include <array>          // the first bytes of a record
#include <bit>            // bit_cast
#include <charconv>       // from_chars
#include <cstring>        // memmove
#include <optional>       // a list
#include <unordered_map>  // keys

#include <fmt/core.h>  // sentences

#include <gx/io/read_file.hpp>                   // read_file
#include <gx/loader/detail/little_endian.hpp>    // number_at, put
#include <gx/loader/formats/detail/scanner.hpp>  // Scanner, index_of
#include <gx/loader/formats/record_io.hpp>       // the declarations

namespace gx {

namespace detail::record_io {

using encoded::CorruptRecord;
using encoded::Flaw;
using encoded::Index;
using encoded::Scanner;
using loader::number_at, loader::put;

inline constexpr std::uint32_t magic = 0xced7230a, length_bits = 29;
inline constexpr std::uint32_t length_most = (1u << length_bits) - 1;
inline constexpr std::size_t header_bytes = 24;  // of an image: flag, label, two ids

/// The head of a part.
struct Part {
    std::uint32_t kind, bytes;  ///< bytes without padding
};
enum Kind : std::uint32_t { whole, first, middle, last };

/// Throws Flaw. `begun`: a part has come before.
[[nodiscard]] inline Part part_at(std::span<const std::uint8_t> head, bool begun) {
    if (head.size() < 8)
        throw Flaw(fmt::format("the file ends within the head of a record, after {} bytes of 8",
                               head.size()));
    if (const auto found = number_at(head, 0, 4); found != magic)
        throw Flaw(fmt::format("expected the magic number {:#x}, found {:#x}", magic, found));
    const auto word = static_cast<std::uint32_t>(number_at(head, 4, 4));
    const Part part{word >> length_bits, word & length_most};
    const bool fits =
        begun ? part.kind == middle || part.kind == last : part.kind == whole || part.kind == first;
    if (!fits)
        throw Flaw(fmt::format("its continuation flag is {}: expected {}", part.kind,
                               begun ? "2 or 3, for a later part" : "0 or 1, for its beginning"));
    return part;
}
[[nodiscard]] inline bool is_end(const Part& part) {
    return part.kind == whole || part.kind == last;
}
[[nodiscard]] constexpr std::uint64_t padded(std::uint64_t bytes) { return (bytes + 3) / 4 * 4; }

/// The header of an image, at the beginning of a record's data.
struct ImageHeader {
    double label;
    std::uint64_t id;
    std::size_t bytes;  ///< with the labels behind it
};
/// `data_bytes` are there, of which `data` are the first. Throws Flaw.
[[nodiscard]] inline ImageHeader image_header(std::span<const std::uint8_t> data,
                                              std::uint64_t data_bytes) {
    if (data_bytes < header_bytes)
        throw Flaw(fmt::format("it has {} bytes of data: expected an image's header of {}",
                               data_bytes, header_bytes));
    const auto labels = number_at(data, 0, 4);
    if (labels > 1) throw Flaw(fmt::format("it has {} labels: expected 1", labels));
    const std::size_t bytes = header_bytes + 4 * labels;
    if (data_bytes <= bytes) throw Flaw("it holds no image behind its header");
    const auto bits = static_cast<std::uint32_t>(number_at(data, labels ? header_bytes : 4, 4));
    return {std::bit_cast<float>(bits), number_at(data, 8, 8), bytes};
}

/// Throws Flaw where another record begins within a part: a writer cuts a part at each magic number
/// that lies on a multiple of 4 bytes.
inline void expect_one_record(std::span<const std::uint8_t> part) {
    constexpr std::array<std::uint8_t, 4> begin{0x0a, 0x23, 0xd7, 0xce};
    for (std::size_t i = 0; i + 4 <= part.size(); i += 4)
        if (std::memcmp(&part[i], begin.data(), 4) == 0)
            throw Flaw(
                fmt::format("its length of {} bytes is wrong: another record begins {} bytes "
                            "behind its own",
                            part.size(), i));
}

[[nodiscard]] inline std::span<const std::uint8_t> extract(std::span<std::uint8_t> record) {
    std::size_t at = 0, data = 0;
    for (bool begun = false;; begun = true) {
        const Part part = part_at(record.subspan(std::min(at, record.size())), begun);
        at += 8;
        if (part.bytes > record.size() - at) throw Flaw("its parts are longer than it was");
        expect_one_record(record.subspan(at, part.bytes));
        std::memmove(record.data() + data, record.data() + at, part.bytes);
        data += part.bytes;
        if (is_end(part)) break;
        at += padded(part.bytes);
        for (int i = 0; i < 4; ++i) record[data++] = static_cast<std::uint8_t>(magic >> (8 * i));
    }
    const auto bytes = record.first(data);
    return bytes.subspan(image_header(bytes, data).bytes);
}

/// Finds one record: where it ends, and its header.
struct Found {
    std::uint64_t end;  ///< of its data
    ImageHeader header;
};
[[nodiscard]] inline Found find_record(const Index& index, std::uint32_t file, Scanner& scanner,
                                       std::uint64_t begin) {
    return index.at(file, begin, [&] {
        std::array<std::uint8_t, header_bytes + 4> head{};
        std::uint64_t at = begin, data = 0;
        for (bool begun = false;; begun = true) {
            const Part part = part_at(scanner.view(at, 8), begun);
            at += 8;
            if (at + part.bytes > scanner.bytes())
                throw Flaw(
                    fmt::format("it has a part of {} bytes from byte {} on, and the file "
                                "ends at byte {}",
                                part.bytes, at, scanner.bytes()));
            const auto fill = [&](std::span<const std::uint8_t> bytes) {
                for (std::size_t i = 0; i < bytes.size() && data + i < head.size(); ++i)
                    head[data + i] = bytes[i];
            };
            fill(scanner.view(at, std::min<std::size_t>(part.bytes, head.size())));
            data += part.bytes;
            if (is_end(part)) return Found{at + part.bytes, image_header(head, data)};
            at += padded(part.bytes);
            fill(std::array{std::uint8_t{0x0a}, std::uint8_t{0x23}, std::uint8_t{0xd7},
                            std::uint8_t{0xce}});
            data += 4;
        }
    });
}

/// Where the next record begins behind a corrupt one.
[[nodiscard]] inline std::uint64_t next_record(Scanner& scanner, std::uint64_t corrupt) {
    for (std::uint64_t at = padded(corrupt + 1); at + 8 <= scanner.bytes(); at += 4) {
        const auto head = scanner.view(at, 8);
        if (head.size() == 8 && number_at(head, 0, 4) == magic &&
            number_at(head, 4, 4) >> length_bits <= first)
            return at;
    }
    return scanner.bytes();
}

/// Lines of columns that tabs separate; f(columns, number of the line).
template <class F>
void for_each_line(const std::filesystem::path& path, std::size_t columns, const F& f) {
    const std::string text = read_file(path, std::size_t{4} << 30);
    std::int64_t number = 1;
    for (std::size_t begin = 0; begin < text.size(); ++number) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        std::string_view rest(text.data() + begin, end - begin);
        begin = end + 1;
        if (rest.ends_with('\r')) rest.remove_suffix(1);
        if (rest.empty()) continue;
        std::vector<std::string_view> found;
        for (std::size_t tab = 0; tab != rest.npos;) {
            tab = rest.find('\t');
            found.push_back(rest.substr(0, tab));
            if (tab != rest.npos) rest.remove_prefix(tab + 1);
        }
        if (found.size() != columns)
            throw Error(
                fmt::format("gx: '{}', line {}: {} columns: expected {}, separated by "
                            "tabs. Write the file again.",
                            path.string(), number, found.size(), columns));
        f(found, number);
    }
}
template <class T>
[[nodiscard]] T number_of(std::string_view text, const std::filesystem::path& path,
                          std::int64_t line) {
    T x{};
    const auto [end, trouble] = std::from_chars(text.data(), text.data() + text.size(), x);
    if (trouble != std::errc{} || end != text.data() + text.size())
        throw Error(fmt::format("gx: '{}', line {}: {} is not a number. Write the file again.",
                                path.string(), line, encoded::quoted_text(text)));
    return x;
}
/// `column`: key or offset.
[[noreturn]] inline void duplicate(const std::filesystem::path& path, std::int64_t line,
                                   const char* column, std::string_view found,
                                   std::int64_t before) {
    throw Error(
        fmt::format("gx: '{0}', line {1}: {2} {3} is that of line {4}: expected each {2} "
                    "once. Write the file again.",
                    path.string(), line, column, encoded::quoted_text(found), before));
}

/// Where the records of a file begin, as its .idx has it.
struct Offsets {
    std::vector<std::uint64_t> listed{}, sorted{};
};
[[nodiscard]] inline Offsets offsets_of(const std::filesystem::path& idx,
                                        const std::filesystem::path& rec, std::uint64_t rec_bytes) {
    Offsets offsets;
    std::unordered_map<std::string, std::int64_t> lines;
    std::unordered_map<std::uint64_t, std::int64_t> lines_of_offsets;
    for_each_line(idx, 2, [&](const auto& columns, std::int64_t line) {
        const auto [before, fresh] = lines.emplace(columns[0], line);
        if (!fresh) duplicate(idx, line, "key", columns[0], before->second);
        const auto at = number_of<std::uint64_t>(columns[1], idx, line);
        if (at >= rec_bytes)
            throw Error(
                fmt::format("gx: '{}', line {}: byte {} lies past the end of '{}', which "
                            "has {} bytes. They are not of one data set: copy both again, "
                            "or remove the .idx file, and records are found without it.",
                            idx.string(), line, at, rec.string(), rec_bytes));
        const auto [same, is_new] = lines_of_offsets.emplace(at, line);
        if (!is_new) duplicate(idx, line, "offset", columns[1], same->second);
        offsets.listed.push_back(at);
    });
    if (offsets.listed.empty())
        throw Error(
            fmt::format("gx: '{}' lists no record, and '{}' has {} bytes: expected a line for each "
                        "record. Copy it again, or remove it, and records are found without it.",
                        idx.string(), rec.string(), rec_bytes));
    offsets.sorted = offsets.listed;
    std::ranges::sort(offsets.sorted);
    return offsets;
}

struct Listed {
    double label;
    std::string name;
};
using List = std::unordered_map<std::uint64_t, Listed>;
[[nodiscard]] inline List read_lists(const std::vector<std::filesystem::path>& paths) {
    List list;
    std::unordered_map<std::uint64_t, std::int64_t> lines;
    for (const auto& path : paths)
        for_each_line(path, 3, [&](const auto& columns, std::int64_t line) {
            const auto id = number_of<std::uint64_t>(columns[0], path, line);
            const auto [before, fresh] = lines.emplace(id, line);
            if (!fresh) duplicate(path, line, "key", columns[0], before->second);
            list[id] = {number_of<double>(columns[1], path, line), std::string(columns[2])};
        });
    return list;
}

[[nodiscard]] inline std::filesystem::path beside(std::filesystem::path rec, const char* ending) {
    return rec.replace_extension(ending);
}

class Indexing {
public:
    explicit Indexing(const RecordIoOptions& options)
        : list_(read_lists(options.lists)), listed_(!options.lists.empty()) {}

    void operator()(Index& index, std::uint32_t file, Scanner& scanner) const {
        encoded::expect_uncompressed(scanner.view(0, 10), index.files[file]);
        const std::filesystem::path rec = index.files[file];
        const std::filesystem::path idx = beside(rec, ".idx");
        std::error_code hidden;
        if (std::filesystem::exists(idx, hidden)) {
            const auto [listed, sorted] = offsets_of(idx, rec, scanner.bytes());
            std::uint64_t end = 0;  // of the last one that is listed
            for (const std::uint64_t at : listed) {
                const auto next = std::ranges::upper_bound(sorted, at);
                const bool is_last = next == sorted.end();
                const auto behind = add(index, file, scanner, at, is_last ? UINT64_MAX : *next);
                if (is_last) end = behind;
            }
            if (end < scanner.bytes())
                index.corrupt(
                    file, end,
                    fmt::format("'{}' lists no record from there on, and the file has {} bytes: "
                                "it is cut, or another file's. Remove the .idx file, and records "
                                "are found without it",
                                idx.string(), scanner.bytes()));
            return;
        }
        for (std::uint64_t at = 0; at < scanner.bytes();) at = add(index, file, scanner, at);
    }

private:
    /// Returns where the next record begins. `listed_next`: where it does by the .idx.
    [[nodiscard]] std::uint64_t add(Index& index, std::uint32_t file, Scanner& scanner,
                                    std::uint64_t at,
                                    std::uint64_t listed_next = UINT64_MAX) const {
        try {
            const auto [end, header] = find_record(index, file, scanner, at);
            if (end > listed_next)
                index.corrupt(
                    file, at,
                    fmt::format("it ends at byte {}, and '{}' has another record from byte {} on: "
                                "one of the two is wrong. Remove the .idx file, and records are "
                                "found without it",
                                end, beside(index.files[file], ".idx").string(), listed_next));
            const Listed* listed = nullptr;
            if (listed_) {
                const auto found = list_.find(header.id);
                if (found == list_.end())
                    throw Error(
                        fmt::format("gx: {}: no list has its id {}. Give the lists of all shards.",
                                    to_string(SamplePlace{index.files[file], at}), header.id));
                listed = &found->second;
            }
            if (end - at > UINT32_MAX) index.corrupt(file, at, "it is longer than 4 GiB");
            index.add({at, static_cast<std::uint32_t>(end - at), file, 0, 0},
                      listed ? listed->label : header.label, listed ? listed->name : "");
            return padded(end);
        } catch (const CorruptRecord& e) {
            index.skip(e);
            return next_record(scanner, at);
        }
    }

    List list_;
    bool listed_;
};

/// Appends `data` as a record, in as many parts as it needs.
inline void put_record(std::vector<std::uint8_t>& to, std::span<const std::uint8_t> data) {
    const auto put_part = [&](Kind kind, std::span<const std::uint8_t> part) {
        put(to, magic, 4);
        put(to, kind << length_bits | static_cast<std::uint32_t>(part.size()), 4);
        to.insert(to.end(), part.begin(), part.end());
    };
    std::size_t begin = 0;
    for (std::size_t i = 0; i + 4 <= data.size(); i += 4) {
        if (number_at(data, i, 4) != magic) continue;
        put_part(begin == 0 ? first : middle, data.subspan(begin, i - begin));
        begin = i + 4;
    }
    put_part(begin == 0 ? whole : last, data.subspan(begin));
    to.resize(padded(to.size()));
}

}  // namespace detail::record_io

GX_DECL RecordIo::RecordIo(std::span<const std::filesystem::path> shards,
                           const RecordIoOptions& options)
    : EncodedFiles(detail::encoded::index_of(shards, options, detail::record_io::extract,
                                             detail::record_io::Indexing(options))) {}

GX_DECL RecordIoWriter::RecordIoWriter(const std::filesystem::path& rec, std::uint64_t first_id)
    : rec_path_(rec),
      rec_(rec),
      idx_(detail::record_io::beside(rec, ".idx")),
      lst_(detail::record_io::beside(rec, ".lst")),
      id_(first_id) {}

GX_DECL void RecordIoWriter::add(std::span<const std::uint8_t> image, int label,
                                 std::string_view name) {
    using namespace detail::record_io;
    const auto refuse = [&](const std::string& what) {
        throw Error(fmt::format("gx: RecordIO: image '{}' {}", name, what));
    };
    if (image.empty()) refuse("is empty. Leave it out.");
    if (image.size() > length_most - header_bytes)
        refuse(fmt::format("has {} bytes: a record holds at most {}.", image.size(),
                           length_most - header_bytes));
    if (name.find_first_of("\t\r\n") != name.npos)
        refuse("has a tab or a line's end in its name, and so would the list. Rename it.");
    data_.clear();
    put(data_, 0, 4);
    put(data_, std::bit_cast<std::uint32_t>(static_cast<float>(label)), 4);
    put(data_, id_, 8);
    put(data_, 0, 8);
    data_.insert(data_.end(), image.begin(), image.end());
    record_.clear();
    put_record(record_, data_);
    rec_.write(record_.data(), record_.size());
    const std::string idx = fmt::format("{}\t{}\n", id_, at_);
    const std::string lst = fmt::format("{}\t{}\t{}\n", id_, label, name);
    idx_.write(idx.data(), idx.size());
    lst_.write(lst.data(), lst.size());
    at_ += record_.size();
    ++id_;
}

// Beside new records, an index of earlier ones would hide some, and their list would label them.
GX_DECL void RecordIoWriter::commit() {
    std::error_code hidden;
    for (const char* ending : {".idx", ".lst"})
        std::filesystem::remove(detail::record_io::beside(rec_path_, ending), hidden);
    rec_.commit();
    idx_.commit();
    lst_.commit();
}

}  // namespace gx
