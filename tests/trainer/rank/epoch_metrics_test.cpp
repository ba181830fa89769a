#include <gx/trainer/rank/epoch_metrics.hpp>

#include <gtest/gtest.h>

namespace {

using gx::EpochRow;
using gx::detail::trainer::EpochMetrics;

EpochMetrics two_steps() {
    EpochMetrics m{.epoch = 3, .first_step = 10};
    m.begin(2, 1.5);
    for (int s = 0; s < 2; ++s) m.rows.push_back({.step = 10 + s});
    const auto set = [&](int step, double loss, double hits, double images) {
        const auto sums = m.of_step(step);
        sums[0] = loss, sums[1] = hits, sums[2] = images;
    };
    set(0, 8.0, 1, 4);
    set(1, 2.0, 3, 2);
    return m;
}

TEST(EpochMetrics, WeighsStepsByTheirImages) {
    EpochMetrics m = two_steps();
    EpochRow row;
    EXPECT_EQ(m.finish(row), 6.0);
    EXPECT_DOUBLE_EQ(row.train_loss, 10.0 / 6);
    EXPECT_DOUBLE_EQ(row.train_accuracy_pct, 100.0 * 4 / 6);
    EXPECT_DOUBLE_EQ(m.rows[0].loss, 2.0);
    EXPECT_DOUBLE_EQ(m.rows[1].loss, 1.0);
}

TEST(EpochMetrics, HasALossBeforeAStepHasImages) {
    EpochMetrics m = two_steps();
    EXPECT_DOUBLE_EQ(m.loss(0), 2.0);
    m.begin(2, 0);
    EXPECT_EQ(m.loss(1), 0.0);
}

TEST(EpochMetrics, BeginsAnEpochWithNothingOfTheLast) {
    EpochMetrics m = two_steps();
    m.begin(3, 7.25);
    EXPECT_EQ(m.sums, std::vector<double>(9, 0.0));
    EXPECT_TRUE(m.rows.empty());
    EXPECT_EQ(m.begin_seconds, 7.25);
}

TEST(EpochMetrics, IsCutAtAStep) {
    EpochMetrics m = two_steps();
    EXPECT_EQ(m.end(), 12);
    m.cut_at(11);
    EXPECT_EQ(m.end(), 11);
    EXPECT_EQ(m.sums, (std::vector<double>{8.0, 1, 4}));
}

}  // namespace
