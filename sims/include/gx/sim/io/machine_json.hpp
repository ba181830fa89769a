// Machine and cluster files in JSON: read_machine, read_cluster, to_json.
#pragma once

#include <string>       // files
#include <string_view>  // texts

#include <gx/core/decl.hpp>             // GX_DECL
#include <gx/sim/hardware/machine.hpp>  // MachineSpec, ClusterSpec

namespace gx::sim {

/// Reads a machine from a JSON object.
///
/// Fields: name, gpu (a name that find_gpu knows, or an object of its own with, perhaps, "like"),
/// gpus, nic_gbps, nics, host_memory_gb, price_usd_per_hour, profile (of clusters of it that state
/// no network, a name that find_profile knows), ...; `wiring` with sockets, switches,
/// gpu_ports, nic_ports, nvlinks, nvswitch_links, rings.
/// Units:  in the name of the field; gb is 10^9 bytes and gbps 10^9 bits per second.
/// Errors: gx::Error with file, line and column of what is not JSON; with file, line, field, value
///         and range of what no hardware has; with the nearest name of an unknown field.
[[nodiscard]] GX_DECL MachineSpec read_machine(std::string_view text, const std::string& file);

/// Reads a cluster from a JSON object: machine (a known name or an object), machines, fabric,
/// profile, latency_us, flow_cap_gbps, goodput, algorithm, protocol.
/// Errors: as for a machine; more than 10^6 ranks, or a fabric of more than 4 x 10^6 links.
[[nodiscard]] GX_DECL ClusterSpec read_cluster(std::string_view text, const std::string& file);

/// Returns the JSON that read_machine reads back as an equal machine.
[[nodiscard]] GX_DECL std::string to_json(const MachineSpec& m);
/// Returns the JSON that read_cluster reads back as an equal cluster. Its profile has to have the
/// name of a known one: the transport is written, the collective rules are known by that name.
[[nodiscard]] GX_DECL std::string to_json(const ClusterSpec& c);

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/io/impl/machine_json.ipp>
#endif
