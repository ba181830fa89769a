// Safetensors files: named float tensors and text, written whole or not at all.
#pragma once

#include <zlib.h>  // crc32_z

#include <algorithm>   // max
#include <bit>         // endian
#include <cerrno>      // errno
#include <cstdint>     // uint64_t
#include <cstring>     // strerror
#include <filesystem>  // path
#include <fstream>     // reading
#include <map>         // tensors by name
#include <span>        // values
#include <string>      // names
#include <utility>     // exchange
#include <vector>      // tensors

#include <gx/core/atomic_file.hpp>  // AtomicFile
#include <gx/core/cold.hpp>         // GX_COLD
#include <gx/core/error.hpp>        // Error
#include <gx/core/json_text.hpp>    // the header, written
#include <gx/core/json_value.hpp>   // the header, read

namespace gx {

/// One tensor to be written. Shapes: the product of `shape` is values.size().
struct NamedTensor {
    std::string name;
    std::vector<std::int64_t> shape;
    std::span<const float> values;
};

/// What a file held.
struct SafetensorsFile {
    struct Tensor {
        std::vector<std::int64_t> shape;
        std::vector<float> values;
    };
    std::map<std::string, Tensor> tensors;
    std::map<std::string, std::string> metadata;
};

namespace detail {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

/// CRC-32 of a file's header and data, told in its metadata: one changed bit is always found.
/// The sum is taken with its own eight digits as zeros.
class FileSum {
public:
    static constexpr const char *name = "crc32", *zeros = "00000000";

    GX_COLD void add(const void* data, std::size_t bytes) {
        sum_ = ::crc32_z(sum_, static_cast<const unsigned char*>(data), bytes);
    }
    GX_COLD [[nodiscard]] std::string text() const {
        std::string digits = zeros;
        for (std::size_t i = 0; i < 8; ++i)
            digits[i] = "0123456789abcdef"[sum_ >> (28 - 4 * i) & 15];
        return digits;
    }
    /// Puts other digits in the place of those in the header; nothing, where it tells no sum.
    GX_COLD static void put(std::string& header, const std::string& digits) {
        const std::string before = std::string("\"") + name + "\":\"";
        const auto at = header.find(before);
        if (at != header.npos && at + before.size() + digits.size() <= header.size())
            header.replace(at + before.size(), digits.size(), digits);
    }

private:
    unsigned long sum_ = 0;
};

}  // namespace detail

/// Writes tensors as F32, in the order given, and `metadata` as "__metadata__", with a checksum.
/// Errors: as write_file.
/// Source: github.com/huggingface/safetensors, README.md, section "Format".
GX_COLD inline void write_safetensors(const std::filesystem::path& path,
                                      const std::vector<NamedTensor>& tensors,
                                      const std::map<std::string, std::string>& metadata = {}) {
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

namespace detail {

/// The product of `shape`, or more than `most` where it is larger or a factor is negative.
GX_COLD inline std::uint64_t element_count(std::span<const std::int64_t> shape,
                                           std::uint64_t most) {
    std::uint64_t count = 1;
    for (const std::int64_t n : shape)
        if (n == 0) return 0;
    for (const std::int64_t n : shape) {
        const auto factor = static_cast<std::uint64_t>(n);  // a negative one is huge
        if (factor > most || count * factor > most) return most + 1;
        count *= factor;
    }
    return count;
}

}  // namespace detail

/// Reads every F32 tensor and the metadata. A file of another program need not tell a checksum.
/// Errors: gx::Error naming the file and the field for a missing, short or malformed file, and for
///         one that has changed since it was written.
GX_COLD inline SafetensorsFile read_safetensors(const std::filesystem::path& path) {
    const auto wrong = [&](const std::string& what) {
        return Error("file '" + path.string() + "': " + what +
                     ". It is not a whole safetensors file; take an earlier checkpoint.");
    };
    std::ifstream file(path, std::ios::binary);
    if (!file)
        throw Error("file '" + path.string() + "' cannot be opened: " + std::strerror(errno) +
                    ". Give the path of a checkpoint that was written before.");
    if (std::error_code none; std::filesystem::is_directory(path, none))
        throw Error("'" + path.string() + "' is a folder. Give one of the checkpoints in it.");
    std::error_code no_size;
    const std::uint64_t size = std::filesystem::file_size(path, no_size);
    std::uint64_t length = 0;
    file.read(reinterpret_cast<char*>(&length), sizeof length);
    if (!file || no_size || length > size - sizeof length)
        throw wrong("the header is longer than the file");
    std::string text(length, ' ');
    file.read(text.data(), static_cast<std::streamsize>(length));
    JsonValue header;
    try {
        header = read_json(text);
    } catch (const JsonError&) {
        throw wrong("the header is not a JSON object");
    }
    if (header.kind != JsonValue::Kind::object) throw wrong("the header is not a JSON object");

    detail::FileSum sum;
    detail::FileSum::put(text, detail::FileSum::zeros);
    sum.add(text.data(), text.size());
    const std::uint64_t data_bytes = size - sizeof length - length;
    std::uint64_t last_byte = 0;
    SafetensorsFile out;
    for (const JsonValue& entry : header.items) {
        const std::string& name = entry.name;
        if (name == "__metadata__") {
            for (const JsonValue& field : entry.items)
                if (field.kind == JsonValue::Kind::string) out.metadata[field.name] = field.text;
            continue;
        }
        try {
            const auto& offsets = entry.at("data_offsets").array();
            if (offsets.size() != 2) throw JsonError("begin and end");
            const auto begin = offsets[0].integer<std::uint64_t>();
            const auto end = offsets[1].integer<std::uint64_t>();
            SafetensorsFile::Tensor t;
            for (const JsonValue& n : entry.at("shape").array()) t.shape.push_back(n.integer());
            const std::uint64_t count = detail::element_count(t.shape, data_bytes / sizeof(float));
            if (entry.at("dtype").string() != "F32")
                throw wrong("tensor '" + name + "' is not F32");
            if (begin > end || end > data_bytes || count > data_bytes / sizeof(float) ||
                end - begin != count * sizeof(float))
                throw wrong("field 'data_offsets' of tensor '" + name +
                            "' does not fit its shape "
                            "or the file");
            t.values.resize(count);
            file.seekg(static_cast<std::streamoff>(sizeof length + length + begin));
            file.read(reinterpret_cast<char*>(t.values.data()),
                      static_cast<std::streamsize>(end - begin));
            if (!file) throw wrong("tensor '" + name + "' can't be read");
            sum.add(t.values.data(), end - begin);
            last_byte = std::max(last_byte, end);
            if (!out.tensors.emplace(name, std::move(t)).second)
                throw wrong("tensor '" + name + "' stands in its header twice");
        } catch (const JsonError&) {
            throw wrong("tensor '" + name + "' lacks dtype, shape or data_offsets");
        }
    }
    if (last_byte != data_bytes) throw wrong("it goes on behind its last tensor");
    if (const auto told = out.metadata.find(detail::FileSum::name);
        told != out.metadata.end() && told->second != sum.text())
        throw wrong("its content has changed since it was written: field 'crc32' is " +
                    told->second + ", and what it holds has " + sum.text());
    return out;
}

}  // namespace gx
