// Scenario: a cluster, a reducer, a gradient and faults, drawn from a seed.
#pragma once

#include <algorithm>    // max
#include <array>        // size classes
#include <cstdint>      // uint64_t
#include <string>       // names
#include <string_view>  // names
#include <vector>       // phases

#include <gx/core/rng.hpp>                       // Rng
#include <gx/sim/catalog/cluster_of.hpp>         // with_gpus
#include <gx/sim/fault/random_faults.hpp>        // random_faults
#include <gx/sim/catalog/simple_clusters.hpp>    // ethernet_10g
#include <gx/survival/concept.hpp>               // Recovery
#include <gx/sim/catalog/comm_stacks.hpp>        // profiles
#include <gx/sim/topology/check_cluster.hpp>     // check_cluster
#include <gx/sim/topology/failover_routing.hpp>  // FailoverRouting
#include <gx/trainer/options.hpp>                // Phase

namespace gx::sim::fuzz {

/// Elements of a gradient, as coverage counts them.
enum class SizeClass : unsigned char { fewer_than_ranks, small, medium, large };
inline constexpr int size_classes = 4;
[[nodiscard]] constexpr std::string_view name_of(SizeClass c) {
    constexpr std::array<std::string_view, size_classes> names{"< ranks", "<= 64", "<= 512",
                                                               "<= 4096"};
    return names[static_cast<std::size_t>(c)];
}

struct Scenario {
    std::uint64_t seed = 0;
    int reducer = 0;  ///< which reducer
    ClusterSpec cluster{};
    SizeClass size_class{};
    std::int64_t elements = 1, bucket_elements = 0, samples = 1;
    int batch = 1, epochs = 1, pieces = 1;  ///< pieces: of backward, each ready on its own
    std::vector<Phase> phases{};            ///< empty: one of `batch`; owners have one
    Nanoseconds compute{}, skew{}, horizon{}, deadline{};
    bool wide = false;       ///< magnitudes from 2^-6 to 2^6; else small integers
    bool overflows = false;  ///< some element of some gradients is infinite
    Recovery recovery{};
    int every_steps = 0;    ///< from a checkpoint within an epoch to the next; 0: none
    bool evaluate = false;  ///< a test set runs after each epoch
    bool heals = true;      ///< from the second world on there are no faults
    bool checksum = false;
    bool races = false;  ///< missing waits are looked for
    FaultList faults{};

    /// Whether no fault can end a world: all of them pass or leave a route, within every deadline.
    [[nodiscard]] bool benign() const {
        for (const Fault& f : faults) {
            const FaultClass c = class_of(f);
            const auto* cut = std::get_if<CutLink>(&f);
            if (c == FaultClass::gpu_dead || c == FaultClass::dead_in_collective ||
                (cut && cut->lasts == forever) ||
                (checksum && (c == FaultClass::bit_flip || c == FaultClass::nan)))
                return false;
        }
        return leaves_ways();
    }
    /// Whether every rank has a route to every other without the permanently failed parts.
    [[nodiscard]] bool leaves_ways() const {
        if (!has(FaultClass::nic_lost) && !has(FaultClass::switch_lost)) return true;
        Engine engine;
        FlowNetwork network(engine);
        const Topology topology(cluster, network, true);
        FailoverRouting failover(topology);
        for (const Fault& f : faults) {
            if (const auto* nic = std::get_if<LostNic>(&f))
                failover.lose_nic(nic->machine, nic->nic);
            if (const auto* lost = std::get_if<LostSwitch>(&f); lost && lost->lasts == forever)
                failover.lose(lost->which);
        }
        // A detour may reach the other machine and be too long for a Path.
        Path path;
        for (int a = 0; a < cluster.ranks(); ++a)
            for (int b = 0; b < cluster.ranks(); ++b)
                for (int channel = 0; channel < 4; ++channel)
                    if (!failover.route(a, b, channel, path)) return false;
        return true;
    }
    /// Of one rank.
    [[nodiscard]] int batch_of(int epoch) const {
        int of_phase = batch;
        for (const Phase& p : phases)
            if (p.first_epoch <= epoch) of_phase = p.batch;
        return of_phase;
    }
    [[nodiscard]] bool has(FaultClass wanted) const {
        for (const Fault& f : faults)
            if (class_of(f) == wanted) return true;
        return false;
    }
};

namespace detail {

/// Draws of one thing, by its name: a new thing to draw shifts no other.
class Draw {
public:
    Draw(std::uint64_t seed, std::string_view name) : rng_(seed, name) {}
    [[nodiscard]] std::int64_t from_to(std::int64_t least, std::int64_t most) {
        return least + static_cast<std::int64_t>(
                           rng_.below(next_++, static_cast<std::uint64_t>(most - least + 1)));
    }
    [[nodiscard]] int integer(int least, int most) {
        return static_cast<int>(from_to(least, most));
    }
    [[nodiscard]] bool one_in(int n) { return integer(1, n) == 1; }
    /// Each power of two as likely as any other.
    [[nodiscard]] std::int64_t scale(std::int64_t least, std::int64_t most) {
        std::int64_t top = most;
        for (int halvings = integer(0, 10); halvings > 0 && top / 2 >= least; --halvings) top /= 2;
        return from_to(least, std::max(least, top));
    }

private:
    Rng rng_;
    std::uint64_t next_ = 0;
};

/// Half of the time a profile, alone or a library's on a network's; and now and then a machine
/// that people rent, with its wiring: there a GPU may have to reach a NIC that is far.
inline void draw_stack(std::uint64_t seed, ClusterSpec& spec) {
    Draw d(seed, "fuzz.profile");
    const auto some = [&] {
        return *profiles[static_cast<std::size_t>(d.integer(0, int(profiles.size()) - 1))];
    };
    if (d.one_in(2)) spec.profile = some();
    if (const Profile network = some(); spec.profile.has_collective && !network.has_collective)
        spec.profile = spec.profile + network;
    Draw wired(seed, "fuzz.machine");
    if (!wired.one_in(8)) return;
    constexpr std::array names{"p3.16xlarge", "p3dn.24xlarge", "DGX-1V", "DGX-A100", "DGX-H100"};
    const MachineSpec m = find_machine(names[static_cast<std::size_t>(wired.integer(0, 4))]);
    spec.machine = with_gpus(m, spec.machine.gpus);
}
[[nodiscard]] inline Fabric draw_fabric(Draw& d, int machines) {
    switch (d.integer(0, 5)) {
        case 1: return rails();
        case 2:
            return leaf_spine({.machines_per_leaf = d.integer(1, 4),
                               .oversubscription = double(d.integer(1, 4)),
                               .spines = d.integer(1, 3)});
        case 3: return fat_tree(6);
        case 4: return d.one_in(2) ? torus(machines, 1) : torus((machines + 1) / 2, 2);
        case 5: return dragonfly({.groups = 3, .routers = 2, .machines = (machines + 5) / 6});
        default: return star();
    }
}

[[nodiscard]] inline ClusterSpec draw_cluster(std::uint64_t seed) {
    Draw d(seed, "fuzz.cluster");
    ClusterSpec spec = ethernet_10g(1);
    const int most = d.one_in(8) ? 24 : 8;
    spec.machine.gpus = d.one_in(2) ? 1 : d.integer(2, 4);
    spec.machines = spec.machine.gpus == 1 || !d.one_in(4)
                        ? d.integer(spec.machine.gpus == 1 && !d.one_in(16) ? 2 : 1,
                                    std::max(2, most / spec.machine.gpus))
                        : 1;
    spec.machine.peer_bandwidth = {static_cast<double>(d.scale(1, 200)) * 1e9};
    spec.machine.peer_latency = Nanoseconds(d.scale(0, 20'000));
    spec.machine.host_bandwidth = {static_cast<double>(d.from_to(1, 32)) * 1e9};
    spec.machine.nic_line_rate = {static_cast<double>(d.scale(1, 8)) * 0.125e9};
    spec.latency = Nanoseconds(d.scale(0, 100'000));
    spec.flow_cap = {d.one_in(3) ? 0.1e9 : 0.0};
    spec.goodput = 1;
    if (d.one_in(4)) spec.machine.nics = d.integer(1, 4);
    const MachineSpec plain = spec.machine;
    draw_stack(seed, spec);
    spec.fabric = draw_fabric(d, spec.machines);
    try {
        check_cluster(spec, true);  // faults may take NICs and switches
    } catch (const Error&) {
        spec.fabric = star();
        spec.profile = exact;
        spec.machine = plain;
        spec.machine.nics = 1;
        spec.machine.host_bandwidth = spec.machine.nic_line_rate;
    }
    return spec;
}

/// Half of the time none; else one or more, each with a batch that all ranks have images for.
inline void draw_phases(Scenario& s) {
    Draw d(s.seed, "fuzz.phases");
    if (d.one_in(2)) return;
    const int most = std::min<int>(3, static_cast<int>(s.samples) / s.cluster.ranks());
    for (int epoch = 0; epoch < s.epochs; epoch += d.integer(1, 2))
        s.phases.push_back({epoch, d.integer(1, most), d.integer(1, 4)});
}

/// About the time of a run without faults: compute, rings one after the other, and at the end of an
/// epoch what all ranks send to rank 0 and hear from it.
[[nodiscard]] inline Nanoseconds estimate(const Scenario& s) {
    const int n = s.cluster.ranks();
    const std::int64_t updates =
        s.epochs * ((s.samples + std::int64_t{n} * s.batch - 1) / (std::int64_t{n} * s.batch));
    const std::int64_t buckets =
        s.bucket_elements == 0 ? 1 : (s.elements + s.bucket_elements - 1) / s.bucket_elements;
    const std::int64_t hop = s.cluster.message_latency(LinkClass::net).count() +
                             s.cluster.message_latency(LinkClass::nvlink).count();
    return Nanoseconds(1000 +
                       updates * (s.pieces * (s.compute + s.skew).count() +
                                  2 * (n - 1) * buckets * hop + s.elements * 8) +
                       s.epochs * std::int64_t{6} * (n - 1) * hop);
}

}  // namespace detail

/// Index of the reducer that a seed draws of so many.
[[nodiscard]] inline int drawn_reducer(std::uint64_t seed, int reducers) {
    return detail::Draw(seed, "fuzz.reducer").integer(0, reducers - 1);
}

/// Order: a function of (seed, reducers), by streams of its own for each thing.
[[nodiscard]] inline Scenario draw(std::uint64_t seed, int reducers) {
    Scenario s{.seed = seed, .cluster = detail::draw_cluster(seed)};
    const int n = s.cluster.ranks();
    s.reducer = drawn_reducer(seed, reducers);
    detail::Draw sizes(seed, "fuzz.sizes");
    s.size_class = static_cast<SizeClass>(sizes.integer(0, 11) / 3);
    if (s.size_class == SizeClass::large && !sizes.one_in(3)) s.size_class = SizeClass::small;
    constexpr std::array<std::int64_t, size_classes> most{0, 64, 512, 4096};
    const std::int64_t limit = most[static_cast<std::size_t>(s.size_class)];
    s.elements = limit == 0
                     ? sizes.from_to(1, std::max(1, n - 1))
                     : sizes.from_to(s.size_class == SizeClass::small ? 1 : limit / 8 + 1, limit);
    if (s.elements < n) s.size_class = SizeClass::fewer_than_ranks;
    // At most 12 buckets or so: their number is what matters.
    s.bucket_elements =
        sizes.one_in(2) ? 0 : sizes.from_to(std::max<std::int64_t>(1, s.elements / 12), s.elements);
    detail::Draw training(seed, "fuzz.training");
    s.batch = training.integer(1, 3);
    s.samples = n + training.from_to(0, std::int64_t{3} * n * s.batch);
    s.epochs = training.integer(1, 3);
    s.pieces = training.integer(1, 4);
    s.compute = Nanoseconds(training.scale(0, 1'000'000));
    s.skew = Nanoseconds(training.one_in(2) ? 0 : training.scale(1, 1'000'000));
    s.recovery = training.one_in(3) ? Recovery::checkpoint : Recovery::survivors;
    detail::Draw checkpoints(seed, "fuzz.checkpoints");
    if (s.recovery == Recovery::checkpoint && checkpoints.one_in(2))
        s.every_steps = checkpoints.integer(1, 4);
    s.evaluate = training.one_in(3);
    s.heals = !training.one_in(3);
    s.checksum = training.one_in(2);
    s.races = detail::Draw(seed, "fuzz.races").one_in(4);
    detail::draw_phases(s);
    detail::Draw values(seed, "fuzz.values");
    s.wide = values.one_in(2);
    s.overflows = values.one_in(8);
    s.horizon = detail::estimate(s);
    s.deadline = 20 * s.horizon + std::chrono::seconds(1);
    detail::Draw swarm(seed, "fuzz.swarm");
    if (!swarm.one_in(5))
        s.faults = random_faults(seed, s.cluster, s.horizon,
                                 {.absent = 0.5 + 0.1 * swarm.integer(0, 4),
                                  .deaths = !swarm.one_in(3),
                                  .corruption = swarm.one_in(3)});
    return s;
}

}  // namespace gx::sim::fuzz
