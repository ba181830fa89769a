// expect_ranks: the check of a Placement that the user has written.
#pragma once

#include <cstddef>  // size_t
#include <cstdint>  // int64_t
#include <limits>   // int
#include <string>   // sentences

#include <gx/core/cold.hpp>       // GX_COLD
#include <gx/core/error.hpp>      // Error
#include <gx/core/transport.hpp>  // Placement

namespace gx::detail {

/// Errors: gx::Error naming the field of a placement that holds no rank, or more than are counted.
GX_COLD inline void expect_ranks(const Placement& p) {
    if (!p.regular()) {
        const std::size_t ranks = p.nodes->node.size();
        if (ranks == 0 || p.nodes->local_rank.size() != ranks)
            throw Error("placement.nodes names machines of " + std::to_string(ranks) +
                        " ranks, and places on them of " +
                        std::to_string(p.nodes->local_rank.size()) +
                        ": give both of each rank, and at least 1 rank");
        return;
    }
    const auto check = [](const char* field, int value) {
        if (value < 1)
            throw Error(std::string("placement.") + field + " is " + std::to_string(value) +
                        ": a world has at least 1 machine with 1 rank");
    };
    check("machines", p.machines);
    check("ranks_per_machine", p.ranks_per_machine);
    if (std::int64_t{p.machines} * p.ranks_per_machine > std::numeric_limits<int>::max())
        throw Error("placement has " + std::to_string(p.machines) + " machines of " +
                    std::to_string(p.ranks_per_machine) + " ranks: at most " +
                    std::to_string(std::numeric_limits<int>::max()) + " ranks are counted");
}

}  // namespace gx::detail
