// TreeGather: gather along a binomial tree: one chunk from each rank to a root.
#pragma once

#include <algorithm>  // max, min

#include <gx/collective/exchange.hpp>  // Exchange, Promise
#include <gx/core/contract.hpp>        // GX_EXPECT

namespace gx::collective {

/// n chunks; chunk v is that of rank (root + v) modulo n, so that subtrees are consecutive chunks:
///
///     step s:    odd multiples v of 2^s send chunks v to v + 2^s - 1, as far as there are, to
///                v - 2^s, which copies them
///
/// Shapes: every rank's data has the whole length, though only the root fills all of it.
/// Wire:  L = ceil(log2 n) steps; n - 1 messages; the root receives (n - 1) / n of the data, any
///        other rank sends that of its subtree, once. It copies, in place: no scratch.
/// Time:  L alpha + (n - 1) / n m beta for gathered data of m bytes, alpha a message, beta a byte;
///        less, where n is no power of two and messages leave before the root waits for them.
/// Source: Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication
///         operations in MPICH", there the first part of a reduction by reduce-scatter and gather.
class TreeGather {
public:
    static constexpr Promise promise = Promise::gather;

    constexpr explicit TreeGather(int ranks, int root = 0) : ranks_(ranks), root_(root) {
        GX_EXPECT(ranks > 0, "a tree needs at least one rank");
        GX_EXPECT(root >= 0 && root < ranks, "the root is one of the ranks");
        while (1 << levels_ < ranks) ++levels_;
    }

    [[nodiscard]] constexpr int ranks() const { return ranks_; }
    [[nodiscard]] constexpr int root() const { return root_; }
    [[nodiscard]] constexpr int chunks() const { return ranks_; }
    [[nodiscard]] constexpr int steps() const { return levels_; }
    [[nodiscard]] constexpr int message_chunks() const {
        if (levels_ < 2) return 1;
        return std::max(1 << (levels_ - 2), ranks_ - (1 << (levels_ - 1)));
    }
    [[nodiscard]] constexpr int owned_chunk(int rank) const {
        return (rank - root_ + ranks_) % ranks_;
    }

    [[nodiscard]] constexpr Exchange exchange(int rank, int step) const {
        const int v = owned_chunk(rank), reach = 1 << step;
        const bool takes_part = v % reach == 0, sends = v % (2 * reach) != 0;
        const int upper = sends ? v : v + reach;  // the sender, and its first chunk
        if (!takes_part || upper >= ranks_) return {};
        const int several = std::min(reach, ranks_ - upper);
        if (sends)
            return {.to = (v - reach + root_) % ranks_, .send_chunk = upper, .chunks = several};
        return {.from = (upper + root_) % ranks_, .receive_chunk = upper, .chunks = several};
    }

private:
    int ranks_;
    int root_;
    int levels_ = 0;
};

}  // namespace gx::collective
