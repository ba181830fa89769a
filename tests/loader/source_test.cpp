#include <gx/loader/source.hpp>

#include <array>
#include <map>

#include <gx/core/hash_bits.hpp>      // hash_bytes
#include <gx/loader/in_memory.hpp>    // InMemory
#include <gx/loader/prefetch.hpp>     // Prefetched
#include <gx/loader/record_file.hpp>  // RecordFile
#include <gx/loader/synthetic.hpp>    // synthetic

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <loader/odd_source.hpp>  // OddSource
#include <support/files.hpp>      // error_of, holds

namespace {

using namespace gx;
using testing::ElementsAreArray;
using testing_support::error_of;
using testing_support::Folder;
using testing_support::holds;
using testing_support::OddSource;

// ---- What the types promise -----------------------------------------------------------------
static_assert(Source<Dataset> && Source<RecordFile> && Source<OddSource>);
static_assert(!Source<Split> && !Source<int> && !Source<InMemory<>>);
static_assert(std::is_trivially_copyable_v<SourceRef>, "loaders keep copies");

Split data() { return synthetic({.shape = {2, 5, 4}, .classes = 3, .train_count = 50}); }

// ---- Cases worked by hand -------------------------------------------------------------------
TEST(SourceRef, RefersToADataSet) {
    const Dataset set = data().train;
    const SourceRef source = set;
    EXPECT_EQ(source.info(), set.info());
    EXPECT_EQ(source.dataset(), &set);
    EXPECT_EQ(source.largest_class(), 17);
    EXPECT_EQ(source.flaw(), "");
    std::vector<Sample> samples(2);
    const std::vector<std::uint32_t> indices{49, 3};
    source.open()->read(indices, samples);
    EXPECT_EQ(samples[0].pixels, &set.pixels[49 * 40]) << "nothing is copied";
    EXPECT_EQ(samples[1].label, set.labels[3]);
    EXPECT_EQ(samples[1].shape, set.shape);
    EXPECT_EQ(describe(set.info()), "'synthetic': 50 images of 2 x 5 x 4 in 3 classes");
}
TEST(SourceRef, HashesTheContentOfADataSetAsDocumented) {
    const Dataset set{.name = "two",
                      .shape = {1, 1, 2},
                      .classes = 3,
                      .pixels = {0, 255, 51, 102},
                      .labels = {2, 1}};
    const std::array<std::uint8_t, 4> records[] = {{2, 0, 0, 255}, {1, 0, 51, 102}};
    const std::uint64_t one = hash_bytes(std::as_bytes(std::span(records[0]))),
                        two = hash_bytes(std::as_bytes(std::span(records[1])));
    EXPECT_EQ(SourceRef(set).content(), mix64(mix64(golden64 ^ one) ^ two));
    const OddSource odd(3);
    EXPECT_EQ(SourceRef(odd).content(), 0u) << "a source need not know it";
}
TEST(SourceRef, IsEmptyByDefault) {
    const SourceRef none;
    EXPECT_EQ(none.count(), 0);
    EXPECT_EQ(none.content(), 0u);
    EXPECT_EQ(none.dataset(), nullptr);
    EXPECT_NE(none.flaw(), "");
    EXPECT_TRUE(holds(error_of([&] { (void)none.open(); }), "at least one channel"));
}

// ---- A property: each sample once an epoch, from any source, whatever the ranks and batch -------
template <class L>
std::map<std::uint32_t, int> seen(SourceRef source, int ranks, int batch, std::uint64_t seed) {
    std::map<std::uint32_t, int> times;
    for (int rank = 0; rank < ranks; ++rank) {
        L loader(source, {.batch = batch, .ranks = ranks, .rank = rank, .seed = seed});
        loader.begin_epoch(2);
        for (std::int64_t s = 0; s < loader.steps_per_epoch(); ++s) {
            const RankBatch next = loader.next();
            RC_ASSERT(next.batch.count <= batch);
            for (int i = 0; i < next.batch.count; ++i) ++times[OddSource::sample_of(next.batch, i)];
        }
    }
    return times;
}
TEST(Sources, GiveEachSampleOnceAnEpoch) {
    EXPECT_TRUE(rc::check([] {
        const int count = *rc::gen::inRange(1, 200), ranks = *rc::gen::inRange(1, count + 1);
        const int batch = *rc::gen::inRange(1, 40);
        const auto seed = *rc::gen::arbitrary<std::uint64_t>();
        const OddSource source(count);
        std::map<std::uint32_t, int> once;
        for (std::uint32_t i = 0; i < std::uint32_t(count); ++i) once[i] = 1;
        RC_ASSERT((seen<InMemory<>>(source, ranks, batch, seed) == once));
        if (ranks < 4)
            RC_ASSERT((seen<Prefetched<InMemory<>>>(source, ranks, batch, seed) == once));
    }));
}

// ---- Faults ---------------------------------------------------------------------------------
std::string sentence_of(const OddSource& source) {
    return error_of([&] {
        InMemory<> loader(source, {.batch = 4, .shuffle = false});
        loader.begin_epoch(0);
        for (std::int64_t s = 0; s < loader.steps_per_epoch(); ++s) (void)loader.next();
    });
}
TEST(Sources, NameASampleOfAnotherShape) {
    OddSource source(10);
    EXPECT_EQ(sentence_of(source), "no error");
    source.wide = 7;
    EXPECT_TRUE(holds(sentence_of(source), "'odd'", "sample 7", "1 x 2 x 3", "1 x 2 x 2"));
}
TEST(Sources, NameASampleWithoutAClass) {
    OddSource source(10);
    source.label = 9;
    EXPECT_TRUE(holds(sentence_of(source), "'odd'", "sample 0", "label 9", "0 to 2"));
    source.label = -1;
    EXPECT_TRUE(holds(sentence_of(source), "label -1"));
}
TEST(Sources, PassTheErrorOfAReaderOn) {
    OddSource source(10);
    source.ends = 6;
    EXPECT_TRUE(holds(sentence_of(source), "odd source ends at sample 6"));
    Prefetched<InMemory<>> ahead(source, {.batch = 4, .shuffle = false});
    ahead.begin_epoch(0);
    (void)ahead.next();
    EXPECT_TRUE(holds(error_of([&] { (void)ahead.next(); }), "ends at sample 6"));
}
TEST(Sources, NameTheirFlaw) {
    OddSource source(10);
    source.deviation = 0;
    EXPECT_TRUE(holds(sentence_of(source), "'odd'", "deviation of channel 0 is 0"));
}

}  // namespace
