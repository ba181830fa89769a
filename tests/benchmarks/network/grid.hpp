// Grid: the fabrics of network namespaces, the reducers and the sizes that are measured on them.
#pragma once

#include <algorithm>    // find
#include <charconv>     // from_chars
#include <limits>       // of sizes
#include <string>       // names, to_string
#include <string_view>  // texts
#include <vector>       // lists

#include <gx/core/error.hpp>          // Error
#include <gx/core/label.hpp>          // Label
#include <gx/io/json_value.hpp>       // read_json
#include <gx/io/nearest.hpp>          // unknown_name
#include <gx/sim/io/json_fields.hpp>  // FieldReader

namespace gx::bench {

/// As hosts.sh has them; 0 and "": without.
struct Fabric {
    Label name{};
    int hosts = 0, rate = 0, leaf = 0, trunk = 0, flow = 0;  ///< rates in Mb/s
    Label slow{};
};

struct Grid {
    std::vector<Fabric> fabrics{};
    std::vector<std::string> reducers{};
    std::vector<int> bytes{};
    int eager_bytes = 0, repeats = 0;
    double least_wire_ms = 0;
};

/// Whether it is HOST:MBIT as hosts.sh takes it: one of so many hosts, and a rate of its links.
[[nodiscard]] inline bool is_slow_host(std::string_view text, int hosts) {
    const char* const end = text.data() + text.size();
    int host = -1, rate = 0;
    const char* const colon = std::from_chars(text.data(), end, host).ptr;
    std::from_chars(colon == end ? end : colon + 1, end, rate);
    return text == std::to_string(host) + ":" + std::to_string(rate) && host >= 0 && host < hosts &&
           rate >= 1 && rate <= 10'000;
}

/// Reads a grid whose reducers are among those `known`.
/// Errors: gx::Error with file, line and field, for text that is not JSON, and for a field that is
///         missing, empty, unknown, of another kind or out of range, and for a name given twice.
[[nodiscard]] inline Grid read_grid(std::string_view text, const std::string& file,
                                    const std::vector<std::string>& known) {
    constexpr int most = std::numeric_limits<int>::max();
    const JsonValue json = [&] {
        try {
            return read_json(text);
        } catch (const JsonError& e) {
            throw Error(file + ": " + e.what());
        }
    }();
    sim::FieldReader f(json, file, "");
    const auto number = [](sim::FieldReader& from, const char* name, int least, int largest) {
        return from.whole(from.at(name), name, least, largest);
    };
    const auto each = [&](const char* name, auto&& take) {
        (void)f.at(name);
        if (f.each(name, 1000, take) == 0) f.wrong(name, "is empty: give at least one");
    };
    Grid grid{.eager_bytes = number(f, "eager_bytes", 0, most),
              .repeats = number(f, "repeats", 1, 1000)};
    const JsonValue& least = f.at("least_wire_ms");
    if (least.kind != JsonValue::Kind::number || !(least.number() >= 0 && least.number() <= 1e9))
        f.wrong("least_wire_ms", "is not a number from 0 to 1e9");
    grid.least_wire_ms = least.number();
    each("fabrics", [&](const JsonValue& item, const std::string& path, int) {
        sim::FieldReader of(item, file, path);
        Fabric fabric{.hosts = number(of, "hosts", 2, 16), .rate = number(of, "rate", 1, 10'000)};
        (void)of.at("name");
        of.field("name", fabric.name);
        const std::string name(fabric.name.view());
        if (name.empty()) of.wrong("name", "is empty: results are printed by it");
        if (std::ranges::find(grid.fabrics, fabric.name, &Fabric::name) != grid.fabrics.end())
            of.wrong("name", "'" + name + "' is also the name of another fabric: change one");
        of.field("leaf", fabric.leaf, 1, fabric.hosts - 1);
        of.field("trunk", fabric.trunk, 1, 100'000);
        of.field("flow", fabric.flow, 1, 10'000);
        of.field("slow", fabric.slow);
        if (of.find("slow") != nullptr && !is_slow_host(fabric.slow.view(), fabric.hosts))
            of.wrong("slow", "is not HOST:MBIT, a host from 0 to " +
                                 std::to_string(fabric.hosts - 1) + " and a rate from 1 to 10000");
        if ((fabric.leaf > 0) != (fabric.trunk > 0))
            of.wrong(fabric.leaf > 0 ? "trunk" : "leaf", "is missing: give leaf and trunk");
        of.finish();
        grid.fabrics.push_back(fabric);
    });
    each("reducers", [&](const JsonValue& item, const std::string&, int) {
        if (item.kind != JsonValue::Kind::string) f.wrong("reducers", "holds no names of reducers");
        const std::vector<std::string_view> names(known.begin(), known.end());
        if (std::ranges::find(known, item.text) == known.end())
            f.wrong("reducers", "has an " + unknown_name("reducer", item.text, names));
        grid.reducers.push_back(item.text);
    });
    each("bytes", [&](const JsonValue& item, const std::string&, int) {
        grid.bytes.push_back(f.whole(item, "bytes", 64, most));
    });
    (void)f.find("note");
    f.finish();
    return grid;
}

}  // namespace gx::bench
