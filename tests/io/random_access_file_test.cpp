#include <gx/io/random_access_file.hpp>

#include <sys/stat.h>  // mkfifo

#include <array>  // bytes

#include <gtest/gtest.h>

#include <support/files.hpp>  // Folder, write_text, error_of, holds

namespace {

using namespace gx;
using namespace testing_support;

TEST(RandomAccessFile, ReadsFromAnyByteToTheEnd) {
    const Folder folder;
    write_text(folder / "a", "abcdef");
    const RandomAccessFile file(folder / "a");
    EXPECT_EQ(file.bytes(), 6u);
    std::array<std::uint8_t, 4> to{};
    EXPECT_EQ(file.read(1, to), 4u);
    EXPECT_EQ(to[0], 'b');
    EXPECT_EQ(to[3], 'e');
    EXPECT_EQ(file.read(4, to), 2u);
    EXPECT_EQ(to[1], 'f');
    EXPECT_EQ(file.read(6, to), 0u);
}
TEST(RandomAccessFile, RefusesWhatIsNoRegularFile) {
    const Folder folder;
    ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
    const auto opening = [](const std::filesystem::path& path) {
        return error_of([&] { const RandomAccessFile file(path); });
    };
    EXPECT_TRUE(holds(opening(folder / "none"), "none", "can't be opened", "No such file"));
    EXPECT_TRUE(holds(opening(folder.path), "no regular file"));
    EXPECT_TRUE(holds(opening(folder / "pipe"), "no regular file"));
    EXPECT_TRUE(holds(opening("/dev/zero"), "no regular file"));
}

}  // namespace
