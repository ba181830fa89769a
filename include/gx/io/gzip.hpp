// read_whole_file: all bytes of a file, unpacked if it is gzipped, and checked.
#pragma once

#include <cstddef>     // size_t
#include <cstdint>     // uint8_t
#include <filesystem>  // path
#include <string>      // sentences
#include <vector>      // bytes

#include <gx/core/decl.hpp>  // GX_DECL

namespace gx {

using FileBytes = std::vector<std::uint8_t>;

namespace detail::loader {

/// Throws gx::Error: the file, what is wrong with it, and where to get it again.
[[noreturn]] GX_DECL void damaged(const std::filesystem::path& file, const std::string& what);

}  // namespace detail::loader

/// Returns all bytes of `file`, unpacked if its first two announce a gzip stream. Returns the first
/// `most` where there are more; what follows is neither unpacked nor checked.
/// Errors: gx::Error when it cannot be read; when its gzip stream is cut off, fails its check sum
///         or length, or is followed by other bytes. A flipped bit that leaves the contents as they
///         were (gzip's time, padding) goes unnoticed.
/// Cost:   memory for twice the bytes that it returns, whatever the file holds.
[[nodiscard]] GX_DECL FileBytes read_whole_file(const std::filesystem::path& file,
                                                std::size_t most = SIZE_MAX);

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/io/impl/gzip.ipp>
#endif
