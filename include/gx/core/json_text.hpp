// json_quoted, json_number: the two parts of JSON that text needs care for; the rest is format.
#pragma once

#include <cmath>        // isfinite
#include <string>       // the text
#include <string_view>  // what to quote

#include <fmt/format.h>  // shortest digits that read back equal

namespace gx {

/// `text` (UTF-8) as a JSON string, with its quotes.
/// Source: RFC 8259, section 7.
[[nodiscard]] inline std::string json_quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += {'\\', c};
        else if (static_cast<unsigned char>(c) < 0x20)
            out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        else out += c;
    }
    return out + '"';
}

/// The shortest number that reads back equal; null where JSON has none (infinities, NaN).
[[nodiscard]] inline std::string json_number(double x) {
    return std::isfinite(x) ? fmt::format("{}", x) : "null";
}

}  // namespace gx
