// Text: lower case, words, numbers, and whether a text states a word.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gx::tools {

/// ASCII letters in lower case; everything else unchanged.
[[nodiscard]] std::string lower(std::string_view text);

/// Whether `word` occurs in `text`, also inside of another word.
[[nodiscard]] bool has(std::string_view text, std::string_view word);

/// Whether `word` occurs in `text` apart from other lower-case letters and digits.
[[nodiscard]] bool has_word(std::string_view text, std::string_view word);

/// The first run of lower-case letters and digits, which `rest` then begins behind; empty: none.
[[nodiscard]] std::string_view next_word(std::string_view& rest);

/// The number that a text is, as "1024", "1,024.5" or ".5": commas stand before exactly three
/// digits each. Nothing: another text.
[[nodiscard]] std::optional<double> plain_number(std::string_view text);

/// The size of the digits, commas and points that a number may have, at the start of a text.
[[nodiscard]] std::size_t number_size(std::string_view text);

/// How a searched word stands in a text.
enum class Word : unsigned char {
    inside,  ///< anywhere, as by `has`
    apart    ///< as by `has_word`
};

/// Where `text`, in lower case, says `word` and does not deny it; npos: nowhere. It is denied
/// behind "no", "not", "without", "never", "vs", "unlike", "instead of" or "rather than", up to a
/// comma, semicolon or bracket; and before "off", "disabled", "unused" or "not used". So ", not X"
/// never makes a text say X.
[[nodiscard]] std::size_t find_stated(std::string_view text, std::string_view word,
                                      Word how = Word::inside);

/// Whether `find_stated` finds it.
[[nodiscard]] bool states(std::string_view text, std::string_view word, Word how = Word::inside);

/// Whether `word` occurs in `text`, but only where it is denied.
[[nodiscard]] bool denies(std::string_view text, std::string_view word, Word how = Word::inside);

}  // namespace gx::tools
