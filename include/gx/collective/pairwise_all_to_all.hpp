// PairwiseAllToAll: every rank swaps a chunk with every other, in place, a pair a step.
#pragma once

#include <gx/collective/exchange.hpp>  // Exchange, Promise
#include <gx/core/contract.hpp>        // GX_EXPECT

namespace gx::collective {

/// n ranks, n chunks; chunk j of rank i goes to chunk i of rank j. In each step the ranks form
/// pairs: rank r sends chunk p to its partner p, and receives into chunk p what p has for it.
///
///     n odd,  step k < n:        p = (k - r) modulo n; the rank for which p = r does nothing
///     n even, step k < n - 1:    the same modulo n - 1 for ranks below n - 1; the rank for which
///                                p = r swaps with rank n - 1
///
/// A rank's own chunk stays where it is.
///
/// Shapes: chunks of equal lengths, or of lengths[i, j] = lengths[j, i].
/// Wire:  n - 1 steps for even n, n for odd, of which each rank takes part in n - 1; (n - 1) / n of
///        the data sent by each rank. The scratch holds one chunk.
/// Time:  (n - 1) (alpha + m / n beta) for even n, data of m bytes a rank, alpha a message, beta a
///        byte. For odd n up to n alpha + (3 n + 1) / 2 m / n beta: the rank that does nothing in
///        a step sends its next message early, to a port that is still busy.
/// Source: Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication
///         operations in MPICH", for pairwise exchange, with a second buffer where n is not a power
///         of two; Sanders and Traeff 2002, "The hierarchical factor algorithm for all-to-all
///         communication", for pairs of any number of ranks.
class PairwiseAllToAll {
public:
    static constexpr Promise promise = Promise::all_to_all;

    constexpr explicit PairwiseAllToAll(int ranks) : ranks_(ranks) {
        GX_EXPECT(ranks > 0, "an exchange needs at least one rank");
    }

    [[nodiscard]] constexpr int ranks() const { return ranks_; }
    [[nodiscard]] constexpr int chunks() const { return ranks_; }
    [[nodiscard]] constexpr int steps() const { return ranks_ > 1 ? odd() : 0; }

    /// The rank that `rank` swaps with in `step`. -1: none.
    [[nodiscard]] constexpr int partner(int rank, int step) const {
        const int idle = halved(step);
        if (rank == odd()) return idle;  // of an even number of ranks, the last
        if (rank == idle) return odd() < ranks_ ? odd() : -1;
        return (step - rank + odd()) % odd();
    }
    [[nodiscard]] constexpr Exchange exchange(int rank, int step) const {
        const int peer = partner(rank, step);
        if (peer < 0) return {};
        return {.to = peer, .send_chunk = peer, .from = peer, .receive_chunk = peer};
    }

private:
    /// The largest odd number up to the number of ranks.
    [[nodiscard]] constexpr int odd() const { return ranks_ - 1 + ranks_ % 2; }
    /// The r with r + r = step modulo odd().
    [[nodiscard]] constexpr int halved(int step) const {
        return step % 2 == 0 ? step / 2 : (step + odd()) / 2;
    }

    int ranks_;
};

}  // namespace gx::collective
