#include <gx/reference/batch_norm.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <reference/tensor.hpp>  // Tensor

namespace {

using gx::reference::Moments;
using gx::reference::testing::small_integers;
using gx::reference::testing::Tensor;
using Values = std::vector<double>;

// ---- Four numbers by hand: 1, 3, 5, 7 have mean 4 and squared deviations 9, 1, 1, 9 -------
TEST(BatchNorm, MomentsOfFourNumbers) {
    const Tensor x(2, {1, 1, 2}, {1, 3, 5, 7});
    const Moments m = channel_moments(x.read(), 0);
    EXPECT_EQ(m.mean, 4);
    EXPECT_EQ(m.variance, 5);  // 20 / 4
    EXPECT_EQ(m.count, 4);
}

TEST(BatchNorm, NormalisesFourNumbers) {
    const Tensor x(2, {1, 1, 2}, {1, 3, 5, 7});
    Tensor y(2, {1, 1, 2});
    normalise(x.read(), 0, channel_moments(x.read(), 0), 4, 6, 10, y.write());
    EXPECT_EQ(y.values, (Values{4, 8, 12, 16}));  // variance 5 + 4: h = (x - 4) / 3; y = 6 h + 10
}

TEST(BatchNorm, RunningVarianceIsUnbiased) {
    const Moments batch{.mean = 4, .variance = 5, .count = 4};
    float mean = 2, variance = 1;
    gx::reference::update_running(batch, 0.25, mean, variance);
    EXPECT_EQ(mean, 2.5f);                                      // 0.75 * 2 + 0.25 * 4
    EXPECT_EQ(variance, static_cast<float>(0.75 + 5.0 / 3.0));  // 0.75 * 1 + 0.25 * 20 / 3
}

TEST(BatchNorm, OfOneValueTakesItsVarianceAsItIs) {
    float mean = 0, variance = 1;
    gx::reference::update_running({.mean = 8, .variance = 0, .count = 1}, 0.5, mean, variance);
    EXPECT_EQ(mean, 4.0f);
    EXPECT_EQ(variance, 0.5f);
}

TEST(BatchNorm, ChannelsDoNotMix) {
    const Tensor x(2, {2, 1, 1}, {1, 100, 3, 300});
    EXPECT_EQ(channel_moments(x.read(), 0).mean, 2);
    EXPECT_EQ(channel_moments(x.read(), 1).mean, 200);
}

TEST(BatchNorm, GradientsByHand) {
    const Tensor x(2, {1, 1, 2}, {1, 3, 5, 7}), dy(2, {1, 1, 2}, {9, 0, 0, 0});
    Tensor dx(2, {1, 1, 2});
    double dgamma = 0, dbeta = 0;
    normalise_backward(x.read(), 0, 4, 6, dy.read(), dx.write(), dgamma, dbeta);
    // h = -1, -1/3, 1/3, 1: dbeta = 9, dgamma = -9; dx = 6 / 3 * (dy - 9/4 + h * 9/4)
    EXPECT_EQ(dbeta, 9);
    EXPECT_EQ(dgamma, -9);
    const Values expected{2 * (9 - 2.25 - 2.25), 2 * (-2.25 - 0.75), 2 * (-2.25 + 0.75), 0};
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(dx.values[i], expected[i], 1e-14);
}

// ---- Properties -----------------------------------------------------------------------
// The output has mean beta and variance gamma^2 * v / (v + epsilon). With |x| <= 9 and at most 72
// values, 72 roundings of numbers below 2^8 move a sum by less than 2^-53 * 72 * 2^8 < 3e-12.
RC_GTEST_PROP(BatchNorm, GivesTheMomentsItPromises, (std::uint64_t seed)) {
    const int count = *rc::gen::inRange(2, 9);
    Tensor x(count, {2, 3, 3}), y = x;
    x.values = small_integers(x.values.size(), seed);
    const Moments before = channel_moments(x.read(), 1);
    normalise(x.read(), 1, before, 0.5, 3, -2, y.write());
    const Moments after = channel_moments(y.read(), 1);
    RC_ASSERT(std::fabs(after.mean - -2) < 1e-11);
    RC_ASSERT(std::fabs(after.variance - 9 * before.variance / (before.variance + 0.5)) < 1e-11);
}

// A shift of x, or a stretch of it (at epsilon 0), changes nothing: dx has neither component.
RC_GTEST_PROP(BatchNorm, GradientIgnoresShiftAndStretch, (std::uint64_t seed)) {
    Tensor x(4, {1, 3, 3}), dy = x, dx = x;
    x.values = small_integers(x.values.size(), seed);
    dy.values = small_integers(dy.values.size(), seed + 1);
    double dgamma = 0, dbeta = 0;
    normalise_backward(x.read(), 0, 0, 2, dy.read(), dx.write(), dgamma, dbeta);
    double shift = 0, stretch = 0;
    for (std::size_t i = 0; i < dx.values.size(); ++i) {
        shift += dx.values[i];
        stretch += dx.values[i] * x.values[i];
    }
    RC_ASSERT(std::fabs(shift) < 1e-11);
    RC_ASSERT(std::fabs(stretch) < 1e-11);
}

}  // namespace
