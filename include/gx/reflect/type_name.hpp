// type_name<T>(): the name of a type as a program spells it, for reports.
#pragma once

#include <cctype>       // isalnum
#include <string>       // the name
#include <string_view>  // the compiler's own

#include <gx/core/cold.hpp>  // GX_COLD

namespace gx {

namespace detail {
[[nodiscard]] inline bool in_word(char c) {
    return c == '_' || std::isalnum(static_cast<unsigned char>(c)) != 0;
}
/// Returns the name in "... type_name() [with T = gx::X; ...]".
GX_COLD [[nodiscard]] inline std::string name_in(std::string_view text) {
    text.remove_prefix(text.find("T = ") + 4);
    text = text.substr(0, text.find_first_of(";]"));
    std::string name;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const bool starts_name = name.empty() || !(in_word(name.back()) || name.back() == ':');
        if (starts_name && text.substr(i, 4) == "gx::") i += 3;
        else if (text[i] != ' ' || name.back() == ',') name += text[i];
        else if (in_word(name.back()) && in_word(text[i + 1])) name += ' ';
    }
    return name;
}
}  // namespace detail

/// Returns the type's name without namespace gx, as in "Warmup<Poly<2>>"; equal on g++ and clang.
/// Errors: a type inside a function or an unnamed namespace keeps the compiler's words for it.
template <class T>
[[nodiscard]] std::string type_name() {
    return detail::name_in(__PRETTY_FUNCTION__);
}

}  // namespace gx
