#include <gx/image/codec/recipe_decoder.hpp>

#include <algorithm>  // equal

#include <gx/image/codec/recipe.hpp>           // ImageRecipe
#include <gx/loader/formats/image_folder.hpp>  // ImageFolder
#include <gx/loader/formats/record_io.hpp>     // RecordIo
#include <gx/loader/in_memory.hpp>             // InMemory
#include <gx/loader/prefetch.hpp>              // Prefetched

#include <gtest/gtest.h>

#include <image/codec/make_files.hpp>  // jpeg_of, png_of
#include <support/files.hpp>           // Folder, write_text, error_of, holds

namespace {

using namespace gx;
using namespace gx::testing::images;
using namespace testing_support;
namespace fs = std::filesystem;

using Recipe = ImageRecipe<RandomResizedCrop, PcaNoise>;
using Whole = ImageRecipe<WholeImage>;
static_assert(SampleDecoder<RecipeDecoder<Recipe>>);

std::string text_of(const Pixels& bytes) { return {bytes.begin(), bytes.end()}; }
/// Two classes of JPEG files of several sizes.
void make_images(const Folder& folder) {
    for (int i = 0; i < 12; ++i) {
        const ImageSize size{40 + 7 * i, 60 - 2 * i};
        const fs::path below = folder.path / (i % 3 == 0 ? "cat" : "dog");
        fs::create_directories(below);
        write_text(below / (std::to_string(10 + i) + ".jpg"),
                   text_of(jpeg_of(pattern(size), size)));
    }
}

TEST(RecipeDecoder, ShowsWhatTheRecipeShowsAsPlanes) {
    const Folder folder;
    make_images(folder);
    const Recipe recipe({.to = {24, 16}, .seed = 9});
    const ImageFolder files(folder.path);
    const Decoded source(files, RecipeDecoder(recipe), {.workers = 3});
    EXPECT_EQ(source.info().shape, (ImageShape{3, 16, 24}));
    const auto reader = source.open();
    const auto encoded = files.open();
    for (const int epoch : {0, 5}) {
        reader->begin_epoch(epoch);
        std::vector<Sample> samples(3);
        const std::vector<std::uint32_t> indices{3, 0, 7};
        reader->read(indices, samples);
        for (std::size_t i = 0; i < 3; ++i) {
            EncodedSample file;
            encoded->read({&indices[i], 1}, {&file, 1});
            CropDecoder decoder;
            Pixels expected(3 * 24 * 16);
            recipe(decoder, file.bytes, "x", epoch, indices[i], expected.data());
            EXPECT_EQ(samples[i].label, file.label);
            for (std::size_t p = 0; p < 24 * 16; ++p)
                for (std::size_t c = 0; c < 3; ++c)
                    ASSERT_EQ(samples[i].pixels[c * 24 * 16 + p], expected[3 * p + c]) << i;
        }
    }
}
TEST(RecipeDecoder, LoadersShowTheSameFromFilesAndFromRecords) {
    const Folder folder;
    make_images(folder);
    const ImageFolder files(folder.path);
    RecordIoWriter writer(folder / "a.rec");
    const auto reader = files.open();
    for (std::uint32_t i = 0; i < 12; ++i) {
        EncodedSample s;
        reader->read({&i, 1}, {&s, 1});
        writer.add(s.bytes, s.label, "");
    }
    writer.commit();
    const RecipeDecoder decoder(Recipe({.to = {16, 16}, .seed = 9}));
    const Decoded from_files(files, decoder, {.workers = 2});
    const Decoded from_records(RecordIo(folder / "a.rec"), decoder);
    const LoaderOptions o{.batch = 5, .seed = 3, .pixels = true};
    Prefetched<InMemory<>> a(from_files, o), b(from_records, o);
    for (const int epoch : {0, 1}) {
        a.begin_epoch(epoch);
        b.begin_epoch(epoch);
        for (std::int64_t s = 0; s < a.steps_per_epoch(); ++s) {
            const RankBatch x = a.next(), y = b.next();
            EXPECT_TRUE(std::ranges::equal(x.batch.pixels, y.batch.pixels));
            EXPECT_TRUE(std::ranges::equal(x.batch.labels, y.batch.labels));
        }
    }
}
TEST(RecipeDecoder, NamesTheFileThatItCannotDecode) {
    const Folder folder;
    make_images(folder);
    write_text(folder / "cat/99.jpg", "no image");
    const ImageFolder files(folder.path);
    const auto last_cat = std::uint32_t(4);
    std::vector<Sample> samples(1);
    const RecipeDecoder decoder(Whole({.to = {16, 16}}));
    const Decoded stops(files, decoder);
    EXPECT_TRUE(
        holds(error_of([&] { stops.open()->read({&last_cat, 1}, samples); }), "cat/99.jpg"));
    const Decoded skips(files, decoder, {.on_corrupt = OnCorrupt::skip});
    const std::vector<std::uint32_t> two{4, 5};
    samples.resize(2);
    const auto reader = skips.open();
    reader->read(two, samples);
    const std::size_t bytes = 3 * 16 * 16;
    EXPECT_TRUE(std::equal(samples[0].pixels, samples[0].pixels + bytes, samples[1].pixels))
        << "the one behind it, in its place";
    EXPECT_EQ(samples[0].label, samples[1].label);
    EXPECT_EQ(skips.skipped().count, 1);
}

}  // namespace
