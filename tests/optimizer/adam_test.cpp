#include <gx/optimizer/adam.hpp>  // first, so the header is seen to stand alone

#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/optimizer/adamw.hpp>       // AdamW
#include <gx/reference/optimizers.hpp>  // adamw_step
#include <optimizer/adam_fixture.hpp>   // what PyTorch gave
#include <optimizer/run_50.hpp>         // the run that both follow

namespace {

using namespace gx;
using namespace testing_support;
using reference::AdamWElement;
using reference::Rounded;
namespace fixture = gx::testing::adam;

// ---- What the type promises -----------------------------------------------------------
static_assert(Elementwise<Adam> && !KeepsScalars<Adam>);
static_assert(Adam::check({}).empty());
static_assert(!Adam::check({.epsilon = 0}).empty() && !Adam::check({.beta1 = 1}).empty() &&
              !Adam::check({.beta2 = -0.1f}).empty() && !Adam::check({.weight_decay = 1}).empty());
static_assert(Adam::update_cost == UpdateCost{28, 2}, "w, g, m, v read and w, m, v written");

// ---- Cases worked by hand -------------------------------------------------------------
TEST(Adam, TheDecayGoesThroughBothMoments) {
    const Graph graph = graph_of({{ParameterRole::weight, 1}, {ParameterRole::bias, 1}});
    Descent<Adam> run({.beta1 = 0.5f, .beta2 = 0.75f, .epsilon = 0.5f, .weight_decay = 0.5f}, graph,
                      plain_layout(graph));
    run.start({2, 2});
    run.update({0, 0}, 1, 1, 0);                          // g = 0.5 * 2 for the weight
    EXPECT_EQ(run.state(), (Floats{0.5f, 0, 0.25f, 0}));  // half of g, a quarter of its square
    EXPECT_EQ(run.w, (Floats{2 - 1 / (1 + 0.5f), 2}));    // g / (|g| + epsilon)
}

// ---- Against PyTorch, and the rounding of float ---------------------------------------
std::vector<AdamWElement<Rounded>> follow(const Adam::Options& o, double peak) {
    std::vector<AdamWElement<Rounded>> all;
    for (const float x : start_50()) all.push_back({x, 0, 0});
    follow_50(peak, [&](int step, float rate, std::int64_t updates) {
        const Floats g = gradients_50(step, 1);
        each_50([&](int t, std::int64_t, std::size_t i) {
            const bool decays = tensors[std::size_t(t)].role == ParameterRole::weight;
            adamw_step(all[i], Rounded(g[i]), rate, updates,
                       {.beta1 = o.beta1,
                        .beta2 = o.beta2,
                        .epsilon = o.epsilon,
                        .decay = decays ? o.weight_decay : 0.0f,
                        .coupled = true});
        });
    });
    return all;
}
std::vector<Rounded> each(const std::vector<AdamWElement<Rounded>>& all,
                          Rounded AdamWElement<Rounded>::* member) {
    std::vector<Rounded> out;
    for (const auto& x : all) out.push_back(x.*member);
    return out;
}
const Adam::Options as_fixture{.epsilon = 1.0f / 16, .weight_decay = 0.1f};
constexpr double peak = 0.01;

TEST(Adam, ReferenceIsPyTorchsInDouble) {
    // 50 updates of about 20 operations on numbers below 2^2, twice: 2 * 1000 * 2^-51 < 1e-12.
    const auto all = follow(as_fixture, peak);
    EXPECT_LT(distance(each(all, &AdamWElement<Rounded>::w), fixture::parameters), 1e-12);
    EXPECT_LT(distance(each(all, &AdamWElement<Rounded>::m), fixture::first_moments), 1e-12);
    EXPECT_LT(distance(each(all, &AdamWElement<Rounded>::v), fixture::second_moments), 1e-12);
    static_assert(fixture::updates == 50);
}

/// Whether rule O stays within the rounding of float of the run of Adam, with loss scaling.
template <class O>
bool agrees(const typename O::Options& rule, const Adam::Options& o) {
    const Graph graph = graph_of(tensors);
    Descent<O> run(rule, graph, plain_layout(graph));
    run.start(start_50());
    follow_50(peak, [&](int step, float rate, std::int64_t updates) {
        run.update(gradients_50(step, 1024), rate, 1.0f / 1024, updates);  // exact
    });
    const auto all = follow(o, peak);
    std::vector<Rounded> state = each(all, &AdamWElement<Rounded>::m);
    for (const auto& x : all) state.push_back(x.v);
    return outside(run.parameters(), each(all, &AdamWElement<Rounded>::w)) < 0 &&
           outside(run.state(), state) < 0;
}
TEST(Adam, FiftyUpdatesStayWithinTheRoundingOfFloat) {
    for (const Adam::Options& o :
         {as_fixture, Adam::Options{}, Adam::Options{.beta1 = 0, .beta2 = 0.5f, .epsilon = 0.5f}})
        EXPECT_TRUE(agrees<Adam>(o, o));
}
TEST(Adam, AdamWIsRejected) {
    EXPECT_FALSE(agrees<AdamW>({.epsilon = 1.0f / 16, .weight_decay = 0.1f}, as_fixture));
    EXPECT_FALSE(
        agrees<Adam>({.epsilon = 1.0f / 16, .weight_decay = 0.1f, .decay_bias = true}, as_fixture));
}

// ---- Properties -----------------------------------------------------------------------
RC_GTEST_PROP(Adam, WithoutDecayItHasTheBitsOfAdamW, ()) {
    const auto count = *rc::gen::inRange<std::int64_t>(1, 3'000);
    const Graph graph = graph_of({{ParameterRole::weight, count}});
    Descent<Adam> adam({}, graph, plain_layout(graph));
    Descent<AdamW> adamw({.weight_decay = 0}, graph, plain_layout(graph));
    const int salt = *rc::gen::inRange(0, 1'000);
    const auto numbers = [&](int stream) {
        Floats out;
        for (std::int64_t i = 0; i < count; ++i) out.push_back(number(i, stream));
        return out;
    };
    adam.start(numbers(salt));
    adamw.start(numbers(salt));
    for (int step = 0; step < 3; ++step) {
        adam.update(numbers(salt + step + 1), 0.05f, 0.125f, step);
        adamw.update(numbers(salt + step + 1), 0.05f, 0.125f, step);
    }
    RC_ASSERT(adam.w == adamw.w);
    RC_ASSERT(adam.vectors == adamw.vectors);
}

}  // namespace
