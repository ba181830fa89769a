// Opening and reading of a RandomAccessFile.
#pragma once

#include <fcntl.h>     // open
#include <sys/stat.h>  // fstat
#include <unistd.h>    // pread

#include <cerrno>   // errno
#include <cstring>  // strerror
#include <utility>  // move

#include <fmt/core.h>  // sentences

#include <gx/core/error.hpp>             // Error
#include <gx/io/random_access_file.hpp>  // the declarations

namespace gx {

GX_DECL RandomAccessFile::RandomAccessFile(std::filesystem::path path)
    : path_(std::move(path)),
      file_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // a pipe
    struct stat found{};
    if (file_ < 0 || ::fstat(file_, &found) != 0)
        throw Error(
            fmt::format("gx: '{}' can't be opened: {}. Give the path of a file that is "
                        "there and that this user may read.",
                        path_.string(), std::strerror(errno)));
    if (!S_ISREG(found.st_mode)) {
        ::close(file_);
        throw Error(
            fmt::format("gx: '{}' is no regular file: samples are read by their "
                        "positions. Copy it to one.",
                        path_.string()));
    }
    bytes_ = static_cast<std::uint64_t>(found.st_size);
}

GX_DECL RandomAccessFile::~RandomAccessFile() { ::close(file_); }

GX_DECL std::size_t RandomAccessFile::read(std::uint64_t at, std::span<std::uint8_t> to) const {
    std::size_t done = 0;
    while (done < to.size()) {
        const ssize_t n =
            ::pread(file_, &to[done], to.size() - done, static_cast<off_t>(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            throw Error(fmt::format("gx: '{}' can't be read at byte {}: {}. Check the disk.",
                                    path_.string(), at + done, std::strerror(errno)));
        if (n == 0) break;
        done += static_cast<std::size_t>(n);
    }
    return done;
}

}  // namespace gx
