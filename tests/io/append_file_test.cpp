#include <gx/io/append_file.hpp>

#include <sys/resource.h>  // setrlimit
#include <sys/wait.h>      // waitpid
#include <unistd.h>        // fork

#include <csignal>  // SIGXFSZ
#include <string>   // texts

#include <gtest/gtest.h>

#include <support/files.hpp>  // Folder, error_of, holds

namespace {

using namespace testing_support;
using gx::AppendFile;

TEST(AppendFile, GrowsFromWhatIsThereAndIsCut) {
    const Folder folder;
    const auto path = folder / "lines";
    AppendFile(path).append("one\n");
    AppendFile file(path);
    file.append("two\n");
    EXPECT_EQ(read_text(path), "one\ntwo\n");
    file.cut(4);
    file.append("");
    file.append("3\n");
    EXPECT_EQ(read_text(path), "one\n3\n");
}
TEST(AppendFile, NamesAFileThatCannotBeOpened) {
    const Folder folder;
    EXPECT_TRUE(holds(error_of([&] { AppendFile file(folder / "none/lines"); }), "file '",
                      "none/lines' cannot be opened: No such file or directory. Free some space"));
    EXPECT_TRUE(holds(error_of([&] { AppendFile file(folder.path); }), "cannot be opened"));
}
TEST(AppendFile, WritesToWhatIsNoRegularFile) {
    AppendFile file("/dev/null");
    file.append("one\n");
    file.cut(0);
    AppendFile full("/dev/full");
    EXPECT_TRUE(holds(error_of([&] { full.append("one\n"); }), "'/dev/full' cannot be written: "));
}
TEST(AppendFile, OfARecordThatDoesNotFitNothingStays) {
    const Folder folder;
    const auto path = folder / "lines";
    const pid_t child = ::fork();
    if (child == 0) {  // its files hold 10 bytes
        const rlimit most{10, 10};
        std::signal(SIGXFSZ, SIG_IGN);
        ::setrlimit(RLIMIT_FSIZE, &most);
        AppendFile file(path);
        file.append("seven.\n");
        const std::string error = error_of([&] { file.append("too many\n"); });
        ::_exit(holds(error, "cannot be written: File too large") ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(read_text(path), "seven.\n");
}

}  // namespace
