// What JsonWriter, json_quoted and json_number write.
#pragma once

#include <cmath>    // isfinite
#include <cstddef>  // size_t

#include <fmt/core.h>  // shortest digits that read back equal

#include <gx/io/json_text.hpp>  // JsonWriter
#include <gx/io/utf8.hpp>       // utf8_character

namespace gx {

GX_DECL std::string json_quoted(std::string_view text) {
    std::string out = "\"";
    for (std::size_t i = 0; i < text.size();) {
        const char c = text[i];
        const auto byte = static_cast<unsigned char>(c);
        std::size_t bytes = 1;
        if (c == '"' || c == '\\') {
            out += {'\\', c};
        } else if (byte < 0x20) {
            out += {'\\', 'u', '0', '0', "01"[c >> 4], "0123456789abcdef"[c & 15]};
        } else if (byte < 0x80) {
            out += c;
        } else if (const std::size_t wide = detail::utf8_character(text.substr(i)); wide > 0) {
            out += text.substr(i, bytes = wide);
        } else {
            out += "\\ufffd";
        }
        i += bytes;
    }
    return out + '"';
}

GX_DECL std::string json_number(double x) {
    return std::isfinite(x) ? fmt::format("{}", x) : "null";
}

GX_DECL JsonWriter& JsonWriter::open(char bracket) {
    begin_item();
    text_ += bracket;
    ++depth_;
    first_ = true;
    return *this;
}
GX_DECL JsonWriter& JsonWriter::close(char bracket) {
    --depth_;
    if (!first_) begin_line();
    text_ += bracket;
    first_ = false;
    return *this;
}
GX_DECL JsonWriter& JsonWriter::name(std::string_view name) {
    begin_item();
    text_ += json_quoted(name);
    text_ += indent_ > 0 ? ": " : ":";
    named_ = true;
    return *this;
}
GX_DECL JsonWriter& JsonWriter::put(std::string_view item) {
    begin_item();
    text_ += item;
    first_ = false;
    return *this;
}
GX_DECL void JsonWriter::begin_item() {
    if (named_) {
        named_ = false;
        return;
    }
    if (!first_) text_ += ',';
    if (depth_ > 0) begin_line();
}
GX_DECL void JsonWriter::begin_line() {
    if (indent_ == 0) return;
    text_ += '\n';
    text_.append(static_cast<std::size_t>(indent_) * static_cast<std::size_t>(depth_), ' ');
}

}  // namespace gx
