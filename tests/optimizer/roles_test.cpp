#include <gx/optimizer/roles.hpp>  // first, so the header is seen to stand alone

#include <cmath>

#include <gtest/gtest.h>

namespace {

using gx::ParameterRole;
using gx::detail::optimizer::includes;
using gx::detail::optimizer::power;

static_assert(includes(ParameterRole::weight, false, false));
static_assert(!includes(ParameterRole::bias, true, false) &&
              includes(ParameterRole::bias, false, true));
static_assert(!includes(ParameterRole::gamma, false, true) &&
              includes(ParameterRole::gamma, true, false));
static_assert(!includes(ParameterRole::beta, false, true) &&
              includes(ParameterRole::beta, true, false));

static_assert(power(0.5, 0) == 1 && power(0.5, 1) == 0.5 && power(0.5, 10) == 0x1p-10);
static_assert(power(3, 13) == 1'594'323 && power(0, 5) == 0);

TEST(Power, IsThatOfTheLibraryWithinItsRounding) {
    for (const double base : {0.9, 0.999, 0.9999999})
        for (const std::int64_t n : {2, 7, 50, 1'000, 123'456}) {
            const double expected = std::pow(base, static_cast<double>(n));
            EXPECT_NEAR(power(base, n), expected, 0x1p-51 * double(n) * expected) << base << n;
        }
}
TEST(Power, OfManyStepsEnds) { EXPECT_EQ(power(0.999, std::int64_t{1} << 62), 0); }

}  // namespace
