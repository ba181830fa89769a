#include <tools/predict/parameter_profile.hpp>

#include <algorithm>  // count, find, min
#include <cctype>     // isalnum

#include <tools/common/json.hpp>  // parse_json
#include <tools/common/text.hpp>  // has, lower, plain_number, Word
#include <tools/data.hpp>         // parameter_profiles

namespace gx::tools::predict {

const std::vector<ParameterProfile>& parameter_profiles() {
    static const std::vector<ParameterProfile> all = [] {
        std::vector<ParameterProfile> rows;
        const Json file = parse_json(data::parameter_profiles, "parameter_profiles.json");
        for (const Json& row : file.at("profiles"))
            rows.push_back({row.at("name").get<std::string>(), row.at("millions").get<double>(),
                            row.value("first", 0.05), row.value("last", 0.0)});
        return rows;
    }();
    return all;
}

namespace {

/// Whether a text goes on with what a number of them is no number of parameters: "300B tokens",
/// "1.28M images", "1b-word".
bool counts_others(std::string_view rest) {
    rest.remove_prefix(std::min(rest.find_first_not_of(" -"), rest.size()));
    for (const char* other : {"token", "word", "image", "sample", "sentence", "sequence", "example",
                              "step", "iteration", "train token", "training"})
        if (rest.starts_with(other)) return true;
    return false;
}
bool is_digit(char c) { return '0' <= c && c <= '9'; }

/// Letters and digits in lower case, as find_model's plain() has them, and before which of them
/// something else stands. A point between digits is part of their number.
struct Plain {
    std::string text{};
    std::vector<bool> apart{};  ///< one more than letters
};
Plain plain_of(std::string_view written) {
    Plain p;
    bool apart = true;
    const std::string text = lower(written);
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        const bool point = c == '.' && i > 0 && is_digit(text[i - 1]) && i + 1 < text.size() &&
                           is_digit(text[i + 1]) && text[i + 1] != '0';
        if (('a' <= c && c <= 'z') || is_digit(c)) {
            p.text += c;
            p.apart.push_back(apart);
            apart = false;
        } else if (!point) apart = true;
    }
    p.apart.push_back(true);
    return p;
}
/// Whether a name that ends at `end` in a letter for a size cuts a word that begins with it: "vitb"
/// of "ViT-bigG" does. "ViT-Base" and "ViT-B16" are ViT-B.
bool cuts_word(const Plain& said, std::size_t end) {
    if (end < 2 || !said.apart[end - 1]) return false;
    std::size_t last = end;
    while (!said.apart[last] && !is_digit(said.text[last])) ++last;
    const std::string_view word = std::string_view(said.text).substr(end - 1, last - end + 1);
    const auto sizes = {"tiny", "small", "base", "medium", "large", "huge"};
    return word.size() > 1 && std::ranges::find(sizes, word) == sizes.end();
}
/// Whether a name that ends at `end` cuts no number: "gpt3" of "gpt 32 layers" and "resnet50v1" of
/// "resnet-50 v1.5" do. "GPT (3 layers)" is no GPT-3. Nor a word.
bool ends_whole(const Plain& said, std::string_view name, std::size_t end) {
    if (!is_digit(name.back())) return !cuts_word(said, end);
    const std::string_view rest = std::string_view(said.text).substr(end);
    if (!rest.empty() && is_digit(rest[0]) && !said.apart[end]) return false;
    return !(name.starts_with("gpt") && rest.starts_with("layer"));
}

}  // namespace

bool opens_with(std::string_view model, std::string_view name) {
    const Plain said = plain_of(model);
    return said.text.starts_with(name) && ends_whole(said, name, name.size());
}

bool holds(std::string_view model, std::string_view name, Word how) {
    const Plain said = plain_of(model);
    for (auto at = said.text.find(name); at != std::string::npos;
         at = said.text.find(name, at + 1)) {
        if (!ends_whole(said, name, at + name.size())) continue;
        if (how == Word::apart && !said.apart[at]) continue;
        const bool cut = is_digit(name.front()) && at > 0 && is_digit(said.text[at - 1]);
        const bool other_bert = name.starts_with("bert") && !said.apart[at];  // "DeBERTa"
        if (!other_bert && (!cut || said.apart[at])) return true;
    }
    return false;
}

namespace {

/// Of one of a unit; 0 for another word.
double millions_of(std::string_view word) {
    if (word == "m" || word == "mio" || word == "million" || word == "millions") return 1;
    if (word == "b" || word == "bn" || word == "billion" || word == "billions") return 1000;
    return word == "t" || word == "trillion" || word == "trillions" ? 1'000'000 : 0;
}

/// Where the number begins that the one at `i` is a factor or an exponent of, as in "8x7B",
/// "8 * 7B" and "1e3M", and `i` where it is of none. Mixtral 8x7B has experts of 7 billion, and
/// more in all.
std::size_t begin_of_factor(std::string_view text, std::size_t i) {
    std::string_view before = text.substr(0, i);
    const auto take = [&](std::string_view end) {
        if (!before.ends_with(end)) return false;
        before.remove_suffix(end.size());
        return true;
    };
    const bool space = take(" ");
    if (!take("x") && !take("*") && !take("\xc3\x97") && !(before.size() == i && take("e")))
        return i;
    if (!take(" ") && space) return i;  // "ResNet-50 4x 375M": four times as wide
    const std::size_t begin = before.find_last_not_of("0123456789") + 1;  // npos + 1 is 0
    return begin < before.size() ? begin : i;
}

}  // namespace

double millions_in(std::string_view name) {
    const std::string text = lower(name);
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (!is_digit(text[i])) continue;
        const std::string_view before = std::string_view(text).substr(0, i);
        if (before.ends_with('.') &&
            (i == 1 || std::isalnum(static_cast<unsigned char>(text[i - 2])) == 0))
            --i;  // "Qwen .5B"
        const std::size_t size = number_size(std::string_view(text).substr(i));
        const double n = plain_number(std::string_view(text).substr(i, size)).value_or(0);
        const bool version = i > 0 && text[i - 1] == 'v';
        const bool product = begin_of_factor(text, i) < i;
        std::string_view rest = std::string_view(text).substr(i + size);
        i += size - 1;
        if (rest.starts_with(" ")) rest.remove_prefix(1);
        std::string_view word =
            rest.substr(0, rest.find_first_not_of("abcdefghijklmnopqrstuvwxyz"));
        const std::string_view behind = rest.substr(word.size());
        const bool other = !behind.empty() && is_digit(behind[0]);  // "ResNet-50 M60", "T4"
        if (n <= 0 || version || product || word.empty() || other || counts_others(behind))
            continue;
        if (behind.size() > 1 && behind[0] == '-' && counts_others(behind.substr(1))) continue;
        if (const double unit = millions_of(word); unit > 0) return n * unit;
    }
    return 0;
}

std::string unread_size(std::string_view name) {
    const std::string text = lower(name);
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (!is_digit(text[i])) continue;
        const std::size_t whole = begin_of_factor(text, i);
        const bool begins =
            i == 0 || whole < i || std::isalnum(static_cast<unsigned char>(text[i - 1])) == 0;
        const std::size_t end = std::min(text.find_first_not_of("0123456789.,", i), text.size());
        const std::string_view digits = std::string_view(text).substr(i, end - i);
        const std::size_t unit = end + (text.substr(end).starts_with(' ') ? 1 : 0);
        const std::string_view rest = std::string_view(text).substr(unit);
        const std::string_view word =
            rest.substr(0, rest.find_first_not_of("abcdefghijklmnopqrstuvwxyz"));
        const bool read = plain_number(digits).value_or(0) > 0 && whole == i;
        const bool version = std::ranges::count(digits, '.') > 1;  // "torch 2.0.1b"
        if (begins && !read && !version && millions_of(word) > 0 &&
            !counts_others(rest.substr(word.size())))
            return std::string(name.substr(whole, unit + word.size() - whole));
        i = end - 1;
    }
    return "";
}

bool states_width(std::string_view name) {
    const std::string text = lower(name);
    if (has(text, "width") || has(text, "wider")) return true;
    const auto part_of_word = [&](std::size_t i) {
        return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i])) != 0;
    };
    const auto counts = [&](std::size_t end) {  // "4x V100"
        return end + 1 < text.size() && text[end] == ' ' && !is_digit(text[end + 1]) &&
               part_of_word(end + 1);
    };
    const auto is_width = [&](std::size_t begin, std::size_t end) {
        return plain_number(text.substr(begin, end - begin)).value_or(1) != 1;
    };
    for (std::size_t x = 1; x < text.size(); ++x) {
        if (text[x] != 'x' || !is_digit(text[x - 1]) || part_of_word(x + 1)) continue;
        const std::size_t begin = text.find_last_not_of("0123456789.", x - 1) + 1;
        if (!part_of_word(begin - 1) && !counts(x + 1) && is_width(begin, x)) return true;
    }
    // BiT's "ResNet-50x4"
    const auto skip = [&](std::size_t at, const char* chars) {
        return std::min(text.find_first_not_of(chars, at), text.size());
    };
    const auto resnet = text.find("resnet");
    if (resnet == text.npos) return false;
    const std::size_t depth = skip(resnet + 6, " -_"), behind = skip(depth, "0123456789");
    const std::size_t x = skip(behind, " -_"), end = skip(x + 1, "0123456789");
    return behind > depth && x < text.size() && text[x] == 'x' && !part_of_word(end) &&
           !counts(end) && is_width(x + 1, end);
}

const ParameterProfile* profile_opening(std::string_view model) {
    const ParameterProfile* best = nullptr;
    for (const ParameterProfile& p : parameter_profiles())
        if (opens_with(model, p.name) && (best == nullptr || p.name.size() > best->name.size()))
            best = &p;
    return best;
}

const ParameterProfile* profile_of(std::string_view model) {
    if (const ParameterProfile* opens = profile_opening(model)) return opens;
    const ParameterProfile* best = nullptr;
    for (const ParameterProfile& p : parameter_profiles())
        if (p.name.size() > 3 && holds(model, p.name) &&
            (best == nullptr || p.name.size() > best->name.size()))
            best = &p;
    return best;
}

}  // namespace gx::tools::predict
