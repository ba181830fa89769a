#include <gx/sim/timing/symmetry.hpp>  // first, so the header is seen to stand alone

#include <vector>  // collectives

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/collective/halving_doubling.hpp>    // HalvingDoubling
#include <gx/collective/hierarchical.hpp>        // Hierarchical
#include <gx/collective/recursive_doubling.hpp>  // RecursiveDoubling
#include <gx/collective/ring.hpp>                // Ring
#include <gx/collective/tree.hpp>                // Tree
#include <gx/sim/catalog/find_machine.hpp>       // machine_makers
#include <gx/sim/catalog/simple_clusters.hpp>    // plain_p3_16xlarge
#include <gx/sim/catalog/comm_stacks.hpp>        // nccl_2_10
#include <gx/sim/timing/all_reduce_time.hpp>     // all_reduce_time

namespace {

using gx::Bytes;
using gx::Nanoseconds;
using gx::collective::HalvingDoubling;
using gx::collective::Hierarchical;
using gx::collective::RecursiveDoubling;
using gx::collective::Ring;
using gx::sim::ClusterSpec;
using gx::sim::Detail;

// ---- What collectives say of themselves ----------------------------------------------
/// Every machine in every step: the same GPUs, as near, and as many chunks, as machine 0.
template <gx::Collective C>
void expect_alike(const C& c, gx::Placement p) {
    const int gpus = p.ranks_per_machine;
    const auto same = [&](int peer, int peer_of_0, int machine) {
        if (peer < 0 || peer_of_0 < 0) return peer == peer_of_0;
        return peer % gpus == peer_of_0 % gpus &&
               (peer / gpus == machine) == (peer_of_0 / gpus == 0);
    };
    for (int step = 0; step < c.steps(); ++step)
        for (int rank = 0; rank < c.ranks(); ++rank) {
            const gx::Exchange mine = c.exchange(rank, step), first = c.exchange(rank % gpus, step);
            ASSERT_TRUE(same(mine.to, first.to, rank / gpus)) << "rank " << rank;
            ASSERT_TRUE(same(mine.from, first.from, rank / gpus)) << "rank " << rank;
            ASSERT_EQ(mine.chunks, first.chunks);
        }
}
TEST(Symmetric, CollectivesThatSaySoAreAlikeOnAllMachines) {
    for (int machines = 1; machines <= 9; ++machines)
        for (int gpus = 1; gpus <= 8; ++gpus) {
            const gx::Placement p{machines, gpus};
            for (int k = 0; k < 5; ++k) {
                const Ring ring = gx::collective::machine_ring(p, k);
                ASSERT_TRUE(ring.alike_on_machines(p));
                expect_alike(ring, p);
            }
            ASSERT_TRUE(Ring(p.ranks()).alike_on_machines(p));
            expect_alike(Ring(p.ranks()), p);
            expect_alike(Hierarchical(p), p);
            const HalvingDoubling halves(p.ranks());
            if (halves.alike_on_machines(p)) expect_alike(halves, p);
            const RecursiveDoubling swaps(p.ranks());
            if (swaps.alike_on_machines(p)) expect_alike(swaps, p);
        }
    EXPECT_TRUE(RecursiveDoubling(32).alike_on_machines({4, 8}));
    EXPECT_FALSE(RecursiveDoubling(24).alike_on_machines({3, 8}));
    EXPECT_TRUE(HalvingDoubling(32).alike_on_machines({4, 8}));
    EXPECT_FALSE(HalvingDoubling(24).alike_on_machines({3, 8}));
    EXPECT_FALSE(gx::collective::machine_ring({4, 2}, 1).alike_on_machines({2, 4}));
}
TEST(Symmetric, ATreeIsSimulatedWhole) {
    const auto spec = gx::sim::plain_p3_16xlarge(2);
    const auto t = gx::sim::all_reduce_time(gx::collective::Tree(16), spec, Bytes{1'000'000},
                                            Detail::collapsed);
    EXPECT_FALSE(t.collapsed);
    EXPECT_EQ(t.simulated, 30u);
}

// ---- The same nanosecond, for any cluster ----------------------------------------------
ClusterSpec any_cluster() {
    auto spec = gx::sim::plain_p3_16xlarge(*rc::gen::inRange(1, 17));
    spec.machine.gpus = *rc::gen::inRange(1, 9);
    spec.machine.nic_line_rate = {1e6 * *rc::gen::inRange(100, 5000)};
    spec.machine.host_bandwidth = {1e6 * *rc::gen::inRange(100, 5000)};
    spec.flow_cap = {1e6 * *rc::gen::inRange(0, 2000)};
    spec.latency = Nanoseconds(*rc::gen::inRange(0, 100'000));
    spec.machine.peer_latency = Nanoseconds(*rc::gen::inRange(0, 30'000));
    return spec;
}
template <class C>
void expect_the_same(const std::vector<C>& collectives, const ClusterSpec& spec, Bytes bytes) {
    const std::span<const C> all(collectives);
    const auto whole = gx::sim::all_reduce_time(all, spec, bytes);
    const auto part = gx::sim::all_reduce_time(all, spec, bytes, Detail::collapsed);
    RC_ASSERT(part.collapsed);
    RC_ASSERT(!part.rounded);
    RC_ASSERT(part.time == whole.time);
    RC_ASSERT(part.messages == whole.messages);
    RC_ASSERT(part.wire == whole.wire);
    RC_ASSERT(part.peak_load == whole.peak_load);
    RC_ASSERT(part.simulated <= whole.simulated / static_cast<std::uint64_t>(spec.machines));
}
RC_GTEST_PROP(Symmetric, OneMachineTakesTheTimeOfAllOnRings, ()) {
    const auto spec = any_cluster();
    std::vector<Ring> rings;
    for (int k = *rc::gen::inRange(0, 4); k >= 0; --k)
        rings.push_back(gx::collective::machine_ring(spec.placement(), k));
    const auto chunks = static_cast<std::int64_t>(rings.size()) * spec.ranks();
    expect_the_same(rings, spec, Bytes{chunks * *rc::gen::inRange(0, 3000)});
}
RC_GTEST_PROP(Symmetric, OneMachineTakesTheTimeOfAllInAHierarchy, ()) {
    const auto spec = any_cluster();
    expect_the_same(std::vector<Hierarchical>{Hierarchical(spec.placement())}, spec,
                    Bytes{std::int64_t{spec.ranks()} * *rc::gen::inRange(0, 3000)});
}
RC_GTEST_PROP(Symmetric, OneMachineTakesTheTimeOfAllInDoubling, ()) {
    auto spec = any_cluster();
    spec.machines = 1 << *rc::gen::inRange(0, 5);
    spec.machine.gpus = 1 << *rc::gen::inRange(0, 4);
    const Bytes bytes{std::int64_t{spec.ranks()} * *rc::gen::inRange(0, 3000)};
    expect_the_same(std::vector<HalvingDoubling>{HalvingDoubling(spec.ranks())}, spec, bytes);
    expect_the_same(std::vector<RecursiveDoubling>{RecursiveDoubling(spec.ranks())}, spec, bytes);
}

/// Machines with PCIe trees, sockets and several NICs, on a star or on rails, by any stack.
RC_GTEST_PROP(Symmetric, OneMachineTakesTheTimeOfAllOnMachinesThatAreSold, ()) {
    const int which = *rc::gen::inRange(0, static_cast<int>(gx::sim::machine_makers.size()));
    ClusterSpec spec{.name = "cluster",
                     .machine = gx::sim::machine_makers[static_cast<std::size_t>(which)](),
                     .machines = *rc::gen::inRange(1, 8)};
    const bool at_once = *rc::gen::inRange(0, 3) == 0;  // then much happens in one instant
    spec.latency = Nanoseconds(at_once ? 0 : *rc::gen::inRange(1, 30'000));
    spec.machine.peer_latency = Nanoseconds(at_once ? 0 : *rc::gen::inRange(1, 30'000));
    if (*rc::gen::arbitrary<bool>()) spec.fabric = gx::sim::rails();
    if (*rc::gen::arbitrary<bool>()) spec.profile = gx::sim::nccl_2_10 + gx::sim::tcp_aws;
    std::vector<Ring> rings;
    for (int k = *rc::gen::inRange(0, 4); k >= 0; --k)
        rings.push_back(gx::collective::machine_ring(spec.placement(), k));
    const auto chunks = static_cast<std::int64_t>(rings.size()) * spec.ranks();
    expect_the_same(rings, spec, Bytes{chunks * *rc::gen::inRange(0, 30'000)});
    expect_the_same(std::vector<Hierarchical>{Hierarchical(spec.placement())}, spec,
                    Bytes{chunks * *rc::gen::inRange(0, 30'000)});
}
TEST(Symmetric, LinksBetweenSwitchesBelongToNoMachine) {
    auto spec = gx::sim::plain_p3_16xlarge(4);
    spec.fabric = gx::sim::leaf_spine({.machines_per_leaf = 2, .oversubscription = 4});
    const auto t = gx::sim::all_reduce_time(Ring(32), spec, Bytes{32'000}, Detail::collapsed);
    EXPECT_FALSE(t.collapsed);
    EXPECT_EQ(t.simulated, 2u * 31 * 32);
}

// ---- Chunks that differ by a byte -------------------------------------------------------
Nanoseconds time_of(const Ring& ring, const ClusterSpec& spec, Bytes bytes, bool collapsed) {
    gx::sim::Engine engine;
    gx::sim::CollectiveReplay<Ring> reductions({{&ring, 1}, {bytes.count}, 1}, spec, engine,
                                               collapsed,
                                               {[](void*, std::uint64_t) {}, nullptr, 0});
    for (int actor = 0; actor < reductions.actors(); ++actor) reductions.queue(actor, 1);
    engine.drain();
    return engine.now();
}
// A larger chunk is larger at each of its 2 (n - 1) hops, which follow each other without a gap: so
// on links that are all alike one larger chunk makes the ring as slow as larger chunks all over.
RC_GTEST_PROP(Symmetric, OneLargerChunkIsAsSlowAsAllOnASingleRingOfMachines, ()) {
    auto spec = any_cluster();
    spec.machine.gpus = 1;
    const Ring ring(spec.ranks());
    const Bytes bytes{*rc::gen::inRange(spec.ranks(), 1'000'000)};
    RC_ASSERT(time_of(ring, spec, bytes, true) == time_of(ring, spec, bytes, false));
}
RC_GTEST_PROP(Symmetric, LargerChunksCostARingAtMostAByteAStep, ()) {
    const auto spec = any_cluster();
    const Ring ring(spec.ranks());
    const Bytes bytes{*rc::gen::inRange(spec.ranks(), 1'000'000)};
    const double nic = spec.machine.nic_line_rate.count * spec.goodput;
    double slowest = std::min({nic, spec.machine.host_bandwidth.count, 47.9e9});
    if (spec.flow_cap.count > 0) slowest = std::min(slowest, spec.flow_cap.count);
    const auto late = time_of(ring, spec, bytes, true) - time_of(ring, spec, bytes, false);
    RC_ASSERT(late.count() >= 0);
    // and half a nanosecond of rounding a step on each side
    RC_ASSERT(static_cast<double>(late.count()) <= ring.steps() * (1e9 / slowest + 1));
}
TEST(Symmetric, FewUnequalChunksAreSimulatedAndManyRounded) {
    const auto few = gx::sim::plain_p3_16xlarge(2), many = gx::sim::plain_p3_16xlarge(64);
    const auto a = gx::sim::all_reduce_time(Ring(16), few, Bytes{1'000'001}, Detail::collapsed);
    EXPECT_FALSE(a.collapsed || a.rounded);
    const auto b = gx::sim::all_reduce_time(Ring(512), many, Bytes{1'000'001}, Detail::collapsed);
    EXPECT_TRUE(b.collapsed && b.rounded);
}

// ---- Scale -------------------------------------------------------------------------------
TEST(Symmetric, RoundsThatRepeatRunOnce) {
    const auto spec = gx::sim::plain_p3_16xlarge(12'500);
    const Bytes bytes{std::int64_t{spec.ranks()} * 512};
    const auto t = gx::sim::all_reduce_time(Ring(spec.ranks()), spec, bytes, Detail::collapsed);
    EXPECT_EQ(t.messages, 2ull * 100'000 * 99'999);
    EXPECT_LT(t.simulated, 1000u);
    // From one NIC to the next is the slowest hop: 40 us and 512 bytes at 10 Gb/s = 40.410 us, 2 n
    // times less the first round, in which the chunks of a machine's own GPUs go over it.
    EXPECT_NEAR(gx::seconds(t.time), 199'998 * 40.4096e-6, 0.001);
}

}  // namespace
