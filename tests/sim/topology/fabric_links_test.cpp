#include <gx/sim/topology/fabric_links.hpp>  // first, so the header is seen to stand alone

#include <limits>   // infinity
#include <set>      // links
#include <string>   // sentences
#include <utility>  // pair
#include <vector>   // messages

#include <gtest/gtest.h>

#include <gx/core/error.hpp>           // Error
#include <gx/sim/des/engine.hpp>       // Engine
#include <gx/sim/network/network.hpp>  // FlowNetwork
#include <rapidcheck/gtest.h>

#include <sim/topology/any_fabric.hpp>  // any_fabric

namespace {

using gx::sim::Fabric;
using gx::sim::FabricLinks;
using namespace gx::literals;

/// Machines of one NIC of 1 GB/s on a fabric.
struct Bench {
    Bench(const Fabric& f, int machines) : links(f, machines, 1, 1_GBps, network) {}
    gx::sim::Engine engine{};
    gx::sim::FlowNetwork network{engine};
    FabricLinks links;

    [[nodiscard]] gx::sim::Path route(int from, int to) const {
        gx::sim::Path p;
        links.add_route(from, to, p);
        return p;
    }
    /// When the last of these messages of 1 MB that start together has arrived, in ms.
    double ms(const std::vector<std::pair<int, int>>& pairs) {
        for (const auto& [from, to] : pairs)
            network.start({.path = route(from, to),
                           .bytes = 1_MB,
                           .done = {[](void*, std::uint64_t) {}, nullptr, 0}});
        engine.drain();
        return gx::seconds(engine.now()) * 1e3;
    }
};

// ---- Cases worked by hand -----------------------------------------------------------
TEST(FabricLinks, AStarAndRailsAddNoLink) {
    EXPECT_EQ(Bench(gx::sim::star(), 8).network.links(), 0);
    EXPECT_EQ(Bench(gx::sim::rails(), 8).route(0, 7).count, 0);
}
TEST(FabricLinks, FourMachinesOfALeafShareAnUplinkOfOneIn4To1) {
    const Fabric f = gx::sim::leaf_spine({.machines_per_leaf = 4, .oversubscription = 4});
    EXPECT_EQ(Bench(f, 8).route(0, 3).count, 0) << "one leaf";
    EXPECT_EQ(Bench(f, 8).route(0, 4).count, 2);
    EXPECT_NEAR(Bench(f, 8).ms({{0, 4}}), 1, 1e-5) << "the uplink carries 1 GB/s";
    EXPECT_NEAR(Bench(f, 8).ms({{0, 4}, {1, 5}, {2, 6}, {3, 7}}), 4, 1e-5);
    EXPECT_NEAR(Bench(f, 8).ms({{0, 4}, {5, 1}}), 1, 1e-5) << "full duplex";
    const Fabric full = gx::sim::leaf_spine({.machines_per_leaf = 4});
    EXPECT_NEAR(Bench(full, 8).ms({{0, 4}, {1, 5}, {2, 6}, {3, 7}}), 1, 1e-5);
    // Two spines of half the rate: both messages to even machines go up to spine 0.
    const Fabric two =
        gx::sim::leaf_spine({.machines_per_leaf = 4, .oversubscription = 2, .spines = 2});
    EXPECT_NEAR(Bench(two, 8).ms({{0, 4}, {1, 5}}), 1, 1e-5);
    EXPECT_NEAR(Bench(two, 8).ms({{0, 4}, {1, 6}}), 2, 1e-5);
}
TEST(FabricLinks, AFatTreeOfFourPortsHas16Machines) {
    const Bench b(gx::sim::fat_tree(4), 16);
    EXPECT_EQ(b.network.links(), 64) << "4 levels of links, 16 each";
    EXPECT_EQ(b.route(0, 1).count, 0) << "one edge switch";
    EXPECT_EQ(b.route(0, 2).count, 2) << "one pod";
    EXPECT_EQ(b.route(0, 4).count, 4) << "across the core";
    // A shift by 4 is free of conflicts: routes to different machines differ.
    std::vector<std::pair<int, int>> shift;
    for (int m = 0; m < 16; ++m) shift.push_back({m, (m + 4) % 16});
    EXPECT_NEAR(Bench(gx::sim::fat_tree(4), 16).ms(shift), 1, 1e-5);
    // Destinations 4 and 6 share 'up' 0 but not the core; 4 and 8 share the link up from edge 0.
    EXPECT_NEAR(Bench(gx::sim::fat_tree(4), 16).ms({{0, 4}, {1, 8}}), 2, 1e-5);
}
TEST(FabricLinks, ADragonflyCrossesOneGlobalLink) {
    // 3 groups of 2 routers of 2 machines; router 0 of group g goes to g + 1, router 1 to g + 2.
    const Fabric f = gx::sim::dragonfly({.groups = 3, .routers = 2, .machines = 2});
    const Bench b(f, 12);
    EXPECT_EQ(b.route(0, 1).count, 0) << "one router";
    EXPECT_EQ(b.route(0, 2).count, 1) << "one group";
    EXPECT_EQ(b.route(0, 6).count, 1 + 0) << "router 0 to group 1, which it enters at router 1";
    EXPECT_EQ(b.route(0, 4).count, 2);
    EXPECT_EQ(b.route(2, 4).count, 3) << "inside, global, inside";
    EXPECT_NEAR(Bench(f, 12).ms({{0, 6}, {1, 7}}), 2, 1e-5) << "one global link";
    EXPECT_NEAR(Bench(f, 12).ms({{0, 6}, {2, 10}}), 1, 1e-5);
}
TEST(FabricLinks, ATorusGoesTheShorterWayRound) {
    const Fabric f = gx::sim::torus(5, 4, 3);
    const Bench b(f, 60);
    EXPECT_EQ(b.route(0, 1).count, 1);
    EXPECT_EQ(b.route(0, 4).count, 1) << "round the end";
    EXPECT_EQ(b.route(0, 2 + 5 * 2 + 20 * 1).count, 5);
    EXPECT_NEAR(Bench(f, 60).ms({{0, 2}, {1, 2}}), 2, 1e-5) << "both cross 1 to 2";
    EXPECT_NEAR(Bench(f, 60).ms({{0, 1}, {1, 0}}), 1, 1e-5) << "full duplex";
}

// ---- Properties, for any fabric -----------------------------------------------------
RC_GTEST_PROP(FabricLinks, ARouteIsShortCrossesNoLinkTwiceAndNoneOfTheWayBack, ()) {
    const auto [f, machines] = any_fabric();
    const Bench b(f, machines);
    const int from = *rc::gen::inRange(0, machines), to = *rc::gen::inRange(0, machines);
    const auto there = b.route(from, to), back = b.route(to, from);
    RC_ASSERT(there.count <= longest_route(f));
    std::set<int> crossed(there.view().begin(), there.view().end());
    RC_ASSERT(static_cast<int>(crossed.size()) == there.count);
    for (const int l : back.view()) crossed.insert(l);
    RC_ASSERT(static_cast<int>(crossed.size()) == there.count + back.count);
    for (const int l : crossed) RC_ASSERT(l >= 0 && l < b.network.links());
    if (from == to) RC_ASSERT(there.count == 0);
}
RC_GTEST_PROP(FabricLinks, AFatTreeCarriesEveryShiftAtFullRate, ()) {
    const int ports = 2 * *rc::gen::inRange(1, 4), machines = ports * ports * ports / 4;
    Bench b(gx::sim::fat_tree(ports), machines);
    const int by = *rc::gen::inRange(0, machines);
    std::vector<std::pair<int, int>> shift;
    for (int m = 0; m < machines; ++m)
        if (b.route(m, (m + by) % machines).count > 0) shift.push_back({m, (m + by) % machines});
    RC_ASSERT(b.ms(shift) <= 1.00001);
}

// ---- Bad input ----------------------------------------------------------------------
std::string refusal(const Fabric& f, int machines) {
    try {
        const Bench b(f, machines);
    } catch (const gx::Error& e) {
        return e.what();
    }
    return "";
}
TEST(FabricLinks, SaysWhyAFabricCannotJoinTheMachines) {
    EXPECT_EQ(refusal(gx::sim::fat_tree(4), 17),
              "fabric: it is not connected: a fat tree of 4 ports a switch joins at most 16 "
              "machines, and there are 17");
    EXPECT_EQ(refusal(gx::sim::fat_tree(5), 4),
              "fabric: a fat tree's switch has 2, 4, 6, ... ports, and not 5");
    EXPECT_EQ(refusal(gx::sim::dragonfly({.groups = 5, .routers = 2, .machines = 1}), 10),
              "fabric: it is not connected: each group has 2 global links and needs one to each "
              "of the 4 other groups");
    EXPECT_EQ(refusal(gx::sim::torus(2, 2), 5),
              "fabric: it is not connected: this torus joins at most 4 machines, and there are 5");
    EXPECT_EQ(refusal(gx::sim::leaf_spine({.machines_per_leaf = 8}), 12), "") << "a leaf of four";
    Fabric no_leaves = gx::sim::fat_tree(4);
    no_leaves.machines_per_leaf = 0;
    EXPECT_EQ(refusal(no_leaves, 4), "");
    for (const double ratio : {0.0, std::numeric_limits<double>::infinity()})
        EXPECT_EQ(
            refusal(gx::sim::leaf_spine({.machines_per_leaf = 8, .oversubscription = ratio}), 16),
            "fabric: oversubscription is a ratio above 0 and of at most 1e6: 4 is written 4:1");
    EXPECT_EQ(refusal(gx::sim::leaf_spine({.spines = 2'000'000'000}), 4),
              "fabric: 2000000000 switches, links or machines of a kind: give at most 1000000");
    EXPECT_EQ(refusal(gx::sim::leaf_spine({.spines = 1'000'000}), 4),
              "fabric: more than 4000000 links between switches: give fewer");
    EXPECT_EQ(refusal(gx::sim::fat_tree(2048), 17),
              "fabric: a switch of 2048 ports: give at most 256");
    EXPECT_EQ(refusal(gx::sim::torus(65'536, 65'536), 4),
              "fabric: more than 4000000 links between switches: give fewer");
    EXPECT_EQ(refusal({.kind = Fabric::Kind::torus,
                       .extent = {2, 2, 1},
                       .link_rate = {std::numeric_limits<double>::infinity()}},
                      4),
              "fabric: link_rate is above 1e15 bytes per second: give a rate, or 0 for that of "
              "a NIC");
    EXPECT_EQ(refusal({.kind = Fabric::Kind::torus, .extent = {2, 2, 1}, .link_rate = {-1}}, 4),
              "fabric: link_rate is below 0: give a rate, or 0 for that of a NIC");
}

}  // namespace
