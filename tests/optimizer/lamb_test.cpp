#include <gx/optimizer/lamb.hpp>  // first, so the header is seen to stand alone

#include <cmath>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <gx/optimizer/adamw.hpp>       // AdamW
#include <gx/reference/optimizers.hpp>  // lamb_step
#include <optimizer/lamb_fixture.hpp>   // what NumPy and timm gave
#include <optimizer/run_50.hpp>         // the run that both follow

namespace {

using namespace gx;
using namespace testing_support;
using reference::AdamWElement;
using reference::Rounded;
namespace fixture = gx::testing::lamb;

// ---- What the type promises -----------------------------------------------------------
static_assert(AddsNorms<Lamb> && !Elementwise<Lamb> && !KeepsScalars<Lamb>);
static_assert(Lamb::check({}).empty());
static_assert(!Lamb::check({.epsilon = 0}).empty() && !Lamb::check({.beta1 = 1}).empty() &&
              !Lamb::check({.beta2 = 1}).empty() && !Lamb::check({.weight_decay = -1}).empty() &&
              !Lamb::check({.max_ratio = -1}).empty());
static_assert(Lamb::update_cost == UpdateCost{44, 2},
              "norms read w, g, m, v; then as AdamW, 28 bytes");

// ---- Cases worked by hand -------------------------------------------------------------
const Graph one_weight = graph_of({{ParameterRole::weight, 2}});
const Lamb::Options by_hand{.beta1 = 0, .beta2 = 0, .epsilon = 0.5f, .weight_decay = 0};

TEST(Lamb, ScalesTheRateByTheRatioOfNorms) {
    Descent<Lamb> run(by_hand, one_weight, plain_layout(one_weight));
    run.start({3, 4});                  // norm 5
    run.update({0, 1}, 0.5f, 0.5f, 0);  // g = 0.5: u = 0.5 / (0.5 + 0.5), of norm 0.5; ratio 10
    EXPECT_EQ(run.w, (Floats{3, 4 - 0.5f * 10 * 0.5f}));
    EXPECT_EQ(run.state(), (Floats{0, 0.5f, 0, 0.25f}));
}
TEST(Lamb, TheRatioHasABoundOnRequest) {
    Lamb::Options o = by_hand;
    o.max_ratio = 2;
    Descent<Lamb> run(o, one_weight, plain_layout(one_weight));
    run.start({3, 4});
    run.update({0, 1}, 0.5f, 0.5f, 0);
    EXPECT_EQ(run.w, (Floats{3, 4 - 0.5f * 2 * 0.5f}));
}
TEST(Lamb, ZerosHaveThePlainRate) {
    Descent<Lamb> run(by_hand, one_weight, plain_layout(one_weight));
    run.start({0, 0});
    run.update({0.5f, -0.5f}, 0.5f, 1, 0);
    EXPECT_EQ(run.w, (Floats{-0.25f, 0.25f}));
    Descent<Lamb> still(by_hand, one_weight, plain_layout(one_weight));
    still.start({3, 4});
    still.update({0, 0}, 1, 1, 0);  // an update of 0: its ratio is 1, and not 5 / 0
    EXPECT_EQ(still.w, (Floats{3, 4}));
}
TEST(Lamb, ExcludesBiasesAndBatchNormUnlessAsked) {
    const Graph graph = graph_of({{ParameterRole::weight, 1},
                                  {ParameterRole::bias, 1},
                                  {ParameterRole::gamma, 1},
                                  {ParameterRole::beta, 1}});
    struct Case {
        bool batch_norm, bias;
        Floats moved;
    };
    // w = 4, u = 0.5 / (0.5 + 0.5) = 0.5, with decay 0.5 + 0.5 * 4: by w's norm, or plainly, 0.5.
    for (const Case& c :
         {Case{false, false, {4, 0.5f, 0.5f, 0.5f}}, Case{true, false, {4, 0.5f, 4, 4}},
          Case{false, true, {4, 4, 0.5f, 0.5f}}, Case{true, true, {4, 4, 4, 4}}}) {
        Lamb::Options o = by_hand;
        o.weight_decay = 0.5f;
        o.adapt_batch_norm = c.batch_norm;
        o.adapt_bias = c.bias;
        Descent<Lamb> run(o, graph, plain_layout(graph));
        run.start(Floats(4, 4.0f));
        run.update(Floats(4, 0.5f), 1, 1, 0);
        for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(4 - run.w[i], c.moved[i]) << i;
    }
}

// ---- Against the paper's formula, and the rounding of float ---------------------------
using Elements = std::vector<AdamWElement<Rounded>>;

Elements follow(const Lamb::Options& o, double peak) {
    Elements all;
    for (const float x : start_50()) all.push_back({x, 0, 0});
    follow_50(peak, [&](int step, float rate, std::int64_t updates) {
        std::vector<Rounded> g;
        for (const float x : gradients_50(step, 1)) g.push_back(x);
        std::size_t at = 0;
        for (const Tensor& t : tensors) {
            const auto count = static_cast<std::size_t>(t.count);
            reference::lamb_step<Rounded>(std::span(all).subspan(at, count),
                                          std::span(std::as_const(g)).subspan(at, count), rate,
                                          updates,
                                          {.moments = {.beta1 = o.beta1,
                                                       .beta2 = o.beta2,
                                                       .epsilon = o.epsilon,
                                                       .decay = o.weight_decay,
                                                       .corrected = o.correct_bias},
                                           .max_ratio = o.max_ratio,
                                           .adapts = t.role == ParameterRole::weight});
            at += count;
        }
    });
    return all;
}
std::vector<Rounded> each(const Elements& all, Rounded AdamWElement<Rounded>::* member) {
    std::vector<Rounded> out;
    for (const auto& x : all) out.push_back(x.*member);
    return out;
}
const Lamb::Options as_fixture{.epsilon = 1.0f / 16, .weight_decay = 0.1f};
Lamb::Options with(bool corrects, float max_ratio) {
    Lamb::Options o = as_fixture;
    o.correct_bias = corrects;
    o.max_ratio = max_ratio;
    return o;
}
constexpr double peak = 0.01;

TEST(Lamb, ReferenceIsThePapersInDoubleAndTimms) {
    // 50 updates of about 25 operations on numbers below 2^2, and norms of 96: the larger of both
    // sides' errors is below 2 * 50 * 121 * 2^2 * 2^-53 < 1e-11.
    constexpr auto w = &AdamWElement<Rounded>::w;
    const Elements all = follow(as_fixture, peak);
    EXPECT_LT(distance(each(all, w), fixture::parameters), 1e-11);
    EXPECT_LT(distance(each(all, &AdamWElement<Rounded>::m), fixture::first_moments), 1e-11);
    EXPECT_LT(distance(each(all, &AdamWElement<Rounded>::v), fixture::second_moments), 1e-11);
    EXPECT_LT(distance(each(follow(with(false, 0), peak), w), fixture::parameters_uncorrected),
              1e-11);
    const auto bounded = each(follow(with(true, 1), peak), w);
    EXPECT_LT(distance(bounded, fixture::parameters_max_ratio_1), 1e-11);
    EXPECT_GT(distance(bounded, fixture::parameters), 1e-3) << "the bound is at work";
    for (const double far : fixture::from_timm) EXPECT_LT(far, 1e-11);
    static_assert(fixture::updates == 50);
}

/// Whether rule O stays within the rounding of float of the run, with loss scaling, in a layout
/// with gaps that hold something.
template <class O>
bool agrees(const Lamb::Options& o) {
    const Graph graph = graph_of(tensors);
    Descent<O> run(o, graph, gapped_layout(graph), 2.5f);
    run.start(start_50());
    follow_50(peak, [&](int step, float rate, std::int64_t updates) {
        run.update(gradients_50(step, 1024), rate, 1.0f / 1024, updates);  // exact
    });
    const Elements all = follow(o, peak);
    std::vector<Rounded> state = each(all, &AdamWElement<Rounded>::m);
    for (const auto& x : all) state.push_back(x.v);
    return outside(run.parameters(), each(all, &AdamWElement<Rounded>::w)) < 0 &&
           outside(run.state(), state) < 0;
}
TEST(Lamb, FiftyUpdatesStayWithinTheRoundingOfFloat) {
    EXPECT_TRUE(agrees<Lamb>(as_fixture));
    EXPECT_TRUE(agrees<Lamb>(with(false, 0)));
    EXPECT_TRUE(agrees<Lamb>(with(true, 1)));
    EXPECT_TRUE(agrees<Lamb>({.beta1 = 0, .beta2 = 0.5f, .epsilon = 0.5f, .weight_decay = 0}));
}
TEST(Lamb, TheBoundIsFarBelowOneUpdate) {
    for (const auto& x : follow(as_fixture, peak)) EXPECT_LT(x.w.error, peak / 100);
}

// ---- Mutants: rules that are nearly right ---------------------------------------------
enum class Fault {
    none,
    decay_not_in_the_norm,  // ||u|| without decay w
    norm_over_gaps,
    norm_of_all,        // one ratio for the network
    norm_without_root,  // squares
    norm_of_gradient,   // as Lars has it
    moments_before,     // ||u|| of the moments before this step
    ratio_on_moments_only,
    ratio_for_all_roles,
    ratio_for_none,
    correction_late,
    unscale_ignored,
};
template <Fault fault>
struct Mutant {
    using Options = Lamb::Options;
    explicit Mutant(Options options) : o(options) {}
    static constexpr auto state_names = Lamb::state_names;
    void reserve(std::size_t, std::span<const ParameterSlice>, const Graph& g) { graph = g; }
    void update(const UpdateArgs& a) {
        const std::size_t n = a.parameters.size();
        const double t = double(a.step) + (fault == Fault::correction_late ? 2 : 1);
        const auto c1 = static_cast<float>(1 - std::pow(double{o.beta1}, t));
        const auto c2 = static_cast<float>(1 - std::pow(double{o.beta2}, t));
        double w_of_all = 0, u_of_all = 0;
        for (std::size_t pass = 0; pass < 2; ++pass)
            for (std::size_t k = 0; k < a.slices.size(); ++k) {
                const ParameterSlice& s = a.slices[k];
                const bool is_weight =
                    graph.parameters[std::size_t(s.parameter)].role == ParameterRole::weight;
                const bool adapts = fault == Fault::ratio_for_all_roles ? true
                                    : fault == Fault::ratio_for_none    ? false
                                                                        : is_weight;
                std::size_t to = s.offset + s.count;
                if (fault == Fault::norm_over_gaps)
                    to = k + 1 < a.slices.size() ? a.slices[k + 1].offset : n;
                const float decay = adapts ? o.weight_decay : 0.0f;
                double ww = 0, uu = 0;
                Floats moves(to - s.offset), m1(moves.size()), v1(moves.size());
                for (std::size_t i = s.offset; i < to; ++i) {
                    const float w = a.parameters[i], m = a.state[i], v = a.state[n + i];
                    const float g =
                        a.gradients[i] * (fault == Fault::unscale_ignored ? 1 : a.unscale);
                    const std::size_t j = i - s.offset;
                    m1[j] = o.beta1 * m + (1 - o.beta1) * g;
                    v1[j] = o.beta2 * v + (1 - o.beta2) * (g * g);
                    const float move = m1[j] / c1 / (std::sqrt(v1[j] / c2) + o.epsilon);
                    moves[j] = move + decay * w;
                    float normed = moves[j];
                    if (fault == Fault::decay_not_in_the_norm) normed = move;
                    if (fault == Fault::norm_of_gradient) normed = g;
                    if (fault == Fault::moments_before)
                        normed = m / c1 / (std::sqrt(v / c2) + o.epsilon) + decay * w;
                    ww += double{w} * double{w};
                    uu += double{normed} * double{normed};
                }
                if (pass == 0) {
                    if (adapts) w_of_all += ww, u_of_all += uu;
                    continue;
                }
                if (fault == Fault::norm_of_all) ww = w_of_all, uu = u_of_all;
                double ratio = ww == 0 || uu == 0                  ? 1
                               : fault == Fault::norm_without_root ? ww / uu
                                                                   : std::sqrt(ww / uu);
                const auto local = static_cast<float>(double{a.rate} * (adapts ? ratio : 1));
                for (std::size_t i = s.offset; i < s.offset + s.count; ++i) {
                    const std::size_t j = i - s.offset;
                    float& w = a.parameters[i];
                    if (fault == Fault::ratio_on_moments_only)
                        w = w - (local * (moves[j] - decay * w) + a.rate * decay * w);
                    else w = w - local * moves[j];
                    a.state[i] = m1[j];
                    a.state[n + i] = v1[j];
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
TEST(Lamb, MutantsAreRejected) {
    EXPECT_TRUE(agrees<Mutant<Fault::none>>(as_fixture)) << "the table is right but for its fault";
    EXPECT_EQ((that_agree<Fault::decay_not_in_the_norm, Fault::norm_over_gaps, Fault::norm_of_all,
                          Fault::norm_without_root, Fault::norm_of_gradient, Fault::moments_before,
                          Fault::ratio_on_moments_only, Fault::ratio_for_all_roles,
                          Fault::ratio_for_none, Fault::correction_late, Fault::unscale_ignored>()),
              std::vector<int>{});
}

// ---- Properties -----------------------------------------------------------------------
Floats numbers(std::size_t count, int stream) {
    Floats out;
    for (std::size_t i = 0; i < count; ++i) out.push_back(number(std::int64_t(i), stream));
    return out;
}
RC_GTEST_PROP(Lamb, LayoutAndPaddingChangeNoBit, ()) {
    const Graph graph =
        graph_of({{ParameterRole::weight, *rc::gen::inRange<std::int64_t>(1, 9'000)},
                  {ParameterRole::gamma, 5},
                  {ParameterRole::weight, 40}});
    Descent<Lamb> plain({}, graph, plain_layout(graph)), other({}, graph, any_layout(graph), 2.5f);
    const auto count = std::size_t(graph.parameter_elements());
    plain.start(numbers(count, 1));
    other.start(numbers(count, 1));
    for (int step = 0; step < 3; ++step) {
        plain.update(numbers(count, 2 + step), 0.1f, 0.125f, step);
        other.update(numbers(count, 2 + step), 0.1f, 0.125f, step);
    }
    RC_ASSERT(plain.parameters() == other.parameters());
    RC_ASSERT(plain.state() == other.state());
}
RC_GTEST_PROP(Lamb, PartsOnSeveralRanksMakeTheSameUpdate, ()) {
    expect_parts_make_the_whole<Lamb>({});
}

}  // namespace
