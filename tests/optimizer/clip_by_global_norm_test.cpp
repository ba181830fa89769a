#include <gx/optimizer/clip_by_global_norm.hpp>  // first, so the header is seen to stand alone

#include <cmath>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/optimizer/adamw.hpp>       // AdamW
#include <gx/optimizer/lamb.hpp>        // Lamb
#include <gx/optimizer/sgd.hpp>         // Sgd
#include <gx/reference/optimizers.hpp>  // adamw_step
#include <optimizer/clip_fixture.hpp>   // what PyTorch gave
#include <optimizer/run_50.hpp>         // the run that both follow

namespace {

using namespace gx;
using namespace testing_support;
using reference::AdamWElement;
using reference::Rounded;
namespace fixture = gx::testing::clip;
using Clipped = ClipByGlobalNorm<AdamW>;

// ---- What the type promises -----------------------------------------------------------
static_assert(AddsNorms<Clipped> && !Elementwise<Clipped>);
static_assert(Optimizer<ClipByGlobalNorm<Lamb>> && !AddsNorms<ClipByGlobalNorm<Lamb>>);
static_assert(state_vectors<Clipped>() == 2 && state_vectors<ClipByGlobalNorm<Sgd>>() == 1);
static_assert(Clipped::update_cost == UpdateCost{32, 2}, "AdamW's, and the gradient once more");
static_assert(Clipped::check({}).empty() && !Clipped::check({.max_norm = 0}).empty() &&
              !Clipped::check({.optimizer = {.beta1 = 1}}).empty());

// ---- Cases worked by hand -------------------------------------------------------------
const ClipByGlobalNorm<Sgd>::Options plain{.max_norm = 5,
                                           .optimizer = {.momentum = 0, .weight_decay = 0}};

TEST(ClipByGlobalNorm, OneFactorForAllParameters) {
    const Graph graph = graph_of({{ParameterRole::weight, 1}, {ParameterRole::bias, 1}});
    Descent<ClipByGlobalNorm<Sgd>> run(plain, graph, plain_layout(graph));
    run.update({12, 16}, 1, 0.5f, 0);  // 6 and 8, of norm 10: times 5 / (10 + 1e-6)
    const auto unscale = static_cast<float>(0.5 * (5.0 / (10 + 1e-6)));
    EXPECT_EQ(run.w, (Floats{-12 * unscale, -16 * unscale}));
    EXPECT_NEAR(double{run.w[1]}, -4, 1e-5);
}
TEST(ClipByGlobalNorm, LeavesSmallerOnesAsTheyAre) {
    const Graph graph = graph_of({{ParameterRole::weight, 2}});
    Descent<ClipByGlobalNorm<Sgd>> run(plain, graph, plain_layout(graph));
    run.update({3, 3.75f}, 1, 1, 0);
    EXPECT_EQ(run.w, (Floats{-3, -3.75f}));
    run.update({0, 0}, 1, 1, 0);
    EXPECT_EQ(run.w, (Floats{-3, -3.75f}));
}
TEST(ClipByGlobalNorm, OfLambChangesItsMomentsAlone) {
    const Graph graph = graph_of({{ParameterRole::weight, 2}});
    Descent<ClipByGlobalNorm<Lamb>> run({.max_norm = 0.5f}, graph, plain_layout(graph));
    Descent<Lamb> by_hand({}, graph, plain_layout(graph));
    run.start({3, 4});
    by_hand.start({3, 4});
    run.update({0, 4}, 1, 0.25f, 0);
    by_hand.update({0, 4}, 1, static_cast<float>(0.25 * (0.5 / (1 + 1e-6))), 0);
    EXPECT_EQ(run.w, by_hand.w);
    EXPECT_EQ(run.vectors, by_hand.vectors);
}

// ---- Against PyTorch, and the rounding of float ---------------------------------------

/// The run in double with a bound of what float makes of it; the gradients are exact, and so is
/// their norm but for the roundings of double.
std::vector<Rounded> follow(float max_norm) {
    const AdamW::Options o{.epsilon = 1.0f / 16, .weight_decay = 0.1f};
    std::vector<AdamWElement<Rounded>> all;
    for (const float x : start_50()) all.push_back({x, 0, 0});
    follow_50(0.01, [&](int step, float rate, std::int64_t updates) {
        const Floats g = gradients_50(step, 1);
        double squares = 0;
        for (const float x : g) squares += double{x} * double{x};
        const double factor = std::min(1.0, double{max_norm} / (std::sqrt(squares) + 1e-6));
        each_50([&](int t, std::int64_t, std::size_t i) {
            const bool decays = tensors[std::size_t(t)].role == ParameterRole::weight;
            const Rounded clipped = Rounded(factor, factor * 0x1p-50).rounded() * Rounded(g[i]);
            adamw_step(all[i], clipped, rate, updates,
                       {o.beta1, o.beta2, o.epsilon, decays ? o.weight_decay : 0.0f});
        });
    });
    std::vector<Rounded> w;
    for (const auto& x : all) w.push_back(x.w);
    return w;
}
Floats moved(float max_norm, const Layout& layout) {
    const Graph graph = graph_of(tensors);
    Descent<Clipped> run(
        {.max_norm = max_norm, .optimizer = {.epsilon = 1.0f / 16, .weight_decay = 0.1f}}, graph,
        layout, 2.5f);
    run.start(start_50());
    follow_50(0.01, [&](int step, float rate, std::int64_t updates) {
        run.update(gradients_50(step, 1024), rate, 1.0f / 1024, updates);  // exact
    });
    return run.parameters();
}
TEST(ClipByGlobalNorm, FiftyUpdatesAreThoseOfPyTorch) {
    static_assert(fixture::clipped > 10 && fixture::clipped < 40, "some steps are, some are not");
    const std::vector<Rounded> bound = follow(fixture::max_norm);
    // As of AdamW, with two operations more of an element, and sums of 152 squares.
    EXPECT_LT(distance(bound, fixture::parameters), 1e-11);
    const Floats w = moved(fixture::max_norm, plain_layout(graph_of(tensors)));
    EXPECT_LT(outside(w, bound), 0);
    EXPECT_GE(outside(w, follow(1e9f)), 0) << "the clipping shows";
}
RC_GTEST_PROP(ClipByGlobalNorm, LayoutAndPaddingChangeNoBit, ()) {
    const Graph graph = graph_of(tensors);
    RC_ASSERT(moved(fixture::max_norm, any_layout(graph)) ==
              moved(fixture::max_norm, plain_layout(graph)));
}
RC_GTEST_PROP(ClipByGlobalNorm, PartsOnSeveralRanksMakeTheSameUpdate, ()) {
    expect_parts_make_the_whole<Clipped>({});
}

}  // namespace
