// Conditions: what a case says of hardware, model and software; defaults for the rest.
#pragma once

#include <algorithm>    // max
#include <string>       // text
#include <string_view>  // words
#include <vector>       // remarks

#include <gx/core/error.hpp>             // Error
#include <gx/sim/gpu.hpp>                // GpuSpec, Precision
#include <gx/sim/predict/any_gpu.hpp>    // any_gpu
#include <gx/sim/predict/case_file.hpp>  // Case, text_at
#include <gx/sim/predict/nic_rate.hpp>   // nic_gbps
#include <gx/sim/predict/units.hpp>      // lower, has

namespace gx::sim::predict {

/// Conditions as numbers and lower-case words. 0 and empty: not said.
struct Conditions {
    GpuSpec gpu{};
    int gpus_per_node = 0;
    double nic_gbps_per_node = 0;
    std::string link{}, transport{}, model{}, framework{}, collective{}, data{}, option{};
    Precision precision = Precision::fp32;
    int wire_bytes = 4;               ///< of an element of the gradient
    double gradient_mb_fp32 = 0;
    double batch_per_gpu = 0;
    double micro_batch = 0;           ///< of a step without reduction, where steps accumulate
    double accumulation = 1;          ///< steps that one reduction ends, at the base
    bool accumulates = false;         ///< over a constant global batch
    double global_batch = 0;
    double bucket_mb = 0;
    Json accumulation_by_nodes{}, servers{};
    std::vector<std::string> remarks{};  ///< defaults taken, for `why`
};

namespace detail {

/// A number, or the first number of a text ("128, accumulated 64 times", "8k"); 0: none.
[[nodiscard]] inline double first_number(const Json& object, std::string_view name) {
    const auto at = object.find(name);
    if (at == object.end()) return 0;
    if (at->is_number()) {
        if (!(at->get<double>() > 0))
            throw Error("field 'conditions." + std::string(name) + "': '" + at->dump() +
                        "' is no number above 0");
        return at->get<double>();
    }
    const std::string text = text_of(*at);
    double n = 0, place = 0;
    std::size_t i = 0;
    while (i < text.size() && (text[i] < '0' || text[i] > '9')) ++i;
    if (i > 4) return 0;  // "fixed global batch of 65536": not the number of this field
    for (; i < text.size(); ++i) {
        if (text[i] == ',' && i + 3 < text.size() && text[i + 1] != ' ') continue;
        if (text[i] == '.' && place == 0 && n > 0) { place = 1; continue; }
        if (text[i] < '0' || text[i] > '9') break;
        n = place > 0 ? n + (text[i] - '0') * (place /= 10) : n * 10 + (text[i] - '0');
    }
    const bool thousands = i < text.size() && (text[i] == 'k' || text[i] == 'K') &&
                           (i + 1 == text.size() || text[i + 1] == ' ');
    return thousands ? n * 1000 : n;
}
/// N of "accumulated N times", or 1.
[[nodiscard]] inline double accumulated(const std::string& text) {
    const auto at = text.find("accumulated ");
    double n = 0;
    if (at != std::string::npos)
        for (std::size_t i = at + 12; i < text.size() && '0' <= text[i] && text[i] <= '9'; ++i)
            n = n * 10 + (text[i] - '0');
    return std::max(1.0, n);
}

[[nodiscard]] inline Precision precision_of(const std::string& text) {
    if (has(text, "fp32")) return Precision::fp32;
    if (has(text, "tf32")) return Precision::tf32;
    for (const char* word : {"16", "amp", "mixed", "half", "fp8"})
        if (has(text, word)) return Precision::mixed;
    return Precision::fp32;
}

/// AMP keeps master gradients of 4 bytes; a network cast to fp16, and MXNet, send 2.
/// Source: the cases that state both (DeepLearningExamples, MLPerf, DLPerf).
[[nodiscard]] inline int wire_bytes_of(const Json& c, const std::string& precision,
                                       const std::string& framework) {
    const std::string wire = lower(text_at(c, "gradient_dtype_on_wire"));
    if (has(wire, "16") || has(wire, "half")) return 2;
    if (has(wire, "32")) return 4;
    if (has(wire, "8")) return 1;
    for (const char* cast : {"fp16", "bf16", "float16", "bfloat16", "half", "pure fp16"})
        if (precision.starts_with(cast)) return 2;
    return precision_of(precision) == Precision::mixed && has(framework, "mxnet") ? 2 : 4;
}

/// The NICs' rate as stated, or as their names, the transport's or the machine's tell it.
[[nodiscard]] inline double nic_of(const Json& c) {
    const auto stated = c.find("nic_gbps_per_node");
    if (stated != c.end() && stated->is_number()) return first_number(c, "nic_gbps_per_node");
    const std::string text = text_at(c, "nic_gbps_per_node");
    if (const double gbps = nic_gbps(text); gbps > 0) return gbps;
    std::string_view rest = text;
    const double count = times(rest);  // "8 x 200", or "100"
    if (const double each = first_number(Json{{"n", std::string(rest)}}, "n"); each > 0)
        return count * each;
    for (const char* name : {"nic", "transport"})
        if (const double gbps = nic_gbps(text_at(c, name)); gbps > 0) return gbps;
    for (const char* name : {"instances", "cluster", "gpu"})
        if (const double gbps = machine_gbps(text_at(c, name)); gbps > 0) return gbps;
    return 0;
}

}  // namespace detail

/// Errors: gx::Error naming the field, and for a GPU the nearest names.
[[nodiscard]] inline Conditions read_conditions(const Json& c) {
    using detail::first_number;
    const auto low = [&](std::string_view name) { return lower(detail::text_at(c, name)); };
    Conditions k;
    const std::string gpu = detail::text_at(c, "gpu");
    if (gpu.empty())
        throw Error("field 'conditions.gpu' is missing: name one, as K80, P100, V100, A100, H100");
    try {
        k.gpu = any_gpu(gpu, k.remarks);
    } catch (const Error& e) {
        throw Error("field 'conditions.gpu': " + std::string(e.what()));
    }
    k.gpus_per_node = static_cast<int>(first_number(c, "gpus_per_node"));
    k.nic_gbps_per_node = detail::nic_of(c);
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
    k.precision = detail::precision_of(precision);
    k.wire_bytes = detail::wire_bytes_of(c, precision, k.framework);
    k.gradient_mb_fp32 = first_number(c, "gradient_mb_fp32");
    if (k.gradient_mb_fp32 == 0) k.gradient_mb_fp32 = 4 * first_number(c, "params_millions");
    k.batch_per_gpu = first_number(c, "batch_per_gpu");
    if (k.batch_per_gpu == 0) k.batch_per_gpu = first_number(c, "batch");
    k.micro_batch = first_number(c, "micro_batch_per_gpu");
    k.accumulation = detail::accumulated(low("batch_per_gpu"));
    k.accumulates = low("grad_accumulation") == "true";
    k.global_batch = first_number(c, "global_batch");
    k.bucket_mb = first_number(c, "bucket_mb");
    if (c.contains("accumulation_steps_by_node_count"))
        k.accumulation_by_nodes = c.at("accumulation_steps_by_node_count");
    if (c.contains("parameter_servers")) k.servers = c.at("parameter_servers");
    return k;
}

}  // namespace gx::sim::predict
