// Files of measured GPUs: the bodies.
#pragma once

#include <cstddef>  // size_t

#include <fmt/core.h>  // sentences

#include <gx/core/error.hpp>              // Error
#include <gx/io/json_value.hpp>           // read_json
#include <gx/sim/catalog/find_gpu.hpp>    // find_gpu
#include <gx/sim/catalog/find_model.hpp>  // find_model
#include <gx/sim/io/json_fields.hpp>      // FieldReader
#include <gx/sim/io/measured_gpu.hpp>     // MeasuredGpu

namespace gx::sim {

namespace detail::measured_gpu {

inline constexpr int count_max = 1'000'000, cases_max = 1'000;
inline constexpr double amount_max = 1e9;  // milliseconds, gigabytes, images per second

/// Puts the place of a field before the sentence of an error.
template <class Call>
auto placed(const FieldReader& f, std::string_view field, Call call) {
    try {
        return call();
    } catch (const Error& e) {
        throw Error(f.where(field) + ": " + e.what());
    }
}
[[nodiscard]] inline bool is_null(const JsonValue* v) {
    return v == nullptr || v->kind == JsonValue::Kind::null;
}
[[nodiscard]] inline const std::string& text_of(FieldReader& f, std::string_view field) {
    const JsonValue& value = f.at(field);
    if (value.kind != JsonValue::Kind::string) f.wrong(field, "is not a string");
    return value.text;
}
/// A number from 0, or above it.
[[nodiscard]] inline double amount(FieldReader& f, std::string_view field, bool zero) {
    const JsonValue& value = f.at(field);
    const double x = value.kind == JsonValue::Kind::number
                         ? placed(f, field, [&] { return value.number(); })
                         : -1;
    if (!(zero ? x >= 0 : x > 0) || x > amount_max)
        f.wrong(field, fmt::format("is {}: expected a number {} 0 and at most {:.0f}",
                                   value.text.empty() ? "no number" : value.text.substr(0, 40),
                                   zero ? "of at least" : "above", amount_max));
    return x;
}
[[nodiscard]] inline int count(FieldReader& f, std::string_view field) {
    return f.whole(f.at(field), field, 1, count_max);
}

/// What was trained: "Trainer<ResNet50, MultiRing<4, fp16>, Warmup<Poly<2>>, Compute<fp16>>".
struct Composition {
    std::string text{}, network{};
    Precision precision = Precision::fp32;
    int batch = 0;
};
[[nodiscard]] inline Composition composition_of(FieldReader& f) {
    Composition c{.text = text_of(f, "composition"), .batch = count(f, "batch")};
    constexpr std::string_view begin = "Trainer<";
    const std::size_t comma = c.text.find(',');
    if (!c.text.starts_with(begin) || comma == std::string::npos)
        f.wrong("composition", "is no composition: expected 'Trainer<ResNet50, ...>'");
    const std::string network = c.text.substr(begin.size(), comma - begin.size());
    c.network = placed(f, "composition", [&] { return gx::sim::find_model(network).name; });
    const auto has = [&](std::string_view word) { return c.text.find(word) != std::string::npos; };
    if (has("Compute<fp16>") || has("Compute<bf16>")) c.precision = Precision::mixed;
    if (has("Compute<tf32>")) c.precision = Precision::tf32;
    return c;
}

/// The network and batch that are simulated. `f` holds `composition`, if `known`.
inline void choose_step(FieldReader& f, const Composition& c, const ExpectedStep& expected,
                        MeasuredGpu& m) {
    if (!expected.network.empty()) m.network = gx::sim::find_model(expected.network).name;
    if (expected.batch > 0) m.batch = expected.batch;
    if (c.text.empty()) return;
    if (!expected.network.empty() && m.network != c.network)
        f.wrong("composition", fmt::format("trains {}, and {} was expected: name that network, or "
                                           "a file of this one",
                                           c.network, m.network));
    if (expected.batch > 0 && expected.batch != c.batch)
        f.wrong("batch", fmt::format("is {}, and {} was expected: name that batch, or a file of "
                                     "this one",
                                     c.batch, expected.batch));
    m.network = c.network;
    m.precision = c.precision;
    m.batch = c.batch;
}

/// Calls `use(reader, composition)` for each training on one GPU.
template <class F>
void each_training(FieldReader& file, F use) {
    const JsonValue* training = file.find("training");
    if (is_null(training)) return;
    FieldReader all(*training, file.file(), "training");
    all.each("cases", cases_max, [&](const JsonValue& item, const std::string& path, int) {
        FieldReader f(item, file.file(), path);
        if (count(f, "gpus") == 1) use(f, composition_of(f));
    });
}

[[nodiscard]] inline std::vector<MeasuredGpu::Kind> read_kinds(FieldReader& profile) {
    std::vector<MeasuredGpu::Kind> kinds;
    if (is_null(profile.find("kinds")))
        profile.wrong("kinds", "is missing: sum the kernels anew with kernel_times.py");
    profile.each("kinds", cases_max, [&](const JsonValue& item, const std::string& path, int) {
        FieldReader f(item, profile.file(), path);
        kinds.push_back({.name = text_of(f, "kind"),
                         .kernels = count(f, "count"),
                         .milliseconds = amount(f, "milliseconds", false),
                         .dram_gigabytes = amount(f, "dram_gigabytes", true)});
    });
    return kinds;
}

}  // namespace detail::measured_gpu

GX_DECL double MeasuredGpu::milliseconds() const {
    double sum = 0;
    for (const Kind& k : kinds) sum += k.milliseconds;
    return sum;
}

GX_DECL MeasuredKernels MeasuredGpu::sums() const {
    MeasuredKernels sums;
    for (const Kind& k : kinds) {
        if (k.name.starts_with("products")) sums.products += k.milliseconds * 1e-3;
        for (std::size_t i = 0; i < kernel_kinds; ++i)
            if (const auto kind = static_cast<KernelKind>(i);
                is_memory_bound(kind) && k.name == to_string(kind))
                sums.memory_bound += k.milliseconds * 1e-3;
    }
    return sums;
}

GX_DECL MeasuredGpu read_measured_gpu(std::string_view text, const std::string& file,
                                      const ExpectedStep& expected) {
    namespace d = detail::measured_gpu;
    const JsonValue value = [&] {
        try {
            return read_json(text);
        } catch (const JsonError& e) {
            throw Error(file + ": " + e.what());
        }
    }();
    FieldReader f(value, file, "");
    MeasuredGpu m;
    m.name = d::text_of(f, "gpu");
    m.data_sheet = d::placed(f, "gpu", [&] { return find_gpu(m.name); });
    if (d::is_null(f.find("profile")))
        f.wrong("profile",
                "is missing or null, as no kernels were recorded: run './gx gpu' where "
                "ncu may read the GPU's counters");
    FieldReader profile(f.at("profile"), file, "profile");
    d::Composition trained;
    if (!d::is_null(profile.find("composition"))) {
        trained = d::composition_of(profile);
        d::choose_step(profile, trained, expected, m);
    } else {
        d::choose_step(profile, {}, expected, m);
    }
    d::each_training(f, [&](FieldReader& one, const d::Composition& c) {
        if (trained.text.empty()) d::choose_step(one, trained = c, expected, m);
        if (c.text == trained.text && c.batch == m.batch)
            m.images_per_second = d::amount(one, "images_per_second", false);
    });
    m.kinds = d::read_kinds(profile);
    return m;
}

GX_DECL GpuSpec measured_gpu(const MeasuredGpu& m, const std::string& file) {
    try {
        return with_measured(m.data_sheet, m.sums(), find_model(m.network).make({}), m.precision,
                             m.batch);
    } catch (const Error& e) {
        throw Error(file + ": field 'profile.kinds': " + e.what());
    }
}

}  // namespace gx::sim
