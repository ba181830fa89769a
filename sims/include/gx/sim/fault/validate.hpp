// check_faults, expect_faults: validation of a list of faults against a cluster.
#pragma once

#include <span>  // lists

#include <gx/core/decl.hpp>               // GX_DECL
#include <gx/io/problems.hpp>             // Problems
#include <gx/sim/fault/fault_values.hpp>  // Fault
#include <gx/sim/hardware/machine.hpp>    // ClusterSpec

namespace gx::sim {

/// Adds a sentence to `problems` for each invalid field of each fault.
GX_DECL void check_faults(std::span<const Fault> faults, const ClusterSpec& spec,
                          Problems& problems);

/// Throws unless all faults are valid for the cluster.
/// Errors: one gx::Error that lists every invalid field.
GX_DECL void expect_faults(std::span<const Fault> faults, const ClusterSpec& spec);

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/fault/impl/validate.ipp>
#endif
