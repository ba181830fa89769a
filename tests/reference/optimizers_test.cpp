// By hand here; AdamW against PyTorch and Lars against NumPy in tests/optimizer.
#include <gx/reference/optimizers.hpp>  // first, so the header is seen to stand alone

#include <vector>

#include <gtest/gtest.h>

namespace {

using namespace gx::reference;

TEST(AdamWStep, MovesAgainstTheSignAndDecays) {
    AdamWElement<double> x{.w = 2};
    adamw_step(x, -3.0, 0.5f, 0, {.beta1 = 0.5f, .beta2 = 0.75f, .epsilon = 0, .decay = 0.25f});
    EXPECT_EQ(x.m, -1.5);
    EXPECT_EQ(x.v, 2.25);
    EXPECT_EQ(x.w, 2 - 0.5 * (-1 + 0.25 * 2));
    adamw_step(x, 0.0, 0.5f, 1, {.beta1 = 0.5f, .beta2 = 0.75f, .epsilon = 0.25f});
    EXPECT_EQ(x.m, -0.75);
    EXPECT_EQ(x.v, 1.6875);
    EXPECT_NEAR(x.w, 2.25 + 0.5 * (0.75 / 0.75) / (std::sqrt(1.6875 / 0.4375) + 0.25), 1e-15);
}
TEST(LarsStep, ScalesByTheRatioOfNorms) {
    std::vector<double> w{3, 4}, v{1, 0};
    const std::vector<double> g{0, 10};
    lars_step<double>(w, v, g, 2, {.momentum = 0.5f, .decay = 1, .trust = 0.75f});
    // 0.75 * 5 / (10 + 5) = 0.25; v = 0.5 v + 2 * 0.25 * (g + w)
    EXPECT_EQ(v, (std::vector<double>{0.5 + 1.5, 7}));
    EXPECT_EQ(w, (std::vector<double>{1, -3}));
}
TEST(LarsStep, IsPlainMomentumWhereExcludedOrZero) {
    std::vector<double> w{4}, v{0};
    const std::vector<double> g{2};
    lars_step<double>(w, v, g, 0.5f, {.decay = 1, .adapts = false});
    EXPECT_EQ(w, std::vector<double>{3});
    w = {0}, v = {0};
    lars_step<double>(w, v, g, 0.5f, {.decay = 1});
    EXPECT_EQ(w, std::vector<double>{-1});
}

}  // namespace
