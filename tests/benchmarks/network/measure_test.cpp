#include "measure.hpp"  // first, so the header is seen to stand alone

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/sim/fault/faults.hpp>     // SlowLink
#include <gx/sim/io/machine_json.hpp>  // to_json, read_cluster
#include <gx/sim/world/cluster.hpp>    // Cluster

namespace {

using namespace gx;
using bench::Network;

/// A cluster of hosts whose every message takes `latency_us` and its bytes at `mbps`.
sim::ClusterSpec hosts(int count, double mbps, int latency_us) {
    return bench::cluster_of({.fabric = "made",
                              .hosts = count,
                              .latency_s = 1e-6 * latency_us,
                              .pair_bytes_per_s = mbps * 1e6 / 8,
                              .host_bytes_per_s = mbps * 1e6 / 8},
                             "V100-SXM2-16GB");
}
/// What rank 0 measures on it; all ranks measure the same.
Network measured(const sim::ClusterSpec& spec, int hosts_per_leaf = 0,
                 const sim::FaultPlan& faults = {}) {
    Network found;
    sim::Cluster<> cluster(spec, {.faults = faults});
    cluster.run([&](auto& rank) {
        const Network mine = bench::measure(rank, "found", hosts_per_leaf);
        if (rank.rank() == 0) found = mine;
    });
    return found;
}
void expect_near(double a, double b) { EXPECT_NEAR(a / b, 1, 1e-3); }

// ---- Measuring a simulated network finds what it was made of ------------------------------------

RC_GTEST_PROP(MeasureNetwork, AStar, ()) {
    const int count = *rc::gen::inRange(2, 6), latency = *rc::gen::inRange(1, 500);
    const double mbps = *rc::gen::inRange(2, 50);
    const Network found = measured(hosts(count, mbps, latency));
    RC_ASSERT(std::abs(8e-6 * found.host_bytes_per_s / mbps - 1) < 1e-3);
    RC_ASSERT(!found.limits_pairs());
    RC_ASSERT(found.slow.empty());
    // 8 bytes there and 1 back, beside the last messages of a barrier, of 1 byte: half of it is the
    // latency and a few bytes
    const double bytes = (1e6 * found.latency_s - latency) * mbps / 8;
    RC_ASSERT(bytes > 4.4 - 0.001 * mbps);
    RC_ASSERT(bytes < 5 + 4 * count + 0.001 * mbps);
}
TEST(MeasureNetwork, ALimitOfAPair) {
    sim::ClusterSpec spec = hosts(5, 200, 50);
    spec.flow_cap = {50e6 / 8};
    const Network found = measured(spec);
    EXPECT_TRUE(found.limits_pairs());
    expect_near(found.host_bytes_per_s, 200e6 / 8);
    expect_near(found.pair_bytes_per_s, 50e6 / 8);
    const sim::ClusterSpec again = bench::cluster_of(found, "V100-SXM2-16GB");
    expect_near(again.flow_cap.count, spec.flow_cap.count);
    expect_near(again.nic_rate().count, spec.nic_rate().count);
}
TEST(MeasureNetwork, ATrunk) {
    sim::ClusterSpec spec = hosts(6, 100, 50);
    spec.fabric = sim::leaf_spine({.machines_per_leaf = 3});
    spec.fabric.link_rate = {150e6 / 8};
    const Network found = measured(spec, 3);
    expect_near(found.host_bytes_per_s, 100e6 / 8);
    expect_near(found.trunk_bytes_per_s, 150e6 / 8);
    EXPECT_TRUE(found.slow.empty());
    // what it makes is a cluster that a file keeps
    const sim::ClusterSpec again =
        sim::read_cluster(to_json(bench::cluster_of(found, "V100-SXM2-16GB")), "measured.json");
    EXPECT_EQ(again.fabric.machines_per_leaf, 3);
    expect_near(again.fabric.link_rate.count, 150e6 / 8);
    EXPECT_EQ(again.machines, 6);
}
TEST(MeasureNetwork, ASlowHost) {
    for (const int slow : {0, 2, 3}) {
        const Network found = measured(hosts(4, 100, 50), 0,
                                       {sim::SlowLink{.wire = {.machine = slow}, .share = 0.5}});
        expect_near(found.host_bytes_per_s, 100e6 / 8);
        ASSERT_EQ(found.slow.size(), 1u);
        EXPECT_EQ(found.slow[0].host, slow);
        EXPECT_NEAR(found.slow[0].share, 0.5, 1e-3);
    }
}

// ---- Bad input ----------------------------------------------------------------------------------

TEST(MeasureNetwork, LongerMessagesThatTakeNoLonger) {
    try {
        (void)bench::rate_of(1000, 1, [](std::size_t) { return 0.5; });
        FAIL() << "no error";
    } catch (const Error& e) {
        EXPECT_EQ(std::string(e.what()),
                  "a message of 3000 bytes took no longer than one of 1000: the network can't be "
                  "measured; is another program using it?");
    }
}

}  // namespace
