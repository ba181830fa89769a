#include <gx/image/codec/recipe.hpp>

#include <set>
#include <thread>

#include <gtest/gtest.h>

#include <image/codec/make_files.hpp>

namespace {

using namespace gx;
using namespace gx::testing::images;

using Mxnet = ImageRecipe<RandomResizedCrop, HslJitter, PcaNoise>;
constexpr ImageSize size{90, 70}, to{32, 32};

Pixels shown(const auto& recipe, CropDecoder& decoder, int epoch, std::uint64_t sample) {
    static const Pixels file = jpeg_of(pattern(size), size);
    Pixels out(3 * 32 * 32);
    recipe(decoder, file, "x.jpg", epoch, sample, out.data());
    return out;
}

// In braces, and first in this file: g++ 12 broke where nothing before had made such a tuple.
TEST(ByEpoch, HasAreasByEpochAndChangesInEach) {
    using Train = ImageRecipe<RandomResizedCrop, ColourJitter>;
    const ByEpoch<Train> both(
        {{0, {.to = to, .crop = {.area_min = 0.08}}}, {2, {.to = to, .crop = {.area_min = 0.5}}}});
    const Train small({.to = to, .crop = {.area_min = 0.08}});
    const Train large({.to = to, .crop = {.area_min = 0.5}});
    CropDecoder decoder;
    EXPECT_EQ(shown(both, decoder, 1, 3), shown(small, decoder, 1, 3));
    EXPECT_EQ(shown(both, decoder, 2, 3), shown(large, decoder, 2, 3));
    EXPECT_NE(shown(both, decoder, 2, 3), shown(small, decoder, 2, 3));
}

// Every option changes the hash, one at a time; so do other types of the same values.
TEST(ImageRecipe, HasAHashOfAllItsOptions) {
    using Recipe = ImageRecipe<MxnetRandomResizedCrop, ColourJitter, PcaNoise>;
    std::vector<std::uint64_t> hashes{Recipe().hash()};
    EXPECT_EQ(hashes[0], Recipe(Recipe::Options{}).hash());
    const auto with = [&](auto change) {
        Recipe::Options o{};
        change(o);
        hashes.push_back(Recipe(o).hash());
    };
    with([](auto& o) { o.to.width = 225; });
    with([](auto& o) { o.to.height = 225; });
    with([](auto& o) { o.crop.to.height = 225; });
    with([](auto& o) { o.crop.area_min = 0.35; });
    with([](auto& o) { o.crop.aspect_max = 1.5; });
    with([](auto& o) { std::get<0>(o.changes).brightness = 0.5f; });
    with([](auto& o) { std::get<0>(o.changes).contrast = 0.5f; });
    with([](auto& o) { std::get<1>(o.changes).deviation = 0.2; });
    with([](auto& o) { o.flip = false; });
    with([](auto& o) { o.mode = ResizeMode::plain; });
    with([](auto& o) { o.reducing_gap = 2; });
    with([](auto& o) { o.seed = 1; });
    hashes.push_back(ImageRecipe<MxnetRandomResizedCrop, PcaNoise, ColourJitter>().hash());
    hashes.push_back(ImageRecipe<MxnetRandomResizedCrop, ColourJitter>().hash());
    hashes.push_back(ImageRecipe<RandomResizedCrop>().hash());
    hashes.push_back(ImageRecipe<WholeImage>().hash());
    hashes.push_back(CentreRecipe().hash());
    hashes.push_back(CentreRecipe({.shorter = 257}).hash());
    hashes.push_back(CentreRecipe({.rectangular = true}).hash());
    using Areas = ImageRecipe<RandomResizedCrop>;
    const auto hash_of = [](std::vector<ByEpoch<Areas>::From> parts) {
        return ByEpoch<Areas>(std::move(parts)).hash();
    };
    EXPECT_EQ(hash_of({{0, {}}}), Areas().hash());
    hashes.push_back(hash_of({{0, {}}, {5, {}}}));
    hashes.push_back(hash_of({{0, {}}, {6, {}}}));
    hashes.push_back(hash_of({{0, {}}, {5, {.crop = {.area_min = 0.35}}}}));
    EXPECT_EQ(std::set(hashes.begin(), hashes.end()).size(), hashes.size());
}

// Crops that are no plain aggregates say themselves what they depend on.
struct Halved : RandomResizedCrop {
    explicit Halved(double least = 0.5) { area_min = least; }
    [[nodiscard]] std::uint64_t hash() const { return hash_fields(golden64, area_min); }
};
TEST(ImageRecipe, HashesWhatACropSaysOfItself) {
    using Recipe = ImageRecipe<Halved>;
    Recipe::Options other{};
    other.crop = Halved(0.25);
    EXPECT_EQ(Recipe().hash(), Recipe(Recipe::Options{}).hash());
    EXPECT_NE(Recipe(other).hash(), Recipe().hash());
}

TEST(ImageRecipe, IsItsPartsOneAfterTheOther) {
    const Mxnet recipe({.to = to, .seed = 9});
    CropDecoder decoder;
    for (std::uint64_t sample = 0; sample < 20; ++sample) {
        const auto draws = [&](std::string_view stream) {
            return SampleDraws(9, stream, 4, sample);
        };
        const Pixels found = shown(recipe, decoder, 4, sample);
        Pixels image(static_cast<std::size_t>(3 * size.pixels())), expected(found.size());
        const Pixels file = jpeg_of(pattern(size), size);
        decoder.open(file, "x.jpg");
        decoder.decode(whole(size), image.data());
        const ImageRegion region = RandomResizedCrop{}(size, draws(RandomResizedCrop::stream));
        CropResize()(part(image, size, region).data(), region.size(), to, ResizeMode::antialiased,
                     mirrored(9, 4, sample), expected.data());
        HslJitter{}(expected.data(), to, draws(HslJitter::stream));
        PcaNoise{}(expected.data(), to, draws(PcaNoise::stream));
        EXPECT_EQ(found, expected) << sample;
    }
}
TEST(ImageRecipe, IsTheSameWithAnyNumberOfWorkers) {
    constexpr std::uint64_t samples = 24;
    const Mxnet recipe({.to = to, .seed = 9});
    const auto all = [&](std::uint64_t workers) {
        std::vector<Pixels> images(samples);
        std::vector<std::thread> threads;
        for (std::uint64_t w = 0; w < workers; ++w)
            threads.emplace_back([&, w] {
                CropDecoder decoder;
                for (std::uint64_t i = w; i < samples; i += workers)
                    images[i] = shown(recipe, decoder, 2, samples - 1 - i);
            });
        for (std::thread& t : threads) t.join();
        return images;
    };
    const auto one = all(1);
    for (const std::uint64_t workers : {2, 5}) EXPECT_EQ(all(workers), one) << workers;
    EXPECT_NE(one[0], one[1]);
}
TEST(ImageRecipe, WithoutChangesIsACrop) {
    const ImageRecipe<WholeImage> recipe({.to = to, .flip = false});
    CropDecoder decoder;
    EXPECT_EQ(shown(recipe, decoder, 0, 0), shown(recipe, decoder, 5, 7));
}

TEST(CentreRecipe, IsTheCentreOfTheResizedImage) {
    const CentreRecipe recipe({.to = to, .shorter = 35});  // half of 90 x 70
    CropDecoder decoder;
    const Pixels found = shown(recipe, decoder, 0, 0);
    EXPECT_EQ(found, shown(recipe, decoder, 3, 5)) << "no epoch or sample shows";
    const Pixels file = jpeg_of(pattern(size), size);
    Pixels image(static_cast<std::size_t>(3 * size.pixels())), resized(3 * 45 * 35);
    decoder.open(file, "x.jpg");
    decoder.decode(whole(size), image.data());
    CropResize()(image.data(), size, {45, 35}, ResizeMode::antialiased, false, resized.data());
    int largest = 0;
    for (int y = 0; y < 32; ++y)
        for (int x = 0; x < 3 * 32; ++x) {  // torchvision's centre: 6.5 rounds to 6, 1.5 to 2
            const int there = resized[std::size_t((y + 2) * 3 * 45 + x + 3 * 6)];
            largest = std::max(largest, std::abs(there - found[std::size_t(y * 3 * 32 + x)]));
        }
    EXPECT_LE(largest, 1) << "columns are summed before rows are cut";
}

}  // namespace
