#include <gx/io/read_file.hpp>  // first, so the header is seen to stand alone

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <support/files.hpp>  // Folder, error_of

namespace {

using namespace testing_support;

std::string refused(const std::filesystem::path& file, std::size_t bytes_most) {
    return error_of([&] { (void)gx::read_file(file, bytes_most); });
}

TEST(ReadFile, RefusesFoldersAbsentAndEndlessFiles) {
    const Folder folder;
    EXPECT_EQ(refused(folder.path, 9),
              "file '" + folder.path.string() + "' is a folder. Name a file in it.");
    EXPECT_EQ(refused(folder / "absent", 9),
              "file '" + (folder / "absent").string() +
                  "' cannot be read. Name a file that exists and is readable.");
    EXPECT_EQ(refused("/dev/zero", 9),
              "file '/dev/zero' is longer than 9 bytes. Name a shorter one.");
    EXPECT_EQ(refused("/dev/null", 0), "no error");
    EXPECT_EQ(refused("/proc/self/mem", 9),  // address 0 cannot be read
              "file '/proc/self/mem' cannot be read to its end: the system reports an error.");
}

RC_GTEST_PROP(ReadFile, ReturnsEveryByteUpToTheLimit, ()) {
    const Folder folder;
    const auto text = *rc::gen::arbitrary<std::string>();
    write_text(folder / "f", text);
    RC_ASSERT(gx::read_file(folder / "f", text.size()) == text);
    if (!text.empty()) RC_ASSERT(refused(folder / "f", text.size() - 1) != "no error");
}

}  // namespace
