// Reductions of every reducer of gx and of its plugins, and the conformance kit, on MPI.
#pragma once

#include <string>  // differences

#include <gx/testing/any_rank.hpp>  // AnyWorld

namespace gx::mpi_tests {

/// How many reducers there are, and the sentences of what differs.
struct Compared {
    int reducers = 0, reductions = 0;
    std::string differences{};
};

/// Reduces the same rows on `world` and on threads, with each reducer whose name contains `part`,
/// and compares the row and the report of rank `me`, whose function `world` runs in this process.
Compared compare_with_threads(const testing::AnyWorld& world, int me, int ranks,
                              const std::string& part = "");

/// Every check of the conformance kit of the reducers whose names contain `part`: a line for each
/// of them, then what was violated. `reducers`: how many there were.
std::string check_conformance(const testing::AnyWorld& world, const std::string& part,
                              int& reducers);

/// Reducers with a seeded bug of which each is rejected by its check: "rejected", or their names.
std::string check_seeded_bugs(const testing::AnyWorld& world);

}  // namespace gx::mpi_tests
