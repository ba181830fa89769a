// Profiles that gx ships, each with its source; find_profile("nccl-2.10+tcp-aws").
#pragma once

#include <array>        // array
#include <string>       // names
#include <string_view>  // names
#include <vector>       // the known names

#include <gx/core/error.hpp>               // Error
#include <gx/io/nearest.hpp>               // unknown_name
#include <gx/sim/hardware/comm_stack.hpp>  // Profile

namespace gx::sim {

namespace detail::profile {

using namespace gx::literals;

[[nodiscard]] constexpr Nanoseconds us(double t) { return nanoseconds(t * 1e-6); }
[[nodiscard]] constexpr PerProtocol us(double ll, double ll128, double simple) {
    return {us(ll), us(ll128), us(simple)};
}
[[nodiscard]] constexpr CapTable gbps(std::array<std::array<double, 3>, 3> rows) {
    CapTable t{};
    for (std::size_t i = 0; i < 3; ++i)
        for (std::size_t k = 0; k < 3; ++k) t[i][k] = {rows[i][k] * 1e9};
    return t;
}

// clang-format off
inline constexpr std::array<std::array<double, 23>, 3> tree_by_size_old{{
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .5, .6, .6, .7, .7, .8, .9, .9, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .5, .5, .6, .6, .7, .8, .9, 1}}};
inline constexpr std::array<std::array<double, 23>, 3> tree_by_size_new{{
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}}};
// Columns: 1, 2, 3 and more machines. Rows: Volta and older, Ampere, Hopper.
inline constexpr CapTable ll_total = gbps({{{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}}});
inline constexpr CapTable ll128_ring = gbps({{{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}}});
inline constexpr CapTable ll128_tree = gbps({{{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}}});
inline constexpr CapTable tree = gbps({{{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}}});
// clang-format on

/// An RDMA message: 2.6 to 3.0 us (fitted for InfiniBand in TACCL's topology file of a DGX-1).
inline constexpr Nanoseconds rdma = us(2.8);

}  // namespace detail::profile

/// Latency and bandwidth as the cluster's description gives them; nothing added.
inline constexpr Profile exact{};

/// Source: NVIDIA/nccl v2.5.6 (November 2019), src/graph/tuning.cc. The correction of trees by
///         size and the plateau's threshold are those of 2.8, the nearest copy read.
inline constexpr Profile nccl_2_5 = [] {
    using namespace detail::profile;
    Profile p{.name = "nccl-2.5", .source = "NVIDIA/nccl v2.5.6 src/graph/tuning.cc"};
    CollectiveRules& c = p.collective;
    c.base = {.ring = us(3.6, 3.6, 8.4), .tree = us(4.4, 4.4, 0)};
    c.hop = {{{.ring = us(0.4, 2.5, 5.7), .tree = us(0.5, 1.9, 28)},
              {.ring = us(1.0, 2.5, 5.7), .tree = us(1.0, 1.9, 28)},
              {.ring = us(0.9, 2.5, 6.6), .tree = us(5.0, 7.5, 50)}}};
    c.included = rdma;
    BandwidthRules& b = c.bandwidth;
    b.ring_ll = 0.25;
    b.ring_ll128 = b.ring_ll128_thin = 120.0 / 128;
    b.ll128_total = 100_GBps;  // of an all-reduce
    b.tree = 0.9;
    b.tree_ll = 1 / 3.8;
    b.tree_ll128_one = 7.0 / 9;
    b.tree_ll128_many = 120.0 / 128;
    b.tree_total_one = 90_GBps;
    b.tree_total_many = 70_GBps;
    b.tree_by_size = tree_by_size_old;
    b.corrects_tree_by_size = true;
    c.plateau = c.plateau_sm80 = 1.9;
    c.every_step_is_slowest = true;
    p.has_collective = true;
    return p;
}();

/// Source: NVIDIA/nccl v2.10.3 (July 2021), src/graph/tuning.cc.
inline constexpr Profile nccl_2_10 = [] {
    using namespace detail::profile;
    Profile p{.name = "nccl-2.10", .source = "NVIDIA/nccl v2.10.3 src/graph/tuning.cc"};
    CollectiveRules& c = p.collective;
    c.base = {.ring = us(3.6, 10.0, 8.4), .tree = us(4.4, 4.4, 0)};
    c.hop = {{{.ring = us(0.47, 1.9, 3.4), .tree = us(0.52, 1.25, 28)},
              {.ring = us(1.0, 2.5, 5.7), .tree = us(1.0, 1.9, 28)},
              {.ring = us(2.7, 4.0, 9.6), .tree = us(5.0, 8.5, 28)}}};
    c.included = rdma;
    BandwidthRules& b = c.bandwidth;
    b.ring_ll = 0.25;
    b.ll_total = ll_total;
    b.ring_ll128 = 0.92;
    b.ring_ll128_thin = 0.7;
    b.ll128_ring_channel = ll128_ring;
    b.tree = 0.92;
    b.tree_channel = tree;
    b.tree_ll = 1 / 3.8;
    b.tree_ll128_one = 7.0 / 9;
    b.tree_ll128_many = 120.0 / 128;
    b.ll128_tree_channel = ll128_tree;
    b.tree_by_size = tree_by_size_new;
    b.corrects_tree_by_size = true;
    c.plateau = c.plateau_sm80 = 1.9;
    c.ll_inside = 1.8;
    p.has_collective = true;
    return p;
}();

/// Source: NVIDIA/nccl 2.30, src/graph/tuning.cc. Not here: PAT, NVLS, CollNet, and the share of
///         0.85 of a tree that is not balanced.
/// Known errors: 10 to 20 % on one machine of H100 from 1 MB, 1 to 3 % from 512 MB; a ring's
///         latency is too high on very many machines (three reports against a simulator that
///         uses these tables).
inline constexpr Profile nccl_2_30 = [] {
    using namespace detail::profile;
    Profile p = nccl_2_10;
    p.name = "nccl-2.30";
    p.source = "NVIDIA/nccl 2.30 src/graph/tuning.cc";
    CollectiveRules& c = p.collective;
    c.base = {.ring = us(6.6, 14.0, 8.4), .tree = us(6.8, 14.0, 8.4)};
    c.hop = {{{.ring = us(0.6, 1.9, 3.4), .tree = us(0.6, 1.25, 4.0)},
              {.ring = us(1.0, 2.5, 5.7), .tree = us(1.0, 1.9, 4.0)},
              {.ring = us(2.7, 4.0, 14.0), .tree = us(5.0, 8.5, 14.0)}}};
    c.bandwidth.ring_ll = 0.5;
    c.bandwidth.ring_ll128_thin = 0.92;
    c.plateau_sm80 = 1.4;
    c.plateau_by_channel = true;
    c.ll_inside = 1;
    c.post_intel = us(1);
    c.post_amd = us(2);
    c.exposes_network = true;
    return p;
}();

namespace detail::profile {
[[nodiscard]] constexpr Profile network(std::string_view name, std::string_view source,
                                        TransportRules rules) {
    return {.name = name, .source = source, .transport = rules, .has_transport = true};
}
}  // namespace detail::profile

/// EC2 over TCP, as NCCL 2.4.8 and newer use it: 2 threads of 8 sockets a channel.
/// Older NCCL, gRPC and MPI have one: set `transport.connections = 1`. In a cluster placement
/// group one connection carries 10 Gb/s: set `transport.connection_cap = 10_Gbps`.
/// Source: AWS EC2 network bandwidth page (5 Gb/s a flow); NVIDIA/nccl net_socket.cc (sockets).
///         Goodput 0.94 of a kernel's TCP. Latency 25 us is an assumption, half of a round trip.
inline constexpr Profile tcp_aws = detail::profile::network(
    "tcp-aws", "AWS EC2 network bandwidth page; NVIDIA/nccl src/transport/net_socket.cc",
    {.latency = detail::profile::us(25),
     .goodput = 0.94,
     .connection_cap = {5e9 / 8},
     .connections = 16,
     .through_host = true});

/// 10 Gb/s Ethernet of one's own, TCP in the kernel.
/// Source: goodput 1460 / 1538 (frames of 1500 bytes). Latency 25 us is an assumption.
inline constexpr Profile tcp_10g = detail::profile::network(
    "tcp-10g", "frame arithmetic: 1460 payload bytes of 1538 on the wire",
    {.latency = detail::profile::us(25), .goodput = 1460.0 / 1538, .through_host = true});

/// InfiniBand FDR, 4 lanes, in a slot of PCIe 3 x8.
/// Source: 64/66 coding (54.5 of 56.25 Gb/s); 6.0 GB/s of PCIe (NVIDIA/nccl src/graph/topo.cc).
inline constexpr Profile ib_fdr = detail::profile::network(
    "ib-fdr", "64/66 coding; NVIDIA/nccl src/graph/topo.cc for PCIe 3 x8",
    {.latency = detail::profile::rdma, .goodput = 64.0 / 66, .nic_cap = {6.0e9}});

/// InfiniBand EDR and newer: 97 of 100 Gb/s (HPC vendors' notes). In PCIe 3 x16: 12 GB/s.
inline constexpr Profile ib_edr =
    detail::profile::network("ib-edr", "64/66 coding; HPC vendors' notes",
                             {.latency = detail::profile::rdma, .goodput = 0.97});

/// RDMA over 100 Gb/s Ethernet. Source: 0.94 to 0.97 of the line, rule of thumb.
inline constexpr Profile roce_100g = detail::profile::network(
    "roce-100g", "rule of thumb: RDMA reaches 0.94 to 0.97 of an Ethernet line",
    {.latency = detail::profile::rdma, .goodput = 0.955});

/// TensorFlow's parameter servers: one gRPC connection a pair, tensors through host memory.
/// No measured cost of gRPC's own copies was found; none is charged here.
/// Source: as tcp-aws for the kernel's TCP. Latency 50 us is an assumption: TCP and gRPC's queues.
inline constexpr Profile parameter_server_grpc = detail::profile::network(
    "parameter-server-grpc", "kernel TCP; one HTTP/2 connection a pair of tasks (gRPC)",
    {.latency = detail::profile::us(50), .goodput = 0.94, .through_host = true});

inline constexpr std::array<const Profile*, 10> profiles{
    &exact,   &nccl_2_5, &nccl_2_10, &nccl_2_30, &tcp_aws,
    &tcp_10g, &ib_fdr,   &ib_edr,    &roce_100g, &parameter_server_grpc};

/// A shipped profile, or two joined by '+', a library's first: "nccl-2.10+tcp-aws".
/// Errors: gx::Error with the nearest known name.
[[nodiscard]] inline Profile find_profile(std::string_view name) {
    if (const auto plus = name.find('+'); plus != std::string_view::npos)
        return find_profile(name.substr(0, plus)) + find_profile(name.substr(plus + 1));
    std::vector<std::string_view> known;
    for (const Profile* p : profiles) {
        if (p->name.view() == name) return *p;
        known.push_back(p->name);
    }
    throw Error(unknown_name("profile", name, known));
}

}  // namespace gx::sim
