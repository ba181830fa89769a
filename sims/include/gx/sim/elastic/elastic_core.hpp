// Core: the largest cluster of equal machines among surviving ranks, and its faults.
#pragma once

#include <cstdint>   // int64_t
#include <optional>  // faults that are over
#include <vector>    // members

#include <gx/core/decl.hpp>             // GX_DECL
#include <gx/sim/fault/faults.hpp>      // Fault
#include <gx/sim/hardware/machine.hpp>  // ClusterSpec

namespace gx::sim {

/// A sub-cluster: its rank r is rank `members[r]` of the whole cluster.
struct Core {
    ClusterSpec cluster{};
    std::vector<int> members{};
};

/// The whole cluster.
[[nodiscard]] GX_DECL Core whole(const ClusterSpec& spec);

/// Largest core of equal machines among the surviving ranks (`left`); empty if none survive.
/// Of equally large cores it takes the one with fewer GPUs a machine. A fabric that needs all of
/// its machines (a torus) becomes a star. `failover` as check_cluster() takes it.
[[nodiscard]] GX_DECL Core core_of(const Core& from, const std::vector<bool>& left,
                                   bool failover = false);

/// Translates `fault` of the whole cluster to the core, `passed` ns and `updates` updates later.
/// Empty if the fault is over or hits no part of the core. A flapping link restarts.
[[nodiscard]] GX_DECL std::optional<Fault> as_seen_by(const Core& core, const ClusterSpec& all,
                                                      Fault fault, Nanoseconds passed,
                                                      std::int64_t updates);

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/elastic/impl/elastic_core.ipp>
#endif
