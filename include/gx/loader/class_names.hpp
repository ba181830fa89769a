// Class names in a file, a line each.
#pragma once

#include <filesystem>   // path
#include <string>       // names
#include <string_view>  // text
#include <vector>       // names

#include <gx/core/decl.hpp>  // GX_DECL

namespace gx {

/// The lines of a text, each without its end (LF or CR LF); empty ones are left out.
[[nodiscard]] GX_DECL std::vector<std::string> class_names_in(std::string_view text);

/// The class names in a file, a line each, from class 0 on.
/// Errors: as read_file, for a file of more than 16 MiB, too.
[[nodiscard]] GX_DECL std::vector<std::string> read_class_names(const std::filesystem::path& file);

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/loader/impl/class_names.ipp>
#endif
