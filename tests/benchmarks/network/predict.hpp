// predict: a reducer's time on a measured network, by the simulator.
#pragma once

#include <cstdint>  // int64_t
#include <string>   // names

#include "cluster.hpp"  // Network

namespace gx::bench {

struct Predicted {
    double ms = -1;
    std::int64_t handshakes_both_ways = 0;  ///< Handshakes::both_ways: it is too low then
};

/// What the reducer of that name takes for `bytes` of fp32 values on each host.
/// `contention`: false: each message takes latency + bytes / pair_bytes_per_s, as if it were alone.
[[nodiscard]] Predicted predict(const std::string& reducer, std::int64_t bytes,
                                const Network& network, const sim::ClusterSpec& cluster,
                                bool contention = true);

}  // namespace gx::bench
