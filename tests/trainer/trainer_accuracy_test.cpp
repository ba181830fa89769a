// Top-1 and top-5 of the test set: exact counts, however the set is shared among ranks.
#include <gx/trainer/trainer.hpp>

#include <gtest/gtest.h>

#include <gx/model/init.hpp>                   // initial_parameters
#include <gx/reducer/ring.hpp>                 // Ring
#include <gx/sim/catalog/simple_clusters.hpp>  // ethernet_10g
#include <gx/sim/world/cluster.hpp>            // Cluster
#include <gx/sim/world/device.hpp>             // Device
#include <gx/testing/far/device.hpp>           // FarDevice

#include <trainer/small.hpp>  // Net, threads

namespace {

using namespace testing_support;
using gx::fp32;
using T = gx::Trainer<Net, gx::Ring<fp32>, gx::Constant>;

gx::Split images_of(int classes, int tests) {
    return gx::synthetic({.shape = {1, 4, 4},
                          .classes = classes,
                          .train_count = 16,
                          .test_count = tests,
                          .noise = 120,
                          .seed = 5});
}
/// A rate that changes no weight: every run tests the initial ones.
T::Options options() {
    T::Options o{.batch = 2, .epochs = 1, .seed = 3};
    o.scheduler.peak_rate = 1e-30f;
    return o;
}
struct Counts {
    int first = 0, among_five = 0;
};
/// Image by image, by sorting the logits.
Counts counted(const gx::Dataset& test, int classes) {
    gx::Graph g = gx::graph<Net>({.input = test.shape, .classes = classes});
    gx::reference::Device device(g, {.batch = 1});
    device.update([&](std::span<float> w) { gx::initial_parameters(g, 3, w); });
    gx::InMemory<> loader(test, {.batch = 1, .shuffle = false});
    loader.begin_epoch(0);
    Counts out;
    for (std::int64_t i = 0; i < test.count(); ++i) {
        const gx::Batch image = loader.next().batch;
        (void)device.forward(image, gx::Mode::evaluate);
        const auto logits = device.activation(g.ops.back().inputs[0]);
        std::vector<int> order;
        for (int k = 0; k < classes; ++k) order.push_back(k);
        std::ranges::stable_sort(
            order, [&](int a, int b) { return logits[std::size_t(a)] > logits[std::size_t(b)]; });
        const auto place = std::ranges::find(order, image.labels[0]) - order.begin();
        out.first += place == 0;
        out.among_five += place < 5;
    }
    return out;
}

TEST(TestAccuracy, IsAnExactCountOnAnyNumberOfRanks) {
    for (const int tests : {8, 13, 31}) {
        const gx::Split data = images_of(9, tests);
        const Counts expected = counted(data.test, 9);
        ASSERT_LT(expected.first, expected.among_five);
        ASSERT_LT(expected.among_five, tests);
        for (int ranks = 1; ranks <= 8; ++ranks) {
            auto wall = threads(ranks);
            const gx::RunRecord r = T(options()).train(wall, data);
            EXPECT_EQ(r.epochs[0].test_accuracy_pct, 100.0 * expected.first / tests) << ranks;
            EXPECT_EQ(r.epochs[0].test_top5_accuracy_pct, 100.0 * expected.among_five / tests)
                << ranks;
            EXPECT_EQ(r.test_top5_accuracy_pct(), r.epochs[0].test_top5_accuracy_pct);
        }
    }
}
TEST(TestAccuracy, IsThatOfEveryWorld) {
    const gx::Split data = images_of(9, 13);
    const Counts expected = counted(data.test, 9);
    const auto expect_counts = [&](auto&& world) {
        const gx::RunRecord r = T(options()).train(world, data);
        EXPECT_EQ(r.test_accuracy_pct(), 100.0 * expected.first / 13);
        EXPECT_EQ(r.test_top5_accuracy_pct(), 100.0 * expected.among_five / 13);
    };
    expect_counts(threads(3));
    expect_counts(gx::sim::Cluster<gx::reference::Device>(gx::sim::ethernet_10g(3), {}));
    expect_counts(
        gx::testing::FarWorld<gx::testing::FarDevice<gx::reference::Device>>({{3, 1}, 1}));
}
TEST(TestAccuracy, AmongFiveIsAllOfFiveClasses) {
    auto wall = threads(3);
    for (const int classes : {2, 3, 5}) {
        const gx::RunRecord r = T(options()).train(wall, images_of(classes, 13));
        EXPECT_EQ(r.test_top5_accuracy_pct(), 100) << classes;
        EXPECT_LT(r.test_accuracy_pct(), 100);
    }
}

}  // namespace
