// utf8_character, utf8_prefix: the next character of text, where it is UTF-8, and the first ones.
#pragma once

#include <cstddef>      // size_t
#include <cstdint>      // uint32_t
#include <string_view>  // text

namespace gx::detail {

/// Bytes of the character that `text` begins with; 0 if it is empty or begins with none.
/// Source: RFC 3629, section 4: no longer form than needed, no surrogates, up to U+10FFFF.
[[nodiscard]] constexpr std::size_t utf8_character(std::string_view text) {
    if (text.empty()) return 0;
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const std::uint32_t first = byte(0);
    if (first < 0x80) return 1;
    const std::size_t bytes = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (bytes == 0 || first > 0xf4 || text.size() < bytes) return 0;
    std::uint32_t c = first & (0x7fu >> bytes);
    for (std::size_t i = 1; i < bytes; ++i) {
        if ((byte(i) & 0xc0) != 0x80) return 0;
        c = c << 6 | (byte(i) & 0x3fu);
    }
    constexpr std::uint32_t least[]{0, 0, 0x80, 0x800, 0x10000};
    const bool surrogate = c >= 0xd800 && c <= 0xdfff;
    return c < least[bytes] || surrogate || c > 0x10ffff ? 0 : bytes;
}

/// The most characters that `text` begins with in at most so many bytes.
[[nodiscard]] constexpr std::string_view utf8_prefix(std::string_view text, std::size_t bytes) {
    std::size_t end = 0;
    for (std::size_t next = utf8_character(text); next > 0 && end + next <= bytes;
         next = utf8_character(text.substr(end)))
        end += next;
    return text.substr(0, end);
}

}  // namespace gx::detail
