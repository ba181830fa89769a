#include "plan_cache.hpp"

#include <fcntl.h>   // open
#include <unistd.h>  // close

#include <cctype>        // isdigit
#include <chrono>        // age of a file
#include <cstdlib>       // getenv
#include <cstring>       // memcpy
#include <random>        // names of temporary files
#include <span>          // hash_bytes
#include <string_view>   // bytes
#include <system_error>  // error_code
#include <thread>        // sleep_for
#include <utility>       // move

#include <gx/core/error.hpp>      // Error
#include <gx/core/hash_bits.hpp>  // hash_bytes
#include <gx/io/atomic_file.hpp>  // write_file
#include <gx/io/folder_lock.hpp>  // take_lock
#include <gx/io/read_file.hpp>    // read_file

namespace gx::cuda::detail {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view format = "gx plans of cuDNN 1\n";

std::uint64_t hash_of(std::uint64_t key, std::string_view plan) {
    std::string bytes(reinterpret_cast<const char*>(&key), sizeof key);
    bytes += plan;
    return hash_bytes(std::as_bytes(std::span(bytes)));
}
void append(std::string& text, std::uint64_t number) {
    text.append(reinterpret_cast<const char*>(&number), sizeof number);
}
/// Takes a number off the begin; false where there is none.
bool take(std::string_view& text, std::uint64_t& number) {
    if (text.size() < sizeof number) return false;
    std::memcpy(&number, text.data(), sizeof number);
    text.remove_prefix(sizeof number);
    return true;
}

std::string text_of(const std::string& identity, const std::map<std::uint64_t, std::string>& all) {
    std::string text = std::string(format) + identity + '\n';
    append(text, all.size());
    for (const auto& [key, plan] : all) {
        append(text, key);
        append(text, plan.size());
        append(text, hash_of(key, plan));
        text += plan;
    }
    return text;
}

/// Lets one saver at a time into a folder, where its file system has locks: else plans of savers at
/// the same time may be lost. Waits 1 s at most, since a process that holds it may be stopped.
class SaversTurn {
public:
    explicit SaversTurn(const fs::path& folder)
        : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
        for (int tries = 0; tries < 100 && folder_ >= 0; ++tries) {
            if (gx::detail::take_lock(folder_)) return;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
    }
    SaversTurn(const SaversTurn&) = delete;
    SaversTurn& operator=(const SaversTurn&) = delete;
    ~SaversTurn() {
        if (folder_ >= 0) ::close(folder_);
    }

private:
    int folder_;
};

/// Temporary files that are an hour old, of savers that were killed.
void remove_left(const fs::path& file) {
    const std::string begin = file.filename().string() + ".";
    const auto old = fs::file_time_type::clock::now() - std::chrono::hours(1);
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(file.parent_path(), none)) {
        const std::string name = entry.path().filename().string();
        if (name.starts_with(begin) && name.size() > begin.size() &&
            std::isdigit(static_cast<unsigned char>(name[begin.size()])) != 0 &&
            entry.last_write_time(none) < old)
            fs::remove(entry.path(), none);
    }
}

const char* variable(const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
}

}  // namespace

fs::path PlanCache::folder() {
    if (std::getenv("GX_CACHE") != nullptr) return variable("GX_CACHE");
    if (const fs::path cache = variable("XDG_CACHE_HOME"); cache.is_absolute()) return cache / "gx";
    const fs::path home = variable("HOME");
    return home.is_absolute() ? home / ".cache" / "gx" : fs::path();
}

PlanCache::PlanCache(fs::path file, std::string identity)
    : file_(std::move(file)), identity_(std::move(identity)) {
    read();
}

void PlanCache::warn(const std::string& sentence) {
    if (warning_.empty()) warning_ = "plans of cuDNN are made anew: " + sentence;
}

void PlanCache::read() {
    std::error_code none;
    if (!fs::exists(file_, none)) return;
    try {
        if (fs::is_fifo(file_, none))
            throw Error("'" + file_.string() + "' is a pipe, which nothing may ever write to.");
        const std::string text = read_file(file_, bytes_most);
        const std::size_t end = parse(text, rewrites_);
        if (rewrites_)
            warn("'" + file_.string() + "' is damaged, truncated or of another version from byte " +
                 std::to_string(end) + " on, behind " + std::to_string(found_.size()) +
                 " plans. It is written again.");
    } catch (const Error& e) {
        rewrites_ = true;
        warn(e.what());
    }
}

/// Returns the end of what it can read, and whether that is not all that should be there.
std::size_t PlanCache::parse(const std::string& file, bool& is_damaged) {
    is_damaged = true;
    const std::string head = std::string(format) + identity_ + '\n';
    std::uint64_t count = 0;
    std::string_view left = file;
    if (!left.starts_with(head)) return 0;
    left.remove_prefix(head.size());
    if (!take(left, count)) return 0;
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::size_t begin = file.size() - left.size();
        std::uint64_t key = 0, bytes = 0, hash = 0;
        if (!take(left, key) || !take(left, bytes) || !take(left, hash) || bytes > left.size() ||
            hash_of(key, left.substr(0, bytes)) != hash)
            return begin;
        found_[key] = left.substr(0, bytes);
        left.remove_prefix(bytes);
    }
    is_damaged = !left.empty();
    return file.size() - left.size();
}

const std::string* PlanCache::find(std::uint64_t key) const {
    const auto at = found_.find(key);
    return at == found_.end() ? nullptr : &at->second;
}
void PlanCache::keep(std::uint64_t key, std::string plan) {
    if (!file_.empty()) kept_[key] = std::move(plan);
}
void PlanCache::refuse(std::uint64_t key, const std::string& why) {
    found_.erase(key);
    warn("cuDNN does not take a plan of '" + file_.string() + "': " + why +
         ". It is written again.");
}

void PlanCache::save() {
    if (kept_.empty() && !rewrites_) return;
    std::error_code error;
    fs::create_directories(file_.parent_path(), error);
    const SaversTurn lock(file_.parent_path());
    remove_left(file_);
    PlanCache saved;
    saved.file_ = file_;
    saved.identity_ = identity_;
    saved.read();
    Plans all = kept_;
    all.merge(saved.found_);
    std::string text = text_of(identity_, all);
    if (text.size() > bytes_most) text = text_of(identity_, kept_);
    if (text.size() <= bytes_most) write(text);
    found_.merge(kept_);
    kept_.clear();
    rewrites_ = false;
}

/// A name of its own, so that savers without a lock do not meet.
void PlanCache::write(const std::string& text) {
    std::random_device random;
    const fs::path temporary =
        file_.string() + "." + std::to_string(random()) + std::to_string(random());
    std::error_code error;
    try {
        write_file(temporary, text);
        fs::rename(temporary, file_, error);
        if (error) warn("'" + file_.string() + "' can't be replaced: " + error.message() + ".");
    } catch (const Error& e) {
        warn(std::string(e.what()) +
             " Set GX_CACHE to a folder that can be written, or to nothing.");
    }
    fs::remove(temporary, error);
}

}  // namespace gx::cuda::detail
