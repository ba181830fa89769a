#include <gx/sim/topology.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

#include <gx/sim/machines.hpp>  // the presets

namespace {

using namespace gx::literals;
using gx::sim::Topology;

// ---- The presets are constants ------------------------------------------------------
static_assert(gx::sim::v100_box().ranks() == 8);
static_assert(gx::sim::ethernet_10g().placement() == gx::Placement{8, 1});
static_assert(gx::sim::p3_16xlarge(4).placement() == gx::Placement{4, 8});
static_assert(gx::sim::p3_16xlarge(2).dollars(std::chrono::hours(1)).count == 48.96);
static_assert(gx::sim::ethernet_10g().flow_cap == 5_Gbps);

struct Bench {
    explicit Bench(const gx::sim::ClusterSpec& spec) : topology(spec, network) {}
    gx::sim::Engine engine{};
    gx::sim::Network network{engine};
    Topology topology;
};

// ---- Routes -------------------------------------------------------------------------
TEST(Topology, MachinesShareTheirNicAndPeersDoNot) {
    const auto spec = gx::sim::p3_16xlarge(2);
    const Bench b(spec);
    const auto inside = b.topology.route(0, 3), across = b.topology.route(3, 12);
    EXPECT_EQ(inside.path.count, 2);
    EXPECT_EQ(inside.latency, spec.machine.peer_latency);
    EXPECT_EQ(inside.cap, spec.machine.peer_flow_cap);
    EXPECT_EQ(across.path.count, 2) << "PCIe is wider than the NIC and left out";
    EXPECT_EQ(across.path.links[0], b.topology.nic_out(0));
    EXPECT_EQ(across.path.links[1], b.topology.nic_in(1));
    EXPECT_EQ(across.latency, spec.latency);
    EXPECT_EQ(across.cap, 10_Gbps);
    EXPECT_EQ(b.topology.route(5, 5).path.count, 0);
    EXPECT_EQ(b.topology.route(5, 5).latency.count(), 0);
}

TEST(Topology, ANarrowHostLinkIsPartOfTheRoute) {
    auto spec = gx::sim::p3_16xlarge(2);
    spec.machine.host_bandwidth = 1_GBps;
    const Bench b(spec);
    EXPECT_EQ(b.topology.route(0, 8).path.count, 4);
    EXPECT_NE(b.topology.route(0, 8).path.links[0], b.topology.route(1, 8).path.links[0]);
    EXPECT_EQ(b.topology.route(0, 8).path.links[1], b.topology.route(1, 8).path.links[1]);
}

TEST(Topology, EveryRouteIsItsOwnInItsDirection) {
    const Bench b(gx::sim::p3_16xlarge(3));
    for (int from = 0; from < 24; ++from)
        for (int to = 0; to < 24; ++to) {
            if (from == to) continue;
            const auto there = b.topology.route(from, to), back = b.topology.route(to, from);
            for (const int l : there.path.view()) {
                EXPECT_GE(l, 0);
                EXPECT_LT(l, b.network.links());
                for (const int m : back.path.view()) EXPECT_NE(l, m) << "full duplex";
            }
        }
}

// ---- Bad input ----------------------------------------------------------------------
TEST(TopologyDeathTest, RefusesAnEmptyClusterAndAnImpossibleGoodput) {
    EXPECT_DEATH(Bench(gx::sim::ethernet_10g(0)), "at least one machine");
    auto spec = gx::sim::ethernet_10g();
    spec.goodput = 1.1;
    EXPECT_DEATH(Bench{spec}, "goodput is a share");
    spec.goodput = 1;
    spec.machine.nic_line_rate = {0};
    EXPECT_DEATH(Bench{spec}, "a link needs a rate above 0");
}

}  // namespace
