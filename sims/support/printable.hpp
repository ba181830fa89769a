// printable: text that no terminal acts on.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>  // escapes

namespace gx {

/// Write control characters as \xNN, apart from those in `kept`, so that no terminal acts on them.
/// Escaped: bytes below 0x20 and 0x7f, and U+0080 to U+009F in UTF-8.
[[nodiscard]] inline std::string printable(std::string_view text, std::string_view kept = "") {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0u;
        if (byte == 0xc2 && 0x80 <= next && next < 0xa0) out += fmt::format("\\x{:02x}", next), ++i;
        else if ((byte < 0x20 || byte == 0x7f) && kept.find(text[i]) == kept.npos)
            out += fmt::format("\\x{:02x}", byte);
        else out += text[i];
    }
    return out;
}

}  // namespace gx
