// Bodies of safetensors.hpp.
#pragma once

#include <zlib.h>  // crc32_z

#include <array>        // elements
#include <bit>          // endian
#include <cerrno>       // errno
#include <cstring>      // strerror
#include <fstream>      // reading
#include <set>          // names, tensors
#include <string_view>  // names
#include <tuple>        // order in the file
#include <utility>      // exchange

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

/// CRC-32 of header and data, kept in the metadata: any one changed bit is found.
/// It is computed with its own eight digits as zeros.
class FileSum {
public:
    static constexpr const char *name = "crc32", *zeros = "00000000";

    void add(const void* data, std::size_t bytes) {
        if (bytes == 0) return;  // of a null pointer crc32_z returns the sum of nothing
        sum_ = ::crc32_z(sum_, static_cast<const unsigned char*>(data), bytes);
    }
    GX_COLD [[nodiscard]] std::string text() const {
        std::string digits = zeros;
        for (std::size_t i = 0; i < 8; ++i)
            digits[i] = "0123456789abcdef"[sum_ >> (28 - 4 * i) & 15];
        return digits;
    }
    /// Overwrites the crc32 field of `header`; no-op if there is none.
    GX_COLD static void put(std::string& header, const std::string& digits) {
        const std::string before = std::string("\"") + name + "\":\"";
        const auto at = header.find(before);
        if (at != header.npos && at + before.size() + digits.size() <= header.size())
            header.replace(at + before.size(), digits.size(), digits);
    }

private:
    unsigned long sum_ = 0;
};

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
        if (!file_ || none || length > size - sizeof length)
            throw wrong("the header is longer than the file");
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
            for (const JsonValue& field : entry.items)
                if (field.kind == JsonValue::Kind::string) metadata_[field.name] = field.text;
        }
        expect_no_holes();
    }

    [[nodiscard]] std::map<std::string, std::string>& metadata() { return metadata_; }

    GX_COLD SafetensorsFile whole() {
        SafetensorsFile out;
        FileSum sum;
        FileSum::put(text_, FileSum::zeros);
        sum.add(text_.data(), text_.size());
        for (const Described& t : tensors_) {
            std::vector<float> values(t.element == "F32" ? (t.end - t.begin) / sizeof(float) : 0);
            std::vector<char> others(t.element == "F32" ? 0 : t.end - t.begin);
            char* const bytes =
                others.empty() ? reinterpret_cast<char*>(values.data()) : others.data();
            file_.seekg(static_cast<std::streamoff>(data_begin_ + t.begin));
            file_.read(bytes, static_cast<std::streamsize>(t.end - t.begin));
            if (!file_) throw wrong("tensor '" + t.name + "' can't be read");
            sum.add(bytes, t.end - t.begin);
            if (t.element == "F16") values = decoded<fp16>(others);
            if (t.element == "BF16") values = decoded<bf16>(others);
            if (t.element == "F64") values = rounded(others);
            out.tensors[t.name] = {t.shape, std::move(values), t.element};
        }
        if (const auto kept = metadata_.find(FileSum::name);
            kept != metadata_.end() && kept->second != sum.text())
            throw wrong("its content has changed since it was written: field 'crc32' is '" +
                        kept->second + "', and its content has " + sum.text());
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
    static constexpr std::array<ElementBytes, 13> elements{{{"F32", 4},
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
                                                            {"BOOL", 1}}};
    GX_COLD [[nodiscard]] static std::uint64_t bytes_of(std::string_view element) {
        for (const ElementBytes& e : elements)
            if (e.name == element) return e.bytes;
        return 0;
    }
    template <class E>
    [[nodiscard]] static std::vector<float> decoded(const std::vector<char>& bytes) {
        std::vector<typename E::storage> stored(bytes.size() / sizeof(typename E::storage));
        std::memcpy(stored.data(), bytes.data(), bytes.size());
        std::vector<float> values(stored.size());
        for (std::size_t i = 0; i < stored.size(); ++i) values[i] = E::decode(stored[i]);
        return values;
    }
    [[nodiscard]] static std::vector<float> rounded(const std::vector<char>& bytes) {
        std::vector<double> stored(bytes.size() / sizeof(double));
        std::memcpy(stored.data(), bytes.data(), bytes.size());
        return {stored.begin(), stored.end()};
    }

    GX_COLD [[nodiscard]] Error wrong(const std::string& what) const {
        return Error("file '" + path_.string() + "': " + what +
                     ". It is not a whole safetensors file; take an earlier checkpoint.");
    }
    GX_COLD [[nodiscard]] Described described(const JsonValue& entry) const {
        const std::string& name = entry.name;
        try {
            const auto& offsets = entry.at("data_offsets").array();
            if (offsets.size() != 2) throw JsonError("begin and end");
            Described t{
                name, {}, offsets[0].integer<std::uint64_t>(), offsets[1].integer<std::uint64_t>()};
            for (const JsonValue& n : entry.at("shape").array()) t.shape.push_back(n.integer());
            t.element = entry.at("dtype").string();
            const std::uint64_t bytes = bytes_of(t.element);
            if (bytes == 0)
                throw wrong("field 'dtype' of tensor '" + name + "' is '" + t.element +
                            "', which gx does not read");
            const std::uint64_t most = data_bytes_ / bytes;
            const std::uint64_t count = element_count(t.shape, most);
            if (t.begin > t.end || t.end > data_bytes_ || count > most ||
                t.end - t.begin != count * bytes)
                throw wrong("field 'data_offsets' of tensor '" + name +
                            "' does not fit its shape or the file");
            return t;
        } catch (const JsonError&) {
            throw wrong("tensor '" + name + "' lacks dtype, shape or data_offsets");
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
    JsonWriter header;
    header.open('{').name("__metadata__").open('{');
    header.field(detail::FileSum::name, detail::FileSum::zeros);
    for (const auto& [key, value] : metadata)
        if (key != detail::FileSum::name) header.field(key, value);
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
    detail::FileSum sum;
    sum.add(text.data(), text.size());
    for (const auto& t : tensors) sum.add(t.values.data(), t.values.size_bytes());
    detail::FileSum::put(text, sum.text());
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
