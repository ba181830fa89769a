#include <gx/sim/topology/topology.hpp>  // first, so the header is seen to stand alone

#include <algorithm>   // count
#include <cmath>       // nan
#include <functional>  // function
#include <limits>      // infinity
#include <string>      // sentences
#include <utility>     // pair
#include <vector>      // messages

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/core/error.hpp>                   // Error
#include <gx/sim/catalog/find_machine.hpp>     // find_machine
#include <gx/sim/catalog/simple_clusters.hpp>  // the presets
#include <gx/sim/catalog/comm_stacks.hpp>      // find_profile
#include <gx/sim/hardware/validate.hpp>        // check

namespace {

using namespace gx::literals;
using gx::sim::Topology;

// ---- The presets are constants ------------------------------------------------------
static_assert(gx::sim::v100_box().ranks() == 8);
static_assert(gx::sim::ethernet_10g().placement() == gx::Placement{8, 1});
static_assert(gx::sim::plain_p3_16xlarge(4).name.view() != "p3.16xlarge",
              "the catalogue's wired machine has this name");
static_assert(gx::sim::plain_p3_16xlarge(4).placement() == gx::Placement{4, 8});
static_assert(gx::sim::plain_p3_16xlarge(2).dollars(std::chrono::hours(1)).count == 48.96);
static_assert(gx::sim::ethernet_10g().flow_cap == 5_Gbps);

struct Bench {
    explicit Bench(const gx::sim::ClusterSpec& spec) : topology(spec, network) {}
    gx::sim::Engine engine{};
    gx::sim::FlowNetwork network{engine};
    Topology topology;
};

// ---- Routes -------------------------------------------------------------------------
TEST(Topology, MachinesShareTheirNicAndPeersDoNot) {
    const auto spec = gx::sim::plain_p3_16xlarge(2);
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
    auto spec = gx::sim::plain_p3_16xlarge(2);
    spec.machine.host_bandwidth = 1_GBps;
    const Bench b(spec);
    EXPECT_EQ(b.topology.route(0, 8).path.count, 4);
    EXPECT_NE(b.topology.route(0, 8).path.links[0], b.topology.route(1, 8).path.links[0]);
    EXPECT_EQ(b.topology.route(0, 8).path.links[1], b.topology.route(1, 8).path.links[1]);
}

TEST(Topology, EveryRouteIsItsOwnInItsDirection) {
    const Bench b(gx::sim::plain_p3_16xlarge(3));
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

// ---- Wiring, worked by hand ---------------------------------------------------------
/// Two GPUs under one PCIe switch, two under another; a NIC at each of two sockets.
gx::sim::MachineSpec four_on_pcie() {
    gx::sim::MachineSpec m{.name = "four", .gpus = 4, .nic_line_rate = 10_Gbps, .nics = 2};
    auto& w = m.wiring;
    w.known = true;
    w.sockets = 2;
    w.switches = 2;
    w.socket_link = 6_GBps;
    w.peer_penalty = 1.2;
    w.pcie_switch = {{{.rate = 12_GBps, .socket = 0}, {.rate = 12_GBps, .socket = 1}}};
    for (int g = 0; g < 4; ++g)
        w.gpu[static_cast<std::size_t>(g)] = {.rate = 12_GBps, .under = g / 2};
    w.nic = {{{.rate = 6_GBps, .socket = 0}, {.rate = 6_GBps, .socket = 1}}};
    return m;
}
/// When the last of these messages of 60 MB that start together has arrived, in ms.
double ms_together(const gx::sim::ClusterSpec& spec, const std::vector<std::pair<int, int>>& pairs,
                   int channel = 0) {
    Bench b(spec);
    for (const auto& [from, to] : pairs) {
        const auto r = b.topology.route(from, to, channel);
        b.network.start({.path = r.path,
                         .bytes = 60_MB,
                         .latency = r.latency,
                         .cap = r.cap,
                         .done = {[](void*, std::uint64_t) {}, nullptr, 0}});
    }
    b.engine.drain();
    return gx::seconds(b.engine.now()) * 1e3;
}

TEST(Topology, PcieIsSharedWhereItsTreeIs) {
    const gx::sim::ClusterSpec box{.machine = four_on_pcie()};
    EXPECT_NEAR(ms_together(box, {{0, 1}}), 60.0 / 12, 1e-3) << "under one switch";
    EXPECT_NEAR(ms_together(box, {{0, 1}, {1, 0}}), 60.0 / 12, 1e-3) << "full duplex";
    EXPECT_NEAR(ms_together(box, {{0, 2}}), 60.0 / 5, 1e-3) << "QPI 6 / 1.2";
    EXPECT_NEAR(ms_together(box, {{0, 2}, {1, 3}}), 120.0 / 5, 1e-3) << "two on one QPI";
    EXPECT_NEAR(ms_together(box, {{0, 2}, {3, 1}}), 60.0 / 5, 1e-3) << "one each way";
    EXPECT_EQ(Bench(box).topology.route(0, 2).slowest, gx::sim::LinkClass::pci);
}
TEST(Topology, EachSocketHasItsNicAndTheChannelChoosesAmongEqualOnes) {
    gx::sim::ClusterSpec two{.machine = four_on_pcie(), .machines = 2};
    const Bench b(two);
    EXPECT_EQ(b.topology.nic_of(0), 0);
    EXPECT_EQ(b.topology.nic_of(1, 5), 0) << "the other NIC is at the other socket";
    EXPECT_EQ(b.topology.nic_of(2), 1);
    EXPECT_NEAR(ms_together(two, {{0, 4}}), 60.0 / 1.25, 1e-3);
    EXPECT_NEAR(ms_together(two, {{0, 4}, {1, 5}}), 120.0 / 1.25, 1e-3) << "one NIC";
    EXPECT_NEAR(ms_together(two, {{0, 4}, {2, 6}}), 60.0 / 1.25, 1e-3) << "two NICs";
    // Both at socket 0: GPUs of that socket begin with different ones, others follow.
    two.machine.wiring.nic[1].socket = 0;
    const Bench c(two);
    EXPECT_EQ(c.topology.nic_of(0, 0), 0);
    EXPECT_EQ(c.topology.nic_of(0, 1), 1);
    EXPECT_EQ(c.topology.nic_of(1, 0), 1);
    EXPECT_EQ(c.topology.nic_of(2, 0), 0) << "as far from both: across the sockets";
}

// ---- Machines that people rent ------------------------------------------------------
gx::sim::ClusterSpec cluster(std::string_view machine, int machines,
                             std::string_view profile = "exact", gx::sim::Fabric fabric = {}) {
    return {.machine = gx::sim::find_machine(machine),
            .machines = machines,
            .fabric = fabric,
            .profile = gx::sim::find_profile(profile)};
}
TEST(Topology, TheMeshOfADgx1vHasOneTwoOrNoLinks) {
    const auto box = cluster("DGX-1V", 1);
    EXPECT_NEAR(ms_together(box, {{0, 1}}), 60.0 / 40, 1e-3) << "two links of 20 GB/s";
    EXPECT_NEAR(ms_together(box, {{1, 2}}), 60.0 / 20, 1e-3) << "one link";
    EXPECT_NEAR(ms_together(box, {{0, 1}, {1, 2}, {2, 3}}), 60.0 / 20, 1e-3) << "no sharing";
    // 0 and 4 (physical 7) are not joined: PCIe and QPI, 6 / 1.2 GB/s.
    EXPECT_NEAR(ms_together(box, {{0, 4}}), 60.0 / 5, 1e-3);
    // Rank order is a ring of NVLinks.
    const Bench b(box);
    for (int r = 0; r < 8; ++r)
        EXPECT_EQ(b.topology.route(r, (r + 1) % 8).slowest, gx::sim::LinkClass::nvlink) << r;
}
TEST(Topology, BoardsOfAP216xlargeMeetAtTwoSwitchesAndQpi) {
    const auto box = cluster("p2.16xlarge", 1);
    const Bench b(box);
    EXPECT_NEAR(ms_together(box, {{0, 1}}), 60.0 / 12, 1e-3) << "one board";
    EXPECT_NEAR(ms_together(box, {{0, 2}}), 60.0 / 12, 1e-3) << "two boards, one upper switch";
    EXPECT_NEAR(ms_together(box, {{0, 2}, {1, 3}}), 120.0 / 12, 1e-3) << "a board's one uplink";
    EXPECT_NEAR(ms_together(box, {{7, 8}}), 60.0 / 5, 1e-3) << "across the sockets";
    EXPECT_NEAR(ms_together(box, {{7, 8}, {15, 0}}), 60.0 / 5, 1e-3) << "a ring: one each way";
    EXPECT_NEAR(ms_together(box, {{0, 8}, {1, 9}, {2, 10}, {3, 11}}), 240.0 / 5, 1e-3);
}
TEST(Topology, RailsOfADgxA100CarryEachTheirOwn) {
    const auto two = cluster("DGX-A100", 2, "exact", gx::sim::rails());
    std::vector<std::pair<int, int>> all;
    for (int g = 0; g < 8; ++g) all.push_back({g, 8 + g});
    EXPECT_NEAR(ms_together(two, all), 60.0 / 24, 1e-3) << "8 NICs, each behind PCIe 4 x16";
    const Bench b(two);
    for (int g = 0; g < 8; ++g) {
        EXPECT_EQ(b.topology.nic_of(g), g);
        const auto r = b.topology.route(g, 8 + (g + 3) % 8);
        EXPECT_EQ(std::ranges::count(r.path.view(), b.topology.nic_in(1, g)), 1) << "same rail";
    }
}
TEST(Topology, AProfileAddsItsLatencyAndCapsAConnection) {
    auto spec = cluster("p3.16xlarge", 2, "nccl-2.10+tcp-aws");
    spec.profile.transport.connections = 1;
    spec.profile.transport.connection_cap = 10_Gbps;
    const Bench b(spec);
    EXPECT_EQ(b.topology.route(0, 1).latency, gx::Nanoseconds(3'400));
    EXPECT_EQ(b.topology.route(0, 8).latency, gx::Nanoseconds(9'600 + 22'200));
    EXPECT_EQ(b.topology.route(0, 8).cap, 10_Gbps);
    EXPECT_NEAR(ms_together(spec, {{0, 8}}), 60.0 / 1.25 + 0.0318, 1e-3);
    const double both = 120.0 / 2.5, three = 180.0 / (25.0 / 8 * 0.94);
    EXPECT_NEAR(ms_together(spec, {{0, 8}, {1, 9}}), both + 0.0318, 1e-3);
    EXPECT_NEAR(ms_together(spec, {{0, 8}, {1, 9}, {2, 10}}), three + 0.0318, 1e-3);
}

// ---- Leaving links out changes nothing ----------------------------------------------
TEST(Topology, LinksThatAreLeftOutCanNeverBeTheNarrowest) {
    // One GPU, one NIC: only the NIC counts, whatever PCIe is above it.
    EXPECT_EQ(Bench(cluster("p3.2xlarge", 2)).topology.route(0, 1).path.count, 2);
    // H100: a NIC of 48 GB/s beside each GPU, and peers on NVSwitch: the PCIe tree adds nothing.
    EXPECT_EQ(Bench(cluster("DGX-H100", 2)).topology.route(0, 8).path.count, 2);
    // DGX-1V: PCIe also carries pairs without NVLink, so it stays.
    EXPECT_GT(Bench(cluster("DGX-1V", 2)).topology.route(0, 8).path.count, 2);
}
RC_GTEST_PROP(Topology, EveryRouteOfEveryMachineIsItsOwnInItsDirection, ()) {
    const int which = *rc::gen::inRange(0, static_cast<int>(gx::sim::machine_makers.size()));
    const auto profile = *rc::gen::element("exact", "nccl-2.5+tcp-10g");
    const auto fabric = *rc::gen::element(gx::sim::star(), gx::sim::rails(), gx::sim::torus(3, 1));
    gx::sim::ClusterSpec spec{.machine = gx::sim::machine_makers[std::size_t(which)](),
                              .machines = 3,
                              .fabric = fabric,
                              .profile = gx::sim::find_profile(profile)};
    if (spec.machine.nic_line_rate > 50_Gbps && spec.machine.nics == 1)
        spec.machine.nic_line_rate = 40_Gbps;  // an FDR NIC needs its own profile's cap
    const Bench b(spec);
    const int from = *rc::gen::inRange(0, spec.ranks()), to = *rc::gen::inRange(0, spec.ranks());
    RC_PRE(from != to);
    const auto there = b.topology.route(from, to), back = b.topology.route(to, from);
    RC_ASSERT(there.path.count > 0);
    for (const int l : there.path.view()) {
        RC_ASSERT(l >= 0 && l < b.network.links());
        // What is copied to host memory and back crosses its switch both ways.
        if (!spec.profile.transport.through_host)
            for (const int m : back.path.view()) RC_ASSERT(l != m);
        RC_ASSERT(std::ranges::count(there.path.view(), l) == 1);
    }
}

// ---- Bad input ----------------------------------------------------------------------
std::string refusal(const gx::sim::ClusterSpec& spec) {
    try {
        const Bench b(spec);
    } catch (const gx::Error& e) {
        return e.what();
    }
    return "";
}
TEST(Topology, SaysWhatCannotBeBuilt) {
    auto spec = gx::sim::ethernet_10g();
    spec.machine.nic_line_rate = {0};
    EXPECT_EQ(
        refusal(spec),
        "machine '1 x V100': NICs of zero rate: set nic_line_rate, nic_gbps in a file, above 0");
    spec = {.machine = four_on_pcie(), .machines = 2};
    spec.machine.nic_line_rate = 100_Gbps;
    EXPECT_EQ(refusal(spec),
              "machine 'four': NIC 0 carries 100 Gb/s and its PCIe only 48 Gb/s: "
              "lower the NIC's rate or widen its port");
    spec = {.machine = four_on_pcie()};
    spec.machine.wiring.pcie_switch[1].under = 1;
    EXPECT_EQ(refusal(spec),
              "machine 'four': cycle in a tree: the PCIe switches above PCIe switch "
              "1 are under each other; one must be at a socket");
    spec = {.machine = four_on_pcie()};
    spec.machine.wiring.gpu[3].under = 7;
    EXPECT_EQ(refusal(spec),
              "machine 'four': it is not connected: GPU 3 is under PCIe switch 7, "
              "and there are 2");
    spec = {.machine = four_on_pcie()};
    spec.machine.wiring.socket_link = {0};
    EXPECT_EQ(refusal(spec),
              "machine 'four': it is not connected: 2 sockets are joined by a link "
              "of zero rate");
    spec = {.machine = four_on_pcie()};
    spec.machine.wiring.gpu[2].rate = {0};
    EXPECT_EQ(refusal(spec),
              "machine 'four': GPU 2 has a PCIe link of zero rate: give it a rate above 0");
    spec = {.machine = four_on_pcie()};
    spec.machine.wiring.nvlinks[0][1] = 2;
    EXPECT_EQ(refusal(spec),
              "machine 'four': GPU 0 has 2 NVLinks to GPU 1, which has 0 back: a "
              "link has two ends");
    spec = {.machine = four_on_pcie()};
    spec.machine.wiring.nvlinks[2][2] = 7;
    EXPECT_EQ(refusal(spec), "machine 'four': GPU 2 has 7 NVLinks to itself: expected 0");
    constexpr double inf = std::numeric_limits<double>::infinity();
    const auto refused = [](auto change) {
        auto s = gx::sim::ethernet_10g(2);
        change(s);
        try {
            gx::sim::check(s);
        } catch (const gx::Error& e) {
            return std::string(e.what());
        }
        return std::string("none");
    };
    EXPECT_EQ(refused([](auto& s) { s.flow_cap = {inf}; }),
              "cluster 'V100 machines on 10 Gb/s Ethernet': flow_cap is inf: give a number from 0 "
              "to 1e+15 bytes per second; 0 where there is no limit or link");
    EXPECT_EQ(refused([](auto& s) { s.machine.gpu.launch = gx::Nanoseconds(-1000); }),
              "GPU 'V100-SXM2-16GB': launch is -1000: give a number from 0 to 1e+09 ns");
    EXPECT_EQ(refused([](auto& s) { s.machine.price = {std::nan("")}; }),
              "machine '1 x V100': price is nan: give a number from 0 to 1e+09 dollars; 0 where it "
              "is unknown");
    EXPECT_EQ(refused([](auto& s) { s.machines = 1 << 29, s.machine.gpus = 8; }),
              "cluster 'V100 machines on 10 Gb/s Ethernet': machines is 5.36871e+08: give a number "
              "from 1 to 1e+06");
    const std::vector<std::function<void(gx::sim::ClusterSpec&)>> others{
        [](auto& s) { s.latency = gx::Nanoseconds(-5); },
        [](auto& s) { s.latency = gx::Nanoseconds::max(); },
        [](auto& s) { s.goodput = 2; },
        [](auto& s) { s.machines = 1, s.goodput = 0; },
        [](auto& s) { s.machine.nic_line_rate = {1e17}; },
        [](auto& s) { s.machine.host_bandwidth = {-1}; },
        [](auto& s) { s.machine.gpus = 2, s.machine.peer_bandwidth = {inf}; },
        [](auto& s) { s.machine.peer_latency = gx::Nanoseconds(-1); },
        [](auto& s) { s.machine.nics = 100'000; },
        [](auto& s) { s.machine.gpu.fp32 = {-1}; },
        [](auto& s) { s.machine.gpu.multiprocessors = -5; },
        [](auto& s) { s.machine.gpu.efficiency_fp32.linear = 5; },
        [](auto& s) { s.machine.price = {-3}; }};
    for (std::size_t i = 0; i < others.size(); ++i)
        EXPECT_NE(refused(others[i]).find(": give a number from "), std::string::npos) << i;
    spec = cluster("p3.2xlarge", 24 * 24, "exact", gx::sim::torus(24, 24));
    EXPECT_EQ(refusal(spec),
              "the longest route crosses 26 links, and a path holds 16: choose a "
              "smaller torus, or fewer PCIe switches under each other");
}
TEST(TopologyDeathTest, RefusesAnEmptyClusterAndAnImpossibleGoodput) {
    EXPECT_DEATH(Bench(gx::sim::ethernet_10g(0)), "at least one machine");
    auto spec = gx::sim::ethernet_10g();
    spec.goodput = 1.1;
    EXPECT_DEATH(Bench{spec}, "goodput is a share");
}

}  // namespace
