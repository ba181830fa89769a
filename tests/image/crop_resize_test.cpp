#include <gx/image/crop_resize.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <span>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <gx/loader/resize.hpp>
#include <image/image_fixture.hpp>
#include <image/pattern.hpp>

namespace {

using namespace gx;
using namespace gx::testing::images;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

struct Request {
    ResizeMode mode = ResizeMode::antialiased;
    bool mirrored = false;
    Simd simd = best_simd();
};

/// Each row comes from a place of its own, which ends where the row does: loads behind it would be
/// seen by the address sanitizer.
Pixels resized(const Pixels& image, ImageSize from, ImageBox box, ImageSize to, Request r = {}) {
    Pixels out(static_cast<std::size_t>(3 * to.pixels()), 77);
    CropResize resize(r.simd);
    resize.begin(from, box, to, r.mode, r.mirrored, out.data(), std::size_t(3) * to.width);
    for (int y = 0; y < from.height; ++y)
        resize.push(part(image, from, {0, y, from.width, 1}).data());
    return out;
}
Pixels resized(const Pixels& image, ImageSize from, ImageSize to, Request r = {}) {
    return resized(image, from, whole_box(from), to, r);
}
int largest_difference(const Pixels& a, std::span<const std::uint8_t> b) {
    int largest = 0;
    for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
    return largest;
}

// ---- Cases worked by hand -------------------------------------------------------------------
TEST(CropResize, HalvesARow) {  // antialiased: 3, 3, 1 of 7 and 1, 3, 3 of 7; plain: 1/2, 1/2
    const Pixels row{7, 0, 0, 14, 0, 0, 70, 0, 0, 140, 0, 0};
    EXPECT_THAT(resized(row, {4, 1}, {2, 1}), ElementsAre(19, 0, 0, 92, 0, 0));
    EXPECT_THAT(resized(row, {4, 1}, {2, 1}, {ResizeMode::plain}),
                ElementsAre(11, 0, 0, 105, 0, 0));
}
TEST(CropResize, DoublesARowAlikeInBothModes) {  // centres at -1/4, 1/4, 3/4, 5/4
    for (const ResizeMode mode : {ResizeMode::antialiased, ResizeMode::plain})
        EXPECT_THAT(resized({0, 8, 0, 100, 8, 0}, {2, 1}, {4, 1}, {mode}),
                    ElementsAre(0, 8, 0, 25, 8, 0, 75, 8, 0, 100, 8, 0));
}

// ---- Stored cases of others -------------------------------------------------------------------
TEST(CropResize, AntialiasedHasTheBitsOfPillow) {
    for (const Simd simd : {Simd::portable, best_simd()})
        for (const ResizeCase& c : pillow_bilinear) {
            const ImageSize from{c.width, c.height};
            const Pixels out =
                resized(pattern(from), from, ImageBox{c.box[0], c.box[1], c.box[2], c.box[3]},
                        {c.to_width, c.to_height}, {.simd = simd});
            EXPECT_EQ(hashed(out), c.hash)
                << c.width << " x " << c.height << " to " << c.to_width << " x " << c.to_height;
        }
    EXPECT_THAT(resized(pattern({61, 47}), {61, 47}, {19, 23}), ElementsAreArray(pillow_small));
}
TEST(CropResize, IsWithinOneOfPillowThatResizesVerticallyFirst) {
    EXPECT_LE(largest_difference(resized(pattern({17, 300}), {17, 300}, {33, 7}), pillow_13), 1);
}
TEST(CropResize, IsWithinOneOfTorch) {
    const Pixels image = pattern({61, 47});
    EXPECT_LE(largest_difference(resized(image, {61, 47}, {19, 23}), torch_antialiased), 1);
    EXPECT_LE(
        largest_difference(resized(image, {61, 47}, {19, 23}, {ResizeMode::plain}), torch_plain),
        1);
}
TEST(CropResize, IsWithinOneOfTheLoadersResize) {
    const ImageSize from{61, 47}, to{19, 23};
    const Pixels image = pattern(from);
    Pixels planes(image.size()), small(static_cast<std::size_t>(3 * to.pixels()));
    for (std::size_t i = 0; i < image.size(); ++i)
        planes[i % 3 * (image.size() / 3) + i / 3] = image[i];
    Resize({3, from.height, from.width}, {3, to.height, to.width})(planes.data(), small.data());
    Pixels interleaved(small.size());
    for (std::size_t i = 0; i < small.size(); ++i)
        interleaved[i] = small[i % 3 * (small.size() / 3) + i / 3];
    EXPECT_LE(largest_difference(resized(image, from, to), interleaved), 1);
}

// ---- Properties -------------------------------------------------------------------------------
ImageSize any_size(int most) { return {*rc::gen::inRange(1, most), *rc::gen::inRange(1, most)}; }
Pixels any_pixels(ImageSize size) {
    return *rc::gen::container<Pixels>(static_cast<std::size_t>(3 * size.pixels()),
                                       rc::gen::arbitrary<std::uint8_t>());
}
ResizeMode any_mode() { return *rc::gen::element(ResizeMode::antialiased, ResizeMode::plain); }

TEST(CropResize, HasTheSameBitsOnEveryInstructionSet) {
    EXPECT_TRUE(rc::check([] {
        const ImageSize from = any_size(60), to = any_size(60);
        const Pixels image = any_pixels(from);
        const ResizeMode mode = any_mode();
        const bool mirrored = *rc::gen::arbitrary<bool>();
        RC_ASSERT(resized(image, from, to, {mode, mirrored, Simd::portable}) ==
                  resized(image, from, to, {mode, mirrored, best_simd()}));
    }));
}
TEST(CropResize, PlainIsTheFormulaRounded) {
    EXPECT_TRUE(rc::check([] {
        const ImageSize from = any_size(30), to = any_size(30);
        const Pixels image = any_pixels(from);
        const Pixels out = resized(image, from, to, {ResizeMode::plain});
        for (int y = 0; y < to.height; ++y)
            for (int x = 0; x < to.width; ++x)
                for (int c = 0; c < 3; ++c) {
                    const double cy = std::clamp((y + 0.5) * from.height / to.height - 0.5, 0.0,
                                                 from.height - 1.0);
                    const double cx =
                        std::clamp((x + 0.5) * from.width / to.width - 0.5, 0.0, from.width - 1.0);
                    double sum = 0;
                    for (int i = 0; i < from.height; ++i)
                        for (int k = 0; k < from.width; ++k)
                            sum += std::max(0.0, 1 - std::abs(i - cy)) *
                                   std::max(0.0, 1 - std::abs(k - cx)) *
                                   image[static_cast<std::size_t>(3 * (i * from.width + k) + c)];
                    RC_ASSERT(std::abs(out[static_cast<std::size_t>(3 * (y * to.width + x) + c)] -
                                       sum) <= 0.52);
                }
    }));
}
TEST(CropResize, MirrorsTheOutput) {
    EXPECT_TRUE(rc::check([] {
        const ImageSize from = any_size(40), to = any_size(40);
        const Pixels image = any_pixels(from);
        const ResizeMode mode = any_mode();
        const Pixels straight = resized(image, from, to, {mode}),
                     mirrored = resized(image, from, to, {mode, true});
        for (int y = 0; y < to.height; ++y)
            for (int x = 0; x < to.width; ++x)
                RC_ASSERT(part(straight, to, {x, y, 1, 1}) ==
                          part(mirrored, to, {to.width - 1 - x, y, 1, 1}));
    }));
}
TEST(CropResize, OfOneSizeKeepsTheBits) {
    EXPECT_TRUE(rc::check([] {
        const ImageSize size = any_size(50);
        const Pixels image = any_pixels(size);
        RC_ASSERT(resized(image, size, size, {any_mode()}) == image);
    }));
}
TEST(CropResize, KeepsOneColourWhateverTheSizes) {
    EXPECT_TRUE(rc::check([] {
        const ImageSize from = any_size(300), to = any_size(300);
        const auto level = *rc::gen::arbitrary<std::uint8_t>();
        const Pixels image(static_cast<std::size_t>(3 * from.pixels()), level);
        const Pixels expected(static_cast<std::size_t>(3 * to.pixels()), level);
        RC_ASSERT(resized(image, from, to, {any_mode()}) == expected);
    }));
}
TEST(CropResize, IsCompleteAfterTheRowsItNeeds) {
    EXPECT_TRUE(rc::check([] {
        const ImageSize from = any_size(40), to = any_size(40);
        const Pixels image = any_pixels(from);
        const ResizeMode mode = any_mode();
        const double top = *rc::gen::inRange(0, from.height), height = from.height - top;
        const ImageBox box{0, top, double(from.width), std::ceil(height / 2)};
        Pixels out(static_cast<std::size_t>(3 * to.pixels()), 77);
        CropResize resize;
        resize.begin(from, box, to, mode, false, out.data(), std::size_t(3) * to.width);
        for (int y = 0; y < resize.rows_needed(); ++y)
            resize.push(part(image, from, {0, y, from.width, 1}).data());
        RC_ASSERT(out == resized(image, from, box, to, {mode}));
    }));
}

// ---- Faults -----------------------------------------------------------------------------------
TEST(CropResizeDeathTest, RefusesABoxBesideTheImage) {
    CropResize resize;
    std::uint8_t out[3];
    EXPECT_DEATH(resize.begin({4, 4}, {2, 0, 3, 1}, {1, 1}, ResizeMode::plain, false, out, 3),
                 "lies inside the image");
}

}  // namespace
