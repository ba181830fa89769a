// read_file: the bytes of a file, up to a limit.
#pragma once

#include <cstddef>     // size_t
#include <filesystem>  // path
#include <string>      // bytes

#include <gx/core/decl.hpp>  // GX_DECL

namespace gx {

/// Read a regular file, a pipe or a device to its end.
/// Errors: gx::Error naming the file, if it is a folder, cannot be read or holds more than
///         `bytes_most`, as /dev/zero does.
[[nodiscard]] GX_DECL std::string read_file(const std::filesystem::path& file,
                                            std::size_t bytes_most = 256 << 20);

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/io/impl/read_file.ipp>
#endif
