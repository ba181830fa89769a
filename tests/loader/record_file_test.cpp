#include <gx/loader/record_file.hpp>

#include <sys/stat.h>  // mkfifo

#include <array>  // a sample of numbers

#include <gx/image/mix.hpp>         // MixUp
#include <gx/image/mixed.hpp>       // Mixed
#include <gx/loader/in_memory.hpp>  // InMemory
#include <gx/loader/prefetch.hpp>   // Prefetched
#include <gx/loader/synthetic.hpp>  // synthetic

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <support/files.hpp>  // Folder, read_text, write_text, error_of, holds

namespace {

using namespace gx;
using namespace testing_support;
using testing::ElementsAreArray;

// ---- A file written by hand -----------------------------------------------------------------
std::string by_hand() {
    using namespace std::string_literals;
    return "gxrecord"s + "\2\0\0\0"s +                  // version
           "\1\0\0\0"s + "\2\0\0\0"s + "\1\0\0\0"s +    // channels, height, width
           "\1\1\0\0"s + "\0\0\0\0"s +                  // 257 classes
           "\2\0\0\0\0\0\0\0"s + "\1\0\0\0\0\0\0\0"s +  // count, largest class
           "\x08\x07\x06\x05\x04\x03\x02\x01"s +        // content
           "\0\0\0\x3f"s + "\0\0\x80\x3e"s +            // mean 0.5, deviation 0.25
           "\xcf\xcc\x0b\x95\x52\xd1\xfd\x10"s +        // xxhsum -H3 of all above
           "\0\1\0\xff"s +                              // 256: 0 255
           "\xac\x55\xd4\x67\x55\x9a\x6f\x4e"s +        // xxhsum -H3 of it
           "\2\0\x33\x66"s +                            // 2: 51 102
           "\x06\x8e\x4d\xd5\xd2\xc6\xcd\x02"s;         // and of this, + 1
}
TEST(RecordFile, ReadsAFileWrittenByHand) {
    const Folder folder;
    write_text(folder / "a.gxr", by_hand());
    const RecordFile file(folder / "a.gxr");
    EXPECT_EQ(file.info(), (SourceInfo{.name = "a.gxr",
                                       .count = 2,
                                       .shape = {1, 2, 1},
                                       .classes = 257,
                                       .mean = {0.5f},
                                       .deviation = {0.25f}}));
    EXPECT_EQ(file.content(), 0x0102030405060708u);
    EXPECT_EQ(file.largest_class(), 1);
    std::vector<Sample> samples(2);
    const auto reader = file.open();
    reader->read(std::vector<std::uint32_t>{1, 0}, samples);
    EXPECT_EQ(samples[0].label, 2);
    EXPECT_EQ(samples[1].label, 256);
    EXPECT_EQ(samples[0].pixels[0], 0x33);
    EXPECT_EQ(samples[0].pixels[1], 0x66);
    EXPECT_EQ(samples[1].pixels[1], 0xff);
}

// ---- Properties -----------------------------------------------------------------------------
TEST(RecordFile, HandsOutTheBitsOfTheDataInMemory) {
    EXPECT_TRUE(rc::check([] {
        const Folder folder;
        const Split data = synthetic(
            {.shape = {*rc::gen::inRange(1, 4), *rc::gen::inRange(1, 7), *rc::gen::inRange(1, 7)},
             .classes = *rc::gen::inRange(2, 257),
             .train_count = *rc::gen::inRange(3, 700),
             .seed = *rc::gen::arbitrary<std::uint64_t>()});
        write_records(folder / "t", data.train);
        const RecordFile file(folder / "t");
        SourceInfo info = file.info(), expected = data.train.info();
        expected.name = info.name;
        RC_ASSERT(info == expected);
        RC_ASSERT(file.content() == data.train.content());
        RC_ASSERT(file.largest_class() == data.train.largest_class());
        const LoaderOptions o{.batch = *rc::gen::inRange(1, 9),
                              .ranks = *rc::gen::inRange(1, 4),
                              .rank = 0,
                              .seed = 3};
        InMemory<PadCrop<1>, Flip> memory(data.train, o);
        Prefetched<InMemory<PadCrop<1>, Flip>> disk(file, o);
        for (const int epoch : {0, 5}) {
            memory.begin_epoch(epoch);
            disk.begin_epoch(epoch);
            for (std::int64_t s = 0; s < memory.steps_per_epoch(); ++s) {
                const RankBatch a = memory.next(), b = disk.next();
                RC_ASSERT(std::ranges::equal(a.batch.images, b.batch.images));
                RC_ASSERT(std::ranges::equal(a.batch.labels, b.batch.labels));
                RC_ASSERT(a.global_count == b.global_count);
                RC_ASSERT(a.batch.draw == b.batch.draw);
            }
        }
    }));
}
TEST(RecordFile, TellsFilesOfOtherContentApart) {
    const Folder folder;
    Split data = synthetic({.shape = {1, 3, 3}, .classes = 2, .train_count = 20});
    write_records(folder / "a", data.train);
    write_records(folder / "again", data.train);
    EXPECT_EQ(read_text(folder / "a"), read_text(folder / "again"));
    std::swap(data.train.pixels[0], data.train.pixels[1]);
    ASSERT_NE(data.train.pixels[0], data.train.pixels[1]);
    write_records(folder / "b", data.train);
    std::swap(data.train.labels[0], data.train.labels[1]);
    write_records(folder / "c", data.train);
    const auto content = [&](const char* name) { return RecordFile(folder / name).content(); };
    EXPECT_NE(content("a"), content("b"));
    EXPECT_NE(content("b"), content("c"));
}

// ---- Faults ---------------------------------------------------------------------------------
/// One sample of numbers, as features of images are.
struct Numbers {
    [[nodiscard]] SourceInfo info() const {
        return {.name = "features",
                .count = 1,
                .shape = {1, 1, 2},
                .classes = 2,
                .mean = {0},
                .deviation = {1}};
    }
    [[nodiscard]] std::unique_ptr<SampleReader> open() const {
        class Reader final : public SampleReader {
        public:
            void read(std::span<const std::uint32_t>, std::span<Sample> out) override {
                out[0] = {.label = 1, .shape = {1, 1, 2}, .values = values_.data()};
            }

        private:
            std::array<float, 2> values_{};
        };
        return std::make_unique<Reader>();
    }
};
TEST(RecordFile, RefusesSamplesThatARecordCannotHold) {
    const Folder folder;
    const Split data = synthetic({.shape = {1, 3, 3}, .classes = 2, .train_count = 20});
    EXPECT_TRUE(holds(error_of([&] { write_records(folder / "n.gxr", Numbers()); }), "n.gxr",
                      "'features' has numbers"));
    EXPECT_TRUE(
        holds(error_of([&] { write_records(folder / "m.gxr", Mixed(data.train, MixUp{}, 7)); }),
              "m.gxr", "mixes images, and a record has one label"));
    EXPECT_TRUE(std::filesystem::is_empty(folder / ""));
}
std::string opening(const std::filesystem::path& path) {
    return error_of([&] { const RecordFile file(path); });
}
TEST(RecordFile, RefusesEveryShorterFile) {
    const Folder folder;
    const std::string whole = by_hand();
    for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
        write_text(folder / "cut.gxr", whole.substr(0, bytes));
        EXPECT_TRUE(holds(opening(folder / "cut.gxr"), "cut.gxr")) << bytes;
    }
    write_text(folder / "cut.gxr", whole.substr(0, whole.size() - 1));
    EXPECT_TRUE(holds(opening(folder / "cut.gxr"), "has 95 bytes", "2 records of 12 bytes",
                      "end at byte 96"));
    write_text(folder / "cut.gxr", whole + "x");
    EXPECT_TRUE(holds(opening(folder / "cut.gxr"), "has 97 bytes"));
}
TEST(RecordFile, NamesTheFieldThatIsWrong) {
    const Folder folder;
    const auto with = [&](std::size_t at, const std::string& bytes) {
        std::string text = by_hand();
        text.replace(at, bytes.size(), bytes);
        write_text(folder / "w.gxr", text);
        return opening(folder / "w.gxr");
    };
    EXPECT_TRUE(holds(with(0, "x"), "w.gxr", "does not begin with 'gxrecord'"));
    EXPECT_TRUE(holds(with(8, "\1"), "version 1", "reads version 2", "Write it again"));
    EXPECT_TRUE(holds(with(12, std::string(1, '\0')), "'channels' is 0"));
    EXPECT_TRUE(holds(with(16, std::string(1, '\0')), "'height' is 0"));
    EXPECT_TRUE(holds(with(20, "\1\1\1\1"), "'width' is 16843009"));
    EXPECT_TRUE(holds(with(24, std::string(2, '\0')), "'classes' is 0"));
    EXPECT_TRUE(holds(with(36, "\1"), "'count' is 4294967298"));
    EXPECT_TRUE(holds(with(40, "\3"), "'largest_class' is 3"));
    EXPECT_TRUE(holds(with(56, std::string("\0\0\x80\x7f", 4)), "mean of channel 0 is inf"));
    EXPECT_TRUE(holds(with(60, std::string(4, '\0')), "deviation of channel 0 is 0"));
}
TEST(RecordFile, NamesAFileThatIsNone) {
    const Folder folder;
    EXPECT_TRUE(holds(opening(folder / "none"), "none", "can't be opened"));
    EXPECT_TRUE(holds(opening(folder.path), "no regular file"));
    EXPECT_TRUE(holds(opening("/dev/zero"), "no regular file"));
}
TEST(RecordFile, DoesNotWaitForAPipe) {
    const Folder folder;
    ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
    EXPECT_TRUE(holds(opening(folder / "pipe"), "no regular file"));
}
TEST(RecordFile, SizesBeyondTheNumbersOfAFileAreNotWhole) {  // 2^27 records of 2^37 bytes
    const Folder folder;
    std::string bytes = "gxrecord";
    const auto put = [&](std::uint64_t x, int width) {
        for (int i = 0; i < width; ++i, x >>= 8) bytes.push_back(static_cast<char>(x & 255));
    };
    for (const std::uint64_t x : {2, 654, 4095, 51319, 10, 0}) put(x, 4);
    for (const std::uint64_t x : {std::uint64_t{1} << 27, std::uint64_t{5}, std::uint64_t{0}})
        put(x, 8);
    bytes.resize(64 + 8 * 654);
    write_text(folder / "huge.gxr", bytes);
    EXPECT_TRUE(holds(opening(folder / "huge.gxr"), "134217728 records", "copied whole"));
}
TEST(RecordFile, ReadsTheFileThatItOpened) {
    const Folder folder;
    const Dataset data = synthetic({.shape = {1, 3, 3}, .classes = 2, .train_count = 20}).train;
    const Dataset other = synthetic({.shape = {1, 2, 2}, .classes = 200, .train_count = 60}).train;
    write_records(folder / "a.gxr", data);
    const RecordFile file(folder / "a.gxr");
    write_records(folder / "a.gxr", other);  // another file of that name
    const auto reader = file.open();
    for (std::uint32_t i = 0; i < 20; ++i) {
        std::vector<Sample> samples(1);
        reader->read(std::vector{i}, samples);
        EXPECT_EQ(samples[0].label, data.labels[i]);
        EXPECT_EQ(samples[0].pixels[8], data.pixels[9 * i + 8]);
    }
}
TEST(RecordFile, NamesTheRecordWhereTheFileHasBecomeShorter) {
    const Folder folder;
    write_text(folder / "a.gxr", by_hand());
    const RecordFile file(folder / "a.gxr");
    const auto reader = file.open();
    std::filesystem::resize_file(folder / "a.gxr", 86);
    std::vector<Sample> samples(1);
    const std::vector<std::uint32_t> first{0}, second{1};
    EXPECT_NO_THROW(reader->read(first, samples));
    EXPECT_TRUE(holds(error_of([&] { reader->read(second, samples); }), "a.gxr",
                      "ends within record 1 of 2", "expected 12 bytes at 84, found 2"));
}
/// Reads all records of a file; returns the error of the first that has one.
std::string reading(const std::filesystem::path& path) {
    return error_of([&] {
        const RecordFile file(path);
        const auto reader = file.open();
        std::vector<Sample> samples(1);
        for (std::uint32_t i = 0; i < file.info().count; ++i) reader->read(std::vector{i}, samples);
    });
}
TEST(RecordFile, FindsEveryDamagedBit) {
    const Folder folder;
    const std::string whole = by_hand();
    write_text(folder / "d.gxr", whole);
    ASSERT_EQ(reading(folder / "d.gxr"), "no error");
    for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
        std::string damaged = whole;
        damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ 1 << bit % 8);
        write_text(folder / "d.gxr", damaged);
        const std::string sentence = reading(folder / "d.gxr");
        EXPECT_TRUE(holds(sentence, "d.gxr")) << bit;
        if (bit >= 8 * 72) {
            EXPECT_TRUE(holds(sentence,
                              bit < 8 * 84 ? "record 0 of 2, at byte 72, is damaged"
                                           : "record 1 of 2, at byte 84, is damaged",
                              "expected checksum", "Copy the file again"))
                << bit;
        } else if (bit >= 8 * 48 && bit < 8 * 56) {  // the content, of which any is in range
            EXPECT_TRUE(
                holds(sentence, "its header is damaged", "expected checksum 10fdd152950bcccf"))
                << bit;
        }
    }
}
TEST(RecordFile, FindsRecordsThatChangedPlaces) {
    const Folder folder;
    const std::string whole = by_hand();
    write_text(folder / "s.gxr", whole.substr(0, 72) + whole.substr(84) + whole.substr(72, 12));
    EXPECT_TRUE(holds(reading(folder / "s.gxr"), "record 0 of 2"));
}
/// More samples than a record file holds; none of them is read.
struct Endless {
    [[nodiscard]] SourceInfo info() const {
        return {.name = "endless",
                .count = std::int64_t{1} << 32,
                .shape = {1, 1, 1},
                .classes = 2,
                .mean = {0},
                .deviation = {1}};
    }
    [[nodiscard]] std::unique_ptr<SampleReader> open() const {
        class Reader final : public SampleReader {
        public:
            void read(std::span<const std::uint32_t>, std::span<Sample>) override {
                throw Error("was read");
            }
        };
        return std::make_unique<Reader>();
    }
};
TEST(WriteRecords, RefusesMoreSamplesThanAFileCounts) {
    const Folder folder;
    EXPECT_TRUE(holds(error_of([&] { write_records(folder / "e.gxr", Endless()); }), "e.gxr",
                      "'endless' has 4294967296 samples", "at most 4294967295"));
    EXPECT_TRUE(std::filesystem::is_empty(folder / ""));
}
/// A source whose pixels are others at each read.
struct Changing : Endless {
    [[nodiscard]] SourceInfo info() const {
        SourceInfo info = Endless::info();
        info.count = 1;
        info.name = "changing";
        return info;
    }
    struct Reads final : SampleReader {
        std::vector<std::uint8_t> pixels;
        explicit Reads(std::int64_t elements) : pixels(std::size_t(elements)) {}
        void read(std::span<const std::uint32_t>, std::span<Sample> out) override {
            ++pixels[0];
            for (Sample& s : out) s = {pixels.data(), 0, shape};
        }
        ImageShape shape{};
    };
    [[nodiscard]] std::unique_ptr<SampleReader> open() const {
        auto reads = std::make_unique<Reads>(info().shape.elements());
        reads->shape = info().shape;
        return reads;
    }
};
TEST(WriteRecords, NoticesASourceThatChangesMeanwhile) {
    const Folder folder;
    EXPECT_TRUE(holds(error_of([&] { write_records(folder / "c.gxr", Changing()); }), "c.gxr",
                      "'changing' has changed while it was written"));
    EXPECT_TRUE(std::filesystem::is_empty(folder / ""));
}
TEST(WriteRecords, LeavesNoFileOfABadSource) {
    const Folder folder;
    Split data = synthetic({.shape = {1, 3, 3}, .classes = 2, .train_count = 20});
    data.train.labels.pop_back();
    EXPECT_TRUE(holds(error_of([&] { write_records(folder / "a", data.train); }), "synthetic",
                      "19 labels"));
    EXPECT_FALSE(std::filesystem::exists(folder / "a"));
}

}  // namespace
