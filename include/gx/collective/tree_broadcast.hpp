// TreeBroadcast: from one rank to all along a binomial tree: the fewest steps.
#pragma once

#include <gx/collective/exchange.hpp>  // Exchange, Promise
#include <gx/core/contract.hpp>        // GX_EXPECT

namespace gx::collective {

/// The data as one chunk. With v = (rank - root) modulo n and L = ceil(log2 n):
///
///     step g:    multiples v of 2^(L - g) send to v + 2^(L - 1 - g), where there is such a rank
///
/// Wire:  L steps; the root sends the data L times, others at most that, in all n - 1 messages. It
///        copies, in place: no scratch.
/// Time:  L (alpha + m beta) for data of m bytes, alpha a message, beta a byte.
/// Source: Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication
///         operations in MPICH", for short messages.
class TreeBroadcast {
public:
    static constexpr Promise promise = Promise::broadcast;

    constexpr explicit TreeBroadcast(int ranks, int root = 0) : ranks_(ranks), root_(root) {
        GX_EXPECT(ranks > 0, "a tree needs at least one rank");
        GX_EXPECT(root >= 0 && root < ranks, "the root is one of the ranks");
        while (1 << levels_ < ranks) ++levels_;
    }

    [[nodiscard]] constexpr int ranks() const { return ranks_; }
    [[nodiscard]] constexpr int root() const { return root_; }
    [[nodiscard]] constexpr int chunks() const { return 1; }
    [[nodiscard]] constexpr int steps() const { return levels_; }

    [[nodiscard]] constexpr Exchange exchange(int rank, int step) const {
        const int v = (rank - root_ + ranks_) % ranks_, reach = 1 << (levels_ - 1 - step);
        const bool takes_part = v % reach == 0, receives = v % (2 * reach) != 0;
        const int peer = receives ? v - reach : v + reach;
        if (!takes_part || peer >= ranks_) return {};
        const int peer_rank = (peer + root_) % ranks_;
        if (receives) return {.from = peer_rank, .receive_chunk = 0};
        return {.to = peer_rank, .send_chunk = 0};
    }

private:
    int ranks_;
    int root_;
    int levels_ = 0;
};

}  // namespace gx::collective
