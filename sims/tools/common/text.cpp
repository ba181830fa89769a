#include <tools/common/text.hpp>

namespace gx::tools {

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
    const auto letter = [&](std::size_t i) {
        return i < text.size() &&
               (('a' <= text[i] && text[i] <= 'z') || ('0' <= text[i] && text[i] <= '9'));
    };
    for (auto at = text.find(word); at != text.npos; at = text.find(word, at + 1))
        if ((at == 0 || !letter(at - 1)) && !letter(at + word.size())) return true;
    return false;
}

}  // namespace gx::tools
