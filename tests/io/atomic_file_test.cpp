#include <gx/io/atomic_file.hpp>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <support/files.hpp>  // Folder, error_of, holds

namespace {

// Called at each fsync, with the file or folder that is flushed; set by the test of the order.
std::function<void(const std::string&)> on_fsync;

}  // namespace

// Takes the place of the C library's in this program.
extern "C" int fsync(int file) {
    char name[4096] = "";
    const std::string link = "/proc/self/fd/" + std::to_string(file);
    if (::readlink(link.c_str(), name, sizeof name - 1) > 0 && on_fsync) on_fsync(name);
    return static_cast<int>(::syscall(SYS_fsync, file));
}

namespace {

using namespace testing_support;
namespace fs = std::filesystem;

struct stat status_of(const fs::path& path) {
    struct stat s{};
    EXPECT_EQ(::lstat(path.c_str(), &s), 0) << path;
    return s;
}
unsigned mode_of(const fs::path& path) { return status_of(path).st_mode & 07777u; }

// ---- Regular files ------------------------------------------------------------------
TEST(WriteFile, NamesTheFileThatCantBeMade) {
    const Folder folder;
    EXPECT_TRUE(holds(error_of([&] { gx::write_file(folder / "no/f", "text"); }),
                      "/no/f' cannot be created: No such file",
                      "choose a file in a folder that exists and is writable"));
    fs::create_directories(folder / "taken.tmp/by");
    EXPECT_TRUE(holds(error_of([&] { gx::write_file(folder / "taken", "text"); }),
                      "taken' cannot be created: File exists"));
}
TEST(WriteFile, RefusesAFolderBeforeTheWork) {
    const Folder folder;
    fs::create_directories(folder / "taken/by");
    EXPECT_TRUE(holds(error_of([&] { gx::detail::AtomicFile probe(folder / "taken"); }),
                      "taken' is a folder: name a regular file, a pipe or a character device."));
    EXPECT_FALSE(fs::exists(folder / "taken.tmp"));
    EXPECT_NE(error_of([&] { gx::detail::AtomicFile probe(""); }), "no error");
}
TEST(WriteFile, ReplacesWhatWasThere) {
    const Folder folder;
    gx::write_file(folder / "f", "a longer first text");
    gx::write_file(folder / "f", "second");
    EXPECT_EQ(read_text(folder / "f"), "second");
    EXPECT_FALSE(fs::exists(folder / "f.tmp"));
}
TEST(WriteFile, ReplacesATemporaryFileThatAKilledProgramLeft) {
    const Folder folder;
    write_text(folder / "f.tmp", "half of a very long te");
    gx::write_file(folder / "f", "whole");
    EXPECT_EQ(read_text(folder / "f"), "whole");
    EXPECT_FALSE(fs::exists(folder / "f.tmp"));
}
TEST(AtomicFile, HasOneWriterAtATime) {
    const Folder folder;
    gx::write_file(folder / "f", "first");
    {
        gx::detail::AtomicFile file(folder / "f");
        file.write("second", 6);
        EXPECT_TRUE(holds(error_of([&] { gx::write_file(folder / "f", "third"); }), "file '",
                          "is being written by another program, as '",
                          "f.tmp'. Name another file, or wait until that one is complete."));
        file.commit();
    }
    EXPECT_EQ(read_text(folder / "f"), "second");
    gx::write_file(folder / "f", "third");
    EXPECT_EQ(read_text(folder / "f"), "third");
    EXPECT_FALSE(fs::exists(folder / "f.tmp"));
}
TEST(AtomicFile, TakesNothingForALeftFileThatIsNone) {
    const Folder folder;
    const auto refused = [&] {
        return holds(error_of([&] { gx::write_file(folder / "f", "text"); }), "cannot be created");
    };
    write_text(folder / "other", "kept");
    fs::create_symlink(folder / "other", folder / "f.tmp");
    EXPECT_TRUE(refused()) << "a link";
    EXPECT_EQ(read_text(folder / "other"), "kept");
    fs::remove(folder / "f.tmp");
    fs::create_directory(folder / "f.tmp");
    EXPECT_TRUE(refused()) << "a folder";
    fs::remove(folder / "f.tmp");
    ASSERT_EQ(::mkfifo((folder / "f.tmp").c_str(), 0600), 0);
    const int reader = ::open((folder / "f.tmp").c_str(), O_RDONLY | O_NONBLOCK);
    EXPECT_TRUE(refused()) << "a pipe";
    ::close(reader);
}
TEST(AtomicFile, WithoutACommitNothingChanges) {
    const Folder folder;
    gx::write_file(folder / "f", "first");
    {
        gx::detail::AtomicFile file(folder / "f");
        file.write("half", 4);
    }
    EXPECT_EQ(read_text(folder / "f"), "first");
    EXPECT_FALSE(fs::exists(folder / "f.tmp"));
}
TEST(AtomicFile, ReachesTheDiskBeforeItsNameDoes) {
    const Folder folder;
    std::vector<std::string> calls;
    on_fsync = [&](const std::string& name) {
        calls.push_back(fs::path(name).filename().string() +
                        (fs::exists(folder / "f") ? ", with its name" : ", without its name"));
    };
    gx::write_file(folder / "f", "text");
    on_fsync = nullptr;
    EXPECT_EQ(calls,
              (std::vector<std::string>{"f.tmp, without its name",
                                        folder.path.filename().string() + ", with its name"}));
}
TEST(WriteFile, GivesANewFileTheModeOfTheUmask) {
    const Folder folder;
    const mode_t old = ::umask(027);
    gx::write_file(folder / "f", "text");
    ::umask(old);
    EXPECT_EQ(mode_of(folder / "f"), 0640u);
}
TEST(WriteFile, KeepsTheOwnerOfAnExistingFile) {
    const Folder folder;
    write_text(folder / "f", "first");
    const bool root = ::chown((folder / "f").c_str(), 12345, 54321) == 0;
    const auto before = status_of(folder / "f");
    gx::write_file(folder / "f", "second");
    const auto after = status_of(folder / "f");
    EXPECT_EQ(after.st_uid, root ? 12345 : ::geteuid());
    EXPECT_EQ(after.st_gid, before.st_gid);
    EXPECT_EQ(read_text(folder / "f"), "second");
}
RC_GTEST_PROP(WriteFile, KeepsModeAndLinksOfAnExistingFile, (const std::string& text)) {
    const Folder folder;
    const auto mode = *rc::gen::inRange(0u, 01000u) | 0600u;
    const int links = *rc::gen::inRange(0, 4);
    fs::create_directories(folder / "below");
    write_text(folder / "below/f", "first");
    ::chmod((folder / "below/f").c_str(), mode);
    fs::path name = folder / "below/f", target = "below/f";
    for (int i = 0; i < links; ++i) {
        name = folder.path / ("link" + std::to_string(i));
        fs::create_symlink(target, name);  // relative to the link's own folder
        target = name.filename();
    }
    gx::write_file(name, text);
    RC_ASSERT(read_text(folder / "below/f") == text);
    RC_ASSERT(mode_of(folder / "below/f") == mode);
    RC_ASSERT(links == 0 || fs::is_symlink(name));
}
TEST(WriteFile, CreatesTheTargetOfALinkThatLeadsNowhereYet) {
    const Folder folder;
    fs::create_symlink("absent", folder / "link");
    gx::write_file(folder / "link", "text");
    EXPECT_TRUE(fs::is_symlink(folder / "link"));
    EXPECT_EQ(read_text(folder / "absent"), "text");
    fs::create_symlink("circle", folder / "circle");
    EXPECT_TRUE(holds(error_of([&] { gx::write_file(folder / "circle", "text"); }),
                      "circle' cannot be created: Too many levels of symbolic links"));
}

// ---- Pipes, devices, sockets --------------------------------------------------------
TEST(WriteFile, WritesIntoANamedPipe) {
    const Folder folder;
    ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
    {
        const gx::detail::AtomicFile probe(folder / "pipe");
    }  // waits for no reader
    const int reader = ::open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK);
    gx::write_file(folder / "pipe", "text");
    char got[16] = "";
    EXPECT_EQ(::read(reader, got, sizeof got), 4);
    ::close(reader);
    EXPECT_STREQ(got, "text");
    EXPECT_TRUE(S_ISFIFO(status_of(folder / "pipe").st_mode));
}
TEST(WriteFile, WritesIntoACharacterDevice) {
    const Folder folder;  // nodes of its own: never the system's
    const fs::path null = folder / "null", full = folder / "full";
    if (::mknod(null.c_str(), S_IFCHR | 0600, ::makedev(1, 3)) != 0 ||
        ::mknod(full.c_str(), S_IFCHR | 0600, ::makedev(1, 7)) != 0 ||
        ::access(null.c_str(), W_OK) != 0)
        GTEST_SKIP() << "this user may not make device nodes: " << std::strerror(errno);
    gx::write_file(null, "text");
    EXPECT_TRUE(holds(error_of([&] { gx::write_file(full, "text"); }),
                      "full' cannot be written: No space left on device. Free some space"));
    fs::create_symlink("full", folder / "link");
    EXPECT_NE(error_of([&] { gx::write_file(folder / "link", "text"); }), "no error");
    for (const fs::path& device : {null, full})
        EXPECT_TRUE(S_ISCHR(status_of(device).st_mode)) << device;
}
TEST(WriteFile, RefusesASocket) {
    const Folder folder;
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::snprintf(name.sun_path, sizeof name.sun_path, "%s", (folder / "s").c_str());
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
    EXPECT_TRUE(holds(error_of([&] { gx::detail::AtomicFile probe(folder / "s"); }),
                      "/s' is a socket: name a regular file"));
    ::close(socket);
    EXPECT_TRUE(S_ISSOCK(status_of(folder / "s").st_mode));
}
TEST(WriteFile, AppendsToTheFileThatIsStandardOutput) {
    const Folder folder;
    std::fflush(stdout);
    const int kept = ::dup(STDOUT_FILENO);
    const int file = ::open((folder / "f").c_str(), O_WRONLY | O_CREAT, 0600);
    ::dup2(file, STDOUT_FILENO);
    std::fputs("before ", stdout);
    gx::write_file(folder / "f", "text ");  // --json /dev/stdout > f
    gx::write_file("/proc/self/fd/1", "again ");
    std::fputs("after", stdout);
    std::fflush(stdout);
    ::dup2(kept, STDOUT_FILENO);
    ::close(file);
    ::close(kept);
    EXPECT_EQ(read_text(folder / "f"), "before text again after");
}

// ---- Two names of one file ----------------------------------------------------------
TEST(SameOutput, KnowsAFileByAllItsNames) {
    const Folder folder;
    fs::create_directories(folder / "below");
    const fs::path f = folder / "f", other = folder / "other";
    EXPECT_TRUE(gx::same_output(f, folder / "below/../f")) << "absent, and the same";
    EXPECT_FALSE(gx::same_output(f, other));
    fs::create_symlink("f", folder / "link");
    EXPECT_TRUE(gx::same_output(f, folder / "link")) << "a link to where f will be";
    write_text(f, "text");
    EXPECT_FALSE(gx::same_output(f, other));
    EXPECT_TRUE(gx::same_output(f, folder / "link"));
    fs::create_hard_link(f, other);
    EXPECT_TRUE(gx::same_output(f, other));
    ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
    EXPECT_TRUE(gx::same_output(folder / "pipe", folder / "pipe"));
    EXPECT_FALSE(gx::same_output("/dev/null", "/dev/null")) << "takes any number of texts";
}

}  // namespace
