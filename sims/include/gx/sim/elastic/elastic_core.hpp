// Core and its faults, for elastic training.
#pragma once

#include <gx/sim/fault/faults.hpp>        // Fault
#include <gx/sim/fault/seen_by_core.hpp>  // as_seen_by
#include <gx/sim/world/core.hpp>          // Core
