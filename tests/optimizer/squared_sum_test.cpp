#include <gx/optimizer/squared_sum.hpp>  // first, so the header is seen to stand alone

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using gx::ParameterSlice;
using gx::SquaredSum;
using Floats = std::vector<float>;

SquaredSum sum_of(std::span<const float> x) {
    SquaredSum s;
    s.add(x);
    return s;
}
/// Finite floats of every magnitude, subnormals too.
rc::Gen<float> any_float() {
    return rc::gen::map(
        rc::gen::pair(rc::gen::inRange(-(1 << 24), 1 << 24), rc::gen::inRange(-149, 104)),
        [](const auto& p) { return std::ldexp(static_cast<float>(p.first), p.second); });
}

// ---- Cases worked by hand -------------------------------------------------------------
TEST(SquaredSum, IsExactWhereADoubleIs) {
    EXPECT_EQ(sum_of({}).value(), 0);
    EXPECT_EQ(sum_of(Floats{3, -4}).value(), 25);
    EXPECT_EQ(sum_of(Floats{0.5f, 0.0f, -0.0f}).value(), 0.25);
    EXPECT_EQ(sum_of(Floats(100'000, 1.5f)).value(), 225'000);
    EXPECT_EQ(sum_of(Floats{16'777'215}).value(), 16'777'215.0 * 16'777'215.0);
}
TEST(SquaredSum, HoldsEveryMagnitudeAtOnce) {
    constexpr float largest = std::numeric_limits<float>::max();
    constexpr float smallest = std::numeric_limits<float>::denorm_min();
    EXPECT_EQ(sum_of(Floats{smallest}).value(), 0x1p-298);
    EXPECT_EQ(sum_of(Floats{largest}).value(), double{largest} * double{largest});
    EXPECT_EQ(sum_of(Floats(70'000, largest)).value(), 70'000 * (double{largest} * largest));
    // 2^60 + 2^-298 + ... differ in the lowest bit only, which value() cannot show.
    const SquaredSum one = sum_of(Floats{0x1p30f, smallest});
    EXPECT_EQ(one.value(), 0x1p60);
    EXPECT_FALSE(one == sum_of(Floats{0x1p30f}));
    EXPECT_TRUE(one == sum_of(Floats{smallest, -0x1p30f}));
}
TEST(SquaredSum, OfWhatIsNotFiniteIsNaN) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    for (const float bad : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN()}) {
        SquaredSum s = sum_of(Floats{1, bad, 2});
        EXPECT_TRUE(std::isnan(s.value()));
        s.add(sum_of(Floats{1}));
        EXPECT_TRUE(std::isnan(s.value()));
    }
}
TEST(SquaredSum, OfSlicesIsOneForEach) {
    const Floats values{1, 2, 3, 4, 100, 5};
    const std::vector<ParameterSlice> slices{{0, 2, 0}, {2, 2, 1}, {5, 1, 0}};
    std::vector<SquaredSum> sums(3);
    squared_norms(slices, values, sums);
    EXPECT_EQ(sums[0].value(), 5);
    EXPECT_EQ(sums[1].value(), 25);
    EXPECT_EQ(sums[2].value(), 25);
}

// ---- Properties, for any numbers ------------------------------------------------------
RC_GTEST_PROP(SquaredSum, IsTheSumInLongDoubleWithinItsRounding, ()) {
    const auto x = *rc::gen::container<Floats>(any_float());
    long double sum = 0;  // n terms of 64 bits: within n * 2^-64 of itself, all terms positive
    for (const float each : x) sum += static_cast<long double>(each) * each;
    const double value = sum_of(x).value();
    RC_ASSERT(std::abs(static_cast<double>(value - sum)) <= static_cast<double>(sum) * 0x1p-50);
}
RC_GTEST_PROP(SquaredSum, IsTheSameInAnyOrderAndSplitAndWithAnyPadding, ()) {
    const auto x = *rc::gen::container<Floats>(any_float());
    const SquaredSum whole = sum_of(x);
    SquaredSum parts, padded;
    std::array<double, SquaredSum::word_count> words{};
    Floats turned(x.rbegin(), x.rend());
    for (std::span<const float> rest = turned; !rest.empty();) {
        const auto count = *rc::gen::inRange<std::size_t>(1, rest.size() + 1);
        const SquaredSum part = sum_of(rest.first(count));
        parts.add(part);
        for (std::size_t k = 0; k < words.size(); ++k) words[k] += part.words()[k];
        Floats zeros(rest.begin(), rest.begin() + std::ptrdiff_t(count));
        zeros.resize(count + *rc::gen::inRange<std::size_t>(0, 9));
        padded.add(zeros);
        rest = rest.subspan(count);
    }
    SquaredSum summed;
    std::ranges::copy(words, summed.words().begin());
    for (const SquaredSum* other : {&parts, &padded, &summed}) {
        RC_ASSERT(*other == whole);
        RC_ASSERT(other->value() == whole.value());
    }
}
TEST(SquaredSum, OfMoreThanAChunkIsExact) {
    Floats x(100'003);
    std::iota(x.begin(), x.end(), 1.0f);  // n (n + 1) (2 n + 1) / 6, below 2^53
    const double n = 100'003;
    EXPECT_EQ(sum_of(x).value(), n * (n + 1) * (2 * n + 1) / 6);
    EXPECT_TRUE(sum_of(x) == sum_of(Floats(x.rbegin(), x.rend())));
}

// ---- Bad input ------------------------------------------------------------------------
TEST(SquaredSumDeathTest, StopsOnABrokenContract) {
    const Floats values(4);
    std::vector<SquaredSum> sums(1);
    const std::vector<ParameterSlice> outside{{2, 3, 0}};
    EXPECT_DEATH(squared_norms(outside, values, sums), "outside of the flat vector");
    EXPECT_DEATH(squared_norms({}, values, sums), "one sum for each slice");
}

}  // namespace
