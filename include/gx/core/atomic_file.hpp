// AtomicFile, write_file: files that are written whole or not at all.
#pragma once

#include <fcntl.h>   // open
#include <unistd.h>  // write, fsync

#include <cerrno>       // errno
#include <cstdio>       // rename
#include <cstring>      // strerror
#include <filesystem>   // path
#include <string>       // names
#include <string_view>  // text
#include <utility>      // exchange

#include <gx/core/cold.hpp>   // GX_COLD
#include <gx/core/error.hpp>  // Error

namespace gx {

namespace detail {

/// A file that takes its final name only when all of it is on the disk.
class AtomicFile {
public:
    GX_COLD explicit AtomicFile(std::filesystem::path path)
        : path_(std::move(path)), temporary_(path_.string() + ".tmp") {
        file_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
        if (file_ < 0) fail("cannot be created");
    }
    AtomicFile(const AtomicFile&) = delete;
    AtomicFile& operator=(const AtomicFile&) = delete;
    ~AtomicFile() {
        if (file_ < 0) return;
        ::close(file_);
        ::unlink(temporary_.c_str());
    }

    GX_COLD void write(const void* data, std::size_t bytes) {
        const auto* next = static_cast<const char*>(data);
        while (bytes > 0) {
            const ssize_t n = ::write(file_, next, bytes);
            if (n < 0 && errno == EINTR) continue;
            if (n <= 0) fail("cannot be written");
            next += n;
            bytes -= static_cast<std::size_t>(n);
        }
    }
    GX_COLD void commit() {
        if (::fsync(file_) != 0) fail("cannot be flushed to the disk");
        if (::close(std::exchange(file_, -1)) != 0) fail("cannot be closed");
        if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot be renamed into place");
        const auto folder =
            path_.has_parent_path() ? path_.parent_path().string() : std::string(".");
        if (const int f = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); f >= 0) {
            ::fsync(f);  // the name itself survives a power cut
            ::close(f);
        }
    }

private:
    [[noreturn]] void fail(const char* what) {
        const std::string reason = std::strerror(errno);
        if (file_ >= 0) ::close(std::exchange(file_, -1));
        ::unlink(temporary_.c_str());
        throw Error("file '" + path_.string() + "' " + what + ": " + reason +
                    ". What stood there before is untouched. Free some space or choose another "
                    "folder.");
    }

    std::filesystem::path path_;
    std::string temporary_;
    int file_ = -1;
};

}  // namespace detail

/// Writes text whole or not at all: a temporary file, fsync, rename.
/// Errors: gx::Error naming the file; an older file of that name is then untouched.
GX_COLD inline void write_file(const std::filesystem::path& path, std::string_view text) {
    detail::AtomicFile file(path);
    file.write(text.data(), text.size());
    file.commit();
}

}  // namespace gx
