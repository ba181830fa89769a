// OnThreads, reduce_jobs: the world of threads that checks run on, and reductions on any world.
#pragma once

#include <algorithm>  // max
#include <chrono>     // the deadline
#include <cstdint>    // int64_t
#include <utility>    // move
#include <vector>     // jobs

#include <gx/core/contract.hpp>          // GX_EXPECT
#include <gx/threads/threads.hpp>        // ThreadWorld
#include <gx/reducer/concept.hpp>        // Reducer
#include <gx/testing/arrival_order.hpp>  // ArrivalOrder
#include <gx/testing/rows.hpp>           // Rows

namespace gx::testing {

/// Threads whose messages arrive in an order drawn from a seed.
struct OnReorderedThreads {
    std::uint64_t seed = 0;
    std::chrono::nanoseconds deadline = std::chrono::seconds(60);  ///< of one wait
    template <class F>
    void operator()(Placement placement, F f) const {
        ArrivalOrder order(placement.ranks(), seed);
        ThreadWorld<>({.placement = placement, .deadline = deadline}).run([&](auto& rank) {
            const detail::LeaveAtEnd leave(order, rank.rank());
            ReorderedTransport link(rank.transport(), order);
            RankWithTransport reordered(rank, link);
            f(reordered);
        });
    }
};

/// `on(placement, f)` calls f(rank) for every rank of a world of threads. For a world of your own
/// write a callable of the same form; `reordered(seed)` is optional, and without it the check
/// "arrival" is skipped.
struct OnThreads {
    std::chrono::nanoseconds deadline = std::chrono::seconds(60);  ///< of one wait

    template <class F>
    void operator()(Placement placement, F f) const {
        ThreadWorld<>({.placement = placement, .deadline = deadline}).run(f);
    }
    [[nodiscard]] OnReorderedThreads reordered(std::uint64_t seed) const {
        return {seed, deadline};
    }
};

/// The results of consecutive reductions: rows and reports, each [job][rank].
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
        reducer.reserve(ReducePlan::whole(placement, static_cast<std::int64_t>(largest)));
        for (std::size_t j = 0; j < jobs.size(); ++j) {
            Bucket bucket(jobs[j][r]);
            bucket.gradient = j;
            reports[j][r] = reducer.all_reduce(rank.transport(), bucket);
            if (!reports[j][r].complete()) return;
            if constexpr (Settles<R>) reducer.settle(j, true);
        }
    });
    return {std::move(jobs), std::move(reports)};
}

}  // namespace gx::testing
