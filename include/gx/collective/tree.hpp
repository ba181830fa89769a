// Tree: binomial-tree reduce and broadcast: the fewest steps, for small buckets.
#pragma once

#include <gx/collective/exchange.hpp>  // Exchange, Collective
#include <gx/core/contract.hpp>        // GX_EXPECT

namespace gx::collective {

/// Reduction to rank 0, then broadcast from it, of the data as one chunk, with L = ceil(log2 n):
///
///     step s < L:        ranks that are odd multiples of 2^s send to the one 2^s below, which adds
///     step s = L + g:    the same pairs of step L - 1 - g, downwards; the upper one copies
///
/// Order: neighbours first: ((x[0] + x[1]) + (x[2] + x[3])) + ...; the bits depend on n only.
/// Wire:  2 L steps; rank 0 sends the data L times, others at most that, in all 2 (n - 1) messages.
/// Source: Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication
///         operations in MPICH".
class Tree {
public:
    constexpr explicit Tree(int ranks) : ranks_(ranks) {
        GX_EXPECT(ranks > 0, "a tree needs at least one rank");
        while (1 << levels_ < ranks) ++levels_;
    }

    [[nodiscard]] constexpr int ranks() const { return ranks_; }
    [[nodiscard]] constexpr int chunks() const { return 1; }
    [[nodiscard]] constexpr int steps() const { return 2 * levels_; }

    [[nodiscard]] constexpr Exchange exchange(int rank, int step) const {
        const bool up = step < levels_;
        const int reach = 1 << (up ? step : 2 * levels_ - 1 - step);
        const bool takes_part = rank % reach == 0, is_upper = rank % (2 * reach) != 0;
        const int peer = is_upper ? rank - reach : rank + reach;
        if (!takes_part || peer >= ranks_) return {};
        if (is_upper == up) return {.to = peer, .send_chunk = 0};
        return {.from = peer, .receive_chunk = 0, .combine = up ? Combine::add : Combine::copy};
    }

private:
    int ranks_;
    int levels_ = 0;
};
static_assert(Collective<Tree>);

}  // namespace gx::collective
