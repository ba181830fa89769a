// Profile: what a communication stack adds to the hardware: latencies, protocols, caps, goodput.
#pragma once

#include <algorithm>    // max
#include <array>        // tables
#include <cstddef>      // size_t
#include <string_view>  // sources

#include <gx/core/label.hpp>  // Label
#include <gx/core/units.hpp>  // Nanoseconds, BytesPerSecond

namespace gx::sim {

/// The slowest kind of link that a message crosses.
enum class LinkClass : unsigned char { nvlink, pci, net };
enum class Algorithm : unsigned char { ring, tree };
/// NCCL's wire formats: 4 bytes of data and 4 of flag; 120 and 8; plain data.
enum class Protocol : unsigned char { ll, ll128, simple };

/// One latency for each protocol.
struct PerProtocol {
    Nanoseconds ll{}, ll128{}, simple{};
    [[nodiscard]] constexpr Nanoseconds operator[](Protocol p) const {
        return p == Protocol::ll ? ll : p == Protocol::ll128 ? ll128 : simple;
    }
};
struct PerAlgorithm {
    PerProtocol ring{}, tree{};
    [[nodiscard]] constexpr const PerProtocol& operator[](Algorithm a) const {
        return a == Algorithm::ring ? ring : tree;
    }
};
/// By compute capability (7.x and older, 8.x, 9.x), then 1, 2, 3 and more machines; 0: no cap.
using CapTable = std::array<std::array<BytesPerSecond, 3>, 3>;

/// How a library turns bus bandwidth into that of a protocol and an algorithm.
/// Shares multiply; caps bound what is left, in total or for each channel.
struct BandwidthRules {
    double ring_ll = 1, ring_ll128 = 1, ring_ll128_thin = 1;  ///< thin: under 2 ranks a machine
    double tree = 1;                                          ///< before the protocol's own share
    double tree_ll = 1, tree_ll128_one = 1, tree_ll128_many = 1;  ///< one machine, or many
    CapTable ll_total{};
    CapTable ll128_ring_channel{}, ll128_tree_channel{}, tree_channel{};
    BytesPerSecond ll128_total{0}, tree_total_one{0}, tree_total_many{0};
    /// Share of a tree's bandwidth by size: [protocol][floor(log2(bytes / 64))]; 1 past the end.
    std::array<std::array<double, 23>, 3> tree_by_size{};
    bool corrects_tree_by_size = false;
};

/// Costs of a collective beside its messages' bytes over the links.
struct CollectiveRules {
    PerAlgorithm base{};                ///< once for each collective
    std::array<PerAlgorithm, 3> hop{};  ///< for each message, by LinkClass
    Nanoseconds included{};             ///< of `hop[net]`: the network it was fitted on
    BandwidthRules bandwidth{};
    double plateau = 1, plateau_sm80 = 1;  ///< on the latency of a ring of protocol simple
    bool plateau_by_channel = false;       ///< from 64 bytes a channel and rank; else 4 KiB a rank
    bool every_step_is_slowest = false;    ///< a ring pays its slowest hop at every step
    double ll_inside = 1;                  ///< on LL's hops inside, with several machines
    Nanoseconds post_intel{}, post_amd{};  ///< least hop inside, with several machines; simple: x 3
    bool exposes_network = false;          ///< one rank a machine: a ring pays the tree's net hop
};

/// Latency and bandwidth of connections between machines.
struct TransportRules {
    Nanoseconds latency{};             ///< of one message between machines
    double goodput = 1;                ///< share of the line rate that carries payload
    BytesPerSecond nic_cap{0};         ///< of one NIC, whatever its line rate; 0: none
    BytesPerSecond connection_cap{0};  ///< of one connection; 0: none
    int connections = 1;               ///< between two ranks, for each channel
    bool through_host = false;         ///< payload is copied to host memory on both sides
};

/// A stack by name. Plain data: copy one, change a field, give it a name of its own.
///
/// A profile of a library (`nccl-2.10`) and one of a network (`tcp-aws`) are joined by `+`:
/// `nccl_2_10 + tcp_aws`, or `find_profile("nccl-2.10+tcp-aws")`.
struct Profile {
    Label name = "exact";
    std::string_view source = "none: alpha and beta of the cluster's own description";
    CollectiveRules collective{};
    TransportRules transport{};
    bool has_collective = false, has_transport = false;

    /// Latency of a message over a link, before its first byte.
    /// hop[net] was measured on a network of latency `included`, which is not paid twice.
    [[nodiscard]] constexpr Nanoseconds latency(LinkClass link, Algorithm a, Protocol p) const {
        const Nanoseconds hop = collective.hop[static_cast<std::size_t>(link)][a][p];
        if (link != LinkClass::net) return hop;
        return hop + std::max(Nanoseconds(0), transport.latency - collective.included);
    }
    /// Of all connections of a channel between two ranks; 0: none.
    [[nodiscard]] constexpr BytesPerSecond flow_cap() const {
        return transport.connection_cap * transport.connections;
    }
};

/// A library's rules on a network's. Of two with the same part, the right one's is taken.
[[nodiscard]] constexpr Profile operator+(const Profile& library, const Profile& network) {
    Profile p = library;
    p.name = library.name + "+" + network.name;
    if (network.has_collective) p.collective = network.collective;
    if (network.has_transport) p.transport = network.transport;
    p.has_collective = library.has_collective || network.has_collective;
    p.has_transport = library.has_transport || network.has_transport;
    if (network.has_transport && !network.has_collective && library.has_collective)
        p.source = "a library's tables and a network's: each names its own source";
    return p;
}

}  // namespace gx::sim
