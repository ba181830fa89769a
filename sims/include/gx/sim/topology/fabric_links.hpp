// FabricLinks: links of a fabric in a network, and deterministic routing over them.
#pragma once

#include <gx/core/decl.hpp>            // GX_HEADER_ONLY
#include <gx/sim/hardware/fabric.hpp>  // Fabric
#include <gx/sim/network/flow.hpp>     // Path
#include <gx/core/units.hpp>           // BytesPerSecond

namespace gx::sim {

class FlowNetwork;

/// Links of a fabric in a network, and the route between each pair of machines.
class FabricLinks {
public:
    /// `nic_rate` is what one NIC sends; a machine has `nics`, all on the same leaf or router.
    /// Errors: gx::Error for a fabric that check() rejects.
    FabricLinks(const Fabric& f, int machines, int nics, BytesPerSecond nic_rate,
                FlowNetwork& network);

    /// Adds the fabric's links between two machines to a path.
    void add_route(int from, int to, Path& path) const;
    [[nodiscard]] int first() const { return first_; }
    [[nodiscard]] int count() const;

private:
    void add(Path& path, int link) const { path.add(first_ + link); }

    // Links: for each leaf and spine, up and down.
    void leaf_spine_route(int from, int to, Path& path) const;

    // Links: edge to aggregation [pod][edge][up], aggregation to core [pod][up][core], and the
    // same again downwards.
    void fat_tree_route(int from, int to, Path& path) const;

    // Links: inside each group [group][router][router], then global ones [group][group].
    void dragonfly_route(int from, int to, Path& path) const;

    // Links: [machine][dimension][up or down].
    void torus_route(int from, int to, Path& path) const;

    Fabric f_;
    int machines_, first_;
};

}  // namespace gx::sim

#if defined(GX_HEADER_ONLY)
#include <gx/sim/topology/impl/fabric_links.ipp>
#endif
