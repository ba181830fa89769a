#include <gx/image/colour.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <image/colour_fixture.hpp>
#include <image/pattern.hpp>

namespace {

using namespace gx;
using namespace gx::testing::images;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

// ---- What the types promise -------------------------------------------------------------------
static_assert(PixelAugmentation<ColourJitter> && PixelAugmentation<PcaNoise> &&
              PixelAugmentation<HslJitter>);
static_assert(!PixelAugmentation<ImageSize>, "no stream, no call");

/// The colours of the stored cases.
Pixels colours() {
    Pixels all;
    constexpr std::uint8_t levels[] = {0, 31, 128, 200, 255};
    for (const std::uint8_t r : levels)
        for (const std::uint8_t g : levels)
            for (const std::uint8_t b : levels) all.insert(all.end(), {r, g, b});
    return all;
}
Pixels enhanced_by(int kind, Pixels pixels, ImageSize size, float factor) {
    if (kind == 0) adjust_brightness(pixels.data(), size, factor);
    if (kind == 1) adjust_contrast(pixels.data(), size, factor);
    if (kind == 2) adjust_saturation(pixels.data(), size, factor);
    return pixels;
}

// ---- Cases worked by hand ---------------------------------------------------------------------
TEST(Colour, BlendsOneColour) {  // grey of (100, 50, 200): 82
    const Pixels pixel{100, 50, 200};
    EXPECT_THAT(enhanced_by(0, pixel, {1, 1}, 0.5f), ElementsAre(50, 25, 100));
    EXPECT_THAT(enhanced_by(1, pixel, {1, 1}, 0.5f), ElementsAre(91, 66, 141));
    EXPECT_THAT(enhanced_by(2, pixel, {1, 1}, 0), ElementsAre(82, 82, 82));
    EXPECT_THAT(enhanced_by(0, pixel, {1, 1}, 3), ElementsAre(255, 150, 255));
}

// ---- Stored cases of others -------------------------------------------------------------------
TEST(Colour, HasTheBitsOfPillowsEnhancements) {
    for (const EnhanceCase& c : enhanced)
        EXPECT_EQ(hashed(enhanced_by(c.kind, pattern({45, 37}), {45, 37}, c.factor)), c.hash)
            << c.kind << " by " << c.factor;
}
TEST(Colour, ShiftsHslAsOpenCvAndMxnet) {
    for (const HslCase& c : hsl) {
        Pixels pixels = colours();
        shift_hsl(pixels.data(), {125, 1}, c.hue, c.saturation, c.lightness);
        EXPECT_EQ(hashed(pixels), c.hash) << c.hue << ' ' << c.saturation << ' ' << c.lightness;
    }
    Pixels pixels = colours();
    shift_hsl(pixels.data(), {125, 1}, 17, -33, 21);
    EXPECT_THAT(pixels, ElementsAreArray(hsl_17_33_21));
}
TEST(Colour, AddsMxnetsPrincipalComponents) {
    for (const PcaCase& c : pca)
        for (int channel = 0; channel < 3; ++channel)
            EXPECT_NEAR(PcaNoise::shift(channel, c.alphas), c.shift[channel], 1e-12);
}

// ---- Properties -------------------------------------------------------------------------------
TEST(Colour, DependsOnSeedEpochAndSampleAlone) {
    const auto changed = [](const auto& augmentation, int epoch, std::uint64_t sample) {
        Pixels pixels = pattern({16, 16});
        augmentation(pixels.data(), ImageSize{16, 16},
                     SampleDraws(7, augmentation.stream, epoch, sample));
        return pixels;
    };
    const auto check = [&](const auto& augmentation) {
        EXPECT_EQ(changed(augmentation, 3, 5), changed(augmentation, 3, 5));
        EXPECT_NE(changed(augmentation, 3, 5), changed(augmentation, 3, 6));
        EXPECT_NE(changed(augmentation, 3, 5), changed(augmentation, 4, 5));
        EXPECT_NE(changed(augmentation, 3, 5), pattern({16, 16}));
    };
    check(ColourJitter{});
    check(PcaNoise{.deviation = 1});
    check(HslJitter{});
    // MXNet's random_h, random_s and random_l of its ImageNet script.
    EXPECT_EQ(HslJitter{}.hue, 36);
    EXPECT_EQ(HslJitter{}.saturation, 50);
    EXPECT_EQ(HslJitter{}.lightness, 50);
}
// By the eigenvectors, which are orthogonal: three independent amounts of the eigenvalues' size.
TEST(Colour, AddsThreeIndependentComponents) {
    double axes[3][3], values[3];
    for (std::size_t k = 0; k < 3; ++k) {
        double unit[3]{};
        unit[k] = 1;
        for (int c = 0; c < 3; ++c) axes[k][c] = PcaNoise::shift(c, unit);
        values[k] = std::hypot(axes[k][0], axes[k][1], axes[k][2]);
    }
    double moments[3][3]{};
    int counted = 0;
    for (std::uint64_t sample = 0; sample < 4000; ++sample) {
        Pixels pixel{128, 128, 128};
        PcaNoise{.deviation = 1}(pixel.data(), {1, 1}, SampleDraws(1, PcaNoise::stream, 0, sample));
        if (std::ranges::any_of(pixel, [](int x) { return x == 0 || x == 255; })) continue;
        ++counted;
        double amounts[3]{};
        for (std::size_t k = 0; k < 3; ++k)
            for (std::size_t c = 0; c < 3; ++c)
                amounts[k] += (pixel[c] - 128) * axes[k][c] / (values[k] * values[k]);
        for (std::size_t k = 0; k < 3; ++k)
            for (std::size_t m = 0; m < 3; ++m) moments[k][m] += amounts[k] * amounts[m];
    }
    ASSERT_GT(counted, 3500);
    for (std::size_t k = 0; k < 3; ++k)
        for (std::size_t m = 0; m < 3; ++m)  // clamped colours are left out, others are rounded
            EXPECT_NEAR(moments[k][m] / counted, k == m ? 1 : 0, 0.2) << k << ' ' << m;
}
TEST(Colour, OfStrengthZeroChangesNothing) {
    Pixels pixels = pattern({16, 16});
    ColourJitter{0, 0, 0}(pixels.data(), {16, 16}, SampleDraws(1, ColourJitter::stream, 0, 0));
    PcaNoise{0}(pixels.data(), {16, 16}, SampleDraws(1, PcaNoise::stream, 0, 0));
    EXPECT_EQ(pixels, pattern({16, 16}));
    HslJitter{0, 0, 0}(pixels.data(), {16, 16}, SampleDraws(1, HslJitter::stream, 0, 0));
    const Pixels original = pattern({16, 16});
    for (std::size_t i = 0; i < pixels.size(); ++i)  // 8 bits of HLS hold fewer colours
        EXPECT_LE(std::abs(pixels[i] - original[i]), 6);
}
TEST(Colour, JitterReachesItsLimitsInEveryOrder) {
    double least = 2, most = 0;
    for (std::uint64_t sample = 0; sample < 1000; ++sample) {
        Pixels pixel{100, 100, 100};
        ColourJitter{0.4f, 0, 0}(pixel.data(), {1, 1},
                                 SampleDraws(1, ColourJitter::stream, 0, sample));
        least = std::min(least, pixel[0] / 100.0);
        most = std::max(most, pixel[0] / 100.0);
    }
    EXPECT_NEAR(least, 0.6, 0.011);
    EXPECT_NEAR(most, 1.4, 0.011);
}

// ---- Faults -----------------------------------------------------------------------------------
TEST(ColourDeathTest, RefusesANegativeStrength) {
    std::uint8_t pixel[3] = {};
    EXPECT_DEATH(ColourJitter{-1}(pixel, {1, 1}, SampleDraws(1, ColourJitter::stream, 0, 0)),
                 "at least 0");
}

}  // namespace
