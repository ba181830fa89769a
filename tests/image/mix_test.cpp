#include <gx/image/mix.hpp>

#include <algorithm>
#include <array>
#include <cmath>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <image/pattern.hpp>

namespace {

using namespace gx;
using namespace gx::testing::images;

SampleDraws draws_of(std::uint64_t sample, std::string_view stream = MixUp::stream) {
    return {5, stream, 1, sample};
}

// ---- Mixed images -----------------------------------------------------------------------------
TEST(MixUp, IsTheWeightedMeanRounded) {
    EXPECT_TRUE(rc::check([] {
        const ImageSize size{*rc::gen::inRange(1, 20), *rc::gen::inRange(1, 20)};
        const Pixels first = pattern(size);
        Pixels second = first, mixed = first;
        std::ranges::reverse(second);
        const double weight = MixUp{.alpha = *rc::gen::element(0.05, 0.2, 1.0, 4.0)}(
            mixed.data(), second.data(), size, draws_of(*rc::gen::arbitrary<std::uint64_t>()));
        RC_ASSERT(weight >= 0 && weight <= 1);
        for (std::size_t i = 0; i < first.size(); ++i)
            RC_ASSERT(std::abs(mixed[i] - (weight * first[i] + (1 - weight) * second[i])) <= 0.51);
    }));
}
TEST(CutMix, ReplacesARectangleAndWeighsWhatIsLeft) {
    EXPECT_TRUE(rc::check([] {
        const ImageSize size{*rc::gen::inRange(1, 30), *rc::gen::inRange(1, 30)};
        const auto bytes = static_cast<std::size_t>(3 * size.pixels());
        Pixels mixed(bytes, 1);
        const Pixels second(bytes, 2);
        const SampleDraws draws = draws_of(*rc::gen::arbitrary<std::uint64_t>(), CutMix::stream);
        const float weight = CutMix{}(mixed.data(), second.data(), size, draws);
        const ImageRegion r = CutMix{}.rectangle(size, draws);
        std::int64_t left = 0;
        for (int y = 0; y < size.height; ++y)
            for (int x = 0; x < size.width; ++x) {
                const bool inside = x >= r.left && x < r.right() && y >= r.top && y < r.bottom();
                const std::uint8_t found =
                    mixed[static_cast<std::size_t>(3 * (y * size.width + x))];
                RC_ASSERT(found == (inside ? 2 : 1));
                left += !inside;
            }
        RC_ASSERT(std::abs(weight - double(left) / double(size.pixels())) < 1e-6);
    }));
}
// Yun et al. 2019: a rectangle of sqrt(1 - lambda) of each side, cut at the border.
TEST(CutMix, TakesSidesOfTheRootOfTheArea) {
    const ImageSize size{1000, 600};
    int whole = 0;
    for (std::uint64_t sample = 0; sample < 500; ++sample) {
        const SampleDraws draws = draws_of(sample, CutMix::stream);
        const ImageRegion r = CutMix{}.rectangle(size, draws);
        const double side = std::sqrt(1 - beta(CutMix{}.alpha, draws));
        EXPECT_LE(r.width, side * size.width);
        EXPECT_LE(r.height, side * size.height);
        if (r.left == 0 || r.top == 0 || r.right() == size.width || r.bottom() == size.height)
            continue;
        ++whole;
        EXPECT_NEAR(r.width, side * size.width, 2);
        EXPECT_NEAR(r.height, side * size.height, 2);
    }
    EXPECT_GT(whole, 50);
}
TEST(Mix, DependsOnSeedEpochAndSampleAlone) {
    EXPECT_EQ(beta(0.2, draws_of(3)), beta(0.2, draws_of(3)));
    EXPECT_NE(beta(0.2, draws_of(3)), beta(0.2, draws_of(4)));
    std::array<int, 3> drawn{};
    for (std::uint64_t sample = 0; sample < 300; ++sample) ++drawn[partner(draws_of(sample), 3)];
    for (const int count : drawn) EXPECT_NEAR(count, 100, 30) << "any sample, the last one too";
    EXPECT_EQ(partner(draws_of(3), 1000), partner(draws_of(3), 1000));
    EXPECT_NE(partner(draws_of(3), 1u << 30), partner(draws_of(4), 1u << 30));
}

// ---- Distributions, by fixed seeds ------------------------------------------------------------
TEST(Beta, HasTheMomentsAndTheSymmetryOfItsDistribution) {
    constexpr int count = 20'000;
    for (const double alpha : {0.05, 0.2, 1.0, 4.0}) {
        double sum = 0, squares = 0;
        int low = 0;
        for (std::uint64_t i = 0; i < count; ++i) {
            const double x = beta(alpha, draws_of(i));
            EXPECT_TRUE(x >= 0 && x <= 1) << x;
            sum += x, squares += x * x, low += x < 0.5;
        }
        const double mean = sum / count, variance = squares / count - mean * mean;
        const double expected = 1 / (4 * (2 * alpha + 1));
        EXPECT_NEAR(mean, 0.5, 3.3 * std::sqrt(expected / count)) << alpha;
        EXPECT_NEAR(variance, expected, 0.03 * expected) << alpha;
        EXPECT_NEAR(low, count / 2, 3.3 * std::sqrt(count / 4.0)) << alpha;
    }
}
TEST(Beta, OfOneIsUniform) {
    constexpr int count = 20'000, bins = 20;
    int counts[bins] = {};
    for (std::uint64_t i = 0; i < count; ++i)
        ++counts[std::min(static_cast<int>(beta(1, draws_of(i)) * bins), bins - 1)];
    double chi_square = 0;
    for (const int c : counts) chi_square += (c - 1000.0) * (c - 1000.0) / 1000;
    EXPECT_LT(chi_square, 43.8);  // 19 degrees of freedom, 99.9 %
}
TEST(ExactExp, IsExp) {
    for (double x = -500; x < 500; x += 0.37)
        EXPECT_NEAR(detail::image::exact_exp(x) / std::exp(x), 1, 4e-13) << x;
    EXPECT_EQ(detail::image::exact_exp(0), 1);
}

// ---- Faults -----------------------------------------------------------------------------------
TEST(BetaDeathTest, RefusesAnAlphaOfZero) {
    EXPECT_DEATH(static_cast<void>(beta(0, draws_of(0))), "above 0");
}

}  // namespace
