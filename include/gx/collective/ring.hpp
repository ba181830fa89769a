// Ring: the ring all-reduce schedule: a ring reduce-scatter, then a ring all-gather.
#pragma once

#include <gx/collective/detail/ring_pass.hpp>     // ring_step
#include <gx/collective/exchange.hpp>             // Exchange, Promise
#include <gx/collective/machine_orders.hpp>       // MachineOrder
#include <gx/collective/ring_all_gather.hpp>      // RingAllGather
#include <gx/collective/ring_reduce_scatter.hpp>  // RingReduceScatter
#include <gx/core/transport.hpp>                  // Placement

namespace gx::collective {

/// Reduce-scatter, then all-gather, around a ring of n ranks with n chunks; both with an offset of
/// 1. At position p:
///
///     step s < n - 1:            sends chunk p - s to position p + 1 and adds chunk p - 1 - s
///     step s = n - 1 + g:        sends chunk p + 1 - g to position p + 1 and copies chunk p - g
///
/// all modulo n. After the first half position p owns the whole sum of chunk p + 1.
///
/// Order: the sum of chunk c starts at position c and goes up: ((x[c] + x[c+1]) + x[c+2]) + ...
///        So the bits depend on n, on the order of the ranks and on where chunks are cut.
/// Wire:  2 (n - 1) steps; 2 (n - 1) / n of the data sent by each rank.
/// Source: Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms".
class Ring {
public:
    static constexpr Promise promise = Promise::all_reduce;

    /// The ring 0, 1, 2, ..., n - 1.
    constexpr explicit Ring(int ranks) : Ring(MachineOrder({1, ranks}, 0)) {}
    constexpr explicit Ring(MachineOrder order)
        : reduce_scatter_(order, 1), all_gather_(order, 1) {}

    /// The first half: with its sums, an all-gather later gives the bits of this all-reduce.
    [[nodiscard]] constexpr const RingReduceScatter& reduce_scatter() const {
        return reduce_scatter_;
    }
    /// The second half.
    [[nodiscard]] constexpr const RingAllGather& all_gather() const { return all_gather_; }

    [[nodiscard]] constexpr int ranks() const { return order().ranks(); }
    [[nodiscard]] constexpr int chunks() const { return ranks(); }
    [[nodiscard]] constexpr int steps() const { return 2 * (ranks() - 1); }
    [[nodiscard]] constexpr const MachineOrder& order() const { return reduce_scatter_.order(); }
    /// Whether the schedule is the same on all machines of this placement (symmetry reduction).
    [[nodiscard]] constexpr bool alike_on_machines(Placement p) const {
        return reduce_scatter_.alike_on_machines(p);
    }
    /// End of the phase of `step`: steps before it send as far and as much.
    [[nodiscard]] constexpr int phase_end(int) const { return steps(); }

    [[nodiscard]] constexpr Exchange exchange(int rank, int step) const {
        const int half = reduce_scatter_.steps();
        const bool adding = step < half;
        return detail::ring_step(
            order(), rank, adding ? reduce_scatter_.ahead(step) : all_gather_.ahead(step - half),
            adding ? Combine::add : Combine::copy);
    }

private:
    RingReduceScatter reduce_scatter_;
    RingAllGather all_gather_;
};

/// Ring k of several over one placement: each in a machine order of its own.
[[nodiscard]] constexpr Ring machine_ring(Placement placement, int k) {
    return Ring(MachineOrder(placement, k));
}

}  // namespace gx::collective
