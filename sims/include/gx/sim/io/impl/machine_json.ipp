// Machine and cluster files: names that are known, wiring, fabrics, and limits of several fields.
#pragma once

#include <array>    // ports
#include <cstddef>  // size_t

#include <fmt/core.h>  // sentences

#include <gx/reflect/enum_names.hpp>      // enum_names
#include <gx/io/nearest.hpp>              // unknown_name
#include <gx/io/utf8.hpp>                 // utf8_prefix
#include <gx/sim/catalog/cluster_of.hpp>  // find_machine, find_profile
#include <gx/sim/catalog/find_gpu.hpp>    // find_gpu
#include <gx/sim/io/json_fields.hpp>      // FieldReader, FieldWriter
#include <gx/sim/hardware/validate.hpp>   // check
#include <gx/sim/io/machine_fields.hpp>   // describe_gpu, ...
#include <gx/sim/io/machine_json.hpp>     // read_machine

namespace gx::sim {

namespace detail::machine_json {

inline constexpr int ranks_max = 1'000'000;
inline constexpr double uplink_rate_min = 1e3;  // bytes per second: 1 GB takes 12 days

/// Runs `call` and puts file, line and field before the sentence of its error.
template <class Call>
auto named(const FieldReader& f, std::string_view field, Call&& call) {
    try {
        return call();
    } catch (const Error& e) {
        throw Error(f.where(field) + ": " + e.what());
    }
}
[[nodiscard]] inline const std::string& text_of(const FieldReader& f, std::string_view field,
                                                const JsonValue& value) {
    if (value.kind != JsonValue::Kind::string) f.wrong(field, "is not a string");
    return value.text;
}
/// Reads a value of an enumeration by its name.
template <class E>
void choose(const FieldReader& f, std::string_view field, const JsonValue& value, E& x) {
    const std::string& text = text_of(f, field, value);
    for (std::size_t i = 0; i < enum_names<E>.size(); ++i)
        if (enum_names<E>[i] == text) {
            x = static_cast<E>(i);
            return;
        }
    throw Error(f.where(field) + ": " + unknown_name("value", text, enum_names<E>));
}

/// Refuses a name of spaces alone.
inline void check_name(FieldReader& f) {
    const JsonValue* name = f.find("name");
    if (name != nullptr && name->text.find_first_not_of(' ') == name->text.npos)
        f.wrong("name", "is empty: write a name, or leave the field out");
}

[[nodiscard]] inline GpuSpec read_gpu(FieldReader& parent) {
    const JsonValue& value = parent.at("gpu");
    const auto by_name = [](FieldReader& f, std::string_view field, const JsonValue& name) {
        const std::string& text = text_of(f, field, name);
        return named(f, field, [&] { return gx::sim::find_gpu(text); });
    };
    if (value.kind == JsonValue::Kind::string) return by_name(parent, "gpu", value);
    if (value.kind != JsonValue::Kind::object)
        parent.wrong("gpu", "is neither a name nor an object");
    FieldReader f(value, parent.file(), parent.full("gpu"));
    GpuSpec g;
    if (const JsonValue* like = f.find("like")) g = by_name(f, "like", *like);
    describe_gpu(f, g);
    check_name(f);
    f.finish();
    if (!(g.fp32.count > 0 && g.memory.count > 0 && g.memory_bandwidth.count > 0))
        parent.wrong("gpu", "needs fp32_tflops, memory_gb and memory_gb_per_s above 0, or 'like'");
    if (g.tensor_fp16.count <= 0) g.tensor_fp16 = g.fp32;
    return g;
}

template <std::size_t n>
int read_ports(FieldReader& f, std::string_view name, std::array<PciePort, n>& ports) {
    return f.each(name, static_cast<int>(n),
                  [&](const JsonValue& item, const std::string& path, int i) {
                      FieldReader port(item, f.file(), path);
                      PciePort& p = ports[static_cast<std::size_t>(i)];
                      p = {};
                      port.field("gb_per_s", p.rate);
                      port.field("under_switch", p.under, 0, Wiring::most_switches - 1);
                      port.field("socket", p.socket, 0, Wiring::most_sockets - 1);
                      port.finish();
                  });
}
template <std::size_t rows>
int read_rows(FieldReader& f, std::string_view name, int columns, int most,
              std::array<std::array<unsigned char, Wiring::most_gpus>, rows>& table) {
    const int limit = static_cast<int>(rows);
    return f.each(name, limit, [&](const JsonValue& row, const std::string& path, int i) {
        if (row.kind != JsonValue::Kind::array ||
            row.items.size() != static_cast<std::size_t>(columns))
            throw Error(
                fmt::format("{}: line {}: field '{}' is not an array of {}, one for each "
                            "GPU",
                            f.file(), row.line, path, columns));
        for (std::size_t k = 0; k < row.items.size(); ++k)
            table[static_cast<std::size_t>(i)][k] =
                static_cast<unsigned char>(f.whole(row.items[k], name, 0, most));
    });
}
inline void read_wiring(FieldReader& parent, MachineSpec& m) {
    const JsonValue* value = parent.find("wiring");
    if (value == nullptr) return;
    FieldReader f(*value, parent.file(), parent.full("wiring"));
    Wiring& w = m.wiring;
    w.known = true;
    describe_wiring(f, w);
    if (m.gpus > Wiring::most_gpus) parent.wrong("gpus", "is above 16, the most with wiring");
    const int switches = read_ports(f, "switches", w.pcie_switch);
    if (switches >= 0) w.switches = switches;
    const auto as_many = [&](const char* name, int got, int want, const char* of) {
        if (got != want)
            f.wrong(name, fmt::format("describes {} of {} {}", got < 0 ? 0 : got, want, of));
    };
    as_many("gpu_ports", read_ports(f, "gpu_ports", w.gpu), m.gpus, "GPUs");
    as_many("nic_ports", read_ports(f, "nic_ports", w.nic), m.nics, "NICs");
    const int rows = read_rows(f, "nvlinks", m.gpus, 255, w.nvlinks);
    if (rows >= 0) as_many("nvlinks", rows, m.gpus, "GPUs");
    const int rings = read_rows(f, "rings", m.gpus, m.gpus - 1, w.rings);
    if (rings >= 0) w.ring_count = rings;
    f.finish();
}
/// Runs check() and puts the file before the sentence of its error.
template <class Spec>
void checked(const FieldReader& f, const Spec& spec) {
    try {
        gx::sim::check(spec);
    } catch (const Error& e) {
        throw Error(f.file() + ": " + e.what());
    }
}

[[nodiscard]] inline MachineSpec read_machine(FieldReader& f) {
    MachineSpec m;
    m.name = Label(gx::detail::utf8_prefix(f.file(), 63));  // where it has none of its own
    f.field("name", m.name);
    check_name(f);
    m.gpu = read_gpu(f);
    describe_machine(f, m);
    if (!m.profile.view().empty())
        (void)named(f, "profile", [&] { return find_profile(m.profile.view()); });
    read_wiring(f, m);
    f.finish();
    if (m.gpus > 1 && !m.wiring.known && !(m.peer_bandwidth.count > 0))
        f.wrong("peer_gb_per_s", "is missing or 0: GPUs of one machine need a rate, or 'wiring'");
    checked(f, m);
    return m;
}
[[nodiscard]] inline Profile read_profile(FieldReader& parent) {
    const JsonValue* value = parent.find("profile");
    if (value == nullptr) return exact;
    const auto by_name = [](FieldReader& f, std::string_view field, const JsonValue& name) {
        const std::string& text = text_of(f, field, name);
        return named(f, field, [&] { return find_profile(text); });
    };
    if (value->kind == JsonValue::Kind::string) return by_name(parent, "profile", *value);
    FieldReader f(*value, parent.file(), parent.full("profile"));
    Profile p = by_name(f, "like", f.at("like"));
    describe_transport(f, p.transport);
    f.finish();
    return p;
}

[[nodiscard]] inline Fabric read_fabric(FieldReader& parent, int machines) {
    Fabric x;
    const JsonValue* value = parent.find("fabric");
    if (value == nullptr) return x;
    FieldReader f(*value, parent.file(), parent.full("fabric"));
    choose(f, "kind", f.at("kind"), x.kind);
    describe_fabric(f, x);
    f.finish();
    if (const double links = links_of(x, machines); links > most_fabric_links)
        parent.wrong("fabric",
                     fmt::format("has {} links: expected at most {}", links, most_fabric_links));
    if (x.kind == Fabric::Kind::dragonfly &&
        (1.0 * x.groups * x.routers * x.machines_per_leaf > ranks_max ||
         1.0 * x.routers * x.global_links > ranks_max))
        parent.wrong("fabric", fmt::format("has more than {} places for machines or global links "
                                           "of a group: expected fewer",
                                           ranks_max));
    return x;
}
inline void check_uplinks(const FieldReader& f, const ClusterSpec& c) {
    const Fabric& x = c.fabric;
    if (x.kind != Fabric::Kind::leaf_spine || x.link_rate.count > 0) return;
    const double rate =
        c.nic_rate().count * c.machine.nics * x.machines_per_leaf / x.oversubscription / x.spines;
    if (rate > 0 && rate < uplink_rate_min)
        f.wrong("fabric", fmt::format("leaves {:.2g} bytes per second to an uplink: expected {} or "
                                      "more; lower oversubscription or spines",
                                      rate, uplink_rate_min));
}
inline void read_counts(FieldReader& f, ClusterSpec& c) {
    (void)f.at("machines");
    describe_cluster(f, c);
    if (c.machines > ranks_max / c.machine.gpus)
        f.wrong("machines", fmt::format("is {}: with {} GPUs each that is above {} ranks, the most "
                                        "there may be",
                                        c.machines, c.machine.gpus, ranks_max));
    if (c.machines > 1 && !c.machine.wiring.known && !(c.machine.host_bandwidth.count > 0))
        f.wrong("machine.host_gb_per_s",
                "is missing or 0: GPUs reach the NICs at this rate, or by 'wiring'");
}
[[nodiscard]] inline ClusterSpec read_cluster(FieldReader& f) {
    ClusterSpec c;
    const JsonValue& machine = f.at("machine");
    if (machine.kind == JsonValue::Kind::string) {
        c.machine = named(f, "machine", [&] { return find_machine(machine.text); });
    } else {
        if (machine.kind != JsonValue::Kind::object)
            f.wrong("machine", "is neither a name nor an object");
        FieldReader inner(machine, f.file(), "machine");
        c.machine = read_machine(inner);
    }
    c.name = c.machine.name;
    f.field("name", c.name);
    check_name(f);
    read_counts(f, c);
    c.fabric = read_fabric(f, c.machines);
    c.profile = read_profile(f);
    if (const JsonValue* a = f.find("algorithm")) choose(f, "algorithm", *a, c.algorithm);
    if (const JsonValue* p = f.find("protocol")) choose(f, "protocol", *p, c.protocol);
    f.finish();
    check_uplinks(f, c);
    checked(f, c);
    return c;
}

template <std::size_t n>
void write_ports(FieldWriter& f, const char* name, const std::array<PciePort, n>& ports,
                 int count) {
    f.json().name(name).open('[');
    for (int i = 0; i < count; ++i) {
        const PciePort& p = ports[static_cast<std::size_t>(i)];
        f.json().open('{');
        f.field("gb_per_s", p.rate);
        if (p.under >= 0) f.field("under_switch", p.under, 0, 0);
        else f.field("socket", p.socket, 0, 0);
        f.json().close('}');
    }
    f.json().close(']');
}
template <class Table>
void write_rows(FieldWriter& f, const char* name, const Table& table, int rows, int columns) {
    f.json().name(name).open('[');
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) {
        f.json().open('[');
        for (std::size_t k = 0; k < static_cast<std::size_t>(columns); ++k)
            f.json().value(int{table[i][k]});
        f.json().close(']');
    }
    f.json().close(']');
}
inline void write_machine(FieldWriter& f, const MachineSpec& m) {
    f.json().open('{');
    f.field("name", m.name);
    f.json().name("gpu").open('{');
    describe_gpu(f, m.gpu);
    f.json().close('}');
    describe_machine(f, m);
    if (m.wiring.known) {
        const Wiring& w = m.wiring;
        f.json().name("wiring").open('{');
        describe_wiring(f, w);
        write_ports(f, "switches", w.pcie_switch, w.switches);
        write_ports(f, "gpu_ports", w.gpu, m.gpus);
        write_ports(f, "nic_ports", w.nic, m.nics);
        write_rows(f, "nvlinks", w.nvlinks, m.gpus, m.gpus);
        write_rows(f, "rings", w.rings, w.ring_count, m.gpus);
        f.json().close('}');
    }
    f.json().close('}');
}

[[nodiscard]] inline JsonValue parse(std::string_view text, const std::string& file) {
    try {
        return read_json(text);
    } catch (const JsonError& e) {
        throw Error(file + ": " + e.what());
    }
}

}  // namespace detail::machine_json

GX_DECL MachineSpec read_machine(std::string_view text, const std::string& file) {
    const JsonValue json = detail::machine_json::parse(text, file);
    FieldReader f(json, file, "");
    return detail::machine_json::read_machine(f);
}

GX_DECL ClusterSpec read_cluster(std::string_view text, const std::string& file) {
    const JsonValue json = detail::machine_json::parse(text, file);
    FieldReader f(json, file, "");
    return detail::machine_json::read_cluster(f);
}

GX_DECL std::string to_json(const MachineSpec& m) {
    FieldWriter f;
    detail::machine_json::write_machine(f, m);
    return f.json().text();
}

GX_DECL std::string to_json(const ClusterSpec& c) {
    namespace d = detail::machine_json;
    FieldWriter f;
    f.json().open('{');
    f.field("name", c.name);
    f.json().name("machine");
    d::write_machine(f, c.machine);
    d::describe_cluster(f, c);
    f.json().name("fabric").open('{');
    f.json().field("kind", enum_name(c.fabric.kind));
    d::describe_fabric(f, c.fabric);
    f.json().close('}').name("profile").open('{');
    f.field("like", c.profile.name);
    d::describe_transport(f, c.profile.transport);
    f.json().close('}');
    f.json().field("algorithm", enum_name(c.algorithm));
    f.json().field("protocol", enum_name(c.protocol));
    return f.json().close('}').text();
}

}  // namespace gx::sim
