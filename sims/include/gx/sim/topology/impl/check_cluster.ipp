// check_cluster: the bodies.
#pragma once

#include <algorithm>  // max
#include <cstddef>    // size_t
#include <string>     // sentences

#include <gx/core/error.hpp>                   // Error
#include <gx/sim/hardware/fabric.hpp>          // longest_route
#include <gx/sim/network/flow.hpp>             // Path
#include <gx/sim/hardware/validate.hpp>        // check
#include <gx/sim/topology/machine_routes.hpp>  // MachineRoutes
#include <gx/sim/topology/check_cluster.hpp>   // check_cluster

namespace gx::sim {

GX_DECL int longest_route(const ClusterSpec& spec, const MachineRoutes& inside) {
    std::size_t peers = 0, out = 0, in = 0;
    const int gpus = spec.machine.gpus, nics = spec.machines > 1 ? spec.machine.nics : 0;
    const bool by_rail = spec.fabric.kind == Fabric::Kind::rails;
    for (int g = 0; g < gpus; ++g) {
        for (int n = 0; n < nics; ++n) {
            if (!by_rail && !inside.is_near(g, n)) continue;
            out = std::max(out, inside.out(g, n).links.size());
            in = std::max(in, inside.in(n, g).links.size());
        }
        for (int h = 0; h < gpus; ++h) peers = std::max(peers, inside.peers(g, h).links.size());
    }
    const int between = static_cast<int>(out + in) + longest_route(spec.fabric);
    return std::max(static_cast<int>(peers), nics > 0 ? between : 0);
}

GX_DECL void check_routes(const ClusterSpec& spec, const MachineRoutes& inside) {
    const int most = longest_route(spec, inside);
    if (most > Path::most_links)
        throw Error("the longest route crosses " + std::to_string(most) +
                    " links, and a path holds " + std::to_string(Path::most_links) +
                    ": choose a smaller torus, or fewer PCIe switches under each other");
}

GX_DECL void check_cluster(const ClusterSpec& spec, bool failover) {
    check(spec);
    constexpr int unwired = 4;  // links between a GPU and a NIC, by way of another GPU
    if (!spec.machine.wiring.known && 2 * unwired + longest_route(spec.fabric) <= Path::most_links)
        return;
    check_routes(spec, MachineRoutes(spec, failover));
}

}  // namespace gx::sim
