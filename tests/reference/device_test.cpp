#include <gx/reference/device.hpp>

#include <gtest/gtest.h>

#include <limits>  // infinity

#include <reference/finite_differences.hpp>  // draw_case
#include <support/counted_new.hpp>           // note_allocation

namespace {
int allocations = 0;
}  // namespace
void testing_support::note_allocation(std::size_t, const void*) noexcept { ++allocations; }

namespace {

using gx::Batch;
using gx::ForwardReport;
using gx::Graph;
using gx::GraphBuilder;
using gx::Mode;
using gx::Window;
using gx::reference::Device;
using gx::reference::testing::Case;
using gx::reference::testing::draw_case;
using Floats = std::vector<float>;
using Labels = std::vector<std::int32_t>;

/// Two numbers, two classes, logits = W x + b.
Graph two_by_two(double smoothing = 0) {
    GraphBuilder b("tiny", {2, 1, 1}, 2);
    b.softmax_cross_entropy(b.linear(b.input(), 2, true, "fc"), smoothing, "loss");
    return std::move(b).finish();
}

/// Convolution, batch norm, relu, dropout, linear: something of everything that has state.
Graph small_network(bool batch_norm = true) {
    GraphBuilder b("small", {2, 4, 4}, 3);
    int x = b.conv2d(b.input(), {.channels = 3, .window = Window::square(3)}, "conv");
    if (batch_norm) x = b.batch_norm(x, {}, "bn");
    x = b.dropout(b.relu(x, "relu"), 0.25, "drop");
    x = b.linear(b.flatten(x, "flat"), 3, true, "fc");
    b.softmax_cross_entropy(x, 0.1, "loss");
    return std::move(b).finish();
}

void set(Device& d, const Floats& parameters) {
    d.update([&](std::span<float> p) { std::ranges::copy(parameters, p.begin()); });
}

struct Step {
    ForwardReport report;
    Floats gradients;
};
Step train_step(Device& d, const Batch& batch, float scale = 1) {
    Step s{d.forward(batch, Mode::train), Floats(d.parameters().size(), 99.0f)};
    d.backward(scale, s.gradients, [](std::size_t) {});
    return s;
}

/// The first `count` images of a case.
Batch first(const Case& c, int count) {
    const auto images = static_cast<std::size_t>(count * c.graph.input.elements());
    return {std::span(c.images).first(images), std::span(c.labels).first(std::size_t(count)), count,
            c.draw};
}

// ---- Cases worked by hand -------------------------------------------------------------
TEST(ReferenceDevice, RunsALinearClassifier) {
    Device d(two_by_two(), {.batch = 2});
    set(d, {1, 0, 0, 1, 0, 0});  // logits are the image
    const Floats images{2, 2, 0, 1};
    const Labels labels{0, 0};
    const auto [report, g] = train_step(d, {images, labels, 2});
    const double p = 1 / (1 + std::exp(1.0));  // of class 0, for logits 0 and 1
    EXPECT_NEAR(report.loss_sum, std::log(2.0) - std::log(p), 1e-15);
    EXPECT_EQ(report.correct, 1);  // equal logits count for class 0; the other image is missed
    EXPECT_TRUE(report.finite);
    const double q = 1 - p;  // gradient of logits: (-1/2, 1/2) and (-q, q)
    const std::vector<double> expected{-1, -1 - q, 1, 1 + q, -0.5 - q, 0.5 + q};
    for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(g[i], expected[i], 1.5 * 0x1p-24);
}

TEST(ReferenceDevice, StartsAtZeroWithInitialStatistics) {
    Device d(small_network(), {.batch = 1});
    for (const float w : d.parameters()) EXPECT_EQ(w, 0);
    EXPECT_EQ(Floats(d.statistics().begin(), d.statistics().end()), (Floats{0, 0, 0, 1, 1, 1}));
}

TEST(ReferenceDevice, LaysParametersOutAsTheGraphDoes) {
    const Graph graph = small_network();
    Device d(graph, {.batch = 1});
    EXPECT_EQ(d.parameters().size(), std::size_t(graph.parameter_elements()));
    ASSERT_EQ(d.slices().size(), graph.parameters.size());
    for (std::size_t p = 0; p < d.slices().size(); ++p) {
        EXPECT_EQ(d.slices()[p].offset, std::size_t(graph.parameters[p].offset));
        EXPECT_EQ(d.slices()[p].count, std::size_t(graph.parameters[p].count));
        EXPECT_EQ(d.slices()[p].parameter, static_cast<int>(p));
    }
    const Floats from{1, 2, 3};
    Floats there(3), back(3);
    d.to_canonical(from, there);
    d.from_canonical(there, back);
    EXPECT_EQ(from, there);
    EXPECT_EQ(from, back);
}

// ---- Modes ----------------------------------------------------------------------------
TEST(ReferenceDevice, EvaluatesWithRunningStatisticsAndWithoutDropout) {
    GraphBuilder b("bn", {2, 1, 1}, 2);
    const int bn = b.batch_norm(b.input(), {.epsilon = 0, .momentum = 0.5}, "bn");
    const int drop = b.dropout(bn, 0.5, "drop");
    b.softmax_cross_entropy(drop, 0, "loss");
    Device d(std::move(b).finish(), {.batch = 2});
    set(d, {1, 1, 0, 0});
    const Floats images{1, 10, 3, 30};
    const Labels labels{0, 1};
    (void)d.forward({images, labels, 2}, Mode::train);
    // means 2 and 20, unbiased variances 2 and 200; half of them, and half of 0 and 1
    EXPECT_EQ(Floats(d.statistics().begin(), d.statistics().end()), (Floats{1, 10, 1.5, 100.5}));
    EXPECT_EQ(std::vector(d.activation(bn).begin(), d.activation(bn).end()),
              (std::vector<double>{-1, -1, 1, 1}));
    d.statistics()[2] = 4;
    d.statistics()[3] = 25;
    (void)d.forward({images, labels, 2}, Mode::evaluate);
    EXPECT_EQ(std::vector(d.activation(drop).begin(), d.activation(drop).end()),
              (std::vector<double>{0, 0, 1, 4}));
    EXPECT_EQ(d.statistics()[0], 1) << "evaluating must not move statistics";
}

TEST(ReferenceDevice, DropsDifferentElementsOnOtherRanksAndInOtherBatches) {
    const Case c = draw_case(small_network(), 4, 1);
    const auto loss = [&](int rank, std::uint64_t draw) {
        Device d(c.graph, {.batch = 4, .seed = 3, .rank = rank});
        set(d, c.parameters);
        Batch batch = c.batch();
        batch.draw = draw;
        return d.forward(batch, Mode::train).loss_sum;
    };
    EXPECT_EQ(loss(0, 0), loss(0, 0));
    EXPECT_NE(loss(0, 0), loss(1, 0));
    EXPECT_NE(loss(0, 0), loss(0, 1));
}

// ---- Batches of every count -----------------------------------------------------------
TEST(ReferenceDevice, GivesTheBitsOfAFreshDeviceWhateverRanBefore) {
    const Case c = draw_case(small_network(), 4, 2);
    for (int count = 0; count <= 4; ++count) {
        Device used = c.device(), fresh(c.graph, {count + 1, c.options.seed, c.options.rank});
        set(fresh, c.parameters);
        (void)train_step(used, c.batch());
        (void)used.forward(first(c, 1), Mode::evaluate);
        const Step a = train_step(used, first(c, count)), b = train_step(fresh, first(c, count));
        EXPECT_EQ(a.report.loss_sum, b.report.loss_sum) << count;
        EXPECT_EQ(a.report.correct, b.report.correct) << count;
        EXPECT_EQ(a.gradients, b.gradients) << count;
    }
}

TEST(ReferenceDevice, TakesABatchOfNoImages) {
    const Case c = draw_case(small_network(), 2, 3);
    Device d = c.device();
    const auto [report, gradients] = train_step(d, {});
    EXPECT_EQ(report.loss_sum, 0);
    EXPECT_EQ(report.correct, 0);
    EXPECT_TRUE(report.finite);
    EXPECT_EQ(gradients, Floats(gradients.size(), 0.0f));
    EXPECT_EQ(d.statistics()[3], 1) << "no image, no statistics";
    EXPECT_EQ(d.first_non_finite(), std::nullopt);
}

// Without batch norm images do not know of each other, so a batch is the sum of its halves; the
// gradients differ by 3 roundings to float, of numbers no larger than the halves' magnitudes.
TEST(ReferenceDevice, AddsOverTheImagesOfABatch) {
    GraphBuilder b("plain", {2, 4, 4}, 3);
    int x = b.conv2d(b.input(), {.channels = 3, .window = Window::square(3)}, "conv");
    x = b.linear(b.flatten(b.relu(x, "relu"), "flat"), 3, true, "fc");
    b.softmax_cross_entropy(x, 0, "loss");
    const Case c = draw_case(std::move(b).finish(), 4, 4);
    Device d = c.device();
    const Step whole = train_step(d, c.batch()), left = train_step(d, first(c, 2));
    const Batch rest{std::span(c.images).last(64), std::span(c.labels).last(2), 2, c.draw};
    const Step right = train_step(d, rest);
    EXPECT_NEAR(whole.report.loss_sum, left.report.loss_sum + right.report.loss_sum, 1e-13);
    EXPECT_EQ(whole.report.correct, left.report.correct + right.report.correct);
    for (std::size_t i = 0; i < whole.gradients.size(); ++i) {
        const double l = left.gradients[i], r = right.gradients[i];
        EXPECT_NEAR(whole.gradients[i], l + r, 0x1p-23 * (std::fabs(l) + std::fabs(r)) + 1e-15);
    }
}

// ---- Backward -------------------------------------------------------------------------
TEST(ReferenceDevice, TellsGradientsFromTheEndDownOnlyWhenFinal) {
    const Case c = draw_case(small_network(), 3, 5);
    Device d = c.device();
    (void)d.forward(c.batch(), Mode::train);
    Floats gradients(d.parameters().size(), 99.0f);
    std::vector<std::size_t> watermarks;
    std::vector<Floats> seen;
    d.backward(1, gradients, [&](std::size_t watermark) {
        watermarks.push_back(watermark);
        seen.emplace_back(gradients.begin() + std::ptrdiff_t(watermark), gradients.end());
    });
    EXPECT_EQ(watermarks, (std::vector<std::size_t>{60, 54, 0}));  // fc, bn, conv
    for (std::size_t k = 0; k < seen.size(); ++k) {
        const Floats last(gradients.begin() + std::ptrdiff_t(watermarks[k]), gradients.end());
        EXPECT_EQ(seen[k], last);
    }
}

TEST(ReferenceDevice, TellsAnEmptyNetworkToo) {
    GraphBuilder b("none", {2, 1, 1}, 2);
    b.softmax_cross_entropy(b.input(), 0, "loss");
    Device d(std::move(b).finish(), {.batch = 1});
    const Floats image{1, 2};
    const Labels label{0};
    (void)d.forward({image, label, 1}, Mode::train);
    std::vector<std::size_t> watermarks;
    d.backward(1, {}, [&](std::size_t watermark) { watermarks.push_back(watermark); });
    EXPECT_EQ(watermarks, (std::vector<std::size_t>{0}));
}

TEST(ReferenceDevice, ScalesGradients) {
    const Case c = draw_case(small_network(), 3, 6);
    Device d = c.device();
    const Step one = train_step(d, c.batch(), 1), large = train_step(d, c.batch(), 1024);
    bool any = false;
    for (std::size_t i = 0; i < one.gradients.size(); ++i) {
        EXPECT_EQ(large.gradients[i], 1024 * one.gradients[i]);
        any = any || one.gradients[i] != 0;
    }
    EXPECT_TRUE(any);
}

TEST(ReferenceDevice, AllocatesNothingInAStep) {
    const Case c = draw_case(small_network(), 4, 7);
    Device d = c.device();
    Floats gradients(d.parameters().size());
    const int before = allocations;
    for (const int count : {4, 2, 0}) {
        (void)d.forward(first(c, count), Mode::train);
        d.backward(1, gradients, [](std::size_t) {});
        d.update([&](std::span<float> p) { p[0] += gradients[0]; });
        (void)d.forward(first(c, count), Mode::evaluate);
    }
    EXPECT_EQ(allocations, before);
    EXPECT_GT(allocations, 0) << "the count must count";
}

// ---- Trouble --------------------------------------------------------------------------
TEST(ReferenceDevice, NamesTheFirstLayerThatIsNotANumber) {
    const Case c = draw_case(small_network(), 2, 8);
    Device d = c.device();
    EXPECT_TRUE(d.forward(c.batch(), Mode::train).finite);
    EXPECT_EQ(d.first_non_finite(), std::nullopt);
    d.update([](std::span<float> p) { p[54] = std::numeric_limits<float>::quiet_NaN(); });  // gamma
    EXPECT_FALSE(d.forward(c.batch(), Mode::train).finite);
    EXPECT_EQ(d.first_non_finite(), "batch_norm 'bn'");
    Floats images = c.images;
    images[5] = std::numeric_limits<float>::infinity();
    EXPECT_FALSE(d.forward({images, c.labels, 2}, Mode::train).finite);
    EXPECT_EQ(d.first_non_finite(), "input 'input'");
}

TEST(ReferenceDeviceDeathTest, RefusesWhatDoesNotFit) {
    Device d(two_by_two(), {.batch = 2});
    const Floats images{1, 2, 3, 4, 5, 6};
    const auto run = [&](std::size_t numbers, const Labels& labels, int count) {
        (void)d.forward({std::span(images).first(numbers), labels, count}, Mode::train);
    };
    EXPECT_DEATH(run(4, {0, 2}, 2), "label 2 of image 1: expected 0 to 1");
    EXPECT_DEATH(run(2, {-1}, 1), "label -1 of image 0: expected 0 to 1");
    EXPECT_DEATH(run(6, {0, 0, 0}, 3), "a batch of 3 images: expected 0 to 2");
    EXPECT_DEATH(run(3, {0, 0}, 2), "count images of the graph's input shape");
    EXPECT_DEATH(run(4, {0}, 2), "one label for each image");
    EXPECT_DEATH(Device(two_by_two(), {.batch = 0}), "a batch of at least one image");
    Floats gradients(6);
    run(2, {0}, 1);
    EXPECT_DEATH(d.backward(1, std::span(gradients).first(5), [](std::size_t) {}), "one gradient");
    (void)d.forward({std::span(images).first(2), Labels{0}, 1}, Mode::evaluate);
    EXPECT_DEATH(d.backward(1, gradients, [](std::size_t) {}), "backward follows a forward");
}

}  // namespace
