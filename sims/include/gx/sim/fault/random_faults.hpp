// random_faults: faults drawn from a seed, each class of them absent with some probability.
#pragma once

#include <cstdint>  // uint64_t

#include <gx/core/decl.hpp>             // GX_DECL
#include <gx/sim/fault/faults.hpp>      // Fault
#include <gx/sim/hardware/machine.hpp>  // ClusterSpec

namespace gx::sim {

/// What a swarm draws. A seed omits most classes, so that the ones it keeps meet each other
/// in all combinations, and a rare one is not hidden behind a common one.
/// Source: Groce et al. 2012, "Swarm testing", ISSTA.
struct SwarmConfig {
    double absent = 0.8;      ///< the probability that a class is absent from a seed
    int most_each = 2;        ///< faults of a class that is there: 1 to this many
    bool deaths = true;       ///< GPUs, NICs and switches may be lost, links cut, for good
    bool corruption = true;   ///< payloads may be spoiled
    bool checkpoints = true;  ///< checkpoints may be torn
};

/// Faults of a run of about `horizon`; all of them can be (check_faults finds nothing).
/// Order: a function of its arguments; each class draws from a stream of its own name.
[[nodiscard]] GX_DECL FaultList random_faults(std::uint64_t seed, const ClusterSpec& spec,
                                              Nanoseconds horizon, const SwarmConfig& swarm = {});

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/fault/impl/random_faults.ipp>
#endif
