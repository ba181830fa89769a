// last_identifier: the name at the end of what a compiler writes in __PRETTY_FUNCTION__.
#pragma once

#include <cstddef>      // size_t
#include <string_view>  // text

namespace gx::detail {

/// Returns the last run of letters, digits and '_', as `name` of "... [with auto x = a::name]".
[[nodiscard]] consteval std::string_view last_identifier(std::string_view text) {
    const auto in_name = [](char c) {
        return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') ||
               c == '_';
    };
    std::size_t end = text.size();
    while (!in_name(text[end - 1])) --end;
    std::size_t begin = end;
    while (in_name(text[begin - 1])) --begin;
    return text.substr(begin, end - begin);
}

}  // namespace gx::detail
