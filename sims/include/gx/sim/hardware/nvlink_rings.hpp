// find_rings: link-disjoint rings over all GPUs of an NVLink mesh; in_ring_order.
#pragma once

#include <array>   // a ring
#include <vector>  // rings

#include <gx/core/decl.hpp>             // GX_DECL
#include <gx/sim/hardware/machine.hpp>  // Wiring, MachineSpec

namespace gx::sim {

using GpuRing = std::array<unsigned char, Wiring::most_gpus>;

/// The largest set of rings over all GPUs that share no NVLink; empty if there is no such ring.
/// Order: the same wiring gives the same rings. Cost: up to a million steps of a search.
[[nodiscard]] GX_DECL std::vector<GpuRing> find_rings(const Wiring& w, int gpus);

/// The same machine with its GPUs numbered along the first ring of NVLinks, and all rings stored.
/// A machine without such a ring keeps its order.
[[nodiscard]] GX_DECL MachineSpec in_ring_order(const MachineSpec& m);

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/hardware/impl/nvlink_rings.ipp>
#endif
