// RingPass: once around a ring; what RingReduceScatter and RingAllGather share.
#pragma once

#include <gx/collective/exchange.hpp>        // Exchange
#include <gx/collective/machine_orders.hpp>  // MachineOrder
#include <gx/core/contract.hpp>              // GX_EXPECT
#include <gx/core/transport.hpp>             // Placement

namespace gx::collective::detail {

/// Position p sends chunk p + ahead to position p + 1, modulo n. It receives chunk p + ahead - 1,
/// modulo n. `ahead` is from 1 - n to n.
[[nodiscard]] constexpr Exchange ring_step(const MachineOrder& order, int rank, int ahead,
                                           Combine combine) {
    const int n = order.ranks(), p = order.position_of(rank), send = p + ahead;
    return {.to = order.rank_at((p + 1) % n),
            .send_chunk = (send + n) % n,
            .from = order.rank_at((p + n - 1) % n),
            .receive_chunk = (send - 1 + n) % n,
            .combine = combine};
}

/// n ranks in a ring, n chunks, n - 1 steps; position p owns chunk p + offset, modulo n. Step s
/// sends the chunk that is offset + Lead - s ahead of a position.
template <Combine How, int Lead>
class RingPass {
public:
    /// The ring 0, 1, 2, ..., n - 1.
    constexpr explicit RingPass(int ranks, int offset = 0)
        : RingPass(MachineOrder({1, ranks}, 0), offset) {}
    constexpr explicit RingPass(MachineOrder order, int offset = 0)
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
        return p.regular() &&
               (p == order_.placement() || (p.ranks() == ranks() && order_.is_identity()));
    }
    /// End of the phase of `step`: steps before it send as far and as much.
    [[nodiscard]] constexpr int phase_end(int) const { return steps(); }

    /// How far the chunk sent in `step` is ahead of a rank's position.
    [[nodiscard]] constexpr int ahead(int step) const { return offset_ + Lead - step; }
    [[nodiscard]] constexpr Exchange exchange(int rank, int step) const {
        return ring_step(order_, rank, ahead(step), How);
    }

private:
    MachineOrder order_;
    int offset_;
};

}  // namespace gx::collective::detail
