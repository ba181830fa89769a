// ring_step: one step around a ring, as ring collectives share it.
#pragma once

#include <gx/collective/exchange.hpp>        // Exchange
#include <gx/collective/machine_orders.hpp>  // MachineOrder

namespace gx::collective::detail {

/// Position p sends chunk p + ahead to position p + 1 and receives chunk p + ahead - 1, modulo n.
/// `ahead` is from 1 - n to n.
[[nodiscard]] constexpr Exchange ring_step(const MachineOrder& order, int rank, int ahead,
                                           Combine combine) {
    const int n = order.ranks(), p = order.position_of(rank), send = p + ahead;
    return {.to = order.rank_at((p + 1) % n),
            .send_chunk = (send + n) % n,
            .from = order.rank_at((p + n - 1) % n),
            .receive_chunk = (send - 1 + n) % n,
            .combine = combine};
}

}  // namespace gx::collective::detail
