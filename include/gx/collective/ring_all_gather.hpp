// RingAllGather: each rank's chunk goes around a ring; all ranks end with all chunks.
#pragma once

#include <gx/collective/detail/ring_step.hpp>  // ring_step
#include <gx/collective/exchange.hpp>          // Exchange, Promise
#include <gx/collective/machine_orders.hpp>    // MachineOrder
#include <gx/core/contract.hpp>                // GX_EXPECT
#include <gx/core/transport.hpp>               // Placement

namespace gx::collective {

/// n ranks in a ring, n chunks; position p begins with chunk p + t. In the order of the ranks and
/// with t = 0, chunk r is rank r's.
///
///     step g:    sends chunk p + t - g to position p + 1 and copies chunk p + t - 1 - g
///
/// all modulo n.
///
/// Wire:  n - 1 steps; (n - 1) / n of the data sent by each rank, the least possible. It copies, in
///        place: no scratch.
/// Time:  (n - 1) (alpha + m / n beta) for gathered data of m bytes, alpha a message, beta a byte.
/// Source: Thakur, Rabenseifner and Gropp 2005, "Optimization of collective communication
///         operations in MPICH"; Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce
///         algorithms", for the bound.
class RingAllGather {
public:
    static constexpr Promise promise = Promise::all_gather;

    /// The ring 0, 1, 2, ..., n - 1.
    constexpr explicit RingAllGather(int ranks, int offset = 0)
        : RingAllGather(MachineOrder({1, ranks}, 0), offset) {}
    constexpr explicit RingAllGather(MachineOrder order, int offset = 0)
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
    [[nodiscard]] constexpr int ahead(int step) const { return offset_ - step; }
    [[nodiscard]] constexpr Exchange exchange(int rank, int step) const {
        return detail::ring_step(order_, rank, ahead(step), Combine::copy);
    }

private:
    MachineOrder order_;
    int offset_;
};
static_assert(explain_promise<RingAllGather>());

}  // namespace gx::collective
