// Tree: binomial-tree reduce and broadcast: the fewest steps, for small buckets.
#pragma once

#include <gx/collective/exchange.hpp>        // Exchange, Promise
#include <gx/collective/tree_broadcast.hpp>  // TreeBroadcast

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
    static constexpr Promise promise = Promise::all_reduce;

    constexpr explicit Tree(int ranks) : broadcast_(ranks) {}

    [[nodiscard]] constexpr int ranks() const { return broadcast_.ranks(); }
    [[nodiscard]] constexpr int chunks() const { return 1; }
    [[nodiscard]] constexpr int steps() const { return 2 * broadcast_.steps(); }

    [[nodiscard]] constexpr Exchange exchange(int rank, int step) const {
        const int levels = broadcast_.steps();
        if (step >= levels) return broadcast_.exchange(rank, step - levels);
        const Exchange down = broadcast_.exchange(rank, levels - 1 - step);
        return {.to = down.from,
                .send_chunk = down.receive_chunk,
                .from = down.to,
                .receive_chunk = down.send_chunk,
                .combine = down.to >= 0 ? Combine::add : Combine::copy};
    }

private:
    TreeBroadcast broadcast_;
};

}  // namespace gx::collective
