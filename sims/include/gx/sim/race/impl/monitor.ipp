// RaceMonitorMaker: the one place that needs the monitor's functions.
#pragma once

#include <memory>  // make_unique

#include <gx/sim/race/monitor.hpp>

namespace gx::sim {

GX_DECL std::unique_ptr<RaceInterface> RaceMonitorMaker<bool>::make(Engine& engine, int ranks) {
    return std::make_unique<RaceMonitor>(engine, ranks);
}

}  // namespace gx::sim
