#include <gx/core/exact_math.hpp>  // first, so the header is seen to stand alone

#include <cmath>    // the library's own
#include <limits>   // min
#include <numbers>  // pi

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

// ---- What the functions promise -----------------------------------------------------
static_assert(gx::exact_math::log(1.0) == 0.0, "constant evaluation");
static_assert(gx::exact_math::sqrt(9.0) == 3.0);

// ---- Against the library ------------------------------------------------------------
// The quantile against libm's erfc: the x found, put back into the distribution.
TEST(ExactMath, NormalQuantileInvertsTheDistribution) {
    for (int exponent = 2; exponent <= 53; ++exponent)
        for (int i = 0; i < 200; ++i) {
            const double p = std::ldexp(1.0 + i / 200.0, -exponent);
            const double x = gx::exact_math::normal_quantile(p);
            const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
            const double error = (0.5 * std::erfc(-x / std::numbers::sqrt2) - p) / density;
            ASSERT_LT(std::fabs(error), 2e-7 * std::max(1.0, std::fabs(x))) << "p = " << p;
            if (1.0 - (1.0 - p) != p) continue;  // 1 - p is not a double
            ASSERT_EQ(gx::exact_math::normal_quantile(1.0 - p), -x) << "p = " << p;
        }
    EXPECT_EQ(gx::exact_math::normal_quantile(0.5), 0.0);
}

RC_GTEST_PROP(ExactMath, LogIsThatOfTheLibrary, ()) {
    const double x =
        std::ldexp(1.0 + *rc::gen::inRange(0, 1 << 20) * 0x1p-20, *rc::gen::inRange(-1000, 1000));
    RC_ASSERT(std::fabs(gx::exact_math::log(x) - std::log(x)) <=
              2e-12 * std::max(1.0, std::fabs(std::log(x))));
}
RC_GTEST_PROP(ExactMath, SqrtIsThatOfTheLibrary, ()) {
    const double x = 1.0 + 63.0 * *rc::gen::inRange(0, 1 << 20) * 0x1p-20;
    RC_ASSERT(std::fabs(gx::exact_math::sqrt(x) - std::sqrt(x)) <= 4e-15 * std::sqrt(x) * 2);
}

}  // namespace
