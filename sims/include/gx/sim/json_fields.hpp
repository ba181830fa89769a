// FieldReader, FieldWriter: one description of a struct reads it from JSON and writes it.
#pragma once

#include <algorithm>    // find
#include <cmath>        // round
#include <cstdint>      // int64_t
#include <set>          // fields that were read
#include <string>       // paths
#include <string_view>  // names
#include <vector>       // known names

#include <nlohmann/json.hpp>  // the text

#include <gx/core/error.hpp>    // Error
#include <gx/core/label.hpp>    // Label
#include <gx/core/nearest.hpp>  // unknown_name
#include <gx/core/units.hpp>    // units

namespace gx::sim {

using Json = nlohmann::ordered_json;

/// Reads fields of one JSON object; a field that is not there keeps its value.
/// Errors: gx::Error naming file and field: another kind, out of range, unknown, without its unit.
class FieldReader {
public:
    static constexpr bool reads = true;

    FieldReader(const Json& object, std::string file, std::string path)
        : object_(object), file_(std::move(file)), path_(std::move(path)) {
        if (!object.is_object()) wrong("", "is not an object");
    }
    void number(std::string_view name, double& x, double unit = 1) {
        const Json* field = find(name);
        if (field == nullptr) return;
        if (!field->is_number()) wrong(name, "is not a number");
        const double v = field->get<double>();
        if (!(v >= 0) || v > 1e15) wrong(name, "is not a number of at least 0");
        x = v * unit;
    }
    /// Above 0, at most 1.
    void share(std::string_view name, double& x) {
        number(name, x);
        if (!(x > 0) || x > 1) wrong(name, "is not a share above 0, at most 1");
    }
    void integer(std::string_view name, int& x, int least, int most) {
        if (const Json* field = find(name)) x = whole(*field, name, least, most);
    }
    void flag(std::string_view name, bool& x) {
        const Json* field = find(name);
        if (field == nullptr) return;
        if (!field->is_boolean()) wrong(name, "is not true or false");
        x = field->get<bool>();
    }
    void text(std::string_view name, Label& x) {
        const Json* field = find(name);
        if (field == nullptr) return;
        const std::string s = field->is_string() ? field->get<std::string>() : std::string(64, ' ');
        if (s.size() > 63) wrong(name, "is not a string of at most 63 bytes");
        x = Label(std::string_view(s));
    }
    template <class Unit>
    void quantity(std::string_view name, Quantity<Unit, double>& x, double unit) {
        number(name, x.count, unit);
    }
    void bytes(std::string_view name, Bytes& x, double unit) {
        double count = static_cast<double>(x.count);
        number(name, count, unit);
        if (count > 9e18) wrong(name, "is too large");
        x.count = static_cast<std::int64_t>(std::round(count));
    }
    void time(std::string_view name, Nanoseconds& x, double unit_s) {
        double s = seconds(x);
        number(name, s, unit_s);
        if (s > 1e9) wrong(name, "is too long");
        x = nanoseconds(s);
    }
    /// f(item, "path[i]") for each item of an array of at most `most`; how many there were, or -1.
    template <class F>
    int each(std::string_view name, int most, F&& f) {
        const Json* field = find(name);
        if (field == nullptr) return -1;
        if (!field->is_array() || field->size() > static_cast<std::size_t>(most))
            wrong(name, "is not an array of at most " + std::to_string(most));
        int i = 0;
        for (const Json& item : *field) {
            f(item, full(name) + "[" + std::to_string(i) + "]", i);
            ++i;
        }
        return i;
    }
    [[nodiscard]] const Json* find(std::string_view name) {
        known_.push_back(name);
        const auto found = object_.find(name);
        return found == object_.end() ? nullptr : &*found;
    }
    [[nodiscard]] const Json& at(std::string_view name) {
        if (const Json* field = find(name)) return *field;
        wrong(name, "is missing");
    }
    int whole(const Json& item, std::string_view name, int least, int most) const {
        const bool fits = item.is_number_integer() && item.get<double>() >= least &&
                          item.get<double>() <= most;
        if (!fits)
            wrong(name, "is not a whole number from " + std::to_string(least) + " to " +
                            std::to_string(most));
        return item.get<int>();
    }
    /// After all fields: the others are unknown.
    void finish() const {
        for (const auto& [name, value] : object_.items()) {
            if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
            for (const std::string_view k : known_)
                if (k.starts_with(name + "_"))
                    wrong(name, "has no unit: write '" + std::string(k) + "'");
            throw Error(file_ + ": " + (path_.empty() ? "" : "in '" + path_ + "': ") +
                        unknown_name("field", name, known_));
        }
    }
    [[noreturn]] void wrong(std::string_view name, const std::string& why) const {
        const std::string field = full(name);
        throw Error(file_ + ": " + (field.empty() ? "the text " : "field '" + field + "' ") + why);
    }
    [[nodiscard]] std::string full(std::string_view name) const {
        if (path_.empty()) return std::string(name);
        return name.empty() ? path_ : path_ + "." + std::string(name);
    }
    [[nodiscard]] const std::string& file() const { return file_; }

private:
    const Json& object_;
    std::string file_, path_;
    std::vector<std::string_view> known_{};
};

/// Writes the same fields. Numbers in their unit, to 9 places.
class FieldWriter {
public:
    static constexpr bool reads = false;

    void number(std::string_view name, double x, double unit = 1) {
        out_[std::string(name)] = std::round(x / unit * 1e9) / 1e9;
    }
    void share(std::string_view name, double x) { number(name, x); }
    void integer(std::string_view name, int x, int, int) { out_[std::string(name)] = x; }
    void flag(std::string_view name, bool x) { out_[std::string(name)] = x; }
    void text(std::string_view name, const Label& x) { out_[std::string(name)] = x.view(); }
    template <class Unit>
    void quantity(std::string_view name, const Quantity<Unit, double>& x, double unit) {
        number(name, x.count, unit);
    }
    void bytes(std::string_view name, Bytes x, double unit) {
        number(name, static_cast<double>(x.count), unit);
    }
    void time(std::string_view name, Nanoseconds x, double unit_s) {
        number(name, seconds(x), unit_s);
    }
    Json& operator[](std::string_view name) { return out_[std::string(name)]; }
    [[nodiscard]] const Json& json() const { return out_; }

private:
    Json out_ = Json::object();
};

/// The value of a JSON text.
/// Errors: gx::Error with file, line and column of what is not JSON; with the number that a double
///         cannot hold; with the field that one object gives twice.
[[nodiscard]] inline Json parse_json(std::string_view text, const std::string& file) {
    std::vector<std::set<std::string>> open;  // the fields of each object that has not ended
    const auto once = [&](int, Json::parse_event_t event, Json& parsed) {
        if (event == Json::parse_event_t::object_start) open.emplace_back();
        if (event == Json::parse_event_t::object_end) open.pop_back();
        if (event == Json::parse_event_t::key &&
            !open.back().insert(parsed.get_ref<const std::string&>()).second)
            throw Error(file + ": field '" + parsed.get_ref<const std::string&>() +
                        "' is given twice in one object");
        return true;
    };
    try {
        return Json::parse(text, once);
    } catch (const Json::exception& e) {  // "[json.exception.parse_error.101] parse error at ..."
        std::string why = e.what();
        for (const std::string_view head : {"] ", "parse error at "})
            if (const auto at = why.find(head); at != why.npos) why.erase(0, at + head.size());
        throw Error(file + ": not JSON: " + why);
    }
}

}  // namespace gx::sim
