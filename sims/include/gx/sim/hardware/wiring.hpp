// Wirings that several machines share: PCIe in pairs, NVLink meshes, NVSwitch.
#pragma once

#include <array>    // tables
#include <cstddef>  // size_t

#include <gx/sim/hardware/machine.hpp>  // Wiring

namespace gx::sim::wiring {

using namespace gx::literals;

/// Usable rates per direction. Source: NVIDIA/nccl 2.30, src/graph/topo.h and topo.cc (PCIe by
/// lane: 60, 120 and 240 x 100 Mb/s for generations 3, 4 and 5).
inline constexpr BytesPerSecond pcie3_x8 = 6_GBps, pcie3_x16 = 12_GBps, pcie4_x16 = 24_GBps,
                                pcie5_x16 = 48_GBps;
inline constexpr BytesPerSecond qpi_broadwell = 6_GBps, upi_skylake = 10_GBps,
                                upi_sapphire_rapids = 22_GBps, amd_zen = 16_GBps;
inline constexpr BytesPerSecond nvlink_p100 = 18_GBps, nvlink_v100 = 20_GBps, nvlink_a100 = 20_GBps,
                                nvlink_h100 = 20.6_GBps;
/// NVLinks of one GPU, and the usable rate of one in a direction. Source of links: data sheets.
struct NvlinkPorts {
    int links = 0;
    BytesPerSecond rate{};
};
inline constexpr NvlinkPorts p100_ports{4, nvlink_p100}, v100_ports{6, nvlink_v100},
    a100_ports{12, nvlink_a100}, h100_ports{18, nvlink_h100};
/// Intel's CPUs cut GPU to GPU traffic into small packets.
inline constexpr double intel_peer_penalty = 6.0 / 5;

/// GPUs in equal groups under a PCIe switch each, the switches in equal groups at the sockets.
struct Groups {
    int gpus = 8, per_switch = 2, sockets = 2;
    BytesPerSecond pcie = pcie3_x16, socket_link = qpi_broadwell;
    double peer_penalty = intel_peer_penalty;
};
[[nodiscard]] constexpr Wiring grouped(Groups o) {
    Wiring w{.known = true, .sockets = o.sockets, .switches = o.gpus / o.per_switch};
    w.socket_link = o.socket_link;
    w.peer_penalty = o.peer_penalty;
    const int per_socket = (w.switches + o.sockets - 1) / o.sockets;
    for (int s = 0; s < w.switches; ++s)
        w.pcie_switch[static_cast<std::size_t>(s)] = {.rate = o.pcie, .socket = s / per_socket};
    for (int g = 0; g < o.gpus; ++g)
        w.gpu[static_cast<std::size_t>(g)] = {.rate = o.pcie, .under = g / o.per_switch};
    w.rings[0] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    w.ring_count = 1;
    return w;
}
/// `each` NICs under every PCIe switch, in order.
constexpr void nics_under_switches(Wiring& w, int each, BytesPerSecond pcie) {
    for (int n = 0; n < each * w.switches; ++n)
        w.nic[static_cast<std::size_t>(n)] = {.rate = pcie, .under = n / each};
}

/// All links of each GPU go to NVSwitches.
constexpr void nvswitch(Wiring& w, NvlinkPorts ports) {
    w.nvlink = ports.rate;
    w.nvswitch_links = ports.links;
}

/// Adds `links` between physical GPUs `a` and `b`; `place` is the rank of each.
constexpr void join(Wiring& w, const std::array<int, 8>& place, int a, int b, int links) {
    const auto x = static_cast<std::size_t>(place[static_cast<std::size_t>(a)]);
    const auto y = static_cast<std::size_t>(place[static_cast<std::size_t>(b)]);
    w.nvlinks[x][y] = w.nvlinks[y][x] = static_cast<unsigned char>(links);
}
/// Rank of each physical GPU, along a ring of NVLinks in both meshes. Ranks 0 to 7 are the physical
/// GPUs 0, 1, 2, 3, 7, 6, 5, 4.
inline constexpr std::array<int, 8> mesh_place{0, 1, 2, 3, 7, 6, 5, 4};

/// The hybrid cube mesh of eight V100, six links each.
/// Three rings share no link and use all of them: with both directions, 6 x 20 GB/s.
/// Source: SCCL's and TACCL's topology file of a DGX-1V. A cloud's machine may permute it.
constexpr void v100_mesh(Wiring& w) {
    w.nvlink = nvlink_v100;
    constexpr std::array<std::array<int, 3>, 16> pairs{{{0, 1, 2},
                                                        {0, 2, 1},
                                                        {0, 3, 1},
                                                        {0, 4, 2},
                                                        {1, 2, 1},
                                                        {1, 3, 2},
                                                        {1, 5, 1},
                                                        {2, 3, 2},
                                                        {2, 6, 2},
                                                        {3, 7, 1},
                                                        {4, 5, 2},
                                                        {4, 6, 1},
                                                        {4, 7, 1},
                                                        {5, 6, 1},
                                                        {5, 7, 2},
                                                        {6, 7, 2}}};
    for (const auto& [a, b, links] : pairs) join(w, mesh_place, a, b, links);
    w.rings[1] = {0, 3, 1, 6, 4, 7, 5, 2};
    w.rings[2] = {0, 1, 3, 2, 5, 4, 6, 7};
    w.ring_count = 3;
}
/// The hybrid cube mesh of eight P100, four links each: two quads, all joined, and a link from
/// each GPU to its partner. Two rings use all links. Source: NVIDIA DGX-1 white paper, 2016.
constexpr void p100_mesh(Wiring& w) {
    w.nvlink = nvlink_p100;
    for (int quad = 0; quad < 8; quad += 4)
        for (int a = quad; a < quad + 4; ++a)
            for (int b = a + 1; b < quad + 4; ++b) join(w, mesh_place, a, b, 1);
    for (int a = 0; a < 4; ++a) join(w, mesh_place, a, a + 4, 1);
    w.rings[1] = {0, 2, 5, 7, 4, 6, 1, 3};
    w.ring_count = 2;
}
/// Four V100 of the mesh: GPUs 0 to 3. Two rings share no link.
constexpr void v100_quad(Wiring& w) {
    w.nvlink = nvlink_v100;
    constexpr std::array<std::array<int, 3>, 6> pairs{
        {{0, 1, 2}, {0, 2, 1}, {0, 3, 1}, {1, 2, 1}, {1, 3, 2}, {2, 3, 2}}};
    for (const auto& [a, b, links] : pairs) join(w, mesh_place, a, b, links);
    w.rings[1] = {0, 1, 3, 2};
    w.ring_count = 2;
}

}  // namespace gx::sim::wiring
