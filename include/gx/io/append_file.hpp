// AppendFile: a file that grows by whole records; a killed program tears none.
#pragma once

#include <cstdint>      // sizes
#include <filesystem>   // path
#include <string_view>  // records

#include <gx/core/decl.hpp>  // GX_DECL

namespace gx {

/// A file that records are appended to, each by one call of the system. A program that is killed
/// leaves whole records; a machine that loses power may leave a part of the last ones.
///
/// Errors: gx::Error naming the file, where it can't be opened or written. Of a record that did not
///         fit on the disk nothing stays.
/// Threads: one at a time.
/// Cost:   one system call a record, no allocation.
class AppendFile {
public:
    /// Opens the file, or makes it; its folder must be there.
    GX_DECL explicit AppendFile(std::filesystem::path path);
    AppendFile(const AppendFile&) = delete;
    AppendFile& operator=(const AppendFile&) = delete;
    GX_DECL ~AppendFile();

    GX_DECL void append(std::string_view record);
    /// Keeps the first `bytes`; no-op for what is no regular file.
    GX_DECL void cut(std::uint64_t bytes);
    /// Not a pipe, a terminal or another device.
    [[nodiscard]] bool is_regular() const { return regular_; }
    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

private:
    [[noreturn]] GX_DECL void fail(const char* what) const;

    std::filesystem::path path_;
    int file_ = -1;
    bool regular_ = false;
    std::uint64_t size_ = 0;
};

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/io/impl/append_file.ipp>
#endif
