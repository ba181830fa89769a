// Text: lower case and search for words.
#pragma once

#include <string>
#include <string_view>

namespace gx::tools {

/// ASCII letters in lower case; everything else unchanged.
[[nodiscard]] std::string lower(std::string_view text);

/// Whether `word` occurs in `text`, also inside of another word.
[[nodiscard]] bool has(std::string_view text, std::string_view word);

/// Whether `word` occurs in `text` apart from other lower-case letters and digits.
[[nodiscard]] bool has_word(std::string_view text, std::string_view word);

}  // namespace gx::tools
