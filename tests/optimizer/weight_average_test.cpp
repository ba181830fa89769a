#include <gx/optimizer/weight_average.hpp>  // first, so the header is seen to stand alone

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include <gx/optimizer/adamw.hpp>                // AdamW
#include <gx/optimizer/clip_by_global_norm.hpp>  // ClipByGlobalNorm
#include <gx/optimizer/lamb.hpp>                 // Lamb
#include <gx/optimizer/sgd.hpp>                  // Sgd
#include <gx/reducer/double_buffered.hpp>        // DoubleBuffered
#include <gx/reducer/ring.hpp>                   // Ring
#include <gx/sim/catalog/simple_clusters.hpp>    // ethernet_10g
#include <gx/sim/world/cluster.hpp>              // Cluster
#include <gx/sim/world/device.hpp>               // Device
#include <gx/testing/far/device.hpp>             // FarDevice
#include <gx/trainer/predictor.hpp>              // Predictor
#include <gx/trainer/trainer.hpp>                // Trainer
#include <optimizer/run_50.hpp>                  // the run of 50 steps

#include <trainer/small.hpp>  // images, threads

namespace {

using namespace gx;
using namespace testing_support;
using Averaged = WeightAverage<Sgd>;

// ---- What the type promises -----------------------------------------------------------------
static_assert(Optimizer<Averaged> && AveragesWeights<Averaged> && !AveragesWeights<Sgd>);
static_assert(Averaged::state_names == std::array<std::string_view, 2>{"momentum", "average"});
static_assert(state_vectors<WeightAverage<AdamW>>() == 3);
static_assert(Averaged::update_cost == UpdateCost{28, 2});
static_assert(!Averaged::check({.decay = 1}).empty() && !Averaged::check({.decay = -0.1f}).empty());
static_assert(!Averaged::check({.optimizer = {.momentum = 2}}).empty());

// ---- The average ----------------------------------------------------------------------------
template <class O>
class Averages : public ::testing::Test {};
using Inner = ::testing::Types<Sgd, AdamW, Lamb, ClipByGlobalNorm<AdamW>>;
TYPED_TEST_SUITE(Averages, Inner);

// The oracle: O on its own, and the sum written out, in double.
TYPED_TEST(Averages, AreTheDecayingSumOfTheWeights) {
    const Graph graph = graph_of(tensors);
    const double decay = double{0.9f};
    Descent<TypeParam> plain({}, graph, plain_layout(graph));
    Descent<WeightAverage<TypeParam>> run({.decay = 0.9f}, graph, plain_layout(graph));
    plain.start(start_50());
    run.start(start_50());
    const std::vector<float> initial = start_50();
    std::vector<double> expected(initial.begin(), initial.end());
    follow_50(0.01, [&](int step, float rate, std::int64_t updates) {
        plain.update(gradients_50(step, 1), rate, 1, updates);
        run.update(gradients_50(step, 1), rate, 1, updates);
        ASSERT_EQ(run.w, plain.w) << "training does not see the average";
        for (std::size_t i = 0; i < expected.size(); ++i)
            expected[i] = decay * expected[i] + (1 - decay) * double{run.w[i]};
        const auto* average = &run.vectors[state_vectors<TypeParam>() * run.w.size()];
        for (std::size_t i = 0; i < expected.size(); ++i)  // 3 roundings a step, decaying: 30
            ASSERT_NEAR(average[i], expected[i], 40 * 0x1p-24 * (1 + std::abs(expected[i])));
    });
}

// ---- Training -------------------------------------------------------------------------------
template <class R, class O>
using T = Trainer<Net, R, Constant, O>;
template <class TT>
typename TT::Options options(int epochs = 3) {
    typename TT::Options o{.batch = 3, .epochs = epochs, .seed = 3};
    o.scheduler = {.peak_rate = 0.2f};
    return o;
}
TEST(WeightAverage, IsTestedAndChangesNoWeight) {
    using A = T<Ring<fp32>, Averaged>;
    using P = T<Ring<fp32>, Sgd>;
    auto wall = threads(3);
    auto o = options<A>();
    o.optimizer.decay = 0.8f;
    const RunRecord r = A(o).train(wall, images()), plain = P(options<P>()).train(wall, images());
    EXPECT_EQ(r.weights_hash, plain.weights_hash);
    for (std::size_t e = 0; e < 3; ++e) {
        EXPECT_EQ(r.epochs[e].train_loss, plain.epochs[e].train_loss);
        EXPECT_NE(r.epochs[e].test_loss, plain.epochs[e].test_loss);
    }
    o.optimizer.decay = 0;  // the average is the weights
    expect_same_learning(A(o).train(wall, images()), plain);
}
// Clipping comes before the average or around it: one and the same run.
TEST(WeightAverage, IsTestedInsideAClippedOptimizerToo) {
    using Inside = T<Ring<fp32>, ClipByGlobalNorm<Averaged>>;
    using Around = T<Ring<fp32>, WeightAverage<ClipByGlobalNorm<Sgd>>>;
    static_assert(AveragesWeights<ClipByGlobalNorm<Averaged>> &&
                  !AveragesWeights<ClipByGlobalNorm<Sgd>>);
    auto inside = options<Inside>();
    inside.optimizer = {.max_norm = 0.5f, .optimizer = {.decay = 0.8f}};
    auto around = options<Around>();
    around.optimizer = {.decay = 0.8f, .optimizer = {.max_norm = 0.5f}};
    auto wall = threads(2);
    expect_same_learning(Inside(inside).train(wall, images()),
                         Around(around).train(wall, images()));
}
// The test loss of a network with the average of a checkpoint in its weights.
TEST(WeightAverage, OfACheckpointHasTheTestLossOfTheRun) {
    using A = T<Ring<fp32>, Averaged>;
    const Folder folder;
    const Split data = images();
    auto o = options<A>();
    o.optimizer.decay = 0.8f;
    o.output = folder.path;
    auto wall = threads(2);
    const RunRecord r = A(o).train(wall, data);
    const Graph g = graph<Net>({.input = data.test.shape, .classes = 3});
    const Checkpoint c = read_checkpoint(folder / checkpoint_name(3).c_str(), g);
    ASSERT_EQ(c.optimizer.at(1).name, "average");
    reference::Device device(g, {.batch = 12});
    device.update([&](std::span<float> w) { std::ranges::copy(c.optimizer[1].values, w.begin()); });
    InMemory<> loader(data.test, {.batch = 12, .shuffle = false});
    loader.begin_epoch(0);
    const ForwardReport report = device.forward(loader.next().batch, Mode::evaluate);
    EXPECT_NEAR(r.epochs[2].test_loss, report.loss_sum / 12, 1e-12);
    EXPECT_EQ(r.epochs[2].test_accuracy_pct, 100.0 * double(report.correct) / 12);
    EXPECT_NE(c.optimizer[1].values, c.parameters);
}
// What the run has tested is what programs get that read its checkpoints.
TEST(WeightAverage, IsWhatAPredictorComputesWith) {
    using A = T<Ring<fp32>, Averaged>;
    const Folder folder;
    auto o = options<A>();
    o.optimizer.decay = 0.8f;
    o.output = folder.path;
    auto wall = threads(2);
    (void)A(o).train(wall, images());
    const auto file = folder / checkpoint_name(3).c_str();
    const Graph g = graph<Net>({.input = {1, 4, 4}, .classes = 3});
    const Checkpoint c = read_checkpoint(file, g);
    EXPECT_EQ(read_weights(file, g).parameters, c.optimizer.at(1).values);
    reference::Device device(g, {.batch = 12});
    device.update([&](std::span<float> w) { std::ranges::copy(c.optimizer[1].values, w.begin()); });
    const Split data = images();
    InMemory<> loader(data.test, {.batch = 12, .shuffle = false});
    loader.begin_epoch(0);
    (void)device.forward(loader.next().batch, Mode::evaluate);
    EXPECT_EQ((Predictor<Net, reference::Device>(file).logits_of(data.test)), device.logits());
    Checkpoint none = c;  // before the first update there is no average
    none.updates = 0;
    write_checkpoint(file, g, none);
    EXPECT_EQ(read_weights(file, g).parameters, c.parameters);
}
/// Epochs of one step, of which the first overflow.
template <class O>
RunRecord overflowing_at_first() {
    using A = Trainer<Net, Ring<fp16>, Constant, O, DynamicLossScale>;
    typename A::Options o{.batch = 20, .epochs = 12, .seed = 3};
    o.loss_scale.initial = 0x1p22f;
    auto wall = threads(2);
    return A(o).train(wall, images());
}
// Until then the average is zeros.
TEST(WeightAverage, BeforeTheFirstUpdateTheWeightsAreTested) {
    const RunRecord r = overflowing_at_first<Averaged>(), plain = overflowing_at_first<Sgd>();
    ASSERT_TRUE(r.steps[0].skipped);
    EXPECT_EQ(r.epochs[0].test_loss, plain.epochs[0].test_loss);
    EXPECT_NE(r.epochs[11].test_loss, plain.epochs[11].test_loss);
}
TEST(WeightAverage, IsTheSameInEveryWorldAndResumes) {
    using A = T<DoubleBuffered<Ring<fp32>>, WeightAverage<AdamW>>;
    const Folder folder;
    auto o = options<A>();
    o.scheduler = {.peak_rate = 0.01f};
    o.optimizer.decay = 0.9f;
    o.output = folder.path;
    auto wall = threads(3);
    const RunRecord expected = A(o).train(wall, images());
    o.output.clear();
    sim::Cluster<reference::Device> cluster(sim::ethernet_10g(3), {});
    expect_same_learning(A(o).train(cluster, images()), expected);
    gx::testing::FarWorld<gx::testing::FarDevice<reference::Device>> far({{3, 1}, 1});
    expect_same_learning(A(o).train(far, images()), expected);
    for (int epoch = 1; epoch < 3; ++epoch) {
        o.resume = folder / checkpoint_name(epoch).c_str();
        expect_same_learning(A(o).train(wall, images()), expected);
    }
}

}  // namespace
