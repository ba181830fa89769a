// read_whole_file: the bytes of a file, unpacked when it is gzipped, checked to the last one.
#pragma once

#include <zlib.h>  // inflate

#include <algorithm>   // max, min
#include <cerrno>      // why it cannot be read
#include <climits>     // UINT_MAX
#include <cstdint>     // uint8_t
#include <cstring>     // strerror
#include <filesystem>  // path
#include <fstream>     // ifstream
#include <string>      // sentences
#include <utility>     // move
#include <vector>      // bytes

#include <gx/core/error.hpp>  // Error

namespace gx {

using FileBytes = std::vector<std::uint8_t>;

namespace detail::loader {

[[noreturn]] inline void damaged(const std::filesystem::path& file, const std::string& what) {
    throw Error("gx: " + file.string() + ": " + what +
                ". The file is damaged or not a data file: get it again (Debian's Fashion-MNIST: "
                "apt-get install --reinstall dataset-fashion-mnist).");
}

[[nodiscard]] inline FileBytes raw_bytes(const std::filesystem::path& file) {
    std::error_code trouble;
    const auto size = std::filesystem::file_size(file, trouble);  // fails for folders as well
    errno = 0;
    std::ifstream in(file, std::ios::binary);
    FileBytes bytes(trouble ? 0 : size);
    if (!trouble && in) in.read(reinterpret_cast<char*>(bytes.data()), std::streamsize(size));
    if (trouble || !in)
        throw Error("gx: " + file.string() + ": cannot be read: " +
                    (trouble ? trouble.message() : std::string(std::strerror(errno))) +
                    ". Give the path of a data file that this user may read.");
    return bytes;
}

/// Undoes the initialisation of a z_stream on every way out.
struct Inflation {
    z_stream z{};
    Inflation() {
        if (inflateInit2(&z, 15 + 16) != Z_OK) throw Error("gx: zlib: no memory to unpack a file");
    }
    Inflation(const Inflation&) = delete;
    Inflation& operator=(const Inflation&) = delete;
    ~Inflation() { inflateEnd(&z); }
};

}  // namespace detail::loader

/// What the gzip stream `packed` holds; `file` is where it came from, for the error's sentence.
/// Errors: gx::Error when it is cut off, fails its check sum or length, or other bytes follow. A
///         flipped bit that leaves the contents as they were (gzip's time, padding) goes unnoticed.
[[nodiscard]] inline FileBytes unpack_gzip(FileBytes packed, const std::filesystem::path& file) {
    using detail::loader::damaged;
    detail::loader::Inflation inflation;
    z_stream& z = inflation.z;
    FileBytes bytes(std::max<std::size_t>(4096, packed.size() * 4));
    std::size_t taken = 0, given = 0;  // zlib counts in 32 bits, so both are walked in pieces
    int status = Z_OK;
    while (status == Z_OK) {
        if (given == bytes.size()) bytes.resize(bytes.size() * 2);
        z.next_in = packed.data() + taken;
        z.avail_in = static_cast<uInt>(std::min<std::size_t>(packed.size() - taken, UINT_MAX));
        z.next_out = bytes.data() + given;
        z.avail_out = static_cast<uInt>(std::min<std::size_t>(bytes.size() - given, UINT_MAX));
        status = inflate(&z, Z_NO_FLUSH);
        taken = static_cast<std::size_t>(z.next_in - packed.data());
        given = static_cast<std::size_t>(z.next_out - bytes.data());
        if (status == Z_OK && taken == packed.size() && given < bytes.size()) status = Z_BUF_ERROR;
    }
    if (status == Z_BUF_ERROR)
        damaged(file, "the gzip stream ends after " + std::to_string(packed.size()) +
                          " bytes, before its check sum");
    if (status != Z_STREAM_END)
        damaged(file, "the gzip stream is wrong at byte " + std::to_string(taken) + ": " +
                          (z.msg ? z.msg : "zlib error " + std::to_string(status)));
    if (taken != packed.size())
        damaged(file, std::to_string(packed.size() - taken) + " bytes follow the gzip stream");
    bytes.resize(given);
    return bytes;
}

/// All bytes of `file`. A gzip stream is told by its first two bytes, not by the file's name.
/// Errors: gx::Error when it cannot be read, or as unpack_gzip.
[[nodiscard]] inline FileBytes read_whole_file(const std::filesystem::path& file) {
    FileBytes bytes = detail::loader::raw_bytes(file);
    if (bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b)
        return unpack_gzip(std::move(bytes), file);
    return bytes;
}

}  // namespace gx
