#include <gx/optimizer/lars.hpp>  // first, so the header is seen to stand alone

#include <cmath>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/reference/optimizers.hpp>  // lars_step
#include <optimizer/lars_fixture.hpp>   // what NumPy and timm gave
#include <optimizer/run_50.hpp>         // the run that both follow

namespace {

using namespace gx;
using namespace testing_support;
using reference::Rounded;
namespace fixture = gx::testing::lars;

// ---- What the type promises -----------------------------------------------------------
static_assert(Optimizer<Lars> && !KeepsScalars<Lars>);
static_assert(Lars::check({}).empty());
static_assert(Lars::update_cost == UpdateCost{28, 1}, "norms read w and g; then as Sgd, 20 bytes");

// ---- Cases worked by hand -------------------------------------------------------------
const Graph one_weight = graph_of({{ParameterRole::weight, 2}});

TEST(Lars, ScalesTheRateByTheRatioOfNorms) {
    Descent<Lars> run({.momentum = 0.5f, .weight_decay = 0, .trust = 0.5f}, one_weight,
                      plain_layout(one_weight));
    run.start({3, 4});                            // norm 5
    run.update({0, 20}, 0.25f, 0.5f, 0);          // of norm 20 * 0.5: ratio 0.5 * 5 / 10 = 0.25
    EXPECT_EQ(run.state(), (Floats{0, 0.625f}));  // 0.25 * 0.25 * 10
    EXPECT_EQ(run.w, (Floats{3, 3.375f}));
    run.update({0, 0}, 1, 1, 1);  // the rate is inside of v: it does not change what is on its way
    EXPECT_EQ(run.w, (Floats{3, 3.0625f}));
}
TEST(Lars, CountsTheDecayInTheDenominator) {
    Descent<Lars> run({.momentum = 0, .weight_decay = 0.5f, .trust = 0.5f, .epsilon = 0.5f},
                      one_weight, plain_layout(one_weight));
    run.start({3, 4});
    run.update({5, 0}, 1, 1, 0);  // 0.5 * 5 / (5 + 0.5 * 5 + 0.5) = 5/16, of (5 + 1.5, 2)
    EXPECT_EQ(run.w, (Floats{3 - 6.5f * 0.3125f, 4 - 2 * 0.3125f}));
}
TEST(Lars, ATensorOfZerosMovesByThePlainRate) {
    Descent<Lars> run({.momentum = 0}, one_weight, plain_layout(one_weight));
    run.start({0, 0});
    run.update({1, -2}, 0.5f, 1, 0);
    EXPECT_EQ(run.w, (Floats{-0.5f, 1}));
}
TEST(Lars, AZeroGradientLeavesTheDecay) {
    Descent<Lars> still({.weight_decay = 0}, one_weight, plain_layout(one_weight));
    still.start({3, 4});
    still.update({0, 0}, 1, 1, 0);  // 0 / 0: ratio 1, of a gradient of 0
    EXPECT_EQ(still.w, (Floats{3, 4}));
    Descent<Lars> decays({.weight_decay = 0.5f, .trust = 0.25f}, one_weight,
                         plain_layout(one_weight));
    decays.start({3, 4});
    decays.update({0, 0}, 1, 1, 0);  // 0.25 * 5 / (0.5 * 5) = 0.5, of 0.5 * w
    EXPECT_EQ(decays.w, (Floats{2.25f, 3}));
}
TEST(Lars, ExcludesBiasesAndBatchNormUnlessAsked) {
    const std::vector<Tensor> four{{ParameterRole::weight, 1},
                                   {ParameterRole::bias, 1},
                                   {ParameterRole::gamma, 1},
                                   {ParameterRole::beta, 1}};
    struct Case {
        bool batch_norm, bias;
        Floats moved;
    };
    // w = 4, g = 2: by ratio 0.25 * 4 / (2 + 0.5 * 4) = 0.25 of 2 + 0.5 * 4; plainly, by 2.
    for (const Case& c : {Case{false, false, {1, 2, 2, 2}}, Case{true, false, {1, 2, 1, 1}},
                          Case{false, true, {1, 1, 2, 2}}, Case{true, true, {1, 1, 1, 1}}}) {
        const Graph graph = graph_of(four);
        Descent<Lars> run({.momentum = 0,
                           .weight_decay = 0.5f,
                           .trust = 0.25f,
                           .adapt_batch_norm = c.batch_norm,
                           .adapt_bias = c.bias},
                          graph, plain_layout(graph));
        run.start(Floats(4, 4.0f));
        run.update(Floats(4, 2.0f), 1, 1, 0);
        for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(4 - run.w[i], c.moved[i]) << i;
    }
}

// ---- Against the paper's formula, and the rounding of float ---------------------------

// The run in double, with the bound of what float arithmetic makes of it: reference/rounded.hpp
// carries the error of each operation to the next. Norms are exact sums of floats, so the norm of a
// parameter is off by at most the norm of its elements' errors.
struct Followed {
    std::vector<Rounded> w{}, v{};
};
Followed follow(const Lars::Options& o, double peak) {
    Followed f;
    for (const float x : start_50()) f.w.push_back(x), f.v.push_back(0);
    follow_50(peak, [&](int step, float rate, std::int64_t) {
        std::vector<Rounded> g;
        for (const float x : gradients_50(step, 1)) g.push_back(x);
        std::size_t at = 0;
        for (const Tensor& t : tensors) {
            const auto count = static_cast<std::size_t>(t.count);
            reference::lars_step<Rounded>(
                std::span(f.w).subspan(at, count), std::span(f.v).subspan(at, count),
                std::span(g).subspan(at, count), rate,
                {o.momentum, o.weight_decay, o.trust, o.epsilon, t.role == ParameterRole::weight});
            at += count;
        }
    });
    return f;
}
const Lars::Options as_fixture{.weight_decay = 5e-3f, .trust = 0.02f};
constexpr double peak = 0.5;

TEST(Lars, ReferenceIsThePapersInDoubleAndTimms) {
    // 50 updates of about 10 operations on numbers below 2^5, and norms of 96: the larger of both
    // sides' errors is below 2 * 50 * 106 * 2^5 * 2^-53 < 1e-10.
    const Followed f = follow(as_fixture, peak);
    EXPECT_LT(distance(f.w, fixture::parameters), 1e-10);
    EXPECT_LT(distance(f.v, fixture::velocities), 1e-10);
    for (const double far : fixture::from_timm) EXPECT_LT(far, 1e-10);
    EXPECT_GT(fixture::from_timm_outside, 1e-3) << "where the rate stands, matters";
    static_assert(fixture::updates == 50);
}

/// Whether rule O stays within the rounding of float of the run, with loss scaling, in a layout
/// with gaps that hold something.
template <class O>
bool agrees(const Lars::Options& o) {
    const Graph graph = graph_of(tensors);
    Descent<O> run(o, graph, gapped_layout(graph), 2.5f);
    run.start(start_50());
    follow_50(peak, [&](int step, float rate, std::int64_t updates) {
        run.update(gradients_50(step, 1024), rate, 1.0f / 1024, updates);  // exact
    });
    const Followed f = follow(o, peak);
    return outside(run.parameters(), f.w) < 0 && outside(run.state(), f.v) < 0;
}
TEST(Lars, FiftyUpdatesStayWithinTheRoundingOfFloat) {
    EXPECT_TRUE(agrees<Lars>(as_fixture));
    EXPECT_TRUE(agrees<Lars>({}));
    EXPECT_TRUE(
        agrees<Lars>({.momentum = 0, .weight_decay = 0.25f, .trust = 0.5f, .epsilon = 0.5f}));
}
TEST(Lars, TheBoundIsFarBelowOneUpdate) {
    const Followed f = follow(as_fixture, peak);
    std::size_t at = 0;
    for (const Tensor& t : tensors)  // an update moves a weight by about 0.5 * 0.02 * 1 = 0.01
        for (std::int64_t i = 0; i < t.count; ++i, ++at)
            EXPECT_LT(f.w[at].error, t.role == ParameterRole::weight ? 1e-4 : 1e-3) << at;
}

// ---- Mutants: rules that are nearly right ---------------------------------------------
enum class Fault {
    none,
    no_decay_in_the_denominator,
    norm_over_gaps,     // up to the next slice
    norm_of_all,        // one ratio for the network
    norm_without_root,  // squares
    scaled_norm,        // of the gradient before unscale
    norm_of_decayed,    // ||g + decay w|| in place of ||g|| + decay ||w||
    rate_outside,       // w - rate * v, as Sgd has it
    decay_outside,      // not scaled by the ratio
    ratio_for_all_roles,
    ratio_for_none,
    epsilon_in_the_root,  // sqrt(||g||^2 + epsilon)
};
template <Fault fault>
struct Mutant {
    using Options = Lars::Options;
    explicit Mutant(Options options) : o(options) {}
    static constexpr auto state_names = Lars::state_names;
    void reserve(std::size_t, std::span<const ParameterSlice>, const Graph& g) { graph = g; }
    void update(const UpdateArgs& a) {
        for (std::size_t k = 0; k < a.slices.size(); ++k) {
            const ParameterSlice& s = a.slices[k];
            const bool is_weight =
                graph.parameters[std::size_t(s.parameter)].role == ParameterRole::weight;
            const bool adapts = fault == Fault::ratio_for_none        ? false
                                : fault == Fault::ratio_for_all_roles ? true
                                                                      : is_weight;
            std::size_t from = s.offset, to = s.offset + s.count;
            if (fault == Fault::norm_over_gaps)
                to = k + 1 < a.slices.size() ? a.slices[k + 1].offset : a.parameters.size();
            double ww = 0, gg = 0, both = 0;
            const auto add = [&](std::size_t begin, std::size_t end) {
                for (std::size_t i = begin; i < end; ++i) {
                    const double w = a.parameters[i], g = a.gradients[i];
                    ww += w * w;
                    gg += g * g;
                    const double sum = g * double{a.unscale} + double{o.weight_decay} * w;
                    both += sum * sum;
                }
            };
            if (fault == Fault::norm_of_all)
                for (const ParameterSlice& each : a.slices)
                    add(each.offset, each.offset + each.count);
            else add(from, to);
            double rate = double{a.rate};
            if (adapts) {
                const double w = fault == Fault::norm_without_root ? ww : std::sqrt(ww);
                double g = fault == Fault::norm_without_root ? gg : std::sqrt(gg);
                if (fault != Fault::scaled_norm) g *= double{a.unscale};
                double below = g + double{o.weight_decay} * w + double{o.epsilon};
                if (fault == Fault::no_decay_in_the_denominator) below = g + double{o.epsilon};
                if (fault == Fault::norm_of_decayed) below = std::sqrt(both) + double{o.epsilon};
                if (fault == Fault::epsilon_in_the_root)
                    below = std::sqrt(g * g + double{o.epsilon}) + double{o.weight_decay} * w;
                rate *= w == 0 || below == 0 ? 1 : double{o.trust} * w / below;
            }
            const auto local =
                static_cast<float>(fault == Fault::rate_outside ? rate / double{a.rate} : rate);
            const float decay = adapts ? o.weight_decay : 0.0f;
            for (std::size_t i = s.offset; i < s.offset + s.count; ++i) {
                float &w = a.parameters[i], &v = a.state[i];
                const float g = a.gradients[i] * a.unscale;
                if (fault == Fault::decay_outside)
                    v = o.momentum * v + (local * g + a.rate * decay * w);
                else v = o.momentum * v + local * (g + decay * w);
                w = fault == Fault::rate_outside ? w - a.rate * v : w - v;
            }
        }
    }
    Options o;
    Graph graph{};
};
static_assert(Optimizer<Mutant<Fault::none>>);

const Lars::Options with_epsilon{.weight_decay = 5e-3f, .trust = 0.02f, .epsilon = 0.5f};

template <Fault... faults>
std::vector<int> that_agree() {
    std::vector<int> survivors;
    ((agrees<Mutant<faults>>(with_epsilon) ? survivors.push_back(int(faults)) : void()), ...);
    return survivors;
}
TEST(Lars, MutantsAreRejected) {
    EXPECT_TRUE(agrees<Mutant<Fault::none>>(with_epsilon))
        << "the table is right but for its fault";
    EXPECT_EQ(
        (that_agree<Fault::no_decay_in_the_denominator, Fault::norm_over_gaps, Fault::norm_of_all,
                    Fault::norm_without_root, Fault::scaled_norm, Fault::norm_of_decayed,
                    Fault::rate_outside, Fault::decay_outside, Fault::ratio_for_all_roles,
                    Fault::ratio_for_none, Fault::epsilon_in_the_root>()),
        std::vector<int>{});
}

// ---- Properties -----------------------------------------------------------------------

RC_GTEST_PROP(Lars, PartsOnSeveralRanksMakeTheSameUpdate, ()) {
    expect_parts_make_the_whole<Lars>({});
}

// Without decay and epsilon the ratio times the gradient does not depend on the gradient's scale. A
// power of two changes no bit. Another factor c rounds: c * g by 2^-24 of itself, so its norm by
// 2^-24 and the quotient of both by 2 * 2^-24; rate * ratio and its product with g are rounded on
// both sides: 2 * 2 * 2^-24. In all 6 * 2^-24 of the update, to first order.
RC_GTEST_PROP(Lars, TheScaleOfTheGradientDoesNotMatter, ()) {
    const std::int64_t count = *rc::gen::inRange(1, 400);
    const Graph graph = graph_of({{ParameterRole::weight, count}});
    Floats w, g;
    const int salt = *rc::gen::inRange(0, 1'000);
    for (std::int64_t i = 0; i < count; ++i) {
        w.push_back(number(i, salt));
        g.push_back(number(i, salt + 3) * 1.1f);
    }
    const auto moved = [&](float c) {
        Descent<Lars> run({.weight_decay = 0, .epsilon = 0}, graph, plain_layout(graph));
        run.start(w);
        Floats scaled = g;
        for (float& x : scaled) x *= c;
        run.update(scaled, 2, 1, 0);
        return run.state();  // v, which is subtracted from w
    };
    const Floats v = moved(1);
    RC_ASSERT(moved(std::ldexp(1.0f, *rc::gen::inRange(-40, 40))) == v);
    const float c = static_cast<float>(*rc::gen::inRange(1, 1 << 20)) / 1'000;
    const Floats scaled = moved(c);
    for (std::size_t i = 0; i < v.size(); ++i)
        RC_ASSERT(std::abs(double{scaled[i]} - double{v[i]}) <=
                  6 * 0x1p-24 * (1 + 0x1p-20) * std::abs(double{v[i]}));
}

// ---- Bad input ------------------------------------------------------------------------
TEST(LarsDeathTest, StopsOnABrokenContract) {
    const Layout layout = plain_layout(one_weight);
    Descent<Lars> run({}, one_weight, layout);
    const Floats g(2);
    const UpdateArgs args{
        .parameters = run.w, .gradients = g, .state = run.vectors, .slices = layout.slices};
    std::vector<Lars::Norms> many(2);
    EXPECT_DEATH(run.optimizer.add_norms(args, many), "norms of every parameter");
    EXPECT_DEATH(run.optimizer.update_with(args, many), "norms of every parameter");
}

}  // namespace
