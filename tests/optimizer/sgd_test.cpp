#include <gx/optimizer/sgd.hpp>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/reference/optimizers.hpp>  // sgd_step
#include <optimizer/run_50.hpp>         // the run of the fixture
#include <optimizer/sgd_fixture.hpp>    // what PyTorch and NumPy gave

namespace {

using namespace gx;

// ---- What the type promises -----------------------------------------------------------------
static_assert(Optimizer<Sgd>);
static_assert(!Optimizer<int> && !Optimizer<Graph>, "a graph is not a policy");
static_assert(Sgd::check({}).empty());

/// One parameter of each role, of equal counts, one after the other.
Graph four_roles(std::int64_t count) {
    Graph graph;
    std::int64_t offset = 0;
    for (const auto role :
         {ParameterRole::weight, ParameterRole::bias, ParameterRole::gamma, ParameterRole::beta}) {
        graph.parameters.push_back({.role = role, .offset = offset, .count = count});
        offset += count;
    }
    return graph;
}
std::vector<ParameterSlice> slices_of(const Graph& graph) {
    std::vector<ParameterSlice> slices;
    for (const Parameter& p : graph.parameters)
        slices.push_back({std::size_t(p.offset), std::size_t(p.count), int(slices.size())});
    return slices;
}
struct Moved {
    explicit Moved(Sgd::Options o, std::int64_t count = 1) : sgd(o) {
        const Graph graph = four_roles(count);
        w.resize(std::size_t(4 * count));
        slices = slices_of(graph);
        sgd.reserve(w.size(), slices, graph);
        v.resize(w.size());
    }
    void update(const std::vector<float>& g, float rate, float unscale) {
        sgd.update({.parameters = w,
                    .gradients = g,
                    .state = v,
                    .slices = slices,
                    .rate = rate,
                    .unscale = unscale});
    }
    Sgd sgd;
    std::vector<float> w, v;
    std::vector<ParameterSlice> slices;
};

// ---- Cases worked by hand -------------------------------------------------------------------
TEST(Sgd, MomentumOverThreeSteps) {
    Moved run{{.momentum = 0.5f, .weight_decay = 0}};
    const std::vector<float> ones(4, 1.0f);
    run.update(ones, 0.5f, 1.0f);  // v = 1
    EXPECT_EQ(run.w[0], -0.5f);
    run.update(ones, 0.5f, 1.0f);  // v = 1.5
    EXPECT_EQ(run.w[0], -1.25f);
    run.update(ones, 0.25f, 1.0f);  // v = 1.75; the rate is outside of v
    EXPECT_EQ(run.w[0], -1.6875f);
    EXPECT_EQ(run.v[0], 1.75f);
}
TEST(Sgd, NesterovLooksOneStepAhead) {
    Moved run{{.momentum = 0.5f, .weight_decay = 0, .nesterov = true}};
    const std::vector<float> ones(4, 1.0f);
    run.update(ones, 1.0f, 1.0f);  // v = 1, step = 1 + 0.5
    EXPECT_EQ(run.w[0], -1.5f);
    run.update(ones, 1.0f, 1.0f);  // v = 1.5, step = 1 + 0.75
    EXPECT_EQ(run.w[0], -3.25f);
}
TEST(Sgd, StepsInTheVelocityKeepTheirRate) {
    Moved run{{.momentum = 0.5f, .weight_decay = 0, .rate_in_velocity = true}};
    const std::vector<float> ones(4, 1.0f);
    run.update(ones, 0.5f, 1.0f);  // v = 0.5
    EXPECT_EQ(run.w[0], -0.5f);
    run.update(ones, 0.25f, 1.0f);  // v = 0.25 + 0.25; with gradients in v, 0.25 * 1.5 = 0.375
    EXPECT_EQ(run.w[0], -1.0f);
    EXPECT_EQ(run.v[0], 0.5f);
}
TEST(Sgd, NesterovWithStepsInTheVelocity) {
    Moved run{{.momentum = 0.5f, .weight_decay = 0, .nesterov = true, .rate_in_velocity = true}};
    const std::vector<float> ones(4, 1.0f);
    run.update(ones, 0.5f, 1.0f);  // v = 0.5, step = 0.5 + 0.25
    EXPECT_EQ(run.w[0], -0.75f);
    run.update(ones, 0.25f, 1.0f);  // v = 0.5, step = 0.25 + 0.25
    EXPECT_EQ(run.w[0], -1.25f);
}
TEST(Sgd, DividesTheLossScaleOut) {
    Moved run{{.momentum = 0, .weight_decay = 0}};
    run.update(std::vector<float>(4, 1024.0f), 1.0f, 1.0f / 1024);
    EXPECT_EQ(run.w[0], -1.0f);
}
TEST(Sgd, DecaysByRole) {
    struct Case {
        bool batch_norm, bias;
        std::vector<float> decayed;  // weight, bias, gamma, beta
    };
    for (const Case& c :
         {Case{false, false, {0.5f, 1, 1, 1}}, Case{true, false, {0.5f, 1, 0.5f, 0.5f}},
          Case{false, true, {0.5f, 0.5f, 1, 1}}, Case{true, true, {0.5f, 0.5f, 0.5f, 0.5f}}}) {
        Moved run{{.momentum = 0,
                   .weight_decay = 0.5f,
                   .decay_batch_norm = c.batch_norm,
                   .decay_bias = c.bias}};
        run.w.assign(4, 1.0f);
        run.update(std::vector<float>(4, 0.0f), 1.0f, 1.0f);
        EXPECT_EQ(run.w, c.decayed);
    }
}
TEST(Sgd, LeavesPaddingAtZeroAndGapsAlone) {
    const Graph graph = four_roles(2);
    Sgd sgd{{}};
    const std::vector<ParameterSlice> padded{{4, 4, 0}};  // weight: 2 elements, 2 of padding
    sgd.reserve(8, padded, graph);
    std::vector<float> w{9, 9, 9, 9, 1, 1, 0, 0};
    const std::vector<float> g{5, 5, 5, 5, 1, 1, 0, 0};
    std::vector<float> v(8);
    for (int i = 0; i < 3; ++i)
        sgd.update({.parameters = w, .gradients = g, .state = v, .slices = padded, .rate = 0.1f});
    for (const std::size_t gap : {0u, 1u, 2u, 3u}) EXPECT_EQ(w[gap], 9.0f);
    EXPECT_EQ(w[6], 0.0f);
    EXPECT_EQ(w[7], 0.0f);
    EXPECT_LT(w[4], 1.0f);
}

// ---- Against PyTorch and the papers, and the rounding of float ------------------------------
namespace fixture = gx::testing::sgd;
using reference::Rounded;

struct Form {
    bool nesterov, rate_in_velocity;
    const double (&parameters)[152];
};
const std::vector<Form> forms{{false, false, fixture::plain},
                              {true, false, fixture::nesterov},
                              {false, true, fixture::plain_rate_in_velocity},
                              {true, true, fixture::nesterov_rate_in_velocity}};
constexpr double peak = 0.05;

std::vector<Rounded> follow(const Sgd::Options& o) {
    std::vector<Rounded> w, v(std::size_t(testing_support::start_50().size()), 0.0f);
    for (const float x : testing_support::start_50()) w.push_back(x);
    testing_support::follow_50(peak, [&](int step, float rate, std::int64_t) {
        const auto g = testing_support::gradients_50(step, 1);
        testing_support::each_50([&](int t, std::int64_t, std::size_t i) {
            const bool decays =
                testing_support::tensors[std::size_t(t)].role == ParameterRole::weight;
            reference::sgd_step(w[i], v[i], Rounded(g[i]), rate,
                                {.momentum = o.momentum,
                                 .decay = decays ? o.weight_decay : 0.0f,
                                 .nesterov = o.nesterov,
                                 .rate_in_velocity = o.rate_in_velocity});
        });
    });
    return w;
}
TEST(Sgd, EachFormIsThatOfItsSourceOverFiftyUpdates) {
    for (const Form& form : forms) {
        const Sgd::Options o{.weight_decay = 5e-3f,
                             .nesterov = form.nesterov,
                             .rate_in_velocity = form.rate_in_velocity};
        // 50 updates of about 8 operations on numbers below 2^5: 2 * 400 * 2^5 * 2^-53 < 1e-11.
        const std::vector<Rounded> bound = follow(o);
        EXPECT_LT(testing_support::distance(bound, form.parameters), 1e-11);
        const Graph graph = testing_support::graph_of(testing_support::tensors);
        testing_support::Descent<Sgd> run(o, graph, testing_support::plain_layout(graph));
        run.start(testing_support::start_50());
        testing_support::follow_50(peak, [&](int step, float rate, std::int64_t updates) {
            run.update(testing_support::gradients_50(step, 1024), rate, 1.0f / 1024, updates);
        });
        EXPECT_LT(testing_support::outside(run.parameters(), bound), 0);
        for (const Form& other : forms)  // each is its own: the test can tell
            EXPECT_TRUE(&other == &form ||
                        testing_support::distance(bound, other.parameters) > 1e-3);
    }
}

// ---- Against the formula, one element at a time ---------------------------------------------
float rounded(float x) {  // keeps a compiler with fused multiply-add from using it in the oracle
    volatile float y = x;
    return y;
}
RC_GTEST_PROP(Sgd, EqualsTheSerialFormulaBitForBit, (bool nesterov)) {
    const auto count = *rc::gen::inRange<std::int64_t>(1, 3'000);
    const Sgd::Options o{.momentum = 0.9f, .weight_decay = 3e-3f, .nesterov = nesterov};
    Moved run{o, count};
    const int salt = *rc::gen::inRange(0, 1'000);
    const auto number = [&](std::size_t i, int step) {
        return std::sin(static_cast<float>(i) * 0.37f + static_cast<float>(step * 100 + salt));
    };
    std::vector<float> g(run.w.size()), w(run.w.size()), v(run.w.size(), 0.0f);
    for (std::size_t i = 0; i < w.size(); ++i) run.w[i] = w[i] = number(i, 0);
    for (int step = 1; step <= 3; ++step) {
        for (std::size_t i = 0; i < g.size(); ++i) g[i] = number(i, step) * 8;
        run.update(g, 0.05f, 0.125f);
        for (std::size_t i = 0; i < w.size(); ++i) {
            const float decay = i < std::size_t(count) ? 3e-3f : 0.0f;
            const float gi = rounded(g[i] * 0.125f) + rounded(decay * w[i]);
            v[i] = rounded(0.9f * v[i]) + gi;
            const float move = nesterov ? gi + rounded(0.9f * v[i]) : v[i];
            w[i] = w[i] - rounded(0.05f * move);
        }
    }
    RC_ASSERT(run.w == w);
    RC_ASSERT(run.v == v);
}

// ---- Finite or not --------------------------------------------------------------------------
TEST(AllFinite, AcceptsEveryFiniteExtreme) {
    std::vector<float> x(5'000, std::numeric_limits<float>::max());
    x[7] = std::numeric_limits<float>::lowest();
    x[8] = std::numeric_limits<float>::denorm_min();
    x[9] = -0.0f;
    EXPECT_TRUE(all_finite(x));
    EXPECT_TRUE(all_finite({}));
}
RC_GTEST_PROP(AllFinite, FindsOneBadNumberAnywhere, ()) {
    std::vector<float> x(*rc::gen::inRange<std::size_t>(1, 4'000), 1.0f);
    const auto bad = *rc::gen::element(
        std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::signaling_NaN());
    RC_ASSERT(all_finite(x));
    x[*rc::gen::inRange<std::size_t>(0, x.size())] = bad;
    RC_ASSERT(!all_finite(x));
}

// ---- Bad input ------------------------------------------------------------------------------
TEST(Sgd, TellsBadOptions) {
    EXPECT_EQ(Sgd::check({.momentum = 0, .nesterov = true}).first(),
              "Sgd: nesterov needs a momentum above 0");
    EXPECT_FALSE(Sgd::check({.momentum = std::nanf("")}).empty());
}
TEST(SgdDeathTest, StopsOnABrokenContract) {
    Moved run{{}};
    const Graph graph = four_roles(1);
    const std::vector<ParameterSlice> outside{{2, 3, 0}};
    EXPECT_DEATH(run.sgd.reserve(4, outside, graph), "outside of the flat vector");
}

}  // namespace
