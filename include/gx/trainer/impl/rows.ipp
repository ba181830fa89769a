// The keys of a run record in JSON, and its rows in both directions.
#pragma once

#include <limits>       // NaN
#include <type_traits>  // is_aggregate_v, is_same_v
#include <utility>      // move
#include <vector>       // rows

#include <gx/core/cold.hpp>       // GX_COLD
#include <gx/reflect/fields.hpp>  // for_each_field
#include <gx/io/json_text.hpp>    // JsonWriter
#include <gx/io/json_value.hpp>   // read_json
#include <gx/trainer/rows.hpp>    // rows_text

namespace gx {

namespace detail::rows {

template <class Row>
GX_COLD void write(JsonWriter& w, const Row& row) {
    w.open('{');
    for_each_field(row, [&](std::string_view name, const auto& x) { w.field(key(name), x); });
    w.close('}');
}
template <class Row>
GX_COLD void write(JsonWriter& w, std::string_view name, const std::vector<Row>& rows) {
    w.name(name).open('[');
    for (const Row& row : rows) write(w, row);
    w.close(']');
}
/// Writes the fields; the caller opens and closes the brackets.
GX_COLD inline void write_rows(JsonWriter& w, const RunRecord& r) {
    w.name("breakdown");
    write(w, r.breakdown);
    w.field("skipped_steps", r.skipped_steps);
    write(w, "epochs", r.epochs);
    write(w, "steps", r.steps);
}

inline void read(const JsonValue& v, bool& x) { x = v.boolean(); }
inline void read(const JsonValue& v, double& x) {  // null: NaN, of a time over different clocks
    x = v.kind == JsonValue::Kind::null ? std::numeric_limits<double>::quiet_NaN() : v.number();
}
template <class I>
void read(const JsonValue& v, I& x) {
    static_assert(std::is_integral_v<I>, "gx: a row holds numbers and flags");
    x = v.integer<I>();
}
/// A member that rows of older files lack; it is NaN then.
inline constexpr std::string_view added_later = "test_top5_accuracy_pct";
template <class Row>
    requires std::is_aggregate_v<Row>
GX_COLD void read(const JsonValue& object, Row& row) {
    for_each_field(row, [&](std::string_view name, auto& x) {
        if constexpr (std::is_same_v<decltype(x), double&>)
            if (name == added_later && object.find(key(name)) == nullptr) {
                x = std::numeric_limits<double>::quiet_NaN();
                return;
            }
        read(object.at(key(name)), x);
    });
    if constexpr (std::is_same_v<Row, EpochRow>)
        if (row.test_loss == 0 && row.test_accuracy_pct == 0)  // an older file's, of no test
            row.test_loss = row.test_accuracy_pct = row.test_top5_accuracy_pct = Row::untested;
}
template <class Row>
GX_COLD void read(const JsonValue& array, std::vector<Row>& rows) {
    for (const JsonValue& row : array.array()) read(row, rows.emplace_back());
}

}  // namespace detail::rows

GX_DECL std::string rows_text(const RunRecord& r) {
    JsonWriter w;
    w.open('{');
    detail::rows::write_rows(w, r);
    return w.close('}').text();
}

GX_DECL void read_rows(std::string_view text, RunRecord& r) {
    const JsonValue all = read_json(text);
    Breakdown breakdown;
    std::vector<EpochRow> epochs;
    std::vector<StepRow> steps;
    detail::rows::read(all.at("breakdown"), breakdown);
    const auto skipped_steps = all.at("skipped_steps").integer();
    detail::rows::read(all.at("epochs"), epochs);
    detail::rows::read(all.at("steps"), steps);
    r.breakdown = breakdown;
    r.skipped_steps = skipped_steps;
    r.epochs = std::move(epochs);
    r.steps = std::move(steps);
}

}  // namespace gx
