#include <gx/loader/resize.hpp>

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using namespace gx;
using testing::ElementsAre;
using testing::ElementsAreArray;
using Pixels = std::vector<std::uint8_t>;

Pixels resized(const Pixels& from, ImageShape a, ImageShape b) {
    Pixels to(std::size_t(b.elements()), 77);
    Resize{a, b}(from.data(), to.data());
    return to;
}

// ---- Cases worked by hand -------------------------------------------------------------------
TEST(Resize, DoublesARow) {  // centres at -1/4, 1/4, 3/4, 5/4
    EXPECT_THAT(resized({0, 100}, {1, 1, 2}, {1, 1, 4}), ElementsAre(0, 25, 75, 100));
}
TEST(Resize, HalvesARow) {  // centres at 1/2 and 5/2, reach 2: 3/4, 3/4, 1/4 and 1/4, 3/4, 3/4, 1/4
    // x = 0: weights 3, 3, 1 of 7; x = 1: 1, 3, 3 of 7
    EXPECT_THAT(resized({7, 14, 70, 140}, {1, 1, 4}, {1, 1, 2}), ElementsAre(19, 92));
}
TEST(Resize, GrowsTwoDirectionsAndKeepsChannelsApart) {
    EXPECT_THAT(resized({0, 16, 32, 48, 255, 255, 255, 255}, {2, 2, 2}, {2, 4, 4}),
                ElementsAre(0, 4, 12, 16, 8, 12, 20, 24, 24, 28, 36, 40, 32, 36, 44, 48,  //
                            255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
                            255, 255));
}
TEST(Resize, RoundsHalvesUp) { EXPECT_THAT(resized({0, 1}, {1, 1, 2}, {1, 1, 1}), ElementsAre(1)); }

// ---- Properties -----------------------------------------------------------------------------
/// By the formula, in double; no tables, one sum over all of the image.
double bilinear(const Pixels& p, ImageShape a, ImageShape b, int c, int y, int x) {
    const auto weight = [](int m, int n, int at, int i) {
        const double centre = (at + 0.5) * m / n - 0.5, s = std::max(1.0, double(m) / n);
        return std::max(0.0, 1 - std::abs(i - centre) / s);
    };
    double sum = 0, weights = 0;
    for (int i = 0; i < a.height; ++i)
        for (int k = 0; k < a.width; ++k) {
            const double w = weight(a.height, b.height, y, i) * weight(a.width, b.width, x, k);
            sum += w * p[std::size_t((c * a.height + i) * a.width + k)];
            weights += w;
        }
    return sum / weights;
}
TEST(Resize, IsTheFormulaRounded) {
    EXPECT_TRUE(rc::check([] {
        const int channels = *rc::gen::inRange(1, 4);
        const auto side = [] { return *rc::gen::inRange(1, 24); };
        const ImageShape a{channels, side(), side()}, b{channels, side(), side()};
        const Pixels from = *rc::gen::container<Pixels>(std::size_t(a.elements()),
                                                        rc::gen::arbitrary<std::uint8_t>());
        const Pixels to = resized(from, a, b);
        std::size_t i = 0;
        for (int c = 0; c < channels; ++c)
            for (int y = 0; y < b.height; ++y)
                for (int x = 0; x < b.width; ++x, ++i)
                    RC_ASSERT(std::abs(bilinear(from, a, b, c, y, x) - to[i]) <= 0.51);
    }));
}
TEST(Resize, OfOneSizeKeepsTheBits) {
    EXPECT_TRUE(rc::check([] {
        const ImageShape a{*rc::gen::inRange(1, 4), *rc::gen::inRange(1, 40),
                           *rc::gen::inRange(1, 40)};
        const Pixels from = *rc::gen::container<Pixels>(std::size_t(a.elements()),
                                                        rc::gen::arbitrary<std::uint8_t>());
        RC_ASSERT(resized(from, a, a) == from);
    }));
}
TEST(Resize, KeepsOneColourWhateverTheSizes) {
    for (const int n : {1, 2, 3, 7, 64, 223})
        for (const int m : {1, 5, 127, 300})
            EXPECT_THAT(resized(Pixels(std::size_t(m), 255), {1, m, 1}, {1, n, 1}),
                        ElementsAreArray(Pixels(std::size_t(n), 255)));
}

}  // namespace
