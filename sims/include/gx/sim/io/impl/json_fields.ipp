// Units and ranges of machine files, and what FieldReader and FieldWriter do with them.
#pragma once

#include <algorithm>  // find
#include <array>      // the table of units
#include <cmath>      // round
#include <cstdint>    // int64_t

#include <fmt/core.h>  // ranges

#include <gx/core/contract.hpp>       // GX_EXPECT
#include <gx/io/nearest.hpp>          // unknown_name
#include <gx/sim/io/json_fields.hpp>  // FieldReader

namespace gx::sim {

namespace detail::json_fields {

/// Ranges are generous around what is sold, and narrow enough that sums of times fit 292 years.
inline constexpr std::array<FieldUnit, 13> units{{
    {"gbps", "Gb/s", 1e9 / 8, 1e-3, 1e6, true},
    {"memory_gb_per_s", "GB/s", 1e9, 1, 1e5, true},
    {"gb_per_s", "GB/s", 1e9, 1e-3, 1e5, true},
    {"gb", "GB", 1e9, 1e-3, 1e6, true},
    {"tflops", "TFLOPS", 1e12, 0.1, 1e6, true},
    {"us", "us", 1e-6, 0, 1e6, false},
    {"usd_per_hour", "USD per hour", 1, 0, 1e6, false},
    {"usd", "USD", 1, 0, 1e9, false},
    {"share", "", 1, 0.01, 1, false},
    {"goodput", "", 1, 0.01, 1, false},
    {"winograd_gain", "", 1, 1, 4, false},
    {"oversubscription", "", 1, 0.01, 1000, false},
    {"peer_penalty", "", 1, 1, 100, false},
}};

[[nodiscard]] inline std::string range_of(const FieldUnit& u) {
    return fmt::format("expected {}{} to {}{}{}", u.zero ? "0 or " : "", u.least, u.most,
                       u.symbol.empty() ? "" : " ", u.symbol);
}
/// What a file holds, for a sentence about it: a number as it is written.
[[nodiscard]] inline std::string written(const JsonValue& v) {
    switch (v.kind) {
        case JsonValue::Kind::string: return "a string";
        case JsonValue::Kind::array: return "an array";
        case JsonValue::Kind::object: return "an object";
        default: return v.text.size() <= 40 ? v.text : v.text.substr(0, 40) + "...";
    }
}

}  // namespace detail::json_fields

GX_DECL const FieldUnit& unit_of(std::string_view field) {
    const FieldUnit* found = nullptr;
    for (const FieldUnit& u : detail::json_fields::units)
        if (found == nullptr && field.ends_with(u.ending)) found = &u;
    GX_EXPECT(found != nullptr, "a field of a number has a name that ends in its unit");
    return *found;
}

GX_DECL FieldReader::FieldReader(const JsonValue& object, std::string file, std::string path)
    : object_(object), file_(std::move(file)), path_(std::move(path)) {
    if (object.kind != JsonValue::Kind::object) wrong("", "is not an object");
    for (const JsonValue& item : object.items)
        if (object.find(item.name) != &item)
            throw Error(fmt::format("{}: line {}: field '{}' is given twice in one object", file_,
                                    item.line, full(item.name)));
}
GX_DECL void FieldReader::field(std::string_view name, Label& x) {
    const JsonValue* v = find(name);
    if (v == nullptr) return;
    if (v->kind != JsonValue::Kind::string || v->text.size() > 63)
        wrong(name, "is not a string of at most 63 bytes");
    for (const char c : v->text)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
            wrong(name, "holds a control character: write text that can be printed");
    x = Label(std::string_view(v->text));
}
GX_DECL void FieldReader::field(std::string_view name, bool& x) {
    const JsonValue* v = find(name);
    if (v == nullptr) return;
    if (v->kind != JsonValue::Kind::boolean) wrong(name, "is not true or false");
    x = v->boolean();
}
GX_DECL void FieldReader::field(std::string_view name, int& x, int least, int most) {
    if (const JsonValue* v = find(name)) x = whole(*v, name, least, most);
}
GX_DECL void FieldReader::field(std::string_view name, double& x) {
    const JsonValue* v = find(name);
    if (v == nullptr) return;
    const FieldUnit& u = unit_of(name);
    double n = -1;
    try {
        n = v->number();
    } catch (const JsonError&) {  // another kind, or past what a double holds: out of range
    }
    if (!(n >= u.least && n <= u.most) && !(u.zero && n == 0))
        wrong(name,
              "is " + detail::json_fields::written(*v) + ": " + detail::json_fields::range_of(u));
    x = (n + 0.0) * u.factor;  // 0, not -0
}
GX_DECL void FieldReader::field(std::string_view name, Bytes& x) {
    auto count = static_cast<double>(x.count);
    field(name, count);
    x.count = static_cast<std::int64_t>(std::round(count));
}
GX_DECL void FieldReader::field(std::string_view name, Nanoseconds& x) {
    double s = seconds(x);
    field(name, s);
    x = Nanoseconds(static_cast<std::int64_t>(s * 1e9 + 0.5));  // at most 1 s, by its unit
}
GX_DECL const JsonValue* FieldReader::array(std::string_view name, int most) {
    const JsonValue* v = find(name);
    if (v == nullptr) return nullptr;
    if (v->kind != JsonValue::Kind::array || v->items.size() > static_cast<std::size_t>(most))
        wrong(name, "is not an array of at most " + std::to_string(most));
    return v;
}
GX_DECL const JsonValue* FieldReader::find(std::string_view name) {
    known_.push_back(name);
    return object_.find(name);
}
GX_DECL const JsonValue& FieldReader::at(std::string_view name) {
    if (const JsonValue* v = find(name)) return *v;
    wrong(name, "is missing");
}
GX_DECL int FieldReader::whole(const JsonValue& item, std::string_view name, int least,
                               int most) const {
    try {
        const int x = item.integer<int>();
        if (x >= least && x <= most) return x;
    } catch (const JsonError&) {  // reported below
    }
    wrong(name, fmt::format("is {}: expected a whole number from {} to {}",
                            detail::json_fields::written(item), least, most));
}
GX_DECL void FieldReader::finish() const {
    for (const JsonValue& item : object_.items) {
        if (std::find(known_.begin(), known_.end(), item.name) != known_.end()) continue;
        for (const std::string_view k : known_)
            if (k.starts_with(item.name + "_"))
                wrong(item.name, "has no unit: write '" + std::string(k) + "'");
        throw Error(fmt::format(
            "{}: line {}: {}{}", file_, item.line,
            path_.empty() ? "" : "in '" + path_ + "': ", unknown_name("field", item.name, known_)));
    }
}
GX_DECL std::string FieldReader::where(std::string_view name) const {
    const JsonValue* v = object_.find(name);
    const std::string field = full(name);
    return file_ + ": " + (v != nullptr ? fmt::format("line {}: ", v->line) : "") +
           (field.empty() ? "the text" : "field '" + field + "'");
}
GX_DECL void FieldReader::wrong(std::string_view name, const std::string& why) const {
    throw Error(where(name) + " " + why);
}
GX_DECL std::string FieldReader::full(std::string_view name) const {
    if (path_.empty()) return std::string(name);
    return name.empty() ? path_ : path_ + "." + std::string(name);
}

GX_DECL void FieldWriter::field(std::string_view name, double x) {
    out_.field(name, std::round(x / unit_of(name).factor * 1e9) / 1e9);
}
GX_DECL void FieldWriter::field(std::string_view name, Nanoseconds x) { field(name, seconds(x)); }

}  // namespace gx::sim
