#include <gx/core/rng.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <set>
#include <vector>

namespace {

using gx::Rng;
using Words = std::array<std::uint32_t, 4>;

// ---- Known answers: the kat_vectors of Random123, philox4x32 10 --------------------------
static_assert(gx::philox4x32({0, 0, 0, 0}, {0, 0}) ==
              Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
static_assert(gx::philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}) ==
              Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
static_assert(gx::philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
                             {0xa4093822, 0x299f31d0}) ==
              Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
static_assert(Rng(1, "a").uniform(0) < 1.0f, "constant evaluation");

// A changed bit here is a changed run of everybody: say so in the release notes.
TEST(Rng, IsPinned) {
    const Rng rng = Rng(42, "pinned").at(3);
    EXPECT_EQ(rng.bits(5), (Words{0xf005306b, 0x468661a9, 0xeb2f254e, 0xde0f1ef8}));
    EXPECT_EQ(rng.uniform(5), 0x1.e00a6p-1f);
    EXPECT_EQ(rng.normal(5), -0x1.314e02p-1f);
    EXPECT_EQ(rng.below(5, 1000), 635u);
}

// Constant evaluation has no libm and fuses nothing; the optimiser may do neither behind us.
TEST(Rng, ConstantEvaluationGivesTheSameBits) {
    constexpr std::size_t count = 512;
    constexpr auto constants = [] {
        std::array<float, count> x{};
        for (std::size_t i = 0; i < x.size(); ++i) x[i] = Rng(9, "constant").normal(i);
        return x;
    }();
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(Rng(9, "constant").normal(i), constants[i]);
}

// ---- Streams ------------------------------------------------------------------------
RC_GTEST_PROP(Rng, DependsOnSeedNameSubstreamAndCounter, (std::uint64_t seed, std::uint64_t n)) {
    const Rng rng(seed, "name");
    RC_ASSERT(rng.bits(n) == Rng(seed, "name").bits(n));
    const std::set<Words> all{rng.bits(n),
                              Rng(seed + 1, "name").bits(n),
                              rng.bits(n + 1),
                              Rng(seed, "eman").bits(n),
                              rng.at(0).bits(n),
                              rng.at(1).bits(n),
                              rng.at(n).at(0).bits(n),
                              rng.at(0).at(n + 1).bits(n),
                              rng.bits(n ^ std::uint64_t{1} << 63)};
    RC_ASSERT(all.size() == 9u);
}

TEST(Rng, SubstreamsShareNoBlock) {
    std::set<Words> all;
    for (std::uint64_t rank = 0; rank < 32; ++rank)
        for (std::uint64_t layer = 0; layer < 32; ++layer)
            for (std::uint64_t i = 0; i < 16; ++i)
                all.insert(Rng(0, "dropout").at(rank).at(layer).bits(i));
    EXPECT_EQ(all.size(), 32u * 32u * 16u);
}

// Bits of two streams agree at half of the places: 131,072 fair coins, so the count has a standard
// deviation of 181; 6 of them are met by chance once in 5e8.
TEST(Rng, StreamsAreIndependent) {
    const auto agreements = [](const Rng& a, const Rng& b) {
        int equal = 0;
        for (std::uint64_t i = 0; i < 1024; ++i)
            for (std::size_t w = 0; w < 4; ++w)
                equal += std::popcount(~(a.bits(i)[w] ^ b.bits(i)[w]));
        return equal;
    };
    const Rng rng(1, "a");
    for (const Rng& other : {Rng(2, "a"), Rng(1, "b"), rng.at(0), rng.at(1), Rng(0, "a")})
        EXPECT_NEAR(agreements(rng, other), 65536, 6 * 181);
    EXPECT_NEAR(agreements(rng.at(0), rng.at(1)), 65536, 6 * 181);
}

// ---- Distributions: bounds are 6 standard deviations of the mean of independent draws ------
struct Moments {
    double mean = 0, variance = 0, lag = 0;  // lag: mean of x[i] x[i + 1]
};
template <class Draw>
Moments moments(int count, Draw draw) {
    Moments m;
    double before = 0;
    for (int i = 0; i < count; ++i) {
        const double x = draw(static_cast<std::uint64_t>(i));
        m.mean += x / count;
        m.variance += x * x / count;
        m.lag += x * before / count;
        before = x;
    }
    return m;
}
constexpr int draws = 1 << 18;
const double root = std::sqrt(double{draws});

TEST(Rng, UniformHasItsMoments) {
    const Rng rng(7, "uniform");
    const auto m = moments(draws, [&](std::uint64_t i) { return rng.uniform(i) - 0.5 + 0x1p-25; });
    EXPECT_NEAR(m.mean, 0, 6 * std::sqrt(1 / 12.0) / root);
    EXPECT_NEAR(m.variance, 1 / 12.0, 6 * std::sqrt(1 / 80.0 - 1 / 144.0) / root);
    EXPECT_NEAR(m.lag, 0, 6 * (1 / 12.0) / root);
}

TEST(Rng, NormalHasItsMoments) {
    const Rng rng(7, "normal");
    const auto m = moments(draws, [&](std::uint64_t i) { return double{rng.normal(i)}; });
    EXPECT_NEAR(m.mean, 0, 6 / root);
    EXPECT_NEAR(m.variance, 1, 6 * std::sqrt(2.0) / root) << "E x^4 = 3";
    EXPECT_NEAR(m.lag, 0, 6 / root);
    const auto fourth =
        moments(draws, [&](std::uint64_t i) { return std::pow(double{rng.normal(i)}, 4.0); });
    EXPECT_NEAR(fourth.mean, 3, 6 * std::sqrt(96.0) / root) << "E x^8 = 105";
}

// ---- below(n) and permutations ----------------------------------------------------------
RC_GTEST_PROP(Rng, BelowStaysBelow, (std::uint64_t seed, std::uint64_t counter)) {
    const auto n = *rc::gen::suchThat<std::uint64_t>([](std::uint64_t x) { return x > 0; });
    RC_ASSERT(Rng(seed, "below").below(counter, n) < n);
}

// A quarter of all words is surplus for n = 3 * 2^62: numbers below 2^62 would come twice as
// often as they should if words were folded without rejection. 65,536 draws, deviation 121.
TEST(Rng, BelowHasNoBiasWhereFoldingHasMost) {
    const std::uint64_t third = std::uint64_t{1} << 62;
    int lowest = 0;
    for (std::uint64_t i = 0; i < 65536; ++i) lowest += Rng(3, "fold").below(i, 3 * third) < third;
    EXPECT_NEAR(lowest, 65536 / 3.0, 6 * 121);
}

// Chi-square with d = 23 degrees exceeds d + 2 sqrt(d x) + 2 x with a chance below e^-x, and falls
// below d - 2 sqrt(d x) with the same (Laurent and Massart 2000, lemma 1): x = 16 and x = 4.
double chi_square(const std::map<std::vector<std::uint32_t>, int>& counts, int cells, int total) {
    const double expected = double{1} * total / cells;
    double sum = expected * (cells - static_cast<int>(counts.size()));  // cells never hit
    for (const auto& [order, count] : counts) sum += std::pow(count - expected, 2) / expected;
    return sum;
}

TEST(Rng, PermutationsAreEquallyLikely) {
    constexpr int total = 24'000;
    std::map<std::vector<std::uint32_t>, int> counts;
    for (std::uint64_t i = 0; i < total; ++i) {
        std::vector<std::uint32_t> order(4);
        Rng(11, "shuffle").at(i).permutation_into(order);
        ++counts[order];
    }
    EXPECT_EQ(counts.size(), 24u);
    EXPECT_LT(chi_square(counts, 24, total), 23 + 2 * std::sqrt(23.0 * 16) + 2 * 16);
    EXPECT_GT(chi_square(counts, 24, total), 23 - 2 * std::sqrt(23.0 * 4)) << "too even for chance";
}

RC_GTEST_PROP(Rng, PermutationHoldsEachIndexOnce, (std::uint64_t seed)) {
    std::vector<std::uint32_t> order(*rc::gen::inRange<std::size_t>(0, 300), 7), again = order;
    Rng(seed, "shuffle").permutation_into(order);
    Rng(seed, "shuffle").permutation_into(again);
    RC_ASSERT(order == again);
    std::ranges::sort(order);
    std::iota(again.begin(), again.end(), 0u);
    RC_ASSERT(order == again);
}

// ---- Bad input ------------------------------------------------------------------------
TEST(RngDeathTest, BelowZeroIsABrokenContract) {
    EXPECT_DEATH((void)Rng(0, "x").below(0, 0), "no number below 0");
}

}  // namespace
