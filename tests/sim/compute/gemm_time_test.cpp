#include <gx/sim/compute/gemm_time.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::sim::Gemm;
using gx::sim::gemm_seconds;

constexpr gx::FlopsPerSecond rate{1e12};
constexpr gx::BytesPerSecond fast{1e18};  // parts of a split depth cost nothing

double ideal(const Gemm& p) { return p.flops() / rate.count; }

// ---- Cases worked by hand -----------------------------------------------------------
TEST(ProductTime, FullWavesOfTheLargestTilePayOnlyForFillingTheDepth) {
    // 80 multiprocessors; 2560 x 1024 is 10 x 8 tiles of 256 x 128: one wave, all full.
    const Gemm one{.rows = 2560, .columns = 1024, .depth = 4096};
    EXPECT_NEAR(gemm_seconds(one, 80, rate, fast) / ideal(one), (4096 + 32) / 4096.0, 1e-12);
    EXPECT_EQ(gemm_seconds(one, 0, rate, fast), ideal(one)) << "an ideal GPU has no waves";
}
TEST(ProductTime, OneRowMoreThanAWaveCosts) {
    const Gemm full{.rows = 2560, .columns = 1024, .depth = 64};
    const Gemm more{.rows = 2561, .columns = 1024, .depth = 64};
    const double a = gemm_seconds(full, 80, rate, fast);
    const double b = gemm_seconds(more, 80, rate, fast);
    EXPECT_GT(b, 1.1 * a) << "a second wave, of whatever tile";
    EXPECT_LE(b, 2 * a);
}
TEST(ProductTime, AFewOutputsOverALongSumAreSplitAlongIt) {
    // The gradient of a 64 x 64 weight over 100,352 pixels: one tile, and 79 idle multiprocessors,
    // unless its depth is split.
    const Gemm weight{.rows = 64, .columns = 64, .depth = 100'352};
    EXPECT_LT(gemm_seconds(weight, 80, rate, fast), 3 * ideal(weight));
    EXPECT_GT(gemm_seconds(weight, 80, rate, {1e3}), 20 * ideal(weight))
        << "adding the parts goes through memory";
}
TEST(ProductTime, NarrowGroupsLeaveMostOfATileUnused) {
    const Gemm groups{.rows = 100'000, .columns = 4, .depth = 36, .count = 32};
    EXPECT_GT(gemm_seconds(groups, 80, rate, fast), 8 * ideal(groups)) << "tiles are 32 wide";
}

// ---- Properties ---------------------------------------------------------------------
RC_GTEST_PROP(ProductTime, NeverBeatsTheRateAndNeverShrinksAsTheProductGrows, ()) {
    const auto size = [] { return *rc::gen::inRange<std::int64_t>(1, 3000); };
    Gemm p{.rows = size(),
           .columns = size(),
           .depth = size(),
           .count = *rc::gen::inRange<std::int64_t>(1, 40)};
    const int multiprocessors = *rc::gen::inRange(1, 200);
    const double t = gemm_seconds(p, multiprocessors, rate, {9e11});
    RC_ASSERT(t >= ideal(p));
    p.grows = *rc::gen::element(Gemm::Grows::rows, Gemm::Grows::depth, Gemm::Grows::count);
    const int times = *rc::gen::inRange(2, 5);
    RC_ASSERT(p.of(times).flops() == times * p.flops());
    RC_ASSERT(gemm_seconds(p.of(times), multiprocessors, rate, {9e11}) >= t);
}

}  // namespace
