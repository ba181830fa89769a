// Bodies of folder_lock.hpp.
#pragma once

#include <fcntl.h>     // open
#include <sys/file.h>  // flock
#include <unistd.h>    // close, getpid

#include <cerrno>  // errno

#include <gx/core/error.hpp>  // Error
#include <gx/io/folder_lock.hpp>

namespace gx::detail {

GX_DECL bool take_lock(int file) {
    return ::flock(file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

GX_DECL FolderLock::FolderLock(const std::filesystem::path& folder)
    : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)), maker_(::getpid()) {
    if (folder_ < 0 || take_lock(folder_)) return;
    ::close(folder_);
    throw Error("output folder '" + folder.string() +
                "' is in use by another run, whose checkpoints this one would replace. Name "
                "another with 'output', or wait until that run has ended.");
}

GX_DECL FolderLock::~FolderLock() {
    if (folder_ < 0) return;
    if (maker_ == ::getpid()) ::flock(folder_, LOCK_UN);  // children may have the folder open
    ::close(folder_);
}

}  // namespace gx::detail
