// Network, cluster_of, predict: a measured network as a simulated cluster, and a reducer's time on
// it.
#pragma once

#include <cstdint>  // int64_t
#include <string>   // names
#include <vector>   // hosts

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

/// The network as a cluster of machines with the GPU of that name, whose time is not charged.
/// Errors: gx::Error for a GPU that is not known.
[[nodiscard]] sim::ClusterSpec cluster_of(const Network& network, const std::string& gpu);

/// Milliseconds that the reducer of that name takes for `bytes` of fp32 values on each host.
/// `contention`: false: each message takes latency + bytes / pair_bytes_per_s, as if it were alone.
[[nodiscard]] double predict_ms(const std::string& reducer, std::int64_t bytes,
                                const Network& network, const sim::ClusterSpec& cluster,
                                bool contention = true);

}  // namespace gx::bench
