// Lines of a file of class names.
#pragma once

#include <algorithm>  // min

#include <gx/io/read_file.hpp>        // read_file
#include <gx/loader/class_names.hpp>  // the declarations

namespace gx {

GX_DECL std::vector<std::string> class_names_in(std::string_view text) {
    std::vector<std::string> names;
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find('\n', begin), text.size());
        std::string_view line = text.substr(begin, end - begin);
        if (line.ends_with('\r')) line.remove_suffix(1);
        if (!line.empty()) names.emplace_back(line);
        begin = end + 1;
    }
    return names;
}

GX_DECL std::vector<std::string> read_class_names(const std::filesystem::path& file) {
    return class_names_in(read_file(file, 1 << 24));
}

}  // namespace gx
