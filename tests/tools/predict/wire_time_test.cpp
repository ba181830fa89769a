#include <tools/predict/wire_time.hpp>  // first, so the header is seen to stand alone

#include <string>  // text

#include <gtest/gtest.h>

#include <gx/collective/ring.hpp>              // Ring
#include <gx/sim/catalog/find_gpu.hpp>         // v100
#include <gx/sim/catalog/find_machine.hpp>     // find_machine
#include <gx/sim/catalog/simple_clusters.hpp>  // plain_p3_16xlarge
#include <gx/sim/catalog/comm_stacks.hpp>      // nccl_2_5
#include <gx/sim/timing/all_reduce_time.hpp>   // all_reduce_time
#include <tools/predict/case_file.hpp>         // read_cases
#include <tools/predict/step_model.hpp>        // StepModel
#include <tools/published.hpp>                 // published_text

namespace {

using namespace gx::sim;
using namespace gx::tools::predict;
using gx::tools::Json;
using gx::tools::parse_json;
using namespace gx::literals;
namespace collective = gx::collective;
using gx::BytesPerSecond;

Hardware plain(BytesPerSecond bus, BytesPerSecond nic) {
    Hardware h{.machine = "plain", .gpu = v100()};
    h.inside = {Inside::Link::nvlink, bus};
    h.nic = nic;
    h.trees = false;
    return h;
}

// ---- Cases worked by hand -----------------------------------------------------------
TEST(WireTime, ARingIsLatencyAndBytesOverTheSlowestLink) {
    WireTime wire;
    std::string algorithm;
    const FasterLine line = wire.all_reduce(plain(100_GBps, 1_GBps), {4, 2}, 100, algorithm);
    EXPECT_EQ(algorithm, "ring");
    EXPECT_NEAR(line.at(100), 2 * 7.0 / 8 * 100, 0.01);  // 100 MB over 1 GB/s, 8 ranks
    EXPECT_NEAR(wire.all_reduce(plain(100_GBps, 1_GBps), {1, 8}, 100, algorithm).at(100),
                2 * 7.0 / 8, 0.001);
    EXPECT_EQ(wire.all_reduce(plain(100_GBps, 1_GBps), {1, 1}, 100, algorithm).at(100), 0);
}

TEST(WireTime, ALongRingGoesOnFromOneThatIsSimulated) {
    WireTime wire;
    std::string algorithm;
    Hardware h = plain(100_GBps, 1_GBps);
    h.profile = nccl_2_5;
    const double at_4096 = wire.all_reduce(h, {512, 8}, 100, algorithm).ring.latency_ms;
    const Line longer = wire.all_reduce(h, {1024, 8}, 100, algorithm).ring;
    EXPECT_NEAR(longer.latency_ms, at_4096 * 8191 / 4095, 1e-6 * at_4096);
    EXPECT_NEAR(longer.ms_per_mb, 2, 0.01);
}

// The library chooses for each call: a tree where latency counts, a ring where bytes do.
TEST(WireTime, EveryCallGoesByTheFasterAlgorithm) {
    WireTime wire;
    std::string algorithm;
    Hardware h = plain(100_GBps, 12.5_GBps);
    h.profile = nccl_2_10 + ib_edr;
    h.trees = true;
    const FasterLine line = wire.all_reduce(h, {128, 8}, 0.1, algorithm);
    EXPECT_EQ(algorithm, "tree");
    EXPECT_LT(line.at(0.1), line.ring.at(0.1));
    for (const double mb : {0.1, 1.0, 25.0, 1e3, 1e5})
        EXPECT_EQ(line.at(mb), std::min(line.ring.at(mb), line.tree.at(mb)));
    h.trees = false;
    EXPECT_EQ(wire.all_reduce(h, {128, 8}, 0.1, algorithm).at(0.1), line.ring.at(0.1));
}

// Four workers, two servers on the first two: a server takes 50 MB from each of the four. One of
// these stays inside its machine, so its NIC takes 150 MB: 150 ms at 1 GB/s, and as much back.
TEST(WireTime, ServersTakeAShareFromEveryWorker) {
    WireTime wire;
    const Hardware h = plain(100_GBps, 1_GBps);
    EXPECT_NEAR(wire.servers(h, 4, 2, 100, 800), 2 * 150, 0.01);
    EXPECT_NEAR(wire.servers(h, 4, 2, 100, 4), 2 * 400, 0.01);  // 200 MB at 0.5 GB/s of the server
}

// Two GPUs that own half of 100 MB each send the other half: 50 ms at 1 GB/s, and 50 back. With one
// tensor of nine tenths, its owner takes 90 + 5 MB.
TEST(WireTime, OwnersOfTensorsTakeThemFromTheOthers) {
    WireTime wire;
    Hardware h = plain(1_GBps, 1_GBps);
    h.gpu.name = "unknown";
    EXPECT_NEAR(wire.key_value(h, 2, 100, 0, 1), 2 * 50, 0.01);
    EXPECT_NEAR(wire.key_value(h, 2, 100, 0.9, 1), 2 * 95, 0.01);
    EXPECT_NEAR(wire.key_value(h, 2, 100, 0, 0.5), 4 * 50, 0.01);
}

// ---- A measured cluster in place of the catalog's -----------------------------------
ClusterSpec measured(int gpus) {
    ClusterSpec c{.name = "measured", .machine = {.name = "ours", .gpu = v100(), .gpus = gpus}};
    c.machine.peer_bandwidth = 1_GBps;
    c.machine.host_bandwidth = c.machine.nic_line_rate = 1_GBps;
    return c;
}
Hardware on(const ClusterSpec& c) {
    Hardware h = plain(100_GBps, 100_GBps);
    h.measure(c);
    return h;
}

// The catalog's machine of eight V100 has NVLinks, by which this takes 60 ms.
TEST(WireTime, OwnersOfTensorsHaveTheLinksOfAMeasuredMachine) {
    WireTime wire;
    ClusterSpec c = measured(8);
    EXPECT_NEAR(wire.key_value(on(c), 8, 100, 0, 1), 2 * 100 * 7.0 / 8, 0.01);
    c.machine.peer_latency = gx::Nanoseconds(3'000'000);
    EXPECT_NEAR(wire.key_value(on(c), 8, 100, 0, 1), 2 * (100 * 7.0 / 8 + 3), 0.01);
    c.machine = find_machine("p3.16xlarge");
    EXPECT_NEAR(wire.key_value(on(c), 8, 100, 0, 1), 60, 0.01);  // PCIe of GPUs without NVLink
    c.name = "slow NVLinks", c.machine.wiring.nvlink = 0.1_GBps;
    EXPECT_NEAR(wire.key_value(on(c), 8, 100, 0, 1), 2 * 125, 0.01);  // an eighth over one NVLink
}

// As ServersTakeAShareFromEveryWorker. A flow of 50 MB at 0.2 GB/s takes 250 ms, which is longer
// than 150 for the NIC; from the second leaf of two machines, 200 MB cross a trunk.
TEST(WireTime, ServersHaveLatencyCapsAndFabricOfAMeasuredCluster) {
    WireTime wire;
    ClusterSpec c = measured(1);
    EXPECT_NEAR(wire.servers(on(c), 4, 2, 100, 800), 2 * 150, 0.01);
    c.latency = gx::Nanoseconds(7'000'000);
    EXPECT_NEAR(wire.servers(on(c), 4, 2, 100, 800), 2 * 157, 0.01);
    c.profile.transport.latency = gx::Nanoseconds(1'000'000);
    c.profile.name = "of a network";
    EXPECT_NEAR(wire.servers(on(c), 4, 2, 100, 800), 2 * 158, 0.01);
    c.flow_cap = {0.2e9};
    EXPECT_NEAR(wire.servers(on(c), 4, 2, 100, 800), 2 * 258, 0.01);
    c.name = "two leaves", c.flow_cap = {}, c.latency = {}, c.profile = exact;
    c.fabric = leaf_spine({.machines_per_leaf = 2, .oversubscription = 4});  // 0.5 GB/s
    EXPECT_NEAR(wire.servers(on(c), 4, 2, 100, 800), 2 * 400, 0.01);
}

// 200 workers and as many servers are more flows than are simulated: half as many of both, or as
// fill leaves of 40, take as long.
TEST(WireTime, VeryManyServersFillTheLeavesOfAMeasuredCluster) {
    WireTime wire;
    ClusterSpec c = measured(1);
    const double star = wire.servers(on(c), 200, 200, 100, 800);
    EXPECT_NEAR(star, 2 * 100, 2) << "all but a part of 200 over the NIC";
    c.name = "leaves", c.fabric = leaf_spine({.machines_per_leaf = 40});
    EXPECT_NEAR(wire.servers(on(c), 200, 200, 100, 800), star, 0.01 * star);
    EXPECT_NEAR(wire.servers(on(c), 200, 100, 100, 800), 2 * star, 0.02 * star);
}
TEST(WireTime, ALongRingFillsTheLeavesOfAMeasuredCluster) {
    WireTime wire;
    std::string algorithm;
    ClusterSpec c = measured(8);
    const double star = wire.all_reduce(on(c), {600, 8}, 100, algorithm).at(100);
    c.name = "leaves", c.fabric = leaf_spine({.machines_per_leaf = 24});
    EXPECT_NEAR(wire.all_reduce(on(c), {600, 8}, 100, algorithm).at(100), star, 0.001 * star);
}

// ---- Steps on a measured cluster ----------------------------------------------------
// A gradient of 120 MB, and no computation that hides its time.
double exposed(const Hardware& h, Scheme scheme, Group g) {
    const Conditions c{.gpu = v100(), .gradient_mb_fp32 = 120};
    const Stack stack{.scheme = scheme, .traffic = 1};
    const ModelWork work{.largest_tensor = 0.9};
    const Calibration k{.peer_copy_share = 1, .cpu_sum_gbps = 1e9};
    WireTime wire;
    return StepModel(c, stack, h, work, k, wire).of(g, 1e-9, 1).exposed_ms;
}

// Between machines keys take 120 ms at 1 GB/s, and a latency there and one back.
TEST(StepModel, KeysHaveTheLatencyOfAMeasuredNetwork) {
    ClusterSpec c = measured(1);
    EXPECT_NEAR(exposed(on(c), Scheme::key_value, {2, 1}), 120, 0.01);
    c.latency = gx::Nanoseconds(7'000'000);
    c.profile.transport.latency = gx::Nanoseconds(1'000'000);
    EXPECT_NEAR(exposed(on(c), Scheme::key_value, {2, 1}), 120 + 2 * 8, 0.01);
}
// Two GPUs send and fetch 120 MB each, at half of a PCIe's rate: 12 GB/s where none was measured.
TEST(StepModel, LocalServersHaveThePcieOfAMeasuredMachine) {
    ClusterSpec c = measured(2);
    EXPECT_NEAR(exposed(plain(100_GBps, 1_GBps), Scheme::local_servers, {1, 2}), 40, 0.01);
    EXPECT_NEAR(exposed(on(c), Scheme::local_servers, {1, 2}), 480, 0.01);
    c.machine.host_bandwidth = {};
    EXPECT_NEAR(exposed(on(c), Scheme::local_servers, {1, 2}), 40, 0.01) << "not measured";
}

// ---- What was published -------------------------------------------------------------
// Bytes that a NIC sends in a step, in the logs of five phases of "ImageNet in 18 minutes":
// 64 V100 in eight machines, a fp16 gradient of 51.1 MB.
TEST(WireTime, SendsTheBytesOfTheImageNet18Logs) {
    const std::string text = gx::tools::published_text();
    const Json all = parse_json(text, "cases.json");
    const ClusterSpec spec = plain_p3_16xlarge(8);
    const collective::Ring ring(collective::MachineOrder(spec.placement(), 0));
    const double sent_mb =
        static_cast<double>(all_reduce_time(ring, spec, {2 * 25'557'032}).wire.count) / 8 * 1e-6;
    int phases = 0;
    for (const auto& c : all)
        for (const auto& p : c.at("measured")) {
            if (!p.contains("unit") || p.at("unit") != "MB sent per NIC and step") continue;
            EXPECT_NEAR(sent_mb, p.at("value").get<double>(), 0.03 * sent_mb) << c.at("id");
            ++phases;
        }
    EXPECT_EQ(phases, 5);
}

}  // namespace
