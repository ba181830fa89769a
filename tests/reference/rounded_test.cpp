#include <gx/reference/rounded.hpp>  // first, so the header is seen to stand alone

#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::reference::Rounded;

bool holds(float computed, const Rounded& r) {
    return std::abs(double{computed} - r.value) <= r.error;
}

// ---- Cases worked by hand -------------------------------------------------------------
TEST(Rounded, AnExactNumberHasNoError) {
    const Rounded x = 0.1f;
    EXPECT_EQ(x.value, double{0.1f});
    EXPECT_EQ(x.error, 0);
}
TEST(Rounded, AnOperationAddsHalfAUnit) {
    const Rounded sum = Rounded(1) + Rounded(2);
    EXPECT_EQ(sum.value, 3);
    EXPECT_NEAR(sum.error, 3 * 0x1p-24, 1e-12);
    EXPECT_EQ((Rounded(0) * Rounded(5)).error, 0x1p-150) << "the least subnormal halved";
}
TEST(Rounded, ErrorsAreCarriedOver) {
    const Rounded x(2, 0.5), y(4, 0.25);
    EXPECT_NEAR((x - y).error, 0.75, 1e-5);
    EXPECT_NEAR((x * y).error, 2 * 0.25 + 4 * 0.5 + 0.5 * 0.25, 1e-5);
    EXPECT_NEAR((x / y).error, (0.5 + 0.5 * 0.25) / 3.75, 1e-5);
    EXPECT_NEAR(sqrt(y).error, 0.25 / 2, 1e-5);
    EXPECT_NEAR(sqrt(Rounded(0, 0.25)).error, 0.5, 1e-5);
    EXPECT_EQ((x / Rounded(1, 1)).error, std::numeric_limits<double>::infinity());
}

// ---- A property, for any numbers: float stays within the bound -------------------------
RC_GTEST_PROP(Rounded, BoundsAChainOfOperationsInFloat, ()) {
    const auto number = rc::gen::map(rc::gen::inRange(-(1 << 20), 1 << 20),
                                     [](int n) { return static_cast<float>(n) / 777; });
    float x = *number;
    Rounded bound = x;
    const int length = *rc::gen::inRange(1, 12);
    for (int i = 0; i < length; ++i) {
        const float y = *number;
        switch (*rc::gen::inRange(0, 5)) {
            case 0: x = x + y, bound = bound + Rounded(y); break;
            case 1: x = x - y, bound = bound - Rounded(y); break;
            case 2: x = x * y / 1024, bound = bound * Rounded(y) / Rounded(1024); break;
            case 3:
                if (y != 0) x = x / y, bound = bound / Rounded(y);
                break;
            default:
                if (bound.value >= 0 && x >= 0) x = std::sqrt(x), bound = sqrt(bound);
        }
    }
    RC_ASSERT(holds(x, bound));
    RC_ASSERT(bound.error <= 1e-3 * (1 + std::abs(bound.value)) || length > 4);
}

}  // namespace
