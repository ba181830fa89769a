// MachineOrder: the order in which ring k visits the ranks; inter-node paths differ.
#pragma once

#include <numeric>  // gcd

#include <gx/core/contract.hpp>   // GX_EXPECT
#include <gx/core/transport.hpp>  // Placement

namespace gx::collective {

/// Number of strides that visit all of `machines` machines; at least 1.
[[nodiscard]] constexpr int stride_count(int machines) {
    int found = 0;
    for (int stride = 1; stride < machines; ++stride) found += std::gcd(stride, machines) == 1;
    return found > 0 ? found : 1;
}

/// The k-th smallest stride that visits all machines; begins anew when all have been used.
[[nodiscard]] constexpr int machine_stride(int machines, int k) {
    int left = k % stride_count(machines);
    for (int stride = 1; stride < machines; ++stride)
        if (std::gcd(stride, machines) == 1 && left-- == 0) return stride;
    return 1;
}

/// Order k of the ranks of a placement. Ring k goes from machine m to machine m + stride(k), and
/// through all ranks of a machine before it leaves; it enters by GPU k and leaves by GPU k - 1, so
/// that rings share neither the path between two machines nor, up to ranks_per_machine rings, the
/// GPU that sends on it. Order 0 is the order of the ranks themselves.
///
///     rank_at(position) = machine * G + (position + k) % G,   G = ranks_per_machine
///     machine           = (position / G) * stride(k) % machines
///
/// Strides are coprime to the machine count, the smallest first: 1, 3, 5, 7 of 8 machines. 2
/// machines have only one, 4 have two; with more rings than strides, ring k uses stride k mod their
/// number. On a ragged placement every order is that of the ranks.
///
/// Cost:   O(machines log machines) to make; O(1) to ask.
/// Source: the ring orders of "Now anyone can train ImageNet in 18 minutes" (2018), get_nccl_rings;
///         there four orders for machine counts divisible by 4 and two for the others.
class MachineOrder {
public:
    constexpr MachineOrder(Placement placement, int k)
        : placement_(placement.regular() ? placement : Placement{1, placement.ranks()}) {
        if (!placement.regular()) k = 0;
        placement = placement_;
        GX_EXPECT(placement.machines > 0 && placement.ranks_per_machine > 0,
                  "an order needs at least one machine with one rank");
        GX_EXPECT(k >= 0, "rings count from 0");
        stride_ = machine_stride(placement.machines, k);
        inverse_ = 1;
        while (product(stride_, inverse_) != 1 % placement.machines) ++inverse_;
        turn_ = k % placement.ranks_per_machine;
    }

    [[nodiscard]] constexpr int ranks() const { return placement_.ranks(); }
    [[nodiscard]] constexpr int stride() const { return stride_; }
    [[nodiscard]] constexpr Placement placement() const { return placement_; }
    /// Whether this is the order of the ranks themselves.
    [[nodiscard]] constexpr bool is_identity() const { return stride_ == 1 && turn_ == 0; }

    [[nodiscard]] constexpr int rank_at(int position) const {
        const int gpus = placement_.ranks_per_machine;
        return product(position / gpus, stride_) * gpus + (position + turn_) % gpus;
    }
    [[nodiscard]] constexpr int position_of(int rank) const {
        const int gpus = placement_.ranks_per_machine;
        return product(rank / gpus, inverse_) * gpus + (rank % gpus + gpus - turn_) % gpus;
    }

private:
    [[nodiscard]] constexpr int product(int a, int b) const {  // modulo the machine count
        return static_cast<int>(static_cast<long long>(a) * b % placement_.machines);
    }

    Placement placement_;
    int stride_ = 1;
    int inverse_ = 1;
    int turn_ = 0;
};

}  // namespace gx::collective
