// FolderLock: a folder that one run at a time writes to; take_lock.
#pragma once

#include <filesystem>  // path

#include <gx/core/cold.hpp>  // GX_COLD
#include <gx/core/decl.hpp>  // GX_DECL

namespace gx::detail {

/// Takes the lock of an open file or folder. False where another holds it; true where the file
/// system knows no locks, too.
GX_COLD [[nodiscard]] GX_DECL bool take_lock(int file);

/// Holds a folder for its lifetime: flock() on the folder itself, so that nothing is left in it.
/// Another FolderLock can't be made of it meanwhile, by this process or another. What a process
/// that was killed had is free once the children that it forked have ended too. It holds nothing
/// where the file system knows no locks, as some of a network's, or the folder can't be read.
class FolderLock {
public:
    /// Errors: gx::Error naming a folder that is held.
    GX_COLD GX_DECL explicit FolderLock(const std::filesystem::path& folder);
    FolderLock(const FolderLock&) = delete;
    FolderLock& operator=(const FolderLock&) = delete;
    GX_COLD GX_DECL ~FolderLock();

private:
    int folder_;
    long maker_;  ///< the process: a child that it forks ends without freeing the folder
};

}  // namespace gx::detail

#if defined(GX_HEADER_ONLY)
#include <gx/io/impl/folder_lock.ipp>
#endif
