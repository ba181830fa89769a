// Hierarchical: reduce-scatter inside machines, rings between them, all-gather inside.
#pragma once

#include <gx/collective/exchange.hpp>  // Exchange, Promise
#include <gx/core/contract.hpp>        // GX_EXPECT
#include <gx/core/error.hpp>           // Error
#include <gx/core/transport.hpp>       // Placement

namespace gx::collective {

/// M machines of G ranks; G shards of M chunks each. Rank g of a machine:
///
///     G - 1 steps:      ring reduce-scatter of shards inside the machine: it ends with shard g + 1
///     2 (M - 1) steps:  ring all-reduce of that shard, in M chunks, over rank g of all machines
///     G - 1 steps:      ring all-gather of shards inside the machine
///
/// Order: shard s is summed from rank s of a machine upwards; chunk c of it from machine c upwards.
///        The bits depend on the placement and on where chunks are cut.
/// Wire:  2 (G - 1) + 2 (M - 1) steps; each rank sends 2 (G - 1) / G of the data inside its machine
///        and 2 (M - 1) / (M G) between machines.
/// Errors: gx::Error for a ragged placement.
/// Source: Cho et al. 2019, "BlueConnect: decomposing all-reduce for deep learning on heterogeneous
///         network hierarchy", with two levels.
class Hierarchical {
public:
    static constexpr Promise promise = Promise::all_reduce;

    constexpr explicit Hierarchical(Placement placement) : placement_(placement) {
        if (!placement.regular())
            throw Error(
                "a hierarchy needs equally many ranks on each machine, one machine after the "
                "other, and this world has not: start it so, or reduce by Ring or DoubleTree");
        GX_EXPECT(placement.machines > 0 && placement.ranks_per_machine > 0,
                  "a hierarchy needs at least one machine with one rank");
    }

    [[nodiscard]] constexpr int ranks() const { return placement_.ranks(); }
    [[nodiscard]] constexpr int chunks() const { return ranks(); }
    [[nodiscard]] constexpr int steps() const { return 2 * (inside() + between()); }
    [[nodiscard]] constexpr int message_chunks() const {
        return inside() > 0 ? placement_.machines : 1;
    }
    [[nodiscard]] constexpr bool alike_on_machines(Placement p) const { return p == placement_; }
    /// End of the phase of `step`: steps before it send as far and as much.
    [[nodiscard]] constexpr int phase_end(int step) const {
        if (step < inside()) return inside();
        const int gather = inside() + 2 * between();
        return step < gather ? gather : steps();
    }

    [[nodiscard]] constexpr Exchange exchange(int rank, int step) const {
        const int gpus = placement_.ranks_per_machine, machine = rank / gpus, gpu = rank % gpus;
        const int gather = inside() + 2 * between();
        if (step >= inside() && step < gather)
            return between_machines(machine, gpu, step - inside());
        const bool adding = step < inside();
        const int shard = adding ? gpu - step : gpu + 1 - (step - gather);
        const int first = machine * gpus;
        return {.to = first + (gpu + 1) % gpus,
                .send_chunk = wrap(shard, gpus) * placement_.machines,
                .from = first + wrap(gpu - 1, gpus),
                .receive_chunk = wrap(shard - 1, gpus) * placement_.machines,
                .combine = adding ? Combine::add : Combine::copy,
                .chunks = placement_.machines};
    }

private:
    [[nodiscard]] constexpr int inside() const { return placement_.ranks_per_machine - 1; }
    [[nodiscard]] constexpr int between() const { return placement_.machines - 1; }
    static constexpr int wrap(int i, int count) { return (i + count) % count; }

    [[nodiscard]] constexpr Exchange between_machines(int machine, int gpu, int step) const {
        const int gpus = placement_.ranks_per_machine, machines = placement_.machines;
        const bool adding = step < between();
        const int chunk = adding ? machine - step : machine + 1 - (step - between());
        const int shard = (gpu + 1) % gpus * machines;
        return {.to = (machine + 1) % machines * gpus + gpu,
                .send_chunk = shard + wrap(chunk, machines),
                .from = wrap(machine - 1, machines) * gpus + gpu,
                .receive_chunk = shard + wrap(chunk - 1, machines),
                .combine = adding ? Combine::add : Combine::copy};
    }

    Placement placement_;
};

}  // namespace gx::collective
