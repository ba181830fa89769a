#include <gx/core/atomic_file.hpp>

#include <gtest/gtest.h>

#include <support/files.hpp>  // Folder, error_of, holds

namespace {

using namespace testing_support;

TEST(WriteFile, NamesTheFileThatCantBeMade) {
    const Folder folder;
    EXPECT_TRUE(holds(error_of([&] { gx::write_file(folder / "no/f", "text"); }),
                      "/no/f' cannot be created: No such file", "choose another folder"));
    std::filesystem::create_directories(folder / "taken/by");
    EXPECT_TRUE(holds(error_of([&] { gx::write_file(folder / "taken", "text"); }),
                      "taken' cannot be renamed into place"));
    EXPECT_FALSE(std::filesystem::exists(folder / "taken.tmp"));
}
TEST(WriteFile, ReplacesWhatWasThere) {
    const Folder folder;
    gx::write_file(folder / "f", "a longer first text");
    gx::write_file(folder / "f", "second");
    EXPECT_EQ(read_text(folder / "f"), "second");
    EXPECT_FALSE(std::filesystem::exists(folder / "f.tmp"));
}
TEST(AtomicFile, WithoutACommitNothingChanges) {
    const Folder folder;
    gx::write_file(folder / "f", "first");
    {
        gx::detail::AtomicFile file(folder / "f");
        file.write("half", 4);
    }
    EXPECT_EQ(read_text(folder / "f"), "first");
    EXPECT_FALSE(std::filesystem::exists(folder / "f.tmp"));
}

}  // namespace
