#include <gx/optimizer/update_cost.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

#include <gx/model/graph.hpp>                  // GraphBuilder
#include <gx/optimizer/adamw.hpp>              // AdamW
#include <gx/optimizer/lars.hpp>               // Lars
#include <gx/optimizer/sgd.hpp>                // Sgd
#include <gx/reducer/ring.hpp>                 // Ring
#include <gx/reference/device.hpp>             // reference::Device
#include <gx/sim/world/cluster.hpp>            // Cluster
#include <gx/sim/world/device.hpp>             // sim::Device
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/sim/compute/gpu_memory.hpp>       // memory_need
#include <gx/trainer/trainer.hpp>              // Trainer
#include <trainer/small.hpp>                   // Net, images

namespace {

using gx::UpdateCost;

struct Silent {};

// ---- What the trait promises ----------------------------------------------------------
static_assert(gx::update_cost_of<gx::Sgd>() == UpdateCost{20, 1});
static_assert(gx::update_cost_of<gx::AdamW>() == UpdateCost{28, 2});
static_assert(gx::update_cost_of<gx::Lars>() == UpdateCost{28, 1});
static_assert(gx::update_cost_of<Silent>() == gx::update_cost_of<gx::Sgd>());

gx::Graph wide() {
    gx::GraphBuilder b("wide", {1000, 1, 1}, 2);
    const int x = b.linear(b.input(), 1000, false, "wide");
    (void)b.softmax_cross_entropy(b.linear(x, 2, false, "logits"), 0, "loss");
    return std::move(b).finish();
}

// ---- Cases worked by hand -------------------------------------------------------------
TEST(UpdateCost, BytesOfAParameterAreTheTimeOfAnUpdate) {
    const gx::sim::GpuSpec gpu{.name = "plain",
                               .fp32 = {1e12},
                               .memory = {1'000'000'000},
                               .memory_bandwidth = {100e9},
                               .launch = gx::Nanoseconds(1'000)};
    const auto update = [&](UpdateCost cost) {
        return gx::sim::TimedGraph(wide(), gpu, gx::sim::Precision::fp32, gx::sim::fused_kernels,
                                   cost)
            .update();
    };
    // 1,002,000 parameters at 100 bytes a nanosecond.
    EXPECT_EQ(update({}), gx::Nanoseconds(1'000 + 200'400));
    EXPECT_EQ(update({28, 2}), gx::Nanoseconds(1'000 + 280'560));
}
TEST(UpdateCost, StateVectorsAreMemory) {
    const auto need = [](UpdateCost cost) {
        return gx::sim::parameter_need(wide(), gx::sim::Precision::fp32, cost).count;
    };
    EXPECT_EQ(need({}), 12 * 1'002'000);
    EXPECT_EQ(need({28, 2}), 16 * 1'002'000);
    EXPECT_EQ(need({8, 0}), 8 * 1'002'000);
}

// ---- In the simulated device ----------------------------------------------------------
template <class O>
gx::Nanoseconds update_on_a_cluster() {
    gx::Nanoseconds time{};
    const gx::Graph graph = wide();
    gx::sim::Cluster<gx::reference::Device>(gx::sim::ethernet_10g(1)).run([&](auto& rank) {
        const auto device =
            rank.make_device(graph, {.batch = 1, .update = gx::update_cost_of<O>()});
        const gx::Nanoseconds begin = rank.now();
        device->update([](std::span<float>) {});
        time = rank.now() - begin;
    });
    return time;
}
TEST(UpdateCost, ASimulatedDeviceTakesThatOfItsOptimizer) {
    const auto spec = gx::sim::ethernet_10g(1);
    const auto expected = [&](UpdateCost cost) {
        return gx::sim::TimedGraph(wide(), spec.machine.gpu, gx::sim::Precision::fp32,
                                   gx::sim::fused_kernels, cost)
            .update();
    };
    EXPECT_EQ(update_on_a_cluster<gx::Sgd>(), expected({20, 1}));
    EXPECT_EQ(update_on_a_cluster<gx::AdamW>(), expected({28, 2}));
    EXPECT_EQ(update_on_a_cluster<gx::Lars>(), expected({28, 1}));
    EXPECT_LT(expected({20, 1}), expected({28, 2}));
}

// ---- Under a Trainer ------------------------------------------------------------------
using testing_support::images;
using testing_support::Net;
template <class O>
gx::RunRecord train(const gx::sim::ClusterSpec& spec) {
    gx::sim::Cluster<gx::reference::Device> world(spec);
    return gx::Trainer<Net, gx::Ring<gx::fp32>, gx::Constant, O>(
               {.batch = 4, .epochs = 1, .evaluate = false})
        .train(world, images(8));
}
TEST(UpdateCost, ATrainersClockIsChargedForItsOptimizer) {
    auto spec = gx::sim::ethernet_10g(1);
    spec.machine.gpu.memory_bandwidth = {100e6};  // slow, so that few parameters show
    const gx::Graph graph = gx::graph<Net>({.input = {1, 4, 4}, .classes = 3});
    const auto update = [&](UpdateCost cost) {
        return gx::seconds(gx::sim::TimedGraph(graph, spec.machine.gpu, gx::sim::Precision::fp32,
                                               gx::sim::fused_kernels, cost)
                               .update());
    };
    EXPECT_GT(update({28, 2}) - update({20, 1}), 1e-6);
    const double sgd = train<gx::Sgd>(spec).seconds;  // two steps; seconds of whole nanoseconds
    EXPECT_NEAR(train<gx::AdamW>(spec).seconds - sgd, 2 * (update({28, 2}) - update({20, 1})),
                1e-12);
    EXPECT_NEAR(train<gx::Lars>(spec).seconds - sgd, 2 * (update({28, 1}) - update({20, 1})),
                1e-12);
}
TEST(UpdateCost, ATrainerWhoseStateDoesNotFitDoesNotStart) {
    auto spec = gx::sim::ethernet_10g(1);
    const gx::Graph graph = gx::graph<Net>({.input = {1, 4, 4}, .classes = 3});
    spec.machine.gpu.memory =
        gx::sim::memory_need(graph, 4, gx::sim::Precision::fp32, gx::Lars::update_cost).total();
    EXPECT_NO_THROW((void)train<gx::Sgd>(spec));
    EXPECT_NO_THROW((void)train<gx::Lars>(spec));
    EXPECT_THROW((void)train<gx::AdamW>(spec), gx::Error);
}

}  // namespace
