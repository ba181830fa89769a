// AtomicFile, write_file: regular files replaced atomically, devices and pipes written directly.
#pragma once

#include <cstddef>      // size_t
#include <filesystem>   // path
#include <string>       // names
#include <string_view>  // text

#include <gx/core/cold.hpp>  // GX_COLD
#include <gx/core/decl.hpp>  // GX_DECL

namespace gx {

namespace detail {

/// Output file: a regular file appears, or is replaced, only when it is completely on the disk.
///
///     target                               effect of write() and commit()
///     absent or a regular file             temporary file TARGET.tmp, fsync, rename, fsync folder
///     symbolic link                        its target is written, the link stays
///     character device or named pipe       written directly, without fsync
///     standard output or error             written directly, also if these are regular files
///     folder, socket or block device       refused, as a file that is mounted by itself
///
/// The name TARGET.tmp is the writer's: what lies there and is not being written is replaced.
/// An existing file keeps its mode, and its owner where the process may set it; a new one gets
/// 0666 less the umask. A hard link is replaced: other names keep the old content.
/// Errors: gx::Error naming the file, what failed and what to do; an older regular file is then
///         unchanged, and nothing more is written. The constructor finds files that can't be
///         written, or that are being written already, and opens no pipe. Where the file system
///         has no locks, commit() finds most of the latter. A child that was forked meanwhile
///         can't write its parent's file; it holds the name of one that is killed, as long as it
///         lives.
class AtomicFile {
public:
    GX_COLD explicit AtomicFile(std::filesystem::path path);
    AtomicFile(const AtomicFile&) = delete;
    AtomicFile& operator=(const AtomicFile&) = delete;
    GX_COLD ~AtomicFile();

    GX_COLD void write(const void* data, std::size_t bytes);
    GX_COLD void commit();

private:
    GX_COLD void open_temporary(bool replaces, unsigned mode, unsigned owner, unsigned group);
    GX_COLD void remove_left(const std::string& name);
    GX_COLD [[noreturn]] void refuse_name(const std::string& name, const char* is);
    GX_COLD [[noreturn]] void refuse_second_writer(const std::string& name);
    GX_COLD [[noreturn]] void refuse_lost_name(const std::string& name);
    GX_COLD void drop();
    GX_COLD void open_directly();
    GX_COLD void commit_temporary();
    GX_COLD [[noreturn]] void fail(const char* what);

    std::filesystem::path path_;  // as the user named it
    std::string target_;          // without symbolic links
    std::string temporary_{};     // empty: written directly
    int file_ = -1;
    int maker_ = 0;        // process
    bool direct_ = false;  // written without a temporary file
    bool ended_ = false;   // nothing more is written: committed, or given up
};

}  // namespace detail

/// Write a text file atomically, or directly if it is a device or a pipe.
/// Errors: gx::Error as AtomicFile's.
GX_COLD GX_DECL void write_file(const std::filesystem::path& path, std::string_view text);

/// The file that writing to `path` makes or replaces. Symbolic links are followed, whether they
/// lead to a file or not; the path itself where a folder on the way is missing, or links form a
/// circle.
GX_COLD [[nodiscard]] GX_DECL std::filesystem::path output_target(
    const std::filesystem::path& path);

/// Whether writing to both paths would lose data: one regular file or one pipe, by any names.
GX_COLD [[nodiscard]] GX_DECL bool same_output(const std::filesystem::path& a,
                                               const std::filesystem::path& b);

}  // namespace gx

#if defined(GX_HEADER_ONLY)
#include <gx/io/impl/atomic_file.ipp>
#endif
