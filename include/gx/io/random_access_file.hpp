// RandomAccessFile: a regular file read by position, by any number of threads.
#pragma once

#include <cstddef>     // size_t
#include <cstdint>     // uint64_t
#include <filesystem>  // path
#include <span>        // bytes

#include <gx/core/decl.hpp>  // GX_DECL

namespace gx {

/// An open regular file without a position of its own, so that threads share no state.
/// Errors: gx::Error naming the file, and the byte of a read that failed; pipes and devices are
///         refused without waiting for them.
class RandomAccessFile {
public:
    explicit RandomAccessFile(std::filesystem::path path);
    RandomAccessFile(const RandomAccessFile&) = delete;
    RandomAccessFile& operator=(const RandomAccessFile&) = delete;
    ~RandomAccessFile();

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }
    /// When it was opened.
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    /// Reads up to to.size() bytes from `at` on; returns how many there were.
    [[nodiscard]] std::size_t read(std::uint64_t at, std::span<std::uint8_t> to) const;

private:
    std::filesystem::path path_;
    int file_;
    std::uint64_t bytes_ = 0;
};

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/io/impl/random_access_file.ipp>
#endif
