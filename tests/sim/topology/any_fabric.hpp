// any_fabric: a fabric with switches of its own, and as many machines as it joins.
#pragma once

#include <utility>  // pair

#include <rapidcheck.h>

#include <gx/sim/hardware/fabric.hpp>  // Fabric

inline std::pair<gx::sim::Fabric, int> any_fabric() {
    const auto some = [](int most) { return *rc::gen::inRange(1, most + 1); };
    switch (*rc::gen::inRange(0, 4)) {
        case 0: {
            const int leaf = some(6);
            return {gx::sim::leaf_spine({leaf, 0.5 * some(8), some(4)}), some(leaf * 5)};
        }
        case 1: {
            const int ports = 2 * some(4);
            return {gx::sim::fat_tree(ports), some(ports * ports * ports / 4)};
        }
        case 2: {
            const int routers = some(4), global = some(3);
            const int groups = some(routers * global + 1), each = some(3);
            return {gx::sim::dragonfly({groups, routers, each, global}), groups * routers * each};
        }
        default: {
            const int x = some(6), y = some(5), z = some(4);
            return {gx::sim::torus(x, y, z), x * y * z};
        }
    }
}
