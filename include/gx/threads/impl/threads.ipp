// What the ranks of one ThreadWorld::run() share: the bodies.
#pragma once

#include <algorithm>   // adjacent_find, find
#include <chrono>      // nanoseconds
#include <exception>   // current_exception
#include <functional>  // not_equal_to
#include <mutex>       // lock_guard
#include <string>      // sentences

#include <gx/core/error.hpp>       // Error
#include <gx/threads/threads.hpp>  // Run

namespace gx::detail::threads {

GX_DECL void Run::stop(int rank) {
    {
        const std::lock_guard lock(mutex);
        if (first_rank < 0) first_rank = rank;
    }
    office.stop(rank);
}

GX_DECL void Run::fail(int rank) {
    {
        const std::lock_guard lock(mutex);
        if (first_rank < 0) first_rank = rank;
        if (!first_error || (rank == first_rank && error_rank != first_rank)) {
            first_error = std::current_exception();
            error_rank = rank;
        }
    }
    office.stop(rank);
}

GX_DECL std::vector<int> ranks_without(int ranks, std::span<const int> lost) {
    std::vector<int> left;
    for (int r = 0; r < ranks; ++r)
        if (std::ranges::find(lost, r) == lost.end()) left.push_back(r);
    return left;
}

GX_DECL Placement placement_of(Placement before, const std::vector<int>& members) {
    std::vector<int> counts(static_cast<std::size_t>(before.machines), 0);
    for (const int r : members) ++counts[static_cast<std::size_t>(before.node_of(r))];
    std::erase(counts, 0);
    if (std::ranges::adjacent_find(counts, std::not_equal_to{}) == counts.end())
        return {static_cast<int>(counts.size()), counts.front()};
    return {1, static_cast<int>(members.size())};
}

GX_DECL void expect_deadline(std::chrono::nanoseconds deadline) {
    if (deadline.count() > 0) return;
    throw Error("deadline is " + std::to_string(deadline.count()) +
                " ns: it ends every wait at once; give the longest time that a message may take");
}

}  // namespace gx::detail::threads
