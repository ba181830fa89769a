// find_or_read_machine, find_or_read_cluster: a known machine, or what a file holds.
#pragma once

#include <filesystem>    // extensions
#include <string>        // texts
#include <string_view>   // labels
#include <system_error>  // names that are no paths

#include <gx/io/json_value.hpp>             // read_json
#include <gx/io/read_file.hpp>              // read_file
#include <gx/io/utf8.hpp>                   // utf8_prefix
#include <gx/sim/catalog/find_machine.hpp>  // find_machine
#include <gx/sim/io/machine_json.hpp>       // read_machine, read_cluster
#include <gx/sim/io/nccl_topology.hpp>      // machine_from_nccl_xml

namespace gx::sim {

/// Returns the machine of a file, or the known one of that name.
///
/// A name that ends in `.json` is a file of read_machine's fields; one that ends in `.xml` is a
/// file as NCCL dumps it, and the machine is called as the file.
/// Errors: gx::Error with the file and what is wrong in it, for one above 16 MiB or of another
///         ending too; or with the nearest known name.
[[nodiscard]] inline MachineSpec find_or_read_machine(const std::string& name_or_file) {
    const std::filesystem::path path(name_or_file);
    const bool json = path.extension() == ".json", xml = path.extension() == ".xml";
    if (!json && !xml) {
        try {
            return find_machine(name_or_file);
        } catch (const Error&) {
            std::error_code hidden;  // a name need not be a path
            if (!std::filesystem::is_regular_file(path, hidden)) throw;
            throw Error("unknown machine '" + name_or_file +
                        "', though there is a file of that name: a machine file's name ends in "
                        ".json, or in .xml as NCCL dumps it. Rename it, or name a known machine.");
        }
    }
    const std::string text = read_file(path, 16 << 20);
    if (json) return read_machine(text, name_or_file);
    std::string stem(gx::detail::utf8_prefix(path.stem().string(), 63));
    for (char& c : stem)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';  // names are printed
    try {
        return machine_from_nccl_xml(text, std::string_view(stem));
    } catch (const Error& e) {
        throw Error(name_or_file + ": " + e.what());
    }
}

/// Returns the cluster of a `.json` file that has read_cluster's fields, one of them `machine`; of
/// any other name or file one machine, as find_or_read_machine returns it.
/// Errors: as find_or_read_machine; and those of read_cluster.
[[nodiscard]] inline ClusterSpec find_or_read_cluster(const std::string& name_or_file) {
    if (std::filesystem::path(name_or_file).extension() == ".json") {
        const std::string text = read_file(name_or_file, 16 << 20);
        try {
            const JsonValue json = read_json(text);
            if (json.kind == JsonValue::Kind::object && json.find("machine") != nullptr)
                return read_cluster(text, name_or_file);
        } catch (const JsonError& e) {
            throw Error(name_or_file + ": " + e.what());
        }
    }
    const MachineSpec machine = find_or_read_machine(name_or_file);
    return {.name = machine.name, .machine = machine};
}

/// Whether a cluster says more of its network than its machines' NICs: latency, caps, a fabric or a
/// profile, as a cluster file does and a machine does not.
[[nodiscard]] inline bool states_network(const ClusterSpec& c) {
    return c.latency.count() > 0 || c.flow_cap.count > 0 || c.goodput != 1 ||
           c.fabric.kind != Fabric{}.kind || c.profile.name != Profile{}.name;
}

}  // namespace gx::sim
