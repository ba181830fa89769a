#include <gx/sim/topology/check_cluster.hpp>  // first, so the header is seen to stand alone

#include <algorithm>  // max
#include <string>     // refusals

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/sim/catalog/cluster_of.hpp>    // with_gpus
#include <gx/sim/catalog/find_machine.hpp>  // find_machine
#include <gx/sim/topology/topology.hpp>     // Topology

namespace {

using namespace gx::sim;

std::string refusal(const ClusterSpec& spec, bool failover) {
    try {
        check_cluster(spec, failover);
    } catch (const gx::Error& e) {
        return e.what();
    }
    return "";
}

// ---- Cases worked by hand -------------------------------------------------------------
TEST(CheckCluster, RefusesRoutesThatAreLongerThanAPath) {
    // 14 links of the torus, GPU to NIC and back; then the way to a far NIC as well.
    ClusterSpec spec{
        .machine = with_gpus(find_machine("DGX-1V"), 1), .machines = 28, .fabric = torus(28, 1)};
    EXPECT_EQ(refusal(spec, false), "");
    EXPECT_EQ(refusal(spec, true),
              "the longest route crosses 18 links, and a path holds 16: "
              "choose a smaller torus, or fewer PCIe switches under each "
              "other");
    spec.machines = 8;
    spec.fabric = torus(8, 1);
    EXPECT_EQ(refusal(spec, true), "");
}
TEST(CheckCluster, RefusesWhatCheckRefuses) {
    EXPECT_EQ(refusal({.machines = 0}, false), "a cluster has at least one machine");
}

// ---- Properties -----------------------------------------------------------------------
struct Bench {
    explicit Bench(const ClusterSpec& spec, bool failover)
        : network(engine), topology(spec, network, failover) {}
    Engine engine{};
    FlowNetwork network;
    Topology topology;
};

// The oracle asks for every route there is.
RC_GTEST_PROP(CheckCluster, TheLongestRouteIsThatOfSomePair, ()) {
    const auto* name = *rc::gen::element("p3.16xlarge", "DGX-1V", "DGX-A100", "p3.2xlarge");
    const int n = *rc::gen::inRange(1, 10), kind = *rc::gen::inRange(0, 3);
    const ClusterSpec spec{.machine = find_machine(name),
                           .machines = n,
                           .fabric = kind == 0   ? star()
                                     : kind == 1 ? rails()
                                                 : torus(n, 1)};
    const Bench b(spec, false);
    int most = 0;
    for (int from = 0; from < spec.ranks(); ++from)
        for (int to = 0; to < spec.ranks(); ++to)
            for (int channel = 0; channel < 4; ++channel)
                most = std::max(most, b.topology.route(from, to, channel).path.count);
    RC_ASSERT(most <= longest_route(spec, b.topology.inside()));
    RC_ASSERT(spec.fabric.kind == Fabric::Kind::rails ||
              most == longest_route(spec, b.topology.inside()));
}
RC_GTEST_PROP(CheckCluster, RefusesWhatATopologyRefuses, ()) {
    const auto* name = *rc::gen::element("p3.16xlarge", "DGX-1V", "DGX-A100", "p3.2xlarge");
    const int n = *rc::gen::inRange(2, 40);
    const ClusterSpec spec{.machine = find_machine(name), .machines = n, .fabric = torus(n, 1)};
    const bool failover = *rc::gen::arbitrary<bool>();
    std::string why;
    try {
        const Bench b(spec, failover);
    } catch (const gx::Error& e) {
        why = e.what();
    }
    RC_ASSERT(refusal(spec, failover) == why);
}

}  // namespace
