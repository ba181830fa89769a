// check_cluster: whether a cluster can be built, route lengths included.
#pragma once

#include <gx/core/cold.hpp>             // GX_COLD
#include <gx/core/decl.hpp>             // GX_DECL
#include <gx/sim/hardware/machine.hpp>  // ClusterSpec

namespace gx::sim {

class MachineRoutes;

/// Most links on any route of a cluster whose machines have the routes `inside`.
/// Routes that avoid lost NICs are not counted: they are checked when they are taken.
GX_COLD [[nodiscard]] GX_DECL int longest_route(const ClusterSpec& spec,
                                                const MachineRoutes& inside);

/// Errors: gx::Error where the longest route does not fit in a Path.
GX_COLD GX_DECL void check_routes(const ClusterSpec& spec, const MachineRoutes& inside);

/// Throws unless a Topology of `spec` can be built; `failover` as its constructor takes it.
/// Errors: gx::Error as check(spec) has one, or for a route that does not fit in a Path.
/// Cost:   the routes inside one machine; none where their longest possible ones fit.
GX_COLD GX_DECL void check_cluster(const ClusterSpec& spec, bool failover = false);

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/topology/impl/check_cluster.ipp>
#endif
