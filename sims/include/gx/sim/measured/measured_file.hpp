// MeasuredGpu: what reference/gpu/measure.py measured on a GPU, read from its file.
#pragma once

#include <cmath>        // isfinite
#include <optional>     // what was not measured
#include <string>       // names
#include <string_view>  // text
#include <vector>       // rows

#include <gx/core/error.hpp>       // Error
#include <gx/core/json_value.hpp>  // read_json
#include <gx/core/nearest.hpp>     // unknown_name
#include <gx/model/graph.hpp>      // OpKind
#include <gx/sim/gpu.hpp>          // Precision

namespace gx::sim::measured {

/// One operation on its own. `backward_us` is of data and parameters together.
struct OperationRow {
    OpKind kind = OpKind::input;
    std::string precision{};  ///< as written: fp32, tf32, fp16, bf16
    int batch = 1, channels = 1, height = 1, width = 1;
    int outputs = 0, window = 1, stride = 1;
    std::optional<double> forward_us{}, backward_us{};
    std::string failed{};
};

/// A training step of a network: forward, backward, update.
struct StepRow {
    std::string network{}, precision{};
    int batch = 1, tokens = 0;
    std::optional<double> eager_ms{};  ///< as a program sees it
    std::optional<double> graph_ms{};  ///< replayed without the host
    std::optional<double> memory_peak_bytes{};
    std::string failed{};
};

/// Kernels while copies run on another stream.
struct OverlapRow {
    OpKind kind = OpKind::input;
    std::optional<double> alone_us{}, beside_device_copies_us{}, beside_to_gpu_copies_us{};
};

/// A rate over the bytes that moved, read and written ones both counted on the device.
struct CopyRow {
    std::string way{};  ///< device, to_gpu, to_host, both
    double gb_per_s = 0;
};

struct MeasuredGpu {
    std::string gpu{}, driver{}, torch{}, date{};
    bool smoke = false;  ///< a test of the program on a CPU, and no measurement
    std::optional<double> issued_us{}, queued_us{}, graph_us{};  ///< a tiny kernel to the next
    std::vector<CopyRow> copies{};
    std::vector<OverlapRow> overlap{};
    std::vector<OperationRow> kernels{};
    std::vector<StepRow> steps{};
};

/// The precision that gx times a row in: fp16 and bf16 are both mixed.
/// Errors: gx::Error with the known names.
[[nodiscard]] inline Precision precision_of(std::string_view written) {
    if (written == "fp32") return Precision::fp32;
    if (written == "tf32") return Precision::tf32;
    if (written == "fp16" || written == "bf16") return Precision::mixed;
    static constexpr std::string_view known[] = {"fp32", "tf32", "fp16", "bf16"};
    throw Error(unknown_name("precision", written, known));
}

namespace detail {

[[nodiscard]] inline std::string text_or(const JsonValue& o, std::string_view field) {
    const JsonValue* found = o.find(field);
    return found && found->kind != JsonValue::Kind::null ? found->string() : std::string();
}
[[nodiscard]] inline std::optional<double> above_0(const JsonValue& o, std::string_view field) {
    const JsonValue* found = o.find(field);
    if (!found || found->kind == JsonValue::Kind::null) return {};
    const double x = found->number();
    if (x > 0 && std::isfinite(x)) return x;
    throw Error("field '" + std::string(field) + "' is not above 0");
}
[[nodiscard]] inline int count_or(const JsonValue& o, std::string_view field, int least,
                                  std::optional<int> otherwise = {}) {
    if (otherwise && !o.find(field)) return *otherwise;
    const int n = o.at(field).integer<int>();
    if (n >= least && n <= 10'000'000) return n;
    throw Error("field '" + std::string(field) + "' is " + std::to_string(n) + ", not from " +
                std::to_string(least) + " to 10000000");
}
[[nodiscard]] inline OpKind kind_of(std::string_view written) {
    std::vector<std::string_view> known;
    for (int k = 0; k <= static_cast<int>(OpKind::select); ++k) {
        known.push_back(to_string(static_cast<OpKind>(k)));
        if (known.back() == written) return static_cast<OpKind>(k);
    }
    throw Error(unknown_name("operation", written, known));
}

[[nodiscard]] inline OperationRow operation_row(const JsonValue& o) {
    OperationRow r{.kind = kind_of(o.at("kind").string()), .precision = o.at("precision").string()};
    (void)precision_of(r.precision);
    r.batch = count_or(o, "batch", 1);
    r.channels = count_or(o, "channels", 1);
    r.height = count_or(o, "height", 1, 1);
    r.width = count_or(o, "width", 1, 1);
    const bool product = r.kind == OpKind::conv2d || r.kind == OpKind::linear;
    if (product) r.outputs = count_or(o, "outputs", 1);
    r.window = count_or(o, "window", 1, 1);
    r.stride = count_or(o, "stride", 1, 1);
    r.forward_us = above_0(o, "forward_us");
    r.backward_us = above_0(o, "backward_us");
    r.failed = text_or(o, "failed");
    return r;
}
[[nodiscard]] inline StepRow step_row(const JsonValue& o) {
    StepRow r{.network = o.at("network").string(), .precision = o.at("precision").string()};
    (void)precision_of(r.precision);
    r.batch = count_or(o, "batch", 1);
    r.tokens = count_or(o, "tokens", 0, 0);
    r.eager_ms = above_0(o, "eager_ms");
    r.graph_ms = above_0(o, "graph_ms");
    r.memory_peak_bytes = above_0(o, "memory_peak_bytes");
    r.failed = text_or(o, "failed");
    return r;
}
[[nodiscard]] inline OverlapRow overlap_row(const JsonValue& o) {
    return {kind_of(o.at("kind").string()), above_0(o, "alone_us"),
            above_0(o, "beside_device_copies_us"), above_0(o, "beside_to_gpu_copies_us")};
}
[[nodiscard]] inline CopyRow copy_row(const JsonValue& o) {
    const auto rate = above_0(o, "gb_per_s");
    if (!rate) throw Error("field 'gb_per_s' is missing");
    return {o.at("way").string(), *rate};
}

/// Reads a part's rows; an error names the row.
template <class Row>
void read_rows(const JsonValue& file, std::string_view part, std::vector<Row>& rows,
               Row (*read)(const JsonValue&)) {
    const JsonValue* found = file.find(part);
    if (!found) return;
    for (const JsonValue& item : found->array()) {
        try {
            rows.push_back(read(item));
        } catch (const Error& e) {
            throw Error(std::string(part) + "[" + std::to_string(rows.size()) + "]: " + e.what());
        }
    }
}

[[nodiscard]] inline MeasuredGpu read_all(std::string_view text) {
    const JsonValue file = read_json(text);
    if (const std::string f = text_or(file, "format"); f != "gx.gpu.measured.1")
        throw Error("format is '" + f + "', not 'gx.gpu.measured.1': write the file by "
                    "reference/gpu/measure.py");
    const JsonValue& about = file.at("conditions");
    MeasuredGpu m{.gpu = about.at("gpu").string(), .driver = text_or(about, "driver"),
                  .torch = text_or(about, "torch"), .date = text_or(about, "date"),
                  .smoke = about.at("smoke").boolean()};
    if (const JsonValue* launch = file.find("launch")) {
        m.issued_us = above_0(*launch, "issued_us");
        m.queued_us = above_0(*launch, "queued_us");
        m.graph_us = above_0(*launch, "graph_us");
    }
    read_rows(file, "copies", m.copies, copy_row);
    read_rows(file, "overlap", m.overlap, overlap_row);
    read_rows(file, "kernels", m.kernels, operation_row);
    read_rows(file, "steps", m.steps, step_row);
    return m;
}

}  // namespace detail

/// The file's rows, in their order. Parts may be missing, and so may values of a row that failed.
/// Units:  end the fields' names.
/// Errors: gx::Error naming `name`, the row and the field: no JSON, another format, a field that is
///         missing or of another kind, an unknown operation or precision, a time of 0.
[[nodiscard]] inline MeasuredGpu read_measured(std::string_view text, const std::string& name) {
    try {
        return detail::read_all(text);
    } catch (const Error& e) {
        throw Error(name + ": " + e.what());
    }
}

}  // namespace gx::sim::measured
