#include <tools/predict/case_file.hpp>

#include <algorithm>  // replace

#include <gx/core/error.hpp>         // Error
#include <tools/common/text.hpp>     // lower, plain_number
#include <tools/predict/limits.hpp>  // within

namespace gx::tools::predict {

bool Case::asks() const {
    for (const Point& p : points)
        if (p.role == Point::Role::target) return true;
    return false;
}

std::string text_of(const Json& v) {
    if (v.is_string()) return v.get<std::string>();
    if (v.is_number()) return v.dump();
    if (v.is_boolean()) return v.get<bool>() ? "true" : "false";
    std::string all;
    if (v.is_array())
        for (const Json& item : v) all += (all.empty() ? "" : ", ") + text_of(item);
    return all;
}

std::string text_at(const Json& object, std::string_view name) {
    const auto at = object.find(name);
    return at == object.end() ? std::string() : text_of(*at);
}

std::string field(int index, std::string_view name) {
    return "field 'measured[" + std::to_string(index) + "]." + std::string(name) + "': ";
}

double written_number(const Json& value) {
    if (value.is_number()) return value.get<double>();
    std::string text = text_of(value);
    while (text.ends_with(' ')) text.pop_back();
    for (const char* about : {" ", "~", "\xe2\x89\x88"})
        while (text.starts_with(about)) text.erase(0, std::string_view(about).size());
    if (text.find(',') == text.npos)  // "2 800"
        std::replace(text.begin(), text.end(), ' ', ',');
    return plain_number(text).value_or(0);
}

namespace {

/// A number within limits, or nothing where the field is absent.
std::optional<double> number(const Json& row, int index, std::string_view name,
                             const Limits& limits) {
    const auto at = row.find(name);
    if (at == row.end() || at->is_null()) return std::nullopt;
    if (!at->is_number() && !at->is_string())
        throw Error(field(index, name) + "expected a number, found " + at->dump());
    return within(limits, written_number(*at), field(index, name), text_of(*at));
}
int count(const Json& row, int index, std::string_view name) {
    return static_cast<int>(number(row, index, name, gpus_limits).value_or(0));
}
/// A published figure of a target, if it is a number that one may have; else `refused` says why,
/// for the score alone: a prediction does not see it.
std::optional<double> published(const Json& row, Point& p, std::string_view name) {
    const auto at = row.find(name);
    if (at == row.end() || !at->is_number()) return std::nullopt;
    try {
        return within(value_limits, at->get<double>(), field(p.index, name), at->dump());
    } catch (const Error& e) {
        p.refused = e.what();
        return std::nullopt;
    }
}

Point::Role role_of(const std::string& text, int index) {
    if (text.empty()) return Point::Role::other;
    if (text == "base") return Point::Role::base;
    if (text == "given") return Point::Role::given;
    if (text == "target") return Point::Role::target;
    throw Error(field(index, "role") + "'" + text + "' is none of base, given, target");
}

Point point_of(const Json& row, int index) {
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
        p.published = published(row, p, "value");
        p.published_efficiency_pct = published(row, p, "efficiency_vs_base_pct");
    } else {
        p.given = number(row, index, "value", value_limits);
        if (!p.given)
            throw Error(field(index, "value") + "a point of role '" + text_at(row, "role") +
                        "' holds a value");
    }
    for (const char* name : {"batch_per_gpu", "batch"})
        if (p.batch_per_gpu == 0)
            p.batch_per_gpu = number(row, index, name, batch_limits).value_or(0);
    if (p.batch_per_gpu == 0 && p.gpus > 0)
        p.batch_per_gpu =
            number(row, index, "global_batch", global_batch_limits).value_or(0) / p.gpus;
    return p;
}

/// "MLPerf Training v0.7 result logs" of "MLPerf Training v0.7 result logs @0a8a85a (own parse)".
std::string source_of(const Json& value) {
    const auto at = value.find("source");
    if (at == value.end()) return {};
    const Json& first = at->is_array() && !at->empty() ? at->front() : *at;
    const std::string name = first.is_object() ? text_at(first, "name") : text_of(first);
    return name.substr(0, name.find(" @"));
}

Case case_of(const Json& value, int place) {
    Case c{.id = "case " + std::to_string(place)};
    try {
        if (!value.is_object()) throw Error("a case is an object with 'id' and 'measured'");
        if (const std::string id = text_at(value, "id"); !id.empty()) c.id = id;
        else throw Error("field 'id' is missing: give each case a name");
        c.group = text_at(value, "group");
        c.split = lower(text_at(value, "split"));
        std::replace(c.split.begin(), c.split.end(), '-', '_');
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

}  // namespace

std::vector<Case> read_cases(std::string_view text, const std::string& file) {
    const Json all = parse_json(text, file);
    if (!all.is_array()) throw Error(file + ": expected an array of cases");
    std::vector<Case> cases;
    for (const Json& c : all) {
        cases.push_back(case_of(c, static_cast<int>(cases.size())));
        cases.back().file = file;
    }
    return cases;
}

}  // namespace gx::tools::predict
