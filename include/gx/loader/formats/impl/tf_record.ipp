// Records and examples of TFRecord files.
#pragma once

#include <optional>  // label

#include <fmt/core.h>  // sentences

#include <gx/io/crc32c.hpp>                      // masked_crc32c
#include <gx/loader/detail/little_endian.hpp>    // number_at, put
#include <gx/loader/formats/detail/scanner.hpp>  // Scanner, index_of
#include <gx/loader/formats/tf_record.hpp>       // the declarations

namespace gx {

namespace detail::tf_record {

using encoded::CorruptRecord;
using encoded::Flaw;
using encoded::Index;
using encoded::Scanner;
using loader::number_at, loader::put;

inline constexpr std::size_t head_bytes = 12, tail_bytes = 4;

/// Throws Flaw unless the masked CRC of `bytes` is `stored`.
inline void expect_crc(const char* of, std::span<const std::uint8_t> bytes, std::uint64_t stored) {
    if (const std::uint32_t found = masked_crc32c(bytes); found != stored)
        throw Flaw(fmt::format("the masked CRC-32C of its {} is {:#010x}: expected {:#010x}", of,
                               found, stored));
}

// ---- Protocol buffers -----------------------------------------------------------------------

/// A field of a message: a whole number, or the bytes from `begin` to `end`.
struct Field {
    std::uint64_t number, wire, value, begin, end;
};
enum Wire : std::uint64_t { varint, fixed64, bytes, fixed32 = 5 };

/// Walks through the fields of the message between two positions. `at(i)` is byte i.
/// Throws Flaw at what is no message.
template <class At>
class Message {
public:
    Message(const At& at, std::uint64_t begin, std::uint64_t end)
        : at_(at), next_(begin), end_(end) {}
    [[nodiscard]] bool more() const { return next_ < end_; }
    [[nodiscard]] std::uint64_t number() {
        std::uint64_t x = 0;
        for (int shift = 0; shift < 70; shift += 7) {
            if (next_ == end_) break;
            const std::uint8_t byte = at_(next_++);
            x |= shift < 64 ? std::uint64_t{byte & 127u} << shift : 0;
            if (byte < 128) return x;
        }
        throw Flaw("it is no tf.train.Example: a number in it does not end");
    }
    [[nodiscard]] Field next() {
        const std::uint64_t key = number();
        Field f{key >> 3, key & 7, 0, 0, 0};
        if (f.number == 0) throw Flaw("it is no tf.train.Example: it has a field of number 0");
        if (f.wire == varint) f.value = number();
        else if (f.wire == bytes) f.value = number();
        else if (f.wire == fixed64) f.value = 8;
        else if (f.wire == fixed32) f.value = 4;
        else
            throw Flaw(fmt::format("it is no tf.train.Example: it has a field of type {}", f.wire));
        if (f.wire == varint) return f;
        if (f.value > end_ - next_)
            throw Flaw(
                fmt::format("it is no tf.train.Example: a field of {} bytes passes the "
                            "end of its message",
                            f.value));
        f.begin = next_;
        f.end = next_ += f.value;
        return f;
    }
    /// f(field) for each field of this number, in bytes.
    template <class F>
    void for_each(std::uint64_t number, const F& f) {
        while (more())
            if (const Field field = next(); field.number == number && field.wire == bytes) f(field);
    }

private:
    const At& at_;
    std::uint64_t next_, end_;
};

/// What an Example holds under the two keys.
struct Example {
    std::int64_t label;
    std::uint64_t image_begin, image_end;
};

template <class At>
class Parser {
public:
    Parser(const At& at, const TfRecordOptions& options) : at_(at), options_(options) {}

    [[nodiscard]] Example parse(std::uint64_t begin, std::uint64_t end) {
        Message<At>(at_, begin, end).for_each(1, [&](const Field& features) {
            message(features).for_each(1, [&](const Field& entry) { read(entry); });
        });
        expect_one(images_, options_.image_key, "bytes");
        expect_one(labels_, options_.label_key, "int64");
        return example_;
    }

private:
    [[nodiscard]] Message<At> message(const Field& f) const { return {at_, f.begin, f.end}; }
    [[nodiscard]] bool is(const Field& key, const std::string& name) const {
        if (key.end - key.begin != name.size()) return false;
        for (std::size_t i = 0; i < name.size(); ++i)
            if (at_(key.begin + i) != static_cast<std::uint8_t>(name[i])) return false;
        return true;
    }
    /// An entry of the map: 1 is the key, 2 the Feature.
    void read(const Field& entry) {
        bool image = false, label = false;
        message(entry).for_each(1, [&](const Field& key) {
            image = is(key, options_.image_key);
            label = is(key, options_.label_key);
        });
        if (!image && !label) return;
        message(entry).for_each(2, [&](const Field& feature) {
            if (image)  // BytesList
                message(feature).for_each(1, [&](const Field& list) {
                    message(list).for_each(1, [&](const Field& value) {
                        ++images_;
                        example_.image_begin = value.begin, example_.image_end = value.end;
                    });
                });
            else message(feature).for_each(3, [&](const Field& list) { read_label(list); });
        });
    }
    /// An Int64List: its values are packed or one by one.
    void read_label(const Field& list) {
        const auto set = [&](std::uint64_t value) {
            ++labels_;
            example_.label = static_cast<std::int64_t>(value);
        };
        for (Message<At> values = message(list); values.more();) {
            const Field f = values.next();
            if (f.number != 1) continue;
            if (f.wire == varint) set(f.value);
            else if (f.wire == bytes)
                for (Message<At> packed = message(f); packed.more();) set(packed.number());
        }
    }
    void expect_one(int found, const std::string& key, const char* type) const {
        if (found != 1)
            throw Flaw(
                fmt::format("it has {} values of type {} under '{}': expected 1, under a key "
                            "that TfRecordOptions names",
                            found, type, key));
    }

    const At& at_;
    const TfRecordOptions& options_;
    Example example_{};
    int images_ = 0, labels_ = 0;
};

// ---- Reading --------------------------------------------------------------------------------

[[nodiscard]] inline std::span<const std::uint8_t> extract(std::span<std::uint8_t> record,
                                                           const TfRecordOptions& options) {
    expect_crc("length", record.first(8), number_at(record, 8, 4));
    const std::size_t end = record.size() - tail_bytes;
    expect_crc("data", record.first(end).subspan(head_bytes), number_at(record, end, 4));
    const auto at = [&](std::uint64_t i) { return record[i]; };
    const Example e = Parser(at, options).parse(head_bytes, end);
    if (e.image_begin == e.image_end) throw Flaw("its image is empty");
    return record.subspan(e.image_begin, e.image_end - e.image_begin);
}

/// Where the record at `at` ends. Errors: CorruptRecord, if that is unknown.
[[nodiscard]] inline std::uint64_t end_of_record(const Index& index, std::uint32_t file,
                                                 Scanner& scanner, std::uint64_t at) {
    const auto head = scanner.view(at, head_bytes);
    if (head.size() < head_bytes)
        index.corrupt(file, at,
                      fmt::format("the file ends within its head, after {} bytes of {}",
                                  head.size(), head_bytes));
    if (at == 0 && masked_crc32c(head.first(8)) != number_at(head, 8, 4))  // it may be a length
        encoded::expect_uncompressed(head.first(10), index.files[file]);
    const std::uint64_t length = number_at(head, 0, 8);
    index.at(file, at, [&] { expect_crc("length", head.first(8), number_at(head, 8, 4)); });
    const std::uint64_t left = scanner.bytes() - at - head_bytes;
    if (length > left || left - length < tail_bytes)
        index.corrupt(file, at,
                      fmt::format("it has {} bytes of data and {} of their CRC, and the file ends "
                                  "{} bytes behind its head",
                                  length, tail_bytes, left));
    return at + head_bytes + length + tail_bytes;
}

inline void add_records(Index& index, std::uint32_t file, Scanner& scanner,
                        const TfRecordOptions& options) {
    const auto byte = [&](std::uint64_t i) {
        const auto found = scanner.view(i, 1);
        if (found.empty()) throw Flaw("the file has become shorter");
        return found[0];
    };
    for (std::uint64_t at = 0, end; at < scanner.bytes(); at = end) {
        end = end_of_record(index, file, scanner, at);
        try {
            const Example e = index.at(file, at, [&] {
                return Parser(byte, options).parse(at + head_bytes, end - tail_bytes);
            });
            if (end - at > UINT32_MAX) index.corrupt(file, at, "it is longer than 4 GiB");
            index.add({at, static_cast<std::uint32_t>(end - at), file, 0, 0},
                      static_cast<double>(e.label), "");
        } catch (const CorruptRecord& e) {
            index.skip(e);
        }
    }
}

// ---- Writing --------------------------------------------------------------------------------

using Encoded = std::vector<std::uint8_t>;

inline void put_number(Encoded& to, std::uint64_t x) {
    for (; x >= 128; x >>= 7) to.push_back(static_cast<std::uint8_t>(x | 128));
    to.push_back(static_cast<std::uint8_t>(x));
}
inline void put_field(Encoded& to, std::uint64_t number, std::span<const std::uint8_t> value) {
    put_number(to, number << 3 | bytes);
    put_number(to, value.size());
    to.insert(to.end(), value.begin(), value.end());
}
/// Appends an entry of the map: `kind` is the field of Feature, and `list` its message.
inline void put_feature(Encoded& features, std::string_view key, std::uint64_t kind,
                        const Encoded& list) {
    Encoded feature, entry;
    put_field(feature, kind, list);
    put_field(entry, 1, {reinterpret_cast<const std::uint8_t*>(key.data()), key.size()});
    put_field(entry, 2, feature);
    put_field(features, 1, entry);
}
[[nodiscard]] inline Encoded list_of(std::span<const std::uint8_t> value) {
    Encoded list;
    put_field(list, 1, value);
    return list;
}

}  // namespace detail::tf_record

GX_DECL TfRecord::TfRecord(std::span<const std::filesystem::path> shards,
                           const TfRecordOptions& options)
    : EncodedFiles(detail::encoded::index_of(
          shards, options,
          [options](std::span<std::uint8_t> record) {
              return detail::tf_record::extract(record, options);
          },
          [&](auto& index, std::uint32_t file, auto& scanner) {
              detail::tf_record::add_records(index, file, scanner, options);
          })) {}

GX_DECL void TfRecordWriter::add(std::span<const std::uint8_t> image, int label,
                                 std::string_view name) {
    using namespace detail::tf_record;
    if (image.empty() || image.size() >= std::size_t{1} << 31)
        throw Error(
            fmt::format("gx: TFRecord: image '{}' has {} bytes: expected 1 to 2147483647. "
                        "Leave it out.",
                        name, image.size()));
    Encoded features, example, number, record;
    put_feature(features, "image/encoded", 1, list_of(image));
    put_number(number, static_cast<std::uint64_t>(label));
    put_feature(features, "image/class/label", 3, list_of(number));
    put_feature(features, "image/filename", 1,
                list_of({reinterpret_cast<const std::uint8_t*>(name.data()), name.size()}));
    put_field(example, 1, features);
    put(record, example.size(), 8);
    put(record, masked_crc32c(std::span(record).first(8)), 4);
    record.insert(record.end(), example.begin(), example.end());
    put(record, masked_crc32c(example), 4);
    file_.write(record.data(), record.size());
}

}  // namespace gx
