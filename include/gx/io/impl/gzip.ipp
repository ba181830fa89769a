// read_whole_file, by zlib's own reader of files.
#pragma once

#include <zlib.h>  // gzread

#include <algorithm>     // max, min
#include <array>         // the end of a stream
#include <cerrno>        // why it cannot be read
#include <cstring>       // strerror
#include <fstream>       // ifstream
#include <memory>        // unique_ptr
#include <system_error>  // error_code

#include <gx/core/error.hpp>  // Error
#include <gx/io/gzip.hpp>     // read_whole_file

namespace gx {

namespace detail::loader {

GX_DECL void damaged(const std::filesystem::path& file, const std::string& what) {
    throw Error("gx: " + file.string() + ": " + what +
                ". The file is damaged or not a data file: get it again.");
}
[[noreturn]] inline void unreadable(const std::filesystem::path& file) {
    throw Error("gx: " + file.string() + ": cannot be read: " + std::strerror(errno) +
                ". Give the path of a data file that this user may read.");
}

/// A stream ends with the check sum and the length of its contents, so a file whose end is another
/// holds more than one stream: zlib's reader passes over bytes that follow.
inline void expect_at_end(const std::filesystem::path& file, const FileBytes& contents) {
    std::array<unsigned char, 8> end{};
    std::ifstream in(file, std::ios::binary);
    in.seekg(-8, std::ios::end);
    in.read(reinterpret_cast<char*>(end.data()), 8);
    const auto word = [&](std::size_t i) {
        return std::uint32_t{end[i]} | std::uint32_t{end[i + 1]} << 8 |
               std::uint32_t{end[i + 2]} << 16 | std::uint32_t{end[i + 3]} << 24;
    };
    const auto sum = static_cast<std::uint32_t>(crc32_z(0, contents.data(), contents.size()));
    if (!in || word(0) != sum || word(4) != static_cast<std::uint32_t>(contents.size()))
        damaged(file, "other bytes, or another gzip stream, follow its first one");
}

}  // namespace detail::loader

GX_DECL FileBytes read_whole_file(const std::filesystem::path& file, std::size_t most) {
    namespace d = detail::loader;
    if (std::error_code none; std::filesystem::exists(file, none) &&
                              !std::filesystem::is_regular_file(file, none) &&
                              !std::filesystem::is_directory(file, none))
        throw Error("gx: " + file.string() +
                    ": is a device or a pipe, which may have no end. Give the path of a file.");
    errno = 0;
    const auto close = [](gzFile in) { gzclose(in); };
    const std::unique_ptr<gzFile_s, decltype(close)> in(gzopen(file.c_str(), "rb"), close);
    if (!in) d::unreadable(file);
    gzbuffer(in.get(), 1 << 17);
    FileBytes bytes;
    std::size_t given = 0;
    for (int n = 1; n > 0 && given < most; given += static_cast<std::size_t>(n)) {
        bytes.resize(std::min(most, std::max<std::size_t>(1 << 16, 2 * given)));
        const std::size_t room = std::min<std::size_t>(bytes.size() - given, 1 << 30);
        n = gzread(in.get(), bytes.data() + given, static_cast<unsigned>(room));
        int status = Z_OK;
        const char* why = gzerror(in.get(), &status);
        if (status == Z_ERRNO) d::unreadable(file);
        if (status == Z_BUF_ERROR) d::damaged(file, "the gzip stream ends before its check sum");
        if (n < 0 || status < 0) d::damaged(file, std::string("the gzip stream is wrong: ") + why);
    }
    bytes.resize(given);
    if (given < most && gzdirect(in.get()) == 0) d::expect_at_end(file, bytes);
    return bytes;
}

}  // namespace gx
