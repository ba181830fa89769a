// trace_links: records the rates of a simulated cluster's NICs, for a timeline.
#pragma once

#include <gx/core/cold.hpp>           // GX_COLD
#include <gx/core/decl.hpp>           // GX_DECL
#include <gx/sim/world/activity.hpp>  // TraceSink

namespace gx::sim {

class FlowNetwork;
class Topology;

/// Reports every change of a NIC's rate, in and out, to `sink` from now on.
/// Links inside machines and between switches keep an empty name, and are omitted.
GX_COLD GX_DECL void trace_links(TraceSink& sink, const Topology& topology, FlowNetwork& network);

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/world/impl/nic_trace.ipp>
#endif
