#include <gx/scheduler/concept.hpp>

#include <gx/scheduler/constant.hpp>
#include <gx/scheduler/cosine.hpp>
#include <gx/scheduler/linear_scaling.hpp>
#include <gx/scheduler/one_cycle.hpp>
#include <gx/scheduler/piecewise_linear.hpp>
#include <gx/scheduler/poly.hpp>
#include <gx/scheduler/step_decay.hpp>
#include <gx/scheduler/warmup.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <limits>
#include <numbers>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/pfr/core.hpp>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using namespace gx;

// ---- What the types promise ---------------------------------------------------------------
static_assert(Scheduler<Constant> && Scheduler<StepDecay> && Scheduler<Poly<2>>);
static_assert(Scheduler<Cosine> && Scheduler<OneCycle> && Scheduler<Warmup<Poly<2>>>);
static_assert(Scheduler<Warmup<LinearScaling<Cosine>>> && Scheduler<LinearScaling<StepDecay>>);
static_assert(Scheduler<Warmup<archetype::Scheduler>>, "generic code asks for no more");
static_assert(!Scheduler<int> && !Scheduler<Plan>, "a plan is not a policy");
struct RateIsDouble {
    struct Options {};
    explicit RateIsDouble(Options);
    double rate(Step) const;
};
static_assert(!Scheduler<RateIsDouble>);

// ---- Cases worked by hand -----------------------------------------------------------------
constexpr Warmup<Poly<2>> headline{
    {.climb_steps = 500, .next = {.peak_rate = 6.4f, .total_steps = 5'000}}};
static_assert(headline.rate(499) == 6.4f, "the top of the climb");
static_assert(headline.rate(500) == 6.4f, "continuous at the joint");
static_assert(headline.rate(249) == 3.2f, "half way up");
static_assert(headline.rate(500 + 2'500) == 1.6f, "a quarter, when half of the time is left");
static_assert(headline.rate(5'500) == 0.0f && headline.rate(1'000'000) == 0.0f);

static_assert(Constant{{.peak_rate = 0.3f}}.rate(12345) == 0.3f);

constexpr Poly<1> line{{.peak_rate = 8.0f, .total_steps = 4}};
static_assert(line.rate(0) == 8 && line.rate(1) == 6 && line.rate(2) == 4 && line.rate(3) == 2);
static_assert(line.rate(4) == 0);
static_assert(Poly<3>{{.peak_rate = 8.0f, .total_steps = 4}}.rate(2) == 1.0f);

constexpr StepDecay halves{{.peak_rate = 8.0f, .factor = 0.5f, .milestones = {10, 20, 25}}};
static_assert(halves.rate(9) == 8 && halves.rate(10) == 4 && halves.rate(19) == 4);
static_assert(halves.rate(20) == 2 && halves.rate(25) == 1 && halves.rate(1'000'000) == 1);

constexpr Cosine wave{{.peak_rate = 3.0f, .end_rate = 1.0f, .total_steps = 6}};
static_assert(wave.rate(0) == 3.0f && wave.rate(3) == 2.0f && wave.rate(6) == 1.0f);
static_assert(wave.rate(2) == 2.5f && wave.rate(4) == 1.5f, "cos(pi/3) is a half");

constexpr OneCycle cycle{{.peak_rate = 2.5f,
                          .total_steps = 10,
                          .climb_steps = 4,
                          .start_divisor = 25.0f,
                          .end_divisor = 10.0f}};
static_assert(cycle.rate(0) == 0.1f && cycle.rate(2) == 1.3f && cycle.rate(4) == 2.5f);
static_assert(cycle.rate(7) == 1.255f && cycle.rate(10) == 0.01f && cycle.rate(99) == 0.01f);

constexpr LinearScaling<Constant> scaled{
    {.reference_batch = 256, .global_batch = 8'192, .next = {.peak_rate = 0.1f}}};
static_assert(scaled.rate(0) == 3.2f, "Goyal et al.: 0.1 * 32");

// ---- Options that a plan completes --------------------------------------------------------
constexpr Plan plan{.total_steps = 1'000, .steps_per_epoch = 8, .ranks = 8, .global_batch = 1'024};

static_assert(complete_options<Warmup<Poly<2>>>({}, plan).climb_steps == 40, "five epochs");
static_assert(complete_options<Warmup<Poly<2>>>({}, plan).next.total_steps == 960, "the rest");
static_assert(complete_options<Warmup<Poly<2>>>({}, {.total_steps = 100, .steps_per_epoch = 50})
                      .climb_steps == 5,
              "at most a twentieth");
static_assert(complete_options<Warmup<Poly<2>>>({}, {.total_steps = 1, .steps_per_epoch = 1})
                  .climb_steps == 1);
static_assert(complete_options<Poly<2>>({.total_steps = 7}, plan).total_steps == 7, "by hand");
static_assert(complete_options<StepDecay>({}, {.total_steps = 90}).milestones ==
              StepDecay::Milestones{30, 60, 80});
static_assert(complete_options<OneCycle>({}, plan).climb_steps == 300);
static_assert(complete_options<LinearScaling<Constant>>({}, plan).global_batch == 1'024);
static_assert(Warmup<LinearScaling<Poly<1>>>{complete_options<Warmup<LinearScaling<Poly<1>>>>({},
                                                                                              plan)}
                      .rate(39) == 0.4f,
              "the default rate of 0.1 at 256, climbed to at 1,024");

// ---- Behind a climb -----------------------------------------------------------------------
// Goyal et al. 2017, section 5.1: a climb of 5 epochs, then a tenth at epochs 30, 60 and 80 of 90.
TEST(Warmup, OfStepDecayIsGoyals) {
    constexpr Step epoch = 157;  // 1,281,167 images by 8,192
    constexpr Plan run{
        .total_steps = 90 * epoch, .steps_per_epoch = epoch, .ranks = 256, .global_batch = 8'192};
    using Inside = Warmup<LinearScaling<StepDecay>>;
    using Outside = LinearScaling<Warmup<StepDecay>>;
    const Inside inside{complete_options<Inside>({.climb_steps = 5 * epoch}, run)};
    const Outside outside{complete_options<Outside>({.next = {.climb_steps = 5 * epoch}}, run)};
    for (Step t = 0; t < run.total_steps; ++t) {
        const int passed = (t >= 30 * epoch) + (t >= 60 * epoch) + (t >= 80 * epoch);
        const double share = std::min(1.0, double(t + 1) / (5 * epoch));
        const double rate = 3.2 * share * std::pow(0.1, passed);
        ASSERT_NEAR(inside.rate(t), rate, 1e-6 * rate) << "epoch " << double(t) / epoch;
        ASSERT_NEAR(outside.rate(t), rate, 1e-6 * rate) << "epoch " << double(t) / epoch;
    }
}
TEST(Warmup, CountsGivenMilestonesFromTheBeginOfTheRun) {
    const Warmup<StepDecay> schedule{
        {.climb_steps = 4, .next = {.peak_rate = 1, .factor = 0.5f, .milestones = {6, 9}}}};
    std::vector<float> rates;
    for (Step t = 0; t < 10; ++t) rates.push_back(schedule.rate(t));
    EXPECT_EQ(rates, (std::vector<float>{0.25f, 0.5f, 0.75f, 1, 1, 1, 0.5f, 0.5f, 0.5f, 0.25f}));
}
// A milestone within the climb, as of Detectron2's WarmupMultiStepLR: from there on it is in force.
TEST(Warmup, ClimbsTowardsThePeakUpToAMilestone) {
    const Warmup<StepDecay> schedule{
        {.climb_steps = 4, .next = {.peak_rate = 1, .factor = 0.5f, .milestones = {3}}}};
    EXPECT_EQ(schedule.rate(0), 0.25f);
    EXPECT_EQ(schedule.rate(2), 0.75f);
    EXPECT_EQ(schedule.rate(3), 0.5f);
    EXPECT_EQ(schedule.rate(4), 0.5f);
}
// As MXNet's PolyScheduler and CosineScheduler: the fall takes what the climb leaves.
TEST(Warmup, GivesASchedulerOfALengthTheRest) {
    const Warmup<Poly<2>> poly{complete_options<Warmup<Poly<2>>>({.climb_steps = 100}, plan)};
    EXPECT_EQ(poly.rate(100), 0.1f);
    EXPECT_EQ(poly.rate(550), 0.025f) << "half of the 900 steps behind the climb";
    const Warmup<Cosine> cosine{complete_options<Warmup<Cosine>>({.climb_steps = 100}, plan)};
    EXPECT_EQ(cosine.rate(100), 0.1f);
    EXPECT_EQ(cosine.rate(550), 0.05f);
}

// ---- Bad options, all told at once ----------------------------------------------------------
static_assert(check_options<Poly<2>>({.peak_rate = 0.1f, .total_steps = 1}).empty());
static_assert(check_options<archetype::Scheduler>({}).empty());

TEST(Schedulers, TellEveryBadOptionAtOnce) {
    std::vector<std::string> told;
    for (const auto sentence : check_options<Warmup<LinearScaling<Poly<2>>>>(
             {.climb_steps = 0, .next = {.reference_batch = 0, .next = {.peak_rate = -1}}}))
        told.emplace_back(sentence);
    ASSERT_EQ(told.size(), 5u);
    EXPECT_EQ(told[0], "Warmup: climb_steps must be above 0; without a climb, use Next on its own");
    const auto of_lines = [](std::vector<PiecewiseLinear::Point> points) {
        const Findings found = check_options<Warmup<PiecewiseLinear>>(
            {.climb_steps = 5, .next = {.points = std::move(points), .steps_per_epoch = 10}});
        return std::string(found.first());
    };
    EXPECT_EQ(
        of_lines({{0, 0}, {1, 0}, {5, 1}}),
        "Warmup: the schedule that follows begins at rate 0, so that the climb does not rise; "
        "let it begin at its peak, or leave Warmup out");
    EXPECT_EQ(of_lines({{0, 0.1f}, {5, 1}}), "");
    EXPECT_TRUE(check_options<Warmup<PiecewiseLinear>>(
                    {.climb_steps = 1, .next = {.points = {{0, 0}, {1, 1}}, .steps_per_epoch = 10}})
                    .empty())
        << "a climb of one step, as of short runs, before a line that rises";
    EXPECT_EQ(told[1], "LinearScaling: reference_batch must be above 0");
    EXPECT_EQ(told[2], "LinearScaling: global_batch must be above 0");
    EXPECT_EQ(told[3], "Poly: peak_rate must be above 0 and finite");
    EXPECT_EQ(told[4], "Poly: total_steps must be above 0, where the rate ends");
}
TEST(Schedulers, TellBadOptionsOfEachPolicy) {
    const float nan = std::nanf("");
    EXPECT_FALSE(check_options<Constant>({.peak_rate = nan}).empty());
    EXPECT_FALSE(check_options<StepDecay>({.milestones = {20, 10}}).empty());
    EXPECT_FALSE(check_options<StepDecay>({.milestones = {10, 10}}).empty());
    EXPECT_FALSE(check_options<StepDecay>({.milestones = {10, 0, 20}}).empty());
    EXPECT_FALSE(check_options<StepDecay>({.milestones = {-5}}).empty());
    EXPECT_FALSE(check_options<StepDecay>({.factor = 0}).empty());
    EXPECT_TRUE(check_options<StepDecay>({.milestones = {1, 2, 3, 4, 5, 6, 7, 8}}).empty());
    EXPECT_FALSE(check_options<Cosine>({.end_rate = 0.2f, .total_steps = 10}).empty());
    EXPECT_FALSE(check_options<OneCycle>({.total_steps = 10, .climb_steps = 10}).empty());
    EXPECT_FALSE(
        check_options<OneCycle>({.total_steps = 10, .climb_steps = 3, .start_divisor = 0.5f})
            .empty());
}
template <class S>
void expect_finite_rates(typename S::Options o) {
    ASSERT_TRUE(check_options<S>(o).empty());
    o.peak_rate = std::numeric_limits<float>::infinity();
    EXPECT_TRUE(std::string(check_options<S>(o).first()).ends_with("above 0 and finite"));
    o.peak_rate = std::nanf("");
    EXPECT_FALSE(check_options<S>(o).empty());
}
TEST(Schedulers, TakeFiniteRatesOnly) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    expect_finite_rates<Constant>({});
    expect_finite_rates<StepDecay>({});
    expect_finite_rates<Poly<2>>({.total_steps = 10});
    expect_finite_rates<Cosine>({.total_steps = 10});
    expect_finite_rates<OneCycle>({.total_steps = 10, .climb_steps = 3});
    EXPECT_FALSE(check_options<StepDecay>({.factor = infinity}).empty());
    EXPECT_FALSE(
        check_options<OneCycle>({.total_steps = 10, .climb_steps = 3, .end_divisor = infinity})
            .empty());
    using Scaled = LinearScaling<Constant>;
    const Findings found = check_options<Scaled>(
        {.reference_batch = 1, .global_batch = 8, .next = {.peak_rate = 1e38f}});
    ASSERT_FALSE(found.empty());
    constexpr const char* sentence =
        "LinearScaling: the largest rate * global_batch / reference_batch must be finite";
    EXPECT_EQ(std::string(found.first()), sentence);
    const Findings in_warmup = check_options<LinearScaling<Warmup<Constant>>>(
        {.reference_batch = 1,
         .global_batch = 8,
         .next = {.climb_steps = 2, .next = {.peak_rate = 1e38f}}});
    ASSERT_FALSE(in_warmup.empty());
    EXPECT_EQ(std::string(in_warmup.first()), sentence);
    const Findings of_points = check_options<LinearScaling<PiecewiseLinear>>(
        {.reference_batch = 1,
         .global_batch = 8,
         .next = {.points = {{0, 1e-3f}, {1, 1e38f}}, .steps_per_epoch = 2}});
    ASSERT_FALSE(of_points.empty());
    EXPECT_EQ(std::string(of_points.first()), sentence);
}
TEST(SchedulersDeathTest, StopOnABrokenContract) {
    EXPECT_DEATH((Warmup<Constant>{{.climb_steps = 0}}), "a warmup of 0 steps");
    EXPECT_DEATH((Poly<2>{{.peak_rate = 1}}), "total_steps must be above 0");
    EXPECT_DEATH((StepDecay{{.milestones = {2, 1}}}), "milestones must rise");
    EXPECT_DEATH((LinearScaling<Constant>{{}}), "a batch has at least one image");
}

// ---- Properties -----------------------------------------------------------------------------
template <class S>
class EverySchedule : public testing::Test {};
using Policies =
    testing::Types<Constant, StepDecay, Poly<1>, Poly<2>, Cosine, OneCycle, Warmup<Constant>,
                   Warmup<StepDecay>, Warmup<Poly<2>>, Warmup<Cosine>,
                   Warmup<LinearScaling<Poly<2>>>, LinearScaling<Warmup<OneCycle>>>;
TYPED_TEST_SUITE(EverySchedule, Policies);

// A trainer gives nothing but the plan: the options are then good for any run length.
TYPED_TEST(EverySchedule, IsGoodWithThePlanAlone) {
    for (const Step total : {2, 3, 4, 7, 10, 39, 100, 1'000, 12'345})
        for (const Step per_epoch : {1, 3, 1'000}) {
            const Plan run{total, std::min(per_epoch, total), 8, 256};
            const auto options = complete_options<TypeParam>({}, run);
            if (total < 4) {  // OneCycle after a warmup needs a step of each leg
                if (!check_options<TypeParam>(options).empty()) continue;
            } else {
                ASSERT_TRUE(check_options<TypeParam>(options).empty())
                    << total << ": " << check_options<TypeParam>(options).first();
            }
            const TypeParam schedule{options};
            float highest = 0;
            for (Step t = 0; t < total; ++t) {
                const float rate = schedule.rate(t);
                ASSERT_TRUE(std::isfinite(rate) && rate >= 0) << t << " of " << total;
                ASSERT_LE(rate, 0.1f) << t << " of " << total;
                highest = std::max(highest, rate);
            }
            EXPECT_GE(highest, total < 20 ? 0.004f : 0.095f) << total;
        }
}

template <class Options>
void each_number(Options& options, const auto& f) {
    boost::pfr::for_each_field(options, [&](auto& field) {
        using Field = std::remove_cvref_t<decltype(field)>;
        if constexpr (std::is_arithmetic_v<Field>) f(field);
        else if constexpr (std::same_as<Field, StepDecay::Milestones>)
            std::ranges::for_each(field, f);
        else each_number(field, f);
    });
}
template <class Options>
std::vector<double> numbers_of(const Options& options) {
    std::vector<double> numbers;
    each_number(options, [&](auto number) { numbers.push_back(double(number)); });
    return numbers;
}
TYPED_TEST(EverySchedule, KeepsWhatIsGiven) {
    typename TypeParam::Options given{};
    int count = 0;
    each_number(given, [&]<class Number>(Number& number) { number = Number(++count); });
    ASSERT_GT(count, 0);
    EXPECT_EQ(numbers_of(complete_options<TypeParam>(given, plan)), numbers_of(given));
}

RC_GTEST_PROP(Warmup, ClimbsEvenlyAndJoinsWithoutAJump, ()) {
    const Step climb = *rc::gen::inRange<Step>(1, 10'000);
    const Step rest = *rc::gen::inRange<Step>(1, 10'000);
    const float peak = static_cast<float>(*rc::gen::inRange(1, 1'000)) / 64;
    const Warmup<Poly<2>> schedule{{.climb_steps = climb, .next = {peak, rest}}};
    RC_ASSERT(schedule.rate(climb - 1) == peak);
    RC_ASSERT(schedule.rate(climb) == peak);
    const Step t = *rc::gen::inRange<Step>(0, climb);
    RC_ASSERT(std::abs(schedule.rate(t) - peak * double(t + 1) / double(climb)) <= 1e-6 * peak);
    const Step later = *rc::gen::inRange<Step>(0, rest);
    RC_ASSERT(schedule.rate(climb + later) == (Poly<2>{{peak, rest}}.rate(later)));
}

RC_GTEST_PROP(Cosine, EqualsTheLibrarysCosine, ()) {
    const Step total = *rc::gen::inRange<Step>(1, 1'000'000);
    const Step t = *rc::gen::inRange<Step>(0, total);
    const double wave_t = (1 + std::cos(std::numbers::pi * double(t) / double(total))) / 2;
    RC_ASSERT(std::abs((Cosine{{1.0f, 0.0f, total}}.rate(t)) - wave_t) <= 0x1p-24);
}

TEST(Cosine, SeriesIsAsCloseAsItSays) {
    for (int i = 0; i <= 1'000; ++i)
        EXPECT_NEAR(detail::scheduler::cos_pi(i / 1000.0), std::cos(std::numbers::pi * i / 1000.0),
                    1e-15);
}

RC_GTEST_PROP(LinearScaling, CommutesWithWarmup, ()) {
    const int batch = *rc::gen::inRange(1, 65'536);
    const Step t = *rc::gen::inRange<Step>(0, 200);
    const Warmup<LinearScaling<Poly<2>>> inside{{50, {256, batch, {0.1f, 150}}}};
    const LinearScaling<Warmup<Poly<2>>> outside{{256, batch, {50, {0.1f, 150}}}};
    RC_ASSERT(std::abs(inside.rate(t) - outside.rate(t)) <= 1e-6f * inside.rate(49));
}

}  // namespace
