// read_cases: published results as JSON: conditions, points that are given, points to predict.
#pragma once

#include <cmath>        // isfinite
#include <cstdlib>      // strtod
#include <limits>       // int
#include <optional>     // values that may be absent
#include <string>       // text
#include <string_view>  // the file
#include <vector>       // cases

#include <gx/core/error.hpp>           // Error
#include <gx/sim/json_fields.hpp>      // Json, parse_json
#include <gx/sim/predict/units.hpp>    // lower

namespace gx::sim::predict {

/// One row of `measured`. A target's published value is apart from what a prediction may see.
struct Point {
    enum class Role : unsigned char { base, given, target, other };
    Role role = Role::other;
    int index = 0;                      ///< place in `measured`
    int gpus = 0, nodes = 0;            ///< 0: not said
    double batch_per_gpu = 0;           ///< 0: not said
    std::string unit{}, phase{}, variant{};
    std::optional<double> given{};      ///< of a base or given point
    std::optional<double> published{};  ///< of a target, for the score alone
    std::optional<double> published_efficiency_pct{};
};

/// A case, or the sentence that says what is wrong with it.
struct Case {
    std::string id{}, group{}, split{};
    std::string source{};  ///< the publication, up to its version: what is held out together
    bool scored = true;
    Json conditions = Json::object();
    std::vector<Point> points{};
    std::string error{};
};

namespace detail {

/// Text of whatever a field holds: a list is joined by ", "; an object says nothing.
[[nodiscard]] inline std::string text_of(const Json& v) {
    if (v.is_string()) return v.get<std::string>();
    if (v.is_number_integer()) return std::to_string(v.get<std::int64_t>());
    if (v.is_number()) return v.dump();
    if (v.is_boolean()) return v.get<bool>() ? "true" : "false";
    std::string all;
    if (v.is_array())
        for (const Json& item : v) all += (all.empty() ? "" : ", ") + text_of(item);
    return all;
}
[[nodiscard]] inline std::string text_at(const Json& object, std::string_view name) {
    const auto at = object.find(name);
    return at == object.end() ? std::string() : text_of(*at);
}

inline std::string field(int index, std::string_view name) {
    return "field 'measured[" + std::to_string(index) + "]." + std::string(name) + "': ";
}

/// A number, also one that is written as text: "2,800", "~16"; not a number: 0.
[[nodiscard]] inline double written_number(const Json& value) {
    if (value.is_number()) return value.get<double>();
    std::string digits;
    for (const char c : text_of(value))
        if (c != ',' && c != '~' && c != ' ') digits += c;
    if (digits.empty() || digits.find_first_not_of("0123456789.") != digits.npos) return 0;
    char* end = nullptr;
    const double n = std::strtod(digits.c_str(), &end);
    return *end == '\0' ? n : 0;
}
/// A number above 0, or nothing where the field is absent.
[[nodiscard]] inline std::optional<double> number(const Json& row, int index,
                                                  std::string_view name) {
    const auto at = row.find(name);
    if (at == row.end() || at->is_null()) return std::nullopt;
    const double n = written_number(*at);
    if (!std::isfinite(n) || !(n > 0))
        throw Error(field(index, name) + "'" + at->dump() + "' is no number above 0");
    return n;
}
[[nodiscard]] inline int count(const Json& row, int index, std::string_view name) {
    const double n = number(row, index, name).value_or(0);
    if (n > 1e6 || n != static_cast<int>(n))
        throw Error(field(index, name) + "expected a whole number up to a million");
    return static_cast<int>(n);
}

[[nodiscard]] inline Point::Role role_of(const std::string& text, int index) {
    if (text.empty()) return Point::Role::other;
    if (text == "base") return Point::Role::base;
    if (text == "given") return Point::Role::given;
    if (text == "target") return Point::Role::target;
    throw Error(field(index, "role") + "'" + text + "' is none of base, given, target");
}

[[nodiscard]] inline Point point_of(const Json& row, int index) {
    if (!row.is_object())
        throw Error("field 'measured[" + std::to_string(index) + "]' is not an object");
    Point p{.role = role_of(lower(text_at(row, "role")), index), .index = index};
    p.unit = text_at(row, "unit");
    p.phase = text_at(row, "phase");
    p.variant = text_at(row, "variant");
    if (p.role == Point::Role::other) return p;  // other rows may hold lists and words
    p.gpus = count(row, index, "gpus");
    p.nodes = count(row, index, "nodes");
    if (p.role == Point::Role::target) {  // a value that is there is for the score, if it is one
        const auto value = row.find("value"), pct = row.find("efficiency_vs_base_pct");
        if (value != row.end() && value->is_number()) p.published = value->get<double>();
        if (pct != row.end() && pct->is_number())
            p.published_efficiency_pct = pct->get<double>();
    } else {
        p.given = number(row, index, "value");
        if (!p.given)
            throw Error(field(index, "value") + "a point of role '" + text_at(row, "role") +
                        "' holds a value");
    }
    for (const char* name : {"batch_per_gpu", "batch"})
        if (p.batch_per_gpu == 0) p.batch_per_gpu = number(row, index, name).value_or(0);
    if (p.batch_per_gpu == 0 && p.gpus > 0)
        p.batch_per_gpu = number(row, index, "global_batch").value_or(0) / p.gpus;
    return p;
}

/// "MLPerf Training v0.7 result logs" of "MLPerf Training v0.7 result logs @0a8a85a (own parse)".
[[nodiscard]] inline std::string source_of(const Json& value) {
    const auto at = value.find("source");
    if (at == value.end()) return {};
    const Json& first = at->is_array() && !at->empty() ? at->front() : *at;
    const std::string name = first.is_object() ? text_at(first, "name") : text_of(first);
    return name.substr(0, name.find(" @"));
}

[[nodiscard]] inline Case case_of(const Json& value, int place) {
    Case c{.id = "case " + std::to_string(place)};
    try {
        if (!value.is_object()) throw Error("a case is an object with 'id' and 'measured'");
        if (const std::string id = text_at(value, "id"); !id.empty()) c.id = id;
        else throw Error("field 'id' is missing: give each case a name");
        c.group = text_at(value, "group");
        c.split = text_at(value, "split");
        c.source = source_of(value);
        c.scored = text_at(value, "scored") != "false";
        const auto conditions = value.find("conditions"), measured = value.find("measured");
        if (conditions == value.end() || !conditions->is_object())
            throw Error("field 'conditions': expected an object with gpu, model, framework ...");
        c.conditions = *conditions;
        if (measured == value.end() || !measured->is_array())
            throw Error("field 'measured': expected an array of points");
        int index = 0;
        for (const Json& row : *measured) c.points.push_back(point_of(row, index++));
    } catch (const Error& e) {
        c.error = e.what();
    }
    return c;
}

}  // namespace detail

/// Every case of a file, in order; a case that is wrong holds its error, the others are whole.
/// Errors: gx::Error when the text is no JSON (file, line and column) or not an array.
[[nodiscard]] inline std::vector<Case> read_cases(std::string_view text, const std::string& file) {
    const Json all = parse_json(text, file);
    if (!all.is_array()) throw Error(file + ": expected an array of cases");
    std::vector<Case> cases;
    for (const Json& c : all) cases.push_back(detail::case_of(c, static_cast<int>(cases.size())));
    return cases;
}

}  // namespace gx::sim::predict
