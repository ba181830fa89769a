#include <gx/loader/in_memory.hpp>

#include <algorithm>
#include <cmath>
#include <map>

#include <loader/idx_files.hpp>  // sentence_of

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace {

using namespace gx;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

// ---- What the types promise -----------------------------------------------------------------
static_assert(Loader<InMemory<>> && Loader<InMemory<PadCrop<4>, Flip>>);
static_assert(!Loader<Dataset> && !Loader<int>);

/// Image i of `count` has pixels i + 0, i + 1, ...; its label is i % 4. Normalised to pixel / 255.
Dataset counting(ImageShape shape, int count) {
    Dataset data{.name = "counting", .shape = shape, .classes = 4};
    for (int i = 0; i < count; ++i) {
        for (int p = 0; p < shape.elements(); ++p)
            data.pixels.push_back(static_cast<std::uint8_t>(i + p));
        data.labels.push_back(static_cast<std::uint8_t>(i % 4));
    }
    data.mean.assign(std::size_t(shape.channels), 0.0f);
    data.deviation.assign(std::size_t(shape.channels), 1.0f / 255);  // values are whole numbers
    return data;
}
std::vector<int> whole(std::span<const float> values) {
    std::vector<int> rounded;
    for (const float v : values) rounded.push_back(static_cast<int>(std::lround(v)));
    return rounded;
}
template <int Down, int Right, bool Mirrored>
struct Fixed {
    static constexpr std::string_view stream = "test.fixed";
    static constexpr void move(View& view, const RandomWords&) { view = {Down, Right, Mirrored}; }
};
template <class A>
std::vector<int> seen_through(ImageShape shape) {
    const Dataset data = counting(shape, 1);
    InMemory<A> loader(data, {.batch = 1});
    loader.begin_epoch(0);
    return whole(loader.next().batch.images);
}

// ---- Cases worked by hand -------------------------------------------------------------------
TEST(InMemory, MovesAnImageThroughAView) {
    constexpr ImageShape s{1, 2, 3};  // 0 1 2 / 3 4 5; black is 0
    EXPECT_THAT((seen_through<Fixed<0, 0, false>>(s)), ElementsAre(0, 1, 2, 3, 4, 5));
    EXPECT_THAT((seen_through<Fixed<0, 0, true>>(s)), ElementsAre(2, 1, 0, 5, 4, 3));
    EXPECT_THAT((seen_through<Fixed<1, 0, false>>(s)), ElementsAre(3, 4, 5, 0, 0, 0));
    EXPECT_THAT((seen_through<Fixed<-1, 0, false>>(s)), ElementsAre(0, 0, 0, 0, 1, 2));
    EXPECT_THAT((seen_through<Fixed<0, 1, false>>(s)), ElementsAre(1, 2, 0, 4, 5, 0));
    EXPECT_THAT((seen_through<Fixed<0, -2, false>>(s)), ElementsAre(0, 0, 0, 0, 0, 3));
    EXPECT_THAT((seen_through<Fixed<0, 1, true>>(s)), ElementsAre(0, 2, 1, 0, 5, 4));
    EXPECT_THAT((seen_through<Fixed<9, 9, true>>(s)), ElementsAre(0, 0, 0, 0, 0, 0));
}
TEST(InMemory, NormalisesChannelByChannel) {
    Dataset data{.shape = {2, 1, 2},
                 .classes = 2,
                 .pixels = {0, 255, 51, 102},
                 .labels = {1},
                 .mean = {0.5f, 0.2f},
                 .deviation = {0.5f, 0.1f}};
    InMemory<> loader(data, {.batch = 1});
    loader.begin_epoch(0);
    const RankBatch got = loader.next();
    EXPECT_EQ(got.batch.images[0], -1.0f);
    EXPECT_EQ(got.batch.images[1], 1.0f);
    EXPECT_NEAR(got.batch.images[2], 0.0f, 1e-6f);
    EXPECT_NEAR(got.batch.images[3], 2.0f, 1e-6f);
    EXPECT_EQ(got.batch.labels[0], 1);
}
TEST(InMemory, WeightsTheTailOfAnEpoch) {
    const Dataset data = counting({1, 1, 1}, 11);
    std::vector<std::vector<int>> counts;
    for (int rank = 0; rank < 3; ++rank) {
        InMemory<> loader(data, {.batch = 3, .ranks = 3, .rank = rank});
        ASSERT_EQ(loader.steps_per_epoch(), 2);
        ASSERT_EQ(loader.images_per_epoch(), 11);
        loader.begin_epoch(4);
        const RankBatch full = loader.next(), tail = loader.next();
        EXPECT_EQ(full.global_count, 9);
        EXPECT_EQ(tail.global_count, 2);
        EXPECT_EQ(full.batch.draw, 8u);
        EXPECT_EQ(tail.batch.draw, 9u);
        EXPECT_EQ(tail.batch.images.size(), std::size_t(tail.batch.count));
        counts.push_back({full.batch.count, tail.batch.count});
    }
    EXPECT_THAT(counts, ElementsAre(ElementsAre(3, 1), ElementsAre(3, 1), ElementsAre(3, 0)));
}
TEST(NormaliseAs, TakesTheMomentsOfAnotherSet) {
    Dataset from{.shape = {2, 1, 2}, .pixels = {0, 255, 7, 7, 255, 0, 7, 7}, .labels = {0, 0}};
    Dataset data{.shape = {2, 1, 2}};
    normalise_as(data, from);
    EXPECT_THAT(data.mean, ElementsAre(0.5f, 7.0f / 255));
    EXPECT_THAT(data.deviation, ElementsAre(0.5f, 1.0f)) << "one value only: left as it is";
}

// ---- Properties -----------------------------------------------------------------------------
// What happens to an image depends on neither the rank count, the batch size nor the step.
// Rows and planes of any length, through any view, with whole blocks of values and without. The
// expected value is that of the double formula, bit for bit, whether or not the line has it.
RC_GTEST_PROP(InMemory, NormalisesAnyImageThroughAnyView, ()) {
    const ImageShape s{*rc::gen::inRange(1, 4), *rc::gen::inRange(1, 12), *rc::gen::inRange(1, 40)};
    const View v{.down = *rc::gen::inRange(-13, 14),
                 .right = *rc::gen::inRange(-41, 42),
                 .mirrored = *rc::gen::arbitrary<bool>()};
    SourceInfo info{};
    for (int c = 0; c < s.channels; ++c) {
        info.mean.push_back(float(*rc::gen::inRange(0, 1001)) / 1000);
        info.deviation.push_back(float(*rc::gen::inRange(1, 1001)) / 1000);
    }
    const auto elements = std::size_t(s.elements());
    const auto pixels = *rc::gen::container<std::vector<std::uint8_t>>(
        elements, rc::gen::arbitrary<std::uint8_t>());
    std::vector<float> values(elements + 1, 7.0f);
    std::vector<std::uint8_t> bytes(elements + 1, 7);
    detail::loader::decode(pixels.data(), values.data(), s, v, detail::loader::PixelValues(info));
    detail::loader::decode(pixels.data(), bytes.data(), s, v);
    for (std::size_t i = 0; i < elements; ++i) {
        const int x = int(i) % s.width, y = int(i) / s.width % s.height;
        const auto c = i / std::size_t(s.width * s.height);
        const int column = (v.mirrored ? s.width - 1 - x : x) + v.right, row = y + v.down;
        const bool inside = column >= 0 && column < s.width && row >= 0 && row < s.height;
        const int pixel =
            inside ? pixels[(c * std::size_t(s.height) + std::size_t(row)) * std::size_t(s.width) +
                            std::size_t(column)]
                   : 0;
        RC_ASSERT(int(bytes[i]) == pixel);
        RC_ASSERT(values[i] ==
                  float((pixel / 255.0 - double(info.mean[c])) / double(info.deviation[c])));
    }
    RC_ASSERT(values[elements] == 7.0f && bytes[elements] == 7);
}
// A mean that is nearly a pixel's value leaves a value of rounding alone, which no line has.
TEST(InMemory, LooksUpWhatLiesOnNoLine) {
    const float mean = float(100 / 255.0);
    const detail::loader::PixelValues values({.mean = {mean}, .deviation = {0.25f}});
    const std::vector<std::uint8_t> pixels(32, 100);
    std::vector<float> out(32);
    values.convert(0, pixels.data(), out.data(), out.size());
    EXPECT_NE(out[0], 0.0f);
    EXPECT_THAT(out, testing::Each(float((100 / 255.0 - double(mean)) / 0.25)));
}

RC_GTEST_PROP(InMemory, AugmentsASampleAlikeOnEveryCluster, (std::uint64_t seed)) {
    constexpr ImageShape shape{1, 6, 6};
    const Dataset data = counting(shape, 60);
    const auto augmented = [&](int ranks, int batch) {
        std::map<int, std::vector<int>> images;  // by the centre pixel, which tells the sample
        for (int rank = 0; rank < ranks; ++rank) {
            LoaderOptions o{.batch = batch, .ranks = ranks, .rank = rank, .seed = seed};
            InMemory<> plain(data, o);
            InMemory<PadCrop<2>, Flip> loader(data, o);
            plain.begin_epoch(3);
            loader.begin_epoch(3);
            for (std::int64_t step = 0; step < loader.steps_per_epoch(); ++step) {
                const RankBatch before = plain.next(), after = loader.next();
                RC_ASSERT(before.batch.count == after.batch.count);
                for (std::size_t i = 0; i < std::size_t(after.batch.count); ++i) {
                    const int sample = whole(before.batch.images.subspan(i * 36, 1))[0];
                    images[sample] = whole(after.batch.images.subspan(i * 36, 36));
                    RC_ASSERT(before.batch.labels[i] == sample % 4);
                    RC_ASSERT(after.batch.labels[i] == sample % 4);
                }
            }
        }
        return images;
    };
    const auto one = augmented(1, 60);
    RC_ASSERT(one.size() == 60u);
    RC_ASSERT(one == augmented(4, 5));
    RC_ASSERT(one == augmented(7, 8));
}

TEST(InMemory, DrawsAugmentationAnewInEachEpochAndSeed) {
    const Dataset data = counting({1, 8, 8}, 1);
    std::vector<std::vector<int>> seen;
    for (const std::uint64_t seed : {1, 2}) {
        InMemory<PadCrop<4>, Flip> loader(data, {.batch = 1, .seed = seed});
        for (int epoch = 0; epoch < 20; ++epoch) {
            loader.begin_epoch(epoch);
            seen.push_back(whole(loader.next().batch.images));
        }
    }
    std::sort(seen.begin(), seen.end());
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    EXPECT_GT(seen.size(), 30u) << "162 views are possible";
}

TEST(InMemory, DropsFlipWithoutChangingCrop) {
    const Dataset data = counting({1, 8, 8}, 16);
    InMemory<PadCrop<4>> crop(data, {.batch = 16, .seed = 5});
    InMemory<Flip, PadCrop<4>> both(data, {.batch = 16, .seed = 5});
    crop.begin_epoch(0);
    both.begin_epoch(0);
    const auto a = crop.next().batch.images, b = both.next().batch.images;
    int mirrored = 0;
    for (std::size_t i = 0; i < 16; ++i) {
        std::vector<int> x = whole(a.subspan(i * 64, 64)), y = whole(b.subspan(i * 64, 64));
        if (x == y) continue;
        for (std::size_t row = 0; row < 64; row += 8)
            std::reverse(y.begin() + std::ptrdiff_t(row), y.begin() + std::ptrdiff_t(row) + 8);
        EXPECT_EQ(x, y) << "the same crop, mirrored";
        ++mirrored;
    }
    EXPECT_GT(mirrored, 0);
}

TEST(InMemory, KeepsTheLatestBatches) {
    const Dataset data = counting({1, 2, 2}, 40);
    for (const int kept : {2, 5}) {
        InMemory<> loader(data, {.batch = 3, .shuffle = false});
        loader.keep(kept);
        loader.begin_epoch(0);
        std::vector<RankBatch> got;
        for (int i = 0; i < kept; ++i) got.push_back(loader.next());
        for (int i = 0; i < kept; ++i)
            EXPECT_EQ(whole(got[std::size_t(i)].batch.images)[0], 3 * i) << kept;
    }
}

TEST(InMemory, BeginsAgainFromAnywhere) {
    const Dataset data = counting({1, 4, 4}, 30);
    InMemory<PadCrop<1>, Flip> straight(data, {.batch = 7, .seed = 9}),
        wandering(data, {.batch = 7, .seed = 9});
    wandering.begin_epoch(0);
    (void)wandering.next();
    wandering.begin_epoch(6);
    straight.begin_epoch(6);
    for (std::int64_t i = 0; i < straight.steps_per_epoch(); ++i) {
        const RankBatch a = straight.next(), b = wandering.next();
        EXPECT_THAT(a.batch.images, ElementsAreArray(b.batch.images));
        EXPECT_THAT(a.batch.labels, ElementsAreArray(b.batch.labels));
        EXPECT_EQ(a.batch.draw, b.batch.draw);
    }
}

// ---- Bad input ------------------------------------------------------------------------------
TEST(InMemory, RefusesMoreRanksThanSamples) {
    const Dataset data = counting({1, 2, 2}, 3);
    EXPECT_THROW(InMemory<>(data, {.batch = 1, .ranks = 4}), Error);
    EXPECT_THROW(InMemory<>(data, {.batch = 0}), Error);
}
TEST(InMemory, RefusesADataSetThatIsNotWhole) {
    const Dataset good = counting({1, 2, 2}, 3);
    const auto refused = [](const Dataset& data) {
        return support::sentence_of([&] { InMemory<>(data, {.batch = 1}); });
    };
    Dataset data = good;
    data.name = "mine";
    data.labels[1] = 4;
    EXPECT_EQ(refused(data),
              "gx: data set 'mine': the label of image 1 is 4, and labels of 4 classes are 0 to 3: "
              "correct the label or the number of classes");
    data.classes = 5;
    EXPECT_EQ(refused(data), "no error");
    data.pixels.pop_back();
    EXPECT_THAT(refused(data), HasSubstr("'mine': 3 labels of images of 1 x 2 x 2 need 12 pixels, "
                                         "and there are 11: give one image for each label"));
    data = good;
    data.mean.clear();
    EXPECT_THAT(refused(data), HasSubstr("mean has 0 values and deviation 1, and images have 1 "
                                         "channels: set both by normalise_as"));
    data = good;
    data.deviation[0] = 0;
    EXPECT_THAT(refused(data), HasSubstr("deviation of channel 0 is 0: it is above 0 and finite"));
    data.deviation[0] = 1;
    data.mean[0] = std::nanf("");
    EXPECT_THAT(refused(data), HasSubstr("mean of channel 0 is nan: it is finite"));
    data = good;
    data.shape = {1 << 30, 1 << 30, 1 << 30};
    EXPECT_THAT(refused(data), HasSubstr("there are 12"));
    data.shape = {0, 2, 2};
    EXPECT_THAT(refused(data), HasSubstr("images of 0 x 2 x 2: an image needs at least one "
                                         "channel, row and column"));
}
TEST(InMemoryDeathTest, StopsOnABrokenContract) {
    Dataset data = counting({1, 2, 2}, 3);
    InMemory<> loader(data, {.batch = 2});
    EXPECT_DEATH((void)loader.next(), "begin_epoch\\(\\) comes before");
    EXPECT_DEATH(loader.keep(0), "at least one batch");
}

}  // namespace
