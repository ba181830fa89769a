// gunzip: the contents of gzip members that are in memory.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gx::tools {

/// Whether a text begins as a gzip member does.
[[nodiscard]] bool is_gzip(std::string_view text);

/// The contents of one member after another (RFC 1952), of which there are at least one.
/// `file`: for sentences.
/// Errors: gx::Error naming the file, where a member is cut off or damaged, is followed by other
///         bytes, or all of them hold more than `most` bytes.
[[nodiscard]] std::string gunzip(std::string_view packed, const std::string& file,
                                 std::size_t most);

}  // namespace gx::tools
