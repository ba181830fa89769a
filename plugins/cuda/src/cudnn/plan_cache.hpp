// PlanCache: serialised plans of cuDNN, kept in a file between runs.
#pragma once

#include <cstddef>     // size_t
#include <cstdint>     // uint64_t
#include <filesystem>  // path
#include <map>         // plans
#include <string>      // plans

namespace gx::cuda::detail {

/// Plans by a hash of what they compute, in one file for each `identity`: the kind of GPU, the
/// driver, and the version of cuDNN.
///
///     "gx plans of cuDNN 1\n" identity "\n" count entries      count: 8 bytes, as all numbers
///     entry: key, bytes of the plan, XXH3 of key and plan, plan   the host's order of bytes
///
/// Errors: none; a cache without a file finds nothing and keeps nothing. A file that is damaged,
///         truncated, of another identity, or can't be read or written costs planning anew, and
///         warning() holds a sentence; of a damaged one, entries in front of the damage are found.
/// Threads: several processes and threads may have a cache of one file. Each reads a whole one, and
///         save() replaces it at once, one saver after the other where the file system has locks;
///         else plans of those that save at the same time may be lost. It removes what savers have
///         left that were killed.
class PlanCache {
public:
    /// No file.
    PlanCache() = default;
    PlanCache(std::filesystem::path file, std::string identity);

    /// nullptr where there is none.
    [[nodiscard]] const std::string* find(std::uint64_t key) const;
    void keep(std::uint64_t key, std::string plan);
    /// cuDNN does not take a plan that was found.
    void refuse(std::uint64_t key, const std::string& why);
    /// Writes what was kept since the last save, with what others have saved. No-op for nothing.
    void save();

    /// Of the first trouble; empty: none.
    [[nodiscard]] const std::string& warning() const { return warning_; }

    /// $GX_CACHE, $XDG_CACHE_HOME/gx or $HOME/.cache/gx; empty where GX_CACHE is, or none is set.
    /// Source: XDG Base Directory Specification 0.8; relative paths in XDG_CACHE_HOME are ignored.
    [[nodiscard]] static std::filesystem::path folder();
    /// More are not written: the plans of earlier runs are dropped.
    static constexpr std::size_t bytes_most = std::size_t{64} << 20;

private:
    using Plans = std::map<std::uint64_t, std::string>;
    void read();
    [[nodiscard]] std::size_t parse(const std::string& file, bool& is_damaged);
    void write(const std::string& text);
    void warn(const std::string& sentence);

    std::filesystem::path file_{};
    std::string identity_{};
    Plans found_{}, kept_{};
    bool rewrites_ = false;  ///< not all of the file could be read
    std::string warning_{};
};

}  // namespace gx::cuda::detail
