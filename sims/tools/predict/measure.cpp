#include <tools/predict/measure.hpp>

#include <algorithm>         // min
#include <array>             // words
#include <initializer_list>  // names

#include <gx/core/error.hpp>      // Error
#include <tools/common/text.hpp>  // lower, has, next_word, plain_number

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
/// The number before "epoch", or 1: "90 epochs", "1,000 epochs", "90-epoch training"; 0: one that
/// is not understood.
double epochs_in(std::string_view unit) {
    const auto at = unit.find("epoch");
    if (at == std::string_view::npos) return 1;
    std::string_view behind = unit.substr(at + 5);
    if (behind.starts_with("s")) behind.remove_prefix(1);
    if (behind.size() > 1 && behind[0] == ' ' && '0' <= behind[1] && behind[1] <= '9') return 0;
    std::string_view before = unit.substr(0, at);
    while (before.ends_with(' ') || before.ends_with('-')) before.remove_suffix(1);
    for (const std::string_view word : {"imagenet", "training", "full", "data"})
        if (before.ends_with(std::string(" ").append(word))) {
            before.remove_suffix(word.size() + 1);
            break;
        }
    const auto last = before.find_last_not_of("0123456789.,");
    const std::string_view number = before.substr(last == before.npos ? 0 : last + 1);
    if (number.find_first_of("0123456789") == number.npos) return 1;
    // "60-90 epochs", "2 x 45 epochs", "30+60 epochs": no one number
    const auto sign = before.substr(0, before.size() - number.size()).find_last_not_of(' ');
    if (sign != before.npos &&
        std::string_view("-+*/^~x0123456789").find(before[sign]) != before.npos)
        return 0;
    return plain_number(number).value_or(0);
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
std::string_view next_letters(std::string_view& rest) {
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
    for (std::string_view rest = unit, word = next_letters(rest); !word.empty();
         word = next_letters(rest))
        if (word.starts_with("epoch") || word.starts_with("train") || word == "for" ||
            word == "total" || word == "run" || word == "job")
            return false;
    return seconds <= 1;
}
/// What a rate is of.
enum class Of : unsigned char { all, gpu, node, unknown };

bool is_gpu_word(std::string_view w) {
    static constexpr std::array<std::string_view, 13> names{
        "gpu",     "device",  "accelerator", "card", "chip", "worker", "rank",
        "process", "replica", "titan",       "die",  "core", "geforce"};
    if (w.ends_with("s") && w.size() > 3 && w != "process") w.remove_suffix(1);
    for (const std::string_view name : names)
        if (w == name) return true;
    for (const char* name :
         {"v100", "a100", "h100",  "h200",   "b200",   "p100",  "k80",  "k40", "p40",
          "m40",  "m60",  "t4",    "l4",     "l40",    "a10",   "a10g", "a40", "a30",
          "h800", "a800", "mi250", "mi250x", "mi300x", "gh200", "gb200"})
        if (w == name) return true;
    return false;
}
bool is_node_word(std::string_view w) {
    for (const char* name : {"node", "machine", "server", "host", "instance", "vm", "box", "dgx",
                             "hgx", "p2", "p3", "p3dn", "p4d", "p4de", "p5", "g4dn", "g5"})
        if (w == name || (w.ends_with("s") && w.substr(0, w.size() - 1) == name)) return true;
    return false;
}
bool is_digits(std::string_view word) {
    return !word.empty() && word.find_first_not_of("0123456789") == word.npos;
}
/// What a phrase names: "gpu", "nvidia v100-sxm2-16gb", "8-gpu node", "8 gpus" (all), "gpu cluster"
/// (all), "p3.16xlarge"; unknown: another.
Of named_by(std::string_view phrase) {
    std::string_view rest = phrase;
    std::string_view word = next_word(rest);
    while (word == "single" || word == "individual" || word == "nvidia" || word == "tesla" ||
           word == "amd" || word == "the" || word == "of" || word == "training" || word == "one")
        word = next_word(rest);
    if (word == "rtx" || word == "gtx")
        return is_digits(next_word(rest).substr(0, 4)) ? Of::gpu : Of::unknown;
    const bool counted = !word.empty() && '0' <= word[0] && word[0] <= '9';
    if (counted) {  // "8-gpu node", "8gpus", "8 gpus"
        std::string_view unit = word;
        unit.remove_prefix(std::min(unit.find_first_not_of("0123456789"), unit.size()));
        if (unit.empty()) unit = next_word(rest);
        if (!is_gpu_word(unit)) return Of::unknown;
        return is_node_word(next_word(rest)) ? Of::node : Of::all;
    }
    if (is_node_word(word)) return Of::node;
    if (!is_gpu_word(word)) return Of::unknown;
    for (std::string_view next = next_word(rest); !next.empty(); next = next_word(rest)) {
        if (next == "per" || next == "each") return Of::unknown;
        if (is_node_word(next)) return Of::node;
        if (next == "cluster" || next == "pod" || next == "system") return Of::all;
        if (next == "and" || next == "on" || next == "with" || next == "at") break;
    }
    return Of::gpu;
}
/// What stands behind a rate up to a comma, or in a bracket of its own: "per gpu", "/ node", "on
/// each v100", "each"; all: it does not say.
Of said_of_each(std::string_view part) {
    while (part.starts_with(' ') || part.starts_with('-')) part.remove_prefix(1);
    for (const std::string_view mean : {"mean ", "average ", "averaged ", "median ", "measured "})
        if (part.starts_with(mean)) part.remove_prefix(mean.size());
    if (part == "each") return Of::gpu;
    if (part.starts_with("/")) return named_by(part.substr(1));
    bool each = false;  // a word that means one of several
    for (const std::string_view before :
         {"per ", "per-", "for each ", "for every ", "on each ", "on every ", "of each ",
          "of every ", "in each ", "from each ", "each ", "every "})
        if (part.starts_with(before)) {
            part.remove_prefix(before.size());
            each = true;
            break;
        }
    if (each) return named_by(part);
    for (const std::string_view before : {"of a ", "on a ", "of one ", "on one ", "for one ",
                                          "of 1 ", "on 1 ", "with one ", "a ", "one ", "and "})
        if (part.starts_with(before)) {
            const Of of = named_by(part.substr(before.size()));
            return of == Of::unknown ? Of::all : of;
        }
    return Of::all;
}
/// Whether a part of a unit has a count or a denial, so that its "per GPU" is not the rate's:
/// "batch 64 per GPU", "8 GPUs per node", "one GPU per process", "not per GPU".
bool is_count_or_denial(std::string_view part) {
    if (part.find_first_of("0123456789") != part.npos) return true;
    for (std::string_view word = next_word(part); !word.empty(); word = next_word(part))
        for (const char* name : {"no", "not", "one", "two", "four", "eight", "batch"})
            if (word == name) return true;
    return false;
}
/// What a rate is of, by the text behind its unit of time.
/// Errors: gx::Error for a "per", "/" or "each" that is not understood.
Of of_each(std::string_view behind, std::string_view written, const std::string& field) {
    const auto refuse = [&](std::string_view part) {
        throw Error(field + "unit '" + std::string(written) + "' has '" + std::string(part) +
                    "', of which it is not known what it is: write img/s for the rate of all GPUs, "
                    "img/s per GPU or img/s per node");
    };
    Of of = Of::all;
    bool first = true;
    for (std::string_view rest = behind; !rest.empty() || first;) {
        const auto end = std::min(rest.find_first_of(",;()[]"), rest.size());
        std::string_view part = rest.substr(0, end);
        rest.remove_prefix(std::min(end + 1, rest.size()));
        while (part.starts_with(' ')) part.remove_prefix(1);
        while (part.ends_with(' ')) part.remove_suffix(1);
        const bool direct = first;
        first = false;
        const std::string_view shown = part;
        Of said = part.empty() ? Of::all : said_of_each(part);
        // behind a comma "every GPU busy" or "one node of 8" describe, and say not whose rate it is
        const bool per = part.starts_with("per ") || part.starts_with("per-") || part == "each" ||
                         part.starts_with("mean per ") || part.starts_with("average per ") ||
                         part.starts_with("each ") || part.starts_with("on each ") ||
                         part.starts_with("median per ") || part.starts_with("/");
        if (!direct && !per) said = Of::all;
        if (said == Of::unknown) {
            std::string_view time =
                part.substr(std::min(part.find_first_of(" /-") + 1, part.size()));
            if (per && time_word(time) > 0) continue;  // "images/s (per second)"
            refuse(shown);
        }
        if (said != Of::all) {
            if (of == Of::all) of = said;
            else if (of != said) refuse(shown);
            continue;
        }
        if (part.empty() || is_count_or_denial(part)) continue;
        for (std::string_view words = part, word = next_word(words); !word.empty();
             word = next_word(words))
            if (word == "per" || word == "each") refuse(shown);
    }
    return of;
}
/// Whether a rate counts epochs or whole runs, as "epochs/h" or "training runs per day".
bool is_of_jobs(std::string_view unit) {
    if (unit.starts_with("epoch")) return true;
    const auto per = std::min(unit.find('/'), unit.find(" per "));
    if (per == unit.npos) return false;
    std::string_view what = unit.substr(0, per), last = next_word(what);
    for (std::string_view word = last; !word.empty(); word = next_word(what)) last = word;
    for (const char* job : {"run", "job", "training", "experiment"})
        if (last == job || (last.ends_with('s') && last.substr(0, last.size() - 1) == job))
            return true;
    return false;
}
/// A share, or a rate that counts no samples; false: neither.
bool is_relative(std::string_view unit, Measure& m, std::string_view written,
                 const std::string& field) {
    const std::string_view begin = unit.substr(0, unit.find_first_of("/([,"));
    const std::string_view opens = begin.substr(0, begin.find(" per "));
    const std::string_view first = opens.substr(0, opens.find(' '));
    if (unit[0] == '%' || unit.starts_with("efficiency") || has(opens, "scaling eff") ||
        unit.starts_with("fraction")) {
        m.kind = Measure::Kind::share;
        return true;
    }
    const bool rate = unit.size() > opens.size() && unit[opens.size()] == '/';  // "times/s"
    const bool times =
        unit == "x" || first == "x" || unit.starts_with("\xc3\x97") || first == "times";
    m.relative = (times && !rate && opens.find_first_of("0123456789") == opens.npos) ||
                 has(opens, "speedup") || has(opens, "speed-up") || has(opens, "flop") ||
                 is_of_jobs(unit);
    m.relative = m.relative && !has(unit, "time (") && !unit.starts_with("epoch time");
    if (m.relative && has(opens, "flop")) {
        std::string_view behind = unit.substr(opens.size());
        for (const std::string_view second : {"/s", "/second", " per second"})
            if (behind.starts_with(second)) behind.remove_prefix(second.size());
        if (behind.starts_with("ec")) behind.remove_prefix(2);
        m.per_gpu = of_each(behind, written, field) == Of::gpu;
    }
    return m.relative;
}
/// A rate by its short name, "fps" or "wps".
bool is_short_rate(std::string_view unit, Measure& m, std::string_view written,
                   const std::string& field) {
    const std::string_view first = unit.substr(0, unit.find_first_of(" /,("));
    m.tokens = first == "wps" || first == "tps";
    if (!m.tokens && first != "fps" && first != "ips" && first != "qps") return false;
    const Of of = of_each(unit.substr(first.size()), written, field);
    m.per_gpu = of == Of::gpu;
    m.per_node = of == Of::node;
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
    for (const char* named :
         {"two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twenty",
          "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety", "few", "several"})
        if (word == named) return true;
    return false;
}
/// 1,000 of "k img/s" and "ktokens/s", a million of "M img/day"; else 1.
double multiple(std::string_view what) {
    std::string_view rest = what;
    const std::string_view word = next_letters(rest);
    if (!what.starts_with(word) || (word.size() > 1 && !has_multiple(word))) return 1;
    return word.starts_with("k") ? 1e3 : word.starts_with("m") ? 1e6 : 1;
}
/// Whether a rate counts tokens: also "tok" and "Mtok".
bool counts_tokens(std::string_view unit, std::string_view what) {
    if (has(unit, "token") || has(unit, "word")) return true;
    for (std::string_view word = next_letters(what); !word.empty(); word = next_letters(what)) {
        if (has_multiple(word)) word.remove_prefix(1);
        if (word == "tok" || word == "toks") return true;
    }
    return false;
}
/// Whether a time's "per ..." is of an example: "image", "1000 samples"; not "batch of 8 images".
bool is_of_example(std::string_view per) {
    per = per.substr(0, per.find_first_of(",(["));
    while (!per.empty()) {
        const std::string_view word = next_letters(per);
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
    std::string_view word = next_letters(rest);
    if (has_multiple(word)) return true;
    const bool letter =
        word == "k" || word == "m" || word == "g" || word == "b" || word == "bn" || word == "t";
    const bool named = letter || is_many(word) || is_small_number(word);
    if (named) word = next_letters(rest);
    if (!named && (number.empty() || number == "1" || number == "1 ")) return false;
    if (word == "of") word = next_letters(rest);  // "thousands of steps"
    if (word == "training" || word == "data") word = next_letters(rest);
    if (letter && number.empty() && word.empty()) return false;
    return word.empty() || is_counted(word);
}
/// Whether a time says already that it is of a step or an epoch, or a mean: "ms per step".
bool says_whose(std::string_view unit) {
    for (const char* word : {"iter", "step", "batch", "/it", "epoch", "mean", "averag", "avg",
                             "median", "best", "min "})
        if (has(unit, word) && !unit.starts_with(word)) return true;
    return false;
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
        std::string_view word = next_letters(rest);
        const bool named = is_small_number(word) || is_many(word);
        if (named) word = next_letters(rest);
        if ((named || (digits != 0 && digits != behind.npos)) && is_step_word(word))
            check(behind, false);
    }
    for (const std::string_view before :
         {" of ", " in ", " over ", " x ", " by ", " do ", " after ", " for ", " - ",
          " \xe2\x80\x93 ", " \xc3\x97 "}) {
        const auto at = unit.find(before);
        if (at == unit.npos || says_whose(unit.substr(0, at))) continue;
        std::string_view of = unit.substr(at + before.size());
        for (const std::string_view word : {"the ", "first ", "last ", "all "})
            if (of.starts_with(word)) of.remove_prefix(word.size());
        std::string_view rest = of;
        if (!next_letters(rest).empty()) check(of, false);
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
/// Errors: gx::Error for a number of epochs in words, as "h for ten epochs", or that is no number.
void check_epochs(std::string_view unit, std::string_view written, const std::string& field) {
    std::string_view rest = unit;
    bool named = false;
    for (std::string_view word = next_letters(rest); !word.empty(); word = next_letters(rest)) {
        if (named && word.starts_with("epoch"))
            throw Error(field + "unit '" + std::string(written) +
                        "' has its number of epochs in words: write it in digits, as in h for 90 "
                        "epochs");
        named = is_small_number(word) || is_many(word);
    }
    if (epochs_in(unit) <= 0)
        throw Error(field + "unit '" + std::string(written) +
                    "' does not state how many epochs: write it as in h for 90 epochs");
}
/// Whether what stands behind a rate multiplies it: "img/s (thousands)", "img/s x1000".
bool is_multiplied(std::string_view behind) {
    if (has(behind, "10^")) return true;
    for (const std::string_view sign : {"x", "*", "/", "\xc3\x97"})
        for (auto at = behind.find(sign); at != behind.npos; at = behind.find(sign, at + 1)) {
            std::string_view by = behind.substr(at + sign.size());
            by.remove_prefix(std::min(by.find_first_not_of(' '), by.size()));
            for (const char* power : {"1000", "1,000", "1e", "1k"})
                if (by.starts_with(power)) return true;
        }
    for (auto at = behind.find_first_of("([,;"); at != behind.npos;
         at = behind.find_first_of("([,;", at + 1)) {
        std::string_view inside = behind.substr(at + 1);
        inside = inside.substr(0, inside.find_first_of(")],;"));
        inside.remove_prefix(std::min(inside.find_first_not_of(' '), inside.size()));
        std::string_view rest = inside;
        std::string_view word = next_letters(rest);
        if (word == "in") word = next_letters(rest);
        if (is_many(word) || inside == "k" || inside == "m" || inside == "g") return true;
    }
    const auto thousands = behind.find(" in ");
    std::string_view rest = behind.substr(std::min(thousands, behind.size()));
    return thousands != behind.npos && next_letters(rest) == "in" && is_many(next_letters(rest));
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
    if (is_multiplied(of_time) || what.starts_with("times ")) refuse();
    std::string_view rest = what;
    bool behind = false;  // what is counted: "tokens of a 345 M model" are single ones
    for (std::string_view word = next_letters(rest); !word.empty(); word = next_letters(rest)) {
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

/// What a rate is of by what it counts: "per-gpu img", "img/gpu", "img per gpu". `what` is then
/// what it counts alone.
Of rate_of(std::string_view& what, std::string_view written, const std::string& field) {
    for (const std::string_view before : {"per ", "per-"})
        if (what.starts_with(before)) {
            const auto end = what.find(' ', before.size());
            const Of of = named_by(what.substr(before.size(), end - before.size()));
            if (of == Of::unknown || end == what.npos) (void)of_each(what, written, field);
            what.remove_prefix(std::min(end, what.size()));
            while (what.starts_with(' ')) what.remove_prefix(1);
            return of;
        }
    for (const std::string_view per : {"/", " per "})
        if (const auto at = what.find(per); at != what.npos) {
            const Of of = of_each(what.substr(at), written, field);
            what = what.substr(0, at);
            while (what.ends_with(' ')) what.remove_suffix(1);
            return of;
        }
    return Of::all;
}
Of both(Of a, Of b) { return a == Of::all ? b : a; }

}  // namespace

Measure measure_of(std::string_view written, const std::string& field) {
    const std::string unit = lower(written);
    if (unit.empty())
        throw Error(field +
                    "the unit is missing: write img/s, seq/s, tokens/s, s/iteration, "
                    "s/epoch, h for N epochs or %");
    Measure m;
    if (is_relative(unit, m, written, field) || is_short_rate(unit, m, written, field)) return m;
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
        for (auto at = unit.find(per); at != std::string::npos; at = unit.find(per, at + 1)) {
            const std::string_view all = unit;
            std::string_view behind = all.substr(at + per.size());
            behind.remove_prefix(std::min(behind.find_first_not_of(' '), behind.size()));
            m.seconds = time_word(behind);
            if (m.seconds == 0) continue;
            behind.remove_prefix(std::min(behind.find_first_of(" /,()[]"), behind.size()));
            std::string_view what = all.substr(0, at);
            while (what.ends_with(' ')) what.remove_suffix(1);
            if (what == "times" || what == "timesteps") break;  // of what?
            const Of counted = rate_of(what, written, field);
            if (what.ends_with("b") || what.ends_with("bit") || what.ends_with("bits") ||
                what.ends_with("bytes"))
                throw Error(field + "unit '" + std::string(written) +
                            "' is a rate of bytes: give one of examples, in img/s, seq/s or "
                            "tokens/s, or the time of one step, in s/iteration");
            check_multiple(what, all.substr(at), written, field);
            const Of of = both(counted, of_each(behind, written, field));
            m.tokens = counts_tokens(unit, what);
            m.per_gpu = of == Of::gpu;
            m.per_node = of == Of::node;
            std::string_view rest = what;
            for (auto word = next_letters(rest); !word.empty(); word = next_letters(rest)) {
                if (has_multiple(word)) word.remove_prefix(1);
                if (is_step_word(word)) m.kind = Measure::Kind::step_rate;
            }
            m.seconds /= multiple(what);
            return m;
        }
    throw Error(field + "unknown unit '" + std::string(written) +
                "': write img/s, seq/s, tokens/s, s/iteration, s/epoch, h for N epochs or %");
}

}  // namespace gx::tools::predict
