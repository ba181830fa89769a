// DirectReduceScatter: every rank sends each chunk straight to the rank that sums it.
#pragma once

#include <gx/collective/exchange.hpp>  // Exchange, Promise
#include <gx/core/contract.hpp>        // GX_EXPECT

namespace gx::collective {

/// n ranks, n chunks; rank r owns chunk r.
///
///     step s:    rank r sends chunk r + s + 1 to its owner and adds what rank r - s - 1 sends it
///
/// all modulo n. A rank sends nothing that it has received: no step needs one before it, so all of
/// them may be under way at once, and the owner may add in any order that it likes.
///
/// Order: executed step by step, the sum of chunk r is ((x[r] + x[r-1]) + x[r-2]) + ... +
///        x[r+1]. RankOrderMean (reducer/rank_order_mean.hpp) adds from rank 0 up.
/// Wire:  n - 1 steps; (n - 1) / n of the data sent by each rank, the least possible.
/// Time:  (n - 1) (alpha + m / n beta) step by step, for data of m bytes, alpha a message, beta a
///        byte; alpha + (n - 1) / n m beta with all steps at once.
/// Source: Li et al. 2014, "Scaling distributed machine learning with the parameter server", OSDI,
///         for servers that hold a part each; its workers and servers are one here.
class DirectReduceScatter {
public:
    static constexpr Promise promise = Promise::reduce_scatter;

    constexpr explicit DirectReduceScatter(int ranks) : ranks_(ranks) {
        GX_EXPECT(ranks > 0, "a sum needs at least one rank");
    }

    [[nodiscard]] constexpr int ranks() const { return ranks_; }
    [[nodiscard]] constexpr int chunks() const { return ranks_; }
    [[nodiscard]] constexpr int steps() const { return ranks_ - 1; }
    [[nodiscard]] constexpr int owned_chunk(int rank) const { return rank; }
    [[nodiscard]] constexpr Exchange exchange(int rank, int step) const {
        const int to = (rank + step + 1) % ranks_;
        return {.to = to,
                .send_chunk = to,
                .from = (rank + ranks_ - step - 1) % ranks_,
                .receive_chunk = rank,
                .combine = Combine::add};
    }

private:
    int ranks_;
};

}  // namespace gx::collective
