// random_faults: the bodies.
#pragma once

#include <algorithm>  // max
#include <string>     // stream names

#include <gx/core/rng.hpp>                      // Rng
#include <gx/sim/topology/fabric_switches.hpp>  // FabricSwitches
#include <gx/sim/fault/random_faults.hpp>       // random_faults

namespace gx::sim {

namespace detail::faults {

/// One class's own stream of draws: another class, or more faults of it, shifts none of them.
class Draws {
public:
    Draws(std::uint64_t seed, FaultClass c) : rng_(seed, "fault." + std::string(name_of(c))) {}
    [[nodiscard]] std::uint64_t below(std::uint64_t n) { return rng_.below(next_++, n); }
    [[nodiscard]] int index(int n) {
        return static_cast<int>(below(static_cast<std::uint64_t>(n)));
    }
    [[nodiscard]] double uniform() { return static_cast<double>(rng_.uniform(next_++)); }
    /// From 1 to `most` nanoseconds, small ones as likely as large ones.
    [[nodiscard]] Nanoseconds up_to(Nanoseconds most) {
        std::int64_t scale = most.count();
        for (int halvings = index(8); halvings > 0 && scale > 1; --halvings) scale /= 2;
        return Nanoseconds(1 + static_cast<std::int64_t>(below(
                                   static_cast<std::uint64_t>(std::max<std::int64_t>(1, scale)))));
    }
    [[nodiscard]] Nanoseconds before(Nanoseconds end) {
        return Nanoseconds(static_cast<std::int64_t>(
            below(static_cast<std::uint64_t>(std::max<std::int64_t>(1, end.count())))));
    }

private:
    Rng rng_;
    std::uint64_t next_ = 0;
};

/// Links of some machine's NIC where there are several machines, else of some GPU.
GX_DECL Wire some_wire(Draws& d, const ClusterSpec& spec) {
    if (spec.machines > 1 && (spec.machine.gpus == 1 || d.below(4) > 0))
        return {.machine = d.index(spec.machines)};
    return {.gpu = d.index(spec.ranks())};
}

GX_DECL bool has_switches(const ClusterSpec& spec) {
    return spec.machines > 1 && spec.fabric.kind != Fabric::Kind::star;
}
GX_DECL Switch some_switch(Draws& d, const ClusterSpec& spec) {
    const FabricSwitches all(spec.fabric, spec.machines, spec.machine.nics);
    return all.at(d.index(all.count()));
}

GX_DECL Fault some_fault(FaultClass c, Draws& d, const ClusterSpec& spec, Nanoseconds horizon,
                         bool for_good) {
    const int n = spec.ranks();
    const Nanoseconds at = d.before(horizon), lasts = d.up_to(horizon);
    const int rank = d.index(n);
    const int to = n > 1 && d.below(3) == 0 ? (rank + 1 + d.index(n - 1)) % n : -1;
    const Nanoseconds ends = for_good && d.below(3) == 0 ? forever : lasts;
    Wire wire = some_wire(d, spec);
    switch (c) {
        case FaultClass::link_slow: return SlowLink{wire, 0.01 + 0.9 * d.uniform(), at, lasts};
        case FaultClass::link_cut: return CutLink{wire, at, ends};
        case FaultClass::link_one_way:
            wire.direction = d.below(2) == 0 ? Direction::in : Direction::out;
            return CutLink{wire, at, ends};
        case FaultClass::link_flap:
            return FlappingLink{wire, std::max(d.up_to(horizon / 8), lasts / most_flaps),
                                d.up_to(horizon / 8), at, lasts};
        case FaultClass::nic_lost:
            return LostNic{d.index(spec.machines), at, d.index(spec.machine.nics),
                           d.below(2) == 0 ? Nanoseconds(0) : lasts};
        case FaultClass::switch_slow:
            return SlowSwitch{some_switch(d, spec), 0.01 + 0.9 * d.uniform(), at, lasts};
        case FaultClass::switch_lost:
            return LostSwitch{some_switch(d, spec), at, ends,
                              d.below(2) == 0 ? Nanoseconds(0) : lasts / 2};
        case FaultClass::gpu_slow: return SlowGpu{rank, 1 + 9 * d.uniform(), at, lasts};
        case FaultClass::gpu_paused: return PausedGpu{rank, at, lasts};
        case FaultClass::gpu_dead: return DeadGpu{rank, at, d.below(2) == 0};
        case FaultClass::dead_in_collective:
            return DeadInCollective{rank, d.index(4), d.index(2), d.index(n), d.below(2) == 0};
        case FaultClass::straggler: {
            const Nanoseconds burst = d.up_to(horizon / 8);
            return StragglerBursts{rank,  2 + 8 * d.uniform(),          at,
                                   burst, burst + d.up_to(horizon / 8), 1 + d.index(8)};
        }
        case FaultClass::delayed: return DelayedMessages{rank, to, d.up_to(horizon / 8), at, lasts};
        case FaultClass::duplicated: return DuplicatedMessages{rank, to, at, lasts};
        case FaultClass::reordered:
            return ReorderedMessages{rank, to, d.up_to(horizon / 8), at, lasts};
        case FaultClass::bit_flip: return FlippedBit{rank, to, at};
        case FaultClass::nan: return NanInPayload{rank, to, at};
        case FaultClass::torn_checkpoint: break;
    }
    return TornCheckpoint{d.index(4), 0.01 + 0.98 * d.uniform()};
}

GX_DECL bool allowed(FaultClass c, const ClusterSpec& spec, const SwarmConfig& w) {
    switch (c) {
        case FaultClass::link_slow:
        case FaultClass::link_cut:
        case FaultClass::link_one_way:
        case FaultClass::link_flap:
        case FaultClass::delayed:
        case FaultClass::duplicated:
        case FaultClass::reordered: return spec.ranks() > 1;
        case FaultClass::nic_lost: return w.deaths && spec.machines > 1;
        case FaultClass::switch_slow:
        case FaultClass::switch_lost: return has_switches(spec);
        case FaultClass::gpu_dead:
        case FaultClass::dead_in_collective: return w.deaths && spec.ranks() > 1;
        case FaultClass::bit_flip:
        case FaultClass::nan: return w.corruption && spec.ranks() > 1;
        case FaultClass::torn_checkpoint: return w.checkpoints;
        default: return true;
    }
}

}  // namespace detail::faults

GX_DECL FaultList random_faults(std::uint64_t seed, const ClusterSpec& spec, Nanoseconds horizon,
                                const SwarmConfig& swarm) {
    FaultList faults;
    for (int i = 0; i < fault_classes; ++i) {
        const auto c = static_cast<FaultClass>(i);
        detail::faults::Draws d(seed, c);
        if (d.uniform() < swarm.absent || !detail::faults::allowed(c, spec, swarm)) continue;
        for (int n = 1 + d.index(swarm.most_each); n > 0; --n)
            faults.push_back(detail::faults::some_fault(c, d, spec, horizon, swarm.deaths));
    }
    return faults;
}

}  // namespace gx::sim
