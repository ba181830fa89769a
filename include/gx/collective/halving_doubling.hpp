// HalvingDoubling: recursive halving, then recursive doubling: 2 log2 n steps.
#pragma once

#include <gx/collective/detail/power_of_two_fold.hpp>  // PowerOfTwoFold
#include <gx/collective/exchange.hpp>                  // Exchange, Promise
#include <gx/core/transport.hpp>                       // Placement

namespace gx::collective {

/// Recursive halving, then recursive doubling, over p = 2^L ranks with p chunks. Rank v in step k:
///
///     step k < L:           swaps half of what it holds with rank v xor 2^k, and adds; it keeps
///                           the lower half where bit k of v is 0
///     step k = 2 L - 1 - j: the halves of step j come back, from the same partner, as copies
///
/// Other numbers of ranks are folded to p, the largest power of two below: PowerOfTwoFold.
///
/// Order: pairs at distance 1, then 2, 4, ...; on the way to the chunk's owner "mine + received".
///        The bits depend on n and on where chunks are cut.
/// Wire:  2 L steps and 2 (p - 1) / p of the data sent by each rank; a fold adds two
///        steps: of the ranks that it pairs, the even ones send the data once in all, the odd ones
///        once more.
/// Source: Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication
///         operations in MPICH"; near partners swap the largest halves.
class HalvingDoubling {
public:
    static constexpr Promise promise = Promise::all_reduce;

    constexpr explicit HalvingDoubling(int ranks) : fold_(ranks) {}

    [[nodiscard]] constexpr int ranks() const { return fold_.ranks(); }
    [[nodiscard]] constexpr int chunks() const { return 1 << fold_.levels(); }
    [[nodiscard]] constexpr int steps() const {
        return 2 * (fold_.levels() + (fold_.is_needed() ? 1 : 0));
    }
    [[nodiscard]] constexpr int message_chunks() const {
        return fold_.is_needed() || fold_.levels() == 0 ? chunks() : chunks() / 2;
    }
    /// Whether the schedule is the same on all machines of this placement (symmetry reduction).
    [[nodiscard]] constexpr bool alike_on_machines(Placement) const { return !fold_.is_needed(); }

    [[nodiscard]] constexpr Exchange exchange(int rank, int step) const {
        if (fold_.is_needed()) {
            if (step == 0 || step == steps() - 1) return fold_.exchange(rank, step == 0, chunks());
            --step;
            if (fold_.stays_out(rank)) return {};
        }
        const int levels = fold_.levels();
        const bool halving = step < levels;
        const int k = halving ? step : 2 * levels - 1 - step;
        const int v = fold_.virtual_rank(rank), half = chunks() >> (k + 1);
        const int lower = held(v, k), upper = lower + half;
        const bool keeps_upper = (v >> k & 1) != 0;
        const int mine = keeps_upper ? upper : lower, other = keeps_upper ? lower : upper;
        const int peer = fold_.real_rank(v ^ 1 << k);
        return {.to = peer,
                .send_chunk = halving ? other : mine,
                .from = peer,
                .receive_chunk = halving ? mine : other,
                .combine = halving ? Combine::add : Combine::copy,
                .chunks = half};
    }

private:
    /// The first chunk that v holds before step k.
    [[nodiscard]] constexpr int held(int v, int k) const {
        int first = 0;
        for (int j = 0; j < k; ++j) first += (v >> j & 1) * (chunks() >> (j + 1));
        return first;
    }

    detail::PowerOfTwoFold fold_;
};

}  // namespace gx::collective
