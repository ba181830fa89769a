#include <gx/reference/quadratic.hpp>

#include <gtest/gtest.h>

#include <gx/reference/delayed_sgd.hpp>  // delayed_sgd

namespace {

using gx::reference::Quadratic;
using gx::reference::stable_rate_times_curvature;
using Floats = std::vector<float>;

TEST(Quadratic, ByHand) {
    const Quadratic bowl{{2, 10}, {1, -1}};
    const Floats w{4, 0};
    EXPECT_EQ(bowl.value(w), 2 * 9 / 2.0 + 10 * 1 / 2.0);
    EXPECT_EQ(bowl.gradient(w), (Floats{6, 10}));
    EXPECT_EQ(bowl.value(bowl.centre), 0);
}

TEST(Quadratic, LimitsOfStabilityByHand) {
    EXPECT_DOUBLE_EQ(stable_rate_times_curvature(0), 2);
    EXPECT_NEAR(stable_rate_times_curvature(1), 1, 1e-15);
    EXPECT_NEAR(stable_rate_times_curvature(2), (std::sqrt(5.0) - 1) / 2, 1e-15);
}

// At 0.9 of the limit 300 updates shrink a distance of 1 below a tenth; at 1.1 of it they grow it
// past 10. The later the gradients, the slower either goes.
TEST(Quadratic, DelayedDescentIsStableBelowTheLimitOnly) {
    const Quadratic bowl{{1}, {0}};
    const auto gradient = [&](std::uint64_t, std::span<const float> w) { return bowl.gradient(w); };
    for (int s = 0; s < 6; ++s) {
        const auto last = [&](double share) {
            const auto rate = static_cast<float>(share * stable_rate_times_curvature(s));
            const auto path = gx::reference::delayed_sgd({1}, 300, {.staleness = s}, gradient,
                                                         [=](auto) { return rate; });
            double largest = 0;
            for (std::size_t k = path.size() - 20; k < path.size(); ++k)
                largest = std::max(largest, std::fabs(double{path[k][0]}));
            return largest;
        };
        EXPECT_LT(last(0.9), 0.1) << s;
        EXPECT_GT(last(1.1), 10) << s;
    }
}

}  // namespace
