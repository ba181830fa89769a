// Topology: links, checks, and the longest route.
#pragma once

#include <algorithm>  // max
#include <string>     // sentences

#include <gx/core/contract.hpp>               // GX_EXPECT
#include <gx/sim/hardware/validate.hpp>       // check
#include <gx/sim/topology/check_cluster.hpp>  // check_routes
#include <gx/sim/topology/topology.hpp>       // Topology

namespace gx::sim {

GX_DECL Topology::Topology(const ClusterSpec& spec, FlowNetwork& network, bool failover)
    : spec_(checked(spec)),
      inside_(spec, failover),
      first_(network.links()),
      stride_(static_cast<int>(inside_.rates().size())),
      fabric_(add_links(network)) {
    check_routes(spec_, inside_);
}

GX_DECL bool Topology::route_over(int from, int to, int out, int in, std::span<const int> between,
                                  Path& path) const {
    const int a = from / gpus_, b = to / gpus_;
    const auto &up = inside_.out(from - a * gpus_, out), &down = inside_.in(in, to - b * gpus_);
    if (up.links.size() + between.size() + down.links.size() > Path::most_links) return false;
    path = {};
    add(up, a, path);
    for (const int link : between) path.add(link);
    add(down, b, path);
    return true;
}

GX_DECL const ClusterSpec& Topology::checked(const ClusterSpec& spec) {
    GX_EXPECT(spec.machines > 0 && spec.machine.gpus > 0,
              "a cluster has at least one machine, and a machine at least one GPU");
    GX_EXPECT(spec.goodput > 0 && spec.goodput <= 1, "goodput is a share above 0, at most 1");
    check(spec);
    return spec;
}

GX_DECL FabricLinks Topology::add_links(FlowNetwork& network) const {
    for (int m = 0; m < spec_.machines; ++m)
        for (const BytesPerSecond rate : inside_.rates()) network.add_link(rate);
    return {spec_.fabric, spec_.machines, spec_.machine.nics, spec_.nic_rate(), network};
}

}  // namespace gx::sim
