// FabricLinks: links and routes of each kind of fabric.
#pragma once

#include <array>    // coordinates
#include <cstddef>  // size_t

#include <gx/sim/topology/fabric_links.hpp>  // FabricLinks
#include <gx/sim/network/network.hpp>        // FlowNetwork

namespace gx::sim {

GX_DECL FabricLinks::FabricLinks(const Fabric& f, int machines, int nics, BytesPerSecond nic_rate,
                                 FlowNetwork& network)
    : f_(f), machines_(machines), first_(network.links()) {
    if (machines > 1) check(f, machines);
    BytesPerSecond rate = f.link_rate.count > 0 ? f.link_rate : nic_rate * double(nics);
    if (f.kind == Fabric::Kind::leaf_spine && f.link_rate.count <= 0)
        rate = nic_rate * (double(nics) * f.machines_per_leaf / f.oversubscription / f.spines);
    for (int i = count(); i > 0; --i) network.add_link(rate);
}

GX_DECL void FabricLinks::add_route(int from, int to, Path& path) const {
    switch (f_.kind) {
        case Fabric::Kind::star:
        case Fabric::Kind::rails: return;
        case Fabric::Kind::leaf_spine: return leaf_spine_route(from, to, path);
        case Fabric::Kind::fat_tree: return fat_tree_route(from, to, path);
        case Fabric::Kind::dragonfly: return dragonfly_route(from, to, path);
        case Fabric::Kind::torus: return torus_route(from, to, path);
    }
}

GX_DECL int FabricLinks::count() const { return static_cast<int>(links_of(f_, machines_)); }

GX_DECL void FabricLinks::leaf_spine_route(int from, int to, Path& path) const {
    const int a = from / f_.machines_per_leaf, b = to / f_.machines_per_leaf;
    if (a == b) return;
    const int spine = to % f_.spines;
    add(path, 2 * (a * f_.spines + spine));
    add(path, 2 * (b * f_.spines + spine) + 1);
}

GX_DECL void FabricLinks::fat_tree_route(int from, int to, Path& path) const {
    const int half = f_.ports / 2, block = f_.ports * half * half;
    const int pod_a = from / (half * half), pod_b = to / (half * half);
    const int edge_a = from / half % half, edge_b = to / half % half;
    const int up = to % half, core = to / half % half;
    if (pod_a == pod_b && edge_a == edge_b) return;
    const auto link = [&](int level, int pod, int i, int j) {
        return level * block + (pod * half + i) * half + j;
    };
    add(path, link(0, pod_a, edge_a, up));
    if (pod_a != pod_b) {
        add(path, link(1, pod_a, up, core));
        add(path, link(2, pod_b, up, core));
    }
    add(path, link(3, pod_b, edge_b, up));
}

GX_DECL void FabricLinks::dragonfly_route(int from, int to, Path& path) const {
    const int a = f_.routers, ra = from / f_.machines_per_leaf, rb = to / f_.machines_per_leaf;
    const int ga = ra / a, gb = rb / a;
    const auto inside = [&](int group, int i, int j) {
        if (i != j) add(path, (group * a + i) * a + j);
    };
    if (ga == gb) return inside(ga, ra % a, rb % a);
    const auto gate = [&](int group, int other) {  // the router whose link goes there
        return (other - group - 1 + f_.groups) % f_.groups / f_.global_links;
    };
    inside(ga, ra % a, gate(ga, gb));
    add(path, f_.groups * a * a + ga * f_.groups + gb);
    inside(gb, gate(gb, ga), rb % a);
}

GX_DECL void FabricLinks::torus_route(int from, int to, Path& path) const {
    const auto& e = f_.extent;
    std::array<int, 3> at{from % e[0], from / e[0] % e[1], from / (e[0] * e[1])};
    const std::array<int, 3> end{to % e[0], to / e[0] % e[1], to / (e[0] * e[1])};
    for (std::size_t d = 0; d < 3; ++d) {
        const int ahead = (end[d] - at[d] + e[d]) % e[d];
        const bool up = 2 * ahead <= e[d];
        for (int left = up ? ahead : e[d] - ahead; left > 0; --left) {
            const int machine = at[0] + e[0] * (at[1] + e[1] * at[2]);
            add(path, 6 * machine + 2 * static_cast<int>(d) + (up ? 0 : 1));
            at[d] = (at[d] + (up ? 1 : e[d] - 1)) % e[d];
        }
    }
}

}  // namespace gx::sim
