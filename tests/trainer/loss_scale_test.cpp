#include <gx/trainer/loss_scale.hpp>

#include <gtest/gtest.h>

#include <limits>  // infinity

namespace {

// ---- What the types promise ---------------------------------------------------------

static_assert(gx::LossScale<gx::StaticLossScale> && gx::LossScale<gx::DynamicLossScale>);
static_assert(!gx::LossScale<float>, "a number is not a policy");
constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
static_assert(gx::StaticLossScale::check({}).empty() && gx::DynamicLossScale::check({}).empty());
static_assert(!gx::StaticLossScale::check({.factor = 0}).empty());
static_assert(!gx::StaticLossScale::check({.factor = infinity}).empty());
static_assert(!gx::StaticLossScale::check({.factor = nan}).empty());
static_assert(gx::StaticLossScale::check({.factor = 0x1p-126f}).empty());
static_assert(!gx::StaticLossScale::check({.factor = 0x1p-149f}).empty(), "1 / factor is infinite");
static_assert(!gx::DynamicLossScale::check({.initial = 0}).empty());
static_assert(!gx::DynamicLossScale::check({.initial = 0x1p-149f}).empty());
static_assert(!gx::DynamicLossScale::check({.initial = nan}).empty());
static_assert(!gx::DynamicLossScale::check({.initial = 8, .largest = 4}).empty());
static_assert(!gx::DynamicLossScale::check({.largest = infinity}).empty());
static_assert(!gx::DynamicLossScale::check({.growth_interval = 0}).empty());

// ---- Cases worked by hand -----------------------------------------------------------

TEST(StaticLossScale, NeverMoves) {
    gx::StaticLossScale scale({.factor = 128});
    scale.learn(false);
    scale.learn(true);
    EXPECT_EQ(scale.scale(), 128);
    EXPECT_EQ(scale.state().scale, 128);
    EXPECT_EQ(gx::StaticLossScale().scale(), 1);
}
TEST(DynamicLossScale, DoublesAfterGoodStepsInARowAndHalvesAtAnOverflow) {
    gx::DynamicLossScale scale({.initial = 8, .largest = 16, .growth_interval = 3});
    struct Case {
        bool finite;
        float after;
    };
    for (const auto [finite, after] : {Case{true, 8},
                                       {true, 8},
                                       {false, 4},
                                       {true, 4},
                                       {true, 4},
                                       {true, 8},
                                       {true, 8},
                                       {true, 8},
                                       {true, 16},
                                       {true, 16},
                                       {true, 16},
                                       {true, 16},
                                       {false, 8},
                                       {false, 4}}) {
        scale.learn(finite);
        EXPECT_EQ(scale.scale(), after);
    }
}
TEST(DynamicLossScale, EndsAtOne) {
    gx::DynamicLossScale scale({.initial = 4});
    for (int i = 0; i < 10; ++i) scale.learn(false);
    EXPECT_EQ(scale.scale(), 1);
}
TEST(DynamicLossScale, GoesOnFromItsState) {
    const gx::DynamicLossScale::Options o{.initial = 8, .growth_interval = 4};
    gx::DynamicLossScale whole(o), rest(o);
    for (const bool finite : {true, false, true, true}) whole.learn(finite);
    rest.restore(whole.state());
    for (int i = 0; i < 9; ++i) {
        EXPECT_EQ(rest.scale(), whole.scale()) << i;
        whole.learn(i != 5);
        rest.learn(i != 5);
    }
    EXPECT_EQ(rest.state().good_steps, whole.state().good_steps);
}
TEST(DynamicLossScale, GoesOnWithSmallerLimits) {
    gx::DynamicLossScale before({.initial = 8, .growth_interval = 100});
    for (int i = 0; i < 10; ++i) before.learn(true);
    gx::DynamicLossScale sooner({.initial = 8, .growth_interval = 4});
    sooner.restore(before.state());
    for (const float after : {16.0f, 16.0f, 16.0f, 16.0f, 32.0f}) {
        sooner.learn(true);
        EXPECT_EQ(sooner.scale(), after) << "10 good steps in a row are enough";
    }
    gx::DynamicLossScale lower({.initial = 1, .largest = 2});
    lower.restore(before.state());
    EXPECT_EQ(lower.scale(), 2);
}
TEST(LossScaleDeathTest, OptionsOutsideTheirRangesStop) {
    EXPECT_DEATH(gx::StaticLossScale({.factor = -1}), "factor must be above 0");
    EXPECT_DEATH(gx::DynamicLossScale({.growth_interval = 0}), "growth_interval");
}

}  // namespace
