// RingReduceScatter: sums around a ring; each rank ends with one chunk of the sum.
#pragma once

#include <gx/collective/detail/ring_step.hpp>  // ring_step
#include <gx/collective/exchange.hpp>          // Exchange, Promise
#include <gx/collective/machine_orders.hpp>    // MachineOrder
#include <gx/core/contract.hpp>                // GX_EXPECT
#include <gx/core/transport.hpp>               // Placement

namespace gx::collective {

/// n ranks in a ring, n chunks. At position p, with an offset t of the owned chunks:
///
///     step s:    sends chunk p + t - 1 - s to position p + 1 and adds chunk p + t - 2 - s
///
/// all modulo n. Position p ends with the whole sum of chunk p + t: of its own, where t is 0.
///
/// Order: the sum of chunk c starts at position c - t + 1 and goes up:
///        ((x[c-t+1] + x[c-t+2]) + ...) + x[c-t]. With t = 1 it is that of an all-reduce by Ring,
///        bit for bit. The bits depend on n, on t, on the order of the ranks and on where chunks
///        are cut.
/// Wire:  n - 1 steps; (n - 1) / n of the data sent by each rank, the least possible.
/// Time:  (n - 1) (alpha + m / n beta) for data of m bytes, alpha a message, beta a byte.
/// Source: Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication
///         operations in MPICH"; Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce
///         algorithms", for the bound.
class RingReduceScatter {
public:
    static constexpr Promise promise = Promise::reduce_scatter;

    /// The ring 0, 1, 2, ..., n - 1.
    constexpr explicit RingReduceScatter(int ranks, int offset = 0)
        : RingReduceScatter(MachineOrder({1, ranks}, 0), offset) {}
    constexpr explicit RingReduceScatter(MachineOrder order, int offset = 0)
        : order_(order), offset_(offset % order.ranks()) {
        GX_EXPECT(offset >= 0, "chunks are owned from 0 on: an offset of at least 0");
    }

    [[nodiscard]] constexpr int ranks() const { return order_.ranks(); }
    [[nodiscard]] constexpr int chunks() const { return ranks(); }
    [[nodiscard]] constexpr int steps() const { return ranks() - 1; }
    [[nodiscard]] constexpr const MachineOrder& order() const { return order_; }
    [[nodiscard]] constexpr int owned_chunk(int rank) const {
        return (order_.position_of(rank) + offset_) % ranks();
    }
    /// Whether the schedule is the same on all machines of this placement (symmetry reduction).
    [[nodiscard]] constexpr bool alike_on_machines(Placement p) const {
        return p == order_.placement() || (p.ranks() == ranks() && order_.is_identity());
    }
    /// End of the phase of `step`: steps before it send as far and as much.
    [[nodiscard]] constexpr int phase_end(int) const { return steps(); }

    /// How far the chunk sent in `step` is ahead of a rank's position.
    [[nodiscard]] constexpr int ahead(int step) const { return offset_ - 1 - step; }
    [[nodiscard]] constexpr Exchange exchange(int rank, int step) const {
        return detail::ring_step(order_, rank, ahead(step), Combine::add);
    }

private:
    MachineOrder order_;
    int offset_;
};
static_assert(explain_promise<RingReduceScatter>());

}  // namespace gx::collective
