#include <gx/loader/decoded.hpp>

#include <algorithm>  // any_of
#include <set>        // sentences, in any order

#include <gx/loader/formats/image_folder.hpp>  // ImageFolder
#include <gx/loader/in_memory.hpp>             // InMemory
#include <gx/loader/prefetch.hpp>              // Prefetched

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <support/files.hpp>  // Folder, write_text, error_of, holds

namespace {

using namespace gx;
using namespace testing_support;
namespace fs = std::filesystem;

/// A file of one byte becomes an image of that byte, the epoch and the sample; '!' is corrupt.
struct ByteDecoder {
    [[nodiscard]] ImageShape shape() const { return {3, 1, 2}; }
    void decode(const EncodedSample& s, const SampleKey& key, std::span<std::uint8_t> to) {
        if (s.bytes[0] == '!') throw Error("gx: " + to_string(s.where) + " is no image");
        for (std::size_t i = 0; i < 2; ++i) {
            to[i] = s.bytes[0];
            to[2 + i] = std::uint8_t(key.epoch);
            to[4 + i] = std::uint8_t(key.sample);
        }
    }
};

// ---- What the type promises ---------------------------------------------------------
static_assert(SampleDecoder<ByteDecoder>);
static_assert(!SampleDecoder<int>);
static_assert(Source<Decoded<ImageFolder, ByteDecoder>>);

/// Files of one byte each, in one class for each text.
ImageFolder folder_of(const Folder& folder, const std::vector<std::string>& classes,
                      OnCorrupt on_corrupt = OnCorrupt::stop) {
    for (std::size_t c = 0; c < classes.size(); ++c) {
        const fs::path below = folder.path / std::string(1, char('a' + c));
        fs::create_directories(below);
        for (std::size_t i = 0; i < classes[c].size(); ++i)
            write_text(below / (std::to_string(1000 + i) + ".jpg"),
                       classes[c].substr(i, classes[c][i] == '0' ? 0 : 1));  // '0': empty
    }
    ImageFolderOptions options;
    options.on_corrupt = on_corrupt;
    return ImageFolder(folder.path, options);
}
/// The first pixels of the samples, and their labels.
std::string shown(const std::vector<Sample>& samples) {
    std::string text;
    for (const Sample& s : samples) {
        text.push_back(static_cast<char>(s.pixels[0]));
        text += std::to_string(s.label);
    }
    return text;
}
std::vector<Sample> read(SampleReader& reader, const std::vector<std::uint32_t>& indices) {
    std::vector<Sample> out(indices.size());
    reader.read(indices, out);
    return out;
}

// ---- Cases worked by hand -------------------------------------------------------------------
TEST(DecodedSource, DecodesWhatItReads) {
    const Folder folder;
    const Decoded source(folder_of(folder, {"xy", "z"}), ByteDecoder{}, {.workers = 2});
    EXPECT_EQ(source.info().count, 3);
    EXPECT_EQ(source.info().classes, 2);
    EXPECT_EQ(source.info().shape, (ImageShape{3, 1, 2}));
    EXPECT_EQ(source.largest_class(), 2);
    EXPECT_EQ(SourceRef(source).flaw(), "");
    const auto reader = source.open();
    EXPECT_EQ(shown(read(*reader, {2, 0, 1})), "z1x0y0");
    reader->begin_epoch(7);
    const auto samples = read(*reader, {1});
    EXPECT_EQ(samples[0].pixels[2], 7);
    EXPECT_EQ(samples[0].pixels[5], 1);
}
TEST(DecodedSource, LoadersTellItTheEpoch) {
    const Folder folder;
    const Decoded source(folder_of(folder, {"xyz", "uvw"}), ByteDecoder{}, {.workers = 3});
    Prefetched<InMemory<>> loader(source, {.batch = 4, .pixels = true});
    for (const int epoch : {0, 3}) {
        loader.begin_epoch(epoch);
        for (std::int64_t s = 0; s < loader.steps_per_epoch(); ++s)
            for (const RankBatch b = loader.next(); int i : {0, 1})
                EXPECT_EQ(b.batch.pixels[std::size_t(6 * i + 2)], epoch);
    }
}

// ---- A property -----------------------------------------------------------------------------
TEST(DecodedSource, AnyNumberOfWorkersReadsTheSame) {
    EXPECT_TRUE(rc::check([] {
        const Folder folder;
        const auto bytes = *rc::gen::container<std::string>(*rc::gen::inRange<std::size_t>(1, 40),
                                                            rc::gen::inRange('a', 'z'));
        const auto files = folder_of(folder, {bytes});
        std::vector<std::uint32_t> indices;
        std::string expected;
        for (const auto i : *rc::gen::container<std::vector<std::uint32_t>>(
                 rc::gen::inRange<std::uint32_t>(0, std::uint32_t(bytes.size())))) {
            indices.push_back(i);
            expected += bytes.substr(i, 1) + "0";
        }
        const Decoded source(files, ByteDecoder{}, {.workers = *rc::gen::inRange(1, 6)});
        const auto reader = source.open();
        for (int times = 0; times < 3; ++times)
            RC_ASSERT(shown(read(*reader, indices)) == expected);
    }));
}

// ---- Faults ---------------------------------------------------------------------------------
TEST(DecodedSource, ThrowsTheErrorOfTheFirstSampleThatHasOne) {
    const Folder folder;
    const Decoded source(folder_of(folder, {"ab!c!d"}), ByteDecoder{}, {.workers = 4});
    const auto reader = source.open();
    for (int times = 0; times < 20; ++times)
        EXPECT_TRUE(holds(error_of([&] { (void)read(*reader, {0, 1, 2, 3, 4, 5}); }),
                          "a/1002.jpg' is no image"));
    EXPECT_EQ(shown(read(*reader, {5, 3})), "d0c0") << "a reader goes on after an error";
}
TEST(DecodedSource, ShowsOneBehindASampleThatItSkips) {
    const Folder folder;
    const Decoded source(folder_of(folder, {"a!", "0b!"}, OnCorrupt::skip), ByteDecoder{},
                         {.workers = 2, .on_corrupt = OnCorrupt::skip});
    const auto reader = source.open();
    EXPECT_EQ(shown(read(*reader, {0, 1, 2, 3, 4})), "a0b1b1b1a0") << "and the first for the last";
    const SkippedRecords skipped = source.skipped();
    EXPECT_EQ(skipped.count, 3);
    const std::set<std::string> sentences(skipped.first.begin(), skipped.first.end());
    EXPECT_TRUE(holds(*sentences.begin(), "a/1001.jpg' is no image"));
    const bool told = std::ranges::any_of(sentences, [](const std::string& sentence) {
        return holds(sentence, "b/1000.jpg' is empty");
    });
    EXPECT_TRUE(told) << "by the source, what is wrong with its record";
    EXPECT_EQ(shown(read(*reader, {4})), "a0") << "alone, as among others";
    EXPECT_EQ(shown(read(*reader, {1, 4})), "b1a0");
}
TEST(DecodedSource, SaysOfEachOfTheFirstTenWhatIsWrongWithItsRecord) {
    const Folder folder;  // tries in place of a sample are records that the reader skips, too
    const Decoded source(folder_of(folder, {std::string(14, '0') + "a"}, OnCorrupt::skip),
                         ByteDecoder{}, {.on_corrupt = OnCorrupt::skip});
    EXPECT_EQ(shown(read(*source.open(), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9})), "a0a0a0a0a0a0a0a0a0a0");
    const SkippedRecords skipped = source.skipped();
    ASSERT_EQ(skipped.first.size(), 10u);
    for (std::size_t i = 0; i < 10; ++i)
        EXPECT_TRUE(holds(skipped.first[i], "a/100" + std::to_string(i) + ".jpg' is empty"));
}
TEST(DecodedSource, AnEmptyFileThatStopsNamesTheOptionOfTheSource) {
    const Folder folder;
    const Decoded source(folder_of(folder, {"a0"}), ByteDecoder{}, {.on_corrupt = OnCorrupt::skip});
    EXPECT_TRUE(holds(error_of([&] { (void)read(*source.open(), {1}); }), "a/1001.jpg' is empty",
                      "leave it out with on_corrupt = OnCorrupt::skip in the options of the source "
                      "(EncodedOptions)."));
}
TEST(DecodedSource, LeavesALongRowOfCorruptSamplesBehindAndStopsWhereThereIsNoOther) {
    const Folder folder;
    const OnCorrupt skip = OnCorrupt::skip;
    const std::string row(100, '!');
    const Decoded source(folder_of(folder, {"x" + row + std::string(40, 'y')}, skip), ByteDecoder{},
                         {.on_corrupt = skip});
    EXPECT_EQ(shown(read(*source.open(), {1, 60})), "y0y0") << "samples 129 and 124";
    const Folder all;
    const Decoded none(folder_of(all, {"!!!!!"}, skip), ByteDecoder{}, {.on_corrupt = skip});
    EXPECT_TRUE(holds(error_of([&] { (void)read(*none.open(), {3}); }),
                      "none of 5 samples could be decoded: number 3, and those in its place",
                      "The first: gx: '", "a/1003.jpg' is no image"));
    EXPECT_EQ(none.skipped().count, 1);
}
TEST(DecodedSource, TriesTheDoubledDistancesThenTheOthersUpTo100Samples) {
    const OnCorrupt skip = OnCorrupt::skip;
    const auto shown_first = [&](const std::string& bytes) {
        const Folder folder;
        const Decoded source(folder_of(folder, {bytes}, skip), ByteDecoder{}, {.on_corrupt = skip});
        return shown(read(*source.open(), {0}));
    };
    std::string bytes = "!abcdefghi";
    for (const char next : std::string("abdhcefgi")) {  // 1, 2, 4, 8, 3, 5, 6, 7, 9
        EXPECT_EQ(shown_first(bytes), next + std::string("0"));
        bytes[bytes.find(next)] = '!';
    }
    // Of 200 samples, 8 have doubled distances; 3 to 98 have 91 others, for 100 tries in all.
    bytes = std::string(200, '!');
    bytes[98] = 'x';
    EXPECT_EQ(shown_first(bytes), "x0");
    std::swap(bytes[98], bytes[99]);
    EXPECT_TRUE(
        holds(error_of([&] { shown_first(bytes); }), "none of 100 samples could be decoded"));
}
TEST(DecodedSource, FindsASampleWhereHalfOfASmallSourceIsCorrupt) {
    const Folder folder;
    const OnCorrupt skip = OnCorrupt::skip;
    const Decoded source(folder_of(folder, {"!!!b!f!!"}, skip), ByteDecoder{},
                         {.on_corrupt = skip});
    EXPECT_EQ(shown(read(*source.open(), {0, 1, 2, 6, 7})), "b0b0b0b0b0");
}
TEST(DecodedSource, ReplacementsDoNotDependOnBatchesOrWorkers) {
    EXPECT_TRUE(rc::check([] {
        const Folder folder;
        const auto bytes = "z" + *rc::gen::container<std::string>(rc::gen::element('a', 'b', '!'));
        const OnCorrupt skip = OnCorrupt::skip;
        const auto files = folder_of(folder, {bytes}, skip);
        const auto indices = *rc::gen::container<std::vector<std::uint32_t>>(
            rc::gen::inRange<std::uint32_t>(0, std::uint32_t(bytes.size())));
        const Decoded alone(files, ByteDecoder{}, {.on_corrupt = skip});
        const auto single = alone.open();
        std::string expected;
        for (const std::uint32_t i : indices) expected += shown(read(*single, {i}));
        const Decoded source(files, ByteDecoder{},
                             {.workers = *rc::gen::inRange(1, 6), .on_corrupt = skip});
        RC_ASSERT(shown(read(*source.open(), indices)) == expected);
        RC_ASSERT(source.skipped().count == alone.skipped().count);
    }));
}
TEST(DecodedSource, HasTheContentOfItsIndex) {
    const auto content = [](const std::vector<std::string>& classes) {
        const Folder folder;
        return SourceRef(Decoded(folder_of(folder, classes), ByteDecoder{})).content();
    };
    EXPECT_NE(content({"xy", "z"}), 0u);
    EXPECT_EQ(content({"xy", "z"}), content({"xy", "z"})) << "wherever its folder is";
    EXPECT_NE(content({"xy", "z"}), content({"x", "yz"})) << "as many samples, other labels";
    EXPECT_NE(content({"xy", "z"}), content({"xyz", "z"}));
    const EncodedEntry entry{
        .name = "1", .file = "data/a.rec", .offset = 8, .bytes = 9, .label = 1};
    const auto of = [&](auto change) {
        EncodedEntry other = entry;
        change(other);
        return hash_entry(1, other);
    };
    const auto hash = hash_entry(1, entry);
    EXPECT_EQ(of([](EncodedEntry& e) { e.file = "/mnt/data/a.rec"; }), hash);
    EXPECT_NE(of([](EncodedEntry& e) { e.name = "2"; }), hash);
    EXPECT_NE(of([](EncodedEntry& e) { e.file = "data/b.rec"; }), hash);
    EXPECT_NE(of([](EncodedEntry& e) { e.offset = 9; }), hash);
    EXPECT_NE(of([](EncodedEntry& e) { e.bytes = 8; }), hash);
    EXPECT_NE(of([](EncodedEntry& e) { e.label = 0; }), hash);
    EXPECT_NE(hash_entry(2, entry), hash);
}
TEST(DecodedSource, RefusesNumbersOfWorkersThatNoMachineHas) {
    const Folder folder;
    const auto files = folder_of(folder, {"a"});
    for (const int workers : {0, -1, 1025})
        EXPECT_TRUE(holds(
            error_of([&] { const Decoded source(files, ByteDecoder{}, {.workers = workers}); }),
            "workers: expected 1 to 1024"));
}

}  // namespace
