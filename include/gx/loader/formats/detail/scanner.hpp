// Scanner: reads a shard from record to record while its index is made, skipping images.
#pragma once

#include <algorithm>     // min
#include <array>         // kinds of compression
#include <cstdint>       // uint64_t
#include <filesystem>    // filesystem
#include <set>           // files
#include <span>          // bytes
#include <string>        // names
#include <string_view>   // the first bytes
#include <system_error>  // of paths
#include <utility>       // move
#include <vector>        // window

#include <fmt/core.h>  // sentences

#include <gx/core/error.hpp>                    // Error
#include <gx/io/random_access_file.hpp>         // RandomAccessFile
#include <gx/loader/formats/encoded_files.hpp>  // Index

namespace gx::detail::encoded {

/// Views of one shard through a window of 16 KiB.
class Scanner {
public:
    explicit Scanner(const std::filesystem::path& path) : file_(path), window_(1 << 14) {}

    [[nodiscard]] std::uint64_t bytes() const { return file_.bytes(); }
    /// Up to `count` bytes from `at` on, fewer at the end; valid until the next call.
    [[nodiscard]] std::span<const std::uint8_t> view(std::uint64_t at, std::size_t count) {
        if (at < begin_ || at + count > begin_ + filled_) {
            if (count > window_.size()) window_.resize(count);
            begin_ = at;
            filled_ = file_.read(at, window_);
        }
        const auto offset = std::size_t(at - begin_);
        return std::span(window_).subspan(offset, std::min(count, filled_ - offset));
    }

private:
    RandomAccessFile file_;
    std::vector<std::uint8_t> window_;
    std::uint64_t begin_ = 0;
    std::size_t filled_ = 0;
};

/// `first`: the first ten bytes of a file, or fewer if it is shorter.
/// Errors: gx::Error for a file that gzip, bzip2, xz or zstd has compressed.
inline void expect_uncompressed(std::span<const std::uint8_t> first, const std::string& file) {
    struct Kind {
        std::string_view name;
        std::size_t at;
        std::string_view magic;
    };
    constexpr std::array<Kind, 4> kinds{{{"gzip", 0, "\x1f\x8b"},
                                         {"bzip2", 4, "1AY&SY"},
                                         {"xz", 0, "\xfd\x37zXZ"},
                                         {"zstd", 0, "\x28\xb5\x2f\xfd"}}};
    const std::string_view begin(reinterpret_cast<const char*>(first.data()), first.size());
    for (const Kind& k : kinds)
        if (begin.size() > k.at && begin.substr(k.at).starts_with(k.magic))
            throw Error(
                fmt::format("gx: '{}' is compressed by {}: expected a plain file, whose images are "
                            "read at their places. Decompress it.",
                            file, k.name));
}

/// An index of `paths`, in their order. scan(index, number, scanner) adds the records of one.
/// Errors: gx::Error for a path that is given twice; as Index::name_classes and as scan's.
template <class Scan>
[[nodiscard]] Index index_of(std::span<const std::filesystem::path> paths,
                             const EncodedOptions& options, Extract extract, const Scan& scan) {
    Index index;
    index.options = options;
    index.extract = std::move(extract);
    if (paths.empty())
        throw Error("gx: a source of 0 files: expected at least one. Check the pattern of names.");
    index.name_classes(paths);
    std::set<std::filesystem::path> files;  // however they are spelt, and behind links
    for (const auto& path : paths) {
        std::error_code unknown;  // is said where the file is opened
        const auto file = std::filesystem::weakly_canonical(path, unknown);
        if (!files.insert(unknown ? path : file).second)
            throw Error("gx: '" + path.string() +
                        "' is given twice: its samples would count twice. Name it once.");
        Scanner scanner(path);
        const auto number = std::uint32_t(index.files.size());
        index.files.push_back(path.string());
        index.file_bytes.push_back(scanner.bytes());
        try {
            if (scanner.bytes() == 0) index.corrupt(number, 0, "the file is empty: it has 0 bytes");
            scan(index, number, scanner);
        } catch (const CorruptRecord& e) {
            index.skip(e);  // the rest of the file
        }
    }
    index.finish();
    return index;
}

}  // namespace gx::detail::encoded
