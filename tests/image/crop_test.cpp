#include <gx/image/crop.hpp>

#include <array>
#include <cmath>
#include <set>

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <gx/image/crop_resize.hpp>
#include <image/colour_fixture.hpp>
#include <image/pattern.hpp>

namespace {

using namespace gx;
using namespace gx::testing::images;

// ---- What the types promise -------------------------------------------------------------------
static_assert(ImageCrop<RandomResizedCrop> && ImageCrop<MxnetRandomResizedCrop>);
static_assert(ImageCrop<WholeImage> && !ImageCrop<ImageSize>);

template <class Crop>
ImageRegion crop_of(const Crop& crop, ImageSize size, std::uint64_t sample, int epoch = 0) {
    return crop(size, SampleDraws(11, Crop::stream, epoch, sample));
}

/// Sum of (found - expected)^2 / expected over `bins` equal parts of [0, 1).
template <std::size_t bins>
class ChiSquare {
public:
    void add(double x) {
        ++counts_[std::min(static_cast<std::size_t>(std::max(x, 0.0) * bins), bins - 1)];
        ++all_;
    }
    [[nodiscard]] double value() const {
        const double expected = static_cast<double>(all_) / bins;
        double sum = 0;
        for (const int count : counts_) sum += (count - expected) * (count - expected) / expected;
        return sum;
    }

private:
    std::array<int, bins> counts_{};
    int all_ = 0;
};
constexpr double most_of_19 = 43.8;  // chi-square of 19 degrees of freedom, 99.9 %

// ---- Cases worked by hand ---------------------------------------------------------------------
TEST(RandomResizedCrop, TakesTheCentreWhereNoAttemptFits) {
    const RandomResizedCrop crop{.area_min = 1, .area_max = 1, .aspect_min = 1, .aspect_max = 1};
    EXPECT_EQ(crop_of(crop, {300, 100}, 0), (ImageRegion{100, 0, 100, 100}));
    EXPECT_EQ(crop_of(crop, {100, 300}, 0), (ImageRegion{0, 100, 100, 100}));
    const RandomResizedCrop wide{
        .area_min = 1, .area_max = 1, .aspect_min = 0.5, .aspect_max = 1.5};
    EXPECT_EQ(crop_of(wide, {300, 100}, 0), (ImageRegion{75, 0, 150, 100}));
    EXPECT_EQ(crop_of(wide, {100, 300}, 0), (ImageRegion{0, 50, 100, 200}));
    const RandomResizedCrop within{
        .area_min = 1, .area_max = 1, .aspect_min = 1.9, .aspect_max = 2.5};
    EXPECT_EQ(crop_of(within, {1000, 1000}, 0), (ImageRegion{0, 237, 1000, 526}));
}
TEST(MxnetRandomResizedCrop, TakesTheCentreOfTheOutputsSize) {
    const MxnetRandomResizedCrop crop{
        .to = {224, 224}, .area_min = 1, .area_max = 1, .aspect_min = 1, .aspect_max = 1};
    EXPECT_EQ(crop_of(crop, {500, 300}, 0), (ImageRegion{138, 38, 224, 224}));
    EXPECT_EQ(crop_of(crop, {500, 100}, 0), (ImageRegion{200, 0, 100, 100}));
}
TEST(Crop, OfOnePixelIsThatPixel) {
    for (std::uint64_t sample = 0; sample < 50; ++sample) {
        EXPECT_EQ(crop_of(RandomResizedCrop{}, {1, 1}, sample), (ImageRegion{0, 0, 1, 1}));
        EXPECT_EQ(crop_of(MxnetRandomResizedCrop{}, {1, 1}, sample), (ImageRegion{0, 0, 1, 1}));
    }
}

// ---- Stored cases of others -------------------------------------------------------------------
TEST(CentreBox, ShowsWhatTorchvisionCutsOutOfTheResizedImage) {
    for (const CentreCase& c : centre_crops) {
        const ImageSize size{c.width, c.height}, to{c.side, c.side};
        Pixels out(static_cast<std::size_t>(3 * to.pixels()));
        const Pixels image = pattern(size);
        CropResize resize;
        resize.begin(size, centre_box(size, c.shorter, to), to, ResizeMode::antialiased, false,
                     out.data(), std::size_t(3) * to.width);
        for (int y = 0; y < size.height; ++y) resize.push(&image[std::size_t(3 * size.width * y)]);
        EXPECT_EQ(hashed(out), c.hash) << c.width << " x " << c.height;
    }
}
TEST(CentreBox, EndsAtTheBorderWhateverTheRounding) {  // 142 * (201 / 142) is above 201
    EXPECT_LE(centre_box({202, 201}, 142, {1, 142}).height, 201);
}
TEST(CentreBox, IsTheLargestOfItsAspectWhereTheCropIsTooLarge) {
    EXPECT_EQ(centre_box({100, 200}, 50, {80, 60}), (ImageBox{0, 62.5, 100, 75}));
    EXPECT_EQ(centre_box({300, 150}, 50, {120, 60}), (ImageBox{0, 0, 300, 150}));
}

// ---- Properties -------------------------------------------------------------------------------
TEST(Crop, LiesInTheImageWhateverItsSize) {
    EXPECT_TRUE(rc::check([] {
        const ImageSize size{*rc::gen::inRange(1, 3000), *rc::gen::inRange(1, 3000)};
        const auto sample = *rc::gen::arbitrary<std::uint64_t>();
        RC_ASSERT(lies_in(crop_of(RandomResizedCrop{}, size, sample), size));
        RC_ASSERT(lies_in(crop_of(MxnetRandomResizedCrop{}, size, sample), size));
        const ImageSize to{*rc::gen::inRange(1, 500), *rc::gen::inRange(1, 500)};
        const ImageBox box = centre_box(size, *rc::gen::inRange(1, 500), to);
        RC_ASSERT(box.left >= 0 && box.top >= 0 && box.width > 0 && box.height > 0);
        RC_ASSERT(box.left + box.width <= size.width && box.top + box.height <= size.height);
    }));
}
TEST(Crop, DependsOnSeedEpochAndSampleAlone) {
    const ImageSize size{500, 375};
    std::set<std::array<int, 4>> seen;
    for (int epoch = 0; epoch < 10; ++epoch)
        for (std::uint64_t sample = 0; sample < 100; ++sample) {
            const ImageRegion r = crop_of(RandomResizedCrop{}, size, sample, epoch);
            EXPECT_EQ(crop_of(RandomResizedCrop{}, size, sample, epoch), r);
            seen.insert({r.left, r.top, r.width, r.height});
        }
    EXPECT_GT(seen.size(), 990u);
}
TEST(RandomResizedCrop, HasUniformAreasLogAspectsAndPlaces) {
    const RandomResizedCrop crop{.area_max = 0.5};  // the first attempt fits
    ChiSquare<20> areas, aspects, lefts, tops;
    for (std::uint64_t sample = 0; sample < 20'000; ++sample) {
        const ImageRegion r = crop_of(crop, {4000, 4000}, sample);
        areas.add((double(r.size().pixels()) / 16e6 - 0.08) / 0.42);
        aspects.add(std::log(double(r.width) / r.height * 4 / 3) / std::log(16.0 / 9));
        lefts.add(r.left / (4001.0 - r.width));
        tops.add(r.top / (4001.0 - r.height));
    }
    for (const auto* each : {&areas, &aspects, &lefts, &tops}) EXPECT_LT(each->value(), most_of_19);
}
TEST(MxnetRandomResizedCrop, HasUniformAspectsThatChangePlaces) {
    const MxnetRandomResizedCrop crop{.area_max = 0.5, .aspect_min = 1, .aspect_max = 1.5};
    ChiSquare<20> wide, tall, turns, lefts;
    for (std::uint64_t sample = 0; sample < 20'000; ++sample) {
        const ImageRegion r = crop_of(crop, {4000, 4000}, sample);
        const double aspect = double(r.width) / r.height;
        if (r.width > r.height) wide.add((aspect - 1) / 0.5);
        else tall.add((1 / aspect - 1) / 0.5);
        turns.add(r.width > r.height ? 0.99 : 0.01);
        lefts.add(r.left / (4001.0 - r.width));
    }
    EXPECT_LT(wide.value(), most_of_19);
    EXPECT_LT(tall.value(), most_of_19);
    EXPECT_LT(lefts.value(), most_of_19);
    EXPECT_NEAR(turns.value(), 180'000, 100) << "half of them are wide";
}
TEST(Crop, MirrorsHalfOfTheSamplesWhateverTheLoadersFlipDoes) {
    int count = 0, twice = 0;
    for (std::uint64_t sample = 0; sample < 10'000; ++sample) {
        const bool here = mirrored(3, 2, sample);
        EXPECT_EQ(here, bool(Rng(3, "image.flip").at(2).bits(sample)[0] >> 31));
        const bool there = Rng(3, "augment.flip").at(2).bits(sample)[0] >> 31;
        count += here, twice += here != there;
    }
    EXPECT_NEAR(count, 5000, 165);  // 99.9 %
    EXPECT_NEAR(twice, 5000, 165) << "a loader's Flip of the same seed mirrors them back";
}

// ---- Faults -----------------------------------------------------------------------------------
TEST(CropDeathTest, RefusesLimitsThatAreNone) {
    EXPECT_DEATH(crop_of(RandomResizedCrop{.area_min = 0}, {4, 4}, 0), "0 < area_min");
    EXPECT_DEATH(crop_of(RandomResizedCrop{.aspect_min = 2, .aspect_max = 1}, {4, 4}, 0),
                 "0 < aspect_min");
    EXPECT_DEATH(crop_of(RandomResizedCrop{}, {0, 4}, 0), "without pixels");
}

}  // namespace
