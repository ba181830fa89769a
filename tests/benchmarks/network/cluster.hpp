// Network, cluster_of: a measured network, and the simulated cluster that it makes.
#pragma once

#include <algorithm>    // max
#include <chrono>       // latency
#include <cstdint>      // int64_t
#include <string>       // names
#include <string_view>  // labels
#include <vector>       // hosts

#include <gx/sim/catalog/find_gpu.hpp>  // find_gpu
#include <gx/sim/hardware/machine.hpp>  // ClusterSpec

namespace gx::bench {

/// A host whose link is slower than that of most others.
struct SlowHost {
    int host = 0;
    double share = 1;  ///< of the others' rate
};

/// What was measured between hosts, in payload.
struct Network {
    std::string fabric{};
    int hosts = 0;
    double latency_s = 0;          ///< half a round trip of 8 bytes
    double pair_bytes_per_s = 0;   ///< from one host to one other, while no other sends
    double host_bytes_per_s = 0;   ///< from one host to all others at once
    int hosts_per_leaf = 0;        ///< 0: all are on one switch
    double trunk_bytes_per_s = 0;  ///< from the hosts of one leaf to those of another at once
    std::vector<SlowHost> slow{};
    std::int64_t eager_bytes = 0;  ///< a send of so many is done when it is posted: MPI copies it
    /// Whether one host sends faster to many than to one.
    [[nodiscard]] bool limits_pairs() const { return host_bytes_per_s > 1.1 * pair_bytes_per_s; }
};

/// The network as a cluster of machines with the GPU of that name, whose time is not charged. Slow
/// hosts are not in it: its machines are equal.
/// Errors: gx::Error for a GPU that is not known.
[[nodiscard]] inline sim::ClusterSpec cluster_of(const Network& network, const std::string& gpu) {
    sim::ClusterSpec c;
    c.name = c.machine.name = Label(std::string_view(network.fabric).substr(0, 63));
    c.machine.gpu = sim::find_gpu(gpu);
    c.machine.host_bandwidth = {std::max(12e9, 10 * network.host_bytes_per_s)};
    c.machine.nic_line_rate = {network.host_bytes_per_s};
    c.machines = network.hosts;
    c.latency = std::chrono::nanoseconds(std::int64_t(1e9 * network.latency_s + 0.5));
    if (network.limits_pairs()) c.flow_cap = {network.pair_bytes_per_s};
    if (network.hosts_per_leaf > 0) {
        c.fabric = sim::leaf_spine({.machines_per_leaf = network.hosts_per_leaf});
        c.fabric.link_rate = {network.trunk_bytes_per_s};
    }
    return c;
}

}  // namespace gx::bench
