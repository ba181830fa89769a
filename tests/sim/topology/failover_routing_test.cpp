#include <gx/sim/topology/failover_routing.hpp>  // first, so the header is seen to stand alone

#include <algorithm>  // min
#include <set>        // spines
#include <vector>     // distances

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/sim/catalog/find_machine.hpp>     // find_machine
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/sim/catalog/comm_stacks.hpp>      // find_profile
#include <sim/topology/any_fabric.hpp>         // any_fabric

namespace {

using namespace gx::sim;

struct Bench {
    explicit Bench(const ClusterSpec& spec) : topology(spec, network, true), failover(topology) {}
    Bench(const Fabric& f, int machines, int gpus = 1, int nics = 1)
        : Bench([&] {
              auto spec = ethernet_10g(machines);
              spec.fabric = f;
              spec.machine.gpus = gpus;
              spec.machine.nics = nics;
              spec.machine.peer_bandwidth = {10e9};
              return spec;
          }()) {}
    gx::sim::Engine engine{};
    FlowNetwork network{engine};
    Topology topology;
    FailoverRouting failover;

    /// The links of the way, or none.
    std::vector<int> way(int from, int to, int channel = 0) {
        Path p;
        if (!failover.route(from, to, channel, p)) return {};
        return {p.view().begin(), p.view().end()};
    }
    std::vector<int> own_way(int from, int to, int channel = 0) {
        const Path p = topology.route(from, to, channel).path;
        return {p.view().begin(), p.view().end()};
    }
    /// The switches of the way between the first and the last.
    std::vector<Switch> across(int from, int to) {
        std::vector<Switch> all;
        const int first = topology.fabric_links().first();
        for (const int l : way(from, to))
            if (l >= first)
                all.push_back(
                    failover.switches().at(failover.switches().links()[std::size_t(l - first)].to));
        if (!all.empty()) all.pop_back();
        return all;
    }
};

// ---- Cases worked by hand -----------------------------------------------------------
TEST(FailoverRouting, TheFlowsOfALostSpineAreSpreadOverTheOthers) {
    Bench b(leaf_spine({.machines_per_leaf = 6, .spines = 3}), 12);
    b.failover.lose({SwitchKind::spine, 0});
    for (const int kept : {7, 8, 10, 11}) EXPECT_EQ(b.way(0, kept), b.own_way(0, kept));
    // Machines 6 and 9 were reached by spine 0; 6 / 3 and 9 / 3 are even and odd.
    EXPECT_EQ(b.across(0, 6), (std::vector<Switch>{{SwitchKind::spine, 1}}));
    EXPECT_EQ(b.across(0, 9), (std::vector<Switch>{{SwitchKind::spine, 2}}));
    b.failover.lose({SwitchKind::spine, 1});
    for (int to = 6; to < 12; ++to)
        EXPECT_EQ(b.across(0, to), (std::vector<Switch>{{SwitchKind::spine, 2}}));
    b.failover.lose({SwitchKind::spine, 2});
    EXPECT_TRUE(b.way(0, 6).empty());
    EXPECT_FALSE(b.failover.reaches(0, 6));
    EXPECT_TRUE(b.failover.reaches(0, 5)) << "one leaf";
    EXPECT_FALSE(b.failover.isolated(0));
    EXPECT_TRUE(b.failover.isolated(6)) << "of two equal parts the one with machine 0 goes on";
    b.failover.restore({SwitchKind::spine, 2});
    EXPECT_EQ(b.way(0, 8), b.own_way(0, 8));
    EXPECT_FALSE(b.failover.isolated(6));
}
TEST(FailoverRouting, ALostLeafCutsTheMachinesBehindIt) {
    Bench b(leaf_spine({.machines_per_leaf = 2, .spines = 2}), 6);
    b.failover.lose({SwitchKind::leaf, 0});
    EXPECT_TRUE(b.failover.isolated(0) && b.failover.isolated(1));
    for (int m = 2; m < 6; ++m) EXPECT_FALSE(b.failover.isolated(m));
    EXPECT_TRUE(b.way(0, 1).empty()) << "not even to each other";
    EXPECT_EQ(b.way(2, 4), b.own_way(2, 4));
}
TEST(FailoverRouting, ATorusGoesRoundALostRouter) {
    Bench b(torus(5, 1), 5);
    b.failover.lose({SwitchKind::router, 1});
    EXPECT_EQ(b.across(0, 2),
              (std::vector<Switch>{{SwitchKind::router, 4}, {SwitchKind::router, 3}}));
    EXPECT_TRUE(b.failover.isolated(1));
    EXPECT_FALSE(b.failover.isolated(0));
}
TEST(FailoverRouting, ADragonflyGoesThroughAThirdGroup) {
    // Router 0 of group g goes to group g + 1, router 1 to g + 2.
    Bench b(dragonfly({.groups = 3, .routers = 2, .machines = 1}), 6);
    ASSERT_EQ(b.own_way(1, 2).size(), 2u + 3u) << "NIC, 1 to 0, group 0 to 1, 3 to 2, NIC";
    b.failover.lose({SwitchKind::router, 0});
    EXPECT_EQ(b.across(1, 2),
              (std::vector<Switch>{{SwitchKind::router, 4}, {SwitchKind::router, 5}}))
        << "of group 2";
    EXPECT_FALSE(b.failover.isolated(1));
}
TEST(FailoverRouting, ALostNicsTrafficTakesTheNextOne) {
    Bench b(star(), 2, 2, 2);
    b.failover.lose_nic(0, 0);
    EXPECT_EQ(b.way(0, 2), (std::vector<int>{b.topology.nic_out(0, 1), b.topology.nic_in(1, 0)}));
    EXPECT_EQ(b.way(1, 3), b.own_way(1, 3));
    EXPECT_EQ(b.way(2, 0), (std::vector<int>{b.topology.nic_out(1, 0), b.topology.nic_in(0, 1)}));
    b.failover.lose_nic(0, 1);
    EXPECT_TRUE(b.way(0, 2).empty());
    EXPECT_TRUE(b.failover.isolated(0));
    EXPECT_FALSE(b.failover.isolated(1)) << "though both are alone, it has NICs";
    b.failover.lose_nic(1, 0);
    b.failover.lose_nic(1, 1);
    EXPECT_FALSE(b.failover.isolated(0)) << "with nobody left, there is one to go on with";
}
TEST(FailoverRouting, OfRailsBothMachinesNeedOne) {
    Bench b(rails(), 3, 2, 2);
    b.failover.lose_nic(0, 0);
    const auto way = b.way(0, 2);
    ASSERT_EQ(way.size(), 3u) << "and over NVLink from the GPU whose NIC it is";
    EXPECT_EQ(way[0], b.topology.nic_out(0, 1));
    EXPECT_EQ(way[1], b.topology.nic_in(1, 1));
    b.failover.lose_nic(1, 1);
    EXPECT_FALSE(b.failover.reaches(0, 1));
    EXPECT_TRUE(b.failover.reaches(0, 2) && b.failover.reaches(2, 1));
    b.failover.lose({SwitchKind::rail, 0});
    EXPECT_TRUE(b.failover.reaches(0, 2));
    EXPECT_TRUE(b.failover.isolated(1));
}
TEST(FailoverRouting, AFarNicIsReachedOverNvlink) {
    // Each GPU of a DGX H100 has a NIC of its own; GPU 0 reaches NIC 1 through GPU 1.
    const ClusterSpec spec{.machine = find_machine("DGX-H100"), .machines = 2, .fabric = rails()};
    Bench b(spec);
    const int own = b.topology.nic_of(0);
    b.failover.lose_nic(0, own);
    const auto way = b.way(0, spec.machine.gpus);
    ASSERT_FALSE(way.empty());
    bool out = false;
    for (int n = 0; n < spec.machine.nics; ++n)
        for (const int l : way) out = out || (n != own && l == b.topology.nic_out(0, n));
    EXPECT_TRUE(out);
}

// ---- Properties, for any fabric -----------------------------------------------------
RC_GTEST_PROP(FailoverRouting, AWayIsFoundWhereThereIsOneAndAvoidsWhatIsLost, ()) {
    const auto [f, machines] = any_fabric();
    if (machines < 2 || longest_route(f) > 8) return;
    Bench b(f, machines);
    const FabricSwitches& all = b.failover.switches();
    const auto n = static_cast<std::size_t>(all.count());
    std::vector<bool> lost(n, false);
    for (int i = *rc::gen::inRange(0, 6); i > 0; --i) {
        const int node = *rc::gen::inRange(0, all.count());
        b.failover.lose(all.at(node));
        lost[std::size_t(node)] = true;
    }
    const int from = *rc::gen::inRange(0, machines), to = *rc::gen::inRange(0, machines);
    if (from == to) return;
    // The serial answer: fewest links from every switch, by relaxing every link n times.
    constexpr int far = 1'000'000;
    std::vector<int> links(n, far);
    const auto begin = std::size_t(all.of(from, 0)), end = std::size_t(all.of(to, 0));
    if (!lost[begin]) links[begin] = 0;
    for (std::size_t turn = 0; turn < n; ++turn)
        for (const auto& [a, c] : all.links())
            if (!lost[std::size_t(a)] && !lost[std::size_t(c)])
                links[std::size_t(c)] = std::min(links[std::size_t(c)], links[std::size_t(a)] + 1);
    RC_ASSERT(b.failover.reaches(from, to) == (links[end] < far));
    const auto way = b.way(from, to);
    const bool own = way == b.own_way(from, to);
    RC_CLASSIFY(!own);
    if (way.empty()) {
        RC_ASSERT(links[end] >= far || links[end] + 2 > Path::most_links);
        return;
    }
    const int first = b.topology.fabric_links().first();
    RC_ASSERT(way.front() == b.topology.nic_out(from) && way.back() == b.topology.nic_in(to));
    std::size_t at = begin;
    for (std::size_t i = 1; i + 1 < way.size(); ++i) {
        const auto [a, c] = all.links()[std::size_t(way[i] - first)];
        RC_ASSERT(std::size_t(a) == at && !lost[std::size_t(c)]);
        at = std::size_t(c);
    }
    RC_ASSERT(at == end && !lost[begin]);
    if (!own) RC_ASSERT(std::ssize(way) == links[end] + 2);
}
RC_GTEST_PROP(FailoverRouting, WhatIsRestoredIsAsIfItHadNeverBeenLost, ()) {
    const auto [f, machines] = any_fabric();
    if (machines < 2) return;
    Bench b(f, machines);
    const Switch s = b.failover.switches().at(*rc::gen::inRange(0, b.failover.switches().count()));
    b.failover.lose(s);
    b.failover.restore(s);
    for (int m = 0; m < machines; ++m) {
        RC_ASSERT(!b.failover.isolated(m));
        if (m > 0) RC_ASSERT(b.way(0, m) == b.own_way(0, m));
    }
}

}  // namespace
