// read_file: refuses folders, and stops behind the limit.
#pragma once

#include <fstream>       // ifstream
#include <system_error>  // error_code

#include <gx/core/error.hpp>    // Error
#include <gx/io/read_file.hpp>  // itself

namespace gx {

GX_DECL std::string read_file(const std::filesystem::path& file, std::size_t bytes_most) {
    const auto refuse = [&](const std::string& what) {
        throw Error("file '" + file.string() + "' " + what);
    };
    std::error_code ignored;
    if (std::filesystem::is_directory(file, ignored)) refuse("is a folder. Name a file in it.");
    std::ifstream in(file, std::ios::binary);
    if (!in) refuse("cannot be read. Name a file that exists and is readable.");
    std::string text;
    for (char part[1 << 16]; in.read(part, sizeof part) || in.gcount() > 0;) {
        text.append(part, static_cast<std::size_t>(in.gcount()));
        if (text.size() > bytes_most)
            refuse("is longer than " + std::to_string(bytes_most) + " bytes. Name a shorter one.");
    }
    if (in.bad()) refuse("cannot be read to its end: the system reports an error.");
    return text;
}

}  // namespace gx
