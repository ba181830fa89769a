// Machines and clusters of one's own in JSON: read_machine, read_cluster, to_json.
#pragma once

#include <array>        // names
#include <string>       // files
#include <string_view>  // texts

#include <gx/sim/cluster_of.hpp>      // find_machine, find_profile, check
#include <gx/sim/find_gpu.hpp>        // find_gpu
#include <gx/sim/json_fields.hpp>     // FieldReader, FieldWriter
#include <gx/sim/machine_fields.hpp>  // describe_gpu, ...

namespace gx::sim {

namespace detail::machine_json {

/// Calls of others that throw a sentence of their own are given the file and the field.
template <class Call>
auto named(const FieldReader& f, std::string_view field, Call&& call) {
    try {
        return call();
    } catch (const Error& e) {
        throw Error(f.file() + ": field '" + f.full(field) + "': " + e.what());
    }
}
/// The index of a name in a list of them.
template <std::size_t n>
int choice(const FieldReader& f, std::string_view field, const Json& value,
           const std::array<std::string_view, n>& names) {
    if (!value.is_string()) f.wrong(field, "is not a string");
    const auto& text = value.get_ref<const std::string&>();
    for (std::size_t i = 0; i < n; ++i)
        if (names[i] == text) return static_cast<int>(i);
    throw Error(f.file() + ": field '" + f.full(field) +
                "': " + unknown_name("value", text, names));
}
inline constexpr int most_ranks = 10'000'000;
inline constexpr std::array<std::string_view, 6> fabric_names{
    "star", "rails", "leaf_spine", "fat_tree", "dragonfly", "torus"};
inline constexpr std::array<std::string_view, 2> algorithm_names{"ring", "tree"};
inline constexpr std::array<std::string_view, 3> protocol_names{"ll", "ll128", "simple"};

[[nodiscard]] inline GpuSpec read_gpu(FieldReader& parent) {
    const Json& value = parent.at("gpu");
    const auto by_name = [&](FieldReader& f, std::string_view field, const Json& name) {
        if (!name.is_string()) f.wrong(field, "is not a string");
        const auto& text = name.get_ref<const std::string&>();
        return named(f, field, [&] { return gx::sim::find_gpu(text); });
    };
    if (value.is_string()) return by_name(parent, "gpu", value);
    if (!value.is_object()) parent.wrong("gpu", "is neither a name nor an object");
    FieldReader f(value, parent.file(), parent.full("gpu"));
    GpuSpec g;
    if (const Json* like = f.find("like")) g = by_name(f, "like", *like);
    describe_gpu(f, g);
    f.finish();
    if (!(g.fp32.count > 0 && g.memory.count > 0 && g.memory_bandwidth.count > 0))
        parent.wrong("gpu", "needs fp32_tflops, memory_gb and memory_gb_per_s above 0, or 'like'");
    if (!(g.winograd >= 1 && g.winograd <= 4))
        f.wrong("winograd_gain", "is not a factor from 1 to 4");
    if (g.tensor_fp16.count <= 0) g.tensor_fp16 = g.fp32;
    return g;
}

template <std::size_t n>
int read_ports(FieldReader& f, std::string_view name, std::array<PciePort, n>& ports) {
    return f.each(name, static_cast<int>(n), [&](const Json& item, const std::string& path, int i) {
        FieldReader port(item, f.file(), path);
        PciePort& p = ports[static_cast<std::size_t>(i)];
        p = {};
        port.quantity("gb_per_s", p.rate, gb);
        port.integer("under_switch", p.under, 0, Wiring::most_switches - 1);
        port.integer("socket", p.socket, 0, Wiring::most_sockets - 1);
        port.finish();
    });
}
template <std::size_t rows>
int read_rows(FieldReader& f, std::string_view name, int columns, int most,
              std::array<std::array<unsigned char, Wiring::most_gpus>, rows>& table) {
    const int limit = static_cast<int>(rows);
    return f.each(name, limit, [&](const Json& row, const std::string& path, int i) {
        if (!row.is_array() || row.size() != static_cast<std::size_t>(columns))
            throw Error(f.file() + ": field '" + path + "' is not an array of " +
                        std::to_string(columns) + ", one for each GPU");
        for (std::size_t k = 0; k < row.size(); ++k)
            table[static_cast<std::size_t>(i)][k] =
                static_cast<unsigned char>(f.whole(row[k], name, 0, most));
    });
}
inline void read_wiring(FieldReader& parent, MachineSpec& m) {
    const Json* value = parent.find("wiring");
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
            f.wrong(name, "describes " + std::to_string(got < 0 ? 0 : got) + " of " +
                              std::to_string(want) + " " + of);
    };
    as_many("gpu_ports", read_ports(f, "gpu_ports", w.gpu), m.gpus, "GPUs");
    as_many("nic_ports", read_ports(f, "nic_ports", w.nic), m.nics, "NICs");
    const int rows = read_rows(f, "nvlinks", m.gpus, 255, w.nvlinks);
    if (rows >= 0) as_many("nvlinks", rows, m.gpus, "GPUs");
    const int rings = read_rows(f, "rings", m.gpus, m.gpus - 1, w.rings);
    if (rings >= 0) w.ring_count = rings;
    f.finish();
}

[[nodiscard]] inline MachineSpec read_machine(FieldReader& f) {
    MachineSpec m;
    m.name = Label(std::string_view(f.file()).substr(0, 63));  // where it has none of its own
    f.text("name", m.name);
    m.gpu = read_gpu(f);
    describe_machine(f, m);
    read_wiring(f, m);
    f.finish();
    if (m.gpus > 1 && !m.wiring.known && !(m.peer_bandwidth.count > 0))
        f.wrong("peer_gb_per_s", "is missing or 0: GPUs of one machine need a rate, or 'wiring'");
    try {
        gx::sim::check(m);
    } catch (const Error& e) {
        throw Error(f.file() + ": " + e.what());
    }
    return m;
}
[[nodiscard]] inline Profile read_profile(FieldReader& parent) {
    const Json* value = parent.find("profile");
    if (value == nullptr) return exact;
    const auto by_name = [&](FieldReader& f, std::string_view field, const Json& name) {
        if (!name.is_string()) f.wrong(field, "is not a string");
        return named(f, field, [&] { return find_profile(name.get_ref<const std::string&>()); });
    };
    if (value->is_string()) return by_name(parent, "profile", *value);
    FieldReader f(*value, parent.file(), parent.full("profile"));
    Profile p = by_name(f, "like", f.at("like"));
    describe_transport(f, p.transport);
    f.finish();
    return p;
}
[[nodiscard]] inline Fabric read_fabric(FieldReader& parent) {
    Fabric x;
    const Json* value = parent.find("fabric");
    if (value == nullptr) return x;
    FieldReader f(*value, parent.file(), parent.full("fabric"));
    x.kind = static_cast<Fabric::Kind>(choice(f, "kind", f.at("kind"), fabric_names));
    describe_fabric(f, x);
    f.finish();
    const auto& e = x.extent;
    const double machines =
        x.kind == Fabric::Kind::torus       ? 1.0 * e[0] * e[1] * e[2]
        : x.kind == Fabric::Kind::dragonfly ? 1.0 * x.groups * x.routers * x.machines_per_leaf
                                            : 0;
    if (machines > most_ranks)
        parent.wrong("fabric", "has places for more than 10000000 machines, the most there may be");
    return x;
}

}  // namespace detail::machine_json

/// A machine from a JSON object. Fields: name, gpu (a name that find_gpu knows, or an object of
/// its own with, perhaps, "like"), gpus, nic_gbps, nics, host_memory_gb, price_usd_per_hour, ...;
/// `wiring` with sockets, switches, gpu_ports, nic_ports, nvlinks, nvswitch_links, rings.
/// Units: in the name of the field; gb is 10^9 bytes and gbps 10^9 bits per second.
/// Errors: gx::Error with file and line of what is not JSON, else file and field, and the nearest
///         known name or the unit that is missing.
[[nodiscard]] inline MachineSpec read_machine(std::string_view text, const std::string& file) {
    const Json json = parse_json(text, file);
    FieldReader f(json, file, "");
    return detail::machine_json::read_machine(f);
}

/// A cluster from a JSON object: machine (a known name or an object), machines, fabric, profile,
/// latency_us, flow_cap_gbps, goodput, algorithm, protocol. Errors: as for a machine.
[[nodiscard]] inline ClusterSpec read_cluster(std::string_view text, const std::string& file) {
    namespace d = detail::machine_json;
    const Json json = parse_json(text, file);
    FieldReader f(json, file, "");
    ClusterSpec c;
    const Json& machine = f.at("machine");
    if (machine.is_string()) {
        c.machine = d::named(f, "machine", [&] {
            return find_machine(machine.get_ref<const std::string&>());
        });
    } else {
        if (!machine.is_object()) f.wrong("machine", "is neither a name nor an object");
        FieldReader inner(machine, file, "machine");
        c.machine = d::read_machine(inner);
    }
    c.name = c.machine.name;
    f.text("name", c.name);
    (void)f.at("machines");
    d::describe_cluster(f, c);
    if (c.machines > d::most_ranks / c.machine.gpus)
        f.wrong("machines", "is " + std::to_string(c.machines) + ": with " +
                                std::to_string(c.machine.gpus) +
                                " GPUs each that is above 10000000 ranks, the most there may be");
    if (c.machines > 1 && !c.machine.wiring.known && !(c.machine.host_bandwidth.count > 0))
        f.wrong("machine.host_gb_per_s",
                "is missing or 0: GPUs reach the NICs at this rate, or by 'wiring'");
    c.fabric = d::read_fabric(f);
    c.profile = d::read_profile(f);
    if (const Json* a = f.find("algorithm"))
        c.algorithm = static_cast<Algorithm>(d::choice(f, "algorithm", *a, d::algorithm_names));
    if (const Json* p = f.find("protocol"))
        c.protocol = static_cast<Protocol>(d::choice(f, "protocol", *p, d::protocol_names));
    f.finish();
    try {
        check(c);
    } catch (const Error& e) {
        throw Error(file + ": " + e.what());
    }
    return c;
}

namespace detail::machine_json {

template <std::size_t n>
[[nodiscard]] Json ports_json(const std::array<PciePort, n>& ports, int count) {
    Json out = Json::array();
    for (int i = 0; i < count; ++i) {
        const PciePort& p = ports[static_cast<std::size_t>(i)];
        FieldWriter f;
        f.quantity("gb_per_s", p.rate, gb);
        if (p.under >= 0) f.integer("under_switch", p.under, 0, 0);
        else f.integer("socket", p.socket, 0, 0);
        out.push_back(f.json());
    }
    return out;
}
template <class Table>
[[nodiscard]] Json rows_json(const Table& table, int rows, int columns) {
    Json out = Json::array();
    for (int i = 0; i < rows; ++i) {
        const auto& row = table[static_cast<std::size_t>(i)];
        out.push_back(Json(std::vector<int>(row.begin(), row.begin() + columns)));
    }
    return out;
}
[[nodiscard]] inline Json machine_value(const MachineSpec& m) {
    FieldWriter f, gpu;
    f.text("name", m.name);
    describe_gpu(gpu, m.gpu);
    f["gpu"] = gpu.json();
    describe_machine(f, m);
    if (!m.wiring.known) return f.json();
    const Wiring& w = m.wiring;
    FieldWriter wiring;
    describe_wiring(wiring, w);
    wiring["switches"] = ports_json(w.pcie_switch, w.switches);
    wiring["gpu_ports"] = ports_json(w.gpu, m.gpus);
    wiring["nic_ports"] = ports_json(w.nic, m.nics);
    wiring["nvlinks"] = rows_json(w.nvlinks, m.gpus, m.gpus);
    wiring["rings"] = rows_json(w.rings, w.ring_count, m.gpus);
    f["wiring"] = wiring.json();
    return f.json();
}

}  // namespace detail::machine_json

/// What read_machine reads back as an equal machine.
[[nodiscard]] inline std::string to_json(const MachineSpec& m) {
    return detail::machine_json::machine_value(m).dump(2);
}
/// What read_cluster reads back as an equal cluster, if its profile has the name of a known one:
/// its transport is written, its collective rules are known by name.
[[nodiscard]] inline std::string to_json(const ClusterSpec& c) {
    namespace d = detail::machine_json;
    FieldWriter f, fabric, profile;
    f.text("name", c.name);
    f["machine"] = d::machine_value(c.machine);
    d::describe_cluster(f, c);
    fabric.text("kind", d::fabric_names[static_cast<std::size_t>(c.fabric.kind)]);
    d::describe_fabric(fabric, c.fabric);
    f["fabric"] = fabric.json();
    profile.text("like", c.profile.name);
    d::describe_transport(profile, c.profile.transport);
    f["profile"] = profile.json();
    f["algorithm"] = d::algorithm_names[static_cast<std::size_t>(c.algorithm)];
    f["protocol"] = d::protocol_names[static_cast<std::size_t>(c.protocol)];
    return f.json().dump(2);
}

}  // namespace gx::sim
