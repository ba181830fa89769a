// FabricSwitches: the graph of a fabric's switches and links.
#pragma once

#include <array>        // names
#include <cstddef>      // size_t
#include <string>       // sentences
#include <string_view>  // names
#include <vector>       // links

#include <gx/core/decl.hpp>            // GX_DECL
#include <gx/sim/hardware/fabric.hpp>  // Fabric

namespace gx::sim {

enum class SwitchKind : unsigned char { rail, leaf, spine, edge, aggregation, core, router };
inline constexpr int switch_kinds = 7;

[[nodiscard]] constexpr std::string_view name_of(SwitchKind k) {
    constexpr std::array<std::string_view, switch_kinds> names{
        "rail", "leaf", "spine", "edge", "aggregation", "core", "router"};
    return names[static_cast<std::size_t>(k)];
}

/// One switch of a fabric, counted from 0 among those of its kind. With m machines a leaf or
/// router, and h = ports / 2:
///
///     rails       rail k joins the NICs k of all machines
///     leaf_spine  leaf d / m joins machine d to every spine
///     fat_tree    edge d / h; aggregations p h to p h + h - 1 are of pod p, and number i of each
///                 pod is joined to the cores i h to i h + h - 1
///     dragonfly   router d / m; those of group g are numbered from g * routers
///     torus       router d, at x = d mod X, y = d / X mod Y, z = d / (X Y)
///
/// A star is one switch that does not fail by itself: slow or cut the NICs instead.
struct Switch {
    SwitchKind kind = SwitchKind::leaf;
    int index = 0;
    bool operator==(const Switch&) const = default;
};
[[nodiscard]] GX_DECL std::string to_string(Switch s);

/// The switches of a fabric as nodes of a graph, kind by kind; its edges are the links of
/// FabricLinks, in their order. One machine alone has none.
class FabricSwitches {
public:
    struct Ends {
        int from = 0, to = 0;  ///< nodes
    };

    FabricSwitches(const Fabric& f, int machines, int nics);

    [[nodiscard]] int count() const { return nodes_; }
    [[nodiscard]] int count(SwitchKind k) const { return counts_[std::size_t(k)]; }
    [[nodiscard]] int node(Switch s) const;
    [[nodiscard]] Switch at(int node) const;
    /// The node that a machine's NIC is plugged into; -1 on a star.
    [[nodiscard]] int of(int machine, int nic) const;
    /// By link, from the first of FabricLinks.
    [[nodiscard]] const std::vector<Ends>& links() const { return links_; }
    /// "spine 0 to 1, leaf 0 to 3"; "none" on a star.
    [[nodiscard]] std::string choices() const;

private:
    void add(SwitchKind k, int count);
    void join(int from, int to) { links_.push_back({from, to}); }

    void join_leaves();
    void join_tree();
    void join_groups();
    void join_torus();

    Fabric f_;
    int nodes_ = 0;
    std::array<int, switch_kinds> first_{}, counts_{};
    std::vector<Ends> links_{};
};

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/topology/impl/fabric_switches.ipp>
#endif
