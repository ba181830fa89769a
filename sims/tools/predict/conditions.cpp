#include <tools/predict/conditions.hpp>

#include <algorithm>         // find, find_if, max, min
#include <array>             // to_array
#include <cstdint>           // counts
#include <initializer_list>  // words
#include <optional>          // a precision
#include <utility>           // pair

#include <gx/core/error.hpp>            // Error
#include <gx/io/nearest.hpp>            // nearest_name
#include <tools/common/text.hpp>        // lower, has, plain_number
#include <tools/predict/case_file.hpp>  // text_at
#include <tools/predict/gpu_proxy.hpp>  // gpu_or_proxy
#include <tools/predict/limits.hpp>     // within
#include <tools/predict/nic_rate.hpp>   // nic_gbps

namespace gx::tools::predict {

namespace {

std::string field_of(std::string_view name) {
    return "field 'conditions." + std::string(name) + "': ";
}

bool is_digit(std::string_view text, std::size_t i) {
    return i < text.size() && '0' <= text[i] && text[i] <= '9';
}
/// Where a number begins, also ".5"; the text's size: nowhere.
std::size_t number_begin(std::string_view text) {
    std::size_t i = 0;
    while (i < text.size() && !is_digit(text, i) && !(text[i] == '.' && is_digit(text, i + 1))) ++i;
    return i;
}
constexpr std::size_t words_before = 4;  ///< more: not the number of this field

bool states_nothing(std::string_view text) {
    return has(text, "not stated") || has(text, "unknown");
}

/// Whether what stands before a number lets it be the field's: "~", "bs ", "per GPU: ", "about ".
bool may_precede(std::string_view before) {
    if (before.size() <= words_before) return true;
    static constexpr std::array<std::string_view, 15> words{
        "per gpu", "per-gpu",  "batch size", "batch",      "batch of",
        "total",   "in total", "fixed",      "about",      "approx.",
        "approx",  "global",   "roughly",    "per device", "fixed global batch of"};
    while (before.ends_with(' ') || before.ends_with(':') || before.ends_with('='))
        before.remove_suffix(1);
    return std::ranges::find(words, before) != words.end();
}
/// Whether what stands behind a number makes another one of it: "2 x 32", "64-128", "1e3", "256/8",
/// "64, 128", "4 of 8", "20~00", "2^12".
bool goes_on(std::string_view rest) {
    const bool close = !rest.starts_with(' ');
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    if (rest.empty()) return false;
    if (is_digit(rest, 0) || (!close && (rest == "k" || rest.starts_with("k ")))) return true;
    if (close && rest[0] == 'e' && (is_digit(rest, 1) || rest.starts_with("e+"))) return true;
    for (const std::string_view sign :
         {"x", "\xc3\x97", "*", "/", "^", "-", "\xe2\x80\x93", "->", "\xe2\x86\x92", "+", ",", "~",
          ".", "to ", "or ", "of ", "and ", "k x", "k-"}) {
        if (!rest.starts_with(sign)) continue;
        std::string_view next = rest.substr(sign.size());
        next.remove_prefix(std::min(next.find_first_not_of(" ~"), next.size()));
        if (!is_digit(next, 0)) continue;
        if (sign != ",") return true;
        // "128, 64 times" goes on with words; "64, 128" does not
        next.remove_prefix(number_size(next));
        return next.empty() || next[0] == ',' || next[0] == ' '
                   ? next.find_first_of("abcdefghijklmnopqrstuvwxyz") == next.npos
                   : false;
    }
    return false;
}
/// Whether a text multiplies numbers somewhere: "2 sockets x 4", "16384 (64 x 256)".
bool has_product(std::string_view text) {
    for (const std::string_view sign : {" x ", "*", "\xc3\x97"})
        for (auto at = text.find(sign); at != text.npos; at = text.find(sign, at + 1)) {
            std::string_view next = text.substr(at + sign.size());
            next.remove_prefix(std::min(next.find_first_not_of(' '), next.size()));
            if (is_digit(next, 0)) return true;
        }
    return false;
}
/// Whether "64,128" is rather two batches than 64 thousand.
bool is_rather_two(std::string_view number) {
    const auto comma = number.find(',');
    if (comma == number.npos || number.size() != comma + 4 || number[comma + 1] == '0')
        return false;
    const auto power_of_two = [](std::string_view digits) {
        int n = 0;
        for (const char c : digits) n = 10 * n + (c - '0');
        return n > 0 && (n & (n - 1)) == 0;
    };
    return comma < 4 && power_of_two(number.substr(0, comma)) &&
           power_of_two(number.substr(comma + 1));
}
/// How a text gives a number.
struct Written {
    double number = 0;        ///< 0: none
    bool clear = true;        ///< false: one that is not understood
    std::string_view behind;  ///< what follows it, and its "k"
};
/// The number of a text in lower case ("128, accumulated 64 times", "8k", "per gpu: 64").
Written written_in(std::string_view text) {
    const std::size_t begin = number_begin(text);
    if (begin == text.size()) return {};
    const double sign = begin == 1 && text[0] == '-' ? -1 : 1;
    const std::size_t size = number_size(text.substr(begin));
    const auto n = plain_number(text.substr(begin, size));
    std::string_view behind = text.substr(begin + size);
    const bool thousands = behind.starts_with("k") && (behind.size() == 1 || behind[1] == ' ');
    if (thousands) behind.remove_prefix(1);
    const bool clear = n && may_precede(text.substr(0, begin)) && !goes_on(behind) &&
                       !is_rather_two(text.substr(begin, size));
    return {sign * n.value_or(0) * (thousands ? 1000 : 1), clear, behind};
}
/// Whether a text has "1 024", which may be one number or two.
bool has_spaced_number(const std::string& text) {
    for (std::size_t i = 1; i < text.size(); ++i)
        if (text[i] == ' ' && is_digit(text, i - 1) && is_digit(text, i + 1) &&
            is_digit(text, i + 2) && is_digit(text, i + 3) && !is_digit(text, i + 4))
            return true;
    return false;
}
/// Whether what stands behind a number may do so in a field: not "512 global" nor
/// "16384 (64 x 256)" in a batch of one GPU, nor "90k iterations" in epochs.
bool may_follow(std::string_view name, std::string_view behind) {
    behind.remove_prefix(std::min(behind.find_first_not_of(' '), behind.size()));
    const std::string_view clause = behind.substr(0, behind.find_first_of(",;(["));
    if (name == "epochs")
        return clause.empty() || clause.starts_with("epoch") ||
               clause.starts_with("imagenet epoch");
    if (name == "bucket_mb") {
        for (const std::string_view unit : {"mb", "mib", "megabyte", "m"})
            if (clause.starts_with(unit) &&
                (clause.size() == unit.size() || clause[unit.size()] == ' ' ||
                 clause[unit.size()] == 's'))
                return true;
        return clause.empty();
    }
    if (name.ends_with("batch_per_gpu") || name == "batch") {
        for (const char* word : {"global", "total", "overall", "all gpus", "per node", "/node"})
            if (has(clause, word)) return false;
        const auto at = behind.find("per gpu");
        const auto digits = behind.find_first_of("0123456789");
        if (at != behind.npos && digits < at && has(behind.substr(digits, at - digits), " ") &&
            !has(clause, "per gpu") && !has(clause, "accumul"))
            return false;  // "512 (64 per GPU)"
    }
    return name == "global_batch" || !has_product(behind);
}
/// A number in words, which is no number here.
bool is_number_word(std::string_view text) {
    for (const char* word :
         {"one", "two", "three", "four", "five", "six", "seven", "eight", "ten", "twelve",
          "sixteen", "thirty", "sixty", "ninety", "hundred", "thousand"})
        if (text.starts_with(word) && has_word(text, text.substr(0, text.find_first_of(" -,("))) &&
            text.substr(0, text.find_first_of(" -,(")) == word)
            return true;
    return false;
}

/// A number within limits, or the number of a text; 0: none.
/// Errors: gx::Error for a text with a number that is not clearly the field's, and for other types.
double first_number(const Json& object, std::string_view name, const Limits& limits) {
    const auto at = object.find(name);
    if (at == object.end() || at->is_null()) return 0;
    const std::string written = text_of(*at);
    if (at->is_number()) return within(limits, at->get<double>(), field_of(name), written);
    const bool batch = name.starts_with("batch");
    const auto expected = [&] {
        throw Error(field_of(name) + "expected a number, found " + at->dump());
    };
    if (at->is_object() && batch) return 0;  // a batch for each image size, as some publish
    if (at->is_boolean() || at->is_object() || (at->is_array() && !batch)) expected();
    if (at->is_array()) {  // of the phases of a run, the first
        if (at->empty() || (!at->front().is_number() && !at->front().is_string())) expected();
        return first_number(Json{{std::string(name), at->front()}}, name, limits);
    }
    const std::string text = lower(written);
    const Written w = written_in(text);
    if (states_nothing(text) && !w.clear) return 0;  // "not stated in the paper of 2019"
    if (has_spaced_number(text))
        throw Error(field_of(name) + "'" + written +
                    "' is one number or two: write thousands as 1024 or \"1,024\"");
    if (!w.clear || (number_begin(text) < text.size() && !may_follow(name, w.behind)) ||
        is_number_word(text))
        throw Error(field_of(name) + "'" + written + "' is not one number" +
                    (name == "bucket_mb" ? " of MB"
                     : name == "epochs"  ? " of epochs"
                     : batch             ? " for each GPU"
                                         : "") +
                    ": write it in digits, as " +
                    (name == "bucket_mb" ? "25 or \"25 MB\"" : "64 or \"1,024\""));
    if (number_begin(text) == text.size()) return 0;  // words say that it is not stated
    return within(limits, w.number, field_of(name), written);
}

/// A field's one unit, as texts may have it.
struct Unit {
    std::string_view name;
    std::initializer_list<std::string_view> words, endings;  ///< lower case; the longest first
    std::string_view example;
};
/// A number in that unit; 0: not stated.
/// Errors: gx::Error for a number with another word, as "1.3B", or far behind others.
double number_in(const Unit& unit, const Json& c, std::string_view name, const Limits& limits) {
    const std::string text = lower(text_at(c, name));
    const auto begin = number_begin(text);
    const auto at = c.find(name);
    if (at != c.end() && at->is_string() && begin < text.size() && !has(text, "not stated") &&
        !has(text, "unknown") && !has_spaced_number(text)) {
        std::string_view rest = text;
        rest.remove_prefix(std::min(text.find_first_not_of("0123456789.,", begin), text.size()));
        if (rest.starts_with(" ")) rest.remove_prefix(1);
        for (const std::string_view word : unit.words)
            if (rest.starts_with(word)) {
                rest.remove_prefix(word.size());
                break;
            }
        const bool ends =
            rest.empty() || std::ranges::find(unit.endings, rest) != unit.endings.end();
        if (!ends || begin > words_before)
            throw Error(field_of(name) + "'" + text_at(c, name) + "' is not a number of " +
                        std::string(unit.name) + ": write " + std::string(unit.example));
    }
    return first_number(c, name, limits);
}
double millions_of(const Json& c) {
    return number_in({.name = "millions",
                      .words = {"millions", "million", "m"},
                      .endings = {" parameters", " params"},
                      .example = "1300 or \"1300 million\" for 1.3 billion"},
                     c, "params_millions", millions_limits);
}
double gradient_mb_of(const Json& c) {
    return number_in({.name = "MB",
                      .words = {"megabytes", "mb", "m"},
                      .endings = {" fp32", " (fp32)", " in fp32"},
                      .example = "1300 or \"1300 MB\" for 1.3 GB"},
                     c, "gradient_mb_fp32", gradient_mb_limits);
}

/// N of "accumulated N times", else a number as grad_accumulation, else 1.
/// Errors: gx::Error for another text that mentions accumulation, and a number that is no count.
double accumulated(const Json& c) {
    const std::string text = lower(text_at(c, "batch_per_gpu"));
    if (!states(text, "accumulat")) {
        const auto at = c.find("grad_accumulation");
        if (at == c.end() || !at->is_number()) return 1;
        return within(times_limits, at->get<double>(), field_of("grad_accumulation"), at->dump());
    }
    const auto at = text.find("accumulated ");
    if (at != std::string::npos) {
        std::string_view rest = std::string_view(text).substr(at + 12);
        for (const std::string_view word : {"over ", "for "})
            if (rest.starts_with(word)) rest.remove_prefix(word.size());
        const std::size_t size = number_size(rest);
        const auto n = plain_number(rest.substr(0, size));
        rest.remove_prefix(size);
        if (rest.starts_with(" ")) rest.remove_prefix(1);
        for (const std::string_view word : {"times", "steps", "x", "micro", "batches", "\xc3\x97"})
            if (n && rest.starts_with(word))
                return within(times_limits, *n, field_of("batch_per_gpu"), text);
    }
    throw Error(field_of("batch_per_gpu") + "'" + text +
                "' does not state how many steps accumulate: write it as in \"128, accumulated 64 "
                "times\"");
}

/// Whether a text says one of some words, apart from others.
bool says_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
    return std::ranges::any_of(
        words, [&](std::string_view word) { return states(text, word, Word::apart); });
}
/// Where a text first says one of them; npos: nowhere.
std::size_t first_of(std::string_view text, std::initializer_list<std::string_view> words) {
    std::size_t first = std::string_view::npos;
    for (const std::string_view word : words)
        first = std::min(first, find_stated(text, word, Word::apart));
    return first;
}
const std::initializer_list<std::string_view> amp_words{"amp", "mixed"};
const std::initializer_list<std::string_view> words_of_16{
    "fp16",  "bf16", "f16",  "float16", "bfloat16", "half",         "16",
    "16bit", "fp8",  "e4m3", "e5m2",    "fp16s",    "mixed_float16"};
const std::initializer_list<std::string_view> words_of_32{"fp32",  "float32", "f32",  "32",
                                                          "32bit", "single",  "full", "float"};

/// Nothing where a text names none that gx knows.
std::optional<sim::Precision> named_precision(const std::string& text) {
    constexpr auto nowhere = std::string_view::npos;
    if (says_one_of(text, amp_words)) return sim::Precision::mixed;
    const auto half = first_of(text, words_of_16), full = first_of(text, words_of_32),
               tf32 = first_of(text, {"tf32"});
    if (half != nowhere && half < std::min(full, tf32)) return sim::Precision::mixed;
    if (tf32 != nowhere) return sim::Precision::tf32;
    if (full != nowhere) return sim::Precision::fp32;
    for (const char* word : {"amp", "mixed", "fp16", "bf16", "float16", "tf32", "half"})
        if (denies(text, word, Word::apart)) return sim::Precision::fp32;
    return std::nullopt;
}
sim::Precision precision_of(const std::string& text) {
    return named_precision(text).value_or(sim::Precision::fp32);
}
/// Whether a text names precisions of 16 and of 32 bits, and no mix of them.
bool names_two_precisions(const std::string& text) {
    return !says_one_of(text, amp_words) && says_one_of(text, words_of_16) &&
           (says_one_of(text, words_of_32) || says_one_of(text, {"tf32"}));
}

/// Bytes of an element as gradient_dtype_on_wire has it; 0: not stated.
/// Errors: gx::Error for a text that names no type or several.
int stated_wire_bytes(const Json& c) {
    const std::string written = text_at(c, "gradient_dtype_on_wire"), wire = lower(written);
    if (wire.empty() || has(wire, "not stated") || has(wire, "unknown") || wire == "n/a") return 0;
    const bool two =
        wire == "16" || says_one_of(wire, {"fp16", "bf16", "f16", "float16", "bfloat16", "half",
                                           "16bit", "16-bit", "16 bit"});
    const bool four = wire == "32" || says_one_of(wire, {"fp32", "float32", "f32", "tf32", "single",
                                                         "float", "32bit", "32-bit", "32 bit"});
    const bool one = wire == "8" || says_one_of(wire, {"fp8", "int8", "uint8", "e4m3", "e5m2",
                                                       "8bit", "8-bit", "8 bit"});
    if (int(one) + int(two) + int(four) != 1)
        throw Error(field_of("gradient_dtype_on_wire") + "'" + written + "' names " +
                    (one || two || four ? "more than one type" : "no type") +
                    ": write fp32, fp16, bf16 or fp8");
    return one ? 1 : two ? 2 : 4;
}
/// AMP keeps master gradients of 4 bytes; a network cast to fp16, MXNet, and static graphs of
/// PaddlePaddle send 2.
/// Source: the cases that state both (DeepLearningExamples, MLPerf, DLPerf); PaddlePaddle's
///         update_role_var_grad (data/mechanisms.json).
int wire_bytes_of(const Json& c, const std::string& precision, const std::string& framework) {
    if (const int stated = stated_wire_bytes(c); stated > 0) return stated;
    if (!says_one_of(precision, amp_words))
        for (const char* cast : {"fp16", "bf16", "float16", "bfloat16", "half", "pure fp16"})
            if (precision.starts_with(cast) && precision_of(precision) == sim::Precision::mixed)
                return 2;
    const bool dynamic = states(framework, "dygraph") || states(framework, "dynamic") ||
                         states(framework, "dataparallel");
    const bool casts = states(framework, "mxnet") || (states(framework, "paddle") && !dynamic);
    return precision_of(precision) == sim::Precision::mixed && casts ? 2 : 4;
}

/// The rate that a field's text states; 0: none.
/// Errors: gx::Error naming the field.
double nic_gbps_in(const Json& c, std::string_view name) {
    try {
        return nic_gbps(text_at(c, name));
    } catch (const Error& e) {
        throw Error(field_of(name) + e.what());
    }
}
/// The NICs' rate as stated, or as their names, the transport's or the machine's state it.
/// Errors: gx::Error for a text that is given and states none, or several.
double nic_of(const Json& c) {
    constexpr std::string_view name = "nic_gbps_per_node";
    const auto stated = c.find(name);
    if (stated != c.end() && stated->is_number()) return first_number(c, name, gbps_limits);
    if (stated != c.end() && !stated->is_string() && !stated->is_null())
        throw Error(field_of(name) + "expected a number or text, found " + stated->dump());
    const std::string text = text_at(c, name), told = lower(text);
    if (const double gbps = nic_gbps_in(c, name); gbps > 0) return gbps;
    if (!states_nothing(told)) {
        std::string_view rest = text;
        const double count = multiplier(rest);  // "8 x 200", or "100"
        while (rest.starts_with(' ')) rest.remove_prefix(1);
        while (rest.ends_with(' ')) rest.remove_suffix(1);
        if (const double all = count * plain_number(rest).value_or(0); all > 0) return all;
        if (!told.empty())
            throw Error(field_of(name) + "'" + text +
                        "' states no rate: give Gb/s, as 25 or \"2 x 100 Gb/s\", or \"not "
                        "stated\"");
    }
    for (const char* other : {"nic", "transport"})
        if (const double gbps = nic_gbps_in(c, other); gbps > 0) return gbps;
    for (const char* other : {"instances", "cluster", "gpu"})
        if (const double gbps = machine_gbps(text_at(c, other)); gbps > 0) return gbps;
    return 0;
}

/// A count, or an object of counts by the number of nodes or GPUs; null: none.
Json counts(const Json& c, std::string_view name) {
    const auto at = c.find(name);
    if (at == c.end() || at->is_null()) return {};
    const auto count = [&](const Json& x, const std::string& field) {
        std::optional<double> n;
        if (x.is_number()) n = x.get<double>();
        if (x.is_string()) n = plain_number(x.get<std::string>());
        if (!n) throw Error(field + "expected a whole number, found " + x.dump());
        return Json(static_cast<std::int64_t>(within(times_limits, *n, field, text_of(x))));
    };
    if (!at->is_object()) {
        if (at->is_string() && states_nothing(lower(text_of(*at)))) return {};
        return count(*at, field_of(name));
    }
    Json all = Json::object();
    for (const auto& [key, x] : at->items()) {
        if (key.empty() || key.find_first_not_of("0123456789") != key.npos)
            throw Error(field_of(name) + "'" + key +
                        "' is not a number of nodes or GPUs: write counts as in {\"8\": 2}");
        all[key] = count(x, field_of(std::string(name) + "." + key));
    }
    return all;
}
/// Whether micro-batches accumulate to a constant global batch.
bool accumulates(const Json& c) {
    const auto at = c.find("grad_accumulation");
    if (at == c.end() || at->is_null()) return false;
    if (at->is_boolean()) return at->get<bool>();
    if (at->is_number()) return false;  // the same in every step: accumulated()
    const std::string text = lower(text_of(*at));
    if (at->is_string())
        for (const auto& [words, value] :
             {std::pair{"true yes on", true}, std::pair{"false no none off", false}})
            if (!text.empty() && has_word(words, text)) return value;
    if (at->is_string() && (text.empty() || states_nothing(text) || denies(text, "accumulation")))
        return false;
    throw Error(field_of("grad_accumulation") + "expected true or false, found " + at->dump());
}

/// Names of the tokens of a sample.
constexpr std::array sequence_names{"sequence_length", "seq_length", "seq_len", "context_length"};

/// Conditions that are read, and those of published cases that only describe one.
constexpr auto known_conditions =
    std::to_array<std::string_view>({"accumulation_steps_by_node_count",
                                     "batch",
                                     "batch_per_gpu",
                                     "bucket_mb",
                                     "chips",
                                     "cloud",
                                     "cluster",
                                     "collective",
                                     "data",
                                     "dataset",
                                     "date",
                                     "device",
                                     "epochs",
                                     "framework",
                                     "given",
                                     "global_batch",
                                     "gpu",
                                     "gpus",
                                     "gpus_per_node",
                                     "grad_accumulation",
                                     "gradient_dtype_on_wire",
                                     "gradient_mb_fp32",
                                     "image_sizes",
                                     "instances",
                                     "intra_node_link",
                                     "iterations",
                                     "micro_batch_per_gpu",
                                     "model",
                                     "model_mb_as_listed",
                                     "nic",
                                     "nic_gbps_per_node",
                                     "option",
                                     "parameter_servers",
                                     "params_millions",
                                     "phase",
                                     "precision",
                                     "region",
                                     "rule",
                                     "schedule",
                                     "context_length",
                                     "seq_len",
                                     "seq_length",
                                     "sequence_length",
                                     "server_placement",
                                     "software",
                                     "transport",
                                     "note"});

/// A condition that nothing reads would be answered by a default. One that is near a name which the
/// case lacks is taken for misspelt and refused; any other is named in `why` and `assumed`.
void check_names(const Json& c, std::vector<std::string>& remarks) {
    for (const auto& [name, value] : c.items()) {
        if (std::ranges::find(known_conditions, name) != known_conditions.end()) continue;
        const auto longer = std::ranges::find_if(
            known_conditions, [&](std::string_view known) { return known.starts_with(name); });
        std::string_view near = nearest_name(name, known_conditions);
        if (near.empty() && name.size() > 3 && longer != known_conditions.end()) near = *longer;
        if (!near.empty() && !c.contains(near))
            throw Error("field 'conditions." + name + "' is not known: did you mean '" +
                        std::string(near) + "'?");
        remarks.push_back("condition '" + name + "' is not read");
    }
}

/// The number that a text opens with, in tokens: "2048", "1,024", "8k" (8,192); 0: none.
double tokens_at(std::string_view text, std::string_view& behind) {
    std::size_t size = number_size(text);
    while (size > 0 && (text[size - 1] == '.' || text[size - 1] == ',')) --size;
    const double n = plain_number(text.substr(0, size)).value_or(0);
    behind = text.substr(size);
    if (n == 0 || !behind.starts_with('k')) return n;
    behind.remove_prefix(1);
    return 1024 * n;
}
/// The tokens of a sequence that a text states: "sequence 2048", "sequences of 1,024", "seq len
/// 512", "context length: 4k", "128-token sequences"; 0: none. Without "length" or "of" the number
/// ends its phrase and is that of no layers: "in sequence 3" and "context of 5 papers" state none.
double sequence_in(std::string_view text) {
    constexpr double least = 32;
    for (const char* name : {"sequence", "seq", "context"})
        for (auto at = text.find(name); at != text.npos; at = text.find(name, at + 1)) {
            if (at > 0 && 'a' <= text[at - 1] && text[at - 1] <= 'z') continue;
            std::string_view rest = text.substr(at), behind{};
            const std::string_view said = next_word(rest);
            if (said != name && said != "sequences") continue;
            behind = rest;
            bool named = false;
            for (std::string_view word = next_word(behind);
                 word == "length" || word == "lengths" || word == "len" || word == "window" ||
                 word == "of";
                 word = next_word(behind))
                named = named || word != "of", rest = behind;
            rest.remove_prefix(std::min(rest.find_first_not_of(" _=:("), rest.size()));
            const double n = tokens_at(rest, behind);
            const bool ends = behind.empty() || behind.starts_with(" token") ||
                              std::string_view(",;.)").find(behind[0]) != behind.npos;
            if (n >= 1 && (named || (n >= least && ends))) return n;
        }
    for (const char* of : {"-token sequence", "-token context"}) {
        const auto token = text.find(of);
        if (token == text.npos) continue;
        const auto begin = text.substr(0, token).find_last_not_of("0123456789,k") + 1;
        std::string_view behind{};
        if (const double n = tokens_at(text.substr(begin, token - begin), behind);
            n >= 1 && behind.empty())
            return n;
    }
    return 0;
}

/// GeForce since 2018: "rtx 3090", "rtx-4090", "2080 ti"; not "rtx 6000", "rtx a5000". Their driver
/// has no copies between peers on PCIe.
bool is_geforce_rtx(std::string_view gpu) {
    for (std::string_view word = next_word(gpu); !word.empty(); word = next_word(gpu)) {
        if (word.starts_with("rtx")) word.remove_prefix(3);
        if (number_size(word) != 4 || word[2] < '5' || word[3] != '0') continue;
        for (const char* series : {"20", "30", "40", "50"})
            if (word.starts_with(series)) return true;
    }
    return false;
}

}  // namespace

Conditions read_conditions(const Json& c) {
    const auto low = [&](std::string_view name) { return lower(text_at(c, name)); };
    Conditions k;
    check_names(c, k.remarks);
    const std::string gpu = text_at(c, "gpu");
    try {
        k.gpu = gpu_or_proxy(gpu, k.remarks);
    } catch (const Error& e) {
        throw Error("field 'conditions.gpu': " + std::string(e.what()));
    }
    k.no_peers = is_geforce_rtx(lower(gpu));
    k.gpus_per_node = static_cast<int>(first_number(c, "gpus_per_node", gpus_per_node_limits));
    if (const double gbps = nic_of(c); gbps > 0)
        k.nic_gbps_per_node = within(gbps_limits, gbps, field_of("nic_gbps_per_node"),
                                     text_at(c, "nic_gbps_per_node"));
    k.link = low("intra_node_link");
    k.transport = low("transport");
    if (k.transport.empty() || has(k.transport, "not stated") || has(k.transport, "unknown"))
        k.transport = low("nic") + " " + low("nic_gbps_per_node");
    k.model = low("model");
    k.framework = low("framework");
    k.collective = low("collective");
    k.data = low("data");
    k.option = low("option");
    const std::string precision = low("precision");
    k.precision = precision_of(precision);
    if (!named_precision(precision) && !precision.empty() && !has(precision, "not stated") &&
        !has(precision, "unknown"))
        k.remarks.push_back("precision '" + precision + "' not known: fp32 assumed");
    if (precision.empty() || states_nothing(precision))
        k.remarks.push_back("precision not stated: fp32 assumed");
    if (names_two_precisions(precision))
        k.remarks.push_back("precision '" + precision + "' names two: " +
                            (k.precision == sim::Precision::mixed  ? "mixed fp16"
                             : k.precision == sim::Precision::tf32 ? "TF32"
                                                                   : "fp32") +
                            " assumed");
    if (states(precision, "fp8") && !has(precision, "16"))
        k.remarks.push_back("precision '" + precision + "' not modelled: mixed fp16 assumed");
    k.wire_bytes = wire_bytes_of(c, precision, k.framework);
    k.gradient_mb_fp32 = gradient_mb_of(c);
    if (k.gradient_mb_fp32 == 0) k.gradient_mb_fp32 = 4 * millions_of(c);
    k.batch_per_gpu = first_number(c, "batch_per_gpu", batch_limits);
    k.states_batch_per_gpu = k.batch_per_gpu > 0;
    if (k.batch_per_gpu == 0) k.batch_per_gpu = first_number(c, "batch", batch_limits);
    k.micro_batch = first_number(c, "micro_batch_per_gpu", batch_limits);
    k.accumulation = accumulated(c);
    k.accumulates = accumulates(c);
    k.global_batch = first_number(c, "global_batch", global_batch_limits);
    k.bucket_mb = first_number(c, "bucket_mb", bucket_mb_limits);
    for (const char* name : sequence_names) {
        std::string_view behind{};
        const std::string text = low(name);
        const bool many = text.ends_with('k') && tokens_at(text, behind) > 0 && behind.empty();
        if (k.sequence > 0) break;
        k.sequence = many ? within(sequence_limits, tokens_at(text, behind), field_of(name), text)
                          : first_number(c, name, sequence_limits);
    }
    for (const char* other : {"model", "batch_per_gpu", "data"})
        if (k.sequence == 0)
            if (const double n = sequence_in(low(other)); n > 0)
                k.sequence = within(sequence_limits, n, field_of(other), text_at(c, other));
    k.epochs = first_number(c, "epochs", epochs_limits);
    k.accumulation_by_nodes = counts(c, "accumulation_steps_by_node_count");
    if (!k.accumulation_by_nodes.is_null() && !k.accumulation_by_nodes.is_object())
        throw Error(field_of("accumulation_steps_by_node_count") +
                    "expected counts by the number of nodes, as {\"1\": 16, \"8\": 2}, found " +
                    k.accumulation_by_nodes.dump());
    k.servers = counts(c, "parameter_servers");
    return k;
}

}  // namespace gx::tools::predict
