#include <gx/sim/catalog/cluster_of.hpp>  // first, so the header is seen to stand alone

#include <string>  // sentences

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/sim/topology/topology.hpp>  // routes

namespace {

using gx::sim::ClusterSpec;
using gx::sim::MachineConditions;
using gx::sim::PeerLink;
using namespace gx::literals;

struct Bench {
    explicit Bench(const ClusterSpec& spec) : topology(spec, network) {}
    gx::sim::Engine engine{};
    gx::sim::FlowNetwork network{engine};
    gx::sim::Topology topology;
};

// ---- Clusters by name ---------------------------------------------------------------
TEST(ClusterOf, IsMachinesOnAFabricUnderAProfile) {
    const ClusterSpec c = gx::sim::cluster_of("p3.16xlarge", 8, "nccl-2.10+tcp-aws",
                                              gx::sim::leaf_spine({.machines_per_leaf = 4}));
    EXPECT_EQ(c.ranks(), 64);
    EXPECT_EQ(c.profile.name.view(), "nccl-2.10+tcp-aws");
    EXPECT_DOUBLE_EQ(c.dollars(std::chrono::hours(1)).count, 8 * 24.48);
    EXPECT_DOUBLE_EQ(c.spot_dollars(std::chrono::hours(1)).count, 8 * 8.32);
}
TEST(ClusterOf, RanksFillMachines) {
    const auto p3 = gx::sim::find_machine("p3.16xlarge");
    EXPECT_EQ(gx::sim::cluster_of_ranks(p3, 4).machine.gpus, 4);
    EXPECT_EQ(gx::sim::cluster_of_ranks(p3, 4).machines, 1);
    EXPECT_EQ(gx::sim::cluster_of_ranks(p3, 64).machines, 8);
}

// ---- Machines from conditions, worked by hand ---------------------------------------
TEST(ClusterOf, FourNicsOfADgx1AreUnderItsFourSwitches) {
    const auto m = gx::sim::machine_of({.gpu = gx::sim::v100(),
                                        .gpus = 8,
                                        .link = PeerLink::v100_mesh,
                                        .nic_gbps = 100,
                                        .nics = 4});
    const auto& dgx = gx::sim::find_machine("DGX-1V");
    EXPECT_EQ(m.wiring.nvlinks, dgx.wiring.nvlinks);
    const Bench b(gx::sim::cluster_of(m, 2)), d(gx::sim::cluster_of(dgx, 2));
    for (int g = 0; g < 8; ++g) {
        EXPECT_EQ(b.topology.nic_of(g), g / 2);
        EXPECT_EQ(b.topology.nic_of(g), d.topology.nic_of(g));
    }
}
TEST(ClusterOf, FourA100AreJoinedByFourLinksAPair) {
    const auto m = gx::sim::machine_of(
        {.gpu = gx::sim::a100_40gb(), .gpus = 4, .link = PeerLink::nvlink_all, .nic_gbps = 200});
    EXPECT_EQ(m.wiring.nvlinks[0][3], 4) << "12 links to 3 others";
}

// ---- A property, for any conditions -------------------------------------------------
RC_GTEST_PROP(ClusterOf, EveryMachineThatIsAcceptedRoutesBetweenAllItsRanks, ()) {
    const MachineConditions c{
        .gpu = *rc::gen::element(gx::sim::k80(), gx::sim::p100(), gx::sim::v100(),
                                 gx::sim::a100_40gb(), gx::sim::h100()),
        .gpus = *rc::gen::inRange(1, 17),
        .link = static_cast<PeerLink>(*rc::gen::inRange(0, 7)),
        .nic_gbps = double(*rc::gen::element(10, 25, 56, 96)),
        .nics = *rc::gen::inRange(1, 9)};
    try {
        const ClusterSpec spec = gx::sim::cluster_of(gx::sim::machine_of(c), 2);
        const Bench b(spec);
        for (int to = 1; to < spec.ranks(); ++to) RC_ASSERT(b.topology.route(0, to).path.count > 0);
    } catch (const gx::Error&) {
        const bool mesh = c.link == PeerLink::p100_mesh || c.link == PeerLink::v100_mesh;
        const int links = gx::sim::nvlink_ports(c.gpu).links;
        RC_ASSERT((mesh && c.gpus > 8) || (c.link >= PeerLink::p100_mesh && links == 0) ||
                  (c.link == PeerLink::nvlink_all && links < c.gpus - 1));
    }
}

// ---- Names of networks --------------------------------------------------------------
TEST(ClusterOf, NetworksHaveTheNamesThatPeopleGiveThem) {
    const auto name = [](std::string_view text, double gbps, bool cloud) {
        return gx::sim::transport_of(text, gbps, cloud).name;
    };
    EXPECT_EQ(name("TCP", 25, true), "tcp-aws");
    EXPECT_EQ(name("10 Gb/s Ethernet", 10, false), "tcp-10g");
    EXPECT_EQ(name("InfiniBand FDR (56 Gb/s)", 56, false), "ib-fdr");
    EXPECT_EQ(name("InfiniBand RDMA", 100, false), "ib-edr");
    EXPECT_EQ(name("RoCE RDMA", 100, false), "roce-100g");
    EXPECT_EQ(name("TCP (gRPC)", 20, true), "parameter-server-grpc");
}

// ---- Bad input ----------------------------------------------------------------------
template <class F>
std::string refusal(F&& f) {
    try {
        (void)f();
    } catch (const gx::Error& e) {
        return e.what();
    }
    return "";
}
TEST(ClusterOf, SaysWhatDoesNotFit) {
    const auto p3 = gx::sim::find_machine("p3.16xlarge");
    EXPECT_EQ(refusal([&] { return gx::sim::cluster_of_ranks(p3, 20); }),
              "20 ranks do not fill machines of 8 GPUs ('p3.16xlarge'): choose 1 to 8 or a "
              "multiple of it");
    EXPECT_EQ(refusal([&] { return gx::sim::with_gpus(p3, 9); }),
              "machine 'p3.16xlarge' has 8 GPUs: 9 of them can't be used");
    EXPECT_EQ(refusal([] {
                  return gx::sim::machine_of(
                      {.gpu = gx::sim::k80(), .gpus = 8, .link = PeerLink::nvswitch});
              }),
              "8 x K80 over nvswitch: this GPU has no NVLink: say pcie3 or pcie4");
    EXPECT_EQ(refusal([] {
                  return gx::sim::machine_of(
                      {.gpu = gx::sim::v100(), .gpus = 16, .link = PeerLink::v100_mesh});
              }),
              "16 x V100-SXM2-16GB over v100_mesh: the hybrid cube mesh has 8 GPUs");
    EXPECT_EQ(refusal([] { return gx::sim::transport_of("carrier pigeon", 1, false); }),
              "unknown transport 'carrier pigeon': choose TCP, Ethernet, InfiniBand, RoCE, EFA or "
              "gRPC");
}

}  // namespace
