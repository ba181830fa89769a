#include <gx/sim/elastic/elastic_device.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

#include <gx/model/cifar_resnet.hpp>           // ResNet8
#include <gx/optimizer/adamw.hpp>              // AdamW
#include <gx/optimizer/sgd.hpp>                // Sgd
#include <gx/reducer/double_buffered.hpp>      // DoubleBuffered
#include <gx/reducer/ring.hpp>                 // Ring
#include <gx/scheduler/linear_scaling.hpp>     // LinearScaling
#include <gx/scheduler/poly.hpp>               // Poly
#include <gx/scheduler/warmup.hpp>             // Warmup
#include <gx/sim/elastic/elastic.hpp>          // ElasticTraining
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/trainer/checkpoint.hpp>           // read_checkpoint
#include <gx/trainer/trainer.hpp>              // Trainer
#include <trainer/small.hpp>                   // Net, images

namespace {

using namespace gx::literals;
using namespace gx::sim;
using testing_support::images;
using testing_support::Net;
using World = Cluster<gx::reference::Device>;
using Rate = gx::LinearScaling<gx::Warmup<gx::Poly<2>>>;
using Training = ElasticTraining<gx::Ring<gx::fp32>, Rate, gx::reference::Device>;

constexpr int batch = 3, epochs = 2;
const Rate::Options rates{.reference_batch = 9,
                          .next = {.climb_steps = 3, .next = {.peak_rate = 0.2f}}};
Training::Options options(std::int64_t samples) {
    return {.samples = samples, .batch = batch, .epochs = epochs, .seed = 7, .scheduler = rates};
}

struct Case {
    gx::Split data = images();
    gx::Graph graph = gx::graph<Net>({.input = data.train.shape, .classes = data.train.classes});
    auto make() {
        return [this](auto& rank) {
            using Learner = DeviceLearner<std::remove_cvref_t<decltype(rank)>, gx::Sgd>;
            return std::make_unique<Learner>(rank, graph, data.train,
                                             typename Learner::Options{.batch = batch, .seed = 7});
        };
    }
};

TEST(DeviceLearner, WithoutFaultsGivesTheTrainersWeights) {
    Case c;
    Training elastic(ethernet_10g(3), {}, options(c.data.train.count()));
    const ElasticRecord r = elastic.run(c.make());
    ASSERT_TRUE(r.finished);
    World world(ethernet_10g(3));
    const gx::Trainer<Net, gx::Ring<gx::fp32>, Rate> trainer(
        {.batch = batch, .epochs = epochs, .seed = 7, .scheduler = rates, .evaluate = false});
    const gx::RunRecord record = trainer.train(world, c.data);
    const auto parameters = static_cast<std::size_t>(c.graph.parameter_elements());
    EXPECT_EQ(gx::detail::trainer::hash_bits(std::span(r.state).first(parameters)),
              record.weights_hash);
    ASSERT_EQ(r.updates.size(), record.steps.size());
    for (std::size_t i = 0; i < r.updates.size(); ++i)
        EXPECT_EQ(double{r.updates[i].rate}, record.steps[i].rate) << i;
}

// Its bias corrections depend on the number of updates, which a learner is told.
TEST(DeviceLearner, WithAdamWGivesTheTrainersWeightsAfterAFaultToo) {
    Case c;
    const auto make = [&](auto& rank) {
        using Learner = DeviceLearner<std::remove_cvref_t<decltype(rank)>, gx::AdamW>;
        return std::make_unique<Learner>(rank, c.graph, c.data.train,
                                         typename Learner::Options{.batch = batch, .seed = 7});
    };
    Training elastic(ethernet_10g(3), {}, options(c.data.train.count()));
    const ElasticRecord r = elastic.run(make);
    World world(ethernet_10g(3));
    const gx::Trainer<Net, gx::Ring<gx::fp32>, Rate, gx::AdamW> trainer(
        {.batch = batch, .epochs = epochs, .seed = 7, .scheduler = rates, .evaluate = false});
    EXPECT_EQ(gx::detail::trainer::hash_bits(
                  std::span(r.state).first(std::size_t(c.graph.parameter_elements()))),
              trainer.train(world, c.data).weights_hash);

    Training broken(ethernet_10g(3),
                    {.deadline = std::chrono::seconds(1), .faults = {DeadInCollective{1, 2, 0, 1}}},
                    options(c.data.train.count()));
    const ElasticRecord rest = broken.run(make);
    ASSERT_TRUE(rest.finished);
    EXPECT_EQ(rest.segments.size(), 2u);
    EXPECT_EQ(broken.replay(rest, make).state, rest.state);
}

TEST(DeviceLearner, GoesOnWithTwoOfThreeAndEqualsTheSameWorldsWithoutFaults) {
    Case c;
    for (const Fault& fault : {Fault{DeadInCollective{1, 2, 0, 1}}, Fault{DeadGpu{0, 2'000_us}},
                               Fault{LostNic{2, 1'000_us}}}) {
        Training elastic(ethernet_10g(3), {.deadline = std::chrono::seconds(1), .faults = {fault}},
                         options(c.data.train.count()));
        const ElasticRecord r = elastic.run(c.make());
        ASSERT_TRUE(r.finished);
        EXPECT_EQ(r.segments.size(), 2u);
        EXPECT_EQ(r.problems, std::vector<std::string>{});
        EXPECT_EQ(r.updates.back().ranks, 2);
        const ElasticRecord same = elastic.replay(r, c.make());
        EXPECT_EQ(same.updates, r.updates);
        EXPECT_EQ(same.state, r.state) << "bit for bit, momentum included";
    }
}

TEST(Faults, ATrainersSurvivorsAllNameTheLostRank) {
    const gx::Split data = images();
    World world(ethernet_10g(4),
                {.deadline = std::chrono::seconds(1), .faults = {DeadInCollective{1, 2, 0, 1}}});
    using Late = gx::DoubleBuffered<gx::Ring<gx::fp32>>;
    const gx::Trainer<Net, Late, Rate> trainer({.batch = batch, .scheduler = rates});
    EXPECT_THROW((void)trainer.train(world, data), gx::LostRank);
    EXPECT_TRUE(world.died(1));
    for (const int r : {0, 2, 3}) {
        ASSERT_NE(world.error_of(r), nullptr) << r;
        try {
            std::rethrow_exception(world.error_of(r));
        } catch (const gx::LostRank& e) {
            EXPECT_EQ(e.lost(), 1);
            EXPECT_EQ(e.where().rank, r);
            EXPECT_EQ(e.where().step, 2);
            EXPECT_EQ(e.where().bucket, 0);
            EXPECT_EQ(e.where().operation, "all-reduce");
        }
    }
}

// ---- Batch normalisation -------------------------------------------------------------------
struct Normalised : Case {
    explicit Normalised(std::int64_t count) {
        data = images(count);
        graph = gx::graph<gx::ResNet8>({.input = data.train.shape, .classes = data.train.classes});
    }
    [[nodiscard]] std::span<const float> statistics(const ElasticRecord& r) const {
        return std::span(r.state).last(std::size_t(graph.statistic_elements()));
    }
};

TEST(DeviceLearner, RunningStatisticsAreTheTrainersMeans) {
    Normalised c(36);  // four steps of three ranks with three images each
    Training elastic(ethernet_10g(3), {}, options(c.data.train.count()));
    const ElasticRecord r = elastic.run(c.make());
    ASSERT_TRUE(r.finished);
    const testing_support::Folder folder;
    World world(ethernet_10g(3));
    const gx::Trainer<gx::ResNet8, gx::Ring<gx::fp32>, Rate> trainer({.batch = batch,
                                                                      .epochs = epochs,
                                                                      .seed = 7,
                                                                      .scheduler = rates,
                                                                      .output = folder.path,
                                                                      .evaluate = false});
    (void)trainer.train(world, c.data);
    std::filesystem::path newest;
    for (const auto& file : std::filesystem::directory_iterator(folder.path))
        if (file.path().extension() == ".safetensors" && newest < file.path()) newest = file.path();
    const auto theirs = gx::read_checkpoint(newest, c.graph).statistics;
    const auto ours = c.statistics(r);
    ASSERT_EQ(ours.size(), theirs.size());
    ASSERT_GT(ours.size(), 0u);
    double moved = 0;
    for (std::size_t i = 0; i < ours.size(); ++i) {
        EXPECT_NEAR(ours[i], theirs[i], 1e-3 * (1 + std::abs(theirs[i]))) << i;
        moved = std::max(moved, std::abs(double{theirs[i]} - 1));
    }
    EXPECT_GT(moved, 0.2) << "means started at 0 and variances at 1";
}
TEST(DeviceLearner, RunningStatisticsGoOnWithTheSurvivors) {
    for (const Recovery recovery : {Recovery::survivors, Recovery::checkpoint})
        for (const Fault& fault :
             {Fault{DeadInCollective{1, 2, 0, 1}}, Fault{DeadInCollective{2, 5, 0, 3}},
              Fault{LostNic{0, 1'000_us}}}) {
            Normalised c(37);  // the last step of an epoch has one sample
            auto o = options(c.data.train.count());
            o.recovery = recovery;
            o.checkpoint_every = 2;
            Training elastic(ethernet_10g(3),
                             {.deadline = std::chrono::seconds(1), .faults = {fault}}, o);
            const ElasticRecord r = elastic.run(c.make());
            ASSERT_TRUE(r.finished);
            EXPECT_EQ(r.segments.size(), 2u);
            EXPECT_EQ(r.problems, std::vector<std::string>{});
            const ElasticRecord same = elastic.replay(r, c.make());
            EXPECT_EQ(same.updates, r.updates);
            EXPECT_EQ(same.state, r.state) << "bit for bit, running statistics included";
        }
}

TEST(DeviceLearner, RunningStatisticsArePartOfTheStateAndWeighedBySamples) {
    Normalised c(6);
    World world(ethernet_10g(1));
    world.run([&](auto& rank) {
        auto make = c.make();
        auto a = make(rank), b = make(rank);
        const auto none = [](std::size_t) {};
        const auto count = static_cast<std::size_t>(a->elements());
        const auto tail = static_cast<std::size_t>(c.graph.statistic_elements());
        std::vector<float> once(count), twice(count), empty(count, 1.0f);
        const std::vector<std::uint32_t> samples{0, 2, 4};
        a->gradient(samples, 1.0f, once, none);
        a->gradient(samples, 2.0f, twice, none);
        a->gradient({}, 1.0f, empty, none);
        for (std::size_t i = count - tail; i < count; ++i) {
            EXPECT_EQ(twice[i], 2 * once[i]);
            EXPECT_EQ(empty[i], 0.0f);
        }
        a->apply(once, 0.1f, 0);
        b->restore(a->state());
        EXPECT_EQ(b->state(), a->state());
        const auto state = a->state(), fresh = make(rank)->state();
        for (std::size_t i = 0; i < tail; ++i)  // three samples weigh three times one
            EXPECT_NEAR(state[state.size() - tail + i],
                        fresh[state.size() - tail + i] + once[count - tail + i], 1e-6f);
        std::vector<float> next_a(count), next_b(count);
        a->gradient(samples, 1.0f, next_a, none);
        b->gradient(samples, 1.0f, next_b, none);
        EXPECT_EQ(next_a, next_b);
    });
}

}  // namespace
