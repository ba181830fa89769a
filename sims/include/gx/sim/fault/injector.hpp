// FaultPlan of a list of faults, which injects them into a run.
#pragma once

#include <gx/core/decl.hpp>                  // GX_HEADER_ONLY
#include <gx/sim/world/fault_interface.hpp>  // FaultPlan
#include <gx/sim/fault/fault_values.hpp>     // Fault

#if defined(GX_HEADER_ONLY)
#include <gx/sim/fault/impl/injector.ipp>
#endif
