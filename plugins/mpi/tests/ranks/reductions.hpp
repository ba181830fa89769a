// Reductions of every reducer of gx and of its plugins, to compare on MPI with threads.
#pragma once

#include <string>  // differences

#include <gx/testing/any_rank.hpp>  // AnyWorld

namespace gx::mpi_tests {

/// How many reducers there are, and the sentences of what differs.
struct Compared {
    int reducers = 0, reductions = 0;
    std::string differences{};
};

/// Reduces the same rows on `world` and on threads, with each reducer, and compares the row and the
/// report of rank `me`, whose function `world` runs in this process.
Compared compare_with_threads(const testing::AnyWorld& world, int me, int ranks);

}  // namespace gx::mpi_tests
