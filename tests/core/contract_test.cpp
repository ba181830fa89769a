#include <gx/core/contract.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>

#include <string>

namespace {

constexpr int half(int even) {
    GX_EXPECT(even % 2 == 0, "half of an odd number is not whole");
    return even / 2;
}

// A kept promise costs nothing during constant evaluation; a broken one is no constant.
template <int N>
concept HalvesAtCompileTime = requires { typename std::integral_constant<int, half(N)>; };
static_assert(half(6) == 3);
static_assert(HalvesAtCompileTime<4>);
static_assert(!HalvesAtCompileTime<3>);

TEST(Contract, AKeptPromiseIsSilent) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(half(8), 4);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Contract, AskedOnce) {
    int asked = 0;
    GX_EXPECT(++asked == 1, "asked more than once");
    EXPECT_EQ(asked, 1);
}

TEST(Contract, IsOneStatement) {
    bool reached = false;
    if (reached) GX_EXPECT(false, "not reached");
    else reached = true;
    EXPECT_TRUE(reached);
}

TEST(ContractDeathTest, ABrokenPromiseStopsWithTheSentenceConditionAndPlace) {
    EXPECT_DEATH((void)half(7),
                 "gx: half of an odd number is not whole\n"
                 ".*broken: even % 2 == 0\n"
                 ".*at: .*contract_test.cpp:1[0-9]\n");
}

TEST(ContractDeathTest, TakesASentenceMadeAtRunTime) {
    EXPECT_DEATH(GX_EXPECT(false, std::string("rank ") + std::to_string(3)), "gx: rank 3");
}

}  // namespace
