// FolderLock: one holder at a time, in one process and in two; nothing is left of it.
#include <gx/io/folder_lock.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include <support/files.hpp>

namespace {

using gx::detail::FolderLock;

std::string refusal(const std::filesystem::path& folder) {
    return testing_support::error_of([&] { const FolderLock lock(folder); });
}

TEST(FolderLock, HasOneHolderAtATime) {
    const testing_support::Folder folder;
    {
        const FolderLock lock(folder.path);
        EXPECT_TRUE(testing_support::holds(
            refusal(folder.path),
            "output folder '" + folder.path.string() + "' is in use by another run"));
        EXPECT_EQ(refusal(folder.path.parent_path()), "no error");
    }
    EXPECT_EQ(refusal(folder.path), "no error");
    EXPECT_TRUE(std::filesystem::is_empty(folder.path));
}

TEST(FolderLock, EndsWithTheProcessThatHasIt) {
    const testing_support::Folder folder;
    int held[2];
    ASSERT_EQ(::pipe(held), 0);
    const pid_t child = ::fork();
    if (child == 0) {
        if (refusal(folder.path) != "no error") ::_exit(1);
        const FolderLock lock(folder.path);
        (void)!::write(held[1], "x", 1);
        for (;;) ::pause();
    }
    ::close(held[1]);
    char byte = 0;
    ASSERT_EQ(::read(held[0], &byte, 1), 1);
    EXPECT_NE(refusal(folder.path), "no error");
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    EXPECT_EQ(refusal(folder.path), "no error");
    ::close(held[0]);
}

/// A child that was forked meanwhile keeps the folder open, and holds it no longer than its parent.
TEST(FolderLock, EndsWithItsHolderThoughAChildLives) {
    const testing_support::Folder folder;
    pid_t child = -1;
    {
        const FolderLock lock(folder.path);
        child = ::fork();
        if (child == 0)
            for (;;) ::pause();
        const pid_t ends = ::fork();
        if (ends == 0) {
            lock.~FolderLock();
            ::_exit(0);
        }
        ASSERT_EQ(::waitpid(ends, nullptr, 0), ends);
        EXPECT_NE(refusal(folder.path), "no error") << "a child does not free it";
    }
    EXPECT_EQ(refusal(folder.path), "no error");
    ::kill(child, SIGKILL);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST(FolderLock, IsNoneWhereThereIsNoFolder) { EXPECT_EQ(refusal("/nowhere/at/all"), "no error"); }

}  // namespace
