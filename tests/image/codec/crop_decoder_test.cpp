#include <gx/image/codec/crop_decoder.hpp>

#include <cmath>
#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <gx/core/error.hpp>
#include <gx/image/crop.hpp>
#include <image/codec/make_files.hpp>
#include <image/image_fixture.hpp>

namespace {

using namespace gx;
using namespace gx::testing::images;
using ::testing::HasSubstr;

Pixels decoded(CropDecoder& decoder, std::span<const std::uint8_t> file) {
    const ImageSize size = decoder.open(file, "x");
    Pixels image(static_cast<std::size_t>(3 * size.pixels()));
    decoder.decode(whole(size), image.data());
    return image;
}
std::string error_of(std::span<const std::uint8_t> file) {
    CropDecoder decoder;
    try {
        decoder.open(file, "train/7.jpg");
    } catch (const Error& e) {
        return e.what();
    }
    return {};
}
ImageRegion any_region(ImageSize size) {
    const int left = *rc::gen::inRange(0, size.width), top = *rc::gen::inRange(0, size.height);
    return {left, top, *rc::gen::inRange(1, size.width - left + 1),
            *rc::gen::inRange(1, size.height - top + 1)};
}

// ---- Stored cases of others -------------------------------------------------------------------
TEST(CropDecoder, TakesEitherFormatInAnyOrder) {
    CropDecoder decoder;
    for (int turns = 0; turns < 2; ++turns)
        for (const FileCase& c : files)
            EXPECT_EQ(hashed(decoded(decoder, {c.bytes, c.count})), c.hash) << c.name;
}
TEST(CropDecoder, TurnsImagesAsExifSays) {
    CropDecoder decoder({.orient = true});
    for (const FileCase& c : turned) {
        EXPECT_EQ(hashed(decoded(decoder, {c.bytes, c.count})), c.hash) << c.name;
        EXPECT_EQ(decoder.header().size, (ImageSize{c.width, c.height}));
    }
}

// ---- Properties -------------------------------------------------------------------------------
TEST(CropDecoder, ResizesARegionAsThatOfTheWholeImage) {
    CropDecoder decoder, orienting({.orient = true});
    EXPECT_TRUE(rc::check([&] {
        const bool turn = *rc::gen::arbitrary<bool>();
        Pixels file;
        if (turn) {
            const FileCase& c = turned[static_cast<std::size_t>(*rc::gen::inRange(0, 8))];
            file.assign(c.bytes, c.bytes + c.count);
        } else {
            const ImageSize stored{*rc::gen::inRange(1, 90), *rc::gen::inRange(1, 90)};
            const Pixels image = pattern(stored);
            file = *rc::gen::arbitrary<bool>() ? png_of(image, stored) : jpeg_of(image, stored);
        }
        CropDecoder& used = turn ? orienting : decoder;
        const Pixels image = decoded(used, file);
        const ImageSize size = used.open(file, "x");
        const ImageSize to{*rc::gen::inRange(1, 60), *rc::gen::inRange(1, 60)};
        const CropOptions o{*rc::gen::element(ResizeMode::antialiased, ResizeMode::plain),
                            *rc::gen::arbitrary<bool>()};
        const ImageRegion region = any_region(size);
        Pixels out(static_cast<std::size_t>(3 * to.pixels())), expected(out.size());
        used.resize(region, to, o, out.data());
        CropResize()(part(image, size, region).data(), region.size(), to, o.mode, o.mirrored,
                     expected.data());
        RC_ASSERT(out == expected);
    }));
}

TEST(CropDecoder, ShowsTheCentreAsOfTheWholeImageResized) {
    CropDecoder decoder;
    EXPECT_TRUE(rc::check([&] {
        const ImageSize size{*rc::gen::inRange(1, 200), *rc::gen::inRange(1, 200)};
        const Pixels file = jpeg_of(pattern(size), size);
        const Pixels image = decoded(decoder, file);
        const ImageSize to{*rc::gen::inRange(1, 64), *rc::gen::inRange(1, 64)};
        const ImageBox box = centre_box(size, *rc::gen::inRange(8, 80), to);
        const CropOptions o{*rc::gen::element(ResizeMode::antialiased, ResizeMode::plain),
                            *rc::gen::arbitrary<bool>()};
        Pixels out(static_cast<std::size_t>(3 * to.pixels())), expected(out.size());
        CropResize resize;
        resize.begin(size, box, to, o.mode, o.mirrored, expected.data(), std::size_t(3) * to.width);
        for (int y = 0; y < size.height; ++y)
            resize.push(&image[static_cast<std::size_t>(3 * size.width * y)]);
        decoder.open(file, "x");
        decoder.resize_box(box, to, o, out.data());
        for (std::size_t i = 0; i < out.size(); ++i)  // borders of boxes are rounded elsewhere
            RC_ASSERT(std::abs(out[i] - expected[i]) <= 1);
    }));
}

// ---- Scaled decoding --------------------------------------------------------------------------
/// A smooth image with some texture, as photographs have it, in whole numbers.
Pixels photograph(ImageSize size) {
    Pixels pixels;
    for (int y = 0; y < size.height; ++y)
        for (int x = 0; x < size.width; ++x)
            for (int c = 0; c < 3; ++c)
                pixels.push_back(static_cast<std::uint8_t>(
                    128 + 60 * std::sin(x * 0.02 + c) + 40 * std::sin(y * 0.05 + x * 0.03) +
                    12 * std::sin(x * 0.9 + y * 1.1) + (x / 80 + y / 60) % 2 * 10));
    return pixels;
}
TEST(CropDecoder, ScaledDecodingStaysWithinItsBound) {
    const ImageSize size{1000, 800}, to{100, 100};
    const Pixels file = jpeg_of(photograph(size), size);
    CropDecoder decoder;
    const auto shown = [&](ResizeMode mode, double gap) {
        Pixels out(static_cast<std::size_t>(3 * to.pixels()));
        decoder.open(file, "x");
        decoder.resize({101, 55, 803, 602}, to, {.mode = mode, .reducing_gap = gap}, out.data());
        return out;
    };
    const Pixels exact = shown(ResizeMode::antialiased, 0);
    const auto largest = [&](const Pixels& out) {
        int difference = 0;
        for (std::size_t i = 0; i < out.size(); ++i)
            difference = std::max(difference, std::abs(out[i] - exact[i]));
        return difference;
    };
    EXPECT_NE(shown(ResizeMode::antialiased, 1), exact);
    EXPECT_LE(largest(shown(ResizeMode::antialiased, 3)), 2);
    EXPECT_LE(largest(shown(ResizeMode::antialiased, 2)), 2);
    EXPECT_LE(largest(shown(ResizeMode::antialiased, 1)), 4);
    EXPECT_EQ(shown(ResizeMode::antialiased, 7), exact) << "no scale leaves 7 times the pixels";
}
/// Its colour is at a quarter of the scaled width: libjpeg doubles both sides of it, or neither.
TEST(CropDecoder, ScaledDecodingOf411HasABoundOfItsOwn) {
    const ImageSize size{1000, 800}, to{100, 100};
    const Pixels file = jpeg_of(photograph(size), size, {.horizontal = 4, .vertical = 1});
    CropDecoder decoder;
    const auto shown = [&](double gap) {
        Pixels out(static_cast<std::size_t>(3 * to.pixels()));
        decoder.open(file, "x");
        decoder.resize({.width = 1000, .height = 800}, to, {.reducing_gap = gap}, out.data());
        return out;
    };
    const Pixels exact = shown(0);
    for (const auto& [gap, most] : {std::pair{1, 14}, {2, 3}}) {
        const Pixels out = shown(gap);
        for (std::size_t i = 0; i < out.size(); ++i)
            ASSERT_LE(std::abs(out[i] - exact[i]), most) << gap;
    }
}
TEST(CropDecoder, ScalesByTheGap) {
    using detail::image::eighths_for;
    EXPECT_EQ(eighths_for({800, 800}, {100, 100}, 0), 8);
    EXPECT_EQ(eighths_for({800, 800}, {100, 100}, 1), 1);
    EXPECT_EQ(eighths_for({799, 800}, {100, 100}, 1), 2);
    EXPECT_EQ(eighths_for({800, 800}, {100, 100}, 2), 2);
    EXPECT_EQ(eighths_for({800, 800}, {100, 100}, 3), 4);
    EXPECT_EQ(eighths_for({800, 500}, {100, 100}, 3), 8);
}

// ---- Faults -----------------------------------------------------------------------------------
TEST(CropDecoder, NamesWhatIsNoImage) {
    EXPECT_THAT(error_of({}), HasSubstr("train/7.jpg: an image of 0 bytes"));
    const Pixels text{'G', 'I', 'F', '8'};
    EXPECT_THAT(error_of(text), HasSubstr("train/7.jpg: neither a JPEG nor a PNG"));
    const Pixels start{0xff, 0xd8};
    EXPECT_THAT(error_of(start), HasSubstr("train/7.jpg: truncated JPEG"));
}

}  // namespace
