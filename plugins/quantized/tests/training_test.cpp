// Training by quantised gradients: resumed at every step, and in both worlds, bit for bit.
#include <gx/trainer/trainer.hpp>

#include <gtest/gtest.h>

#include <gx/quantized/reducer.hpp>
#include <gx/reducer/bucketed.hpp>
#include <gx/reducer/double_buffered.hpp>
#include <gx/reducer/ring.hpp>
#include <gx/sim/catalog/simple_clusters.hpp>
#include <gx/sim/world/cluster.hpp>
#include <gx/sim/world/device.hpp>
#include <trainer/small.hpp>

namespace {

using namespace testing_support;
using Cluster = gx::sim::Cluster<gx::reference::Device>;

template <class R>
using By = gx::Trainer<Net, R, gx::Warmup<gx::Poly<2>>>;
/// 103 values in buckets of 40, 40 and 23.
template <class R>
using Late = gx::DoubleBuffered<gx::Bucketed<R, 160>>;
using Subject = By<Late<gx::Quantized<8>>>;

constexpr int ranks = 3, epochs = 7;
gx::Split one_step_an_epoch() { return images(12, 6); }
Subject::Options options(std::uint64_t seed = 7) {
    return {.batch = 4, .epochs = epochs, .seed = seed};
}
gx::Checkpoint checkpoint(const Folder& folder, int epoch) {
    const std::string name = "epoch-000" + std::to_string(epoch) + ".safetensors";
    return gx::read_checkpoint(folder / name.c_str(),
                               gx::graph<Net>({.input = {1, 4, 4}, .classes = 3}));
}

TEST(Training, ResumesAtEachStepBitForBit) {
    const Folder folder;
    auto world = threads(ranks);
    auto o = options();
    o.output = folder.path;
    const gx::RunRecord whole = Subject(o).train(world, one_step_an_epoch());
    ASSERT_EQ(whole.steps.size(), std::size_t{epochs}) << "a step is an epoch";
    EXPECT_EQ(whole.skipped_steps, 0);
    const auto last = checkpoint(folder, epochs);
    EXPECT_TRUE(last.reducer.empty()) << "no state";
    for (int from = 1; from < epochs; ++from) {
        EXPECT_EQ(checkpoint(folder, from).pending.size(), 1u) << "a mean that is on its way";
        o.resume = folder / ("epoch-000" + std::to_string(from) + ".safetensors").c_str();
        expect_same_learning(Subject(o).train(world, one_step_an_epoch()), whole);
        EXPECT_EQ(checkpoint(folder, epochs).parameters, last.parameters);
        EXPECT_EQ(checkpoint(folder, epochs).optimizer, last.optimizer);
    }
}
TEST(Training, HasTheSameBitsOnThreadsAndOnASimulatedCluster) {
    auto wall = threads(ranks);
    Cluster virtual_time(gx::sim::ethernet_10g(ranks)),
        jittered(gx::sim::ethernet_10g(ranks), {.seed = 5, .compute_jitter = 0.2});
    const gx::RunRecord a = Subject(options()).train(wall, one_step_an_epoch());
    expect_same_learning(a, Subject(options()).train(virtual_time, one_step_an_epoch()));
    expect_same_learning(a, Subject(options()).train(jittered, one_step_an_epoch()));
    EXPECT_NE(a.weights_hash, 0u);
    using Exact = By<Late<gx::Ring<>>>;
    EXPECT_NE(Exact({.batch = 4, .epochs = epochs, .seed = 7})
                  .train(wall, one_step_an_epoch())
                  .weights_hash,
              a.weights_hash)
        << "a hash that can differ";
}
TEST(Training, LearnsAsTheExactMeanDoes) {
    auto world = threads(ranks);
    const auto last_loss = [&]<class R>(R*) {
        const gx::RunRecord r =
            By<R>({.batch = 4, .epochs = 20, .seed = 7}).train(world, images(120, 6));
        EXPECT_LT(r.epochs.back().train_loss, 0.7 * r.epochs.front().train_loss);
        return r.epochs.back().train_loss;
    };
    const double exact = last_loss(static_cast<gx::Ring<>*>(nullptr));
    EXPECT_NEAR(last_loss(static_cast<gx::Quantized<8>*>(nullptr)), exact, 0.05 * exact + 0.01);
}
TEST(Training, SkipsStepsWhoseGradientsAreNotFinite) {
    auto world = threads(ranks);
    using Scaled = gx::Trainer<Net, gx::Quantized<8>, gx::Warmup<gx::Poly<2>>, gx::Sgd,
                               gx::InMemory<>, gx::DynamicLossScale>;
    const gx::RunRecord r = Scaled({.batch = 4,
                                    .epochs = 6,
                                    .seed = 7,
                                    .loss_scale = {.initial = 0x1p127f, .largest = 0x1p127f},
                                    .evaluate = false})
                                .train(world, images());
    EXPECT_GT(r.skipped_steps, 0);
    EXPECT_LT(r.skipped_steps, std::ssize(r.steps));
}

}  // namespace
