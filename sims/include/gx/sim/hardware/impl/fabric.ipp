// check(Fabric): which fabrics can join how many machines.
#pragma once

#include <string>  // sentences

#include <gx/core/error.hpp>           // Error
#include <gx/sim/hardware/fabric.hpp>  // Fabric

namespace gx::sim {

GX_DECL void check(const Fabric& f, int machines) {
    const auto refuse = [](const std::string& why) { throw Error("fabric: " + why); };
    const auto text = [](int n) { return std::to_string(n); };
    constexpr int most_of_a_kind = 1'000'000;
    const auto fits = [&](double most, const std::string& what) {
        if (machines > most)
            refuse("it is not connected: " + what + " joins at most " +
                   text(static_cast<int>(most)) + " machines, and there are " + text(machines));
    };
    for (const int n : {f.machines_per_leaf, f.spines, f.groups, f.routers, f.global_links,
                        f.extent[0], f.extent[1], f.extent[2]})
        if (n > most_of_a_kind)
            refuse(text(n) + " switches, links or machines of a kind: give at most " +
                   text(most_of_a_kind));
    if (f.ports > 256) refuse("a switch of " + text(f.ports) + " ports: give at most 256");
    if (f.link_rate.count < 0) refuse("link_rate is below 0: give a rate, or 0 for that of a NIC");
    if (!(f.link_rate.count <= most_link_rate.count))
        refuse("link_rate is above 1e15 bytes per second: give a rate, or 0 for that of a NIC");
    switch (f.kind) {
        case Fabric::Kind::star:
        case Fabric::Kind::rails: return;
        case Fabric::Kind::leaf_spine:
            if (f.machines_per_leaf < 1 || f.spines < 1)
                refuse("a leaf has at least 1 machine and 1 spine");
            if (!(f.oversubscription > 0 && f.oversubscription <= 1e6))
                refuse("oversubscription is a ratio above 0 and of at most 1e6: 4 is written 4:1");
            break;
        case Fabric::Kind::fat_tree:
            if (f.ports < 2 || f.ports % 2 != 0)
                refuse("a fat tree's switch has 2, 4, 6, ... ports, and not " + text(f.ports));
            fits(f.ports * f.ports * f.ports / 4,
                 "a fat tree of " + text(f.ports) + " ports a switch");
            break;
        case Fabric::Kind::dragonfly:
            if (f.groups < 1 || f.routers < 1 || f.machines_per_leaf < 1 || f.global_links < 0)
                refuse("a dragonfly has at least 1 group, 1 router and 1 machine a router");
            if (1.0 * f.routers * f.global_links < f.groups - 1)
                refuse("it is not connected: each group has " + text(f.routers * f.global_links) +
                       " global links and needs one to each of the " + text(f.groups - 1) +
                       " other groups");
            fits(1.0 * f.groups * f.routers * f.machines_per_leaf, "this dragonfly");
            break;
        case Fabric::Kind::torus:
            if (f.extent[0] < 1 || f.extent[1] < 1 || f.extent[2] < 1)
                refuse("a torus extends over at least 1 machine in x, y and z");
            fits(1.0 * f.extent[0] * f.extent[1] * f.extent[2], "this torus");
            break;
    }
    if (links_of(f, machines) > most_fabric_links)
        refuse("more than " + text(static_cast<int>(most_fabric_links)) +
               " links between switches: give fewer");
}

}  // namespace gx::sim
