// Files for the tests of loaders: crafted IDX bytes, gzipped or plain, in a folder of their own.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gx/core/error.hpp>

namespace support {

using Bytes = std::vector<std::uint8_t>;

/// A new folder, removed with all that is in it.
class TemporaryFolder {
public:
    TemporaryFolder() {
        std::string name = (std::filesystem::temp_directory_path() / "gx-XXXXXX").string();
        if (!mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
        path_ = name;
    }
    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;
    ~TemporaryFolder() { std::filesystem::remove_all(path_); }
    std::filesystem::path write(const std::string& name, const Bytes& bytes) const {
        std::ofstream out(path_ / name, std::ios::binary);
        out.write(reinterpret_cast<const char*>(bytes.data()), std::streamsize(bytes.size()));
        return path_ / name;
    }
    const std::filesystem::path& path() const { return path_; }

private:
    std::filesystem::path path_;
};

/// A gzip stream as `gzip -n` writes it: a header of ten bytes, deflate, CRC, length.
inline Bytes gzipped(const Bytes& plain) {
    z_stream z{};
    deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    Bytes packed(deflateBound(&z, plain.size()));
    Bytes input = plain;
    z.next_in = input.data();
    z.avail_in = static_cast<uInt>(input.size());
    z.next_out = packed.data();
    z.avail_out = static_cast<uInt>(packed.size());
    deflate(&z, Z_FINISH);
    packed.resize(z.total_out);
    deflateEnd(&z);
    return packed;
}

inline Bytes idx(std::uint8_t type, std::vector<std::uint32_t> sizes, const Bytes& data) {
    Bytes bytes{0, 0, type, static_cast<std::uint8_t>(sizes.size())};
    for (const std::uint32_t size : sizes)
        for (const int shift : {24, 16, 8, 0})
            bytes.push_back(static_cast<std::uint8_t>(size >> shift));
    bytes.insert(bytes.end(), data.begin(), data.end());
    return bytes;
}

/// The sentence of the gx::Error that `f` throws, or "no error".
inline std::string sentence_of(const auto& f) {
    try {
        f();
    } catch (const gx::Error& e) {
        return e.what();
    }
    return "no error";
}

}  // namespace support
