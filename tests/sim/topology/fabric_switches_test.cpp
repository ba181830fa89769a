#include <gx/sim/topology/fabric_switches.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

#include <gx/sim/des/engine.hpp>       // Engine
#include <gx/sim/network/network.hpp>  // FlowNetwork
#include <rapidcheck/gtest.h>

#include <gx/sim/topology/fabric_links.hpp>  // FabricLinks
#include <sim/topology/any_fabric.hpp>       // any_fabric

namespace {

using namespace gx::sim;
using namespace gx::literals;

// ---- Cases worked by hand -----------------------------------------------------------
TEST(FabricSwitches, EachFabricHasItsKinds) {
    EXPECT_EQ(FabricSwitches(star(), 8, 1).choices(), "none");
    EXPECT_EQ(FabricSwitches(rails(), 8, 4).choices(), "rail 0 to 3");
    EXPECT_EQ(FabricSwitches(leaf_spine({.machines_per_leaf = 4, .spines = 2}), 12, 1).choices(),
              "leaf 0 to 2, spine 0 to 1");
    EXPECT_EQ(FabricSwitches(fat_tree(4), 16, 1).choices(),
              "edge 0 to 7, aggregation 0 to 7, core 0 to 3");
    EXPECT_EQ(
        FabricSwitches(dragonfly({.groups = 3, .routers = 2, .machines = 2}), 12, 1).choices(),
        "router 0 to 5");
    EXPECT_EQ(FabricSwitches(torus(3, 2), 6, 1).choices(), "router 0 to 5");
    EXPECT_EQ(FabricSwitches(leaf_spine({}), 1, 1).choices(), "none") << "one machine alone";
}
TEST(FabricSwitches, AMachineIsPluggedIntoOne) {
    const FabricSwitches leaves(leaf_spine({.machines_per_leaf = 4}), 12, 2);
    EXPECT_EQ(leaves.at(leaves.of(7, 1)), (Switch{SwitchKind::leaf, 1}));
    const FabricSwitches planes(rails(), 3, 2);
    EXPECT_EQ(planes.at(planes.of(2, 1)), (Switch{SwitchKind::rail, 1}));
    const FabricSwitches tree(fat_tree(4), 16, 1);
    EXPECT_EQ(tree.at(tree.of(5, 0)), (Switch{SwitchKind::edge, 2}));
    EXPECT_EQ(tree.at(tree.node({SwitchKind::core, 3})), (Switch{SwitchKind::core, 3}));
}

// ---- A property, for any fabric -----------------------------------------------------
RC_GTEST_PROP(FabricSwitches, ARouteIsAChainOfLinksFromSwitchToSwitch, ()) {
    const auto [f, machines] = any_fabric();
    gx::sim::Engine engine;
    gx::sim::FlowNetwork network(engine);
    const FabricLinks links(f, machines, 1, 1_GBps, network);
    const FabricSwitches switches(f, machines, 1);
    RC_ASSERT(std::ssize(switches.links()) == links.count());
    const int from = *rc::gen::inRange(0, machines), to = *rc::gen::inRange(0, machines);
    Path path;
    links.add_route(from, to, path);
    int at = switches.of(from, 0);
    for (const int link : path.view()) {
        const auto [begin, end] = switches.links()[std::size_t(link - links.first())];
        RC_ASSERT(begin == at);
        at = end;
    }
    RC_ASSERT(at == switches.of(to, 0));
    for (int node = 0; node < switches.count(); ++node)
        RC_ASSERT(switches.node(switches.at(node)) == node);
}

}  // namespace
