#include <gx/reference/delayed_sgd.hpp>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/core/rng.hpp>             // Rng
#include <gx/optimizer/sgd.hpp>        // Sgd
#include <gx/reference/quadratic.hpp>  // Quadratic

namespace {

using gx::reference::delayed_sgd;
using gx::reference::DelayedSgdOptions;
using gx::reference::Quadratic;
using Floats = std::vector<float>;

/// w[0], w[1], ... of one parameter on f(w) = w^2 / 2, from 8.
Floats descend(std::uint64_t updates, const DelayedSgdOptions& o, float rate) {
    const Quadratic bowl{{1}, {0}};
    Floats path;
    const auto gradient = [&](std::uint64_t, std::span<const float> w) { return bowl.gradient(w); };
    for (const auto& w : delayed_sgd({8}, updates, o, gradient, [&](auto) { return rate; }))
        path.push_back(w[0]);
    return path;
}

// ---- Cases worked by hand -------------------------------------------------------------
TEST(DelayedSgd, WithoutDelayHalves) { EXPECT_EQ(descend(3, {}, 0.5f), (Floats{8, 4, 2, 1})); }

TEST(DelayedSgd, OneUpdateLate) {
    // 8; 8 - 8/2; 4 - 8/2; 0 - 4/2; -2 - 0/2; -2 + 2/2
    EXPECT_EQ(descend(5, {.staleness = 1}, 0.5f), (Floats{8, 4, 0, -2, -2, -1}));
}

TEST(DelayedSgd, TwoUpdatesLateSeesTheStartThreeTimes) {
    EXPECT_EQ(descend(4, {.staleness = 2}, 0.5f), (Floats{8, 4, 0, -4, -6}));
}

TEST(DelayedSgd, MomentumAndNesterov) {
    EXPECT_EQ(descend(2, {.momentum = 0.5f}, 0.25f), (Floats{8, 6, 3.5f}));
    EXPECT_EQ(descend(2, {.momentum = 0.5f, .nesterov = true}, 0.25f), (Floats{8, 5, 2.625f}));
}

TEST(DelayedSgd, DecaysWhatIsThereNow) {
    const DelayedSgdOptions o{.staleness = 1, .unscale = 0, .decay = {0.5f}};
    EXPECT_EQ(descend(2, o, 1), (Floats{8, 4, 2}));
}

TEST(DelayedSgd, AsksRatesAndGradientsByNumber) {
    std::vector<std::uint64_t> asked;
    const auto gradient = [&](std::uint64_t u, std::span<const float>) {
        asked.push_back(u);
        return Floats{static_cast<float>(u + 1)};
    };
    const auto rate = [](std::uint64_t u) { return u == 1 ? 10.0f : 1.0f; };
    const auto path = delayed_sgd({0}, 3, {}, gradient, rate);
    EXPECT_EQ(asked, (std::vector<std::uint64_t>{0, 1, 2}));
    EXPECT_EQ(path, (std::vector<Floats>{{0}, {-1}, {-21}, {-24}}));
}

// ---- Without delay it is the optimizer, bit by bit ---------------------------------------
RC_GTEST_PROP(DelayedSgd, WithoutDelayEqualsSgd, (std::uint64_t seed, bool nesterov)) {
    const std::size_t count = 37;
    const gx::Rng rng(seed, "sgd");
    Floats w(count);
    for (std::size_t i = 0; i < count; ++i) w[i] = rng.normal(i);
    const auto gradient = [&](std::uint64_t u, std::span<const float> at) {
        Floats g(at.size());
        for (std::size_t i = 0; i < g.size(); ++i) g[i] = rng.at(u + 1).normal(i) + at[i];
        return g;
    };
    const auto rate = [](std::uint64_t u) { return 0.1f / static_cast<float>(u + 1); };
    const auto path = delayed_sgd(
        w, 5,
        {.momentum = 0.9f, .nesterov = nesterov, .unscale = 0.3f, .decay = Floats(count, 0.01f)},
        gradient, rate);

    gx::Graph graph{};
    graph.parameters.push_back({.role = gx::ParameterRole::weight});
    gx::Sgd sgd({.momentum = 0.9f, .weight_decay = 0.01f, .nesterov = nesterov});
    const std::vector<gx::ParameterSlice> slices{{0, count, 0}};
    sgd.reserve(count, slices, graph);
    std::vector<float> momentum(count);
    for (std::uint64_t u = 0; u < 5; ++u) {
        RC_ASSERT(w == path[u]);
        sgd.update({.parameters = w,
                    .gradients = gradient(u, w),
                    .state = momentum,
                    .slices = slices,
                    .rate = rate(u),
                    .unscale = 0.3f,
                    .step = std::int64_t(u)});
    }
    RC_ASSERT(w == path[5]);
}

}  // namespace
