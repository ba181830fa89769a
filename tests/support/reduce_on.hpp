// reduce_on<R>: the one place where tests build a world to reduce rows on.
#pragma once

#include <chrono>  // seconds

#include <gx/testing/worlds.hpp>  // OnThreads, reduce_jobs

using gx::testing::Rows;

struct Fabric {
    int ranks = 1;
    int machines = 1;    ///< ranks are spread over so many
    int dead_rank = -1;  ///< takes no part
    [[nodiscard]] gx::Placement placement() const { return {machines, ranks / machines}; }
};

/// A report that a test may ignore when it looks at the rows instead.
struct Told : gx::ReduceReport {};

/// Replaces every row by the mean, on threads; answers the report of the first live rank.
template <class R>
Told reduce_on(Fabric fabric, Rows& rows) {
    // Where ranks wait for several messages each, only the deadline tells that one is lost.
    const std::chrono::seconds deadline(fabric.dead_rank < 0 ? 60 : 1);
    auto out = gx::testing::reduce_jobs<R>(gx::testing::OnThreads{deadline}, fabric.placement(),
                                           {rows}, fabric.dead_rank);
    rows = std::move(out.rows[0]);
    return {out.reports[0][fabric.dead_rank == 0 ? 1 : 0]};
}
