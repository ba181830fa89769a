// Fabric: how machines are joined: star, rails, leaf and spine, fat tree, dragonfly, torus.
#pragma once

#include <array>        // dimensions
#include <cstddef>      // size_t
#include <string>       // sentences
#include <string_view>  // names

#include <gx/core/cold.hpp>  // GX_COLD
#include <gx/core/error.hpp>  // Error
#include <gx/core/units.hpp>  // BytesPerSecond

namespace gx::sim {

/// A fabric as a value; make one by star(), rails(), leaf_spine(...), fat_tree(...),
/// dragonfly(...) or torus(...). Links between switches run at `link_rate` in each direction;
/// 0: as fast as all NICs of a machine together (leaf_spine: as the oversubscription says).
struct Fabric {
    enum class Kind : unsigned char { star, rails, leaf_spine, fat_tree, dragonfly, torus };
    Kind kind = Kind::star;
    int machines_per_leaf = 1, spines = 1;               ///< leaf_spine; per router: dragonfly
    double oversubscription = 1;                         ///< leaf_spine
    int ports = 4;                                       ///< fat_tree: of each switch, even
    int groups = 1, routers = 1, global_links = 1;       ///< dragonfly; global links of a router
    std::array<int, 3> extent{1, 1, 1};                  ///< torus
    BytesPerSecond link_rate{0};

    bool operator==(const Fabric&) const = default;
};

/// One switch that carries every NIC at its rate.
[[nodiscard]] constexpr Fabric star() { return {}; }
/// A switch for each NIC of a machine: NIC k reaches the NICs k of the other machines only.
[[nodiscard]] constexpr Fabric rails() { return {.kind = Fabric::Kind::rails}; }

struct LeafSpine {
    int machines_per_leaf = 1;
    double oversubscription = 1;  ///< what a leaf's machines can send over what its uplinks carry
    int spines = 1;               ///< uplinks of a leaf; 1 stands for perfect balance over many
};
/// Machines d, d + 1, ... of a leaf share its uplinks; the way up to machine d is spine d mod
/// spines.
[[nodiscard]] constexpr Fabric leaf_spine(LeafSpine o) {
    return {.kind = Fabric::Kind::leaf_spine,
            .machines_per_leaf = o.machines_per_leaf,
            .spines = o.spines,
            .oversubscription = o.oversubscription};
}
/// Three levels of switches of `ports` ports: at most ports^3 / 4 machines of one NIC.
/// The way to machine d goes up by d mod (ports / 2) and (d / (ports / 2)) mod (ports / 2).
/// Source: Al-Fares, Loukissas and Vahdat 2008, "A scalable, commodity data center network
///         architecture"; the routes are destination-mod-k, as Zahavi 2010 has them.
[[nodiscard]] constexpr Fabric fat_tree(int ports) {
    return {.kind = Fabric::Kind::fat_tree, .ports = ports};
}
struct Dragonfly {
    int groups = 2, routers = 1, machines = 1;  ///< routers of a group, machines of a router
    int global_links = 1;                       ///< of a router, to other groups
};
/// Routers of a group are joined pairwise; one global link joins each pair of groups. Routes are
/// minimal: at most one link inside each of the two groups, and one between them.
/// Source: Kim, Dally, Scott and Abts 2008, "Technology-driven, highly-scalable dragonfly".
[[nodiscard]] constexpr Fabric dragonfly(Dragonfly o) {
    return {.kind = Fabric::Kind::dragonfly,
            .machines_per_leaf = o.machines,
            .groups = o.groups,
            .routers = o.routers,
            .global_links = o.global_links};
}
/// A machine at every point; routes go along x, then y, then z, the shorter way round, upwards
/// where both ways are as long.
[[nodiscard]] constexpr Fabric torus(int x, int y, int z = 1) {
    return {.kind = Fabric::Kind::torus, .extent = {x, y, z}};
}

[[nodiscard]] constexpr std::string_view to_string(Fabric::Kind k) {
    constexpr std::array<std::string_view, 6> names{"star",     "rails",     "leaf_spine",
                                                    "fat_tree", "dragonfly", "torus"};
    return names[static_cast<std::size_t>(k)];
}

/// The most links of the fabric itself that a route may cross.
[[nodiscard]] constexpr int longest_route(const Fabric& f) {
    switch (f.kind) {
        case Fabric::Kind::star:
        case Fabric::Kind::rails: return 0;
        case Fabric::Kind::leaf_spine: return 2;
        case Fabric::Kind::fat_tree: return 4;
        case Fabric::Kind::dragonfly: return 3;
        case Fabric::Kind::torus: return f.extent[0] / 2 + f.extent[1] / 2 + f.extent[2] / 2;
    }
    return 0;
}

/// Errors: gx::Error with a sentence where the fabric cannot join so many machines.
GX_COLD inline void check(const Fabric& f, int machines) {
    const auto refuse = [](const std::string& why) { throw Error("fabric: " + why); };
    const auto text = [](int n) { return std::to_string(n); };
    const auto fits = [&](int most, const std::string& what) {
        if (machines > most)
            refuse("it is not connected: " + what + " joins at most " + text(most) +
                   " machines, and there are " + text(machines));
    };
    if (f.link_rate.count < 0) refuse("link_rate is below 0: give a rate, or 0 for that of a NIC");
    switch (f.kind) {
        case Fabric::Kind::star:
        case Fabric::Kind::rails: return;
        case Fabric::Kind::leaf_spine:
            if (f.machines_per_leaf < 1 || f.spines < 1)
                refuse("a leaf has at least 1 machine and 1 spine");
            if (!(f.oversubscription > 0))
                refuse("oversubscription is a ratio above 0: 4 is written 4:1");
            if (machines > f.machines_per_leaf && machines % f.machines_per_leaf != 0)
                refuse(text(machines) + " machines do not fill leaves of " +
                       text(f.machines_per_leaf) + ": choose a multiple of it");
            return;
        case Fabric::Kind::fat_tree:
            if (f.ports < 2 || f.ports % 2 != 0)
                refuse("a fat tree's switch has 2, 4, 6, ... ports, and not " + text(f.ports));
            return fits(f.ports * f.ports * f.ports / 4,
                        "a fat tree of " + text(f.ports) + " ports a switch");
        case Fabric::Kind::dragonfly:
            if (f.groups < 1 || f.routers < 1 || f.machines_per_leaf < 1 || f.global_links < 0)
                refuse("a dragonfly has at least 1 group, 1 router and 1 machine a router");
            if (f.routers * f.global_links < f.groups - 1)
                refuse("it is not connected: each group has " + text(f.routers * f.global_links) +
                       " global links and needs one to each of the " + text(f.groups - 1) +
                       " other groups");
            return fits(f.groups * f.routers * f.machines_per_leaf, "this dragonfly");
        case Fabric::Kind::torus:
            if (f.extent[0] < 1 || f.extent[1] < 1 || f.extent[2] < 1)
                refuse("a torus extends over at least 1 machine in x, y and z");
            return fits(f.extent[0] * f.extent[1] * f.extent[2], "this torus");
    }
}

}  // namespace gx::sim
