#include <gx/sim/compute/jitter.hpp>  // first, so the header is seen to stand alone

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::Nanoseconds;
using gx::Rng;
using gx::sim::Factor;
using gx::sim::GpuVariation;
using gx::sim::Jitter;

// ---- What the types promise ---------------------------------------------------------
static_assert(Nanoseconds(1'000'000'007) * Factor{} == Nanoseconds(1'000'000'007));
static_assert(Nanoseconds(3) * Factor::of(0.5) == Nanoseconds(2), "to the nearest, halves up");
static_assert(Nanoseconds(1'000'000'000'000) * Factor::of(1.25) == Nanoseconds(1'250'000'000'000));
static_assert(Jitter{}.draw(Rng(1, "any"), 7) == Factor{});
static_assert(GpuVariation{}.factor(1, 2, 3) == Factor{});

std::vector<double> draws(Jitter jitter, std::uint64_t seed, std::size_t count = 20'000) {
    const Rng stream(seed, "draws");
    std::vector<double> all(count);
    for (std::size_t i = 0; i < count; ++i) all[i] = jitter.draw(stream, i).value();
    std::sort(all.begin(), all.end());
    return all;
}
double mean(const std::vector<double>& v) {
    double sum = 0;
    for (const double x : v) sum += x;
    return sum / static_cast<double>(v.size());
}

// ---- Against the distributions' own formulas ----------------------------------------
TEST(Jitter, UniformFillsItsRange) {
    const auto v = draws(Jitter::uniform(0.2), 1);
    EXPECT_GE(v.front(), 0.8);
    EXPECT_LE(v.back(), 1.2);
    EXPECT_NEAR(mean(v), 1, 4 * 0.2 / std::sqrt(3.0 * 20'000));
    EXPECT_NEAR(v[5'000], 0.9, 0.01);
}
TEST(Jitter, ExponentialHasItsMeanAndItsTail) {
    const auto v = draws(Jitter::exponential(0.1), 2);
    EXPECT_GE(v.front(), 1);
    EXPECT_NEAR(mean(v), 1.1, 4 * 0.1 / std::sqrt(20'000.0));
    EXPECT_NEAR(v[10'000], 1 + 0.1 * std::log(2.0), 0.005) << "median";
    EXPECT_NEAR(v[19'800], 1 + 0.1 * std::log(100.0), 0.04) << "99 %";
}
TEST(Jitter, LognormalHasItsQuantiles) {
    const auto v = draws(Jitter::lognormal(0.3), 3);
    EXPECT_NEAR(v[10'000], 1, 0.02);
    EXPECT_NEAR(v[16'827], std::exp(0.3), 0.03) << "one deviation";
    EXPECT_NEAR(mean(v), std::exp(0.045), 0.02);
}
TEST(Jitter, StragglersAreAsRareAsTheirChance) {
    const auto v = draws(Jitter::straggler(0.01, 5), 4);
    const auto late = std::count(v.begin(), v.end(), 5.0);
    EXPECT_NEAR(static_cast<double>(late), 200, 4 * std::sqrt(198.0));
    EXPECT_EQ(std::count(v.begin(), v.end(), 1.0) + late, 20'000);
}
TEST(Jitter, ExpIsTheExponential) {
    for (double x = -6; x <= 6; x += 0.125)
        EXPECT_NEAR(gx::sim::detail::jitter::exp(x) / std::exp(x), 1, 1e-10) << x;
}
TEST(Jitter, KeepsItsBits) {
    // Noted from this program; another compiler, level or machine must find the same.
    const Rng stream(42, "bits");
    EXPECT_EQ(Jitter::uniform(0.1).draw(stream, 5).steps, 16'115'620);
    EXPECT_EQ(Jitter::exponential(0.1).draw(stream, 5).steps, 18'781'399);
    EXPECT_EQ(Jitter::lognormal(0.1).draw(stream, 5).steps, 16'493'840);
}

// ---- Properties ---------------------------------------------------------------------
RC_GTEST_PROP(Factor, TimesNanosecondsIsExactToAHalf, ()) {
    const auto t = *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 50);
    const Factor f{*rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 28)};
    const long double exact = static_cast<long double>(t) * static_cast<long double>(f.steps) /
                              static_cast<long double>(1 << 24);
    RC_ASSERT(std::fabs(static_cast<long double>((Nanoseconds(t) * f).count()) - exact) <= 0.5L);
}
RC_GTEST_PROP(GpuVariation, TheSlowestIsOneOfTheRanksAndNobodyIsSlower,
              (std::uint64_t seed, std::uint64_t pass)) {
    const GpuVariation v{.gpu = Jitter::lognormal(0.08), .pass = Jitter::exponential(0.02)};
    const int ranks = *rc::gen::inRange(1, 40);
    const Factor most = v.slowest(seed, ranks, pass);
    bool found = false;
    for (int r = 0; r < ranks; ++r) {
        RC_ASSERT(v.factor(seed, r, pass) <= most);
        found = found || v.factor(seed, r, pass) == most;
    }
    RC_ASSERT(found);
}
RC_GTEST_PROP(GpuVariation, AGpuKeepsItsOwnSpeedFromPassToPass, (std::uint64_t seed)) {
    const GpuVariation v{.gpu = Jitter::lognormal(0.1)};
    RC_ASSERT(v.factor(seed, 3, 0) == v.factor(seed, 3, 1'000'000));
}

// ---- Slowdown while communicating ---------------------------------------------------
TEST(OverlapSlowdown, TouchesOnlyKernelsBesideCommunication) {
    const gx::sim::OverlapSlowdown slow{.share = 0.25};
    EXPECT_EQ(slow.slowed(Nanoseconds(1'000), true), Nanoseconds(1'250));
    EXPECT_EQ(slow.slowed(Nanoseconds(1'000), false), Nanoseconds(1'000));
    EXPECT_EQ(gx::sim::OverlapSlowdown{}.slowed(Nanoseconds(1'000), true), Nanoseconds(1'000));
}

// ---- Bad input ----------------------------------------------------------------------
TEST(Jitter, SaysWhichParameterIsOutOfRange) {
    EXPECT_NE(Jitter({Jitter::Kind::uniform, 1.0}).fault().find("below 1"), std::string::npos);
    EXPECT_NE(Jitter({Jitter::Kind::lognormal, 2.0}).fault().find("sigma"), std::string::npos);
    EXPECT_NE(Jitter({Jitter::Kind::straggler, 0.5, 0.1}).fault().find("1 to 1000 times"),
              std::string::npos);
    EXPECT_NE(Jitter({Jitter::Kind::exponential, std::nan("")}).fault(), "");
    EXPECT_EQ(Jitter({Jitter::Kind::exponential, 0.5}).fault(), "");
}

}  // namespace
