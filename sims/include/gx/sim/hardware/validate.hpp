// check(MachineSpec), check(ClusterSpec): validation of machines and clusters.
#pragma once

#include <gx/core/cold.hpp>             // GX_COLD
#include <gx/core/decl.hpp>             // GX_DECL
#include <gx/sim/hardware/fabric.hpp>   // check(Fabric)
#include <gx/sim/hardware/machine.hpp>  // MachineSpec, ClusterSpec

namespace gx::sim {

/// Throws unless the machine is valid.
/// Errors: gx::Error for a device without a path to a socket, a link of zero rate, a cycle among
///         PCIe switches, an NVLink with one end, a ring that is none, more devices than fit.
GX_COLD GX_DECL void check(const MachineSpec& m);

/// Throws unless the cluster is valid, except for route lengths: check_cluster().
/// Errors: as for the machine and the fabric; a NIC of zero rate or faster than its PCIe port.
GX_COLD GX_DECL void check(const ClusterSpec& c);

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/hardware/impl/validate.ipp>
#endif
