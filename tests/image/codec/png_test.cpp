#include <gx/image/codec/png.hpp>

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <zlib.h>

#include <gx/core/error.hpp>
#include <image/codec/make_files.hpp>
#include <image/image_fixture.hpp>

namespace {

using namespace gx;
using namespace gx::testing::images;
using ::testing::HasSubstr;

Pixels decoded(PngDecoder& decoder, const Pixels& file, ImageRegion region) {
    decoder.open(file, "x.png");
    decoder.begin(region);
    Pixels image;
    for (ImageRows rows = decoder.next(); rows.count > 0; rows = decoder.next())
        for (int i = 0; i < rows.count; ++i) {
            const std::uint8_t* row = rows.pixels + rows.stride * static_cast<std::size_t>(i);
            image.insert(image.end(), row, row + 3 * region.width);
        }
    return image;
}
Pixels decoded(PngDecoder& decoder, const Pixels& file) {
    return decoded(decoder, file, whole(decoder.open(file, "x.png").size));
}
std::string error_of(const Pixels& file, DecodeOptions options = {}) {
    PngDecoder decoder(options);
    try {
        decoded(decoder, file);
    } catch (const Error& e) {
        return e.what();
    }
    return {};
}

// ---- Stored cases of others -------------------------------------------------------------------
TEST(PngDecoder, HasThePixelsOfPillow) {
    PngDecoder decoder;  // one for all
    int cases = 0;
    for (const FileCase& c : files) {
        if (!std::string_view(c.name).starts_with("png")) continue;
        const Pixels file(c.bytes, c.bytes + c.count);
        const ImageHeader header = decoder.open(file, c.name);
        EXPECT_EQ(header.size, (ImageSize{c.width, c.height})) << c.name;
        EXPECT_EQ(header.channels, c.channels) << c.name;
        EXPECT_EQ(hashed(decoded(decoder, file)), c.hash) << c.name;
        ++cases;
    }
    EXPECT_EQ(cases, 8);
}

/// A file of a few kilobytes with texts that unpack to as much as a chunk may.
TEST(PngDecoder, UnpacksNoTexts) {
    const ImageSize size{3, 2};
    const Pixels image = pattern(size), plain = png_of(image, size, {});
    const std::vector<std::uint8_t> text(7'900'000, 'x');
    Pixels data{'z', 'T', 'X', 't', 'k', 0, 0};
    std::vector<std::uint8_t> packed(::compressBound(text.size()));
    uLongf count = packed.size();
    ASSERT_EQ(::compress(packed.data(), &count, text.data(), text.size()), Z_OK);
    data.insert(data.end(), packed.begin(), packed.begin() + std::ptrdiff_t(count));
    Pixels chunk;
    const auto put = [&](std::uint32_t n) {
        for (const int shift : {24, 16, 8, 0}) chunk.push_back(std::uint8_t(n >> shift));
    };
    put(std::uint32_t(data.size() - 4));
    chunk.insert(chunk.end(), data.begin(), data.end());
    put(std::uint32_t(::crc32_z(0, data.data(), data.size())));
    Pixels file = plain;
    constexpr std::ptrdiff_t behind_header = 33;
    for (int i = 0; i < 5; ++i)
        file.insert(file.begin() + behind_header, chunk.begin(), chunk.end());
    PngDecoder decoder;
    EXPECT_EQ(decoded(decoder, file), image);
    EXPECT_LT(decoder.bytes(), 1'000'000u);
}

// ---- Properties -------------------------------------------------------------------------------
TEST(PngDecoder, DecodesARegionOfEveryKindAsItWasWritten) {
    PngDecoder decoder;
    EXPECT_TRUE(rc::check([&decoder] {
        const ImageSize size{*rc::gen::inRange(1, 70), *rc::gen::inRange(1, 70)};
        const bool wide = *rc::gen::arbitrary<bool>(), grey = *rc::gen::arbitrary<bool>(),
                   alpha = *rc::gen::arbitrary<bool>();
        const Pixels colours = pattern(size);
        Pixels rows, expected;
        for (std::size_t i = 0; i < colours.size(); i += 3) {
            for (std::size_t c = 0; c < 3; ++c) {
                expected.push_back(colours[grey ? i : i + c]);
                if (grey && c > 0) continue;
                rows.push_back(colours[i + c]);
                if (wide) rows.push_back(*rc::gen::element<std::uint8_t>(0, 127, 128, 255));
            }
            if (alpha) rows.insert(rows.end(), wide ? 2 : 1, std::uint8_t(i));
        }
        const Pixels file = png_of(
            rows, size,
            {.colour = (grey ? 0 : PNG_COLOR_MASK_COLOR) | (alpha ? PNG_COLOR_MASK_ALPHA : 0),
             .bits = wide ? 16 : 8,
             .interlaced = *rc::gen::arbitrary<bool>()});
        for (int i = 0; i < 5; ++i) {
            const int left = *rc::gen::inRange(0, size.width);
            const int top = *rc::gen::inRange(0, size.height);
            const ImageRegion region{left, top, *rc::gen::inRange(1, size.width - left + 1),
                                     *rc::gen::inRange(1, size.height - top + 1)};
            RC_ASSERT(decoded(decoder, file, region) == part(expected, size, region));
        }
    }));
}
TEST(PngDecoder, TakesNoHarmFromDamage) {
    EXPECT_TRUE(rc::check([] {
        const ImageSize size{*rc::gen::inRange(1, 40), *rc::gen::inRange(1, 40)};
        const Pixels image = pattern(size);
        const Pixels good = png_of(image, size, {.interlaced = *rc::gen::arbitrary<bool>()});
        Pixels file = good;
        const int flips = *rc::gen::inRange(1, 10);
        for (int i = 0; i < flips; ++i)
            file[*rc::gen::inRange(std::size_t{0}, file.size())] =
                *rc::gen::arbitrary<std::uint8_t>();
        PngDecoder decoder({.orient = true, .pixels_max = 10'000'000});
        for (int i = 0; i < 3; ++i) {
            try {
                decoded(decoder, file);
            } catch (const Error&) {
            }
        }
        RC_ASSERT(decoded(decoder, good) == image);
    }));
}

// ---- Faults -----------------------------------------------------------------------------------
TEST(PngDecoder, RefusesEveryTruncatedFile) {
    const ImageSize size{40, 40};
    for (const bool interlaced : {false, true}) {
        Pixels file = png_of(pattern(size), size, {.interlaced = interlaced});
        file.resize(file.size() - 20);  // the last chunk, and a check sum
        for (; file.size() > 8; file.resize(file.size() - 1 - file.size() / 50))
            EXPECT_THAT(error_of(file), HasSubstr("x.png: truncated PNG")) << file.size();
    }
}
TEST(PngDecoder, RefusesBombsAndWrongSums) {
    Pixels file = png_of(pattern({16, 16}), {16, 16});
    EXPECT_THAT(error_of(file, {.pixels_max = 255}),
                HasSubstr("x.png: decompression bomb: 16 x 16 pixels, and at most 255"));
    EXPECT_EQ(error_of(file, {.pixels_max = 256}), "");
    file[20] ^= 1;
    EXPECT_THAT(error_of(file), HasSubstr("x.png: no PNG that can be decoded: IHDR: CRC error"));
}

/// A file of a few hundred bytes whose header says `size`.
Pixels claiming(ImageSize size, bool interlaced) {
    Pixels file = png_of(pattern({16, 16}), {16, 16}, {.interlaced = interlaced});
    const auto put = [&file](std::size_t at, std::uint32_t x) {
        for (int i = 0; i < 4; ++i) file[at + 3 - std::size_t(i)] = std::uint8_t(x >> (8 * i));
    };
    put(16, static_cast<std::uint32_t>(size.width));
    put(20, static_cast<std::uint32_t>(size.height));
    put(29, static_cast<std::uint32_t>(::crc32(0, &file[12], 17)));
    return file;
}
TEST(PngDecoder, TakesNoMoreMemoryThanItsPixelsForWhatAHeaderClaims) {
    constexpr int side = 4'000'000;
    struct Claim {
        ImageSize size;
        bool interlaced;
    };
    for (const Claim claim : {Claim{{side, 1}, false}, {{side, 1}, true}, {{1, side}, true}}) {
        PngDecoder decoder;
        const Pixels file = claiming(claim.size, claim.interlaced);
        EXPECT_THROW(decoded(decoder, file), Error);
        EXPECT_LE(decoder.bytes(), std::size_t{6} * 3 * side) << claim.size.width;
    }
}
TEST(PngDecoder, RefusesExifOfMoreThanItsLimit) {
    Pixels file = png_of(pattern({16, 16}), {16, 16});
    constexpr std::uint8_t exif[] = {0x10, 0, 0, 0, 'e', 'X', 'I', 'f', 'I', 'I', 42, 0};
    file.insert(file.begin() + 33, std::begin(exif), std::end(exif));
    PngDecoder decoder({.orient = true});
    EXPECT_THROW(decoded(decoder, file), Error);
    EXPECT_LE(decoder.bytes(), std::size_t{16} << 20);
}

// ---- Cost -------------------------------------------------------------------------------------
TEST(PngDecoder, KeepsItsMemory) {
    PngDecoder decoder;
    const Pixels file = png_of(pattern({200, 150}), {200, 150});
    decoded(decoder, file);
    decoded(decoder, file);
    const std::size_t bytes = decoder.bytes();
    for (int i = 0; i < 5; ++i) decoded(decoder, file);
    EXPECT_EQ(decoder.bytes(), bytes);
}

}  // namespace
