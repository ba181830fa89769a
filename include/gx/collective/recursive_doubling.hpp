// RecursiveDoubling: ranks swap all of their sums in pairs: log2 n steps.
#pragma once

#include <gx/collective/detail/power_of_two_fold.hpp>  // PowerOfTwoFold
#include <gx/collective/exchange.hpp>                  // Exchange, Promise
#include <gx/core/transport.hpp>                       // Placement

namespace gx::collective {

/// Recursive doubling over p = 2^L ranks, the data in one chunk:
///
///     step k < L:  swaps all of it with rank v xor 2^k, and adds
///
/// L steps, half of HalvingDoubling's, of the whole data each: for data so small that the latency
/// of a step is most of its time. Other numbers of ranks are folded to p, the largest power of two
/// below: PowerOfTwoFold.
///
/// Order: pairs at distance 1, then 2, 4, ..., what the lower one has first, on both sides. The
///        bits depend on n alone, not on where data is cut.
/// Wire:  L steps and L times the data sent by each rank. A fold adds two steps: of the ranks that
///        it pairs, the even ones send the data once in all, the odd ones L + 1 times.
/// Cost:  a pass of additions over the data in each step, and a copy of it on the upper rank.
/// Source: Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication
///         operations in MPICH".
class RecursiveDoubling {
public:
    static constexpr Promise promise = Promise::all_reduce;

    constexpr explicit RecursiveDoubling(int ranks) : fold_(ranks) {}

    [[nodiscard]] constexpr int ranks() const { return fold_.ranks(); }
    [[nodiscard]] constexpr int chunks() const { return 1; }
    [[nodiscard]] constexpr int steps() const {
        return fold_.levels() + (fold_.is_needed() ? 2 : 0);
    }
    /// Whether the schedule is the same on all machines of this placement (symmetry reduction).
    [[nodiscard]] constexpr bool alike_on_machines(Placement) const { return !fold_.is_needed(); }

    [[nodiscard]] constexpr Exchange exchange(int rank, int step) const {
        if (fold_.is_needed()) {
            if (step == 0 || step == steps() - 1) return fold_.exchange(rank, step == 0, 1);
            --step;
            if (fold_.stays_out(rank)) return {};
        }
        const int v = fold_.virtual_rank(rank), peer = fold_.real_rank(v ^ 1 << step);
        return {.to = peer,
                .send_chunk = 0,
                .from = peer,
                .receive_chunk = 0,
                .combine = (v >> step & 1) != 0 ? Combine::add_to_received : Combine::add};
    }

private:
    detail::PowerOfTwoFold fold_;
};

}  // namespace gx::collective
