#include <gx/reference/sum.hpp>

#include <gtest/gtest.h>

namespace {

using gx::reference::Rows;
using Doubles = std::vector<double>;

TEST(Sum, ThreeRanks) {
    const Rows rows{{1, 2}, {10, 20}, {100, 201}};
    EXPECT_EQ(gx::reference::sum(rows), (Doubles{111, 223}));
    EXPECT_EQ(gx::reference::mean(rows), (Doubles{37, 223 / 3.0}));
}

TEST(Sum, IsExactWhereFloatIsNot) {
    EXPECT_EQ(gx::reference::sum(Rows{{0x1p24f}, {1}, {-0x1p24f}}), (Doubles{1}));
    EXPECT_EQ(gx::reference::sum(Rows{{0x1p60f}, {1}, {-0x1p60f}}), (Doubles{1}));  // nor double
}

TEST(SumDeathTest, RefusesRowsThatDoNotMatch) {
    EXPECT_DEATH((void)gx::reference::sum(Rows{}), "at least one rank");
    EXPECT_DEATH((void)gx::reference::sum(Rows{{1, 2}, {1}}), "equally many");
}

}  // namespace
