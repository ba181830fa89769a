#include <gx/sim/fault/link_faults.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/reducer/multi_ring.hpp>           // MultiRing
#include <gx/sim/world/cluster.hpp>            // Cluster
#include <gx/sim/fault/faults.hpp>             // LostNic, LostSwitch
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/testing/rows.hpp>                 // small_integers

namespace {

using gx::Delivery;
using gx::Nanoseconds;
using namespace gx::literals;
using namespace gx::sim;
using World = Cluster<>;

/// NICs of 1 GB/s, 10 us, no cap: times can be worked out by hand.
ClusterSpec plain(int machines, int gpus = 1, int nics = 1, const Fabric& fabric = star()) {
    auto spec = ethernet_10g(machines);
    spec.machine.gpus = gpus;
    spec.machine.nics = nics;
    spec.machine.peer_bandwidth = {100e9};
    spec.machine.host_bandwidth = {100e9};
    spec.machine.nic_line_rate = 1_GBps;
    spec.goodput = 1;
    spec.flow_cap = {0};
    spec.latency = 10_us;
    spec.fabric = fabric;
    return spec;
}

struct Message {
    int from, to;
};
struct Sent {
    std::vector<Nanoseconds> arrived;  ///< by message; 0: not at all
    std::vector<Delivery> told;        ///< by rank
    bool intact = true;
};
/// A megabyte each, all at once; a rank sends or receives one of them at most.
Sent sent(World& world, const std::vector<Message>& messages, int times = 1) {
    Sent s{std::vector<Nanoseconds>(messages.size()),
           std::vector<Delivery>(static_cast<std::size_t>(world.ranks()))};
    world.run([&](auto& rank) {
        for (std::size_t i = 0; i < messages.size(); ++i)
            for (int t = 0; t < times; ++t) {
                const auto [from, to] = messages[i];
                if (rank.rank() != from && rank.rank() != to) continue;
                std::vector<std::byte> m(1'000'000,
                                         rank.rank() == from ? std::byte(i + 1) : std::byte{});
                auto& link = rank.transport();
                const auto r = rank.rank() == from ? link.send(to, 0, m) : link.receive(from, 0, m);
                Delivery& told = s.told[static_cast<std::size_t>(rank.rank())] = link.wait(r);
                if (!told.complete()) return;
                s.intact = s.intact && m == std::vector<std::byte>(m.size(), std::byte(i + 1));
                s.arrived[i] = rank.now();
            }
    });
    return s;
}

// ---- NICs --------------------------------------------------------------------------------
TEST(FaultLinks, WithOneOfTwoNicsLostTheRestShareTheOther) {
    const std::vector<Message> two{{0, 2}, {1, 3}};
    World whole(plain(2, 2, 2));
    EXPECT_EQ(sent(whole, two).arrived, (std::vector{1'010_us, 1'010_us})) << "a NIC each";
    for (const int machine : {0, 1})
        for (const int nic : {0, 1}) {
            World lost(plain(2, 2, 2), {.faults = {LostNic{machine, 0_us, nic}}});
            const Sent s = sent(lost, two);
            EXPECT_EQ(s.arrived, (std::vector{2'010_us, 2'010_us})) << "half the bandwidth";
            EXPECT_TRUE(s.intact);
        }
}
TEST(FaultLinks, WhatWasOnItsWayIsSentAgainWhole) {
    World world(plain(2, 2, 2), {.faults = {LostNic{0, 510_us, 0}}});
    const Sent s = sent(world, {{0, 2}, {1, 3}});
    // Both have sent 500 KB; 10 us later the first starts anew, and meets 490 KB of the second.
    EXPECT_EQ(s.arrived[1], 520_us + 980_us);
    EXPECT_EQ(s.arrived[0], 520_us + 980_us + 510_us);
    EXPECT_TRUE(s.intact);
    EXPECT_EQ(world.network().carried(world.topology().nic_out(0, 0)).count, 0);
    EXPECT_EQ(world.network().carried(world.topology().nic_out(0, 1)), 2_MB);
}
TEST(FaultLinks, UntilItIsNoticedMessagesStandStill) {
    World world(plain(2, 1, 2), {.faults = {LostNic{0, 510_us, 0, 3'000_us}}});
    EXPECT_EQ(sent(world, {{0, 1}}).arrived[0], 510_us + 3'000_us + 10_us + 1'000_us);
}
TEST(FaultLinks, AMessageThatHasNotBegunIsSentTheOtherWayOnly) {
    World world(plain(2, 1, 2), {.faults = {LostNic{0, 5_us, 0}}});
    EXPECT_EQ(sent(world, {{0, 1}}).arrived[0], 1'010_us) << "its latency is not paid twice";
}
TEST(FaultLinks, WithEveryNicLostTheMachineIsNamed) {
    World world(plain(3, 1, 2),
                {.deadline = 5'000_us, .faults = {LostNic{1, 100_us, 0}, LostNic{1, 200_us, 1}}});
    const Sent s = sent(world, {{0, 1}});
    for (const int r : {0, 1}) EXPECT_EQ(s.told[std::size_t(r)].peer, 1);
    EXPECT_TRUE(world.unreachable(1));
    EXPECT_FALSE(world.unreachable(0) || world.unreachable(2));
}

/// The time of an all-reduce of `elements` with two rings, a NIC each, without its scalings.
Nanoseconds reduced(const ClusterSpec& spec, FaultList faults, std::int64_t elements) {
    World world(spec, {.charge_reducer_kernels = false, .faults = std::move(faults)});
    Nanoseconds last{};
    world.run([&](auto& rank) {
        gx::MultiRing<2, gx::fp32> reducer;
        reducer.reserve(gx::ReducePlan::whole(world.placement(), elements));
        std::vector<float> bucket(static_cast<std::size_t>(elements), 1.0f);
        EXPECT_TRUE(reducer.all_reduce(rank.transport(), bucket).complete());
        EXPECT_EQ(bucket, std::vector<float>(bucket.size(), 1.0f));
        last = std::max(last, rank.now());
    });
    return last;
}
TEST(FaultLinks, ARingsBandwidthIsThatOfTheMachineWithOneNic) {
    // 4 machines, 2 rings of half the data each: 2 (n - 1) / n x bytes / rate, and 6 hops of 10 us.
    const auto spec = plain(4, 1, 2);
    constexpr std::int64_t elements = 800'000;  // 3.2 MB
    EXPECT_EQ(reduced(spec, {}, elements), 60_us + 2'400_us) << "2 GB/s";
    for (const int machine : {0, 3})
        EXPECT_EQ(reduced(spec, {LostNic{machine, 0_us, 1}}, elements), 60_us + 4'800_us)
            << "1 GB/s";
}

// ---- Switches ----------------------------------------------------------------------------
const Fabric two_spines = leaf_spine({.machines_per_leaf = 2, .spines = 2});  // uplinks of 1 GB/s

TEST(FaultLinks, ASlowSpineSlowsTheFlowsThatCrossIt) {
    World world(plain(4, 1, 1, two_spines), {.faults = {SlowSwitch{{SwitchKind::spine, 0}, 0.25}}});
    // Machine d is reached by spine d mod 2.
    EXPECT_EQ(sent(world, {{0, 2}, {1, 3}}).arrived, (std::vector{4'010_us, 1'010_us}));
}
TEST(FaultLinks, ASlowLeafSlowsItsMachines) {
    World world(plain(4, 1, 1, two_spines),
                {.faults = {SlowSwitch{{SwitchKind::leaf, 1}, 0.5, 0_us, 1'010_us}}});
    EXPECT_EQ(sent(world, {{0, 2}}).arrived[0], 1'010_us + 500_us);
    EXPECT_EQ(sent(world, {{0, 1}}).arrived[0], 1'010_us) << "under the other leaf";
}
TEST(FaultLinks, FlowsGoRoundALostSpineAndComeBack) {
    World lost(plain(4, 1, 1, two_spines), {.faults = {LostSwitch{{SwitchKind::spine, 0}}}});
    EXPECT_EQ(sent(lost, {{0, 2}, {1, 3}}).arrived, (std::vector{2'010_us, 2'010_us}));
    World back(plain(4, 1, 1, two_spines),
               {.faults = {LostSwitch{{SwitchKind::spine, 0}, 0_us, 1'000_us}}});
    // The first two share spine 1 up to 2010 us; the next are sent when both spines are there.
    EXPECT_EQ(sent(back, {{0, 2}, {1, 3}}, 2).arrived, (std::vector{3'020_us, 3'020_us}));
}
TEST(FaultLinks, WithNoSpineLeftALeafWaitsForOne) {
    World world(plain(4, 1, 1, two_spines),
                {.faults = {LostSwitch{{SwitchKind::spine, 0}},
                            LostSwitch{{SwitchKind::spine, 1}, 0_us, 5'000_us}}});
    const Sent s = sent(world, {{0, 2}});
    EXPECT_EQ(s.arrived[0], 5'010_us + 1'000_us) << "spine 1, and not its own way";
}
TEST(FaultLinks, TheRanksBehindALostLeafAreCutAndNamed) {
    World world(plain(6, 1, 1, two_spines),
                {.deadline = 5'000_us, .faults = {LostSwitch{{SwitchKind::leaf, 1}, 100_us}}});
    const Sent s = sent(world, {{0, 2}, {4, 3}});
    for (const int r : {0, 2, 3, 4})
        EXPECT_TRUE(s.told[std::size_t(r)].peer == 2 || s.told[std::size_t(r)].peer == 3);
    for (int r = 0; r < 6; ++r) EXPECT_EQ(world.unreachable(r), r == 2 || r == 3) << r;
}
TEST(FaultLinks, ALostRailLeavesTheOthers) {
    World world(plain(2, 2, 2, rails()), {.faults = {LostSwitch{{SwitchKind::rail, 1}}}});
    EXPECT_EQ(sent(world, {{0, 2}, {1, 3}}).arrived, (std::vector{2'010_us, 2'010_us}));
}

// ---- A property: while there is a way, everything arrives, whole and in order ---------------
RC_GTEST_PROP(FaultLinks, NothingIsLostWhileThereIsAWay, ()) {
    const auto spec = plain(6, 1, 2, leaf_spine({.machines_per_leaf = 2, .spines = 3}));
    FaultList faults;
    for (const int spine : {0, 2})
        if (*rc::gen::arbitrary<bool>())
            faults.push_back(LostSwitch{{SwitchKind::spine, spine},
                                        Nanoseconds(*rc::gen::inRange(0, 4'000'000)),
                                        Nanoseconds(*rc::gen::inRange(1, 4'000'000))});
    for (int m = 0; m < 6; ++m)
        if (*rc::gen::arbitrary<bool>())
            faults.push_back(LostNic{m, Nanoseconds(*rc::gen::inRange(0, 4'000'000)), m % 2});
    World world(spec, {.deadline = 100'000_us, .faults = faults, .faults_must_fire = false});
    const Sent s = sent(world, {{0, 2}, {4, 1}, {3, 5}}, 3);
    RC_ASSERT(s.intact);
    for (const Nanoseconds at : s.arrived) RC_ASSERT(at >= 3'030_us);
    Nanoseconds latest{};
    for (const Nanoseconds at : s.arrived) latest = std::max(latest, at);
    RC_ASSERT(latest < 100'000_us);
}

// ---- Switches that cannot be ---------------------------------------------------------------
std::string refusal(const ClusterSpec& spec, const Fault& fault) {
    try {
        World world(spec, {.faults = {fault}});
    } catch (const gx::Error& e) {
        return e.what();
    }
    return "";
}
TEST(FaultLinks, AFabricsSwitchesAreTheChoices) {
    const auto says = [](const std::string& text, const std::string& part) {
        EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
    };
    says(refusal(plain(4), LostSwitch{{SwitchKind::spine, 0}}),
         "fault 0, switch lost, spine 0, at 0 ns: which.kind is spine: the switches of this star "
         "are none; slow or cut the NICs of its machines");
    says(refusal(plain(4, 1, 1, two_spines), SlowSwitch{{SwitchKind::router, 0}}),
         "which.kind is router: the switches of this leaf_spine are leaf 0 to 1, spine 0 to 1");
    says(refusal(plain(4, 1, 1, two_spines), SlowSwitch{{SwitchKind::spine, 2}}),
         "which.index is 2: the switches of this leaf_spine are leaf 0 to 1, spine 0 to 1");
    says(refusal(plain(1, 2, 1, two_spines), LostSwitch{{SwitchKind::leaf, 0}}),
         "the switches of this single machine are none");
    says(refusal(plain(4, 1, 1, two_spines), SlowSwitch{{SwitchKind::leaf, 0}, 1.5}),
         "share is 1.5");
    says(refusal(plain(4, 1, 1, two_spines), LostSwitch{{}, 0_us, 5_us, 5_us}),
         "unnoticed for as long as it lasts: that is a SlowSwitch");
    says(refusal(plain(4), LostNic{0, 0_us, 0, Nanoseconds(-1)}), "unnoticed is -1 ns");
    says(refusal(plain(4), LostNic{0, 0_us, -1}), "nic is -1: name one NIC of the machine");
}

}  // namespace
