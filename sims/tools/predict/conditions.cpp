#include <tools/predict/conditions.hpp>

#include <algorithm>         // find, find_if, max, min
#include <array>             // to_array
#include <initializer_list>  // words
#include <optional>          // a precision

#include <gx/core/error.hpp>            // Error
#include <gx/io/nearest.hpp>            // nearest_name
#include <tools/common/text.hpp>        // lower, has
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

/// The first number of a text ("128, accumulated 64 times", "8k"); 0: none.
double first_number(const std::string& text) {
    double n = 0, place = 0;
    std::size_t i = number_begin(text);
    if (i > words_before) return 0;  // "fixed global batch of 65536"
    const double sign = i == 1 && text[0] == '-' ? -1 : 1;
    for (; i < text.size(); ++i) {
        if (text[i] == ',' && i + 3 < text.size() && text[i + 1] != ' ') continue;
        if (text[i] == '.' && place == 0) {
            place = 1;
            continue;
        }
        if (text[i] < '0' || text[i] > '9') break;
        n = place > 0 ? n + (text[i] - '0') * (place /= 10) : n * 10 + (text[i] - '0');
    }
    const bool thousands = i < text.size() && (text[i] == 'k' || text[i] == 'K') &&
                           (i + 1 == text.size() || text[i + 1] == ' ');
    return sign * (thousands ? n * 1000 : n);
}
/// Whether a text has "1 024", which may be one number or two.
bool has_spaced_number(const std::string& text) {
    for (std::size_t i = 1; i < text.size(); ++i)
        if (text[i] == ' ' && is_digit(text, i - 1) && is_digit(text, i + 1) &&
            is_digit(text, i + 2) && is_digit(text, i + 3) && !is_digit(text, i + 4))
            return true;
    return false;
}

/// A number within limits, or the first number of a text; 0: none.
double first_number(const Json& object, std::string_view name, const Limits& limits) {
    const auto at = object.find(name);
    if (at == object.end()) return 0;
    const std::string text = text_of(*at);
    const double n = at->is_number() ? at->get<double>() : first_number(text);
    if (n == 0 && !at->is_number()) {
        // words say that it is not stated, and some publications list a batch for each image size
        const bool lists_batches = at->is_object() && name.starts_with("batch");
        if (at->is_boolean() || (at->is_object() && !lists_batches))
            throw Error(field_of(name) + "expected a number, found " + at->dump());
        return 0;
    }
    if (has_spaced_number(text))
        throw Error(field_of(name) + "'" + text +
                    "' is one number or two: write thousands as 1024 or \"1,024\"");
    return within(limits, n, field_of(name), text);
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

/// N of "accumulated N times", or 1.
double accumulated(const std::string& text) {
    const auto at = text.find("accumulated ");
    double n = 0;
    if (at != std::string::npos)
        for (std::size_t i = at + 12; i < text.size() && '0' <= text[i] && text[i] <= '9'; ++i)
            n = n * 10 + (text[i] - '0');
    return within(times_limits, std::max(1.0, n), field_of("batch_per_gpu"), text);
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
/// AMP keeps master gradients of 4 bytes; a network cast to fp16, and MXNet, send 2.
/// Source: the cases that state both (DeepLearningExamples, MLPerf, DLPerf).
int wire_bytes_of(const Json& c, const std::string& precision, const std::string& framework) {
    if (const int stated = stated_wire_bytes(c); stated > 0) return stated;
    if (!says_one_of(precision, amp_words))
        for (const char* cast : {"fp16", "bf16", "float16", "bfloat16", "half", "pure fp16"})
            if (precision.starts_with(cast) && precision_of(precision) == sim::Precision::mixed)
                return 2;
    return precision_of(precision) == sim::Precision::mixed && states(framework, "mxnet") ? 2 : 4;
}

/// The NICs' rate as stated, or as their names, the transport's or the machine's tell it.
/// Errors: gx::Error for a text that is stated and tells none.
double nic_of(const Json& c) {
    const auto stated = c.find("nic_gbps_per_node");
    if (stated != c.end() && stated->is_number())
        return first_number(c, "nic_gbps_per_node", gbps_limits);
    const std::string text = text_at(c, "nic_gbps_per_node");
    if (const double gbps = nic_gbps(text); gbps > 0) return gbps;
    std::string_view rest = text;
    const double count = multiplier(rest);  // "8 x 200", or "100"
    const bool bare = rest.find_first_not_of(" .0123456789") == rest.npos;
    if (const double all = count * first_number(std::string(rest)); bare && all > 0) return all;
    if (const std::string told = lower(text);
        !told.empty() && !has(told, "not stated") && !has(told, "unknown"))
        throw Error(field_of("nic_gbps_per_node") + "'" + text +
                    "' tells no rate: give Gb/s, as 25 or \"2 x 100 Gb/s\", or \"not stated\"");
    for (const char* name : {"nic", "transport"})
        if (const double gbps = nic_gbps(text_at(c, name)); gbps > 0) return gbps;
    for (const char* name : {"instances", "cluster", "gpu"})
        if (const double gbps = machine_gbps(text_at(c, name)); gbps > 0) return gbps;
    return 0;
}

/// A count, or an object of counts by the number of nodes or GPUs; what is neither is no count.
Json counts(const Json& c, std::string_view name) {
    const auto at = c.find(name);
    if (at == c.end()) return {};
    const auto check = [&](const Json& x, const std::string& field) {
        if (!x.is_number()) throw Error(field + "'" + x.dump() + "' is not a number");
        (void)within(times_limits, x.get<double>(), field, x.dump());
    };
    if (at->is_number()) check(*at, field_of(name));
    if (at->is_object())
        for (const auto& [key, x] : at->items()) check(x, field_of(std::string(name) + "." + key));
    return *at;
}

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

}  // namespace

Conditions read_conditions(const Json& c) {
    const auto low = [&](std::string_view name) { return lower(text_at(c, name)); };
    Conditions k;
    check_names(c, k.remarks);
    const std::string gpu = text_at(c, "gpu");
    if (gpu.empty())
        throw Error("field 'conditions.gpu' is missing: name one, as K80, P100, V100, A100, H100");
    try {
        k.gpu = gpu_or_proxy(gpu, k.remarks);
    } catch (const Error& e) {
        throw Error("field 'conditions.gpu': " + std::string(e.what()));
    }
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
    k.accumulation = accumulated(low("batch_per_gpu"));
    k.accumulates = low("grad_accumulation") == "true";
    k.global_batch = first_number(c, "global_batch", global_batch_limits);
    k.bucket_mb = first_number(c, "bucket_mb", bucket_mb_limits);
    k.epochs = first_number(c, "epochs", epochs_limits);
    k.accumulation_by_nodes = counts(c, "accumulation_steps_by_node_count");
    k.servers = counts(c, "parameter_servers");
    return k;
}

}  // namespace gx::tools::predict
