// Core: the bodies.
#pragma once

#include <algorithm>  // count_if

#include <gx/core/error.hpp>                  // Error
#include <gx/sim/topology/check_cluster.hpp>  // check_cluster
#include <gx/sim/world/core.hpp>              // Core

namespace gx::sim {

GX_DECL Core whole(const ClusterSpec& spec) {
    Core core{spec, {}};
    for (int r = 0; r < spec.ranks(); ++r) core.members.push_back(r);
    return core;
}

GX_DECL Core core_of(const Core& from, const std::vector<bool>& left, bool failover) {
    const int gpus = from.cluster.machine.gpus, machines = from.cluster.machines;
    const auto of = [&](int m, int g) { return left[static_cast<std::size_t>(m * gpus + g)]; };
    std::vector<int> counts(static_cast<std::size_t>(machines), 0);
    for (int m = 0; m < machines; ++m)
        for (int g = 0; g < gpus; ++g) counts[static_cast<std::size_t>(m)] += of(m, g) ? 1 : 0;
    int best = 0, best_machines = 0;
    for (int g = 1; g <= gpus; ++g) {
        const auto enough = static_cast<int>(
            std::count_if(counts.begin(), counts.end(), [&](int c) { return c >= g; }));
        if (enough * g > best * best_machines) best = g, best_machines = enough;
    }
    Core core{from.cluster, {}};
    core.cluster.machines = best_machines;
    core.cluster.machine.gpus = best;
    try {
        if (best > 0) check_cluster(core.cluster, failover);
    } catch (const Error&) {
        core.cluster.fabric = star();
    }
    for (int m = 0; m < machines && best > 0; ++m) {
        if (counts[static_cast<std::size_t>(m)] < best) continue;
        for (int g = 0, taken = 0; g < gpus && taken < best; ++g) {
            if (!of(m, g)) continue;
            core.members.push_back(from.members[static_cast<std::size_t>(m * gpus + g)]);
            ++taken;
        }
    }
    return core;
}

}  // namespace gx::sim
