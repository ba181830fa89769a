#include <gx/loader/formats/encoded_files.hpp>

#include <loader/formats/samples.hpp>  // samples_of

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <support/files.hpp>  // Folder, write_text, error_of, holds

namespace {

using namespace gx;
using namespace testing_support;
namespace fs = std::filesystem;
using detail::encoded::Index;

/// Files of records of four bytes: a label, then three of an image that may not begin with '!'.
class Quads : public EncodedFiles {
public:
    explicit Quads(const std::vector<fs::path>& files, const EncodedOptions& options = {})
        : EncodedFiles(index_of(files, options)) {}

private:
    static Index index_of(const std::vector<fs::path>& files, const EncodedOptions& options) {
        Index index;
        index.options = options;
        index.extract = [](std::span<std::uint8_t> record) -> std::span<const std::uint8_t> {
            if (record[1] == '!') throw detail::encoded::Flaw("it begins with '!'");
            return record.subspan(1);
        };
        for (const fs::path& file : files) {
            const auto number = std::uint32_t(index.files.size());
            const std::string text = read_text(file);
            index.files.push_back(file);
            index.file_bytes.push_back(text.size());
            for (std::size_t i = 0; i + 4 <= text.size(); i += 4) try {
                    index.add({i, 4, number, 0, 0}, text[i] - '0', text.substr(i + 1, 1));
                } catch (const detail::encoded::CorruptRecord& e) {
                    index.skip(e);
                }
        }
        index.finish();
        return index;
    }
};

TEST(EncodedFiles, ReadsRecordsAtTheirPlaces) {
    const Folder folder;
    write_text(folder / "a", "0abc1def");
    write_text(folder / "b", "3ghi");
    const Quads source({folder / "a", folder / "b"});
    EXPECT_EQ(source.info(), (EncodedInfo{.name = "a", .count = 3, .classes = 4}));
    EXPECT_THAT(samples_of(source),
                testing::ElementsAre(StoredSample{"abc", 0}, StoredSample{"def", 1},
                                     StoredSample{"ghi", 3}));
    const EncodedEntry e = source.entry(1);
    EXPECT_EQ(e.file, folder / "a");
    EXPECT_EQ(e.name, "d");
    EXPECT_EQ(e.offset, 4u);
    EXPECT_EQ(e.bytes, 4u);
    EXPECT_EQ(e.label, 1);
    EXPECT_EQ(source.largest_class(), 1);
}
TEST(EncodedFiles, ReadsFromMoreFilesThanItKeepsOpen) {
    const Folder folder;
    std::vector<fs::path> files;
    std::vector<StoredSample> expected;
    for (int i = 0; i < 100; ++i) {
        files.push_back(folder.path / std::to_string(i));
        const std::string image = std::to_string(i + 100);
        write_text(files.back(), std::to_string(i % 10) + image);
        expected.push_back({image, i % 10});
    }
    const Quads source(files);
    const auto open_files = [] {
        return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator{});
    };
    const auto before = open_files();
    const auto reader = source.open();
    for (int times = 0; times < 2; ++times)
        for (std::uint32_t i = 0; i < 100; ++i) EXPECT_EQ(read_one(*reader, i), expected[i]);
    EXPECT_EQ(open_files(), before + 32);
}
TEST(EncodedFiles, ClosesTheFileThatWasReadLeastRecently) {
    const Folder folder;
    std::vector<fs::path> files;
    for (int i = 0; i < 33; ++i) {
        files.push_back(folder.path / std::to_string(i));
        write_text(files.back(), "0abc");
    }
    const Quads source(files);
    const auto reader = source.open();
    for (std::uint32_t i = 0; i < 32; ++i) read_one(*reader, i);
    read_one(*reader, 0);
    read_one(*reader, 32);  // instead of 1
    for (const fs::path& file : files) fs::remove(file);
    for (const std::uint32_t i : {0, 31, 32}) EXPECT_EQ(read_one(*reader, i).bytes, "abc");
    EXPECT_TRUE(holds(error_of([&] { read_one(*reader, 1); }), "/1' can't be opened"));
}
TEST(EncodedFiles, SubtractsTheFirstLabel) {
    const Folder folder;
    write_text(folder / "a", "1abc2def");
    const Quads source({folder / "a"}, {.first_label = 1});
    EXPECT_EQ(source.info().classes, 2);
    EXPECT_EQ(source.entry(0).label, 0);
}
TEST(EncodedFiles, NamesTheRecordOfALabelOutOfRange) {
    const Folder folder;
    write_text(folder / "a", "1abc3def0ghi");
    const auto opening = [&](const EncodedOptions& o) {
        return error_of([&] { const Quads source({folder / "a"}, o); });
    };
    EXPECT_TRUE(holds(opening({.classes = 3}), "a', record at byte 4", "label is 3", "from 0 to 2",
                      "OnCorrupt::skip"));
    EXPECT_TRUE(holds(opening({.first_label = 1}), "record at byte 8", "label is 0", "from 1 to"));
    const Quads skips({folder / "a"},
                      {.classes = 2, .first_label = 1, .on_corrupt = OnCorrupt::skip});
    EXPECT_THAT(samples_of(skips), testing::ElementsAre(StoredSample{"abc", 0}));
    EXPECT_EQ(skips.skipped().count, 2);
    EXPECT_TRUE(holds(skips.skipped().first.at(0), "record at byte 4"));
}
TEST(EncodedFiles, StopsAtACorruptRecordOrSkipsIt) {
    const Folder folder;
    write_text(folder / "a", "1!bc0def");
    const Quads stops({folder / "a"});
    const auto stopping = stops.open();
    EXPECT_TRUE(holds(error_of([&] { read_one(*stopping, 0); }), "a', record at byte 0",
                      "begins with '!'", "Copy the file again"));
    EXPECT_EQ(read_one(*stopping, 1).bytes, "def");
    const Quads skips({folder / "a"}, {.on_corrupt = OnCorrupt::skip});
    const auto skipping = skips.open();
    EXPECT_EQ(read_one(*skipping, 0), (StoredSample{"", 1}));
    EXPECT_EQ(skipping->skipped().count, 1);
}
TEST(EncodedFiles, NamesAFileThatHasGoneOrChanged) {
    const Folder folder;
    write_text(folder / "a", "0abc1def");
    const Quads source({folder / "a"}, {.on_corrupt = OnCorrupt::skip});
    const auto before = source.open();
    EXPECT_EQ(read_one(*before, 1).bytes, "def");
    const auto sentence = [&] { return error_of([&] { read_one(*source.open(), 1); }); };
    fs::resize_file(folder / "a", 6);
    EXPECT_TRUE(holds(error_of([&] { read_one(*before, 1); }), "ends within the record at byte 4",
                      "expected 4 bytes, found 2"));
    EXPECT_TRUE(holds(sentence(), "a' has 6 bytes, and had 8"));
    fs::remove(folder / "a");
    EXPECT_TRUE(holds(sentence(), "a' can't be opened", "was there when the source was opened"));
}
TEST(EncodedFiles, RefusesFilesWithoutSamples) {
    const Folder folder;
    write_text(folder / "a", "");
    write_text(folder / "b", "9abc");
    const auto opening = [&](const EncodedOptions& o) {
        return error_of([&] { const Quads source({folder / "a", folder / "b"}, o); });
    };
    EXPECT_TRUE(holds(opening({.classes = 5, .on_corrupt = OnCorrupt::skip}), "a' holds no sample",
                      "The first corrupt record", "label is 9"));
}

}  // namespace
