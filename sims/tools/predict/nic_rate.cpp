#include <tools/predict/nic_rate.hpp>

#include <cstdlib>  // strtod
#include <string>   // words
#include <vector>   // tables

#include <tools/common/json.hpp>  // parse_json
#include <tools/common/text.hpp>  // lower, has
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

/// The first number before a unit of rate, in "25 GbE", "100Gb/s", "200 Gbit/s", "1.6 Tb/s" and
/// "12.5 GB/s", a hundred; or 0. "16GB" is memory, unless text is
/// `bare`, of networks alone: then "200G" is a rate, too.
double written_rate(std::string_view written, bool bare) {
    const std::string text = lower(written);
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] < '0' || text[i] > '9') continue;
        char* end = nullptr;
        const double n = std::strtod(text.c_str() + i, &end);
        auto at = static_cast<std::size_t>(end - text.c_str());
        while (at < text.size() && (text[at] == ' ' || text[at] == '-')) ++at;
        const std::string_view unit = std::string_view(text).substr(at);
        const double scale = unit.starts_with("t") ? 1000 : 1;
        if (unit.starts_with("gigabit")) return n;
        if (unit.starts_with("gb") || unit.starts_with("tb")) {
            const std::string_view after = unit.substr(2);
            const bool rate = after.starts_with("/s") || after.starts_with("ps");
            const bool network = bare || after.starts_with("e") || after.starts_with("it");
            if (rate && written[at + 1] == 'B') return n * scale * 8;
            if (rate || network) return n * scale;
        }
        const bool alone = unit == "g" || unit.starts_with("g ") || unit.starts_with("g,");
        if (bare && alone) return n;
        i = static_cast<std::size_t>(end - text.c_str()) - 1;
    }
    return 0;
}
double named_rate(std::string_view text) {
    for (const RateWord& w : rates().infiniband)
        if (has(text, w.word)) return w.gbps;
    return 0;
}

}  // namespace

double multiplier(std::string_view& text) {
    std::size_t i = 0;
    double n = 0;
    for (; i < text.size() && '0' <= text[i] && text[i] <= '9'; ++i) n = n * 10 + (text[i] - '0');
    while (i < text.size() && text[i] == ' ') ++i;
    const std::string_view rest = text.substr(i);
    const bool sign = rest.starts_with("\xc3\x97");
    if (i == 0 || !(sign || (rest.starts_with("x") && rest != "x"))) return 1;
    text = rest.substr(sign ? 2 : 1);
    return n >= 1 && n <= 64 ? n : 0;
}

double machine_gbps(std::string_view written) {
    if (const double rate = written_rate(written, false); rate > 0) return rate;
    const std::string text = lower(written);
    for (const RateWord& w : rates().machines)
        if (has(text, w.word)) return w.gbps;
    return 0;
}

double nic_gbps(std::string_view written) {
    std::string_view text = written;
    const double n = multiplier(text);
    if (n == 0) return 0;
    if (const double rate = written_rate(text, true); rate > 0) return n * rate;
    if (const double rate = named_rate(lower(text)); rate > 0) return n * rate;
    return machine_gbps(written);
}

}  // namespace gx::tools::predict
