#include <gx/loader/formats/image_folder.hpp>

#include <loader/formats/samples.hpp>  // samples_of

#include <sys/stat.h>  // mkfifo

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <support/files.hpp>  // Folder, write_text, error_of, holds

namespace {

using namespace gx;
using namespace testing_support;
using testing::ElementsAre;
namespace fs = std::filesystem;

void put(const fs::path& file, const std::string& bytes) {
    fs::create_directories(file.parent_path());
    write_text(file, bytes);
}
std::vector<std::string> names_of(const ImageFolder& folder) {
    std::vector<std::string> names;
    for (std::uint32_t i = 0; i < folder.info().count; ++i) {
        const EncodedEntry e = folder.entry(i);
        names.push_back(fs::path(e.file).filename().string() + "/" + e.name);
    }
    return names;
}

// ---- A case worked by hand ------------------------------------------------------------------
TEST(ImageFolder, SortsClassesThenFoldersThenFiles) {
    const Folder folder;
    put(folder / "dog/b.jpg", "dog b");
    put(folder / "dog/a.PNG", "dog a");
    put(folder / "cat/9.jpeg", "cat 9");
    put(folder / "cat/10.jpeg", "cat 10");
    put(folder / "cat/a/z.jpg", "cat a z");
    put(folder / "cat/a-b/z.jpg", "cat a-b z");  // before "a/b": '-' is below '/'
    put(folder / "cat/a/b/z.jpg", "cat a b z");
    put(folder / "cat/notes.txt", "no image");
    put(folder / "Zebra/1.jpg", "zebra");
    write_text(folder / "loose.jpg", "in no class");
    const ImageFolder source(folder.path);
    EXPECT_THAT(names_of(source),
                ElementsAre("Zebra/1.jpg", "cat/10.jpeg", "cat/9.jpeg", "cat/a/z.jpg",
                            "cat/a-b/z.jpg", "cat/a/b/z.jpg", "dog/a.PNG", "dog/b.jpg"));
    EXPECT_EQ(source.info(), (EncodedInfo{.name = folder.path.filename().string(),
                                          .count = 8,
                                          .classes = 3,
                                          .class_names = {"Zebra", "cat", "dog"}}));
    EXPECT_THAT(samples_of(source),
                ElementsAre(StoredSample{"zebra", 0}, StoredSample{"cat 10", 1},
                            StoredSample{"cat 9", 1}, StoredSample{"cat a z", 1},
                            StoredSample{"cat a-b z", 1}, StoredSample{"cat a b z", 1},
                            StoredSample{"dog a", 2}, StoredSample{"dog b", 2}));
    EXPECT_EQ(source.largest_class(), 5);
    EXPECT_EQ(ImageFolder(folder.path / "").info().name, folder.path.filename());
}
TEST(ImageFolder, TakesTheEndingsThatItIsGiven) {
    const Folder folder;
    put(folder / "a/1.jpg", "1");
    put(folder / "a/2.webp", "2");
    const ImageFolder source(folder.path, {{.name = "set"}, {".webp"}});
    EXPECT_EQ(source.info().name, "set");
    EXPECT_THAT(names_of(source), ElementsAre("a/2.webp"));
}
TEST(ImageFolder, TakesTheClassNamesThatItIsGiven) {
    const Folder folder;
    put(folder / "n01440764/1.jpg", "1");
    put(folder / "n01443537/1.jpg", "2");
    const ImageFolder source(folder.path, {{.class_names = {"tench", "goldfish"}}, {".jpg"}});
    EXPECT_THAT(source.info().class_names, ElementsAre("tench", "goldfish"));
    EXPECT_EQ(source.info().classes, 2);
    EXPECT_TRUE(
        holds(error_of([&] { ImageFolder(folder.path, {{.class_names = {"tench"}}, {".jpg"}}); }),
              "has 2 folders: expected one for each of 1 class names"));
}
TEST(ImageFolder, FollowsSymbolicLinks) {
    const Folder folder;
    put(folder / "store/1.jpg", "one");
    put(folder / "set/cat/2.jpg", "two");
    fs::create_directory_symlink(folder / "store", folder / "set/dog");
    fs::create_directory_symlink(folder / "store", folder / "set/cat/more");
    EXPECT_THAT(names_of(ImageFolder(folder / "set")),
                ElementsAre("cat/2.jpg", "cat/more/1.jpg", "dog/1.jpg"));
}

// ---- A property -----------------------------------------------------------------------------
TEST(ImageFolder, AnyRanksReadEachSampleOnce) {
    EXPECT_TRUE(rc::check([] {
        const Folder folder;
        std::vector<StoredSample> expected;
        const int classes = *rc::gen::inRange(1, 5);
        for (int c = 0; c < classes; ++c)
            for (int i = *rc::gen::inRange(1, 8); i-- > 0;) {
                const auto bytes = *rc::gen::nonEmpty<std::string>();
                put(folder.path / std::to_string(c) / (std::to_string(i) + ".jpg"), bytes);
            }
        const ImageFolder source(folder.path);
        const auto whole = samples_of(source);
        const auto ranks = *rc::gen::inRange<std::uint32_t>(1, 9);  // more than classes, too
        std::vector<StoredSample> shared(whole.size());
        for (std::uint32_t rank = 0; rank < ranks; ++rank) {
            const auto reader = source.open();
            for (std::uint32_t i = rank; i < whole.size(); i += ranks)
                shared[i] = read_one(*reader, i);
        }
        RC_ASSERT(shared == whole);
    }));
}

// ---- Bad folders ----------------------------------------------------------------------------
std::string opening(const fs::path& path, const ImageFolderOptions& options = {}) {
    return error_of([&] { const ImageFolder source(path, options); });
}
TEST(ImageFolder, NamesAFolderThatIsNone) {
    const Folder folder;
    EXPECT_TRUE(holds(opening(folder / "none"), "none", "can't be listed: No such file"));
    write_text(folder / "file", "");
    EXPECT_TRUE(holds(opening(folder / "file"), "file", "can't be listed: Not a directory"));
}
TEST(ImageFolder, RefusesAFolderWithoutClasses) {
    const Folder folder;
    put(folder / "set/1.jpg", "loose");
    EXPECT_TRUE(holds(opening(folder / "set"), "set' has no folder in it", "one for each class"));
    put(folder / "set/a/1.jpg", "a");
    put(folder / "set/b/1.jpg", "b");
    EXPECT_TRUE(holds(opening(folder / "set", {{.classes = 3}, {".jpg"}}), "has 2 folders",
                      "each of 3 classes"));
}
TEST(ImageFolder, NamesAllClassesWithoutImages) {
    const Folder folder;
    put(folder / "a/1.jpg", "a");
    put(folder / "b/notes.txt", "b");
    fs::create_directories(folder / "c/deeper");
    EXPECT_TRUE(holds(opening(folder.path), "2 classes without images: 'b', 'c'.",
                      "end in .jpg .jpeg .png"));
    for (int i = 0; i < 11; ++i) fs::create_directories(folder.path / ("d" + std::to_string(i)));
    EXPECT_TRUE(holds(opening(folder.path), "13 classes without images", ", ..."));
}
TEST(ImageFolder, FindsAFolderThatContainsItself) {
    const Folder folder;
    put(folder / "a/1.jpg", "a");
    fs::create_directory_symlink("..", folder / "a/up");
    EXPECT_TRUE(holds(opening(folder.path), "a/up/a'", "contains itself by a symbolic link"));
}
TEST(ImageFolder, StopsAtALinkToNothingOrAPipeOrSkipsThem) {
    const Folder folder;
    put(folder / "a/1.jpg", "a");
    put(folder / "a/b/1.jpg", "b");
    fs::create_symlink("1.jpg", folder / "a/3.jpg");
    ASSERT_EQ(::mkfifo((folder / "a/pipe").c_str(), 0600), 0);
    fs::create_symlink("pipe", folder / "a/to a pipe");
    EXPECT_EQ(ImageFolder(folder.path).info().count, 3) << "others are not named as images";

    fs::create_symlink("nowhere", folder / "a/2.jpg");
    EXPECT_TRUE(holds(opening(folder.path), "a/2.jpg' is a symbolic link to nothing",
                      "expected an image file", "OnCorrupt::skip in the options of the source"));
    ASSERT_EQ(::mkfifo((folder / "a/b/2.jpg").c_str(), 0600), 0);
    const ImageFolder skips(folder.path, {{.on_corrupt = OnCorrupt::skip}, {".jpg"}});
    EXPECT_THAT(names_of(skips), ElementsAre("a/1.jpg", "a/3.jpg", "a/b/1.jpg"));
    EXPECT_EQ(skips.skipped().count, 2);
    EXPECT_TRUE(holds(skips.skipped().first.at(0), "a/2.jpg' is a symbolic link to nothing"));
    EXPECT_TRUE(holds(skips.skipped().first.at(1), "a/b/2.jpg' is no regular file"));
    fs::remove(folder / "a/2.jpg");
    EXPECT_TRUE(holds(opening(folder.path), "a/b/2.jpg' is no regular file"));
}
TEST(ImageFolder, NamesLinksToNothingWithoutAnImagesEnding) {
    const Folder folder;
    put(folder / "a/1.jpg", "a");
    fs::create_symlink("nowhere", folder / "a/more");
    EXPECT_TRUE(holds(opening(folder.path), "a/more' is a symbolic link to nothing"));
    fs::create_symlink("loop", folder / "a/loop");
    const ImageFolder skips(folder.path, {{.on_corrupt = OnCorrupt::skip}, {".jpg"}});
    EXPECT_THAT(names_of(skips), ElementsAre("a/1.jpg"));
    EXPECT_EQ(skips.skipped().count, 2);
    EXPECT_TRUE(holds(skips.skipped().first.at(0), "a/loop' is a symbolic link to nothing"));
    EXPECT_TRUE(holds(skips.skipped().first.at(1), "a/more' is a symbolic link to nothing"));
}
TEST(ImageFolder, ALinkToNothingAmongClassesStopsSinceLabelsWouldShift) {
    const ImageFolderOptions skip{{.on_corrupt = OnCorrupt::skip}, {".jpg"}};
    for (const char* const target : {"nowhere", "ant"}) {  // in a loop
        const Folder folder;
        put(folder / "cat/1.jpg", "cat");
        put(folder / "dog/1.jpg", "dog");
        ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
        EXPECT_EQ(ImageFolder(folder.path, skip).info().classes, 2);
        fs::create_symlink(target, folder / "ant");
        for (const ImageFolderOptions& options : {ImageFolderOptions{}, skip})
            EXPECT_TRUE(holds(opening(folder.path, options), folder.path.string(),
                              "a symbolic link to nothing, 'ant'", "expected a class's folder",
                              "Mend the link"));
    }
}
TEST(ImageFolder, StopsAtAnEmptyFileOrSkipsIt) {
    const Folder folder;
    put(folder / "a/0.jpg", "");
    put(folder / "a/1.jpg", "a");
    put(folder / "a/2.jpg", "");
    const ImageFolder stops(folder.path);
    const auto stopping = stops.open();
    EXPECT_TRUE(holds(error_of([&] { read_one(*stopping, 2); }), "a/2.jpg' is empty",
                      "expected an encoded image", "OnCorrupt::skip"));
    const ImageFolder skips(folder.path, {{.on_corrupt = OnCorrupt::skip}, {".jpg"}});
    const auto skipping = skips.open();
    EXPECT_EQ(skips.info().count, 3) << "an index is the same in every process";
    EXPECT_EQ(read_one(*skipping, 0), (StoredSample{"", 0}));
    EXPECT_EQ(read_one(*skipping, 1), (StoredSample{"a", 0}));
    EXPECT_EQ(read_one(*skipping, 2), (StoredSample{"", 0}));
    EXPECT_EQ(skipping->skipped().count, 2);
    EXPECT_TRUE(holds(skipping->skipped().first.at(0), "a/0.jpg"));
}
TEST(ImageFolder, AFileThatIsLargerThanImagesAreIsCorrupt) {
    const Folder folder;
    put(folder / "a/0.jpg", "a");
    fs::resize_file(folder / "a/0.jpg", 2'000'000'000);  // takes no place on the disk
    const ImageFolder source(folder.path);
    EXPECT_TRUE(holds(error_of([&] { read_one(*source.open(), 0); }), "a/0.jpg' has 2000000000 ",
                      "at most 1073741824"));
}
TEST(ImageFolder, NamesAFileThatHasGone) {
    const Folder folder;
    put(folder / "a/0.jpg", "a");
    const ImageFolder source(folder.path, {{.on_corrupt = OnCorrupt::skip}, {".jpg"}});
    fs::remove(folder / "a/0.jpg");
    const auto reader = source.open();
    EXPECT_TRUE(holds(error_of([&] { read_one(*reader, 0); }), "a/0.jpg", "can't be opened",
                      "was there when the source was opened"));
}

}  // namespace
