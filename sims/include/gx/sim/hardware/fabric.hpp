// Fabric: interconnect of machines: star, rails, leaf-spine, fat tree, dragonfly, torus.
#pragma once

#include <array>        // dimensions
#include <cstddef>      // size_t
#include <string_view>  // names

#include <gx/core/cold.hpp>   // GX_COLD
#include <gx/core/decl.hpp>   // GX_DECL
#include <gx/core/units.hpp>  // BytesPerSecond

namespace gx::sim {

/// Description of an interconnect; make one by star(), rails(), leaf_spine(...), fat_tree(...),
/// dragonfly(...) or torus(...). Links between switches run at `link_rate` in each direction;
/// 0: as fast as all NICs of a machine together (leaf_spine: as the oversubscription says).
struct Fabric {
    enum class Kind : unsigned char { star, rails, leaf_spine, fat_tree, dragonfly, torus };
    Kind kind = Kind::star;
    int machines_per_leaf = 1, spines = 1;          ///< leaf_spine; per router: dragonfly
    double oversubscription = 1;                    ///< leaf_spine
    int ports = 4;                                  ///< fat_tree: of each switch, even
    int groups = 1, routers = 1, global_links = 1;  ///< dragonfly; global links of a router
    std::array<int, 3> extent{1, 1, 1};             ///< torus
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
/// Machines d, d + 1, ... of a leaf share its uplinks; the route to machine d uses spine d mod
/// spines. The last leaf may have fewer machines, and has as many uplinks.
[[nodiscard]] constexpr Fabric leaf_spine(LeafSpine o) {
    return {.kind = Fabric::Kind::leaf_spine,
            .machines_per_leaf = o.machines_per_leaf,
            .spines = o.spines,
            .oversubscription = o.oversubscription};
}
/// Three levels of switches of `ports` ports: at most ports^3 / 4 machines of one NIC.
/// The route to machine d goes up by d mod (ports / 2) and (d / (ports / 2)) mod (ports / 2).
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

/// Links between switches, one for each direction, where so many machines are joined; in double,
/// as a description may overflow an int.
[[nodiscard]] constexpr double links_of(const Fabric& f, int machines) {
    if (machines < 2) return 0;
    const double half = f.ports / 2;
    switch (f.kind) {
        case Fabric::Kind::star:
        case Fabric::Kind::rails: return 0;
        case Fabric::Kind::leaf_spine:
            return 2.0 * f.spines * ((machines - 1) / f.machines_per_leaf + 1);
        case Fabric::Kind::fat_tree: return 4.0 * f.ports * half * half;
        case Fabric::Kind::dragonfly:
            return 1.0 * f.groups * (1.0 * f.routers * f.routers + f.groups);
        case Fabric::Kind::torus: return 6.0 * f.extent[0] * f.extent[1] * f.extent[2];
    }
    return 0;
}
/// What check() admits: links of 60 bytes each, and 8,000 Tb/s.
inline constexpr double most_fabric_links = 4e6;
inline constexpr BytesPerSecond most_link_rate{1e15};

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

/// Errors: gx::Error if the fabric cannot join so many machines, or has numbers that cannot be.
GX_COLD GX_DECL void check(const Fabric& f, int machines);

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/hardware/impl/fabric.ipp>
#endif
