// as_seen_by: a fault of a cluster, as a part of the cluster meets it later.
#pragma once

#include <cstdint>  // int64_t

#include <gx/core/decl.hpp>               // GX_DECL
#include <gx/sim/fault/fault_values.hpp>  // Fault, FaultList
#include <gx/sim/world/core.hpp>          // Core

namespace gx::sim {

/// Translates `fault` of the whole cluster to the core, `passed` ns and `updates` updates later.
/// Empty if the fault is over or hits no part of the core. What comes and goes keeps its times:
/// where it is there just then, the rest of that is a fault of its own, the first of two. A fault
/// that strikes once, and has not, strikes as soon as it can.
[[nodiscard]] GX_DECL FaultList as_seen_by(const Core& core, const ClusterSpec& all, Fault fault,
                                           Nanoseconds passed, std::int64_t updates = 0);

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/fault/impl/seen_by_core.ipp>
#endif
