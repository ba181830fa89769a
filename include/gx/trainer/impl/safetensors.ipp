// Bodies of safetensors.hpp.
#pragma once

#include <zlib.h>  // crc32_z

#include <algorithm>    // copy, count
#include <array>        // elements
#include <bit>          // endian
#include <cerrno>       // errno
#include <cstring>      // memcmp, strerror
#include <fstream>      // reading
#include <set>          // names, tensors
#include <string_view>  // names
#include <tuple>        // order in the file
#include <utility>      // exchange

#include <fmt/format.h>  // sentences

#include <gx/core/cold.hpp>       // GX_COLD
#include <gx/io/atomic_file.hpp>  // AtomicFile
#include <gx/core/element.hpp>    // fp16, bf16
#include <gx/core/error.hpp>      // Error
#include <gx/io/json_text.hpp>    // the header, written
#include <gx/io/json_value.hpp>   // the header, read
#include <gx/trainer/safetensors.hpp>

namespace gx {

namespace detail {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

/// A CRC-32 as bytes come.
class Crc32 {
public:
    void add(const void* data, std::size_t bytes) {
        if (bytes == 0) return;  // of a null pointer crc32_z returns the sum of nothing
        sum_ = ::crc32_z(sum_, static_cast<const unsigned char*>(data), bytes);
    }
    [[nodiscard]] std::uint32_t sum() const { return static_cast<std::uint32_t>(sum_); }
    GX_COLD [[nodiscard]] std::string text() const { return fmt::format("{:08x}", sum_); }

private:
    unsigned long sum_ = 0;
};

/// CRC-32 of metadata and tensors, both by name: programs that write them again may reorder them.
/// Any one changed bit of a number is found.
class ContentSum {
public:
    static constexpr const char* field = "gx.crc32";

    GX_COLD void add(const std::string& name, std::string_view element,
                     std::span<const std::int64_t> shape, const void* data, std::size_t bytes) {
        std::string& part = parts_[name];
        part = element;
        for (const std::int64_t n : shape) part += ' ' + std::to_string(n);
        Crc32 numbers;
        numbers.add(data, bytes);
        for (int i = 0; i < 4; ++i) part += static_cast<char>(numbers.sum() >> (8 * i) & 255);
    }
    GX_COLD [[nodiscard]] std::string text(
        const std::map<std::string, std::string>& metadata) const {
        Crc32 all;
        const auto add = [&](const std::string& some) { all.add(some.c_str(), some.size() + 1); };
        for (const auto& [key, value] : metadata)
            if (key != field) add(key), add(value);
        for (const auto& [name, part] : parts_) add(name), add(part);
        return all.text();
    }

private:
    std::map<std::string, std::string> parts_{};
};

/// The field of earlier versions: the CRC-32 of header and data, its own eight digits as zeros.
inline constexpr const char* file_sum_field = "crc32";
inline constexpr std::string_view before_file_sum = R"({"__metadata__":{"crc32":")";

/// Product of `shape`, or `most` + 1 where it is larger or a factor is negative.
GX_COLD GX_DECL std::uint64_t element_count(std::span<const std::int64_t> shape,
                                            std::uint64_t most) {
    std::uint64_t count = 1;
    for (const std::int64_t n : shape) {
        if (n < 0) return most + 1;
        if (n == 0) count = 0;
    }
    if (count == 0) return 0;  // whatever the others multiply to
    for (const std::int64_t n : shape) {
        const auto factor = static_cast<std::uint64_t>(n);
        if (factor > most || count > most / factor) return most + 1;
        count *= factor;
    }
    return count;
}

/// An open file: its header, and the data behind it.
class SafetensorsReader {
public:
    explicit SafetensorsReader(const std::filesystem::path& path) : path_(path) {
        namespace fs = std::filesystem;
        std::error_code none;
        if (fs::is_directory(path, none))
            throw Error("'" + path.string() + "' is a folder. Give one of the checkpoints in it.");
        if (fs::exists(path, none) && !fs::is_regular_file(path, none))
            throw Error("'" + path.string() +
                        "' is a device or a pipe, not a file. Give the path of a checkpoint.");
        file_.open(path, std::ios::binary);
        if (!file_)
            throw Error("file '" + path.string() + "' cannot be opened: " + std::strerror(errno) +
                        ". Give the path of a checkpoint that was written before.");
        const std::uint64_t size = fs::file_size(path, none);
        std::uint64_t length = 0;
        file_.read(reinterpret_cast<char*>(&length), sizeof length);
        if (!file_ || none || length > size - sizeof length) {
            if (std::memcmp(&length, "PK\3\4", 4) == 0)
                throw wrong("it is a zip archive, as torch.save writes",
                            "Save its state_dict by Python's safetensors.torch.save_file.");
            throw wrong("the header is longer than the file");
        }
        if (length > header_bytes_max)
            throw wrong("the header has " + std::to_string(length) +
                        " bytes, and the format allows 100000000");
        text_.assign(length, ' ');
        file_.read(text_.data(), static_cast<std::streamsize>(length));
        try {
            header_ = read_json(text_);
        } catch (const JsonError&) {
            throw wrong("the header is not a JSON object");
        }
        if (header_.kind != JsonValue::Kind::object) throw wrong("the header is not a JSON object");
        data_begin_ = sizeof length + length;
        data_bytes_ = size - data_begin_;
        std::set<std::string> names;
        for (const JsonValue& entry : header_.items) {
            if (!names.insert(entry.name).second)
                throw wrong("tensor '" + entry.name + "' appears twice in its header");
            if (entry.name != "__metadata__") {
                tensors_.insert(described(entry));
                continue;
            }
            using enum JsonValue::Kind;
            bool fits = entry.kind == object || entry.kind == null;
            for (const JsonValue& field : entry.items) {
                fits = fits && field.kind == string;
                metadata_[field.name] = field.text;
            }
            if (!fits) throw wrong("field '__metadata__' is not an object of texts");
        }
        expect_no_holes();
    }

    [[nodiscard]] std::map<std::string, std::string>& metadata() { return metadata_; }

    GX_COLD SafetensorsFile whole() {
        SafetensorsFile out;
        const std::string field = sum_field();
        out.summed = !field.empty();
        ContentSum content;
        Crc32 file;
        if (field == file_sum_field) {
            text_.replace(before_file_sum.size(), 8, 8, '0');
            file.add(text_.data(), text_.size());
        }
        for (const Described& t : tensors_) {
            std::vector<float> values(t.element == "F32" ? (t.end - t.begin) / sizeof(float) : 0);
            std::vector<char> others(t.element == "F32" ? 0 : t.end - t.begin);
            char* const bytes =
                others.empty() ? reinterpret_cast<char*>(values.data()) : others.data();
            file_.seekg(static_cast<std::streamoff>(data_begin_ + t.begin));
            file_.read(bytes, static_cast<std::streamsize>(t.end - t.begin));
            if (!file_) throw wrong("tensor '" + t.name + "' can't be read");
            if (field == ContentSum::field)
                content.add(t.name, t.element, t.shape, bytes, t.end - t.begin);
            if (field == file_sum_field) file.add(bytes, t.end - t.begin);
            if (t.element == "F16") values = decoded<fp16>(others);
            if (t.element == "BF16") values = decoded<bf16>(others);
            if (t.element == "F64") values = rounded(others);
            out.tensors[t.name] = {t.shape, std::move(values), t.element};
        }
        if (out.summed)
            expect_sum(field, field == file_sum_field ? file.text() : content.text(metadata_));
        out.metadata = std::move(metadata_);
        return out;
    }

private:
    static constexpr std::uint64_t header_bytes_max = 100'000'000;  // the format's own limit

    struct Described {
        std::string name;
        std::vector<std::int64_t> shape;
        std::uint64_t begin = 0, end = 0;
        std::string element{};
        /// In the order of the file; those without data by name.
        bool operator<(const Described& other) const {
            return std::tie(begin, end, name) < std::tie(other.begin, other.end, other.name);
        }
    };
    struct ElementBytes {
        std::string_view name;
        std::uint64_t bytes;
    };
    /// Source: safetensors/src/tensor.rs, enum Dtype.
    static constexpr std::array<ElementBytes, 19> elements{{{"F32", 4},
                                                            {"F64", 8},
                                                            {"F16", 2},
                                                            {"BF16", 2},
                                                            {"I64", 8},
                                                            {"I32", 4},
                                                            {"I16", 2},
                                                            {"I8", 1},
                                                            {"U8", 1},
                                                            {"U16", 2},
                                                            {"U32", 4},
                                                            {"U64", 8},
                                                            {"BOOL", 1},
                                                            {"C64", 8},
                                                            {"F8_E4M3", 1},
                                                            {"F8_E5M2", 1},
                                                            {"F8_E8M0", 1},
                                                            {"F8_E4M3FNUZ", 1},
                                                            {"F8_E5M2FNUZ", 1}}};
    GX_COLD [[nodiscard]] static std::uint64_t bytes_of(std::string_view element) {
        for (const ElementBytes& e : elements)
            if (e.name == element) return e.bytes;
        return 0;
    }
    template <class E>
    [[nodiscard]] static std::vector<float> decoded(const std::vector<char>& bytes) {
        std::vector<typename E::storage> stored(bytes.size() / sizeof(typename E::storage));
        std::ranges::copy(bytes, reinterpret_cast<char*>(stored.data()));
        std::vector<float> values(stored.size());
        for (std::size_t i = 0; i < stored.size(); ++i) values[i] = E::decode(stored[i]);
        return values;
    }
    [[nodiscard]] static std::vector<float> rounded(const std::vector<char>& bytes) {
        std::vector<double> stored(bytes.size() / sizeof(double));
        std::ranges::copy(bytes, reinterpret_cast<char*>(stored.data()));
        return {stored.begin(), stored.end()};
    }

    /// The field of a sum that gx wrote, or "". Other programs may have a "crc32" of their own.
    GX_COLD [[nodiscard]] std::string sum_field() const {
        if (metadata_.contains(ContentSum::field)) return ContentSum::field;
        const bool of_gx = metadata_.contains("gx") || metadata_.contains("model");
        return of_gx && text_.starts_with(before_file_sum) ? file_sum_field : "";
    }
    GX_COLD void expect_sum(const std::string& field, const std::string& found) const {
        const std::string& kept = metadata_.at(field);
        if (kept == found) return;
        throw Error(
            fmt::format("file '{}': its content has changed since it was written: field '{}' is "
                        "'{}', and its content has {}. Take an earlier checkpoint; or, if another "
                        "program changed it on purpose, save it without the metadata field '{}'.",
                        path_.string(), field, kept, found, field));
    }

    GX_COLD [[nodiscard]] Error wrong(
        const std::string& what,
        const char* advice =
            "It is not a whole safetensors file; take an earlier checkpoint.") const {
        return Error("file '" + path_.string() + "': " + what + ". " + advice);
    }
    GX_COLD [[nodiscard]] Described described(const JsonValue& entry) const {
        const std::string& name = entry.name;
        try {
            for (const std::string_view field : {"dtype", "shape", "data_offsets"})
                if (std::ranges::count(entry.items, field, &JsonValue::name) != 1)
                    throw JsonError("once");
            const auto& offsets = entry.at("data_offsets").array();
            if (offsets.size() != 2) throw JsonError("begin and end");
            const auto begin = offsets[0].integer(), end = offsets[1].integer();
            Described t{name, {}, std::uint64_t(begin), std::uint64_t(end)};
            for (const JsonValue& n : entry.at("shape").array()) t.shape.push_back(n.integer());
            t.element = entry.at("dtype").string();
            const std::uint64_t bytes = bytes_of(t.element);
            if (bytes == 0)
                throw wrong("field 'dtype' of tensor '" + name + "' is '" + t.element +
                                "', which gx does not read",
                            "Save it as F32, F16 or BF16, or without that tensor.");
            const std::uint64_t most = UINT64_MAX / bytes - 1;
            const std::uint64_t count = element_count(t.shape, most);
            if (count > most)
                throw wrong(
                    fmt::format("field 'shape' of tensor '{}' is [{}] and does not fit the "
                                "file: expected sizes of 0 or more, within its {} bytes",
                                name, fmt::join(t.shape, ", "), data_bytes_));
            if (t.begin > t.end || t.end > data_bytes_ || t.end - t.begin != count * bytes)
                throw wrong(fmt::format(
                    "field 'data_offsets' of tensor '{}' is [{}, {}] and does not fit its shape or "
                    "the file: expected {} bytes for the shape [{}] of {}, within the file's {}",
                    name, begin, end, count * bytes, fmt::join(t.shape, ", "), t.element,
                    data_bytes_));
            return t;
        } catch (const JsonError&) {
            throw wrong("tensor '" + name +
                        "' lacks dtype, shape or data_offsets, or has one twice or of another kind "
                        "than the format's");
        }
    }
    /// The tensors fill the data, each from the end of the one before.
    GX_COLD void expect_no_holes() const {
        std::uint64_t end = 0;
        for (const Described& t : tensors_) {
            if (t.begin != end)
                throw wrong("field 'data_offsets' of tensor '" + t.name + "' begins at " +
                            std::to_string(t.begin) + ", and the tensor before it ends at " +
                            std::to_string(end));
            end = t.end;
        }
        if (end != data_bytes_) throw wrong("trailing bytes after the last tensor");
    }

    std::filesystem::path path_;
    std::ifstream file_;
    std::string text_;  ///< the header
    JsonValue header_;
    std::uint64_t data_begin_ = 0, data_bytes_ = 0;
    std::set<Described> tensors_{};
    std::map<std::string, std::string> metadata_{};
};

}  // namespace detail

GX_DECL void write_safetensors(const std::filesystem::path& path,
                               const std::vector<NamedTensor>& tensors,
                               const std::map<std::string, std::string>& metadata) {
    // What is no UTF-8 is read as another text.
    const auto as_read = [](const std::string& text) { return read_json(json_quoted(text)).text; };
    std::map<std::string, std::string> texts;
    for (const auto& [key, value] : metadata) texts[as_read(key)] = as_read(value);
    detail::ContentSum sum;
    for (const auto& t : tensors)
        sum.add(as_read(t.name), "F32", t.shape, t.values.data(), t.values.size_bytes());
    JsonWriter header;
    header.open('{').name("__metadata__").open('{');
    header.field(detail::ContentSum::field, sum.text(texts));
    for (const auto& [key, value] : metadata)
        if (key != detail::ContentSum::field) header.field(key, value);
    header.close('}');
    std::uint64_t offset = 0;
    for (const auto& t : tensors) {
        header.name(t.name).open('{').field("dtype", "F32").name("shape").open('[');
        for (const std::int64_t n : t.shape) header.value(n);
        const std::uint64_t begin = std::exchange(offset, offset + t.values.size_bytes());
        header.close(']').name("data_offsets").open('[').value(begin).value(offset);
        header.close(']').close('}');
    }
    std::string text = header.close('}').text();
    text.resize((text.size() + 7) / 8 * 8, ' ');  // data stays aligned
    const std::uint64_t length = text.size();
    detail::AtomicFile file(path);
    file.write(&length, sizeof length);
    file.write(text.data(), text.size());
    for (const auto& t : tensors) file.write(t.values.data(), t.values.size_bytes());
    file.commit();
}

GX_DECL SafetensorsFile read_safetensors(const std::filesystem::path& path) {
    return detail::SafetensorsReader(path).whole();
}

GX_DECL std::map<std::string, std::string> read_safetensors_metadata(
    const std::filesystem::path& path) {
    return std::move(detail::SafetensorsReader(path).metadata());
}

}  // namespace gx
