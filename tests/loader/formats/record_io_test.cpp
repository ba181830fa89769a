#include <gx/loader/formats/record_io.hpp>

#include <loader/formats/shards.hpp>  // stored_samples, bytes_of

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <support/files.hpp>  // Folder, write_text, error_of, holds

namespace {

using namespace gx;
using namespace testing_support;
using testing::ElementsAre, testing::ElementsAreArray;
namespace fs = std::filesystem;
using namespace std::string_literals;

const std::string magic = "\x0a\x23\xd7\xce";

/// A record of one part: an image header with one label, then the image.
std::string record(const std::string& image, char id = '\0') {
    const std::string data = "\0\0\0\0"s + "\0\0\0\x40"s + id + std::string(15, '\0') + image;
    const std::string padding((4 - data.size() % 4) % 4, '\0');
    return magic + static_cast<char>(data.size()) + "\0\0\0"s + data + padding;
}

// ---- Files of others ------------------------------------------------------------------------
TEST(RecordIo, ReadsWhatDmlcCoreWrote) {
    const Folder folder;
    write_text(folder / "a.rec", bytes_of(shards::recordio));
    const RecordIo source(folder / "a.rec");
    EXPECT_THAT(samples_of(source), ElementsAreArray(stored_samples()));
    EXPECT_EQ(source.info(), (EncodedInfo{.name = "a.rec", .count = 5, .classes = 1000}));
    for (std::uint32_t i = 0; i < 5; ++i)
        EXPECT_EQ(source.entry(i).offset, shards::recordio_offsets[i]);
}
TEST(RecordIo, ReadsTheRecordsOfAnIndexInItsOrder) {
    const Folder folder;
    write_text(folder / "a.rec", bytes_of(shards::recordio));
    write_text(folder / "a.idx", "14\t" + std::to_string(shards::recordio_offsets[4]) + "\n13\t" +
                                     std::to_string(shards::recordio_offsets[3]) + "\r\n");
    const auto stored = stored_samples();
    EXPECT_THAT(samples_of(RecordIo(folder / "a.rec")), ElementsAre(stored[4], stored[3]));
}
TEST(RecordIo, TakesLabelsAndNamesFromLists) {
    const Folder folder;
    write_text(folder / "a.rec", record("first", 7) + record("second", 8));
    write_text(folder / "a.lst", "8\t5.0\tdog/a b.jpg\n7\t4\tcat/c.jpg\n");
    const RecordIo source(folder / "a.rec", {{}, {folder / "a.lst"}});
    EXPECT_THAT(samples_of(source),
                ElementsAre(StoredSample{"first", 4}, StoredSample{"second", 5}));
    EXPECT_EQ(source.entry(1).name, "dog/a b.jpg");
}
TEST(RecordIo, NamesClassesByTheFileBesideItsShards) {
    const Folder folder;  // record() has label 2
    const std::vector<fs::path> shards{folder / "a-00000-of-00002.rec",
                                       folder / "a-00001-of-00002.rec"};
    for (const fs::path& shard : shards) write_text(shard, record("image"));
    const auto names_of = [&](const RecordIoOptions& o) {
        return RecordIo(shards, o).info().class_names;
    };
    write_text(folder / "a-00000-of-00002.classes.txt", "of another set");
    EXPECT_TRUE(names_of({}).empty());
    write_text(folder / "a.classes.txt", "cat\ndog\nemu\nfox\n");
    EXPECT_EQ(RecordIo(shards).info(), (EncodedInfo{.name = "a-00000-of-00002.rec",
                                                    .count = 2,
                                                    .classes = 4,
                                                    .class_names = {"cat", "dog", "emu", "fox"}}));
    EXPECT_THAT(names_of({{.class_names = {"x", "y", "z"}}, {}}), ElementsAre("x", "y", "z"));
    write_text(folder / "b.rec", record("image"));
    write_text(folder / "b.classes.txt", "ant\nbee\ncow\n");
    EXPECT_THAT(RecordIo(folder / "b.rec").info().class_names, ElementsAre("ant", "bee", "cow"));
    const std::vector<fs::path> both{shards[0], folder / "b.rec"};
    EXPECT_TRUE(holds(error_of([&] { (void)RecordIo(both); }),
                      "b.classes.txt' names other classes than '", "a.classes.txt'"));
    EXPECT_EQ(RecordIo(both, {{.class_names = {"x", "y", "z"}}, {}}).info().classes, 3);
    EXPECT_TRUE(holds(error_of([&] { (void)names_of({{.classes = 3}, {}}); }),
                      "a.classes.txt' names 4 classes: expected the 3 of the options"));
    EXPECT_TRUE(holds(error_of([&] { (void)names_of({{.classes = 3, .class_names = {"x"}}, {}}); }),
                      "the options name 1 classes: expected the 3"));
    write_text(folder / "a.classes.txt", "cat\ndog\n");
    EXPECT_TRUE(holds(error_of([&] { (void)names_of({}); }),
                      "a-00000-of-00002.rec', record at byte 0: its label is 2: expected a whole "
                      "number from 0 to 1, as '",
                      "a.classes.txt' names 2 classes, the first of label 0 (first_label)"));
}
TEST(RecordIoWriter, WritesTheBytesOfDmlcCore) {
    const Folder folder;
    {
        RecordIoWriter writer(folder / "a.rec", 10);
        for (const StoredSample& s : stored_samples()) writer.add(as_bytes(s.bytes), s.label, "n");
        EXPECT_FALSE(fs::exists(folder / "a.rec")) << "whole or not at all";
        writer.commit();
    }
    // The last record of the fixture has its label behind the header.
    const std::string expected = bytes_of(shards::recordio);
    const auto last = shards::recordio_offsets[4];
    EXPECT_EQ(read_text(folder / "a.rec").substr(0, last), expected.substr(0, last));
    EXPECT_EQ(read_text(folder / "a.lst").substr(0, 7), "10\t3\tn\n");
    std::string idx;
    for (int i = 0; i < 5; ++i)
        idx += std::to_string(10 + i) + "\t" + std::to_string(shards::recordio_offsets[i]) + "\n";
    EXPECT_EQ(read_text(folder / "a.idx"), idx);
}

// ---- A property -----------------------------------------------------------------------------
TEST(RecordIo, ReadsWhatWasWritten) {
    EXPECT_TRUE(rc::check([] {
        const Folder folder;
        // Words of the magic number are frequent, at any alignment, and so are lone bytes of it.
        const auto word = rc::gen::oneOf(
            rc::gen::just(magic), rc::gen::just(magic.substr(0, 1)), rc::gen::just(magic + magic),
            rc::gen::container<std::string>(rc::gen::arbitrary<char>()));
        std::vector<StoredSample> all;
        std::vector<fs::path> shards;
        for (int left = *rc::gen::inRange(1, 4); left-- > 0;) {  // a commit waits for the disk
            shards.push_back(folder.path / (std::to_string(left) + ".rec"));
            RecordIoWriter writer(shards.back(), all.size());
            for (int images = *rc::gen::inRange(1, 6); images-- > 0;) {
                const auto words = *rc::gen::container<std::vector<std::string>>(word);
                std::string image = "x";
                for (const auto& w : words) image = w + image;
                all.push_back({image, *rc::gen::inRange(0, 1000)});
                writer.add(as_bytes(image), all.back().label, "");
            }
            writer.commit();
        }
        RC_ASSERT(samples_of(RecordIo(shards)) == all);
        for (const auto& shard : shards) fs::remove(fs::path(shard).replace_extension(".idx"));
        RC_ASSERT(samples_of(RecordIo(shards)) == all);
    }));
}

TEST(RecordIo, TakesTwoNamesInBraces) {
    EXPECT_THAT(error_of([] { const RecordIo source({"none-0.rec", "none-1.rec"}); }),
                ::testing::HasSubstr("'none-0.rec' can't be opened"));
}

// ---- Bad files ------------------------------------------------------------------------------
class BadRecordIo : public testing::Test {
protected:
    std::string opening(const std::string& bytes, const RecordIoOptions& options = {}) {
        write_text(folder / "a.rec", bytes);
        return error_of([&] { const RecordIo source(folder / "a.rec", options); });
    }
    std::vector<StoredSample> skipping(const std::string& bytes, std::int64_t skipped) {
        write_text(folder / "a.rec", bytes);
        const RecordIo source(folder / "a.rec", {{.on_corrupt = OnCorrupt::skip}, {}});
        EXPECT_EQ(source.skipped().count, skipped);
        return samples_of(source);
    }
    const Folder folder;
    const std::string good = record("good");  // 36 bytes
};
TEST_F(BadRecordIo, AnotherMagicNumber) {
    std::string bytes = good + good + good;
    bytes[37] = '?';
    EXPECT_TRUE(holds(opening(bytes), "a.rec', record at byte 36",
                      "expected the magic number "
                      "0xced7230a, found 0xced73f0a",
                      "Copy the file again"));
    EXPECT_THAT(skipping(bytes, 1), ElementsAre(StoredSample{"good", 2}, StoredSample{"good", 2}));
}
TEST_F(BadRecordIo, FilesThatAreCompressed) {
    for (const OnCorrupt on_corrupt : {OnCorrupt::stop, OnCorrupt::skip})
        EXPECT_TRUE(holds(opening("\x1f\x8b\x08" + good, {{.on_corrupt = on_corrupt}, {}}),
                          "a.rec' is compressed by gzip", "Decompress it"));
}
TEST_F(BadRecordIo, EveryShorterFile) {
    const std::string bytes = bytes_of(shards::recordio);
    for (std::size_t n = 0; n < bytes.size() - 3; ++n) {
        const auto* const end =
            std::find(std::begin(shards::recordio_offsets), std::end(shards::recordio_offsets), n);
        const bool between = n > 0 && end != std::end(shards::recordio_offsets);
        // Padding at the end may be missing; a file that ends between records is another file.
        const std::string sentence = opening(bytes.substr(0, n));
        if (sentence == "no error") {
            const auto next = std::upper_bound(std::begin(shards::recordio_offsets),
                                               std::end(shards::recordio_offsets), n);
            EXPECT_TRUE(between || *next - n < 4) << n;
        } else {
            EXPECT_TRUE(holds(sentence, "a.rec', record at byte", "Copy the file again")) << n;
        }
    }
}
TEST_F(BadRecordIo, PartsOutOfOrder) {
    std::string bytes = good;
    bytes[7] = '\x40';  // a middle part
    EXPECT_TRUE(
        holds(opening(bytes), "record at byte 0", "continuation flag is 2", "expected 0 or 1"));
    bytes[7] = '\x20';  // a first part, and then a whole one
    EXPECT_TRUE(holds(opening(bytes + good), "record at byte 0", "continuation flag is 0",
                      "expected 2 or 3"));
    EXPECT_THAT(skipping(bytes + good, 1), ElementsAre(StoredSample{"good", 2}));
}
TEST_F(BadRecordIo, AHeaderThatDoesNotFit) {
    std::string bytes = good;
    bytes[8] = 2;
    EXPECT_TRUE(holds(opening(bytes), "has 2 labels: expected 1"));
    bytes[8] = 1;
    EXPECT_TRUE(holds(opening(bytes), "holds no image")) << "four bytes are the label";
    EXPECT_TRUE(holds(opening(record("")), "holds no image"));
    EXPECT_TRUE(holds(opening(magic + "\4\0\0\0abcd"s), "has 4 bytes of data", "header of 24"));
    bytes = good;
    bytes[15] = '\x7f', bytes[14] = '\x80';  // infinite
    EXPECT_TRUE(holds(opening(bytes), "record at byte 0", "label is inf"));
    bytes[15] = '\x3f', bytes[14] = '\0';  // 0.5
    EXPECT_TRUE(holds(opening(bytes), "label is 0.5", "a whole number"));
    EXPECT_TRUE(holds(opening(good, {{.classes = 2}, {}}), "label is 2", "from 0 to 1"));
}
TEST_F(BadRecordIo, AnIndexThatPointsPastTheFile) {
    write_text(folder / "a.idx", "0\t0\n1\t36\n2\t72\n");
    EXPECT_TRUE(holds(opening(good + good), "a.idx', line 3", "byte 72 lies past the end of",
                      "a.rec', which has 72 bytes", "remove the .idx"));
    write_text(folder / "a.idx", "0\t0\n1\t40\n");
    EXPECT_TRUE(holds(opening(good + good), "a.rec', record at byte 40", "magic number"));
    write_text(folder / "a.idx", "0\t0\n0\t36\n");
    EXPECT_TRUE(holds(opening(good + good), "a.idx', line 2", "key '0' is that of line 1"));
    write_text(folder / "a.idx", "0\t0\n1 36\n");
    EXPECT_TRUE(holds(opening(good + good), "a.idx', line 2", "1 columns: expected 2"));
    write_text(folder / "a.idx", "0\t36\x1b\0\n"s);
    EXPECT_TRUE(holds(opening(good + good), "a.idx', line 1",
                      R"('36\u001b\u0000' is not a number. Write)"));
    write_text(folder / "a.idx", "\x1b\0\t0\n\x1b\0\t36\n"s);
    EXPECT_TRUE(holds(opening(good + good), R"(key '\u001b\u0000' is that of line 1)"));
    write_text(folder / "a.idx", "0\t-1\n");
    EXPECT_TRUE(holds(opening(good + good), "a.idx', line 1", "'-1' is not a number"));
}
TEST_F(BadRecordIo, AnIndexThatPointsTwiceToTheSameBytes) {
    write_text(folder / "a.idx", "0\t36\n1\t72\n2\t36\n");  // for byte 0: that record is hidden
    for (const OnCorrupt on_corrupt : {OnCorrupt::stop, OnCorrupt::skip})
        EXPECT_TRUE(holds(opening(good + good + good, {{.on_corrupt = on_corrupt}, {}}),
                          "a.idx', line 3: offset '36' is that of line 1", "each offset once"));
    std::string bytes = good + good + good;
    bytes[4] = 28 + 36;  // its length covers the second
    write_text(folder / "a.idx", "0\t72\n1\t36\n2\t0\n");
    EXPECT_TRUE(holds(opening(bytes), "a.rec', record at byte 0: it ends at byte 72",
                      "a.idx' has another record from byte 36 on: one of the two is wrong. Remove "
                      "the .idx file, and records are found without it"));
    EXPECT_THAT(skipping(bytes, 1), ElementsAre(StoredSample{"good", 2}, StoredSample{"good", 2}));
}
TEST_F(BadRecordIo, AnIndexWithoutALine) {
    for (const char* lines : {"", "\n\r\n"}) {
        write_text(folder / "a.idx", lines);
        for (const OnCorrupt on_corrupt : {OnCorrupt::stop, OnCorrupt::skip})
            EXPECT_TRUE(holds(opening(good + good, {{.on_corrupt = on_corrupt}, {}}),
                              "a.idx' lists no record, and '",
                              "a.rec' has 72 bytes: expected a line",
                              "or remove it, and records are found without it"));
        EXPECT_TRUE(holds(opening(""), "the file is empty: it has 0 bytes"));
    }
    write_text(folder / "b.rec", good);  // another shard does not make it a whole source
    write_text(folder / "a.rec", good);
    EXPECT_TRUE(
        holds(error_of([&] { const RecordIo source({folder / "b.rec", folder / "a.rec"}); }),
              "a.idx' lists no record"));
}
TEST_F(BadRecordIo, AnIndexThatEndsBeforeTheFile) {
    write_text(folder / "a.idx", "1\t36\n0\t0\n");
    EXPECT_TRUE(holds(opening(good + good + good), "a.rec', record at byte 72: '",
                      "a.idx' lists no record from there on, and the file has 108 bytes",
                      "Remove the .idx file, and records are found without it"));
    EXPECT_THAT(skipping(good + good + good, 1),
                ElementsAre(StoredSample{"good", 2}, StoredSample{"good", 2}));
    std::string bytes = good + good + good;
    bytes[37] = '?';  // where the last one that is listed is corrupt
    EXPECT_THAT(skipping(bytes, 2), ElementsAre(StoredSample{"good", 2}));
    bytes[37] = magic[1], bytes[0] = '?';
    EXPECT_THAT(skipping(bytes, 2), ElementsAre(StoredSample{"good", 2}));
    const std::string odd = record("odd");  // its last byte is padding
    EXPECT_THAT(skipping(good + odd.substr(0, odd.size() - 1), 0),
                ElementsAre(StoredSample{"odd", 2}, StoredSample{"good", 2}));
}
TEST_F(BadRecordIo, AListThatDoesNotFit) {
    const RecordIoOptions listed{{}, {folder / "a.lst"}};
    write_text(folder / "a.lst", "1\t0\tx.jpg\n");
    EXPECT_TRUE(holds(opening(good, listed), "a.rec', record at byte 0", "no list has its id 0"));
    write_text(folder / "a.lst", "0\t0\tx.jpg\n0\t0\ty.jpg\n");
    EXPECT_TRUE(holds(opening(good, listed), "a.lst', line 2", "key '0' is that of line 1"));
    write_text(folder / "a.lst", "0\t-1\tx.jpg\n");
    EXPECT_TRUE(holds(opening(good, listed), "record at byte 0", "label is -1"));
    EXPECT_TRUE(holds(opening(good, {{}, {folder / "none.lst"}}), "none.lst"));
}
TEST_F(BadRecordIo, FilesThatAreNone) {
    EXPECT_TRUE(holds(opening(""), "a.rec', record at byte 0", "the file is empty"));
    EXPECT_TRUE(holds(opening(std::string(100, 'x')), "magic number"));
    EXPECT_TRUE(holds(error_of([&] { const RecordIo source(folder / "none.rec"); }), "none.rec",
                      "can't be opened"));
    const std::vector<fs::path> twice{folder / "a.rec", folder / "a.rec"};
    write_text(folder / "a.rec", good);
    EXPECT_TRUE(holds(error_of([&] { const RecordIo source(twice); }), "is given twice"));
    EXPECT_TRUE(
        holds(error_of([&] { const RecordIo source(std::span<const fs::path>{}); }), "0 files"));
}
TEST_F(BadRecordIo, ARecordThatBecomesCorruptIsFoundWhenItIsRead) {
    write_text(folder / "a.rec", good + good);
    const RecordIo stops(folder / "a.rec");
    const RecordIo skips(folder / "a.rec", {{.on_corrupt = OnCorrupt::skip}, {}});
    std::string bytes = good + good;
    bytes[37] = '?';
    write_text(folder / "a.rec", bytes);
    EXPECT_EQ(read_one(*stops.open(), 0).bytes, "good");
    EXPECT_TRUE(holds(error_of([&] { read_one(*stops.open(), 1); }),
                      "a.rec', record at byte 36: expected the magic number"));
    const auto reader = skips.open();
    EXPECT_EQ(read_one(*reader, 1).bytes, "");
    EXPECT_EQ(reader->skipped().count, 1);
}
TEST_F(BadRecordIo, ALengthThatCoversTheNextRecord) {
    std::string bytes = good + good;
    ASSERT_EQ(bytes[4], 28);
    bytes[4] = 28 + 36;
    write_text(folder / "a.rec", bytes);
    const RecordIo source(folder / "a.rec");
    EXPECT_EQ(source.info().count, 1);
    EXPECT_TRUE(holds(error_of([&] { read_one(*source.open(), 0); }), "record at byte 0",
                      "its length of 64 bytes is wrong: another record begins 28 bytes behind"));
}
TEST_F(BadRecordIo, APartThatBecomesTheFirstOfNoOther) {
    std::string bytes = record("whole");  // and three bytes of padding, which its record lacks
    write_text(folder / "a.rec", bytes);
    const RecordIo source(folder / "a.rec");
    bytes[7] = '\x20';
    write_text(folder / "a.rec", bytes);
    EXPECT_TRUE(holds(error_of([&] { read_one(*source.open(), 0); }),
                      "ends within the head of a record, after 0 bytes of 8"));
}
TEST(BadRecordIoWriter, RefusesWhatNoReaderTakes) {
    const Folder folder;
    RecordIoWriter writer(folder / "a.rec");
    const std::string image = "x";
    EXPECT_TRUE(holds(error_of([&] { writer.add({}, 0, "a.jpg"); }), "a.jpg", "is empty"));
    EXPECT_TRUE(holds(error_of([&] { writer.add(as_bytes(image), 0, "a\tb"); }), "has a tab"));
}
TEST(BadRecordIoWriter, LeavesNoListsOfEarlierRecordsBesideNewOnes) {
    const Folder folder;
    const std::string image = "x";
    const auto write = [&] {
        RecordIoWriter writer(folder / "a.rec");
        writer.add(as_bytes(image), 0, "a.jpg");
        writer.commit();
    };
    write();
    EXPECT_TRUE(fs::exists(folder / "a.idx") && fs::exists(folder / "a.lst"));
    const std::string idx_tmp = (folder / "a.idx.tmp").string();
    RecordIoWriter writer(folder / "a.rec");
    writer.add(as_bytes(image), 1, "b.jpg");
    fs::remove(idx_tmp);  // committed behind the records
    EXPECT_TRUE(holds(error_of([&] { writer.commit(); }), "a.idx' can't be put in place"));
    EXPECT_EQ(samples_of(RecordIo(folder / "a.rec"))[0].label, 1);
    EXPECT_FALSE(fs::exists(folder / "a.idx"));
    EXPECT_FALSE(fs::exists(folder / "a.lst")) << "its label is another image's";
}

}  // namespace
