// Trouble while training: overflow, loss that is no number, ranks that throw, a full disk.
#include <gx/trainer/trainer.hpp>

#include <sys/resource.h>  // RLIMIT_FSIZE

#include <algorithm>  // fill
#include <atomic>     // tests
#include <cmath>      // isfinite
#include <csignal>    // SIGXFSZ
#include <limits>     // NaN
#include <new>        // bad_alloc
#include <stdexcept>  // runtime_error, length_error

#include <gtest/gtest.h>

#include <gx/core/detail/rethrow_named.hpp>       // rethrow_named
#include <gx/model/init.hpp>                      // initial_parameters
#include <gx/reducer/double_buffered.hpp>         // DoubleBuffered
#include <gx/reducer/multi_ring.hpp>              // MultiRing
#include <gx/reducer/ring.hpp>                    // Ring
#include <gx/sim/world/cluster.hpp>               // Cluster
#include <gx/sim/world/device.hpp>                // Device
#include <gx/sim/catalog/simple_clusters.hpp>     // ethernet_10g
#include <gx/sim/fault/faults.hpp>                // DeadGpu
#include <gx/survival/continue_on_survivors.hpp>  // ContinueOnSurvivors
#include <gx/testing/mutants.hpp>                 // Mutant
#include <trainer/small.hpp>                      // images, threads, Folder

namespace {

using namespace testing_support;
using gx::fp16;
using gx::fp32;

// ---- Overflow -----------------------------------------------------------------------

template <class R, class Scale = gx::DynamicLossScale>
using Scaling = gx::Trainer<Net, R, gx::Constant, gx::Sgd, gx::InMemory<>, Scale>;

TEST(Overflow, IsSkippedByAllRanksAndHalvesTheScale) {
    const Scaling<gx::Ring<fp16>> trainer(
        {.batch = 5, .epochs = 3, .loss_scale = {.initial = 1 << 21, .growth_interval = 5}});
    auto world = threads(2);                                 // 12 steps
    const gx::RunRecord r = trainer.train(world, images());  // replicas are compared at each end
    std::int64_t skipped = 0;
    int grown = 0;
    ASSERT_TRUE(r.steps[0].skipped) << "2^21 times a gradient overflows in fp16";
    for (std::size_t i = 0; i < r.steps.size(); ++i) {
        const double scale = r.steps[i].loss_scale;
        skipped += r.steps[i].skipped ? 1 : 0;
        if (i + 1 == r.steps.size()) break;
        const double next = r.steps[i + 1].loss_scale;
        if (r.steps[i].skipped) EXPECT_EQ(next, scale / 2) << i;
        else EXPECT_TRUE(next == scale || next == 2 * scale) << i;
        grown += next > scale ? 1 : 0;
    }
    EXPECT_EQ(r.skipped_steps, skipped);
    EXPECT_LT(skipped, 10);
    EXPECT_GT(grown, 0) << "the scale is tried again after five good steps";
}
TEST(Overflow, OfAllStepsIsAnErrorAndLeavesTheWeightsAsTheyWere) {
    const Folder folder;
    const gx::Split data = images();
    using Fixed = Scaling<gx::MultiRing<2, fp16>, gx::StaticLossScale>;
    auto world = threads(3);  // 4 steps an epoch
    const Fixed trainer(
        {.batch = 4, .epochs = 2, .loss_scale = {.factor = 0x1p60f}, .output = folder.path});
    EXPECT_TRUE(holds(error_of([&] { (void)trainer.train(world, data); }),
                      "step 8: all 8 steps were skipped, because averaged gradients had infinities "
                      "or NaN",
                      "rate or the loss scale, send fp32 in place of fp16", "MultiRing<2, fp16>"));
    const gx::Graph graph = gx::graph<Net>({.input = data.train.shape, .classes = 3});
    std::vector<float> initial(std::size_t(graph.parameter_elements()));
    gx::initial_parameters(graph, 1, initial);
    const auto c = gx::read_checkpoint(folder / "epoch-0001.safetensors", graph);
    EXPECT_EQ(c.parameters, initial);
    EXPECT_EQ(c.updates, 0);
}

/// Every mean is NaN from gradient `From` on.
template <int From>
struct GivesNaN : gx::testing::Mutant<gx::Ring<fp16>> {
    gx::ReduceReport all_reduce(gx::Transport auto& link, const gx::Bucket& bucket) {
        const gx::ReduceReport report = this->inner_.all_reduce(link, bucket);
        if (calls++ >= From) std::ranges::fill(bucket, std::numeric_limits<float>::quiet_NaN());
        return report;
    }
    int calls = 0;
};
// The scale starts at 8 and is at its floor after three skips; 1 skip in a row at the floor more.
TEST(Overflow, ThatNoScaleMendsEndsTheRun) {
    auto world = threads(2);
    using Scaled = Scaling<GivesNaN<5>>;
    const auto error = [&](int most_skips) {
        const Scaled trainer(
            {.batch = 4, .epochs = 4, .loss_scale = {.initial = 8}, .most_skips = most_skips});
        return error_of([&] { (void)trainer.train(world, images()); });
    };
    EXPECT_TRUE(holds(error(4),
                      "step 10: the last 4 steps in a row were skipped, because averaged "
                      "gradients had infinities or NaN, and the loss scale is 1.",
                      "Lower the learning rate", "conformance kit"));
    EXPECT_TRUE(holds(error(13), "step 19: the last 13 steps in a row"));
    EXPECT_EQ(error(20), "no error") << "20 steps: 5 good, 2 above the floor, 13 at it";
    EXPECT_TRUE(holds(error(0), "most_skips is 0"));
}
// 5 of 20 steps: the table and the report of such a run name it.
TEST(Overflow, ThatEndsStandsInTheRecord) {
    auto world = threads(2);
    const Scaling<gx::Ring<fp16>> trainer(
        {.batch = 5, .epochs = 3, .loss_scale = {.initial = 1 << 21, .growth_interval = 5}});
    const gx::RunRecord r = trainer.train(world, images());
    ASSERT_GT(r.skipped_steps, 0);
    ASSERT_FALSE(r.warnings.empty());
    EXPECT_EQ(r.warnings[0],
              std::to_string(r.skipped_steps) +
                  " of 12 steps were skipped, because averaged gradients had infinities or NaN.");
}

// ---- Memory ---------------------------------------------------------------------------

template <class Exception>
struct Roomless : gx::reference::Device {
    Roomless(const gx::Graph& graph, gx::DeviceOptions o) : Device(graph, o) {
        if (o.rank == 1) throw Exception();
    }
};
struct TooLong : std::length_error {
    TooLong() : length_error("vector::reserve") {}
};
template <class Exception>
std::string without_memory() {
    gx::ThreadWorld<Roomless<Exception>> world({.placement = {2, 1}});
    const gx::Trainer<Net, gx::Ring<fp32>, gx::Constant> trainer({.batch = 4});
    return error_of([&] { (void)trainer.train(world, images()); });
}
TEST(Memory, ThatIsNotThereIsCounted) {
    for (const std::string& error : {without_memory<std::bad_alloc>(), without_memory<TooLong>()})
        EXPECT_TRUE(holds(error,
                          "rank 1: there is not enough memory for batch 4 of images of 1 x "
                          "4 x 4 on Mlp<5>: a rank needs about 0.000 GB"));
    // The most that lives at once is what the flatten reads and writes, 16 floats each.
    const gx::Graph graph = gx::graph<Net>({.input = {1, 4, 4}, .classes = 3});
    EXPECT_EQ(error_of([&] {
                  gx::detail::trainer::throw_no_memory(3, 1'000'000'000, 1'000'000'000, graph);
              }),
              "rank 3: there is not enough memory for batch 1000000000 of images of 1 x 4 x 4 on "
              "Mlp<5>: a rank needs about 256.000 GB, 128.000 of them for 2 batches of images, "
              "128.000 for activations and 0.000 for parameters and gradients. Lower batch, raise "
              "micro_batches, or use smaller images or a smaller network.");
}

TEST(Memory, ThatAPolicyLacksIsCountedThoughItsPlaceWasNamed) {
    gx::detail::trainer::RunPhase phase;
    phase.batch = phase.micro_batch = 2;
    phase.graph = gx::graph<Net>({.input = {1, 4, 4}, .classes = 3});
    const auto lacking = [&](auto exception) {
        return error_of([&] {
            gx::detail::trainer::with_memory(
                1, [&]() -> auto& { return phase; },
                [&] {
                    try {
                        throw exception;
                    } catch (...) {
                        gx::detail::rethrow_named("rank 1, step 3");
                    }
                });
        });
    };
    const auto unnamed = [&](auto exception) {
        return error_of([&] {
            gx::detail::trainer::with_memory(
                1, [&]() -> auto& { return phase; }, [&] { throw exception; });
        });
    };
    EXPECT_TRUE(holds(unnamed(std::bad_alloc()), "rank 1: there is not enough memory for batch 2"));
    EXPECT_EQ(unnamed(std::runtime_error("a fan")), "rank 1, at its start: a fan");
    for (const std::string& error : {lacking(std::bad_alloc()), lacking(TooLong())})
        EXPECT_TRUE(holds(error, "rank 1: there is not enough memory for batch 2"));
    EXPECT_EQ(lacking(std::runtime_error("a fan")), "rank 1, step 3: a fan");
    EXPECT_EQ(lacking(gx::Error("a sentence")), "a sentence");
    const std::string of_int = "an exception of type int, which is no std::exception";
    EXPECT_EQ(lacking(7), "rank 1, step 3: " + of_int);
    EXPECT_EQ(unnamed(7), "rank 1, at its start: " + of_int);
}

// ---- Accuracy at chance -------------------------------------------------------------

TEST(Chance, IsTheCommonestClass) {
    auto world = threads(2);
    gx::Split data = images(40, 300);
    using Plain = gx::Trainer<Net, gx::Ring<fp32>, gx::Constant>;
    const auto train = [&](float rate, int epochs) {
        return Plain({.batch = 4, .epochs = epochs, .scheduler = {.peak_rate = rate}})
            .train(world, data);
    };
    const gx::RunRecord learnt = train(0.1f, 12), idle = train(1e-9f, 1);
    ASSERT_GT(learnt.test_accuracy_pct(), 60);
    EXPECT_FALSE(learnt.at_chance);
    EXPECT_TRUE(learnt.warnings.empty());
    EXPECT_TRUE(idle.at_chance) << idle.test_accuracy_pct();
    ASSERT_EQ(idle.warnings.size(), 1u);
    EXPECT_TRUE(holds(idle.warnings[0], " % is within three standard deviations of chance",
                      "the most frequent class is 33.33 % of 300 images"));
    for (std::size_t i = 0; i < 290; ++i) data.test.labels[i] = 0;  // one class of nearly all
    EXPECT_TRUE(train(0.1f, 12).at_chance) << "to guess it is right 97 times of 100";
}
// Three deviations of eight images are more than all of them.
TEST(Chance, IsNotSaidWhereAllAreRight) {
    auto world = threads(2);
    using Plain = gx::Trainer<Net, gx::Ring<fp32>, gx::Constant>;
    const Plain trainer({.batch = 4, .epochs = 12, .scheduler = {.peak_rate = 0.1f}});
    gx::Split data =
        gx::synthetic({.shape = {1, 4, 4}, .classes = 2, .train_count = 40, .test_count = 8});
    const gx::RunRecord all = trainer.train(world, data);
    ASSERT_EQ(all.test_accuracy_pct(), 100);
    EXPECT_FALSE(all.at_chance);
    EXPECT_TRUE(all.warnings.empty());
    data.train.labels.assign(40, 1);
    data.test.labels.assign(8, 1);
    EXPECT_TRUE(trainer.train(world, data).warnings.empty()) << "one class";
}
TEST(Overflow, ScalesOfTwoChangeNothingWhereNothingOverflows) {
    using Fixed = Scaling<gx::Ring<fp32>, gx::StaticLossScale>;
    auto world = threads(2);
    const auto hash = [&](float factor) {
        return Fixed({.batch = 4, .loss_scale = {.factor = factor}})
            .train(world, images())
            .weights_hash;
    };
    EXPECT_EQ(hash(1024), hash(1));
}
TEST(Overflow, OfALateGradientHalvesTheScaleItWasComputedWithLater) {
    using Late = Scaling<gx::DoubleBuffered<gx::Ring<fp16>>>;
    auto world = threads(2);
    const gx::RunRecord r =
        Late({.batch = 5, .epochs = 3, .loss_scale = {.initial = 1 << 19}}).train(world, images());
    ASSERT_GT(r.skipped_steps, 0);
    EXPECT_FALSE(r.steps[0].skipped) << "nothing has arrived";
    EXPECT_TRUE(r.steps[1].skipped);
    EXPECT_EQ(r.steps[1].loss_scale, r.steps[0].loss_scale) << "computed before it was known";
    EXPECT_EQ(r.steps[2].loss_scale, r.steps[0].loss_scale / 2);
}
TEST(Overflow, EachLateGradientIsUnscaledByItsOwnScale) {
    using Late = gx::DoubleBuffered<gx::Ring<fp32>>;
    auto world = threads(2);
    const auto growing =  // doubles with every update; powers of two lose no bits in fp32
        Scaling<Late>({.batch = 4, .epochs = 2, .loss_scale = {.initial = 1, .growth_interval = 1}})
            .train(world, images());
    const auto fixed =
        Scaling<Late, gx::StaticLossScale>({.batch = 4, .epochs = 2}).train(world, images());
    EXPECT_GT(growing.steps.back().loss_scale, 64);
    EXPECT_EQ(growing.weights_hash, fixed.weights_hash);
}

/// The mutant: rank 1 is given finite values where the others see an overflow.
template <gx::Reducer R>
struct RankOneSeesNoOverflow : gx::testing::Mutant<R> {
    gx::ReduceReport all_reduce(gx::Transport auto& link, const gx::Bucket& bucket) {
        const gx::ReduceReport report = this->inner_.all_reduce(link, bucket);
        if (link.rank() == 1)
            for (float& x : bucket) x = std::isfinite(x) ? x : 1.0f;
        return report;
    }
};
TEST(Overflow, ARankThatSkipsAloneIsFound) {
    using Blind = RankOneSeesNoOverflow<gx::Ring<fp16>>;
    auto world = threads(3);
    const auto train = [&](float initial) {
        return error_of([&] {
            (void)Scaling<Blind>({.batch = 4, .loss_scale = {.initial = initial}})
                .train(world, images());
        });
    };
    EXPECT_TRUE(holds(train(1 << 21), "step 4: the weights of rank 1 differ from those of rank 0",
                      "conformance kit of gx/testing"));
    EXPECT_EQ(train(128), "no error") << "without an overflow the mutant is innocent";
}

// ---- A loss that is no number -------------------------------------------------------

/// A rate that its formula does not have at every step, as 1 / (1 - t) at t = 1.
template <int step>
struct Wrong {
    struct Options {
        float rate = 0;
    };
    static constexpr std::string_view name = "Wrong";
    explicit Wrong(Options o) : o_(o) {}
    [[nodiscard]] float rate(gx::Step t) const { return t == step ? o_.rate : 0.01f; }

private:
    Options o_;
};
TEST(BadRate, NamesTheSchedulerAndItsStep) {
    const auto error = [](float rate) {
        gx::Trainer<Net, gx::DoubleBuffered<gx::Ring<gx::fp32>>, Wrong<2>> trainer(
            {.batch = 4, .epochs = 1, .scheduler = {.rate = rate}});
        auto world = threads(2);
        return error_of([&] { (void)trainer.train(world, images()); });
    };
    const std::pair<float, const char*> wrong[]{{std::numeric_limits<float>::quiet_NaN(), "nan"},
                                                {std::numeric_limits<float>::infinity(), "inf"},
                                                {-0.5f, "-0.5"},
                                                {-0x1p-30f, "-9.31322575e-10"}};
    for (const auto& [rate, text] : wrong)
        EXPECT_TRUE(holds(error(rate), "Wrong", std::string("a rate of ") + text + " at its step 2",
                          "finite and at least 0"))
            << error(rate);
    EXPECT_EQ(error(0), "no error");
}
TEST(BadLoss, NamesRankStepAndLayer) {
    using Steep = gx::Trainer<Net, gx::Ring<fp32>, gx::Constant>;
    const Steep trainer({.batch = 4, .epochs = 50, .scheduler = {.peak_rate = 1e20f}});
    auto world = threads(2);
    const std::string wall = error_of([&] { (void)trainer.train(world, images()); });
    EXPECT_TRUE(holds(wall, "rank ", ", step ", "the loss is not finite", "outputs of ",
                      "Lower the learning rate (1e+20 at this step)"));
    auto cluster = gx::sim::Cluster<gx::reference::Device>(gx::sim::ethernet_10g(2));
    const std::string simulated = error_of([&] { (void)trainer.train(cluster, images()); });
    EXPECT_TRUE(holds(simulated, "rank 0, step ", " 'fc", "the loss is not finite"));
}
TEST(BadLoss, IsFoundInTheTestSetToo) {
    using Steep = gx::Trainer<Net, gx::Ring<fp32>, gx::Constant>;
    auto world = threads(1);  // one step of training; its weights are infinite afterwards
    const Steep trainer(
        {.batch = 40, .scheduler = {.peak_rate = 3e38f}, .optimizer = {.weight_decay = 0.9f}});
    EXPECT_TRUE(holds(error_of([&] { (void)trainer.train(world, images()); }),
                      "rank 0, the test behind epoch 1: the loss is not finite",
                      "outputs of linear 'fc", "Its weights may have diverged: lower"));
}
/// The first test image that any rank sees is NaN.
struct SpoiltTest : gx::reference::Device {
    using Device::Device;
    static inline std::atomic<int> tests = 0;
    gx::ForwardReport forward(const gx::Batch& batch, gx::Mode mode) {
        if (mode != gx::Mode::evaluate || tests++ > 0) return Device::forward(batch, mode);
        std::vector<float> images(batch.images.begin(), batch.images.end());
        images[0] = std::numeric_limits<float>::quiet_NaN();
        return Device::forward({images, batch.labels, batch.count, batch.draw}, mode);
    }
};
TEST(BadLoss, OfATestImageLosesNoEpoch) {
    using T = gx::Trainer<Net, gx::Ring<fp32>, gx::Constant>;
    for (const int ranks : {1, 3}) {
        const Folder folder;
        T::Options o{.batch = 4, .epochs = 3, .output = folder.path};
        auto world = threads<SpoiltTest>(ranks);
        SpoiltTest::tests = 0;
        EXPECT_TRUE(holds(error_of([&] { (void)T(o).train(world, images()); }), "rank ",
                          ", the test behind epoch 1: the loss is not finite; the first such "
                          "values are outputs of input 'input'. Look at the test images, or go on "
                          "from epoch-0001.safetensors with 'evaluate = false'."));
        o.epochs = 1;
        o.resume = "latest";
        SpoiltTest::tests = 0;
        EXPECT_TRUE(holds(error_of([&] { (void)T(o).train(world, images()); }),
                          "the test behind epoch 1", "epoch-0001.safetensors"))
            << "the run is over, and has no test";
        const double late = T(o).train(world, images()).epochs.at(0).test_loss;
        o.epochs = 3;
        o.evaluate = false;
        const gx::RunRecord r = T(o).train(world, images());
        EXPECT_EQ(r.epochs.size(), 3u);
        o.resume = "";
        o.output.clear();
        o.evaluate = true;
        const gx::RunRecord whole = T(o).train(world, images());
        EXPECT_EQ(r.weights_hash, whole.weights_hash);
        EXPECT_EQ(late, whole.epochs[0].test_loss);
    }
}
TEST(BadLoss, ARunThatIsOverIsTestedWhereItWasNot) {
    const auto expect = [](auto trainer, auto& world) {
        const Folder folder;
        auto o = trainer.options();
        o.output = folder.path;
        o.resume = "latest";
        o.evaluate = false;
        using T = decltype(trainer);
        const gx::RunRecord untested = T(o).train(world, images());
        EXPECT_TRUE(std::isnan(untested.test_accuracy_pct()));
        EXPECT_TRUE(std::isnan(T(o).train(world, images()).test_accuracy_pct()));
        o.evaluate = true;
        const gx::RunRecord tested = T(o).train(world, images());
        o.resume = "";
        o.output.clear();
        const gx::RunRecord whole = T(o).train(world, images());
        EXPECT_EQ(tested.test_accuracy_pct(), whole.test_accuracy_pct());
        EXPECT_EQ(tested.epochs.back().test_loss, whole.epochs.back().test_loss);
        EXPECT_EQ(tested.weights_hash, whole.weights_hash);
        EXPECT_EQ(tested.epochs.size(), whole.epochs.size());
        EXPECT_EQ(tested.steps.size(), whole.steps.size());
    };
    using Late = gx::Trainer<Net, gx::DoubleBuffered<gx::Ring<fp32>>, gx::Constant>;
    using Surviving = gx::Trainer<Net, gx::Ring<fp32>, gx::Constant, gx::ContinueOnSurvivors>;
    auto world = threads(3);
    auto cluster = gx::sim::Cluster<gx::reference::Device>(gx::sim::ethernet_10g(3));
    expect(Late({.batch = 4, .epochs = 2}), world);
    expect(Late({.batch = 4, .epochs = 2}), cluster);

    const Folder folder;
    Surviving::Options o{.batch = 4, .epochs = 1, .output = folder.path, .evaluate = false};
    o.resume = "latest";
    EXPECT_TRUE(Surviving(o).train(cluster, images()).warnings.empty());
    o.evaluate = true;
    const auto warnings = Surviving(o).train(cluster, images()).warnings;
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_TRUE(holds(warnings[0], "The last epoch has no test", "without ContinueOnSurvivors"));
}
struct AnySize : gx::Network<gx::ImageShape{1, 4, 4}, 3, gx::Conv<4, 3, 1, 1>, gx::BatchNorm,
                             gx::ReLU, gx::GlobalAvgPool, gx::Classifier> {
    static constexpr std::string_view name = "AnySize";
};
/// The epochs that it is told of.
struct Told : gx::Observer {
    std::vector<double> losses;
    void epoch_done(const gx::EpochDone& e) override {
        losses.push_back(e.tested ? e.row.test_loss : -1);
    }
};
TEST(BadLoss, ALateTestIsThatOfTheLastPhaseThatBegan) {
    using T = gx::Trainer<AnySize, gx::Ring<fp32>, gx::Constant>;
    const Folder folder;
    auto world = threads(2);
    T::Options o{.batch = 4, .epochs = 2, .phases = {{0, 4, 4}, {2, 8, 9}}};
    const gx::RunRecord whole = T(o).train(world, images());
    o.output = folder.path;
    o.resume = "latest";
    o.evaluate = false;
    (void)T(o).train(world, images());
    Told told;
    o.evaluate = true;
    o.observers = {&told};
    const gx::RunRecord tested = T(o).train(world, images());
    EXPECT_EQ(tested.weights_hash, whole.weights_hash);
    EXPECT_EQ(tested.epochs[1].test_loss, whole.epochs[1].test_loss);
    EXPECT_EQ(told.losses, std::vector{whole.epochs[1].test_loss});
}
TEST(BadLoss, ARunThatEndsWithinTheCheckpointIsRefused) {
    using T = gx::Trainer<Net, gx::Ring<fp32>, gx::Constant>;
    const Folder folder;
    auto world = threads(2);
    T::Options o{.batch = 4, .epochs = 3, .output = folder.path};
    o.checkpoints.every_steps = 3;
    (void)T(o).train(world, images());
    std::filesystem::remove(folder / "epoch-0003.safetensors");
    ASSERT_TRUE(std::filesystem::exists(folder / "step-00000012.safetensors"));
    o.epochs = 2;
    o.resume = "latest";
    EXPECT_TRUE(holds(error_of([&] { (void)T(o).train(world, images()); }),
                      "it has done 2 epochs and a part of the next, and this run ends after 2"));
}
TEST(BadLoss, OfATestImageNamesNoCheckpointThatCannotBeWritten) {
    using T = gx::Trainer<Net, gx::Ring<fp32>, gx::Constant>;
    const Folder folder;
    std::filesystem::create_directories(folder / "epoch-0001.safetensors" / "held");
    T::Options o{.batch = 4, .epochs = 3, .output = folder.path};
    o.checkpoints.stop_on_failure = false;
    auto world = threads<SpoiltTest>(2);
    SpoiltTest::tests = 0;
    EXPECT_TRUE(holds(error_of([&] { (void)T(o).train(world, images()); }),
                      "outputs of input 'input'. Look at the test images."));
}

// ---- Ranks that throw ---------------------------------------------------------------

/// Rank 1 breaks in its fourth forward.
class Breaks : public gx::reference::Device {
public:
    Breaks(const gx::Graph& graph, gx::DeviceOptions o)
        : gx::reference::Device(graph, o), rank_(o.rank) {}
    gx::ForwardReport forward(const gx::Batch& batch, gx::Mode mode) {
        if (rank_ == 1 && forwards_++ == 3) throw std::runtime_error("a broken fan");
        return gx::reference::Device::forward(batch, mode);
    }

private:
    int rank_, forwards_ = 0;
};
/// Rank 1 breaks in its fourth reduction, on its stream.
template <gx::Reducer R>
struct BreaksOnItsStream : gx::testing::Mutant<R> {
    int reductions = 0;
    gx::ReduceReport all_reduce(gx::Transport auto& link, const gx::Bucket& bucket) {
        if (link.rank() == 1 && reductions++ == 3) throw gx::Error("a broken cable");
        return this->inner_.all_reduce(link, bucket);
    }
};

template <class T, class Device>
void expect_first_error(const std::string& expected) {
    const T trainer({.batch = 2, .epochs = 2});
    for (int repeat = 0; repeat < 5; ++repeat) {  // threads meet in other orders
        auto world = threads<Device>(3);
        std::string told = "nothing";
        try {
            (void)trainer.train(world, images());
        } catch (const std::runtime_error& e) {
            told = e.what();
        }
        EXPECT_EQ(told, expected);
    }
    gx::sim::Cluster<Device> cluster(gx::sim::ethernet_10g(3));
    std::string told = "nothing";
    try {
        (void)trainer.train(cluster, images());
    } catch (const std::runtime_error& e) {
        told = e.what();
    }
    EXPECT_EQ(told, expected);
}
TEST(ARankThatThrows, StopsAllAndIsToldFirst) {
    expect_first_error<gx::Trainer<Net, gx::Ring<fp32>, gx::Constant>, Breaks>(
        "rank 1, step 3: a broken fan");
}
TEST(ARankThatThrows, MayHaveGradientsOnTheirWay) {
    using Late = gx::DoubleBuffered<gx::MultiRing<2, fp16>>;
    expect_first_error<gx::Trainer<Net, Late, gx::Constant>, Breaks>(
        "rank 1, step 3: a broken fan");
}
TEST(ARankThatThrows, MayThrowOnItsStream) {
    using Broken = BreaksOnItsStream<gx::Ring<fp32>>;
    expect_first_error<gx::Trainer<Net, Broken, gx::Constant>, gx::reference::Device>(
        "rank 1, step 3, bucket 0, all-reduce: a broken cable");
}

// ---- A full disk --------------------------------------------------------------------

/// Files end at `bytes`, as on a full disk: writing more fails.
class DiskOf {
public:
    explicit DiskOf(rlim_t bytes) {
        ::getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit limit{bytes, before_.rlim_max};
        handler_ = std::signal(SIGXFSZ, SIG_IGN);
        ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    DiskOf(const DiskOf&) = delete;
    DiskOf& operator=(const DiskOf&) = delete;
    ~DiskOf() {
        ::setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, handler_);
    }

private:
    rlimit before_{};
    void (*handler_)(int) = nullptr;
};
TEST(AllRanksLost, IsAnErrorAndNoShortRecord) {
    using T = gx::Trainer<Net, gx::Ring<>, gx::Constant>;
    for (const auto& [at, epoch] : {std::pair{gx::Nanoseconds(0), "epoch 1 of 2"},
                                    std::pair{gx::Nanoseconds(1'500'000), "epoch 2 of 2"}}) {
        gx::sim::ClusterOptions options;
        options.faults = gx::sim::FaultList{gx::sim::DeadGpu{0, at}, gx::sim::DeadGpu{1, at}};
        gx::sim::Cluster<gx::reference::Device> world(gx::sim::ethernet_10g(2), options);
        const T trainer({.batch = 10, .epochs = 2});
        EXPECT_TRUE(holds(error_of([&] { (void)trainer.train(world, images()); }),
                          "rank 0 was lost in", epoch, "the others had finished or were lost too"));
    }
}
TEST(AllRanksLost, IsAnErrorInALateTestToo) {
    using T = gx::Trainer<Net, gx::Ring<>, gx::Constant>;
    const Folder folder;
    T::Options o{.batch = 10, .epochs = 2, .output = folder.path, .resume = "latest"};
    o.evaluate = false;
    gx::sim::Cluster<gx::reference::Device> whole(gx::sim::ethernet_10g(2));
    (void)T(o).train(whole, images());
    o.evaluate = true;
    for (const int us : {0, 30, 100}) {
        gx::sim::ClusterOptions options;
        const gx::Nanoseconds at(1000 * us);
        options.faults = gx::sim::FaultList{gx::sim::DeadGpu{0, at}, gx::sim::DeadGpu{1, at}};
        gx::sim::Cluster<gx::reference::Device> world(gx::sim::ethernet_10g(2), options);
        EXPECT_TRUE(holds(error_of([&] { (void)T(o).train(world, images()); }),
                          "rank 0 was lost in", " of 2", "no rank was left"))
            << us;
    }
}
TEST(AFullDisk, LeavesTheOldCheckpointAndNamesTheFile) {
    const Folder folder;
    using Plain = gx::Trainer<Net, gx::Ring<fp32>, gx::Constant>;
    const auto train = [&](std::uint64_t seed) {
        auto world = threads(2);
        return Plain({.batch = 4, .seed = seed, .output = folder.path}).train(world, images());
    };
    const gx::RunRecord old = train(1);
    const std::string before = read_text(folder / "epoch-0001.safetensors");
    ASSERT_GT(before.size(), 2000u);
    std::string sentence;
    {
        const DiskOf small(before.size() - 100);
        sentence = error_of([&] { (void)train(2); });
    }
    EXPECT_TRUE(holds(sentence, "epoch-0001.safetensors' cannot be written: File too large",
                      "An older file of this name is unchanged. Free some space"));
    EXPECT_EQ(read_text(folder / "epoch-0001.safetensors"), before);
    for (const auto& entry : std::filesystem::directory_iterator(folder.path))
        EXPECT_EQ(entry.path().filename(), "epoch-0001.safetensors") << "nothing is left over";
    EXPECT_NE(train(2).weights_hash, old.weights_hash);
    EXPECT_NE(read_text(folder / "epoch-0001.safetensors"), before) << "with space it is replaced";
}

}  // namespace
