// FabricSwitches: nodes and edges of each kind of fabric.
#pragma once

#include <array>   // steps
#include <string>  // sentences

#include <gx/core/contract.hpp>                 // GX_EXPECT
#include <gx/sim/topology/fabric_switches.hpp>  // FabricSwitches

namespace gx::sim {

GX_DECL std::string to_string(Switch s) {
    return std::string(name_of(s.kind)) + " " + std::to_string(s.index);
}

GX_DECL FabricSwitches::FabricSwitches(const Fabric& f, int machines, int nics) : f_(f) {
    if (machines < 2) return;
    const int half = f.ports / 2;
    const auto& e = f.extent;
    switch (f.kind) {
        case Fabric::Kind::star: break;
        case Fabric::Kind::rails: add(SwitchKind::rail, nics); break;
        case Fabric::Kind::leaf_spine:
            add(SwitchKind::leaf, (machines + f.machines_per_leaf - 1) / f.machines_per_leaf);
            add(SwitchKind::spine, f.spines);
            join_leaves();
            break;
        case Fabric::Kind::fat_tree:
            add(SwitchKind::edge, f.ports * half);
            add(SwitchKind::aggregation, f.ports * half);
            add(SwitchKind::core, half * half);
            join_tree();
            break;
        case Fabric::Kind::dragonfly:
            add(SwitchKind::router, f.groups * f.routers);
            join_groups();
            break;
        case Fabric::Kind::torus:
            add(SwitchKind::router, e[0] * e[1] * e[2]);
            join_torus();
            break;
    }
}

GX_DECL int FabricSwitches::node(Switch s) const {
    GX_EXPECT(s.index >= 0 && s.index < count(s.kind), "this fabric has no such switch");
    return first_[std::size_t(s.kind)] + s.index;
}

GX_DECL Switch FabricSwitches::at(int node) const {
    int kind = 0;
    while (node >= first_[std::size_t(kind)] + counts_[std::size_t(kind)]) ++kind;
    return {static_cast<SwitchKind>(kind), node - first_[std::size_t(kind)]};
}

GX_DECL int FabricSwitches::of(int machine, int nic) const {
    if (nodes_ == 0) return -1;
    switch (f_.kind) {
        case Fabric::Kind::star: return -1;
        case Fabric::Kind::rails: return nic;
        case Fabric::Kind::leaf_spine:
        case Fabric::Kind::dragonfly: return machine / f_.machines_per_leaf;
        case Fabric::Kind::fat_tree: return machine / (f_.ports / 2);
        case Fabric::Kind::torus: return machine;
    }
    return -1;
}

GX_DECL std::string FabricSwitches::choices() const {
    std::string text;
    for (int k = 0; k < switch_kinds; ++k) {
        const auto kind = static_cast<SwitchKind>(k);
        if (count(kind) == 0) continue;
        text += (text.empty() ? "" : ", ") + std::string(name_of(kind)) + " 0";
        if (count(kind) > 1) text += " to " + std::to_string(count(kind) - 1);
    }
    return text.empty() ? "none" : text;
}

GX_DECL void FabricSwitches::add(SwitchKind k, int count) {
    first_[std::size_t(k)] = nodes_;
    counts_[std::size_t(k)] = count;
    for (std::size_t later = std::size_t(k) + 1; later < switch_kinds; ++later)
        first_[later] = nodes_ + count;
    nodes_ += count;
}

GX_DECL void FabricSwitches::join_leaves() {
    const int leaves = count(SwitchKind::leaf);
    for (int leaf = 0; leaf < leaves; ++leaf)
        for (int spine = 0; spine < f_.spines; ++spine)
            join(leaf, leaves + spine), join(leaves + spine, leaf);
}

GX_DECL void FabricSwitches::join_tree() {
    const int half = f_.ports / 2, edges = f_.ports * half;
    for (int level = 0; level < 4; ++level)
        for (int pod = 0; pod < f_.ports; ++pod)
            for (int i = 0; i < half; ++i)
                for (int j = 0; j < half; ++j) {
                    const int edge = pod * half + i, above = edges + pod * half + j;
                    const int aggregation = edges + edge, core = 2 * edges + i * half + j;
                    if (level == 0) join(edge, above);
                    if (level == 1) join(aggregation, core);
                    if (level == 2) join(core, aggregation);
                    if (level == 3) join(above, edge);
                }
}

GX_DECL void FabricSwitches::join_groups() {
    const int a = f_.routers, g = f_.groups;
    for (int group = 0; group < g; ++group)
        for (int i = 0; i < a; ++i)
            for (int j = 0; j < a; ++j) join(group * a + i, group * a + j);
    const auto gate = [&](int group, int other) {
        const int there = (other - group - 1 + g) % g;
        // The link of a group to itself is never used.
        return group * a + (other == group ? 0 : there / f_.global_links);
    };
    for (int from = 0; from < g; ++from)
        for (int to = 0; to < g; ++to) join(gate(from, to), gate(to, from));
}

GX_DECL void FabricSwitches::join_torus() {
    const auto& e = f_.extent;
    for (int at = 0; at < count(SwitchKind::router); ++at) {
        const std::array<int, 3> step{1, e[0], e[0] * e[1]};
        const std::array<int, 3> place{at % e[0], at / e[0] % e[1], at / (e[0] * e[1])};
        for (std::size_t d = 0; d < 3; ++d) {
            const int start = at - place[d] * step[d];
            join(at, start + (place[d] + 1) % e[d] * step[d]);
            join(at, start + (place[d] + e[d] - 1) % e[d] * step[d]);
        }
    }
}

}  // namespace gx::sim
