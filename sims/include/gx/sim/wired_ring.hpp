// WiredRing: a ring all-reduce along a machine's NVLinks, one of the channels that use them all.
#pragma once

#include <algorithm>  // max
#include <array>      // orders
#include <cstddef>    // size_t
#include <vector>     // channels

#include <gx/collective/exchange.hpp>  // Exchange
#include <gx/core/contract.hpp>        // GX_EXPECT
#include <gx/sim/machine_routes.hpp>   // MachineRoutes

namespace gx::sim {

/// Channel c of an all-reduce as NCCL lays it: inside every machine along ring c / 2 of its wiring,
/// machines one after another, all of it backwards where c is odd. It enters and leaves a machine
/// where the NIC c / 2 is nearest.
///
/// Order: as collective::Ring, by position: ((x[c] + x[c+1]) + x[c+2]) + ...
/// Wire:  2 (n - 1) steps; 2 (n - 1) / n of the channel's data sent by each rank.
/// Errors: a machine of more than 16 GPUs breaks the contract.
class WiredRing {
public:
    WiredRing(const ClusterSpec& spec, int channel)
        : WiredRing(spec, channel, MachineRoutes(spec)) {}

    [[nodiscard]] int ranks() const { return machines_ * gpus_; }
    [[nodiscard]] int chunks() const { return ranks(); }
    [[nodiscard]] int steps() const { return 2 * (ranks() - 1); }
    [[nodiscard]] bool alike_on_machines(Placement p) const {
        return p == Placement{machines_, gpus_};
    }
    [[nodiscard]] int phase_end(int) const { return steps(); }

    [[nodiscard]] Exchange exchange(int rank, int step) const {
        const int n = ranks(), p = position_of(rank);
        const bool adding = step < n - 1;
        const int send = adding ? p - step : p + 1 - (step - (n - 1));
        return {.to = rank_at((p + 1) % n),
                .send_chunk = (send + n) % n,
                .from = rank_at((p + n - 1) % n),
                .receive_chunk = (send - 1 + n) % n,
                .combine = adding ? Combine::add : Combine::copy};
    }
    [[nodiscard]] int rank_at(int position) const {
        const int p = backwards_ ? ranks() - 1 - position : position;
        return p / gpus_ * gpus_ + order_[static_cast<std::size_t>(p % gpus_)];
    }
    [[nodiscard]] int position_of(int rank) const {
        const int p = rank / gpus_ * gpus_ + place_[static_cast<std::size_t>(rank % gpus_)];
        return backwards_ ? ranks() - 1 - p : p;
    }

private:
    WiredRing(const ClusterSpec& spec, int channel, const MachineRoutes& routes)
        : machines_(spec.machines), gpus_(spec.machine.gpus), backwards_(channel % 2 != 0) {
        GX_EXPECT(gpus_ <= Wiring::most_gpus, "a wired ring has at most 16 GPUs in a machine");
        const Wiring& w = spec.machine.wiring;
        GpuOrder plain{};
        for (int i = 0; i < gpus_; ++i) plain[std::size_t(i)] = static_cast<unsigned char>(i);
        const int rings = std::max(1, w.ring_count);
        Cut best;
        for (int r = 0; r < rings; ++r) {
            const int k = (channel / 2 + r) % rings;
            const auto& ring = w.ring_count > 0 ? w.rings[std::size_t(k)] : plain;
            const Cut cut = best_cut(spec, channel, routes, ring);
            if (cut.score > best.score) best = cut;
            if (spec.machines == 1) break;
        }
        for (int i = 0; i < gpus_; ++i) {
            order_[std::size_t(i)] = best.ring[std::size_t((i + best.turn) % gpus_)];
            place_[order_[std::size_t(i)]] = static_cast<unsigned char>(i);
        }
    }
    using GpuOrder = std::array<unsigned char, Wiring::most_gpus>;
    struct Cut {
        GpuOrder ring{};
        int turn = 0, score = -1;
    };
    /// Where to cut a ring so that both ends are at the NIC of the channel, as far as there is
    /// such a place.
    [[nodiscard]] Cut best_cut(const ClusterSpec& spec, int channel, const MachineRoutes& routes,
                               const GpuOrder& ring) const {
        Cut best{.ring = ring};
        for (int turn = 0; turn < gpus_; ++turn) {
            const int first = ring[std::size_t(turn)];
            const int last = ring[std::size_t((turn + gpus_ - 1) % gpus_)];
            const int leaves = backwards_ ? first : last, enters = backwards_ ? last : first;
            int score = 0;
            if (spec.machines > 1) {
                const int want = channel / 2 % spec.machine.nics;
                score = (routes.nic_of(leaves, channel) == want ? 2 : 0) +
                        (routes.nic_of(enters, channel) == want ? 1 : 0);
            }
            if (score <= best.score) continue;
            best.score = score;
            best.turn = turn;
        }
        return best;
    }

    int machines_, gpus_;
    bool backwards_;
    std::array<unsigned char, Wiring::most_gpus> order_{}, place_{};
};

/// As many channels as use every NVLink and every NIC of the cluster in both directions.
[[nodiscard]] inline std::vector<WiredRing> wired_rings(const ClusterSpec& spec) {
    const int rings = std::max(1, spec.machine.wiring.ring_count);
    const int nics = spec.machines > 1 ? spec.machine.nics : 1;
    std::vector<WiredRing> channels;
    for (int c = 0; c < 2 * std::max(rings, nics); ++c) channels.emplace_back(spec, c);
    return channels;
}

}  // namespace gx::sim
