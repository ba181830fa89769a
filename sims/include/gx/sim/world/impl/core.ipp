// Core: the bodies.
#pragma once

#include <algorithm>  // count_if, min
#include <cstddef>    // size_t

#include <gx/core/error.hpp>                  // Error
#include <gx/sim/topology/check_cluster.hpp>  // check_cluster
#include <gx/sim/world/core.hpp>              // Core

namespace gx::sim {

GX_DECL Core whole(const ClusterSpec& spec) {
    Core core{spec, {}};
    for (int r = 0; r < spec.ranks(); ++r) core.members.push_back(r);
    return core;
}

namespace detail::core {

/// The links among some of a machine's GPUs, numbered as they come.
GX_COLD [[nodiscard]] inline Wiring wiring_of(const Wiring& all, const std::vector<int>& gpus) {
    Wiring w = all;
    const int count = static_cast<int>(gpus.size());
    const auto old = [&](int g) { return static_cast<std::size_t>(gpus[std::size_t(g)]); };
    for (int a = 0; a < count; ++a) {
        w.gpu[std::size_t(a)] = all.gpu[old(a)];
        for (int b = 0; b < count; ++b)
            w.nvlinks[std::size_t(a)][std::size_t(b)] = all.nvlinks[old(a)][old(b)];
    }
    w.ring_count = std::min(w.ring_count, 1);  // 0, 1, 2, ...: others went over lost ones
    for (int g = 0; g < count; ++g) w.rings[0][std::size_t(g)] = static_cast<unsigned char>(g);
    return w;
}

}  // namespace detail::core

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
    if (best == 0) return core;
    std::vector<int> of_first;  // GPUs that are left, of the first machine
    for (int m = 0; m < machines; ++m) {
        if (counts[static_cast<std::size_t>(m)] < best) continue;
        for (int g = 0, taken = 0; g < gpus && taken < best; ++g) {
            if (!of(m, g)) continue;
            if (std::ssize(core.members) < best) of_first.push_back(g);
            core.members.push_back(from.members[static_cast<std::size_t>(m * gpus + g)]);
            ++taken;
        }
    }
    Wiring& wiring = core.cluster.machine.wiring;
    if (wiring.known && best < gpus) wiring = detail::core::wiring_of(wiring, of_first);
    try {
        check_cluster(core.cluster, failover);
    } catch (const Error&) {
        core.cluster.fabric = star();
    }
    return core;
}

}  // namespace gx::sim
