// Worlds that the suites run on: a callable that runs a rank function on a world of a placement.
#pragma once

#include <cstdint>  // int64_t
#include <vector>   // jobs

#include <gx/core/contract.hpp>    // GX_EXPECT
#include <gx/core/threads.hpp>     // ThreadWorld
#include <gx/reducer/concept.hpp>  // Reducer
#include <gx/testing/rows.hpp>     // Rows

namespace gx::testing {

/// `on(placement, f)` calls f(rank) for every rank of a world of threads. Write another like it for
/// a world of your own: any callable of this form will do.
struct OnThreads {
    template <class F>
    void operator()(Placement placement, F f) const {
        ThreadWorld<>({.placement = placement}).run(f);
    }
};

/// What became of several reductions in a row: rows and reports, each [job][rank].
struct Outcome {
    std::vector<Rows> rows;
    std::vector<std::vector<ReduceReport>> reports;
};

/// Reduces jobs one after the other, by one R per rank. Rank `dead_rank` takes no part.
template <Reducer R, class Worlds>
[[nodiscard]] Outcome reduce_jobs(const Worlds& on, Placement placement, std::vector<Rows> jobs,
                                  int dead_rank = -1) {
    const auto ranks = static_cast<std::size_t>(placement.ranks());
    std::size_t largest = 0;
    for (const Rows& rows : jobs) {
        GX_EXPECT(rows.size() == ranks, "one row for each rank");
        largest = std::max(largest, rows[0].size());
    }
    std::vector<std::vector<ReduceReport>> reports(jobs.size(), std::vector<ReduceReport>(ranks));
    on(placement, [&](auto& rank) {
        if (rank.rank() == dead_rank) return;
        const auto r = static_cast<std::size_t>(rank.rank());
        R reducer;
        reducer.reserve(placement, static_cast<std::int64_t>(largest));
        for (std::size_t j = 0; j < jobs.size(); ++j) {
            reports[j][r] = reducer.all_reduce(rank.transport(), std::span<float>(jobs[j][r]));
            if (!reports[j][r].complete()) return;
        }
    });
    return {std::move(jobs), std::move(reports)};
}

}  // namespace gx::testing
