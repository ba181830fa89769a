#include <gx/io/atomic_file.hpp>

#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <support/files.hpp>  // Folder, error_of, holds

namespace {

// Called at each fsync, with the file or folder that is flushed, before each unlink and after each
// lstat; set by the tests of the order.
std::function<void(const std::string&)> on_fsync, on_unlink, on_lstat;
// What a call sets errno to in place of its work; 0: it works.
int no_flock = 0, no_fchown = 0, no_unlink = 0;
// As on a file system where a name's file has another number than the open one.
bool other_numbers = false;

}  // namespace

// They take the place of the C library's in this program.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"  // the C library has a struct flock
extern "C" int flock(int file, int how) noexcept {
    if (no_flock == 0) return static_cast<int>(::syscall(SYS_flock, file, how));
    errno = no_flock;
    return -1;
}
#pragma GCC diagnostic pop
extern "C" int fchown(int file, uid_t owner, gid_t group) noexcept {
    if (no_fchown == 0) return static_cast<int>(::syscall(SYS_fchown, file, owner, group));
    errno = no_fchown;
    return -1;
}
extern "C" int unlink(const char* name) noexcept {
    if (on_unlink) on_unlink(name);
    if (no_unlink != 0) {
        errno = no_unlink;
        return -1;
    }
    return static_cast<int>(::syscall(SYS_unlink, name));
}
extern "C" int lstat(const char* name, struct stat* s) noexcept {
    const long result = ::syscall(SYS_newfstatat, AT_FDCWD, name, s, AT_SYMLINK_NOFOLLOW);
    if (on_lstat) on_lstat(name);
    if (other_numbers) ++s->st_ino;
    return static_cast<int>(result);
}
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
                      "taken' is written as '",
                      "taken.tmp' first, which is no regular file. "
                      "Remove that, or name another file."));
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
                          "is being written already, as '",
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
        return holds(error_of([&] { gx::write_file(folder / "f", "text"); }),
                     "f.tmp' first, which is no regular file");
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
/// Behind the removal of its name the name may be another writer's.
TEST(AtomicFile, GivesUpItsNameBeforeItsLock) {
    const Folder folder;
    int seen = 0;
    on_unlink = [&](const std::string& name) {
        if (!name.ends_with("f.tmp") || seen++ > 0) return;
        EXPECT_TRUE(holds(error_of([&] { gx::detail::AtomicFile other(folder / "f"); }),
                          "is being written already"));
    };
    {
        gx::detail::AtomicFile given_up(folder / "f");
    }
    on_unlink = nullptr;
    EXPECT_EQ(seen, 1);
    gx::write_file(folder / "f", "whole");
    EXPECT_EQ(read_text(folder / "f"), "whole");
}
/// It has its name by the time that another writer looks at what it takes for left.
TEST(AtomicFile, RemovesNothingWhereTheOtherWriterHasJustEnded) {
    const Folder folder;
    auto first = std::make_unique<gx::detail::AtomicFile>(folder / "f");
    first->write("first", 5);
    int looked = 0;
    on_lstat = [&](const std::string& name) {
        if (name.ends_with("f.tmp") && looked++ == 0) first->commit();
    };
    int removed = 0;
    on_unlink = [&](const std::string&) { ++removed; };
    gx::detail::AtomicFile second(folder / "f");
    on_lstat = nullptr;
    EXPECT_GT(looked, 0);
    EXPECT_EQ(removed, 0) << "a third writer may have the name by now";
    on_unlink = nullptr;
    EXPECT_EQ(read_text(folder / "f"), "first");
    second.write("second", 6);
    second.commit();
    EXPECT_EQ(read_text(folder / "f"), "second");
}
/// Its lock keeps nobody out: the name goes to the last that opens, and the first is told.
TEST(AtomicFile, IsWrittenWhereTheFileSystemHasNoLocks) {
    const Folder folder;
    no_flock = ENOLCK;
    gx::detail::AtomicFile first(folder / "f");
    first.write("first", 5);
    gx::detail::AtomicFile second(folder / "f");
    EXPECT_TRUE(holds(error_of([&] { first.commit(); }), "is being written already"));
    second.write("second", 6);
    second.commit();
    no_flock = 0;
    EXPECT_EQ(read_text(folder / "f"), "second");
    EXPECT_FALSE(fs::exists(folder / "f.tmp"));
}
TEST(AtomicFile, NamesAFolderThatIsMovedAwayBeforeTheEnd) {
    const Folder folder;
    fs::create_directory(folder / "of");
    gx::detail::AtomicFile moved(folder / "of/f"), removed(folder / "g");
    fs::rename(folder / "of", folder / "other");
    fs::remove(folder / "g.tmp");
    const std::string error = error_of([&] { moved.commit(); });
    EXPECT_TRUE(holds(error, "/of/f' can't be put in place: it was written as '",
                      "/of/f.tmp', which is gone. That file or its folder was moved or removed"))
        << error;
    EXPECT_TRUE(holds(error_of([&] { removed.commit(); }), "/g.tmp', which is gone"));
    EXPECT_TRUE(holds(error_of([&] { removed.write("more", 4); }), "given up"));
}
TEST(AtomicFile, TriesAHundredTimesForAName) {
    const Folder folder;
    other_numbers = true;
    const std::string error = error_of([&] { gx::write_file(folder / "f", "text"); });
    other_numbers = false;
    EXPECT_TRUE(holds(error, "is being written already"));
}
TEST(AtomicFile, ARefusedOneLeavesNothingOpen) {
    const Folder folder;
    const auto open_files = [] {
        return std::distance(fs::directory_iterator("/proc/self/fd"), {});
    };
    const auto before = open_files();
    no_flock = EWOULDBLOCK;  // another has locked the file that this one has just made
    const std::string error = error_of([&] { gx::write_file(folder / "f", "text"); });
    no_flock = 0;
    EXPECT_TRUE(holds(error, "is being written already"));
    EXPECT_EQ(open_files(), before);
}
TEST(AtomicFile, NamesALeftFileThatStays) {
    const Folder folder;
    write_text(folder / "f.tmp", "half");
    no_unlink = EPERM;
    const std::string error = error_of([&] { gx::write_file(folder / "f", "text"); });
    no_unlink = 0;
    EXPECT_TRUE(holds(error,
                      "f.tmp' first, which is left of a writer that has ended, and can't be "
                      "removed. Remove that, or name another file."));
}
TEST(AtomicFile, OfAChildIsItsParents) {
    const Folder folder;
    auto file = std::make_unique<gx::detail::AtomicFile>(folder / "f");
    file->write("whole", 5);
    const pid_t child = ::fork();
    if (child == 0) {
        file.reset();
        ::_exit(0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(error_of([&] { file->commit(); }), "no error");
    EXPECT_EQ(read_text(folder / "f"), "whole");
}
TEST(AtomicFile, IsNotWrittenByAChild) {
    const Folder folder;
    gx::detail::AtomicFile file(folder / "f");
    file.write("half", 4);
    const pid_t child = ::fork();
    if (child == 0) {
        const auto refused = [](const std::string& error) {
            return error.find("which has opened it: its child, this one, can't write it too") !=
                   std::string::npos;
        };
        const bool writes = refused(error_of([&] { file.write("of a child", 10); }));
        const bool commits = refused(error_of([&] { file.commit(); }));
        ::_exit(writes && commits ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_FALSE(fs::exists(folder / "f"));
    file.write(", whole", 7);
    file.commit();
    EXPECT_EQ(read_text(folder / "f"), "half, whole");
}
/// As `docker -v file:file` makes one: found before the work.
TEST(AtomicFile, FindsAFileThatIsMountedByItself) {
    const Folder folder;
    write_text(folder / "source", "of the host");
    write_text(folder / "f", "");
    const pid_t child = ::fork();
    if (child == 0) {
        if (::unshare(CLONE_NEWNS) != 0 ||
            ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            ::mount((folder / "source").c_str(), (folder / "f").c_str(), nullptr, MS_BIND,
                    nullptr) != 0)
            ::_exit(77);
        const auto error = error_of([&] { gx::detail::AtomicFile{folder / "f"}; });
        ::_exit(error.find("f' is mounted by itself, so that no other file can take its place") !=
                        std::string::npos
                    ? 0
                    : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "this process may not mount";
    EXPECT_EQ(status, 0);
    EXPECT_EQ(read_text(folder / "source"), "of the host");
}
/// As root or not: access() permits root to write to one that only grows, and not to a fixed one.
TEST(AtomicFile, FindsAFileThatItsAttributesFix) {
    for (const int attribute : {FS_APPEND_FL, FS_IMMUTABLE_FL}) {
        const Folder folder;
        gx::write_file(folder / "f", "kept");
        const int file = ::open((folder / "f").c_str(), O_RDONLY | O_CLOEXEC);
        int plain = 0;
        const bool known = ::ioctl(file, FS_IOC_GETFLAGS, &plain) == 0;
        int fixed = plain | attribute;
        const bool set = known && ::ioctl(file, FS_IOC_SETFLAGS, &fixed) == 0;
        const std::string error = error_of([&] { gx::detail::AtomicFile{folder / "f"}; });
        if (set) {
            EXPECT_EQ(::ioctl(file, FS_IOC_SETFLAGS, &plain), 0);
        }
        ::close(file);
        if (!set) GTEST_SKIP() << "this process, or its file system, sets no attributes";
        EXPECT_TRUE(holds(error, "f' can only be appended to, or not be changed, by its attributes",
                          "chattr"));
        EXPECT_EQ(read_text(folder / "f"), "kept");
    }
}
/// Names end at 255 bytes, and ".tmp" would go beyond.
TEST(AtomicFile, HasANameAsLongAsTheFileSystemTakes) {
    const Folder folder;
    for (const std::size_t size : {251, 252, 255}) {
        const std::string name(size, 'n'), other = std::string(size - 1, 'n') + "m";
        gx::detail::AtomicFile file(folder / name.c_str());
        EXPECT_EQ(error_of([&] { gx::write_file(folder / other.c_str(), "other"); }), "no error");
        file.write("text", 4);
        file.commit();
        EXPECT_EQ(read_text(folder / name.c_str()), "text");
        EXPECT_EQ(read_text(folder / other.c_str()), "other");
        EXPECT_EQ(std::distance(fs::directory_iterator(folder.path), {}), 2);
        fs::remove(folder / name.c_str());
        fs::remove(folder / other.c_str());
    }
}
/// Processes that write one file, and one that gives up: what has the name is always whole.
TEST(AtomicFile, IsWholeWhoeverWritesAtTheSameTime) {
    const Folder folder;
    const std::string half(20'000, 'x'), end = "end";
    gx::write_file(folder / "f", half + end);
    std::vector<pid_t> writers;
    for (int writer = 0; writer < 3; ++writer) {
        writers.push_back(::fork());
        if (writers.back() != 0) continue;
        for (int i = 0; i < 400; ++i) try {
                gx::detail::AtomicFile file(folder / "f");
                file.write(half.data(), half.size());
                if (writer == 0) continue;  // gives up
                file.write(end.data(), end.size());
                file.commit();
            } catch (const gx::Error& e) {
                if (std::string(e.what()).find("being written already") == std::string::npos)
                    ::_exit(1);
            }
        ::_exit(0);
    }
    for (std::size_t ended = 0; ended < writers.size();) {
        ASSERT_TRUE(read_text(folder / "f") == half + end);
        int status = 0;
        const pid_t pid = ::waitpid(-1, &status, WNOHANG);
        if (pid <= 0) continue;
        EXPECT_EQ(status, 0) << "an error that names no other writer";
        ++ended;
    }
}
TEST(AtomicFile, IsNotWrittenOnAfterAnError) {
    const Folder folder;
    gx::write_file(folder / "f", "older");
    const pid_t child = ::fork();
    if (child == 0) {
        ::signal(SIGXFSZ, SIG_IGN);
        const rlimit ten{.rlim_cur = 10, .rlim_max = 10};
        if (::setrlimit(RLIMIT_FSIZE, &ten) != 0) ::_exit(2);
        gx::detail::AtomicFile file(folder / "f");
        const std::string twenty(20, 'x');
        const bool named = error_of([&] { file.write(twenty.data(), 20); }) != "no error";
        const bool refused = holds(error_of([&] { file.write("more", 4); }), "given up") &&
                             holds(error_of([&] { file.commit(); }), "given up");
        ::_exit(named && refused ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(read_text(folder / "f"), "older");
    gx::detail::AtomicFile file(folder / "f");
    file.commit();
    EXPECT_TRUE(holds(error_of([&] { file.write("more", 4); }), "is complete"));
    EXPECT_EQ(read_text(folder / "f"), "");
}
/// Writes `file` as another user and expects `expected` in what it throws. The caller is root.
void expect_of_nobody(const fs::path& file, const std::string& expected) {
    const pid_t child = ::fork();
    if (child == 0) {
        if (::setuid(65534) != 0) ::_exit(2);
        const auto error = error_of([&] { gx::detail::AtomicFile{file}.commit(); });
        ::_exit(error.find(expected) != std::string::npos ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << expected;
}
/// In a folder that two users write to, one of whom may not write the other's files.
TEST(AtomicFile, LeavesAnotherUsersHalfFileAlone) {
    if (::getuid() != 0) GTEST_SKIP() << "only root can be two users";
    const Folder folder;
    fs::permissions(folder.path, fs::perms::all);
    {
        gx::detail::AtomicFile file(folder / "f");
        expect_of_nobody(folder / "f", "is being written already");
        fs::permissions(folder / "f.tmp", fs::perms::owner_write);
        expect_of_nobody(folder / "f", "f.tmp' first, which is another user's");
        file.write("of root", 7);
        file.commit();
    }
    EXPECT_EQ(read_text(folder / "f"), "of root");
    write_text(folder / "f.tmp", "left of root");
    fs::permissions(folder / "f", fs::perms::all);
    expect_of_nobody(folder / "f", "no error");
    EXPECT_EQ(read_text(folder / "f"), "");
    write_text(folder / "f.tmp", "left of nobody");
    ASSERT_EQ(::chown((folder / "f.tmp").c_str(), 65534, 65534), 0);
    fs::permissions(folder / "f.tmp", fs::perms::none);
    expect_of_nobody(folder / "f", "f.tmp' first, which can't be opened by its mode");
}
/// As /tmp is: found before the work, and not where the file is to be replaced.
TEST(AtomicFile, FindsAFileThatItsFolderLetsNoOtherUserReplace) {
    if (::getuid() != 0) GTEST_SKIP() << "only root can be two users";
    const Folder folder;
    fs::permissions(folder.path, fs::perms::all | fs::perms::sticky_bit);
    write_text(folder / "f", "of root");
    fs::permissions(folder / "f", fs::perms(0666));
    expect_of_nobody(folder / "f",
                     "f' is another user's, in a folder where each user replaces his");
    EXPECT_EQ(read_text(folder / "f"), "of root");
    expect_of_nobody(folder / "new", "no error");
    expect_of_nobody(folder / "new", "no error");
    gx::write_file(folder / "f", "new");
    EXPECT_EQ(read_text(folder / "f"), "new");
}
/// A file keeps no right to run as its owner that it would have of another one.
TEST(AtomicFile, IsNotSetUidWhereItsOwnerIsAnother) {
    const Folder folder;
    write_text(folder / "f", "older");
    ASSERT_EQ(::chmod((folder / "f").c_str(), 06755), 0);
    no_fchown = EPERM;
    gx::write_file(folder / "f", "new");
    no_fchown = 0;
    EXPECT_EQ(mode_of(folder / "f"), 0755u);
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
