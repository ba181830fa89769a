#include <gx/image/codec/jpeg.hpp>

#include <atomic>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <gx/core/error.hpp>
#include <image/codec/make_files.hpp>
#include <image/image_fixture.hpp>
#include <support/counted_new.hpp>

static std::atomic<int> allocations{0};
void testing_support::note_allocation(std::size_t, const void*) noexcept { ++allocations; }

namespace {

using namespace gx;
using namespace gx::testing::images;
using ::testing::HasSubstr;

Pixels decoded(JpegDecoder& decoder, const Pixels& file, ImageRegion region, int eighths = 8) {
    decoder.open(file, "x.jpg");
    decoder.begin(region, eighths);
    Pixels image;
    for (ImageRows rows = decoder.next(); rows.count > 0; rows = decoder.next())
        for (int i = 0; i < rows.count; ++i) {
            const std::uint8_t* row = rows.pixels + rows.stride * static_cast<std::size_t>(i);
            image.insert(image.end(), row, row + 3 * region.width);
        }
    return image;
}
Pixels decoded(JpegDecoder& decoder, const Pixels& file) {
    const ImageSize size = decoder.open(file, "x.jpg").size;
    return decoded(decoder, file, whole(size));
}
std::string error_of(const Pixels& file, DecodeOptions options = {}) {
    JpegDecoder decoder(options);
    try {
        decoded(decoder, file);
    } catch (const Error& e) {
        return e.what();
    }
    return {};
}
/// The size in the header of a baseline or progressive file.
void set_size(Pixels& file, ImageSize size) {
    for (std::size_t i = 0; i + 9 < file.size(); ++i) {
        if (file[i] != 0xff || (file[i + 1] != 0xc0 && file[i + 1] != 0xc2)) continue;
        file[i + 5] = static_cast<std::uint8_t>(size.height >> 8);
        file[i + 6] = static_cast<std::uint8_t>(size.height);
        file[i + 7] = static_cast<std::uint8_t>(size.width >> 8);
        file[i + 8] = static_cast<std::uint8_t>(size.width);
        return;
    }
}

// ---- Stored cases of others -------------------------------------------------------------------
TEST(JpegDecoder, HasThePixelsOfPillow) {
    JpegDecoder decoder;  // one for all
    for (const FileCase& c : files) {
        if (std::string_view(c.name).starts_with("png")) continue;
        const Pixels file(c.bytes, c.bytes + c.count);
        const ImageHeader header = decoder.open(file, c.name);
        EXPECT_EQ(header.size, (ImageSize{c.width, c.height})) << c.name;
        EXPECT_EQ(header.channels, c.channels) << c.name;
        EXPECT_EQ(hashed(decoded(decoder, file)), c.hash) << c.name;
        EXPECT_EQ(decoder.warnings(), 0) << c.name;
    }
}
TEST(JpegDecoder, ReadsOrientationsOnRequest) {
    JpegDecoder decoder({.orient = true}), upright;
    int orientation = 1;
    for (const FileCase& c : turned) {
        EXPECT_EQ(decoder.open({c.bytes, c.count}, c.name).orientation, orientation++);
        EXPECT_EQ(upright.open({c.bytes, c.count}, c.name).orientation, 1);
    }
}

// ---- Properties -------------------------------------------------------------------------------
JpegKind any_kind() {
    const int horizontal = *rc::gen::element(1, 2, 2, 4);
    return {.quality = *rc::gen::inRange(5, 100),
            .horizontal = horizontal,
            .vertical = horizontal == 4 ? *rc::gen::element(1, 2) : *rc::gen::element(1, 2, 2, 4),
            .progressive = *rc::gen::arbitrary<bool>(),
            .restart_rows = *rc::gen::inRange(0, 3)};
}
ImageRegion any_region(ImageSize size) {
    const int left = *rc::gen::inRange(0, size.width), top = *rc::gen::inRange(0, size.height);
    return {left, top, *rc::gen::inRange(1, size.width - left + 1),
            *rc::gen::inRange(1, size.height - top + 1)};
}

TEST(JpegDecoder, DecodesARegionAsTheWhole) {
    JpegDecoder decoder;
    EXPECT_TRUE(rc::check([&decoder] {
        const ImageSize size{*rc::gen::inRange(1, 150), *rc::gen::inRange(1, 150)};
        const Pixels file = jpeg_of(pattern(size), size, any_kind());
        const int eighths = *rc::gen::element(1, 2, 4, 8, 8, 8);
        const ImageSize scaled = JpegDecoder::scaled(size, eighths);
        const Pixels image = decoded_by_libjpeg(file, eighths);
        RC_ASSERT(image.size() == static_cast<std::size_t>(3 * scaled.pixels()));
        for (int i = 0; i < 10; ++i) {
            const ImageRegion region = any_region(scaled);
            RC_ASSERT(decoded(decoder, file, region, eighths) == part(image, scaled, region));
        }
        RC_ASSERT(decoder.warnings() == 0);
    }));
}
TEST(JpegDecoder, TakesNoHarmFromDamage) {
    EXPECT_TRUE(rc::check([] {
        const ImageSize size{*rc::gen::inRange(1, 80), *rc::gen::inRange(1, 80)};
        Pixels file = jpeg_of(pattern(size), size, any_kind());
        const Pixels good = file;
        const int flips = *rc::gen::inRange(1, 20);
        for (int i = 0; i < flips; ++i) {
            const auto at = *rc::gen::inRange(std::size_t{0}, file.size());
            file[at] = *rc::gen::arbitrary<std::uint8_t>();
        }
        JpegDecoder decoder({.damage = *rc::gen::element(DamageLimit::truncated, DamageLimit::any,
                                                         DamageLimit::none),
                             .pixels_max = 10'000'000});
        for (int i = 0; i < 3; ++i) {
            try {
                const ImageSize claimed = decoder.open(file, "x.jpg").size;
                decoded(decoder, file, any_region(claimed));
            } catch (const Error&) {
            }
        }
        RC_ASSERT(decoded(decoder, good) == decoded_by_libjpeg(good));
    }));
}

// ---- Faults -----------------------------------------------------------------------------------
TEST(JpegDecoder, RefusesEveryTruncatedFile) {
    const ImageSize size{40, 40};
    for (const bool progressive : {false, true}) {
        Pixels file = jpeg_of(pattern(size), size, {.progressive = progressive});
        const Pixels all = decoded_by_libjpeg(file);
        file.resize(file.size() - 2);  // the last marker
        for (; !file.empty(); file.resize(file.size() - 1 - file.size() / 50))
            EXPECT_THAT(error_of(file), HasSubstr("x.jpg: truncated JPEG")) << file.size();
    }
}
TEST(JpegDecoder, DecodesWhatIsThereOfATruncatedFileOnRequest) {
    const ImageSize size{64, 64};
    Pixels file = jpeg_of(pattern(size), size);
    const Pixels whole_image = decoded_by_libjpeg(file);
    file.resize(file.size() * 3 / 4);
    JpegDecoder decoder({.damage = DamageLimit::none});
    const Pixels image = decoded(decoder, file);
    EXPECT_GT(decoder.warnings(), 0);
    EXPECT_EQ(part(image, size, {0, 0, 64, 15}), part(whole_image, size, {0, 0, 64, 15}));
    EXPECT_NE(image, whole_image);
}
TEST(JpegDecoder, NeedsNothingBelowARegion) {
    const ImageSize size{64, 256};
    Pixels file = jpeg_of(pattern(size), size);
    const Pixels image = decoded_by_libjpeg(file);
    file.resize(file.size() / 2);
    JpegDecoder decoder;
    EXPECT_EQ(decoded(decoder, file, {8, 8, 50, 40}), part(image, size, {8, 8, 50, 40}));
}
TEST(JpegDecoder, CountsWarningsOrTakesThemAsErrors) {
    const ImageSize size{64, 64};
    Pixels file = jpeg_of(pattern(size), size, {.restart_rows = 1});
    for (std::size_t i = 300; i + 1 < file.size(); ++i)  // a restart marker that is not the next
        if (file[i] == 0xff && file[i + 1] == 0xd1) file[i + 1] = 0xd3;
    JpegDecoder decoder;
    EXPECT_EQ(decoded(decoder, file).size(), 3u * 64 * 64);
    EXPECT_GT(decoder.warnings(), 0);
    EXPECT_EQ(decoded(decoder, jpeg_of(pattern(size), size)).size(), 3u * 64 * 64);
    EXPECT_EQ(decoder.warnings(), 0);
    EXPECT_THAT(error_of(file, {.damage = DamageLimit::any}), HasSubstr("x.jpg: damaged JPEG: "));
}
TEST(JpegDecoder, RefusesBombs) {
    Pixels file = jpeg_of(pattern({16, 16}), {16, 16});
    set_size(file, {20'000, 20'000});
    EXPECT_THAT(error_of(file), HasSubstr("decompression bomb: 20000 x 20000 pixels, and at most "
                                          "178956970 are decoded"));
    JpegDecoder decoder({.pixels_max = 400'000'000});
    EXPECT_EQ(decoder.open(file, "x.jpg").size, (ImageSize{20'000, 20'000}));
    EXPECT_LT(decoder.bytes(), 200'000u);

    Pixels progressive = jpeg_of(pattern({16, 16}), {16, 16}, {.progressive = true});
    std::size_t last = 0;  // the last scan, again and again
    for (std::size_t i = 0; i + 1 < progressive.size(); ++i)
        if (progressive[i] == 0xff && progressive[i + 1] == 0xda) last = i;
    const Pixels scan(progressive.begin() + std::ptrdiff_t(last), progressive.end() - 2);
    for (int i = 0; i < 600; ++i)
        progressive.insert(progressive.end() - 2, scan.begin(), scan.end());
    EXPECT_THAT(error_of(progressive), HasSubstr("decompression bomb: a JPEG of more than 500"));
}
TEST(JpegDecoder, NamesWhatIsNoJpeg) {
    EXPECT_THAT(error_of({'n', 'o', 't', ' ', 'o', 'n', 'e'}),
                HasSubstr("x.jpg: no JPEG that can"));
    EXPECT_THAT(error_of({}), HasSubstr("x.jpg: "));
}

// ---- Cost -------------------------------------------------------------------------------------
TEST(JpegDecoder, AllocatesNothingForAnImageLikeThoseBefore) {
    for (const bool progressive : {false, true}) {
        const ImageSize size{200, 150};
        const Pixels file = jpeg_of(pattern(size), size, {.progressive = progressive});
        JpegDecoder decoder;
        const auto decode = [&] {
            decoder.open(file, "x.jpg");
            decoder.begin({20, 10, 150, 120});
            while (decoder.next().count > 0) continue;
        };
        decode();
        decode();
        const std::size_t bytes = decoder.bytes();
        const int before = allocations;
        for (int i = 0; i < 5; ++i) decode();
        EXPECT_EQ(allocations - before, 0);
        EXPECT_EQ(decoder.bytes(), bytes);
    }
}

/// libjpeg-turbo's vector code writes rows on multiples of 16 or 32 bytes past the caches, and what
/// reads them waits for memory.
TEST(JpegDecoder, HasRowsThatAreNotAligned) {
    JpegDecoder decoder;
    for (const int width : {64, 65, 200}) {
        const ImageSize size{width, 40};
        const Pixels file = jpeg_of(pattern(size), size);
        decoder.open(file, "x.jpg");
        decoder.begin(whole(size));
        for (ImageRows rows = decoder.next(); rows.count > 0; rows = decoder.next())
            for (int i = 0; i < rows.count; ++i) {
                const std::uint8_t* row = rows.pixels + rows.stride * static_cast<std::size_t>(i);
                EXPECT_NE(reinterpret_cast<std::uintptr_t>(row) % 16, 0u);
            }
    }
}

}  // namespace
