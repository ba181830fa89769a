#include <gx/optimizer/adamw.hpp>  // first, so the header is seen to stand alone

#include <cmath>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/reference/optimizers.hpp>  // adamw_step
#include <optimizer/adamw_fixture.hpp>  // what PyTorch gave
#include <optimizer/run_50.hpp>         // the run that both follow

namespace {

using namespace gx;
using namespace testing_support;
using reference::AdamWElement;
using reference::Rounded;
namespace fixture = gx::testing::adamw;

// ---- What the type promises -----------------------------------------------------------
static_assert(Optimizer<AdamW> && !KeepsScalars<AdamW>);
static_assert(AdamW::check({}).empty());
static_assert(AdamW::update_cost == UpdateCost{28, 2}, "w, g, m, v read and w, m, v written");

// ---- Cases worked by hand -------------------------------------------------------------
TEST(AdamW, FirstStepIsTheSignOfTheGradient) {
    // m / (1 - beta1) = g, sqrt(v / (1 - beta2)) = |g|: w moves by rate * g / (|g| + epsilon).
    AdamW rule({.beta1 = 0.5f, .beta2 = 0.75f, .epsilon = 0.5f, .weight_decay = 0});
    const Graph graph = graph_of({{ParameterRole::weight, 3}});
    const Layout layout = plain_layout(graph);
    rule.reserve(3, layout.slices, graph);
    Floats w(3, 0.0f), moments(6, 0.0f);
    const Floats g{1.5f, -0.5f, 0};
    rule.update(
        {.parameters = w, .gradients = g, .state = moments, .slices = layout.slices, .rate = 1});
    EXPECT_EQ(w, (Floats{-0.75f, 0.5f, 0}));
    EXPECT_EQ(moments, (Floats{0.75f, -0.25f, 0, 0.5625f, 0.0625f, 0}));
}
TEST(AdamW, DecaysByRoleAndNotThroughTheMoments) {
    struct Case {
        bool batch_norm, bias;
        Floats left;  // weight, bias, gamma, beta
    };
    for (const Case& c :
         {Case{false, false, {0.75f, 1, 1, 1}}, Case{true, false, {0.75f, 1, 0.75f, 0.75f}},
          Case{false, true, {0.75f, 0.75f, 1, 1}}, Case{true, true, Floats(4, 0.75f)}}) {
        const Graph graph = graph_of({{ParameterRole::weight, 1},
                                      {ParameterRole::bias, 1},
                                      {ParameterRole::gamma, 1},
                                      {ParameterRole::beta, 1}});
        Descent<AdamW> run(
            {.weight_decay = 0.5f, .decay_batch_norm = c.batch_norm, .decay_bias = c.bias}, graph,
            plain_layout(graph));
        run.start(Floats(4, 1.0f));
        run.update(Floats(4, 0.0f), 0.5f, 1, 0);  // w - rate * decay * w
        EXPECT_EQ(run.w, c.left);
        EXPECT_EQ(run.state(), Floats(8, 0.0f));
    }
}
TEST(AdamW, AZeroGradientWithoutDecayMovesNothing) {
    const Graph graph = graph_of(tensors);
    Descent<AdamW> run({.weight_decay = 0}, graph, plain_layout(graph));
    run.start(start_50());
    for (int i = 0; i < 3; ++i) run.update(Floats(run.w.size(), 0.0f), 0.1f, 1, i);
    EXPECT_EQ(run.w, start_50());
}

// ---- Against PyTorch, and the rounding of float ---------------------------------------

// The run in double, with the bound of what float arithmetic makes of it: reference/rounded.hpp
// carries the error of each operation to the next, so the bound of a parameter after 50 updates is
// derived from its own numbers.
struct Followed {
    std::vector<Rounded> w{}, m{}, v{};
};
Followed follow(const AdamW::Options& o, double peak) {
    std::vector<AdamWElement<Rounded>> all;
    for (const float x : start_50()) all.push_back({x, 0, 0});
    follow_50(peak, [&](int step, float rate, std::int64_t updates) {
        const Floats g = gradients_50(step, 1);
        each_50([&](int t, std::int64_t, std::size_t i) {
            const bool decays = tensors[std::size_t(t)].role == ParameterRole::weight;
            adamw_step(all[i], Rounded(g[i]), rate, updates,
                       {o.beta1, o.beta2, o.epsilon, decays ? o.weight_decay : 0.0f});
        });
    });
    Followed f;
    for (const auto& x : all) f.w.push_back(x.w), f.m.push_back(x.m), f.v.push_back(x.v);
    return f;
}
const AdamW::Options as_fixture{.epsilon = 1.0f / 16, .weight_decay = 0.1f};
constexpr double peak = 0.01;

TEST(AdamW, ReferenceIsPyTorchsInDouble) {
    // 50 updates of about 20 operations on numbers below 2^2, twice: 2 * 1000 * 2^-51 < 1e-12.
    const Followed f = follow(as_fixture, peak);
    EXPECT_LT(distance(f.w, fixture::parameters), 1e-12);
    EXPECT_LT(distance(f.m, fixture::first_moments), 1e-12);
    EXPECT_LT(distance(f.v, fixture::second_moments), 1e-12);
    static_assert(fixture::updates == 50);
}

/// Whether rule O stays within the rounding of float of the run, with loss scaling.
template <class O>
bool agrees(const AdamW::Options& o) {
    const Graph graph = graph_of(tensors);
    Descent<O> run(o, graph, plain_layout(graph));
    run.start(start_50());
    follow_50(peak, [&](int step, float rate, std::int64_t updates) {
        run.update(gradients_50(step, 1024), rate, 1.0f / 1024, updates);  // exact
    });
    const Followed f = follow(o, peak);
    std::vector<Rounded> state = f.m;
    state.insert(state.end(), f.v.begin(), f.v.end());
    return outside(run.parameters(), f.w) < 0 && outside(run.state(), state) < 0;
}
TEST(AdamW, FiftyUpdatesStayWithinTheRoundingOfFloat) {
    EXPECT_TRUE(agrees<AdamW>(as_fixture));
    EXPECT_TRUE(agrees<AdamW>({}));
    EXPECT_TRUE(agrees<AdamW>({.beta1 = 0, .beta2 = 0.5f, .epsilon = 0.5f, .weight_decay = 0}));
}
TEST(AdamW, TheBoundIsFarBelowOneUpdate) {
    // An update moves by about peak = 0.01; 50 of them are known to a hundredth of one.
    for (const Rounded& w : follow(as_fixture, peak).w) EXPECT_LT(w.error, peak / 100);
}

// ---- Mutants: rules that are nearly right ---------------------------------------------
enum class Fault {
    none,
    coupled_decay,       // weight decay through the moments: Adam with L2
    decay_without_rate,  // w - decay * w
    decay_of_every_role,
    correction_early,  // 1 - beta^(t - 1), 1 for the first
    correction_late,   // 1 - beta^(t + 1)
    no_correction,
    epsilon_inside,             // sqrt(v + epsilon)
    epsilon_before_correction,  // (sqrt(v) + epsilon) / sqrt(1 - beta2^t)
    unscale_ignored,
    square_of_the_moment,  // v from m, not from g
};
template <Fault fault>
struct Mutant {
    using Options = AdamW::Options;
    explicit Mutant(Options options) : o(options) {}
    static constexpr auto state_names = AdamW::state_names;
    void reserve(std::size_t, std::span<const ParameterSlice>, const Graph& g) { graph = g; }
    void update(const UpdateArgs& a) {
        const std::size_t n = a.parameters.size();
        const auto t = double(a.step) + (fault == Fault::correction_early  ? 0
                                         : fault == Fault::correction_late ? 2
                                                                           : 1);
        const auto correction = [&](float beta) {
            if (fault == Fault::no_correction || t == 0) return 1.0f;
            return static_cast<float>(1 - std::pow(double{beta}, t));
        };
        const float c1 = correction(o.beta1), c2 = correction(o.beta2);
        for (const ParameterSlice& s : a.slices) {
            const auto role = graph.parameters[std::size_t(s.parameter)].role;
            const bool decays =
                role == ParameterRole::weight || fault == Fault::decay_of_every_role;
            const float decay = decays ? o.weight_decay : 0.0f;
            for (std::size_t i = s.offset; i < s.offset + s.count; ++i) {
                float &w = a.parameters[i], &m = a.state[i], &v = a.state[n + i];
                float g = a.gradients[i] * (fault == Fault::unscale_ignored ? 1 : a.unscale);
                if (fault == Fault::coupled_decay) g += decay * w;
                m = o.beta1 * m + (1 - o.beta1) * g;
                const float x = fault == Fault::square_of_the_moment ? m : g;
                v = o.beta2 * v + (1 - o.beta2) * (x * x);
                float root = std::sqrt(v / c2) + o.epsilon;
                if (fault == Fault::epsilon_inside) root = std::sqrt(v / c2 + o.epsilon);
                if (fault == Fault::epsilon_before_correction)
                    root = (std::sqrt(v) + o.epsilon) / std::sqrt(c2);
                const float move = m / c1 / root;
                if (fault == Fault::coupled_decay) w -= a.rate * move;
                else if (fault == Fault::decay_without_rate) w -= a.rate * move + decay * w;
                else w -= a.rate * (move + decay * w);
            }
        }
    }
    Options o;
    Graph graph{};
};
static_assert(Optimizer<Mutant<Fault::none>>);

template <Fault... faults>
std::vector<int> that_agree() {
    std::vector<int> survivors;
    ((agrees<Mutant<faults>>(as_fixture) ? survivors.push_back(int(faults)) : void()), ...);
    return survivors;
}
TEST(AdamW, MutantsAreRejected) {
    EXPECT_TRUE(agrees<Mutant<Fault::none>>(as_fixture)) << "the table is right but for its fault";
    EXPECT_EQ(
        (that_agree<Fault::coupled_decay, Fault::decay_without_rate, Fault::decay_of_every_role,
                    Fault::correction_early, Fault::correction_late, Fault::no_correction,
                    Fault::epsilon_inside, Fault::epsilon_before_correction, Fault::unscale_ignored,
                    Fault::square_of_the_moment>()),
        std::vector<int>{});
}

// ---- Properties -----------------------------------------------------------------------
RC_GTEST_PROP(AdamW, EqualsTheFormulaForAnyCount, ()) {
    const auto count = *rc::gen::inRange<std::int64_t>(1, 3'000);
    const Graph graph = graph_of({{ParameterRole::weight, count}});
    const AdamW::Options o{.weight_decay = 0.25f};
    Descent<AdamW> run(o, graph, plain_layout(graph));
    Descent<Mutant<Fault::none>> serial(o, graph, plain_layout(graph));
    Floats w, g;
    const int salt = *rc::gen::inRange(0, 1'000);
    for (std::int64_t i = 0; i < count; ++i) w.push_back(number(i, salt));
    run.start(w);
    serial.start(w);
    for (int step = 0; step < 3; ++step) {
        g.clear();
        for (std::int64_t i = 0; i < count; ++i) g.push_back(number(i, salt + step + 1));
        run.update(g, 0.05f, 0.125f, step);
        serial.update(g, 0.05f, 0.125f, step);
    }
    RC_ASSERT(run.w == serial.w);
}

}  // namespace
