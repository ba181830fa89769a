#include <tools/common/text.hpp>

#include <algorithm>         // any_of, min
#include <cstdlib>           // strtod
#include <initializer_list>  // words

namespace gx::tools {

namespace {

bool is_letter(char c) { return 'a' <= c && c <= 'z'; }
bool is_word(char c) { return is_letter(c) || ('0' <= c && c <= '9'); }

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> all) {
    return std::any_of(all.begin(), all.end(), [&](std::string_view w) { return w == word; });
}
/// Whether the words of a clause deny what follows them.
bool denies_next(std::string_view clause) {
    bool denied = false;
    std::string_view last{};
    for (std::string_view word = next_word(clause); !word.empty(); word = next_word(clause)) {
        if (is_one_of(word, {"no", "not", "without", "never", "vs", "versus", "unlike", "excluding",
                             "except", "nor", "neither", "lacks", "lacking", "isn", "wasn"}))
            denied = true;
        if ((last == "instead" && word == "of") || (last == "rather" && word == "than"))
            denied = true;
        if ((last == "not" && (word == "only" || word == "just")) || word == "but") denied = false;
        last = word;
    }
    return denied || last == "non";
}
/// Whether no letter or digit is beside a part of a text.
bool stands_apart(std::string_view text, std::size_t at, std::size_t size) {
    return (at == 0 || !is_word(text[at - 1])) &&
           (at + size >= text.size() || !is_word(text[at + size]));
}
/// Whether a text denies what stands right before it: " off", " is disabled", "=0", " (not used)".
bool denies_last(std::string_view text) {
    std::string_view rest = text;
    rest.remove_prefix(std::min(rest.find_first_not_of(" =:-(["), rest.size()));
    const bool assigned =
        text.substr(0, text.size() - rest.size()).find_first_of("=:") != text.npos;
    if (text.size() == rest.size() || rest.empty() || !is_word(rest[0])) return false;
    rest = rest.substr(0, rest.find_first_of(",;()[]"));
    std::string_view word = next_word(rest);
    while (is_one_of(word, {"is", "was", "are", "were", "being", "turned", "switched", "2", "3"}))
        word = next_word(rest);
    if (is_one_of(word, {"off", "disabled", "unused", "absent", "unavailable", "deactivated"}))
        return true;
    if (assigned && is_one_of(word, {"no", "none", "false"})) return true;
    if (assigned && word == "0" && !rest.starts_with(".")) return true;
    return word == "not" && is_one_of(next_word(rest), {"used", "available", "enabled", "present",
                                                        "supported", "active", "installed", "in"});
}

}  // namespace

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if ('A' <= c && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
}

bool has(std::string_view text, std::string_view word) {
    return text.find(word) != std::string_view::npos;
}

bool has_word(std::string_view text, std::string_view word) {
    for (auto at = text.find(word); at != text.npos; at = text.find(word, at + 1))
        if (stands_apart(text, at, word.size())) return true;
    return false;
}

std::string_view next_word(std::string_view& rest) {
    std::size_t begin = 0;
    while (begin < rest.size() && !is_word(rest[begin])) ++begin;
    std::size_t end = begin;
    while (end < rest.size() && is_word(rest[end])) ++end;
    const std::string_view word = rest.substr(begin, end - begin);
    rest.remove_prefix(end);
    return word;
}

std::size_t number_size(std::string_view text) {
    std::size_t n = 0;
    const auto digit = [&](std::size_t i) {
        return i < text.size() && '0' <= text[i] && text[i] <= '9';
    };
    while (digit(n) || (n < text.size() && (text[n] == ',' || text[n] == '.') && digit(n + 1))) ++n;
    if (n < text.size() && n > 0 && text[n] == '.' && text[n - 1] != '.') ++n;  // "64."
    return n;
}

std::optional<double> plain_number(std::string_view text) {
    std::string digits;
    std::size_t group = 0;  // digits since the last comma
    bool point = false, comma = false;
    for (const char c : text) {
        if (c == ',') {
            if (point || group == 0 || (comma ? group != 3 : group > 3)) return std::nullopt;
            comma = true, group = 0;
        } else if (c == '.') {
            if (point || (comma && group != 3)) return std::nullopt;
            point = true, digits += c;
        } else if ('0' <= c && c <= '9') {
            digits += c;
            if (!point) ++group;
        } else return std::nullopt;
    }
    if (digits.empty() || digits == "." || (comma && group != 3)) return std::nullopt;
    return std::strtod(digits.c_str(), nullptr);
}

std::size_t find_stated(std::string_view text, std::string_view word, Word how) {
    for (auto at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
        if (how == Word::apart && !stands_apart(text, at, word.size())) continue;
        const std::string_view before = text.substr(0, at);
        const auto clause = before.find_last_of(",;()[]");
        std::size_t end = at + word.size();  // of the whole word
        while (how == Word::inside && !word.empty() && end < text.size() && is_letter(text[end]))
            ++end;
        if (!denies_next(clause == before.npos ? before : before.substr(clause)) &&
            !denies_last(text.substr(end)))
            return at;
    }
    return text.npos;
}

bool states(std::string_view text, std::string_view word, Word how) {
    return find_stated(text, word, how) != text.npos;
}

bool denies(std::string_view text, std::string_view word, Word how) {
    return (how == Word::apart ? has_word(text, word) : has(text, word)) &&
           !states(text, word, how);
}

}  // namespace gx::tools
