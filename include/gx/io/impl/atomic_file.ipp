// Bodies of AtomicFile, write_file and same_output.
#pragma once

#include <fcntl.h>     // open
#include <sys/file.h>  // flock
#include <sys/stat.h>  // stat
#include <unistd.h>    // write, fsync, getpid, geteuid

#include <cerrno>        // errno
#include <cstdio>        // rename, fflush, snprintf
#include <cstring>       // strerror
#include <string>        // to_string
#include <system_error>  // error_code
#include <utility>       // exchange

#include <gx/core/cold.hpp>       // GX_COLD
#include <gx/core/error.hpp>      // Error
#include <gx/core/hash.hpp>       // hash_name
#include <gx/io/atomic_file.hpp>  // the declarations
#include <gx/io/folder_lock.hpp>  // take_lock

namespace gx {

namespace detail::atomic_file {

/// The file that `path` leads to, symbolic links resolved, whether it exists or not; the path
/// itself where a folder on the way is missing or links form a circle.
GX_COLD GX_DECL std::filesystem::path resolved(std::filesystem::path path) {
    std::error_code trouble;
    for (int links = 0; links < 40; ++links) {
        const auto next = std::filesystem::read_symlink(path, trouble);
        if (trouble) break;
        path = path.parent_path() / next;  // an absolute `next` replaces all before it
    }
    if (path.filename().empty()) return path;
    const auto folder = std::filesystem::canonical(
        path.has_parent_path() ? path.parent_path() : std::filesystem::path("."), trouble);
    return trouble ? path : folder / path.filename();
}

/// The standard stream that is open on this very file, or -1.
GX_COLD GX_DECL int standard_stream(const struct stat& file) {
    for (const int stream : {STDOUT_FILENO, STDERR_FILENO}) {
        struct stat open{};
        if (::fstat(stream, &open) == 0 && open.st_dev == file.st_dev && open.st_ino == file.st_ino)
            return stream;
    }
    return -1;
}

/// The name that a file is written under first. Names end at 255 bytes: a long one is cut, and told
/// from others by a hash.
GX_COLD GX_DECL std::string temporary_name(const std::string& target) {
    const std::string name = std::filesystem::path(target).filename().string();
    if (name.size() + 4 <= 255) return target + ".tmp";
    char hash[18];
    std::snprintf(hash, sizeof hash, "-%016llx", static_cast<unsigned long long>(hash_name(name)));
    return target.substr(0, target.size() - name.size() + 234) + hash + ".tmp";
}

/// Whether a file may be replaced in its folder: in one as /tmp, where each user removes his own
/// files alone, another's may not.
GX_COLD GX_DECL bool may_replace(const struct stat& file, const std::string& target) {
    const auto folder = std::filesystem::path(target).parent_path();
    struct stat of{};
    if (::stat(folder.empty() ? "." : folder.c_str(), &of) != 0) return true;  // it is told later
    const uid_t user = ::geteuid();
    return (of.st_mode & S_ISVTX) == 0 || user == 0 || user == file.st_uid || user == of.st_uid;
}

/// Why a regular file can't be replaced by any user; nullptr: it can, or the system does not say.
GX_COLD GX_DECL const char* fixed_by(const std::string& target) {
    struct statx file{};
    if (::statx(AT_FDCWD, target.c_str(), 0, STATX_BASIC_STATS, &file) != 0) return nullptr;
#if defined(STATX_ATTR_MOUNT_ROOT)
    if ((file.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0)
        return "is mounted by itself, so that no other file can take its place: mount its folder, "
               "or name another file";
#endif
    if ((file.stx_attributes & (STATX_ATTR_APPEND | STATX_ATTR_IMMUTABLE)) != 0)
        return "can only be appended to, or not be changed, by its attributes: remove them by "
               "chattr, or name another file";
    return nullptr;
}

/// Whether the open file is the regular one of this name.
GX_COLD GX_DECL bool is_file_of(int file, const std::string& name) {
    struct stat open{}, named{};
    return ::fstat(file, &open) == 0 && ::lstat(name.c_str(), &named) == 0 &&
           S_ISREG(named.st_mode) && open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

}  // namespace detail::atomic_file

namespace detail {

GX_DECL AtomicFile::AtomicFile(std::filesystem::path path)
    : path_(std::move(path)), target_(atomic_file::resolved(path_).string()), maker_(::getpid()) {
    const auto refuse = [this](const char* what) {
        throw Error("file '" + path_.string() + "' is " + what +
                    ": name a regular file, a pipe or a character device.");
    };
    struct stat old{};
    if (::stat(path_.c_str(), &old) != 0) {
        if (errno != ENOENT) fail("cannot be created");
        if (path_.filename().empty()) refuse("not a file name");
        open_temporary(false, 0666, 0, 0);
        return;
    }
    if (S_ISDIR(old.st_mode)) refuse("a folder");
    if (S_ISBLK(old.st_mode)) refuse("a block device");
    if (const int stream = atomic_file::standard_stream(old); stream >= 0) {
        direct_ = true;
        std::fflush(stream == STDOUT_FILENO ? stdout : stderr);  // keeps the order of the text
        file_ = ::fcntl(stream, F_DUPFD_CLOEXEC, 0);
        if (file_ < 0) fail("cannot be opened");
        return;
    }
    if (S_ISSOCK(old.st_mode)) refuse("a socket");
    direct_ = !S_ISREG(old.st_mode);
    // First: of an immutable file access() says that nothing permits writing, and not why.
    if (const char* const why = direct_ ? nullptr : atomic_file::fixed_by(target_))
        throw Error("file '" + path_.string() + "' " + why + ".");
    if (::access(path_.c_str(), W_OK) != 0) fail("cannot be written");
    if (direct_) return;
    if (!atomic_file::may_replace(old, target_)) {
        errno = EPERM;
        fail("is another user's, in a folder where each user replaces his own files alone");
    }
    open_temporary(true, old.st_mode & 07777, old.st_uid, old.st_gid);
}

GX_DECL AtomicFile::~AtomicFile() { drop(); }

// The name is removed before the lock is: behind it the name may be that of another writer's file.
// It is the maker's, and not a child's that has the file open too.
GX_DECL void AtomicFile::drop() {
    if (maker_ != ::getpid()) temporary_.clear();
    if (!temporary_.empty()) ::unlink(std::exchange(temporary_, {}).c_str());
    if (file_ >= 0) ::close(std::exchange(file_, -1));
}

// The lock on the file of this name gives the name: no other writer removes or renames it.
GX_DECL void AtomicFile::open_temporary(bool replaces, unsigned mode, unsigned owner,
                                        unsigned group) {
    const std::string name = atomic_file::temporary_name(target_);
    for (int tries = 0; temporary_.empty(); ++tries) {
        // O_EXCL follows no link; 0600 until it has its own mode, so no other user reads it.
        file_ =
            ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, replaces ? 0600 : mode);
        if (file_ >= 0) {
            if (!take_lock(file_)) refuse_second_writer(name);
            if (atomic_file::is_file_of(file_, name)) temporary_ = name;
            else ::close(std::exchange(file_, -1));  // taken for a dead one's before it was locked
        } else if (errno != EEXIST) {
            fail("cannot be created");
        } else {
            remove_left(name);
        }
        if (temporary_.empty() && tries == 100) refuse_second_writer(name);
    }
    if (!replaces) return;
    const bool kept = ::fchown(file_, owner, group) == 0;  // allowed to root, or to the owner
    if (::fchmod(file_, kept ? mode : mode & 0777) != 0) fail("cannot be given its old mode");
}

/// Removes what a process that was killed has left under the name.
/// Errors: gx::Error where something else has it, or may have.
GX_DECL void AtomicFile::remove_left(const std::string& name) {
    constexpr int flags = O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
    struct stat file{};
    if (::lstat(name.c_str(), &file) != 0) {
        if (errno == ENOENT) return;  // it has gone by now
        fail("cannot be created");
    }
    if (!S_ISREG(file.st_mode)) refuse_name(name, "is no regular file");
    int left = ::open(name.c_str(), O_WRONLY | flags);
    const bool writable = left >= 0;
    if (!writable && errno == ENOENT) return;
    if (!writable) left = ::open(name.c_str(), O_RDONLY | flags);  // its owner's alone to write
    if (left < 0 && errno == ENOENT) return;
    if (left < 0 && errno != EACCES) fail("cannot be created");
    if (left < 0)
        refuse_name(
            name, file.st_uid == ::geteuid() ? "can't be opened by its mode" : "is another user's");
    // A lock for readers alone may be none: only one that is held shows that no writer is left.
    const bool dead = writable ? take_lock(left) : ::flock(left, LOCK_EX | LOCK_NB) == 0;
    const bool is_left = dead && atomic_file::is_file_of(left, name);  // else it is gone
    const bool stays = is_left && ::unlink(name.c_str()) != 0 && errno != ENOENT;
    ::close(left);
    if (!dead) refuse_second_writer(name);
    if (stays) refuse_name(name, "is left of a writer that has ended, and can't be removed");
}

GX_DECL void AtomicFile::refuse_name(const std::string& name, const char* is) {
    throw Error("file '" + path_.string() + "' is written as '" + name + "' first, which " + is +
                ". Remove that, or name another file.");
}
GX_DECL void AtomicFile::refuse_second_writer(const std::string& name) {
    drop();
    throw Error("file '" + path_.string() + "' is being written already, as '" + name +
                "'. Name another file, or wait until that one is complete.");
}

GX_DECL void AtomicFile::refuse_lost_name(const std::string& name) {
    drop();
    throw Error(
        "file '" + path_.string() + "' can't be put in place: it was written as '" + name +
        "', which is gone. That file or its folder was moved or removed meanwhile: write it "
        "again, and leave its folder as it is until then.");
}

GX_DECL void AtomicFile::open_directly() {
    if (ended_)
        throw Error("file '" + path_.string() +
                    "' is complete, or was given up at an error: nothing more is written to it");
    if (!temporary_.empty() && maker_ != ::getpid())
        throw Error("file '" + path_.string() + "' is written by process " +
                    std::to_string(maker_) +
                    ", which has opened it: its child, this one, can't write it too");
    if (file_ >= 0) return;
    direct_ = true;
    file_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (file_ < 0) fail("cannot be opened");
}

GX_DECL void AtomicFile::write(const void* data, std::size_t bytes) {
    open_directly();
    const auto* next = static_cast<const char*>(data);
    while (bytes > 0) {
        const ssize_t n = ::write(file_, next, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) fail("cannot be written");
        next += n;
        bytes -= static_cast<std::size_t>(n);
    }
}

GX_DECL void AtomicFile::commit() {
    open_directly();
    ended_ = true;
    if (!temporary_.empty()) return commit_temporary();
    if (::close(std::exchange(file_, -1)) != 0) fail("cannot be closed");
}

GX_DECL void AtomicFile::commit_temporary() {
    if (::fsync(file_) != 0) fail("cannot be flushed to the disk");
    // Where the file system has no locks another writer may have taken it for a dead one's.
    if (!atomic_file::is_file_of(file_, temporary_)) {
        ended_ = true;
        const std::string name = std::exchange(temporary_, {});
        struct stat other{};
        if (::lstat(name.c_str(), &other) != 0) refuse_lost_name(name);
        refuse_second_writer(name);
    }
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) fail("cannot be renamed into place");
    temporary_.clear();
    ::close(std::exchange(file_, -1));  // and the lock; fsync() has said what a close could
    const auto folder = std::filesystem::path(target_).parent_path();
    const int f = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f < 0) return;
    ::fsync(f);  // the name itself survives a power cut
    ::close(f);
}

GX_DECL void AtomicFile::fail(const char* what) {
    const std::string reason = std::strerror(errno);
    drop();
    ended_ = true;
    throw Error("file '" + path_.string() + "' " + what + ": " + reason + ". " +
                (direct_ ? "" : "An older file of this name is unchanged. ") +
                "Free some space or choose a file in a folder that exists and is writable.");
}

}  // namespace detail

GX_DECL void write_file(const std::filesystem::path& path, std::string_view text) {
    detail::AtomicFile file(path);
    file.write(text.data(), text.size());
    file.commit();
}

GX_DECL std::filesystem::path output_target(const std::filesystem::path& path) {
    return detail::atomic_file::resolved(path);
}

GX_DECL bool same_output(const std::filesystem::path& a, const std::filesystem::path& b) {
    struct stat first{}, second{};
    const bool one = ::stat(a.c_str(), &first) == 0, other = ::stat(b.c_str(), &second) == 0;
    if (one != other) return false;
    if (!one) return detail::atomic_file::resolved(a) == detail::atomic_file::resolved(b);
    if (S_ISCHR(first.st_mode)) return false;  // a terminal or /dev/null takes several texts
    return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

}  // namespace gx
