// Core: the largest cluster of equal machines among surviving ranks.
#pragma once

#include <vector>  // members

#include <gx/core/decl.hpp>             // GX_DECL
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
/// Of equally large cores it takes the one with fewer GPUs a machine. Its machines are wired as the
/// first of them is among the GPUs that are left, its members stand in a fabric one behind the
/// other, and a fabric that needs all of its machines (a torus) becomes a star. `failover` as
/// check_cluster() takes it.
[[nodiscard]] GX_DECL Core core_of(const Core& from, const std::vector<bool>& left,
                                   bool failover = false);

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/world/impl/core.ipp>
#endif
