#include <gx/loader/synthetic.hpp>

#include <gx/core/error.hpp>
#include <gx/loader/epoch.hpp>

#include <array>
#include <cmath>
#include <limits>
#include <string>

#include <range/v3/view/enumerate.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace {

using namespace gx;

static_assert(Loader<SyntheticLoader>);

// ---- Shape and order ------------------------------------------------------------------------
TEST(Synthetic, HasTheShapeThatIsAskedFor) {
    const Split s =
        synthetic({.shape = {3, 5, 7}, .classes = 4, .train_count = 10, .test_count = 3});
    EXPECT_EQ(s.train.count(), 10);
    EXPECT_EQ(s.test.count(), 3);
    EXPECT_EQ(s.train.pixels.size(), 10u * 105);
    EXPECT_EQ(s.train.labels, (std::vector<std::uint8_t>{0, 1, 2, 3, 0, 1, 2, 3, 0, 1}));
    EXPECT_EQ(s.test.labels, (std::vector<std::uint8_t>{2, 3, 0}));
    EXPECT_EQ(s.test.mean, s.train.mean);
    EXPECT_EQ(s.train.mean.size(), 3u);
}
TEST(Synthetic, RepeatsItself) {
    EXPECT_EQ(synthetic({.seed = 3}).train.pixels, synthetic({.seed = 3}).train.pixels);
    EXPECT_NE(synthetic({.seed = 3}).train.pixels, synthetic({.seed = 4}).train.pixels);
    const Split more = synthetic({.train_count = 20}), less = synthetic({.train_count = 10});
    EXPECT_TRUE(
        std::equal(less.train.pixels.begin(), less.train.pixels.end(), more.train.pixels.begin()))
        << "more images shift none";
}

// ---- It can be learned, and the test images show what was learned ---------------------------
TEST(Synthetic, NearestMeanOfTrainingClassifiesTheTestImages) {
    const Split s = synthetic({.noise = 120});
    const std::size_t n = 28 * 28;
    std::vector<double> mean(10 * n), count(10);
    for (std::size_t i = 0; i < s.train.labels.size(); ++i) {
        count[s.train.labels[i]] += 1;
        for (std::size_t p = 0; p < n; ++p)
            mean[s.train.labels[i] * n + p] += s.train.pixels[i * n + p];
    }
    int right = 0;
    for (std::size_t i = 0; i < s.test.labels.size(); ++i) {
        std::size_t best = 0;
        double least = std::numeric_limits<double>::max();
        for (std::size_t c = 0; c < 10; ++c) {
            double distance = 0;
            for (std::size_t p = 0; p < n; ++p) {
                const double d = mean[c * n + p] / count[c] - s.test.pixels[i * n + p];
                distance += d * d;
            }
            if (distance < least) least = distance, best = c;
        }
        right += best == s.test.labels[i];
    }
    EXPECT_GT(right, 250) << "of 256";
    EXPECT_NE(s.train.pixels[0], s.train.pixels[10 * n]) << "noise: one class, two images";
}

// ---- The loader, as a range -----------------------------------------------------------------
TEST(SyntheticLoader, HandsOutNormalisedImages) {
    SyntheticLoader loader({.train_count = 500}, {.batch = 64});
    double sum = 0, squares = 0;
    std::array<int, 10> labels{};
    std::int64_t images = 0;
    for (const auto& [number, step] : ranges::views::enumerate(epoch(loader, 2))) {
        EXPECT_EQ(step.batch.draw, 2u * 8 + number);
        images += step.batch.count;
        for (const float x : step.batch.images) sum += x, squares += double{x} * x;
        for (const int label : step.batch.labels) ++labels.at(std::size_t(label));
    }
    EXPECT_EQ(images, 500);
    for (const int n : labels) EXPECT_EQ(n, 50);
    EXPECT_NEAR(sum / (500 * 784), 0.0, 1e-4);
    EXPECT_NEAR(squares / (500 * 784), 1.0, 1e-4);
}

// ---- Bad input ------------------------------------------------------------------------------
TEST(Synthetic, ListsEveryOptionOutsideItsRange) {
    const auto error = [](const SyntheticOptions& o) {
        try {
            (void)synthetic(o);
        } catch (const Error& e) {
            return std::string(e.what());
        }
        return std::string("no error");
    };
    EXPECT_THAT(error({.shape = {1, 0, 70'000},
                       .classes = 1,
                       .train_count = 0,
                       .test_count = -1,
                       .noise = 300}),
                testing::AllOf(testing::HasSubstr("shape.height is 0: give 1 to 65536"),
                               testing::HasSubstr("shape.width is 70000"),
                               testing::HasSubstr("classes is 1: give 2 to 256"),
                               testing::HasSubstr("train_count is 0: give 1 to 2000000000"),
                               testing::HasSubstr("test_count is -1: give 0 to"),
                               testing::HasSubstr("noise is 300: give 0 to 255")));
    EXPECT_THAT(error({.classes = 257}), testing::HasSubstr("classes is 257"));
    EXPECT_EQ(error({.classes = 256, .train_count = 1, .test_count = 0, .noise = 255}), "no error");
}
TEST(SyntheticLoader, RefusesMoreRanksThanImages) {
    EXPECT_THROW(SyntheticLoader({.train_count = 3}, {.batch = 1, .ranks = 4}), Error);
}

}  // namespace
