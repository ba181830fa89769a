#include <gx/loader/formats/open_encoded.hpp>

#include <loader/formats/shards.hpp>  // stored_samples, bytes_of

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <support/files.hpp>  // Folder, write_text, error_of, holds

namespace {

using namespace gx;
using namespace testing_support;
using testing::ElementsAreArray;
namespace fs = std::filesystem;

TEST(OpenEncoded, KnowsTheFormatByTheName) {
    const Folder folder;
    write_text(folder / "a.rec", bytes_of(shards::recordio));
    write_text(folder / "a.tar", bytes_of(shards::web_dataset));
    write_text(folder / "train-00000-of-00001", bytes_of(shards::tfrecord));
    for (const char* name : {"a.rec", "a.tar", "train-00000-of-00001"}) {
        const std::vector<fs::path> paths{folder / name};
        EXPECT_THAT(samples_of(open_encoded(paths)), ElementsAreArray(stored_samples())) << name;
    }
    fs::create_directories(folder / "set/cat");
    write_text(folder / "set/cat/1.jpg", "x");
    const std::vector<fs::path> set{folder / "set"};
    EXPECT_EQ(open_encoded(set).info().class_names, std::vector<std::string>{"cat"});
}
TEST(OpenEncoded, TakesTheFormatAndTheOptionsThatItIsGiven) {
    const Folder folder;
    write_text(folder / "a", bytes_of(shards::recordio));
    const std::vector<fs::path> paths{folder / "a"};
    const auto source = open_encoded(paths, {.name = "mine"}, encoded_format("recordio"));
    EXPECT_THAT(samples_of(source), ElementsAreArray(stored_samples()));
    EXPECT_EQ(source.info().name, "mine");
}
TEST(OpenEncoded, NamesClassesInAnyFormat) {
    const Folder folder;
    std::string lines;
    std::vector<std::string> names;
    for (int c = 0; c < 1001; ++c) lines += names.emplace_back("class " + std::to_string(c)) + "\n";
    for (const char* stem : {"a", "t", "w", "train", "train-of-9"})
        write_text(folder.path / (std::string(stem) + ".classes.txt"), lines);
    write_text(folder / "a.rec", bytes_of(shards::recordio));
    write_text(folder / "w-3-of-12.tar", bytes_of(shards::web_dataset));
    for (const char* name : {"train-00000-of-00001", "t.tfrecord-00000-of-00001", "train-of-9"})
        write_text(folder / name, bytes_of(shards::tfrecord));
    for (const char* name : {"a.rec", "w-3-of-12.tar", "train-00000-of-00001",
                             "t.tfrecord-00000-of-00001", "train-of-9"}) {
        const std::vector<fs::path> paths{folder / name};
        EXPECT_EQ(open_encoded(paths).info().class_names, names) << name;
        EXPECT_EQ(open_encoded(paths).info().classes, 1001) << name;
    }
}
TEST(OpenEncoded, NamesWhatItDoesNotKnow) {
    const Folder folder;
    for (const auto format : {EncodedFormat::folder, EncodedFormat::recordio,
                              EncodedFormat::tfrecord, EncodedFormat::webdataset})
        EXPECT_EQ(encoded_format(to_string(format)), format);
    EXPECT_TRUE(holds(error_of([] { (void)encoded_format("recordoi"); }), "recordoi", "recordio"));
    const std::vector<fs::path> two{folder.path, folder.path}, none;
    EXPECT_TRUE(holds(error_of([&] { (void)open_encoded(two); }), "is one too many"));
    EXPECT_TRUE(holds(error_of([&] { (void)open_encoded(none); }), "0 files"));
}
TEST(OpenEncoded, TellsWhatAFileOfAnotherEndingWasTakenFor) {
    const Folder folder;
    const auto opening = [&](const char* name) {
        const std::vector<fs::path> paths{folder / name};
        return error_of([&] { (void)open_encoded(paths); });
    };
    for (const char* name : {"notes.md", "a.tfrecord", "train-00000-of-00001"})
        write_text(folder / name, "a text that is longer than the head of a record");
    EXPECT_TRUE(holds(opening("notes.md"), "notes.md', record at byte 0", "read as TFRecord",
                      "'.md' is the ending of no other format"));
    for (const char* name : {"a.tfrecord", "train-00000-of-00001", "missing.md"})
        EXPECT_FALSE(holds(opening(name), "read as TFRecord")) << name;
}
TEST(OpenEncoded, KnowsAnIdxFileByItsBeginning) {
    const Folder folder;
    for (const char sizes : {'\1', '\4'}) {
        const std::string head = std::string("\0\0\x08", 3) + sizes;
        write_text(folder / "labels-idx1-ubyte", head + std::string(40, '\1'));
        const std::vector<fs::path> paths{folder / "labels-idx1-ubyte"};
        EXPECT_TRUE(holds(
            error_of([&] { (void)open_encoded(paths); }), "labels-idx1-ubyte', record at byte 0",
            fmt::format(" It begins as an IDX file of {} sizes does, which holds no encoded "
                        "images: IdxFiles reads pixels, of 3 sizes, and labels, of 1.",
                        int{sizes})));
    }
}

}  // namespace
