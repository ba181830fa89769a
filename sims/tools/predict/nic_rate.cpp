#include <tools/predict/nic_rate.hpp>

#include <algorithm>         // any_of, min
#include <array>             // words
#include <cmath>             // abs, floor
#include <initializer_list>  // endings
#include <string>            // words
#include <utility>           // pair
#include <vector>            // tables

#include <gx/core/error.hpp>      // Error
#include <tools/common/json.hpp>  // parse_json
#include <tools/common/text.hpp>  // lower, find_stated
#include <tools/data.hpp>         // network_rates

namespace gx::tools::predict {

namespace {

/// A word and the rate that it stands for, in Gb/s.
struct RateWord {
    std::string word{};
    double gbps = 0;
};
struct Rates {
    std::vector<RateWord> infiniband{}, machines{};
};

const Rates& rates() {
    static const Rates all = [] {
        const Json file = parse_json(data::network_rates, "network_rates.json");
        const auto rows = [&](const char* name) {
            std::vector<RateWord> words;
            for (const Json& row : file.at(name))
                words.push_back({row.at("word").get<std::string>(), row.at("gbps").get<double>()});
            return words;
        };
        return Rates{rows("infiniband"), rows("machines")};
    }();
    return all;
}

bool is_digit(std::string_view text, std::size_t i) {
    return i < text.size() && '0' <= text[i] && text[i] <= '9';
}
[[noreturn]] void refuse(std::string_view written, std::string_view why) {
    throw Error("'" + std::string(written) + "' " + std::string(why) +
                ": give the rate of a node's NICs together, as 25 or \"2 x 100 Gb/s\"");
}

/// Gb/s of one of a unit, or 0: of "GbE", "Gb/s", "Gbit/s", "Tb/s", "GB/s", "GByte/s", "gigabit".
/// `unit` is in lower case, `written` is not. "GB" is memory, unless text is `bare`, of networks
/// alone: then "G" is a rate, too.
double gbps_of(std::string_view unit, std::string_view written, bool bare) {
    const auto ends_in = [](std::string_view after, std::initializer_list<const char*> all) {
        return std::any_of(all.begin(), all.end(),
                           [&](const char* end) { return after.starts_with(end); });
    };
    const double scale = unit.starts_with("t") ? 1000 : 1;
    if (unit.starts_with("gigabit")) return 1;
    for (const std::string_view byte : {"gigabyte", "gbyte", "tbyte"})
        if (unit.starts_with(byte)) {
            std::string_view after = unit.substr(byte.size());
            if (after.starts_with("s")) after.remove_prefix(1);
            return ends_in(after, {"/s", "ps", " per s"}) ? 8 * scale : 0;
        }
    if (unit.starts_with("gb") || unit.starts_with("tb")) {
        const std::string_view after = unit.substr(2);
        const bool rate = ends_in(after, {"/s", "ps", " per s"});
        if (rate && written[1] == 'B') return 8 * scale;
        return rate || bare || ends_in(after, {"e", "it"}) ? scale : 0;
    }
    const std::string_view word = unit.substr(0, unit.find_first_of(" ,;)/"));
    return bare && (word == "g" || word == "ge" || word == "gige") ? 1 : 0;
}

/// A rate that a text has, and where.
struct SaidRate {
    double gbps = 0;
    std::size_t begin = 0, end = 0;
};
/// The numbers before a unit of rate: "25 GbE", "100Gb/s", "200 Gbit/s", "1,600 Gb/s", "12.5 GB/s".
std::vector<SaidRate> written_rates(std::string_view written, bool bare) {
    const std::string lowered = lower(written);
    const std::string_view text = lowered;
    std::vector<SaidRate> all;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (!is_digit(text, i)) continue;
        const std::size_t size = number_size(text.substr(i));
        auto at = i + size;
        while (at < text.size() && (text[at] == ' ' || text[at] == '-')) ++at;
        const double factor = gbps_of(text.substr(at), written.substr(at), bare);
        const auto n = plain_number(text.substr(i, size));
        const bool power = i > 1 && text[i - 1] == 'e' && is_digit(text, i - 2);  // "1e9"
        if (factor > 0 && n && !power) all.push_back({*n * factor, i, at});
        if (factor > 0 && (!n || power) && bare)
            refuse(written, "has a rate that is not one number");
        i += size - 1;
    }
    return all;
}
/// The rates of InfiniBand's names, "HDR100" and "NDR200" with half the lanes, "FDR10" with FDR's
/// lanes at 10 Gb/s.
std::vector<SaidRate> named_rates(std::string_view text) {
    std::vector<SaidRate> all;
    for (const RateWord& w : rates().infiniband) {
        const auto at = find_stated(text, w.word);
        if (at == text.npos) continue;
        std::size_t end = at + w.word.size();
        std::size_t digits = end;
        if (digits < text.size() && (text[digits] == ' ' || text[digits] == '-')) ++digits;
        const std::size_t size = number_size(text.substr(std::min(digits, text.size())));
        const double n = plain_number(text.substr(std::min(digits, text.size()), size)).value_or(0);
        double gbps = w.gbps;
        if (n == w.gbps / 2 && (w.word == "hdr" || w.word == "ndr")) gbps = n;
        if (n == 10 && w.word == "fdr") gbps = 40;
        if (n == w.gbps || gbps != w.gbps) end = digits + size;
        all.push_back({gbps, at, end});
    }
    return all;
}
/// N of "N x", "dual" or "eight" right before a rate; 1: none.
/// Errors: gx::Error for a number there that is no count: "100/200 Gb/s", "25 to 100", "8 200".
double count_before(std::string_view text, std::string_view written) {
    const bool space = text.ends_with(' ');
    while (text.ends_with(' ')) text.remove_suffix(1);
    if (text.empty()) return 1;
    for (const std::string_view sign : {"/", "-", "\xe2\x80\x93", " to", " or", " and", "+"})
        if (text.ends_with(sign)) {
            std::string_view before = text.substr(0, text.size() - sign.size());
            while (before.ends_with(' ')) before.remove_suffix(1);
            if (!before.empty() && is_digit(before, before.size() - 1))
                refuse(written, "states several rates");
        }
    for (const std::string_view sign : {"x", "*", "\xc3\x97"})
        if (text.ends_with(sign)) {
            text.remove_suffix(sign.size());
            const bool lanes = !text.empty() && text.back() == '4' && sign == "x";  // "4X EDR"
            while (text.ends_with(' ')) text.remove_suffix(1);
            const auto last = text.find_last_not_of("0123456789");
            const std::string_view digits = text.substr(last == text.npos ? 0 : last + 1);
            if (digits.empty() || lanes) return 1;
            return plain_number(digits).value_or(1);
        }
    if (space && is_digit(text, text.size() - 1)) {
        const auto last = text.find_last_not_of("0123456789.,");
        if (last == text.npos || text[last] == ' ' || text[last] == '(')
            refuse(written, "has two numbers before a unit");
    }
    static constexpr std::array<std::pair<std::string_view, int>, 9> counts{{{"dual", 2},
                                                                             {"two", 2},
                                                                             {"double", 2},
                                                                             {"three", 3},
                                                                             {"four", 4},
                                                                             {"quad", 4},
                                                                             {"six", 6},
                                                                             {"eight", 8},
                                                                             {"sixteen", 16}}};
    for (const auto& [word, n] : counts)
        if (text.ends_with(word) &&
            (text.size() == word.size() || text[text.size() - word.size() - 1] == ' '))
            return n;
    return 1;
}
/// N of "x N" right behind a rate; 1: none.
double count_behind(std::string_view text) {
    const auto unit = text.find_first_of(" ,;(x*\xc3");
    text.remove_prefix(std::min(unit, text.size()));
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    for (const std::string_view sign : {"x", "*", "\xc3\x97"})
        if (text.starts_with(sign)) {
            text.remove_prefix(sign.size());
            text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
            return plain_number(text.substr(0, number_size(text))).value_or(1);
        }
    return 1;
}
constexpr std::array<std::string_view, 8> adapters{"port", "adapter", "nic",  "hca",
                                                   "card", "link",    "rail", "interface"};
/// N of a leading "8 ports of"; `text` goes on behind it. Else 1.
double count_of_ports(std::string_view& text) {
    const std::size_t size = number_size(text);
    std::string_view rest = text.substr(size);
    if (size == 0 || !rest.starts_with(' ')) return 1;
    rest.remove_prefix(1);
    for (const std::string_view port : adapters) {
        if (!rest.starts_with(port)) continue;
        const auto of = std::min(rest.find(" of "), rest.find(" at "));
        if (of == rest.npos || of > port.size() + 1) return 1;
        const double n = plain_number(text.substr(0, size)).value_or(1);
        text = rest.substr(of + 4);
        return n;
    }
    return 1;
}
/// Errors: gx::Error for a rate that is of each of several: "200 Gb/s per GPU", "(8 adapters)".
void check_whole(std::string_view text, std::string_view written) {
    if (has_word(text, "each")) refuse(written, "is the rate of each of several");
    for (const std::string_view per : {"per ", "per-", "/"})
        for (const char* one : {"gpu", "port", "adapter", "nic", "hca", "card", "link", "rail"})
            if (has(text, std::string(per) + one))
                refuse(written, "is the rate of each of several");
    for (const std::string_view port : adapters)
        for (auto at = text.find(port); at != text.npos; at = text.find(port, at + 1))
            if (at > 1 && text[at - 1] == ' ' && is_digit(text, at - 2) &&
                (at == 2 || text[at - 2] != '1' || is_digit(text, at - 3)))
                refuse(written, "states a number of adapters apart from the rate");
}
/// Errors: gx::Error for a count apart from the rate: "10 GbE bonded x2", "HDR (8 per node)".
void check_counts(std::string_view behind, std::string_view written) {
    if (has(behind, "pci")) return;
    for (std::size_t i = 1; i < behind.size(); ++i) {
        const bool number = is_digit(behind, i) && !is_digit(behind, i - 1);
        if (!number) continue;
        const std::string_view after =
            behind.substr(std::min(i + number_size(behind.substr(i)), behind.size()));
        const bool times = behind[i - 1] == 'x' && (i < 2 || behind[i - 2] == ' ');
        if (times || after.starts_with(" per node") || after.starts_with("/node"))
            refuse(written, "states a number of adapters apart from the rate");
    }
}
bool is_near(double a, double b) { return std::abs(a - b) <= 0.1 * b; }

}  // namespace

double multiplier(std::string_view& text) {
    std::size_t i = 0;
    double n = 0;
    for (; i < text.size() && '0' <= text[i] && text[i] <= '9'; ++i) n = n * 10 + (text[i] - '0');
    while (i < text.size() && text[i] == ' ') ++i;
    const std::string_view rest = text.substr(i);
    const bool sign = rest.starts_with("\xc3\x97");
    const bool letter = rest.starts_with("x") || rest.starts_with("X") || rest.starts_with("*");
    if (i == 0 || !(sign || (letter && rest.size() > 1))) return 1;
    text = rest.substr(sign ? 2 : 1);
    return n >= 1 && n <= 64 ? n : 0;
}

double machine_gbps(std::string_view written) {
    if (const auto said = written_rates(written, false); !said.empty()) return said.front().gbps;
    const std::string text = lower(written);
    for (const RateWord& w : rates().machines)
        if (states(text, w.word)) return w.gbps;
    return 0;
}

double nic_gbps(std::string_view written) {
    std::string_view rest = written;
    double n = multiplier(rest);
    if (n == 0) return 0;
    const bool leading = rest.size() < written.size();
    if (!leading) n = count_of_ports(rest);
    const std::string text = lower(rest);
    const auto numbers = written_rates(rest, true), names = named_rates(text);
    if (numbers.empty() && names.empty()) return machine_gbps(written);
    const SaidRate& said = numbers.empty() ? names.front() : numbers.front();
    for (const auto* all : {&numbers, &names})
        for (const SaidRate& other : *all)
            if (other.gbps != all->front().gbps) refuse(written, "states several rates");
    check_whole(text, written);
    const double before = count_before(std::string_view(text).substr(0, said.begin), written);
    const double behind = count_behind(std::string_view(text).substr(said.end));
    if (behind == 1) check_counts(std::string_view(text).substr(said.end), written);
    if (int(n > 1) + int(before > 1) + int(behind > 1) > 1)
        refuse(written, "states several numbers of adapters");
    n *= before * behind;
    if (n < 1 || n > 64) return 0;
    if (!numbers.empty() && !names.empty()) {
        const double number = said.gbps, name = names.front().gbps;
        if (n > 1 && is_near(number, n * name)) return number;  // "8 x HDR (1,600 Gb/s)"
        const double ratio = number / name;
        const bool whole = n == 1 && ratio > 1 && ratio == std::floor(ratio);
        if (!is_near(number, name) && ratio != 0.5 && !whole)
            refuse(written, "states several rates");
    }
    return n * said.gbps;
}

}  // namespace gx::tools::predict
