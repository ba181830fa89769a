#include <tools/predict/mechanism.hpp>

#include <algorithm>  // any_of, find_if, min
#include <cstdio>     // sscanf
#include <utility>    // pair

#include <fmt/core.h>  // format

#include <tools/common/json.hpp>  // Json, parse_json
#include <tools/common/text.hpp>  // has, states
#include <tools/data.hpp>         // mechanisms

namespace gx::tools::predict {

namespace {

/// Major and minor; none: {-1, 0}.
using Version = std::pair<int, int>;

struct Versions {
    Version from{-1, 0}, before{1'000'000'000, 0};
};

/// When a row holds.
struct Condition {
    std::vector<std::string> words{};
    std::vector<std::string> how{};  ///< one of them: in the framework's name or in `collective`
    std::vector<std::string> without{};
    std::string with{}, model{};
    bool whole = false;  ///< `words` stand apart, as those of fewer than 4 letters always do; a
                         ///< version with a point may follow one without a space
    std::vector<Versions> versions{};  ///< one of them
};

struct Rows {
    std::vector<Mechanism> all{};
    std::vector<Condition> holds{};
};

std::string source_of(const Json& s) {
    const std::string at = s.contains("line") ? fmt::format(":{}", s.at("line").get<int>())
                                              : " " + s.at("symbol").get<std::string>();
    return fmt::format("{}@{} {}{}, {}", s.at("repository").get<std::string>(),
                       s.at("commit").get<std::string>(), s.at("path").get<std::string>(), at,
                       s.at("what").get<std::string>());
}

const Rows& rows() {
    static const Rows read = [] {
        Rows r;
        const Json file = parse_json(data::mechanisms, "mechanisms.json");
        for (const Json& row : file.at("frameworks")) {
            Mechanism& m = r.all.emplace_back();
            m.name = row.at("name").get<std::string>();
            m.scheme = row.value("scheme", "");
            m.like = row.value("like", std::vector<std::string>());
            m.exchange = row.at("exchange").get<std::string>();
            m.divide = row.at("divide").get<std::string>();
            m.clip = row.at("clip").get<std::string>();
            m.update = row.at("update").get<std::string>();
            m.bucket_mb = row.value("bucket_mb", 0.0);
            m.fusion_mb = row.value("fusion_mb", 0.0);
            m.cycle_ms = row.value("cycle_ms", 0.0);
            m.traffic = row.value("traffic", 1.0);
            m.modules = row.value("modules", 0.0);
            m.timed = row.value("timed", true);
            for (const Json& s : row.at("sources")) m.sources.push_back(source_of(s));
            Condition& c = r.holds.emplace_back();
            c.words = row.at("words").get<std::vector<std::string>>();
            c.how = row.value("how", std::vector<std::string>());
            c.with = row.value("with", "");
            c.without = row.value("without", std::vector<std::string>());
            c.whole = row.value("whole", false);
            c.model = row.value("model", "");
            for (const Json& range : row.value("versions", Json::array({Json::object()}))) {
                const Versions all;
                c.versions.push_back(
                    {range.value("from", all.from), range.value("before", all.before)});
            }
        }
        return r;
    }();
    return read;
}

/// Short words may be parts of others.
Word how_of(std::string_view word, bool whole = false) {
    return whole || word.size() < 4 ? Word::apart : Word::inside;
}

/// "pytorch 2.1" of "pytorch2.1"; a number without a point, as in "torch7", is part of its word.
std::string with_versions_apart(std::string_view text) {
    constexpr std::string_view digits = "0123456789";
    std::string apart;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto point = text.find_first_not_of(digits, i);
        const bool version = point != text.npos && point > i && text[point] == '.' &&
                             point + 1 < text.size() && digits.find(text[point + 1]) != digits.npos;
        if (version && i > 0 && 'a' <= text[i - 1] && text[i - 1] <= 'z') apart += ' ';
        apart += text[i];
    }
    return apart;
}

/// The version behind a word: "horovod 0.21.3" and "horovod==v0.21" are {0, 21}, and "nemo
/// container 25.09" is {25, 9}.
Version version_behind(std::string_view text, std::string_view word) {
    const Version none{-1, 0};
    const auto at = find_stated(text, word, how_of(word));
    if (at == text.npos) return none;
    constexpr std::string_view between = " v=-_:(", container = "container";
    std::string_view rest = text.substr(at + word.size());
    const auto skip = [&] {
        rest.remove_prefix(std::min(rest.find_first_not_of(between), rest.size()));
    };
    skip();
    if (rest.starts_with(container)) rest.remove_prefix(container.size()), skip();
    Version v = none;
    const int read = std::sscanf(std::string(rest).c_str(), "%6d.%6d", &v.first, &v.second);
    return read >= 1 ? v : none;
}

}  // namespace

std::string Mechanism::text() const {
    return fmt::format("{}: {}; divided: {}; clipped: {}; update: {} ({})", name, exchange, divide,
                       clip, update, sources.front());
}

const std::vector<Mechanism>& mechanisms() { return rows().all; }

const Mechanism* find_mechanism(std::string_view framework, std::string_view model,
                                std::string_view collective) {
    const Rows& r = rows();
    const std::string apart = with_versions_apart(framework);
    for (std::size_t i = 0; i < r.all.size(); ++i) {
        const Condition& c = r.holds[i];
        const std::string_view name = c.whole ? apart : framework;
        const auto word = std::find_if(c.words.begin(), c.words.end(), [&](const std::string& w) {
            return states(name, w, how_of(w, c.whole));
        });
        if (word == c.words.end() || !states(framework, c.with) || !has(model, c.model)) continue;
        const auto stated = [&](const std::string& w) { return states(name, w, how_of(w)); };
        if (std::ranges::any_of(c.without, stated)) continue;
        const auto said = [&](const std::string& w) {
            return states(framework, w) || states(collective, w);
        };
        if (!c.how.empty() && !std::ranges::any_of(c.how, said)) continue;
        const Version version = version_behind(framework, *word);
        const auto in = [&](const Versions& v) { return v.from <= version && version < v.before; };
        if (std::ranges::any_of(c.versions, in)) return &r.all[i];
    }
    return nullptr;
}

}  // namespace gx::tools::predict
