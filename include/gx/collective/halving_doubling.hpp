// HalvingDoubling: recursive halving, then recursive doubling: 2 log2 n steps.
#pragma once

#include <gx/collective/exchange.hpp>  // Exchange, Promise
#include <gx/core/contract.hpp>        // GX_EXPECT
#include <gx/core/transport.hpp>       // Placement

namespace gx::collective {

/// Recursive halving, then recursive doubling, over p = 2^L ranks with p chunks. Rank v in step k:
///
///     step k < L:           swaps half of what it holds with rank v xor 2^k, and adds; it keeps
///                           the lower half where bit k of v is 0
///     step k = 2 L - 1 - j: the halves of step j come back, from the same partner, as copies
///
/// Other numbers of ranks n are folded to p, the largest power of two below: of the first 2 (n - p)
/// ranks the even ones first send all to the next rank, stay out, and get the result at the end.
///
/// Order: pairs at distance 1, then 2, 4, ...; on the way to the chunk's owner "mine + received".
///        The bits depend on n and on where chunks are cut.
/// Wire:  2 L steps and 2 (p - 1) / p of the data sent by each rank; a fold adds two steps and the
///        data once more for each of its ranks.
/// Source: Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication
///         operations in MPICH"; near partners swap the largest halves.
class HalvingDoubling {
public:
    static constexpr Promise promise = Promise::all_reduce;

    constexpr explicit HalvingDoubling(int ranks) : ranks_(ranks) {
        GX_EXPECT(ranks > 0, "halving needs at least one rank");
        while (2 << levels_ <= ranks) ++levels_;
        extra_ = ranks - chunks();
    }

    [[nodiscard]] constexpr int ranks() const { return ranks_; }
    [[nodiscard]] constexpr int chunks() const { return 1 << levels_; }
    [[nodiscard]] constexpr int steps() const { return 2 * (levels_ + (extra_ > 0 ? 1 : 0)); }
    [[nodiscard]] constexpr int message_chunks() const {
        return extra_ > 0 || levels_ == 0 ? chunks() : chunks() / 2;
    }
    /// Whether the schedule is the same on all machines of this placement (symmetry reduction).
    [[nodiscard]] constexpr bool alike_on_machines(Placement) const { return extra_ == 0; }

    [[nodiscard]] constexpr Exchange exchange(int rank, int step) const {
        if (extra_ > 0) {
            if (step == 0 || step == steps() - 1) return fold(rank, step == 0);
            --step;
            if (rank < 2 * extra_ && rank % 2 == 0) return {};
        }
        const bool halving = step < levels_;
        const int k = halving ? step : 2 * levels_ - 1 - step;
        const int v = virtual_rank(rank), half = chunks() >> (k + 1);
        const int lower = held(v, k), upper = lower + half;
        const bool keeps_upper = (v >> k & 1) != 0;
        const int mine = keeps_upper ? upper : lower, other = keeps_upper ? lower : upper;
        const int peer = real_rank(v ^ 1 << k);
        return {.to = peer,
                .send_chunk = halving ? other : mine,
                .from = peer,
                .receive_chunk = halving ? mine : other,
                .combine = halving ? Combine::add : Combine::copy,
                .chunks = half};
    }

private:
    [[nodiscard]] constexpr Exchange fold(int rank, bool in) const {
        if (rank >= 2 * extra_) return {};
        const bool even = rank % 2 == 0;
        const int peer = even ? rank + 1 : rank - 1;
        if (even == in) return {.to = peer, .send_chunk = 0, .chunks = chunks()};
        return {.from = peer,
                .receive_chunk = 0,
                .combine = in ? Combine::add : Combine::copy,
                .chunks = chunks()};
    }
    [[nodiscard]] constexpr int virtual_rank(int rank) const {
        return rank < 2 * extra_ ? rank / 2 : rank - extra_;
    }
    [[nodiscard]] constexpr int real_rank(int v) const {
        return v < extra_ ? 2 * v + 1 : v + extra_;
    }
    /// The first chunk that v holds before step k.
    [[nodiscard]] constexpr int held(int v, int k) const {
        int first = 0;
        for (int j = 0; j < k; ++j) first += (v >> j & 1) * (chunks() >> (j + 1));
        return first;
    }

    int ranks_;
    int levels_ = 0;
    int extra_ = 0;
};

}  // namespace gx::collective
