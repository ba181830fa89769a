// expect_ranks: the check of a Placement that the user has written.
#pragma once

#include <cstddef>  // size_t
#include <cstdint>  // int64_t
#include <limits>   // int
#include <map>      // ranks of machines
#include <string>   // sentences

#include <gx/core/cold.hpp>       // GX_COLD
#include <gx/core/error.hpp>      // Error
#include <gx/core/transport.hpp>  // Placement

namespace gx::detail {

/// Errors: gx::Error naming the first rank whose machine or local rank is none.
GX_COLD inline void expect_nodes(const NodeMap& nodes, int machines) {
    const std::size_t ranks = nodes.node.size();
    if (ranks == 0 || nodes.local_rank.size() != ranks)
        throw Error("placement.nodes names machines of " + std::to_string(ranks) +
                    " ranks, and places on them of " + std::to_string(nodes.local_rank.size()) +
                    ": give both of each rank, and at least 1 rank");
    std::map<int, int> lower;  // ranks so far, of each machine
    for (std::size_t r = 0; r < ranks; ++r) {
        const int node = nodes.node[r], local = nodes.local_rank[r];
        const std::string rank = "placement.nodes: rank " + std::to_string(r);
        if (node < 0 || node >= machines)
            throw Error(rank + " is on machine " + std::to_string(node) + " of " +
                        std::to_string(machines) +
                        ": machines count from 0, and placement.machines counts them");
        if (local != lower[node]++)
            throw Error(rank + " is local rank " + std::to_string(local) + " of machine " +
                        std::to_string(node) + ", which has " + std::to_string(lower[node] - 1) +
                        " lower ranks: a local rank is their number");
    }
}

/// Errors: gx::Error naming the field of a placement that holds no rank, or more than are counted,
/// or the rank that a ragged one places where none can be.
GX_COLD inline void expect_ranks(const Placement& p) {
    const auto check = [](const char* field, int value) {
        if (value < 1)
            throw Error(std::string("placement.") + field + " is " + std::to_string(value) +
                        ": a world has at least 1 machine with 1 rank");
    };
    check("machines", p.machines);
    if (!p.regular()) return expect_nodes(*p.nodes, p.machines);
    check("ranks_per_machine", p.ranks_per_machine);
    if (std::int64_t{p.machines} * p.ranks_per_machine > std::numeric_limits<int>::max())
        throw Error("placement has " + std::to_string(p.machines) + " machines of " +
                    std::to_string(p.ranks_per_machine) + " ranks: at most " +
                    std::to_string(std::numeric_limits<int>::max()) + " ranks are counted");
}

}  // namespace gx::detail
