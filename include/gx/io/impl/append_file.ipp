// Bodies of append_file.hpp.
#pragma once

#include <fcntl.h>     // open
#include <sys/stat.h>  // fstat
#include <unistd.h>    // write, ftruncate

#include <cerrno>   // errno
#include <cstring>  // strerror
#include <string>   // sentences
#include <utility>  // move

#include <gx/core/error.hpp>  // Error
#include <gx/io/append_file.hpp>

namespace gx {

GX_DECL AppendFile::AppendFile(std::filesystem::path path) : path_(std::move(path)) {
    file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file_ < 0) fail("cannot be opened");
    struct stat s{};
    if (::fstat(file_, &s) != 0) fail("cannot be looked at");
    regular_ = S_ISREG(s.st_mode);
    size_ = regular_ ? std::uint64_t(s.st_size) : 0;
}

GX_DECL AppendFile::~AppendFile() {
    if (file_ >= 0) ::close(file_);
}

GX_DECL void AppendFile::append(std::string_view record) {
    for (std::string_view left = record; !left.empty();) {
        const ssize_t written = ::write(file_, left.data(), left.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) {
            const int reason = errno;
            if (regular_) (void)!::ftruncate(file_, off_t(size_));
            errno = reason;
            fail("cannot be written");
        }
        left.remove_prefix(std::size_t(written));
    }
    size_ += record.size();
}

GX_DECL void AppendFile::cut(std::uint64_t bytes) {
    if (!regular_) return;
    if (::ftruncate(file_, off_t(bytes)) != 0) fail("cannot be cut");
    size_ = bytes;
}

GX_DECL void AppendFile::fail(const char* what) const {
    throw Error("file '" + path_.string() + "' " + what + ": " + std::strerror(errno) +
                ". Free some space or choose a file in a folder that exists and is writable.");
}

}  // namespace gx
