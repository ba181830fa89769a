// The time of a step of Sharded without data, against a simulated cluster that trains with it.
#include <gx/sharded/reducer.hpp>

#include <gtest/gtest.h>

#include <gx/model/lenet.hpp>
#include <gx/optimizer/adamw.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/multi_ring.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/reference/device.hpp>
#include <gx/scheduler/constant.hpp>
#include <gx/sim/catalog/simple_clusters.hpp>
#include <gx/sim/timing/step_time.hpp>
#include <gx/sim/world/cluster.hpp>
#include <gx/sim/world/device.hpp>
#include <gx/trainer/trainer.hpp>
#include <trainer/small.hpp>

static_assert(gx::sim::RunsHalves<gx::Sharded<gx::Ring<>>> && !gx::sim::RunsHalves<gx::Ring<>>);
static_assert(gx::sim::update_cost_with<gx::Sharded<gx::Ring<>>>(8, {}).shards == 8);
static_assert(gx::sim::update_cost_with<gx::Ring<>>(8, {}).shards == 1);

namespace {

using namespace testing_support;
using gx::Sharded;

constexpr int batch = 2, steps = 4;

/// Of the last step of an epoch on the cluster, with data.
template <class R>
double trained(const gx::sim::ClusterSpec& spec) {
    gx::sim::Cluster<gx::reference::Device> cluster(spec);
    using T = gx::Trainer<Net, R, gx::Constant, gx::AdamW, gx::StaticLossScale>;
    const auto record = T({.batch = batch, .epochs = 1, .evaluate = false})
                            .train(cluster, images(batch * steps * spec.ranks(), 4));
    return record.steps.at(steps - 1).seconds - record.steps.at(steps - 2).seconds;
}
/// Without.
template <class R>
gx::sim::StepTiming planned(const gx::sim::ClusterSpec& spec) {
    return gx::sim::step_time<R>(gx::graph<Net>({.input = {1, 4, 4}, .classes = 3}), spec,
                                 {.batch = batch,
                                  .detail = gx::sim::Detail::every_message,
                                  .update = gx::AdamW::update_cost});
}
template <class R>
void expect_the_clusters_time(const gx::sim::ClusterSpec& spec) {
    const auto plan = planned<Sharded<R>>(spec);
    const double real = trained<Sharded<R>>(spec);
    EXPECT_NEAR(gx::seconds(plan.step), real, 0.01 * real);
    EXPECT_GT(plan.exposed, planned<R>(spec).exposed) << "parameters are waited for";
}
TEST(ShardedTime, IsThatOfASimulatedCluster) {
    expect_the_clusters_time<gx::Ring<gx::fp32>>(gx::sim::ethernet_10g(4));
    expect_the_clusters_time<gx::Ring<gx::fp16>>(gx::sim::ethernet_10g(5));
    expect_the_clusters_time<gx::MultiRing<2, gx::fp32>>(gx::sim::ethernet_10g(3));
    expect_the_clusters_time<gx::Bucketed<gx::Ring<gx::fp32>, 256>>(gx::sim::ethernet_10g(4));
}
TEST(ShardedTime, CountsAShardOfTheUpdate) {
    const auto whole = planned<gx::Ring<>>(gx::sim::ethernet_10g(4));
    const auto shard = planned<Sharded<gx::Ring<>>>(gx::sim::ethernet_10g(4));
    EXPECT_LE(shard.update, whole.update);
    EXPECT_LT(shard.messages, 2 * whole.messages);
    EXPECT_EQ(shard.step, shard.ends[3] - shard.ends[2]);
}

}  // namespace
