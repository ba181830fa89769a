#include <tools/predict/measure.hpp>

#include <algorithm>         // min
#include <array>             // words
#include <initializer_list>  // names

#include <gx/core/error.hpp>      // Error
#include <tools/common/text.hpp>  // lower, has

namespace gx::tools::predict {

namespace {

/// Seconds in the unit of time that a unit opens with, or 0.
double time_word(std::string_view unit) {
    struct Word {
        std::string_view text;
        double seconds;
    };
    static constexpr std::array<Word, 18> words{{{"ms", 1e-3},
                                                 {"milliseconds", 1e-3},
                                                 {"us", 1e-6},
                                                 {"s", 1},
                                                 {"sec", 1},
                                                 {"secs", 1},
                                                 {"second", 1},
                                                 {"seconds", 1},
                                                 {"min", 60},
                                                 {"mins", 60},
                                                 {"minutes", 60},
                                                 {"h", 3600},
                                                 {"hour", 3600},
                                                 {"hours", 3600},
                                                 {"hr", 3600},
                                                 {"hrs", 3600},
                                                 {"day", 86400},
                                                 {"days", 86400}}};
    std::string_view first = unit.substr(0, unit.find_first_of(" /,()[]"));
    for (const Word& w : words)
        if (first == w.text) return w.seconds;
    return 0;
}
/// The number before "epoch", or 1.
double epochs_in(std::string_view unit) {
    const auto at = unit.find("epoch");
    if (at == std::string_view::npos) return 1;
    double n = 0, unit_of_digit = 1;
    for (auto i = at; i-- > 0;) {
        if (unit[i] == ' ' && n == 0) continue;
        if (unit[i] < '0' || unit[i] > '9') break;
        n += (unit[i] - '0') * unit_of_digit;
        unit_of_digit *= 10;
    }
    return n > 0 ? n : 1;
}

/// Seconds of the unit behind "time": "step time (ms)", "time per epoch, s"; or 0.
double time_named(std::string_view unit) {
    if (!has(unit, "time")) return 0;
    for (const char* before : {"(", "[", ", "})
        if (const auto at = unit.rfind(before); at != unit.npos)
            return time_word(unit.substr(at + std::string_view(before).size()));
    const auto last = unit.rfind(' ');
    return last == unit.npos ? 0 : time_word(unit.substr(last + 1));
}
/// Words of a text, in turn, without digits that they begin with.
std::string_view next_word(std::string_view& rest) {
    const auto begin = rest.find_first_of("abcdefghijklmnopqrstuvwxyz");
    if (begin == rest.npos) return rest = {};
    rest.remove_prefix(begin);
    const std::string_view word =
        rest.substr(0, rest.find_first_not_of("abcdefghijklmnopqrstuvwxyz"));
    rest.remove_prefix(word.size());
    return word;
}
/// Whether a unit of time is that of a step; seconds and less are, unless more is said.
bool is_step(std::string_view unit, double seconds) {
    if (has(unit, "/epoch") || has(unit, "per epoch")) return false;  // of 5004 iterations
    for (const char* word : {"iter", "step", "batch", "/it"})
        if (has(unit, word)) return true;
    for (std::string_view rest = unit, word = next_word(rest); !word.empty();
         word = next_word(rest))
        if (word.starts_with("epoch") || word.starts_with("train") || word == "for" ||
            word == "total" || word == "run" || word == "job")
            return false;
    return seconds <= 1;
}
/// Whether a rate is of each of what begins with one of `names`: "img/s per GPU", "img/s/node",
/// "img/s on each machine"; not "img/s, 8 GPUs".
bool is_of_each(std::string_view unit, std::initializer_list<std::string_view> names) {
    for (const std::string_view before : {"/", "per ", "each ", "every ", " a ", " one "})
        for (auto at = unit.find(before); at != unit.npos; at = unit.find(before, at + 1)) {
            std::string_view of = unit.substr(at + before.size());
            of.remove_prefix(std::min(of.find_first_not_of(' '), of.size()));
            for (const std::string_view name : names)
                if (of.starts_with(name)) return true;
        }
    return false;
}
bool is_of_each_gpu(std::string_view unit) {
    return is_of_each(unit, {"gpu", "device", "accelerator", "card", "chip", "v100", "a100", "h100",
                             "h200", "b200", "p100", "k80", "titan"});
}
bool is_of_each_node(std::string_view unit) {
    return is_of_each(unit, {"node", "machine", "server", "host", "worker node"});
}
/// A share, or a rate that counts no samples; false: neither.
bool is_relative(std::string_view unit, Measure& m) {
    if (unit[0] == '%' || unit.starts_with("efficiency") || has(unit, "scaling eff") ||
        unit.starts_with("fraction")) {
        m.kind = Measure::Kind::share;
        return true;
    }
    m.relative = unit == "x" || unit.starts_with("x ") || unit.starts_with("\xc3\x97") ||
                 has(unit, "speedup") || has(unit, "speed-up") || unit.starts_with("times") ||
                 has(unit, "flop") || unit.starts_with("epoch");
    m.relative = m.relative && !has(unit, "time (") && !unit.starts_with("epoch time");
    m.per_gpu = m.relative && has(unit, "flop") && is_of_each_gpu(unit);
    return m.relative;
}
/// A rate by its short name, "fps" or "wps".
bool is_short_rate(std::string_view unit, Measure& m) {
    const std::string_view first = unit.substr(0, unit.find_first_of(" /,("));
    m.tokens = first == "wps" || first == "tps";
    if (!m.tokens && first != "fps" && first != "ips" && first != "qps") return false;
    m.per_gpu = is_of_each_gpu(unit);
    m.per_node = is_of_each_node(unit);
    return true;
}
bool is_step_word(std::string_view word) {
    for (const char* step : {"iter", "step", "batch", "mini", "micro"})
        if (word.starts_with(step)) return true;
    return word == "it" || word == "its";
}
/// Whether a word is one of the examples that a step takes many of, or several.
bool is_example_word(std::string_view word) {
    if (word == "queries" || word == "patches") return true;
    if (word.ends_with("s")) word.remove_suffix(1);
    for (const char* example :
         {"img",      "image",   "sample", "example", "ex",    "seq",    "sequence",
          "sentence", "tok",     "token",  "word",    "frame", "record", "picture",
          "query",    "request", "patch",  "point",   "clip",  "video"})
        if (word == example) return true;
    return false;
}
bool is_counted(std::string_view word) { return is_example_word(word) || is_step_word(word); }
/// Whether a word has the letter of a multiple before what it counts: "kimg", "Mtok"; not "kit".
bool has_multiple(std::string_view word) {
    if (word.empty() || is_counted(word) || std::string_view("kmgbt").find(word[0]) == word.npos)
        return false;
    word.remove_prefix(1);
    return is_counted(word) && word != "it" && word != "its";
}
/// Whether a word is a number of many: "thousand", "dozens".
bool is_many(std::string_view word) {
    for (const char* named :
         {"hundred", "thousand", "million", "billion", "trillion", "kilo", "mega", "giga", "dozen"})
        if (word.starts_with(named)) return true;
    return word == "tens";
}
bool is_small_number(std::string_view word) {
    for (const char* named : {"two", "three", "four", "five", "six", "seven", "eight", "nine",
                              "ten", "twenty", "fifty", "few", "several"})
        if (word == named) return true;
    return false;
}
/// 1,000 of "k img/s" and "ktokens/s", a million of "M img/day"; else 1.
double multiple(std::string_view what) {
    std::string_view rest = what;
    const std::string_view word = next_word(rest);
    if (!what.starts_with(word) || (word.size() > 1 && !has_multiple(word))) return 1;
    return word.starts_with("k") ? 1e3 : word.starts_with("m") ? 1e6 : 1;
}
/// Whether a rate counts tokens: also "tok" and "Mtok".
bool counts_tokens(std::string_view unit, std::string_view what) {
    if (has(unit, "token") || has(unit, "word")) return true;
    for (std::string_view word = next_word(what); !word.empty(); word = next_word(what)) {
        if (has_multiple(word)) word.remove_prefix(1);
        if (word == "tok" || word == "toks") return true;
    }
    return false;
}
/// Whether a time's "per ..." is of an example: "image", "1000 samples"; not "batch of 8 images".
bool is_of_example(std::string_view per) {
    per = per.substr(0, per.find_first_of(",(["));
    while (!per.empty()) {
        const std::string_view word = next_word(per);
        if (is_step_word(word) || word.starts_with("epoch")) return false;
        if (is_example_word(word)) return true;
    }
    return false;
}
/// Whether a time's "per ..." or "for ..." is of several steps: "100 it", "thousand steps".
bool is_of_steps(std::string_view per) {
    per.remove_prefix(std::min(per.find_first_not_of(' '), per.size()));
    const std::string_view number = per.substr(0, per.find_first_not_of("0123456789.,^ "));
    std::string_view rest = per;
    std::string_view word = next_word(rest);
    if (has_multiple(word)) return true;
    const bool letter =
        word == "k" || word == "m" || word == "g" || word == "b" || word == "bn" || word == "t";
    const bool named = letter || is_many(word) || is_small_number(word);
    if (named) word = next_word(rest);
    if (!named && (number.empty() || number == "1" || number == "1 ")) return false;
    if (word == "of") word = next_word(rest);  // "thousands of steps"
    if (word == "training" || word == "data") word = next_word(rest);
    if (letter && number.empty() && word.empty()) return false;
    return word.empty() || is_counted(word);
}
/// Errors: gx::Error for the time of one example or of several steps: that of one step needs their
///         number.
void check_time(std::string_view unit, std::string_view written, const std::string& field) {
    static constexpr std::array<std::string_view, 7> ones{"one ",  "an ",    "a ",     "1 ",
                                                          "each ", "every ", "single "};
    const auto check = [&](std::string_view of, bool each) {
        if (is_of_steps(of))
            throw Error(field + "unit '" + std::string(written) +
                        "' is a time of several steps or examples: give that of one step, in "
                        "s/iteration, or a rate, in img/s");
        const bool one = each || std::ranges::any_of(ones, [&](std::string_view number) {
                             return of.starts_with(number);
                         });
        if (one && is_of_example(of))
            throw Error(field + "unit '" + std::string(written) +
                        "' is a time of one example: give a rate, in img/s, seq/s or tokens/s, or "
                        "the time of one step, in s/iteration");
    };
    for (const std::string_view before :
         {"/", " per ", " for ", "(per ", "[per ", "(for ", "[for "})
        for (auto at = unit.find(before); at != unit.npos; at = unit.find(before, at + 1))
            check(unit.substr(at + before.size()), !has(before, "for "));
    if (const auto comma = unit.find(", "); comma != unit.npos) {  // "ms, 100 steps"
        std::string_view behind = unit.substr(comma + 2);
        const auto digits = behind.find_first_not_of("0123456789,");
        std::string_view rest = behind;
        if (digits != 0 && digits != behind.npos && is_step_word(next_word(rest)))
            check(behind, false);
    }
    // "ms (100 steps)"; not "s/step (8 images)", which says what a step holds
    const auto at = unit.find_first_of("([");
    if (at == unit.npos) return;
    for (const char* word : {"iter", "step", "batch", "/it", "epoch"})
        if (has(unit.substr(0, at), word)) return;
    std::string_view of = unit.substr(at + 1);
    for (const std::string_view sum : {"total of ", "sum of "})
        if (of.starts_with(sum)) of.remove_prefix(sum.size());
    check(of, false);
}
/// Errors: gx::Error for a number of epochs in words: "h for ten epochs".
void check_epochs(std::string_view unit, std::string_view written, const std::string& field) {
    std::string_view rest = unit;
    bool named = false;
    for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest)) {
        if (named && word.starts_with("epoch"))
            throw Error(field + "unit '" + std::string(written) +
                        "' has its number of epochs in words: write it in digits, as in h for 90 "
                        "epochs");
        named = is_small_number(word) || is_many(word);
    }
}
/// Whether what stands behind a rate multiplies it: "img/s (thousands)", "img/s x1000".
bool is_multiplied(std::string_view behind) {
    if (has(behind, "10^")) return true;
    for (const std::string_view sign : {"x", "*", "\xc3\x97"})
        for (auto at = behind.find(sign); at != behind.npos; at = behind.find(sign, at + 1)) {
            std::string_view by = behind.substr(at + sign.size());
            by.remove_prefix(std::min(by.find_first_not_of(' '), by.size()));
            for (const char* power : {"1000", "1,000", "1e", "1k"})
                if (by.starts_with(power)) return true;
        }
    const auto at = behind.find_first_of("([");
    if (at == behind.npos) return false;
    std::string_view inside = behind.substr(at + 1);
    inside = inside.substr(0, inside.find_first_of(")]"));
    std::string_view rest = inside;
    std::string_view word = next_word(rest);
    if (word == "in") word = next_word(rest);
    return is_many(word) || inside == "k" || inside == "m" || inside == "g";
}
/// Errors: gx::Error for a rate in multiples, as "thousand images" or "10^3 img", but those that
///         `multiple` reads.
void check_multiple(std::string_view what, std::string_view of_time, std::string_view written,
                    const std::string& field) {
    const auto refuse = [&] {
        throw Error(field + "unit '" + std::string(written) +
                    "' counts in multiples: write img/s, seq/s or tokens/s, or k img/s for "
                    "thousands and M img/s for millions");
    };
    if (is_multiplied(of_time)) refuse();
    std::string_view rest = what;
    bool behind = false;  // what is counted: "tokens of a 345 M model" are single ones
    for (std::string_view word = next_word(rest); !word.empty(); word = next_word(rest)) {
        const std::string_view before = what.substr(0, what.size() - rest.size() - word.size());
        const auto last = before.find_last_not_of(' ');
        const bool number = last != before.npos && '0' <= before[last] && before[last] <= '9';
        const bool letter = word == "k" || word == "m";
        bool many = is_many(word) || (letter && !before.empty() && !(behind && number));
        many = many || (has_multiple(word) &&
                        !(before.empty() && (word.starts_with("k") || word.starts_with("m"))));
        if (!behind)
            many = many || word == "g" || word == "b" || word == "bn" || word == "t" ||
                   (word == "e" && !before.empty());  // "1e3"
        const bool counted = is_counted(word);
        many = many || (counted && before.find_first_of("0123456789") != before.npos &&
                        before.find_first_not_of("0123456789.,^*x \xc3\x97") == before.npos);
        if (many) refuse();
        behind = behind || counted || has_multiple(word);
    }
}

}  // namespace

Measure measure_of(std::string_view written, const std::string& field) {
    const std::string unit = lower(written);
    if (unit.empty())
        throw Error(field +
                    "the unit is missing: write img/s, seq/s, tokens/s, s/iteration, "
                    "s/epoch, h for N epochs or %");
    Measure m;
    if (is_relative(unit, m) || is_short_rate(unit, m)) return m;
    m.seconds = time_word(unit);
    if (m.seconds == 0) m.seconds = time_named(unit);
    if (m.seconds > 0) {
        check_time(unit, written, field);
        check_epochs(unit, written, field);
        const bool step = is_step(unit, m.seconds);
        m.kind = step ? Measure::Kind::step_time : Measure::Kind::job_time;
        m.epochs = step ? 1 : epochs_in(unit);
        return m;
    }
    for (const std::string_view per : {"/", " per "})
        if (const auto at = unit.find(per); at != std::string::npos) {
            m.seconds = time_word(std::string_view(unit).substr(at + per.size()));
            const std::string_view what = std::string_view(unit).substr(0, at);
            m.tokens = counts_tokens(unit, what);
            m.per_gpu = is_of_each_gpu(unit);
            m.per_node = is_of_each_node(unit);
            std::string_view rest = what;
            for (auto word = next_word(rest); !word.empty(); word = next_word(rest)) {
                if (has_multiple(word)) word.remove_prefix(1);
                if (is_step_word(word)) m.kind = Measure::Kind::step_rate;
            }
            if (m.seconds > 0 && (what.ends_with("b") || what.ends_with("bit") ||
                                  what.ends_with("bits") || what.ends_with("bytes")))
                throw Error(field + "unit '" + std::string(written) +
                            "' is a rate of bytes: give one of examples, in img/s, seq/s or "
                            "tokens/s, or the time of one step, in s/iteration");
            if (m.seconds > 0) {
                check_multiple(what, std::string_view(unit).substr(at), written, field);
                m.seconds /= multiple(what);
                return m;
            }
        }
    throw Error(field + "unknown unit '" + std::string(written) +
                "': write img/s, seq/s, tokens/s, s/iteration, s/epoch, h for N epochs or %");
}

}  // namespace gx::tools::predict
