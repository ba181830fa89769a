// What is trained: N ranks as one rank with N times the batch, uneven tails, options, rows.
#include <gx/trainer/trainer.hpp>

#include <algorithm>  // max
#include <cmath>      // nearbyint
#include <limits>     // rounding
#include <set>        // names

#include <gtest/gtest.h>

#include <gx/loader/augment.hpp>           // PadCrop, Flip
#include <gx/loader/prefetch.hpp>          // Prefetched
#include <gx/model/init.hpp>               // initial_parameters
#include <gx/model/lenet.hpp>              // LeNet
#include <gx/model/vgg.hpp>                // Vgg16
#include <gx/reducer/bucketed.hpp>         // Bucketed
#include <gx/reducer/double_buffered.hpp>  // DoubleBuffered
#include <gx/reducer/multi_ring.hpp>       // MultiRing
#include <gx/reducer/ring.hpp>             // Ring
#include <trainer/small.hpp>               // images, threads

namespace {

using namespace testing_support;
using gx::reference::Device;
using Plain = gx::Trainer<Net, gx::Ring<gx::fp32>, gx::Constant>;

// ---- What the type promises ---------------------------------------------------------

static_assert(gx::TrainingWorld<Threads> && !gx::TrainingWorld<gx::ThreadWorld<>>);

TEST(Trainer, IsCalledAsItIsSpelt) {
    EXPECT_EQ((gx::Trainer<Net, gx::Ring<gx::fp16>>::name()),
              "Trainer<Mlp<5>, Ring<fp16>, Warmup<Poly<2>>>");
    EXPECT_EQ((gx::Trainer<Net, gx::Ring<gx::fp16>, gx::Warmup<gx::Poly<2>>, gx::DynamicLossScale,
                           gx::InMemory<>, gx::Sgd>::name()),
              "Trainer<Mlp<5>, Ring<fp16>, Warmup<Poly<2>>>");  // a wire of fp16 scales its loss
    EXPECT_EQ((gx::Trainer<Net, gx::Ring<gx::fp32>, gx::Warmup<gx::Poly<2>>,
                           gx::StaticLossScale>::name()),
              "Trainer<Mlp<5>, Ring<fp32>, Warmup<Poly<2>>>");
}
struct OtherSgd : gx::Sgd {
    using Sgd::Sgd;
};
/// Reducers without a name of their own.
template <int K>
struct Unnamed : gx::Ring<gx::fp32> {
    static void name();
};
TEST(Trainer, CompositionsThatDifferHaveDifferentNames) {
    using gx::fp16;
    using gx::fp32;
    using R = gx::Ring<fp32>;
    using S = gx::Constant;
    const std::vector<std::string> names{
        gx::Trainer<Net, R, S>::name(),
        gx::Trainer<gx::LeNet, R, S>::name(),
        gx::Trainer<Net, gx::Ring<fp16>, S>::name(),
        gx::Trainer<Net, gx::Ring<fp32, gx::DivideAfter>, S>::name(),
        gx::Trainer<Net, gx::MultiRing<2, fp32>, S>::name(),
        gx::Trainer<Net, gx::MultiRing<4, fp32>, S>::name(),
        gx::Trainer<Net, gx::DoubleBuffered<R>, S>::name(),
        gx::Trainer<Net, gx::DoubleBuffered<gx::DoubleBuffered<R>>, S>::name(),
        gx::Trainer<Net, gx::Bucketed<R, 64>, S>::name(),
        gx::Trainer<Net, gx::Bucketed<R, 128>, S>::name(),
        gx::Trainer<Net, Unnamed<1>, S>::name(),
        gx::Trainer<Net, Unnamed<2>, S>::name(),
        gx::Trainer<Net, R, gx::Poly<1>>::name(),
        gx::Trainer<Net, R, gx::Poly<2>>::name(),
        gx::Trainer<Net, R, gx::Warmup<gx::Poly<2>>>::name(),
        gx::Trainer<Net, R, gx::Warmup<gx::Poly<3>>>::name(),
        gx::Trainer<Net, R, S, OtherSgd>::name(),
        gx::Trainer<Net, R, S, gx::Sgd, gx::InMemory<gx::Flip>>::name(),
        gx::Trainer<Net, R, S, gx::Sgd, gx::InMemory<gx::PadCrop<4>, gx::Flip>>::name(),
        gx::Trainer<Net, R, S, gx::Sgd, gx::InMemory<gx::PadCrop<2>, gx::Flip>>::name(),
        gx::Trainer<Net, R, S, gx::Sgd, gx::Prefetched<gx::InMemory<>>>::name(),
        gx::Trainer<Net, R, S, gx::Sgd, gx::Prefetched<gx::InMemory<>, 3>>::name(),
        gx::Trainer<Net, R, S, gx::Sgd, gx::InMemory<>, gx::DynamicLossScale>::name(),
        gx::Trainer<Net, gx::Ring<fp16>, S, gx::Sgd, gx::InMemory<>, gx::StaticLossScale>::name()};
    EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size())
        << ::testing::PrintToString(names);
    EXPECT_EQ(
        (gx::Trainer<Net, R, S, gx::DynamicLossScale, gx::InMemory<gx::PadCrop<4>, gx::Flip>,
                     gx::Sgd>::name()),
        "Trainer<Mlp<5>, Ring<fp32>, Constant, InMemory<PadCrop<4>, Flip>, DynamicLossScale>");
    EXPECT_EQ(
        (gx::Trainer<Net, R, S, gx::Sgd, gx::InMemory<gx::PadCrop<4>, gx::Flip>,
                     gx::DynamicLossScale>::name()),
        "Trainer<Mlp<5>, Ring<fp32>, Constant, InMemory<PadCrop<4>, Flip>, DynamicLossScale>");
    EXPECT_EQ((gx::Trainer<Net, R, S, gx::Sgd, gx::Prefetched<gx::InMemory<>>>::name()),
              "Trainer<Mlp<5>, Ring<fp32>, Constant, Prefetched<InMemory<>>>");
}

// ---- Ranks and batches, exactly -----------------------------------------------------

/// Parameter k is drawn to pixel k % pixels of every image; the distance is rounded to eighths:
///     loss = sum over k of (q(w[k]) - x[k])^2 / 2,  gradient[k] = q(w[k]) - x[k]
/// With pixels of 0 and 1 and 2^m images all gradients and their means are multiples of 2^-10 far
/// below 2^13, so every sum is exact in float and its order can't show.
class Eighths {
public:
    Eighths(const gx::Graph& graph, gx::DeviceOptions)
        : pixels_(std::size_t(graph.input.elements())) {
        parameters_.resize(std::size_t(graph.parameter_elements()));
        for (int p = 0; const gx::Parameter& q : graph.parameters)
            slices_.push_back({std::size_t(q.offset), std::size_t(q.count), p++});
    }
    static float rounded(float w) { return std::nearbyint(8 * w) / 8; }

    gx::ForwardReport forward(const gx::Batch& batch, gx::Mode) {
        batch_ = batch;
        gx::ForwardReport report;
        each([&](std::size_t, float distance) {
            report.loss_sum += double{distance} * distance / 2;
        });
        return report;
    }
    void backward(float scale, std::span<float> gradients, gx::GradientsReady ready) {
        std::vector<double> sums(gradients.size());
        each([&](std::size_t k, float distance) { sums[k] += distance; });
        for (std::size_t k = 0; k < sums.size(); ++k) gradients[k] = float(double{scale} * sums[k]);
        ready(0);
    }
    [[nodiscard]] std::span<const float> parameters() const { return parameters_; }
    [[nodiscard]] std::span<const gx::ParameterSlice> slices() const { return slices_; }
    void update(gx::FunctionRef<void(std::span<float>)> change) { change(parameters_); }
    std::span<float> statistics() { return {}; }
    void to_canonical(std::span<const float> mine, std::span<float> canonical) const {
        std::ranges::copy(mine, canonical.begin());
    }
    void from_canonical(std::span<const float> canonical, std::span<float> mine) const {
        std::ranges::copy(canonical, mine.begin());
    }
    [[nodiscard]] std::optional<std::string> first_non_finite() const { return std::nullopt; }

private:
    template <class F>
    void each(F f) const {
        for (std::size_t n = 0; n < std::size_t(batch_.count); ++n)
            for (std::size_t k = 0; k < parameters_.size(); ++k)
                f(k, rounded(parameters_[k]) - batch_.images[n * pixels_ + k % pixels_]);
    }
    std::size_t pixels_;
    std::vector<float> parameters_;
    std::vector<gx::ParameterSlice> slices_;
    gx::Batch batch_;
};

/// Pixels that a loader hands out as 0 and 1.
gx::Split black_and_white(std::int64_t count) {
    gx::Split split = images(count, 0);
    for (gx::Dataset* part : {&split.train, &split.test}) {
        for (std::uint8_t& p : part->pixels) p = p < 128 ? 0 : 255;
        part->mean = {0.0f};
        part->deviation = {1.0f};
    }
    return split;
}

TEST(Trainer, RanksEqualOneRankWithAsManyTimesTheBatch) {
    const gx::Split data = black_and_white(128);
    const auto train = [&](int ranks, int batch) {
        auto world = threads<Eighths>(ranks);
        return Plain({.batch = batch,
                      .epochs = 3,
                      .optimizer = {.momentum = 0.5f},
                      .evaluate = false})
            .train(world, data);
    };
    const gx::RunRecord alone = train(1, 32);
    EXPECT_LT(alone.epochs[2].train_loss, alone.epochs[0].train_loss) << "it learns";
    expect_same_learning(train(2, 16), alone);
    expect_same_learning(train(4, 8), alone);
    expect_same_learning(train(8, 4), alone);
    EXPECT_NE(train(2, 32).weights_hash, alone.weights_hash);
}

// 17 images over 3 ranks in batches of 4: a step of 12, then one of 5 with shares of 2, 2 and 1.
TEST(Trainer, AnUnevenTailIsTheMeanOfItsImages) {
    const gx::Split data = black_and_white(17);
    const Folder folder;
    auto world = threads<Eighths>(3);
    const Plain trainer({.batch = 4,
                         .scheduler = {.peak_rate = 0.25f},
                         .optimizer = {.momentum = 0, .weight_decay = 0},
                         .output = folder.path,
                         .evaluate = false});
    const gx::RunRecord record = trainer.train(world, data);
    ASSERT_EQ(record.steps.size(), 2u);

    const gx::Graph graph = gx::graph<Net>({.input = data.train.shape, .classes = 3});
    std::vector<float> w(std::size_t(graph.parameter_elements()));
    gx::initial_parameters(graph, 1, w);
    gx::EpochOrder order(17, {.batch = 12, .ranks = 1, .seed = 1});
    order.begin_epoch(0);
    double loss = 0;
    for (const std::int64_t step : {0, 1}) {
        const auto samples = order.step(step);
        ASSERT_EQ(samples.size(), step == 0 ? 12u : 5u);
        for (std::size_t k = 0; k < w.size(); ++k) {
            double sum = 0;
            for (const auto n : samples) {
                const double distance =
                    double{Eighths::rounded(w[k])} - data.train.pixels[n * 16 + k % 16] / 255;
                sum += distance;
                loss += distance * distance / 2;
            }
            w[k] = float(w[k] - 0.25 * sum / double(samples.size()));
        }
    }
    const auto got = gx::read_checkpoint(folder / "epoch-0001.safetensors", graph).parameters;
    // |w| and the gradients stay below 4; 3/5 and 2/3 are rounded, and so is each of some ten
    // operations: 10 * 2^-24 * 4. A wrong weight of 5 images is off by a percent and more.
    for (std::size_t k = 0; k < w.size(); ++k) EXPECT_NEAR(got[k], w[k], 2.4e-6) << k;
    EXPECT_NEAR(record.epochs[0].train_loss, loss / 17, 1e-12 * loss);
}

// ---- Ranks and batches, within a derived bound --------------------------------------

// One step of a real network. With u = 2^-24, d[i] the gradient of image i and
// A = sum over i of |d[i]| / images, everything that is rounded on n ranks, in units of u * A:
// the factor n / images (1), the product (1), n - 1 hops, the factor behind the ring (1), its
// product (1): n + 3. On one rank: 2. Sums in double: below 1. So the gradients differ by (n + 6) u
// A. Then w - rate * gradient rounds rate * gradient, w and their difference on both sides.
TEST(Trainer, RanksEqualALargerBatchWithinTheRoundingOfItsSums) {
    constexpr float rate = 0.5f;
    constexpr double u = 1.0 / (1 << 24);
    constexpr int count = 24;
    const gx::Split data = images(count, 0);
    const gx::Graph graph = gx::graph<Net>({.input = data.train.shape, .classes = 3});
    const Folder folder;
    const auto weights_of = [&](int ranks) {
        auto world = threads(ranks);
        const Plain trainer({.batch = count / ranks,
                             .scheduler = {.peak_rate = rate},
                             .optimizer = {.momentum = 0.9f, .weight_decay = 0},
                             .output = folder.path,
                             .evaluate = false});
        EXPECT_EQ(trainer.train(world, data).steps.size(), 1u);
        return gx::read_checkpoint(folder / "epoch-0001.safetensors", graph).parameters;
    };
    std::vector<float> initial(std::size_t(graph.parameter_elements()));
    gx::initial_parameters(graph, 1, initial);
    std::vector<double> magnitude(initial.size());  // A
    Device device(graph, {.batch = 1});
    device.update([&](std::span<float> w) { std::ranges::copy(initial, w.begin()); });
    gx::InMemory<> loader(data.train, {.batch = 1});
    std::vector<float> gradient(initial.size());
    loader.begin_epoch(0);
    for (int i = 0; i < count; ++i) {
        (void)device.forward(loader.next().batch, gx::Mode::train);
        device.backward(1.0f, gradient, [](std::size_t) {});
        for (std::size_t k = 0; k < gradient.size(); ++k)
            magnitude[k] += std::abs(gradient[k]) / double(count);
    }

    const std::vector<float> alone = weights_of(1);
    for (const int ranks : {2, 3, 4, 6}) {
        const std::vector<float> shared = weights_of(ranks);
        for (std::size_t k = 0; k < alone.size(); ++k) {
            const double step = rate * magnitude[k];
            const double bound = u * (ranks + 6 + 4) * step + 2 * u * (std::abs(initial[k]) + step);
            ASSERT_NEAR(shared[k], alone[k], 1.001 * bound) << ranks << " ranks, element " << k;
        }
    }
    const double moved = std::abs(alone[0] - initial[0]);
    EXPECT_GT(moved, 1000 * u * rate * magnitude[0]) << "the bound is far below what one step does";
}

// ---- Options that reach the graph ---------------------------------------------------

TEST(Trainer, TrainsOnSmoothedLabels) {
    const gx::Split data = images(40, 0);
    auto world = threads(2);
    const auto first_loss = [&](double smoothing) {
        return Plain({.batch = 20, .label_smoothing = smoothing, .evaluate = false})
            .train(world, data)
            .steps.at(0)
            .loss;
    };
    for (const double smoothing : {0.0, 0.25}) {  // one step of all 40 images
        const gx::Graph graph =
            gx::graph<Net>({.input = data.train.shape, .classes = 3, .label_smoothing = smoothing});
        std::vector<float> initial(std::size_t(graph.parameter_elements()));
        gx::initial_parameters(graph, 1, initial);
        Device device(graph, {.batch = 40});
        device.update([&](std::span<float> w) { std::ranges::copy(initial, w.begin()); });
        gx::InMemory<> loader(data.train, {.batch = 40, .seed = 1});
        loader.begin_epoch(0);
        const double sum = device.forward(loader.next().batch, gx::Mode::train).loss_sum;
        EXPECT_NEAR(first_loss(smoothing), sum / 40, 1e-6) << smoothing;
    }
    EXPECT_GT(std::abs(first_loss(0.25) - first_loss(0)), 1e-3);
}

/// Batch norm, whose running mean is 0.1 of the mean of the only step.
struct Normed {
    static constexpr std::string_view name = "Normed";
    static constexpr gx::ImageShape input{1, 4, 4};
    static constexpr int classes = 3;
    static constexpr int describe(gx::GraphBuilder& b, int x) {
        x = b.batch_norm(x, {}, "norm");
        return b.linear(b.flatten(x, "flatten"), b.classes(), true, "fc");
    }
};
// 5 images over 2 ranks: one step with shares of 3 and 2. The mean over all five pixels is that of
// 3 and 2 images, weighted; the plain mean of the ranks' means differs.
TEST(Trainer, RunningStatisticsAreWeightedByImages) {
    const Folder folder;
    const gx::Split data = images(5, 0);
    auto world = threads(2);
    (void)gx::Trainer<Normed, gx::Ring<gx::fp32>, gx::Constant>(
        {.batch = 3, .output = folder.path, .evaluate = false})
        .train(world, data);
    const gx::Graph graph = gx::graph<Normed>();
    const auto c = gx::read_checkpoint(folder / "epoch-0001.safetensors", graph);
    gx::EpochOrder order(5, {.batch = 3, .ranks = 2, .seed = 1});
    order.begin_epoch(0);
    double mean = 0, first = 0;
    for (std::size_t i = 0; i < 5; ++i)
        for (std::size_t k = 0; k < 16; ++k) {
            const double x = (data.train.pixels[order.step(0)[i] * 16 + k] / 255.0 -
                              double{data.train.mean[0]}) /
                             double{data.train.deviation[0]};
            mean += x / 80;
            first += i < 3 ? x / 48 : 0;
        }
    ASSERT_EQ(c.statistics.size(), 2u) << "a mean and a variance";
    EXPECT_NEAR(c.statistics[0], 0.1 * mean, 1e-6);
    const double plain = (first + (mean * 80 - first * 48) / 32) / 2;
    EXPECT_GT(std::abs(0.1 * (plain - mean)), 1e-4) << "the test can tell them apart";
}

// ---- What a run tells ---------------------------------------------------------------

TEST(Trainer, RowsAndSumsOfARun) {
    const gx::Split data = images();  // 40 images: 7 steps of 6
    auto world = threads(2);
    const Plain trainer({.batch = 3, .epochs = 2, .seed = 9});
    const gx::RunRecord r = trainer.train(world, data);
    EXPECT_EQ(r.composition, "Trainer<Mlp<5>, Ring<fp32>, Constant>");
    EXPECT_EQ(r.device, "reference::Device");
    EXPECT_EQ(r.world, "ThreadWorld<reference::Device>");
    EXPECT_EQ(r.clock, "wall");
    EXPECT_EQ(r.ranks, 2);
    EXPECT_EQ(r.batch_per_rank, 3);
    EXPECT_EQ(r.seed, 9u);
    EXPECT_EQ(r.images, 80);
    EXPECT_EQ(r.dollars, 0);
    EXPECT_EQ(r.event_hash, 0u);
    ASSERT_EQ(r.steps.size(), 14u);
    ASSERT_EQ(r.epochs.size(), 2u);
    EXPECT_EQ(r.epochs[1].step, 14);
    double loss = 0;  // of the first epoch: six steps of 6 images, and one of 4
    for (std::size_t i = 0; i < 7; ++i) loss += r.steps[i].loss * (i < 6 ? 6 : 4);
    EXPECT_NEAR(r.epochs[0].train_loss, loss / 40, 1e-12);
    for (std::size_t i = 0; i < r.steps.size(); ++i) {
        EXPECT_EQ(r.steps[i].step, std::int64_t(i));
        EXPECT_EQ(r.steps[i].rate, double{0.1f});
        EXPECT_GE(r.steps[i].seconds, i > 0 ? r.steps[i - 1].seconds : 0.0);
    }
    const gx::Breakdown& b = r.breakdown;
    EXPECT_NEAR(b.compute + b.exposed_communication + b.input + b.idle, r.seconds, 1e-9);
    EXPECT_EQ(r.seconds, r.epochs[1].seconds);
    // 103 parameters: each rank sends one half twice
    EXPECT_NEAR(double(r.bytes_sent_per_step), 103 * 4, 4);
    ASSERT_FALSE(r.spans.empty());
    for (const gx::Span& s : r.spans) {
        EXPECT_LE(s.begin, s.end);
        EXPECT_GE(s.index, 4) << "the last three of seven steps";
        EXPECT_LE(s.index, 7);
    }
}
TEST(Trainer, ATestSetIsNotAskedForWithoutEvaluation) {
    auto world = threads(2);
    const gx::RunRecord r = Plain({.batch = 5, .evaluate = false}).train(world, images(20, 0));
    EXPECT_TRUE(std::isnan(r.epochs.at(0).test_accuracy_pct));
}
TEST(Trainer, TestsOnEveryTestImageOnce) {
    const gx::Split data = images(30, 7);  // 7 images over 3 ranks
    auto three = threads(3);
    auto one = threads(1);
    const gx::EpochRow a = Plain({.batch = 10}).train(three, data).epochs.at(0);
    const gx::EpochRow b = Plain({.batch = 30}).train(one, data).epochs.at(0);
    EXPECT_NEAR(a.test_loss, b.test_loss, 1e-6 * b.test_loss);
    EXPECT_EQ(a.test_accuracy_pct, b.test_accuracy_pct);
}
TEST(Trainer, ProgressGoesBySteps) {
    auto world = threads(2);
    ::testing::internal::CaptureStderr();
    gx::ShowProgress lines(gx::Progress::Style::lines);
    (void)Plain({.batch = 2, .evaluate = false, .observers = {&lines}}).train(world, images(40, 0));
    const std::string text = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(std::ranges::count(text, '\n'), 10);
    EXPECT_TRUE(holds(text, "training 100 %  10/10 steps", "epoch 1/1  loss "));
}

// ---- Bad options --------------------------------------------------------------------

TEST(Trainer, ListsEverythingThatIsWrongAtOnce) {
    const gx::Split data = images(2, 1);
    auto world = threads(3);
    const Plain trainer({.batch = 0,
                         .epochs = 0,
                         .label_smoothing = 1,
                         .scheduler = {.peak_rate = 0},
                         .optimizer = {.momentum = 1.5f, .weight_decay = -1},
                         .loss_scale = {.factor = 0},
                         .trace_steps = -1});
    const std::string sentence = error_of([&] { (void)trainer.train(world, data); });
    EXPECT_TRUE(holds(sentence, "this run can't start:", "\n  - batch is 0", "\n  - epochs is 0",
                      "\n  - Constant: peak_rate must be above 0 and finite",
                      "\n  - Sgd: momentum must be", "\n  - Sgd: weight_decay must be",
                      "\n  - StaticLossScale: factor must be", "\n  - label_smoothing is 1",
                      "\n  - trace_steps is -1", "\n  - there are 3 ranks and 2 training images",
                      "\n  - there are 3 ranks and 1 test images: give at least one test image for "
                      "each rank, use fewer ranks, or set evaluate to false"));
}
TEST(Trainer, AWorldWithoutRanksIsRefused) {
    for (const int ranks : {0, -1})
        EXPECT_TRUE(holds(error_of([&] { (void)threads(ranks); }), "placement.",
                          " is " + std::to_string(ranks) + ": a world has at least 1 machine"));
}
TEST(Trainer, SchedulersSayWhatIsWrongWithTheirOptions) {
    auto world = threads(1);
    const Plain trainer({.scheduler = {.peak_rate = 0}});
    EXPECT_TRUE(holds(error_of([&] { (void)trainer.train(world, images()); }),
                      "this run can't start:\n  - Constant: peak_rate must be above 0 and finite"));
}
TEST(Trainer, SaysWhichImagesDoNotFit) {
    auto world = threads(1);
    gx::Split data = images();
    data.test = gx::synthetic({.shape = {1, 5, 5}, .classes = 3}).test;
    EXPECT_TRUE(holds(error_of([&] { (void)Plain().train(world, data); }),
                      "the test set, 'synthetic': 256 images of 1 x 5 x 5 in 3 classes, has other "
                      "images or classes than the training set, 'synthetic': 40 images"));
    data = images();
    data.train.class_names = {"ant", "bee", "cow"};
    EXPECT_EQ(error_of([&] { (void)Plain().train(world, data); }), "no error");
    data.test.class_names = {"ant", "cow", "dog"};  // folders of which one was empty
    EXPECT_TRUE(holds(error_of([&] { (void)Plain().train(world, data); }),
                      "class 1 is 'bee' in the training set and 'cow' in the test set: give both "
                      "the same classes"));
    EXPECT_EQ(error_of([&] { (void)Plain({.evaluate = false}).train(world, data); }), "no error");
    data = images();
    data.train.classes = data.test.classes = 1;
    EXPECT_TRUE(holds(error_of([&] { (void)Plain().train(world, data); }),
                      "the training set has 1 classes: a classifier needs at least 2"));
}
TEST(Trainer, RefusesDataSetsThatAreNotWhole) {
    auto world = threads(2);
    gx::Split data = images();
    data.train.labels[3] = 200;
    data.test.pixels.resize(30);
    EXPECT_TRUE(holds(error_of([&] { (void)Plain().train(world, data); }), "this run can't start:",
                      "\n  - training set 'synthetic': the label of image 3 is 200",
                      "\n  - test set 'synthetic': 12 labels of images of 1 x 4 x 4 need 192"));
    EXPECT_FALSE(
        holds(error_of([&] { (void)Plain({.evaluate = false}).train(world, data); }), "test set"));
}
TEST(Trainer, NamesTheLayerThatAnImageIsTooSmallFor) {
    auto world = threads(2);
    const auto refused = [&](gx::ImageShape shape) {
        const gx::Split data =
            gx::synthetic({.shape = shape, .classes = 3, .train_count = 4, .test_count = 4});
        const gx::Trainer<gx::LeNet, gx::Ring<gx::fp32>, gx::Constant> trainer({.batch = 1});
        return error_of([&] { (void)trainer.train(world, data); });
    };
    EXPECT_TRUE(holds(refused({1, 4, 4}), "\n  - images of 1 x 4 x 4 do not fit LeNet: ",
                      "layer 'conv2' (conv2d, operation 4): 2x2 input for a 5x5 window",
                      "Use images of at least 12 x 12, or a network with fewer stages"));
    EXPECT_TRUE(holds(refused({1, 28, 11}), "layer 'pool2' (", "10x1 input for a 2x2 window",
                      "Use images of at least 12 x 12"));
    using gx::detail::trainer::misfit;
    EXPECT_EQ(misfit("", gx::trouble<gx::LeNet>, {1, 12, 12}), "");
    EXPECT_TRUE(holds(misfit(gx::Vgg16::name, gx::trouble<gx::Vgg16>, {3, 288, 224}),
                      "images of 3 x 288 x 224 do not fit VGG16: the image does not divide into "
                      "the pooled grid: use an image size that does. At layer",
                      "; images of 448 x 448 do"));
    EXPECT_TRUE(holds(misfit(gx::Vgg16::name, gx::trouble<gx::Vgg16>, {3, 16, 16}),
                      "Use images of at least 224 x 224"));
}
TEST(Trainer, SaysThatAFolderCantBeWritten) {
    const Folder folder;
    write_text(folder / "file", "not a folder");
    auto world = threads(1);
    const Plain trainer({.output = folder / "file/below"});
    EXPECT_TRUE(holds(error_of([&] { (void)trainer.train(world, images()); }),
                      "this run can't start", "output folder '", "file/below' can't be written",
                      "Choose another folder with 'output'."));
    std::filesystem::create_directory_symlink(folder / "absent", folder / "link");
    const Plain linked({.output = folder / "link"});
    EXPECT_TRUE(holds(error_of([&] { (void)linked.train(world, images()); }),
                      "link' can't be "
                      "written: it is a link to '",
                      "absent', which is not there."));
}

}  // namespace
