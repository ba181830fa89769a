// to_json: walks the members of a run record.
#pragma once

#include <cstdint>      // uint64_t
#include <string_view>  // names
#include <type_traits>  // is_arithmetic_v
#include <vector>       // losses

#include <fmt/core.h>  // hashes

#include <gx/reflect/fields.hpp>     // for_each_field
#include <gx/io/json_text.hpp>       // JsonWriter
#include <gx/trainer/impl/rows.ipp>  // key, write_rows
#include <gx/trainer/json.hpp>       // to_json

namespace gx {

namespace detail::rows {

template <class T>
void write_member(JsonWriter& w, std::string_view name, const T& x) {
    if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
        w.field(key(name), x);
    } else if constexpr (std::is_same_v<T, std::vector<std::string>> ||
                         std::is_same_v<T, std::vector<int>>) {
        w.name(name).open('[');
        for (const auto& each : x) w.value(each);
        w.close(']');
    }  // else: rows, written behind the others, and the timeline
}

}  // namespace detail::rows

GX_DECL std::string to_json(const RunRecord& r, int indent) {
    JsonWriter w(indent);
    w.open('{');
    for_each_field(r, [&](std::string_view name, const auto& x) {
        if (name == "skipped_steps") return;  // write_rows has it
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(x)>, std::uint64_t>)
            if (name.ends_with("_hash")) {
                w.field(name, fmt::format("{:016x}", x));
                return;
            }
        detail::rows::write_member(w, name, x);
        if (name != "images_per_second") return;
        w.field("test_accuracy_pct", r.test_accuracy_pct());
        w.field("test_top5_accuracy_pct", r.test_top5_accuracy_pct());
    });
    detail::rows::write(w, "phases", r.phases);
    w.name("losses").open('[');
    for (const LossRow& row : r.losses) {
        w.open('{');
        for_each_field(row, [&](std::string_view name, const auto& x) {
            detail::rows::write_member(w, name, x);
        });
        w.close('}');
    }
    w.close(']');
    detail::rows::write_rows(w, r);
    return w.close('}').text();
}

}  // namespace gx
