// Texts of the members that nondefault() prints.
#pragma once

#include <charconv>  // to_chars

#include <gx/reflect/nondefault.hpp>  // the declarations

namespace gx::detail::nondefault {

/// The shortest text that reads back as the same number.
template <class T>
void add_number(std::string& text, std::string_view name, T mine, T standard) {
    if (mine == standard) return;
    char room[64];
    add_text(text, name, {room, std::to_chars(room, room + sizeof room, mine).ptr});
}

GX_DECL void add_value(std::string& text, std::string_view name, bool mine, bool standard) {
    if (mine != standard) add_text(text, name, mine ? "true" : "false");
}
GX_DECL void add_value(std::string& text, std::string_view name, float mine, float standard) {
    add_number(text, name, mine, standard);
}
GX_DECL void add_value(std::string& text, std::string_view name, double mine, double standard) {
    add_number(text, name, mine, standard);
}
GX_DECL void add_value(std::string& text, std::string_view name, std::int64_t mine,
                       std::int64_t standard) {
    add_number(text, name, mine, standard);
}
GX_DECL void add_value(std::string& text, std::string_view name, std::uint64_t mine,
                       std::uint64_t standard) {
    add_number(text, name, mine, standard);
}

GX_DECL void add_text(std::string& text, std::string_view name, std::string_view value) {
    if (value.empty()) return;
    text += text.empty() ? "." : ", .";
    text.append(name).append(" = ").append(value);
}
GX_DECL void add_quoted(std::string& text, std::string_view name, std::string_view value) {
    add_text(text, name, std::string("\"").append(value).append("\""));
}
GX_DECL void add_braced(std::string& text, std::string_view name, std::string_view inner) {
    add_text(text, name, std::string("{").append(inner).append("}"));
}

}  // namespace gx::detail::nondefault
