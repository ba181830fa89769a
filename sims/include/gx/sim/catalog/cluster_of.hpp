// cluster_of("p3.16xlarge", 8): clusters by name; machine_of({...}): machines from conditions.
#pragma once

#include <array>        // names
#include <string>       // sentences
#include <string_view>  // names

#include <gx/core/error.hpp>                // Error
#include <gx/sim/catalog/find_machine.hpp>  // find_machine
#include <gx/sim/hardware/validate.hpp>     // check
#include <gx/sim/catalog/comm_stacks.hpp>   // find_profile

namespace gx::sim {

/// Cluster of `machines` equal machines on a fabric, under a profile.
/// Errors: gx::Error where the parts do not fit.
[[nodiscard]] inline ClusterSpec cluster_of(const MachineSpec& machine, int machines,
                                            const Profile& profile = exact,
                                            const Fabric& fabric = star()) {
    ClusterSpec c{.name = machine.name,
                  .machine = machine,
                  .machines = machines,
                  .fabric = fabric,
                  .profile = profile};
    check(c);
    return c;
}
/// Cluster by names, as in cluster_of("p3.16xlarge", 8, "nccl-2.10+tcp-aws").
[[nodiscard]] inline ClusterSpec cluster_of(std::string_view machine, int machines,
                                            std::string_view profile = "exact",
                                            const Fabric& fabric = star()) {
    return cluster_of(find_machine(machine), machines, find_profile(profile), fabric);
}

/// The machine with only its first `gpus` GPUs in use. NVLinks, switches and prices stay.
[[nodiscard]] inline MachineSpec with_gpus(MachineSpec m, int gpus) {
    if (gpus < 1 || gpus > m.gpus)
        throw Error("machine '" + std::string(m.name.view()) + "' has " + std::to_string(m.gpus) +
                    " GPUs: " + std::to_string(gpus) + " of them can't be used");
    if (gpus < m.gpus) m.wiring.ring_count = m.wiring.ring_count > 0 ? 1 : 0;
    m.gpus = gpus;
    return m;
}

/// Cluster for `ranks` ranks: one machine with fewer GPUs, or several with all of theirs.
/// Errors: gx::Error where ranks are not a multiple of the GPUs of a machine.
[[nodiscard]] inline ClusterSpec cluster_of_ranks(const MachineSpec& m, int ranks,
                                                  const Profile& profile = exact,
                                                  const Fabric& fabric = star()) {
    if (ranks > 0 && ranks <= m.gpus) return cluster_of(with_gpus(m, ranks), 1, profile, fabric);
    if (ranks < 1 || ranks % m.gpus != 0)
        throw Error(std::to_string(ranks) + " ranks do not fill machines of " +
                    std::to_string(m.gpus) + " GPUs ('" + std::string(m.name.view()) +
                    "'): choose 1 to " + std::to_string(m.gpus) + " or a multiple of it");
    return cluster_of(m, ranks / m.gpus, profile, fabric);
}

/// How the GPUs of a machine are joined.
enum class PeerLink : unsigned char {
    pcie3,            ///< one root: switches of four GPUs at one socket
    pcie3_two_roots,  ///< half the GPUs at each of two sockets
    pcie4,            ///< as pcie3_two_roots, generation 4
    p100_mesh,        ///< NVLink 1: the hybrid cube mesh, or a part of it
    v100_mesh,        ///< NVLink 2: the same
    nvlink_all,       ///< every pair joined by as many links as the GPU has for it
    nvswitch          ///< every GPU at its full rate to every other
};
[[nodiscard]] constexpr std::string_view to_string(PeerLink l) {
    constexpr std::array<std::string_view, 7> names{
        "pcie3", "pcie3_two_roots", "pcie4", "p100_mesh", "v100_mesh", "nvlink_all", "nvswitch"};
    return names[static_cast<std::size_t>(l)];
}

/// Of a GPU by its name; {0, 0} where it has none.
[[nodiscard]] constexpr wiring::NvlinkPorts nvlink_ports(const GpuSpec& gpu) {
    const std::string_view name = gpu.name;
    const auto is = [&](std::string_view family) {
        return name.starts_with(family) && name.find("SXM") != name.npos;
    };
    if (is("P100")) return wiring::p100_ports;
    if (is("V100")) return wiring::v100_ports;
    if (is("A100")) return wiring::a100_ports;
    if (is("H100") || is("H200")) return wiring::h100_ports;
    return {};
}

/// Conditions of a machine, as published cases state them.
struct MachineConditions {
    GpuSpec gpu{};
    int gpus = 1;  ///< at most 16
    PeerLink link = PeerLink::pcie3;
    double nic_gbps = 0;  ///< of one NIC; 0: no network is described
    int nics = 1;         ///< at most 16
};

namespace detail::cluster_of {

[[nodiscard]] inline Wiring wired(const MachineConditions& c) {
    const bool one_root = c.link == PeerLink::pcie3 || c.gpus < 2;
    const bool gen4 = c.link == PeerLink::pcie4 || std::string_view(c.gpu.name).starts_with("A100");
    const bool gen5 = std::string_view(c.gpu.name).starts_with("H");
    wiring::Groups groups{.gpus = c.gpus, .per_switch = 2, .sockets = one_root ? 1 : 2};
    if (c.link == PeerLink::pcie3) groups.per_switch = 4;
    if (c.gpus < 4) groups.per_switch = 1;
    while (c.gpus % groups.per_switch != 0) groups.per_switch /= 2;
    groups.pcie = gen5 ? wiring::pcie5_x16 : gen4 ? wiring::pcie4_x16 : wiring::pcie3_x16;
    groups.socket_link = gen5   ? wiring::upi_sapphire_rapids
                         : gen4 ? wiring::amd_zen
                                : wiring::qpi_broadwell;
    groups.peer_penalty = gen4 ? 1 : wiring::intel_peer_penalty;
    Wiring w = wiring::grouped(groups);
    const double share = double(w.switches) / c.nics;
    for (int n = 0; n < c.nics; ++n)  // spread evenly; a single one is under the first switch
        w.nic[static_cast<std::size_t>(n)] = {.rate = groups.pcie,
                                              .under = static_cast<int>(n * share)};
    return w;
}

inline void join(MachineSpec& m, const MachineConditions& c) {
    Wiring& w = m.wiring;
    if (c.link == PeerLink::p100_mesh) return wiring::p100_mesh(w);
    if (c.link == PeerLink::v100_mesh && c.gpus == 4) return wiring::v100_quad(w);
    if (c.link == PeerLink::v100_mesh) return wiring::v100_mesh(w);
    const wiring::NvlinkPorts ports = nvlink_ports(c.gpu);
    if (c.link == PeerLink::nvswitch) return wiring::nvswitch(w, ports);
    w.nvlink = ports.rate;
    if (c.link != PeerLink::nvlink_all || c.gpus < 2) return;
    for (std::size_t a = 0; a < static_cast<std::size_t>(c.gpus); ++a)
        for (std::size_t b = 0; b < static_cast<std::size_t>(c.gpus); ++b)
            if (a != b) w.nvlinks[a][b] = static_cast<unsigned char>(ports.links / (c.gpus - 1));
}

}  // namespace detail::cluster_of

/// A machine from single conditions: NICs are spread over the PCIe switches, GPUs in pairs under
/// them; PCIe and sockets are of the GPU's time (A100 on AMD hosts). Prices are unknown.
/// Errors: gx::Error for a mesh of more than 8 GPUs, NVLinks that the GPU lacks or that do not
///         reach every GPU, more devices than a machine holds.
[[nodiscard]] inline MachineSpec machine_of(const MachineConditions& c) {
    const auto refuse = [&](const std::string& why) {
        throw Error(std::to_string(c.gpus) + " x " + std::string(c.gpu.name.view()) + " over " +
                    std::string(to_string(c.link)) + ": " + why);
    };
    const bool mesh = c.link == PeerLink::p100_mesh || c.link == PeerLink::v100_mesh;
    if (c.gpus < 1 || c.gpus > Wiring::most_gpus) refuse("a machine has 1 to 16 GPUs");
    if (c.nics < 1 || c.nics > Wiring::most_nics) refuse("a machine has 1 to 16 NICs");
    if (c.nic_gbps < 0) refuse("nic_gbps is below 0");
    if (mesh && c.gpus > 8) refuse("the hybrid cube mesh has 8 GPUs");
    if (c.link >= PeerLink::p100_mesh && nvlink_ports(c.gpu).links == 0)
        refuse("this GPU has no NVLink: say pcie3 or pcie4");
    if (c.link == PeerLink::nvlink_all && nvlink_ports(c.gpu).links < c.gpus - 1)
        refuse("its links do not reach every other GPU");
    MachineSpec m{.name = c.gpu.name,
                  .gpu = c.gpu,
                  .gpus = c.gpus,
                  .nic_line_rate = {c.nic_gbps * 1e9 / 8},
                  .nics = c.nics,
                  .price_date = "unknown"};
    m.wiring = detail::cluster_of::wired(c);
    detail::cluster_of::join(m, c);
    const bool quad = c.link == PeerLink::v100_mesh && c.gpus == 4;
    if (mesh && c.gpus < 8 && !quad) m.wiring.ring_count = 1;
    check(m);
    return m;
}

/// The profile of a network by what people call it: "TCP", "InfiniBand RDMA", "RoCE", "gRPC", ...
/// and the rate of one NIC. EFA is taken as RDMA over 100 Gb/s Ethernet.
/// Errors: gx::Error with the choices.
[[nodiscard]] inline Profile transport_of(std::string_view name, double nic_gbps, bool cloud) {
    std::string low(name);
    for (char& ch : low)
        if ('A' <= ch && ch <= 'Z') ch = static_cast<char>(ch - 'A' + 'a');
    const auto says = [&](std::string_view word) { return low.find(word) != low.npos; };
    if (says("grpc")) return parameter_server_grpc;
    if (says("infiniband") || says("omni-path")) return nic_gbps <= 56 ? ib_fdr : ib_edr;
    if (says("roce") || says("rdma") || says("efa")) return roce_100g;
    if (says("tcp") || says("ethernet")) return cloud ? tcp_aws : tcp_10g;
    throw Error("unknown transport '" + std::string(name) +
                "': choose TCP, Ethernet, InfiniBand, RoCE, EFA or gRPC");
}

}  // namespace gx::sim
