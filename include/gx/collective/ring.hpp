// Ring: the ring all-reduce schedule, as a pure function of rank and step.
#pragma once

#include <gx/collective/exchange.hpp>        // Exchange, Collective
#include <gx/collective/machine_orders.hpp>  // MachineOrder
#include <gx/core/transport.hpp>             // Placement

namespace gx::collective {

/// Reduce-scatter, then all-gather, around a ring of n ranks with n chunks. At position p:
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
    /// The ring 0, 1, 2, ..., n - 1.
    constexpr explicit Ring(int ranks) : Ring(MachineOrder({1, ranks}, 0)) {}
    constexpr explicit Ring(MachineOrder order) : order_(order) {}

    [[nodiscard]] constexpr int ranks() const { return order_.ranks(); }
    [[nodiscard]] constexpr int chunks() const { return ranks(); }
    [[nodiscard]] constexpr int steps() const { return 2 * (ranks() - 1); }
    [[nodiscard]] constexpr const MachineOrder& order() const { return order_; }
    /// Whether the schedule is the same on all machines of this placement (symmetry reduction).
    [[nodiscard]] constexpr bool alike_on_machines(Placement p) const {
        return p == order_.placement() || (p.ranks() == ranks() && order_.is_identity());
    }
    /// End of the phase of `step`: steps before it send as far and as much.
    [[nodiscard]] constexpr int phase_end(int) const { return steps(); }

    [[nodiscard]] constexpr Exchange exchange(int rank, int step) const {
        const int n = ranks(), p = order_.position_of(rank);
        const bool adding = step < n - 1;
        const int send = adding ? p - step : p + 1 - (step - (n - 1));
        return {.to = order_.rank_at((p + 1) % n),
                .send_chunk = wrap(send),
                .from = order_.rank_at((p + n - 1) % n),
                .receive_chunk = wrap(send - 1),
                .combine = adding ? Combine::add : Combine::copy};
    }

private:
    [[nodiscard]] constexpr int wrap(int chunk) const { return (chunk + ranks()) % ranks(); }

    MachineOrder order_;
};
static_assert(Collective<Ring>);

/// Ring k of several over one placement: each in a machine order of its own.
[[nodiscard]] constexpr Ring machine_ring(Placement placement, int k) {
    return Ring(MachineOrder(placement, k));
}

}  // namespace gx::collective
